"""Where the NPU's weights lie: pinned on chip by their stored bits, what does not fit in DRAM, lookups on the host.

Exact counts of bytes.
"""

import numpy as np

from engine.devices.common.cached import remembered
from engine.devices.common.column import as_doubles, columns_as, larger, numbers, smaller
from engine.devices.common.contract import Fit
from engine.devices.common.footprint import footprint
from engine.devices.common.job import Job
from engine.devices.npu.chains import TABLES
from engine.devices.npu.density import densities
from hardware_specs.schema import Device, MemoryLevel, Npu
from model_zoo.ops import LOOKUPS

EXPONENT = 5.0  # bits of a shared exponent
_MANTISSA = {f"ms-fp{bits + 6}": bits for bits in (2, 3, 4, 5)}

HOST_KINDS = frozenset(TABLES["host"])
"""Operators without an instruction: reductions across a vector, lookups, and data-dependent ones."""


_TABLE_BITS = 16.0  # of an element of a table: float16, as what the host hands over


def npu_of(device: Device) -> Npu:
    """The spec's soft processor."""
    assert device.npu is not None, device.id
    return device.npu


def formats(device: Device) -> tuple[str, ...]:
    """Formats of the dot products, its own first; everything else is float16.

    Where the part's fabric is known, wider block formats than its own too: images for them can be made.
    """
    names = tuple(f for f in (*_MANTISSA, "fp16", "int8") if f in device.peak)
    if not names or names[0] not in _MANTISSA or not densities(device):
        return names
    return names + tuple(f for f in _MANTISSA if _MANTISSA[f] > _MANTISSA[names[0]] and f not in names)


def stored_bits(device: Device, format: str) -> float:
    """Bits a weight takes on chip, exponent shared over a block: sign and mantissa. [bit]"""
    npu = npu_of(device)
    best = next(iter(formats(device)), format)
    exponent = 0.0  # of an exponent, where fewer values share it than those the listed bits count on
    if format in _MANTISSA and npu.block:
        exponent = EXPONENT * (1.0 / npu.block.si - 1.0 / npu.native_dim.si)
    return npu.weight_bits.si + exponent + _MANTISSA.get(format, 0) - _MANTISSA.get(best, 0)


def pinned_memory(device: Device) -> MemoryLevel:
    """The largest on-chip level."""
    return max((m for m in device.memory if m.role == "onchip"), key=lambda m: m.capacity.si)


def levels(device: Device) -> tuple[float, float, float | None, str, str]:
    """On-chip capacity [B], DRAM capacity [B] and bandwidth [B/s], and the names of both."""
    chip = pinned_memory(device)
    dram = next((m for m in device.memory if m.role == "offchip"), None)
    if dram is None:
        return chip.capacity.si, 0.0, None, chip.name, ""
    return chip.capacity.si, dram.capacity.si, dram.bandwidth.si if dram.bandwidth else None, chip.name, dram.name


def pins(device: Device, format: str) -> tuple[float, float]:
    """On-chip room for weights and the bits one takes. [B], [bit]"""
    return levels(device)[0], stored_bits(device, format)


def place(job: Job) -> tuple[Fit, ...]:
    """Weights pinned on chip by their stored bits, the rest in DRAM, if the board has any; tables with the host."""
    need = footprint(job, low_bits=stored_bits(job.device, job.format), table_bits=_TABLE_BITS)
    chip, dram, _, chip_name, dram_name = levels(job.device)
    demand = need.weights + need.state
    holds = "pinned weights and state"
    fits = [Fit(chip_name, "onchip", demand, chip, holds, required=not dram, state_bytes=need.state, rest=dram_name)]
    if dram:
        overflow = larger(0.0, demand - chip)
        fits.append(Fit(dram_name, "offchip", overflow, dram, "weights that are not pinned", state_bytes=need.state))
    if any(op.kind in LOOKUPS for op in job.ops):
        fits.append(Fit("host-dram", "offchip", need.tables, job.model["host_memory"], "embedding tables"))
    return tuple(fits)


@remembered(lambda of: (id(of[0].ops), id(of[0].graph), of[0].ways, *of[1:]))
def spills(of: tuple[Job, float, float]) -> np.ndarray:
    """Share of each op's weights read from DRAM, of a job, room [B] and bits a weight: pinned in the network's order.

    Numbers or columns. [-]
    """
    job, room, bits = of
    here = {op.name for op in job.ops}
    shares: dict[str, float] = {}
    for op in job.graph.ops:
        if op.name not in here or op.name in shares or op.stored == 0 or op.kind in HOST_KINDS:
            continue
        size = op.stored * op.layers * bits / 8 / (1 if op.shard == "none" else job.ways)
        on_chip = smaller(room, size)
        room -= on_chip
        shares[op.name] = 1.0 - on_chip / size
    return as_doubles(columns_as(numbers((len(job.ops),)), [shares.get(op.name, 0.0) for op in job.ops]))
