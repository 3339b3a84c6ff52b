"""Throughput accelerators that a host drives operator by operator: GPUs, TPUs and their like.

An op *demands* arithmetic, bytes and a launch, which follow from the network and its mapping; a device *supplies*
them at rates. An op takes the slower of arithmetic and memory traffic, each at the share of its peak that such parts
reach, plus what launching it costs.
Estimates, for one device of a homogeneous group.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from engine.devices.common.column import smaller
from engine.devices.common.contract import Compiled, DeviceFamily, Fit, Job, Parameter, PhaseCost, Switch
from engine.devices.common.footprint import footprint
from engine.devices.common.kv_cache import kv_format
from engine.devices.gpu.eager import kernels
from engine.devices.gpu.model import (
    BYTES,
    DEMANDS,
    NEAR,
    RATE,
    RUNS,
    WORK,
    demand_ops,
    price_points,
    supply_ops,
)
from engine.scenario.formats import BITS, WEIGHT_ONLY
from hardware_specs.schema import Device
from model_zoo import table as T
from model_zoo.ops import Graph, Phase


def formats(device: Device) -> tuple[str, ...]:
    """Formats with a dense peak on this part, widest throughput last to first, and of weights alone beside 16 bit."""
    order = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4")
    weights = ("w8a16", "w4a16") if {"bf16", "fp16"} & set(device.peak) else ()
    return tuple(f for f in order if f in device.peak) + weights


def compute_format(device: Device, format: str) -> str:
    """Format the arithmetic runs in: weights stored narrower alone are widened on their way to it."""
    return next(f for f in ("bf16", "fp16") if f in device.peak) if format in WEIGHT_ONLY else format


def peak(device: Device, format: str) -> float:
    """Dense peak of one device in a format. [FLOP/s] A bound."""
    return device.peak[compute_format(device, format)].si


def wide_format(device: Device, format: str) -> str:
    """Format of ops that may not run in the scenario's one: 16-bit where the part has it, else its widest."""
    if BITS[format] >= 16:
        return format
    return next((f for f in ("bf16", "fp16", "fp32") if f in device.peak), format)


def activation_bits(device: Device, format: str) -> tuple[float, float]:
    """Stored bits of an activation, and of state, of ops in the scenario's format and of those that stay wide. [bit]"""
    wide = BITS[wide_format(device, format)]
    return wide if format in WEIGHT_ONLY else BITS[format], wide


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this device can't run the graph, or None."""
    for phase in graph.phases:
        for op in phase.ops:
            if op.kind == "BinaryGemm":
                return f"{device.name} has no model of binary layers; use a CPU or the SmartNIC for {op.name}."
    return None


def _offchip(device: Device):
    """The level that holds the network: the largest off-chip memory, or the on-chip one of a part without any."""
    levels = [m for m in device.memory if m.role == "offchip"] or list(device.memory)
    return max(levels, key=lambda m: m.capacity.si)


def place(job: Job) -> tuple[Fit, ...]:
    """Demand on the memory that holds the network."""
    level = _offchip(job.device)
    need = footprint(job, wide=wide_format(job.device, job.format), fused=job.switches["fuse"])
    holds = "weights, state and activations" if need.state else "weights and activations"
    return (Fit(level.name, level.role, need.total, level.capacity.si, holds, state_bytes=need.state),)


def _gpu(job: Job):
    gpu = job.device.gpu
    assert gpu is not None
    return gpu


def _vector_peak(job: Job) -> float:
    device = job.device
    if "fp32" in device.peak:
        return device.peak["fp32"].si
    return peak(device, wide_format(device, job.format)) * job.model["vector_share"]


def _bandwidth(job: Job) -> float:
    level = _offchip(job.device)
    return level.bandwidth.si if level.bandwidth else float("inf")


def _achieved(job: Job, format: str) -> float:
    """Share of the dense peak that large products reach. [-]

    Measured on this part in this format; else the part's least share in another format of 16 bits or fewer, as clock,
    power limit and libraries are the same; else the class figure. A what-if of the peak keeps the share.
    """
    device, measured = job.device, _gpu(job).achieved_peak
    shares = {f: smaller(1.0, q.si / device.peak[f].catalog_si) for f, q in measured.items() if f in device.peak}
    if format in shares:
        return shares[format]
    kin = [share for f, share in shares.items() if BITS[f] <= 16]
    return min(kin) if kin and BITS[format] <= 16 else job.model["matmul_efficiency"]


def _launch(job: Job) -> float:
    launch = _gpu(job).kernel_launch
    return launch.si if launch else job.model["op_latency"]


def _issue(job: Job) -> float:
    overhead = _gpu(job).op_overhead
    return (overhead.si if overhead else job.model["op_issue"]) * job.model["launches_per_op"]


def _units(job: Job) -> float:
    units = _gpu(job).units
    return units.si if units else job.model["units"]


def _side(job: Job, format: str) -> float:
    """Least rows and columns a matmul's tile is filled up to: plain fp32 has no matrix units to fill."""
    side = _gpu(job).tile_side
    return 1.0 if format == "fp32" else (side.si if side else job.model["tile_side"])


def _cache(job: Job) -> float:
    cache = max((m.capacity.si for m in job.device.memory if m.role == "onchip"), default=0.0)
    return cache if _offchip(job.device).role == "offchip" else 0.0


def _roofs(job: Job) -> tuple[float, float, float]:
    """Dense peaks that ops are held against, by RATE. [FLOP/s]"""
    return peak(job.device, job.format), peak(job.device, wide_format(job.device, job.format)), _vector_peak(job)


