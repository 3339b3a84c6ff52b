"""Throughput accelerators that a host drives operator by operator: GPUs, TPUs and their like.

Operators are priced by the models that measured ones are (`engine.devices.gpu.operators`), with the constants of a
part's generation, or with those that follow from its data sheet and the family's parameters. Estimates, for one device
of a homogeneous group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.devices.common.cached import remembered
from engine.devices.common.contract import (
    CollectiveWire,
    Compiled,
    DeviceFamily,
    Fit,
    Job,
    Parameter,
    PhaseCost,
    Switch,
)
from engine.devices.common.counts import records
from engine.devices.common.footprint import footprint
from engine.devices.common.host_work import PARSING, parsed_on_host
from engine.devices.common.kv_cache import kv_format
from engine.devices.common.parallel import PARALLEL
from engine.devices.gpu import price as P
from engine.devices.gpu.flags import EXPERT, ROLE, lowered
from engine.devices.gpu.record import (
    FIELDS_OF,
    activation_bits,
    expert_note,
    offchip,
    own_constants,
    peak,
    record,
    wide_format,
)
from engine.devices.gpu.runtime import RUNTIME
from engine.devices.gpu.wire import wired
from hardware_specs.schema import Device
from model_zoo.ops import Graph


def formats(device: Device) -> tuple[str, ...]:
    """Formats with a dense peak on this part, widest throughput last to first, and of weights alone beside 16 bit."""
    order = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4")
    weights = ("w8a16", "w4a16") if {"bf16", "fp16"} & set(device.peak) else ()
    return tuple(f for f in order if f in device.peak) + weights


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this device can't run the graph, or None."""
    for phase in graph.phases:
        for op in phase.ops:
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
    return (lowered(job.phase),)


def _roofs(job: Job) -> tuple[float, float, float]:
    """Dense peaks that ops are held against, by what `price` names RATE. [FLOP/s]"""
    return peak(job.device, job.format), peak(job.device, wide_format(job.device, job.format)), 1.0 / _LANES_S(job)


_LANES_S = FIELDS_OF[P.LANES_S]
_ISSUE = FIELDS_OF[P.ISSUE]


def idles(device: Device, model: Mapping[str, float]) -> float | None:
    """What one device draws while it works, whatever the work. [W] An estimate; None where no limit is published."""
    return None if device.power.max is None else model["idle_share"] * device.power.max.si


def points(lo: int, hi: int, rows: np.ndarray, times: np.ndarray, table: np.ndarray, *designs: Any) -> None:
    """`Compiled.points`."""
    P.price_points(lo, hi, rows, times, table, *designs, np.empty((len(table), P.WIDTH)))


def price(job: Job) -> PhaseCost:
    """Cost of one pass on one device. An estimate."""
    (table,) = tables(job)
    every, rec = np.zeros((table.shape[0], P.WIDTH)), record(job)
    sizes = np.array([job.sizes], dtype=np.float64).T.copy()
    once, sums = np.ones(len(job.rows)), np.zeros((P.DRAWN + 1, 1))
    P.price_points(0, 1, job.rows, once, table, float(job.ways), sizes, records([rec]), sums, every)
    out = every[job.rows]
    roofs = np.array(_roofs(job))[out[:, P.RATE].astype(int)]
    spent = dict.fromkeys(("matrix units", "vector lanes", "memory", "cache"), 0.0)
    for row, each in ((P.LOW_J, P.LOW), (P.WIDE_J, P.WIDE), (P.LANES_J, P.LANES_RATE)):
        unit = "vector lanes" if each == P.LANES_RATE else "matrix units"
        spent[unit] += float(out[out[:, P.RATE] == each, P.WORK].sum() * rec[row])
    spent["memory"], spent["cache"] = (
        float(out[:, at].sum() * rec[j]) for at, j in ((P.MOVED, P.FAR_J), (P.NEAR, P.NEAR_J))
    )
    moved = out[:, P.MOVED], out[:, P.NEAR]
    notes = (expert_note(job),) if (table[job.rows, ROLE] == EXPERT).any() else ()
    return PhaseCost(out[:, :6], out[:, P.WORK], roofs, *moved, joules=spent, drawn=out[:, P.DRAWN], notes=notes)


