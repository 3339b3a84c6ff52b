"""Throughput accelerators that a host drives operator by operator: GPUs, TPUs and their like.

Operators are priced by the models that measured ones are (`engine.devices.gpu.operators`), with the constants of a
part's generation, or with those that follow from its data sheet and the family's parameters. Estimates, for one device
of a homogeneous group.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.devices.common.cached import remembered
from engine.devices.common.contract import Compiled, DeviceFamily, Fit, PhaseCost
from engine.devices.common.counts import records
from engine.devices.common.footprint import footprint
from engine.devices.common.host_work import PARSING, parsed_on_host
from engine.devices.common.job import Job
from engine.devices.common.kv_cache import kv_format
from engine.devices.common.model_file import model_file, runtimes
from engine.devices.common.offer import CollectiveWire
from engine.devices.common.parallel import PARALLEL
from engine.devices.common.setting import PricedField
from engine.devices.gpu import price as P
from engine.devices.gpu.flags import EXPERT, ROLE, phase_table
from engine.devices.gpu.layout import L
from engine.devices.gpu.operators.collective import wire_form
from engine.devices.gpu.part import activation_bits, offchip, peak, wide_format
from engine.devices.gpu.points import price_points
from engine.devices.gpu.record import expert_note, issue, own_constants, record
from engine.kernels.jit import for_points
from hardware_specs.schema import Device
from model_zoo.ops import Graph


def formats(device: Device) -> tuple[str, ...]:
    """Formats with a dense peak on this part, widest throughput last to first, and of weights alone beside 16 bit."""
    order = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4")
    weights = ("w8a16", "w4a16") if {"bf16", "fp16"} & set(device.peak) else ()
    return tuple(f for f in order if f in device.peak) + weights


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this device can't run the graph, or None."""
    for op in graph.ops:
        if op.kind == "BinaryGemm":
            return f"{device.name} has no model of binary layers; use a CPU or the SmartNIC for {op.name}."
    return None


@remembered(lambda job: job.whole_key)
def place(job: Job) -> tuple[Fit, ...]:
    """Demand on the memory that holds the network."""
    level = offchip(job.device)
    need = footprint(job, wide=wide_format(job.device, job.format), fused=job.switches["fuse"])
    holds = "weights, state and activations" if need.state else "weights and activations"
    return (Fit(level.name, level.role, need.total, level.capacity.si, holds, state_bytes=need.state),)


def tables(job: Job) -> tuple[np.ndarray]:
    """Counts of a job's operators, and what its kernels do with them."""
    return (phase_table(job.phase),)


def idles(device: Device, model: Mapping[str, float]) -> float | None:
    """What one device draws while it works, whatever the work. [W] An estimate; None where no limit is published."""
    return None if device.power.max is None else model["idle_share"] * device.power.max.si


def points(lo: int, hi: int, rows: np.ndarray, times: np.ndarray, table: np.ndarray, *designs: Any) -> None:
    """`Compiled.points`."""
    for_points(price_points, hi - lo)(lo, hi, rows, times, table, *designs, np.empty((len(table), P.WIDTH)))


def price(job: Job) -> PhaseCost:
    """Cost of one pass on one device. An estimate."""
    (table,) = tables(job)
    detail, rec = np.zeros((table.shape[0], P.WIDTH)), record(job)
    sizes = np.array([job.sizes], dtype=np.float64).T.copy()
    once, sums = np.ones(len(job.rows)), np.zeros((P.DRAWN + 1, 1))
    for_points(price_points)(0, 1, job.rows, once, table, float(job.ways), sizes, records([rec]), sums, detail)
    out = detail[job.rows]
    peaks = (peak(job.device, format) for format in (job.format, wide_format(job.device, job.format)))
    roofs = np.array([*peaks, 1.0 / rec[L.lanes_s]])[out[:, P.RATE].astype(int)]
    low, wide, lanes = (
        float(out[out[:, P.RATE] == rate, P.WORK].sum() * rec[row])
        for row, rate in ((L.low_j, P.LOW), (L.wide_j, P.WIDE), (L.lanes_j, P.LANES_RATE))
    )
    far, near = (float(out[:, at].sum() * rec[row]) for at, row in ((P.MOVED, L.far_j), (P.NEAR, L.near_j)))
    joules = {"matrix units": low + wide, "vector lanes": lanes, "memory": far, "cache": near}
    traffic = out[:, P.MOVED], out[:, P.NEAR]
    notes = (expert_note(job),) if (table[job.rows, ROLE] == EXPERT).any() else ()
    return PhaseCost(out[:, :6], out[:, P.WORK], roofs, *traffic, joules=joules, op_joules=out[:, P.DRAWN], notes=notes)


_RUNTIMES = runtimes(__file__)


def _runtimes_of(graph: Graph) -> tuple[str, ...]:
    """Runtimes of a network; what serves one token after another is for those that make such in passes of their own."""
    decodes = any(phase.repeat.o for phase in graph.phases)
    return tuple(name for name, setting in _RUNTIMES.items() if decodes or not (setting.prompts or setting.engine))


RUNTIME = PricedField(
    needs="operators",
    settings=_RUNTIMES,
    offers=lambda graph, _: _runtimes_of(graph),
    assumption="The runtime sets which operators are fused and what launching costs, for prompts as for tokens unless "
    "it captures decoding alone; its switches stand back.",
)
FAMILY = DeviceFamily(
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    compiled=Compiled(record, tables, points),
    generation=own_constants,
    collective=CollectiveWire(wide_format, wire_form, issue),
    idles=idles,
    fields={"kv_format": kv_format(activation_bits), "runtime": RUNTIME, **PARALLEL},
    request=parsed_on_host,
    **model_file(__file__, before=PARSING),
)