def record(job: Job) -> tuple[float, ...]:
    """What the compiled model reads of device, model and switches: in the order of `engine.devices.gpu.model.FIELDS`.

    SI; of what is supplied [s/FLOP], [s/B], [s].
    """
    device, model, switches = job.device, job.model, job.switches
    kept, wide = (bits / 8 for bits in activation_bits(device, job.format))
    narrow, rest = compute_format(device, job.format), wide_format(device, job.format)
    return (
        _units(job),
        BITS[job.format] / 8,
        kept,
        wide,
        _cache(job),
        float(switches["fuse"]),
        _side(job, narrow),
        _side(job, rest),
        float(switches["graph"]),
        model["split_ops"],
        model["matmul_starts"],
        1.0 / (peak(device, job.format) * _achieved(job, narrow)),
        1.0 / (peak(device, rest) * _achieved(job, compute_format(device, rest))),
        1.0 / _vector_peak(job),
        1.0 / (_bandwidth(job) * model["memory_efficiency"]),
        _launch(job),
        0.0 if switches["graph"] else _issue(job),
    )


def tables(job: Job) -> tuple[np.ndarray, np.ndarray]:
    """Counts of a job's operators, and what an eager framework launches for each."""
    return T.lower(job.phase), _kernels(job.phase)


@lru_cache(maxsize=2048)
def _kernels(phase: Phase) -> np.ndarray:
    return kernels(phase.ops, 1.0)


def demand(job: Job) -> np.ndarray:
    """What a job's ops ask of one device, shape (n_ops, DEMANDS)."""
    out, sizes = np.zeros((len(job.ops), DEMANDS)), (float(job.batch), job.length, job.context)
    demand_ops(job.rows, *tables(job), *sizes, float(job.ways), np.array(record(job)), out)
    return out


def price(job: Job) -> PhaseCost:
    """Cost of one pass on one device. An estimate."""
    asked = demand(job)
    seconds = np.zeros((asked.shape[0], 6))
    supply_ops(asked, np.array(record(job)), seconds)
    runs, roofs = asked[:, RUNS], np.array(_roofs(job))[asked[:, RATE].astype(int)]
    return PhaseCost(seconds, runs * asked[:, WORK], roofs, runs * asked[:, BYTES], runs * asked[:, NEAR])


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
    compiled=Compiled(record, tables, price_points),
    issue=lambda job: 0.0 if job.switches["graph"] else _issue(job),
    exchanged=wide_format,
    fields={"kv_format": kv_format(activation_bits)},
    parameters=(
        Parameter("matmul_efficiency", 0.80, "1", "published",
                  "Largest matmul rate measured on A100, H100, B200, MI300X, Gaudi over dense peak: 0.72 to 0.87.",
                  source="public matmul-FLOPS finder tables of the ml-engineering handbook; a part's own figure wins",
                  low=0.01, high=1.0),
        Parameter("memory_efficiency", 0.85, "1", "assumed",
                  "Streams reach 0.8 to 0.93 of the HBM or GDDR peak on every part we have seen measured.",
                  low=0.01, high=1.0),
        Parameter("op_latency", 3e-6, "s", "published", "A small memory-bound operator in a captured graph.",
                  source="empirical constant of NVIDIA's serving-configuration tables"),
        Parameter("matmul_starts", 2.0, "1", "assumed",
                  "Fixed time of a matmul or convolution in a captured graph over that of a small operator: its "
                  "pipeline fills from memory, and sums of split products or the last blocks drain after it. The "
                  "shortest library calls take 5 to 8 us.", low=1.0),
        Parameter("op_issue", 20e-6, "s", "published", "One operator issued by an eager framework.",
                  source="vendor figure for an element-wise launch from PyTorch"),
        Parameter("launches_per_op", 3.376, "1", "calibrated",
                  "Host time of one kernel in a model's code over that of a bare operator: views, checks and modules "
                  "around it.", claims=("DFX-006",)),
        Parameter("split_ops", 1.0, "1", "assumed",
                  "1: an eager framework runs an operator as the kernels counted in a layer of Megatron-LM; 0: as one.",
                  high=1.0),
        Parameter("collective_latency", 1e-6, "s", "published",
                  "Start of a collective in a captured graph: a node of the graph. What a step takes is the link's.",
                  source="notes to the measured tables of aiconfigurator, commit 095f58a5: about 1 us a graph node"),
        Parameter("vector_share", 1 / 16, "1", "assumed", "Vector over matrix rate where no FP32 peak is printed.",
                  low=1e-4, high=1.0),
        Parameter("tile_side", 16.0, "1", "assumed",
                  "Least rows and columns of a matrix instruction where the spec lists none: 16 by 8 here.",
                  low=1.0, high=128.0),
        Parameter("units", 108.0, "1", "assumed", "Streaming multiprocessors or their like where the spec lists none.",
                  low=1.0),
    ),
    assumptions=(
        "Arithmetic and memory traffic of an operator overlap; operators do not overlap each other.",
        "Weights stored narrower than they are computed with are widened on the fly, at no cost of their own.",
        "Activations that fit in half of the last-level cache never reach off-chip memory.",
    ),
    switches=(
        Switch("graph", "Captured graph", "Operators are launched as one graph, not one by one from a framework."),
        Switch("fuse", "Fused operators",
               "Element-wise operators ride in their producer; what joins, cuts or transposes tensors is laid out by "
               "its neighbours; scores stay on chip."),
    ),
)  # fmt: skip
