"""What a format costs and brings on the soft processors: bits, bytes, peak, error, accuracy once and once retrained.

Sizes are exact, peaks bounds, errors and accuracies measurements of small networks run and trained here. Figures 6 and
7 of Chung et al., IEEE Micro 2018, are of production networks; these are of a public one.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.devices import family
from engine.devices.dfx import accuracy as dfx_accuracy
from engine.devices.dfx.core import core_record
from engine.devices.npu import accuracy as npu_accuracy
from engine.lab.numerics.retraining import RetrainedFormat, retrained
from engine.lab.timing import Progress
from hardware_specs.catalog import default_catalog

MACHINES = ("stratix-10-280-brainwave", "alveo-u280-dfx")


@dataclass(frozen=True)
class FormatCost:
    """One format on one machine. Peak [FLOP/s]; the error is relative, of a drawn network's state or logits. [-]"""

    machine: str
    format: str
    peak: float
    error: float
    accuracy: RetrainedFormat


def format_costs(
    machines: tuple[str, ...] = MACHINES, epochs: int = 3, progress: Progress | None = None
) -> tuple[FormatCost, ...]:
    """Every format of each machine, its own first; stops where `progress`, told of each, says so."""
    devices = [default_catalog().device(id) for id in machines]
    pairs = [(device, format) for device in devices for format in family(device.kind).formats(device)]
    costs: list[FormatCost] = []
    for device, format in pairs:
        if progress is not None and progress(len(costs), len(pairs)) is False:
            break
        fam, block = family(device.kind), 0
        if device.npu is not None:
            block = round((device.npu.block or device.npu.native_dim).si) if format.startswith("ms-fp") else 0
            error = npu_accuracy.accuracy("gru", format, block)[-1]
        else:
            record = core_record(device, None, 1, 1, (), fam.model(device), format=format)
            error = dfx_accuracy.accuracy(record, format).deviation
        costs.append(FormatCost(device.name, format, fam.peak(device, format), error, retrained(format, block, epochs)))
    return tuple(costs)
