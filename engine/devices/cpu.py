"""Multicore CPUs: cores shared by streams, SIMD by format, a cache hierarchy, and a framework that issues operators.

A stream owns ``cores / streams`` cores. A product of matrices first streams its weights (one row is multiplied on the
way, so a matrix-vector product costs what its weights cost) and then works from cache at a share of the SIMD peak.
What an operator reads and writes comes from L2, the last-level cache or DRAM by how much of it fits. Lookups pay
latency over the misses a core keeps in flight. A framework adds a cost per operator and per sample. All estimates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.devices import cpu_model as M
from engine.devices.family import DeviceFamily, Fit, Job, Knob, PhaseCost
from engine.devices.footprint import footprint
from engine.formats import BITS
from hardware_specs.schema import Cpu, Device, MemoryLevel
from model_zoo import table as T
from model_zoo.ops import Graph, Phase

__all__ = ["FAMILY", "instructions_per_cycle", "pipeline_use"]

LINE = 64.0  # bytes of a cache line
_LOOKUPS = ("Gather", "EmbeddingBag")
REFERENCE_WIDTH = 64.0  # FLOP a cycle of the AVX-512 core on which `gemm_efficiency` was fitted


def formats(device: Device) -> tuple[str, ...]:
    """Formats its cores have arithmetic for, fastest first; binary where the spec gives a population-count rate."""
    cpu = _cpu(device)
    found = sorted((f for f in cpu.flop_per_cycle if f != "binary"), key=lambda f: -cpu.flop_per_cycle[f].si)
    return (*found, *(["binary"] if cpu.popcount_bits_per_cycle is not None else []))


def peak(device: Device, format: str) -> float:
    """Cores x clock on the widest units x operations a cycle. [FLOP/s] A bound; an xor-and-count is two operations."""
    cpu = _cpu(device)
    if format == "binary":
        if cpu.popcount_bits_per_cycle is None:
            return 0.0
        return cpu.cores.si * cpu.clock.si * 2.0 * cpu.popcount_bits_per_cycle.si
    return cpu.cores.si * _clock(device, format) * cpu.flop_per_cycle[format].si


def _clock(device: Device, format: str) -> float:
    cpu = _cpu(device)
    listed = cpu.vector_clock.get(format)
    return listed.si if listed is not None else cpu.clock.si


def _cpu(device: Device) -> Cpu:
    assert device.cpu is not None, device.id
    return device.cpu


def wide_format(device: Device, format: str) -> str:
    """Format of what may not run in the scenario's one: itself from 16 bits up, else BF16 or FP32."""
    if BITS[format] >= 16:
        return format
    return "bf16" if "bf16" in _cpu(device).flop_per_cycle and format != "binary" else "fp32"


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this CPU can't run the graph in that format, or None."""
    kinds = {op.kind for phase in graph.phases for op in phase.ops}
    binary = "BinaryGemm" in kinds or kinds == {"Sign"}  # the last part of a cut binary network may only compare
    if "BinaryGemm" in kinds and _cpu(device).popcount_bits_per_cycle is None:
        return f"{device.name} has no figure for xor-and-count (cpu.popcount_bits_per_cycle), which binary layers need."
    if format == "binary" and not binary:
        return f"{device.name} computes in binary only for networks with binary layers; choose another precision."
    if "fp32" not in _cpu(device).flop_per_cycle:
        return f"{device.name} lists no FP32 rate (cpu.flop_per_cycle.fp32), which element-wise operators need."
    return None


@dataclass(frozen=True)
class _Levels:
    """The hierarchy as the model sees it; bandwidths in B/s, capacities in B."""

    dram: MemoryLevel
    shared: float
    shared_latency: float | None
    shared_rate: float | None
    private: float  # of one core
    private_latency: float | None
    private_rate: float | None  # of one core