FAMILY = DeviceFamily(
    kind="gpu",
    title="GPU or TPU",
    label="GPU",
    sharded=True,
    layerwise=True,
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    compiled=Compiled(record, tables, points),
    own=own_constants,
    collective=CollectiveWire(wide_format, wired, _ISSUE),
    idles=idles,
    fields={"kv_format": kv_format(activation_bits), "runtime": RUNTIME, **PARALLEL},
    request=parsed_on_host,
    parameters=(
        *PARSING,
        Parameter("matmul_efficiency", 0.80, "1", "published",
                  "Largest matmul rate measured on A100, H100, B200, MI300X, Gaudi over dense peak: 0.72 to 0.87.",
                  source="public matmul-FLOPS finder tables of the ml-engineering handbook; a part's own figure wins",
                  low=0.01, high=1.0),
        Parameter("memory_efficiency", 0.85, "1", "assumed",
                  "Streams reach 0.8 to 0.93 of the HBM or GDDR peak on every part we have seen measured.",
                  low=0.01, high=1.0),
        Parameter("op_latency", 3e-6, "s", "published", "A small memory-bound operator in a captured graph.",
                  source="empirical constant of NVIDIA's serving-configuration tables"),
        Parameter("op_issue", 20e-6, "s", "published", "One operator issued by an eager framework.",
                  source="vendor figure for an element-wise launch from PyTorch"),
        Parameter("launches_per_op", 3.376, "1", "calibrated",
                  "Host time of one kernel in a model's code over that of a bare operator: views, checks and modules "
                  "around it.", claims=("DFX-006",)),
        Parameter("split_ops", 1.0, "1", "assumed",
                  "1: an eager framework runs an operator as the kernels counted in a layer of Megatron-LM; 0: as one.",
                  high=1.0),
        Parameter("collective_latency", 1e-6, "s", "published",
                  "Start of a collective in a captured graph: a node of the graph, or as measured on a generation.",
                  source="notes to the measured tables of aiconfigurator, commit 095f58a5: about 1 us a graph node"),
        Parameter("vector_share", 1 / 16, "1", "assumed", "Vector over matrix rate where no FP32 peak is printed.",
                  low=1e-4, high=1.0),
        Parameter("tile_side", 16.0, "1", "assumed",
                  "Least rows and columns of a matrix instruction where the spec lists none: 16 by 8 here.",
                  low=1.0, high=128.0),
        Parameter("cache_share", 0.6, "1", "assumed",
                  "Share of the last-level cache that a cyclic sweep finds again: 0.62 on A100 and H100, measured.",
                  low=0.01, high=1.5),
        Parameter("tile_reuse", 56.0, "FLOP/B", "derived",
                  "Arithmetic on a byte that a unit takes from its cache, which sets what the cache must deliver: "
                  "55, 56 and 60 fitted on A100, H100 and L40S, 64 in tiles of 128 by 128 of 16 bits.", low=1.0),
        Parameter("step_latency", 1e-9, "s", "derived",
                  "Latency of one element of a tile's chain along k: 0.6 to 1.5 ns fitted on four generations.",
                  high=1e-6),
        Parameter("block_start", 1e-6, "s", "assumed",
                  "Filling one thread block behind another: up to 3 us fitted on four generations.", high=1e-3),
        Parameter("idle_share", 0.2, "1", "assumed",
                  "Share of the board's limit that it draws while it works whatever the work: leakage, clocks, "
                  "refresh, fans. 0.1 to 0.3 of parts whose idle clocks run.", low=0.0, high=1.0),
        Parameter("memory_byte_j", 9e-11, "J", "assumed",
                  "A byte from off-chip memory to registers: 4 pJ/bit of an HBM's device and interface, 6 to 7 of "
                  "GDDR6, and the way over the die; makes decoding draw half the limit, as recalled. 30 to 150.",
                  high=1e-9),
        Parameter("cache_byte_j", 2.5e-11, "J", "assumed",
                  "A byte from the last-level cache to a unit's registers. 8 to 60 pJ/B.", high=1e-9),
        Parameter("lane_flop_j", 1e-11, "J", "assumed",
                  "A FLOP of the vector lanes with its instruction. 5 to 20 pJ.", high=1e-9),
        Parameter("wire_byte_j", 4e-11, "J", "assumed",
                  "A byte sent to a peer: 5 pJ/bit of a short electrical link. 10 to 80 pJ/B.", high=1e-9),
        Parameter("units", 108.0, "1", "assumed", "Streaming multiprocessors or their like where the spec lists none.",
                  low=1.0),
    ),
    assumptions=(
        "Arithmetic, cache and memory traffic of an operator overlap; operators do not overlap each other.",
        "What an operator reads lies in the last-level cache as far as that holds what was written since.",
        "Formats of 8 bits and fewer pay a kernel that finds scales and quantises an input; weights stored narrower "
        "are widened in every tile.",
    ),
    switches=(
        Switch("graph", "Captured graph", "Operators are launched as one graph, not one by one from a framework."),
        Switch("fuse", "Fused operators",
               "Attention is one kernel; element-wise operators ride in their producer's; what joins, cuts or "
               "transposes tensors is laid out by its neighbours; alike tables are read by one call."),
    ),
)  # fmt: skip