def _levels(device: Device) -> _Levels:
    off = [m for m in device.memory if m.role == "offchip"] or list(device.memory)
    shared = max((m for m in device.memory if m.role == "onchip" and m.per == "device"),
                 key=lambda m: m.capacity.si, default=None)  # fmt: skip
    private = max((m for m in device.memory if m.role == "onchip" and m.per == "core"),
                  key=lambda m: m.capacity.si, default=None)  # fmt: skip
    return _Levels(
        dram=max(off, key=lambda m: m.capacity.si),
        shared=shared.capacity.si if shared else 0.0,
        shared_latency=shared.latency.si if shared and shared.latency else None,
        shared_rate=shared.bandwidth.si if shared and shared.bandwidth else None,
        private=private.capacity.si if private else 0.0,
        private_latency=private.latency.si if private and private.latency else None,
        private_rate=private.bandwidth.si if private and private.bandwidth else None,
    )


def threads_of(job: Job) -> float:
    """Cores one stream runs on: the tile's first number, at most its share of the cores. [-]"""
    share = max(1.0, _cpu(job.device).cores.si // job.streams)
    return min(share, float(job.tile[0])) if job.tile else share


def _reach(cpu: Cpu, threads: float) -> tuple[float, float]:
    """Sockets a stream's threads lie on, and sockets there are. A stream stays on one socket if it fits there. [-]"""
    sockets = cpu.sockets.si if cpu.sockets is not None else 1.0
    return min(sockets, float(np.ceil(threads * sockets / cpu.cores.si))), sockets


def _parameters(job: Job) -> tuple[float, float]:
    """Bytes of the network's weights and of its lookup tables. [B]"""
    low, wide = BITS[job.format] / 8, BITS[wide_format(job.device, job.format)] / 8
    weights = tables = 0.0
    seen: set[str] = set()
    for phase in job.graph.phases:
        for op in phase.ops:
            if op.stored == 0 or op.name in seen:
                continue
            seen.add(op.name)
            size = op.stored * op.layers / (1 if op.shard == "none" else job.ways)
            if op.kind in _LOOKUPS:
                tables += size * wide
            elif op.kind == "BinaryGemm":
                weights += size / 8
            else:
                weights += size * (low if op.quantisable and job.format != "binary" else wide)
    return weights, tables


_SIZES: dict[tuple[int, str, str, int], tuple[Graph, float, float]] = {}


def _sizes(job: Job) -> tuple[float, float]:
    """`_parameters`, remembered per graph object."""
    key = (id(job.graph), wide_format(job.device, job.format), job.format, job.ways)
    known = _SIZES.get(key)
    if known is None or known[0] is not job.graph:
        if len(_SIZES) > 512:
            _SIZES.clear()
        known = _SIZES[key] = (job.graph, *_parameters(job))
    return known[1], known[2]


def place(job: Job) -> tuple[Fit, ...]:
    """DRAM must hold everything; the caches hold what they can."""
    levels = _levels(job.device)
    wide = wide_format(job.device, job.format)
    need = footprint(job, wide=wide, table_bits=BITS[wide])
    fits = [
        Fit(levels.dram.name, levels.dram.role, need.total, levels.dram.capacity.si, "weights, tables and activations")
    ]
    weights, tables = _sizes(job)
    if levels.shared:
        cached = weights + tables + need.activations
        fits.append(Fit("last-level cache", "onchip", cached, levels.shared, "weights, tables and activations", False))
    if levels.private:
        per_core = need.activations / job.streams / threads_of(job)
        fits.append(
            Fit("private cache", "onchip", per_core, levels.private, "one core's share of the activations", False)
        )
    return tuple(fits)


def record(job: Job) -> np.ndarray:
    """Flat record of a stream's share of the device, SI, in the order of `cpu_model.FIELDS`."""
    device, model, cpu = job.device, job.model, _cpu(job.device)
    levels, threads = _levels(device), threads_of(job)
    cores = cpu.cores.si
    wide = wide_format(device, job.format)
    low = wide if job.format == "binary" else job.format
    weights, tables = _sizes(job)
    one = cpu.core_bandwidth.si if cpu.core_bandwidth is not None else model["core_bandwidth"]
    if job.switches["cold"]:  # each page first costs a walk and the accesses before the prefetcher follows
        page = 4096.0
        one = page / (page / one + model["cold_page_misses"] * model["dram_latency"])
    reach, sockets = _reach(cpu, threads)
    bandwidth = levels.dram.bandwidth.si * model["dram_efficiency"] if levels.dram.bandwidth is not None else np.inf
    bandwidth *= reach / sockets / (1.0 + (1.0 - 1.0 / reach) * (1.0 / model["remote_share"] - 1.0))
    sharing = max(1.0, job.streams * reach / sockets)  # streams on the sockets this one uses
    shared = levels.shared * reach / sockets
    width = cpu.flop_per_cycle["fp32"].si
    efficiency = model["gemm_efficiency"] * (REFERENCE_WIDTH / width) ** model["width_exponent"]
    shared_rate = levels.shared_rate or cores * model["shared_bytes_per_cycle"] * cpu.clock.si
    cold = job.switches["cold"]
    framework = job.switches["framework"] and job.format != "binary"
    values = {
        "threads": threads,
        "low_peak": threads / cores * peak(device, low),
        "wide_peak": threads / cores * peak(device, wide),
        "binary_peak": threads / cores * peak(device, "binary"),
        "vector_rate": threads * cpu.clock.si * width / 4.0,  # a vector a cycle: its loads and its store take the ports
        "lanes_rate": threads * cpu.clock.si * width / 4.0,
        "clock": cpu.clock.si,
        "gemm_efficiency": min(model["efficiency_ceiling"], efficiency),
        "binary_efficiency": model["binary_efficiency"],
        "short_row": model["short_row"],
        "thin_input": model["thin_input"],
        "narrow_group": model["narrow_group"],
        "lanes": width / 4.0,
        "special_cycles": model["special_cycles"],
        "dram": min(threads * one, bandwidth / sharing),
        "shared_rate": threads * shared_rate / cores,
        "private_rate": threads * (levels.private_rate or model["private_bytes_per_cycle"] * cpu.clock.si),
        "private": threads * levels.private,
        "shared_share": shared / sharing,
        "shared": shared,
        "weights_total": np.inf if cold else weights,
        "tables_total": np.inf if cold else tables,
        "weight_bytes": BITS[low] / 8,
        "wide_bytes": BITS[wide] / 8,
        "quantised": float(BITS[low] < BITS[wide]),
        "private_latency": levels.private_latency or model["private_latency"],
        "shared_latency": levels.shared_latency or model["shared_latency"],
        "dram_latency": levels.dram.latency.si if levels.dram.latency is not None else model["dram_latency"],
        "misses": model["misses_in_flight"],
        "row_cycles": model["row_cycles"],
        "hash_cycles": model["hash_cycles"],
        "op_overhead": model["op_overhead"] if framework else 0.0,
        "barrier": model["barrier"] * np.log2(threads) if threads > 1 else 0.0,
        "fuse": float(job.switches["fuse"]),
        "fuse_requantise": float(job.switches["fuse-requantise"]),
        "fuse_gathers": float(job.switches["fuse-gathers"]),
        "prune": float(job.switches["prune"]),
        "preprocess_apart": float(job.switches["preprocess-apart"]),
        "dead_ops": model["dead_ops"],
        "dead_cycles": model["dead_cycles"],
        "write_allocate": model["write_allocate"],
    }
    return np.array([values[name] for name in M.FIELDS])


@dataclass(frozen=True)
class _Lowered:
    phase: Phase
    table: np.ndarray
    flags: np.ndarray
    rows: dict[str, int]


_LOWERED: dict[int, _Lowered] = {}


def lowered(phase: Phase) -> _Lowered:
    """Flat arrays of a phase, remembered per object (hashing a deep network costs more than pricing it)."""
    known = _LOWERED.get(id(phase))
    if known is None or known.phase is not phase:
        if len(_LOWERED) > 512:
            _LOWERED.clear()
        table = np.array(T.lower(phase))  # writable, as a part of it is: one compiled version serves both
        rows = {op.name: i for i, op in enumerate(phase.ops)}
        known = _LOWERED[id(phase)] = _Lowered(phase, table, M.flags_of(phase), rows)
    return known


def _handed_over(job: Job, flat: _Lowered) -> float:
    """Bytes that another executor produced and this part reads first: none of them is in its caches. [B]"""
    mine = {op.name for op in job.ops}
    needed = {name for op in job.ops for name in op.inputs if name in flat.rows and name not in mine}
    size = 0.0
    for name in needed:
        op = job.phase.ops[flat.rows[name]]
        bits = 1.0 if job.format == "binary" else BITS[wide_format(job.device, job.format)]
        size += op.writes.at(job.batch, job.length, job.context) * bits / 8
    return size


def price(job: Job) -> PhaseCost:
    """Cost of one pass of one stream, the other streams busy alike. An estimate."""
    flat = lowered(job.phase)
    table, flags = flat.table, flat.flags
    other: tuple[tuple[str, str, float], ...] = ()
    if len(job.ops) != len(job.phase.ops):
        drawn = _handed_over(job, flat) / LINE * job.model["handover_line"]
        other = (("input of this part drawn into its caches", "offchip", drawn),) if drawn else ()
        rows = np.array([flat.rows[op.name] for op in job.ops])
        table, flags = table[rows], flags[rows]
    out = np.zeros((table.shape[0], M.WIDTH))
    M.price_ops(table, flags, float(job.batch), job.length, job.context, float(job.ways), record(job), out)
    use = pipeline_use(job.device, float(out[:, M.BUSY].sum()), float(out[:, :6].sum()), job.model)
    notes = ()
    if use is not None:
        notes = (f"{job.device.name}, {job.phase.name}: about {use:.1f} instructions a cycle on a busy core",)
    return PhaseCost(
        out[:, :6], out[:, M.WORK], out[:, M.ROOF], out[:, M.MOVED], out[:, M.NEAR], other=other, notes=notes
    )


def pipeline_use(device: Device, busy_s: float, total_s: float, model) -> float | None:
    """Instructions a cycle: issue slots are `issue_share` full while arithmetic runs, empty while it waits. [1/cycle]

    `busy_s` is the arithmetic time within `total_s`. An IPC-like estimate; None where the spec lists no issue width.
    """
    width = _cpu(device).issue_width
    if width is None or total_s <= 0:
        return None
    return width.si * model["issue_share"] * min(1.0, busy_s / total_s)


def instructions_per_cycle(job: Job) -> float | None:
    """IPC-like measure of a job on one of its cores, see `pipeline_use`. [1/cycle]"""
    flat = lowered(job.phase)
    rows = np.array([flat.rows[op.name] for op in job.ops])
    out = np.zeros((len(rows), M.WIDTH))
    at = (float(job.batch), job.length, job.context, float(job.ways))
    M.price_ops(flat.table[rows], flat.flags[rows], *at, record(job), out)
    return pipeline_use(job.device, float(out[:, M.BUSY].sum()), float(out[:, :6].sum()), job.model)


def request(job: Job) -> tuple[tuple[str, str, float], ...]:
    """What a request costs beside its operators: samples handled by the framework, and the host's network path."""
    fixed: list[tuple[str, str, float]] = []
    if job.switches["framework"] and job.format != "binary":
        seconds = job.batch * job.model["sample_overhead"] / threads_of(job)
        fixed.append(("samples handled by the framework", "overhead", seconds))
    if job.switches["network"]:
        fixed.append(("request through NIC, PCIe and network stack, and back", "host", job.model["host_path"]))
    return tuple(fixed)


def knobs(device: Device) -> tuple[Knob, ...]:
    """Threads of a stream."""
    return (Knob("threads", "Threads of a stream", tuple(range(1, int(_cpu(device).cores.si) + 1))),)


FAMILY = DeviceFamily(
    kind="cpu",
    title="CPU",
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    parameters=M.PARAMETERS,
    assumptions=M.ASSUMPTIONS,
    request=request,
    knobs=knobs,
    switches=M.SWITCHES,
    max_streams=lambda device: int(_cpu(device).cores.si),
)
