"""Throughput accelerators that a host drives operator by operator: GPUs, TPUs and their like.

An op *demands* arithmetic, bytes and a launch, which follow from the network and its mapping; a device *supplies*
them at rates. An op takes the slower of arithmetic and memory traffic, each at the share of its peak that such parts
reach, plus what launching it costs. Demand and supply are apart so that a sweep over rates prices a demand once.
Estimates, for one device of a homogeneous group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.devices.counts import at as _at
from engine.devices.family import DeviceFamily, Fit, Halves, Job, Parameter, PhaseCost, Switch
from engine.devices.footprint import footprint
from engine.devices.gpu_eager import kernels
from engine.formats import BITS, WEIGHT_ONLY
from engine.kernels.jit import inner, kernel
from engine.settle import WIDTH
from hardware_specs.schema import Device
from model_zoo import table as T
from model_zoo.ops import Graph

_FIELDS = ("units", "weight_bytes", "act_bytes", "wide_bytes", "cache", "fuse", "side", "wide_side")
UNITS, WEIGHT_BYTES, ACT_BYTES, WIDE_BYTES, CACHE, FUSE, SIDE, WIDE_SIDE = range(8)

# what an op demands of a device, per pass: the columns of a demand array
RATE, EFFORT, BYTES, RUNS, LAUNCHES, WORK, NEAR = range(7)
DEMANDS = 7
MATRIX, WIDE_MATRIX, LANES = range(3)  # values of RATE: which peak limits the arithmetic

# what a device supplies: rows of a supply array, one column a design point
SUPPLY = ("matrix_s", "wide_s", "lanes_s", "byte_s", "launch_s", "issue_s")  # seconds per FLOP, per byte, per op
MATRIX_S, WIDE_S, LANES_S, BYTE_S, LAUNCH_S, ISSUE_S = range(6)


@kernel
def _wave_share(g, m, n, k, units, side):
    """Share of a matmul's issue slots that do useful work: partial tiles, partial last wave; K splits to fill units."""
    side_m = min(128.0, max(side, side * np.ceil(m / side)))
    side_n = min(128.0, max(side, side * np.ceil(n / side)))
    tiles = g * np.ceil(m / side_m) * np.ceil(n / side_n)
    inside = (g * m * n) / (tiles * side_m * side_n)
    blocks = min(tiles * max(1.0, np.floor(k / 256.0)), max(tiles, units))
    return inside * blocks / (np.ceil(blocks / units) * units)


@kernel
def demand_ops(table, batch, length, context, ways, rec, out):
    """What each op of a phase asks of one device of ``ways``; fills ``out`` (n_ops, DEMANDS).

    EFFORT is FLOPs over the share of issue slots that do useful work, BYTES goes off chip, NEAR stays in the cache;
    all are per execution. RUNS is executions a pass. Depends on the mapping and sizes, on no rate; ``rec`` is `record`.
    """
    for j in range(table.shape[0]):
        shard = table[j, T.SHARD]
        g = _at(table, j, T.G, batch, length, context)
        m = _at(table, j, T.M, batch, length, context)
        n = _at(table, j, T.N, batch, length, context)
        k = _at(table, j, T.K, batch, length, context)
        flops = _at(table, j, T.FLOPS, batch, length, context)
        weights = _at(table, j, T.WEIGHTS, batch, length, context)
        reads = _at(table, j, T.READS, batch, length, context)
        writes = _at(table, j, T.WRITES, batch, length, context)
        state = _at(table, j, T.STATE_READS, batch, length, context)
        state += _at(table, j, T.STATE_WRITES, batch, length, context)
        part_n = np.ceil(n / ways) / max(n, 1.0) if shard == 1.0 and n > 0 else (1.0 / ways if shard == 1.0 else 1.0)
        part_g = np.ceil(g / ways) / max(g, 1.0) if shard == 2.0 else 1.0
        part_k = 1.0 / ways if shard == 3.0 else 1.0
        part_e = 1.0 / ways if shard == 4.0 else 1.0
        share = part_n * part_g * part_k * part_e
        flops *= share
        weights *= share
        state *= share
        reads *= part_g * part_k * part_e
        writes *= part_n * part_g * part_e
        klass = table[j, T.CLASS]
        low = table[j, T.QUANTISABLE] > 0.0
        act_bytes = rec[ACT_BYTES] if low else rec[WIDE_BYTES]
        weight_bytes = rec[WEIGHT_BYTES] if low else rec[WIDE_BYTES]
        fused = rec[FUSE] > 0.0
        inline = fused and klass == T.ELEMENTWISE
        if inline:
            reads = max(reads - writes, 0.0)
            writes = 0.0
        if fused and table[j, T.WRITES + 3] > 0.0:  # as wide as the context: scores stay on chip
            writes = 0.0
        if fused and table[j, T.READS + 3] > 0.0:
            reads = 0.0
        near = 0.0
        activations = (reads + writes) * act_bytes
        if activations <= 0.5 * rec[CACHE]:  # produced and consumed inside the last-level cache
            near = activations
            activations = 0.0
        effort = flops
        rate = LANES
        if klass == T.CONTRACTION:
            rate = MATRIX if low else WIDE_MATRIX
            if flops > 0:
                side = rec[SIDE] if low else rec[WIDE_SIDE]
                effort = flops / _wave_share(g * part_g, m, n * part_n, k * part_k, rec[UNITS], side)
        out[j, RATE] = rate
        out[j, EFFORT] = effort
        out[j, BYTES] = weights * weight_bytes + state * act_bytes + activations
        out[j, RUNS] = table[j, T.LAYERS] * _at(table, j, T.STEPS, batch, length, context)
        out[j, LAUNCHES] = 0.0 if inline else 1.0
        out[j, WORK] = flops
        out[j, NEAR] = near


@kernel
def _op_seconds(effort, rate_s, moved, byte_s, launches, launch_s, issue_s):
    """Seconds of one execution: (arithmetic-bound, memory-bound, waiting for the host, launching).

    A captured graph has no issue cost. Eager hosts issue ahead, so an op lasts as long as the slower of issuing it
    and running it.
    """
    compute = effort * rate_s
    memory = moved * byte_s
    busy = max(compute, memory)
    launch = launches * launch_s
    wait = max(launches * issue_s - busy - launch, 0.0)
    bound = compute >= memory
    return (busy if bound else 0.0), (0.0 if bound else busy), wait, launch


@kernel
def supply_ops(demand, supply, point, out):
    """Times of every op at one design point; fills ``out`` (n_ops, 6) by resource, executions multiplied in."""
    for j in range(demand.shape[0]):
        rate_s = supply[int(demand[j, RATE]), point]
        compute, memory, wait, launch = _op_seconds(
            demand[j, EFFORT], rate_s, demand[j, BYTES], supply[BYTE_S, point],
            demand[j, LAUNCHES], supply[LAUNCH_S, point], supply[ISSUE_S, point],
        )  # fmt: skip
        runs = demand[j, RUNS]
        out[j, 0] = runs * compute
        out[j, 1] = runs * memory
        out[j, 2] = 0.0
        out[j, 3] = 0.0
        out[j, 4] = runs * wait
        out[j, 5] = runs * launch


def _block_of(rate: int, eager: bool) -> Callable[..., Any]:
    """A compiled function that adds one op's seconds at every point of a block to the block's totals.

    The block is one flat array and every row begins at a constant, so that the compiler sees that no row overlaps
    another and works on several points at once.
    """
    rates, moves, launching, issuing = rate * WIDTH, BYTE_S * WIDTH, LAUNCH_S * WIDTH, ISSUE_S * WIDTH
    compute_s, memory_s, wait_s, start_s = (row * WIDTH for row in (6, 7, 10, 11))

    @inner
    def add(block, effort, moved, launches, runs):
        for p in range(WIDTH):
            compute, memory, wait, launch = _op_seconds(
                effort, block[rates + p], moved, block[moves + p], launches, block[launching + p], block[issuing + p]
            )
            block[compute_s + p] += runs * compute
            block[memory_s + p] += runs * memory
            if eager:
                block[wait_s + p] += runs * wait
            block[start_s + p] += runs * launch

    return add


@kernel
def _add_some(block, rate, effort, moved, launches, runs, lo, hi):
    """The same for the points lo..hi."""
    for p in range(lo, hi):
        compute, memory, wait, launch = _op_seconds(
            effort, block[rate * WIDTH + p], moved, block[BYTE_S * WIDTH + p],
            launches, block[LAUNCH_S * WIDTH + p], block[ISSUE_S * WIDTH + p],
        )  # fmt: skip
        block[6 * WIDTH + p] += runs * compute
        block[7 * WIDTH + p] += runs * memory
        block[10 * WIDTH + p] += runs * wait
        block[11 * WIDTH + p] += runs * launch


_matrix, _wide, _lanes = (_block_of(rate, False) for rate in (MATRIX_S, WIDE_S, LANES_S))
_matrix_eager, _wide_eager, _lanes_eager = (_block_of(rate, True) for rate in (MATRIX_S, WIDE_S, LANES_S))


@kernel
def supply_block(demand, block, lo, hi):
    """Times of a pass at the points lo..hi of a block: adds what `supply_ops` finds, op by op, to the block's totals.

    ``block`` is flat: rows of `WIDTH` points, six of `SUPPLY`, then six of seconds by resource. Where no host issues
    operators one by one, an op never waits for it, and that row stays as it is.
    """
    eager = False
    for p in range(lo, hi):
        eager = eager or block[ISSUE_S * WIDTH + p] > 0.0
    for j in range(demand.shape[0]):
        rate, effort, moved = int(demand[j, RATE]), demand[j, EFFORT], demand[j, BYTES]
        launches, runs = demand[j, LAUNCHES], demand[j, RUNS]
        if lo > 0 or hi < WIDTH:
            _add_some(block, rate, effort, moved, launches, runs, lo, hi)
        elif eager:
            if rate == MATRIX:
                _matrix_eager(block, effort, moved, launches, runs)
            elif rate == WIDE_MATRIX:
                _wide_eager(block, effort, moved, launches, runs)
            else:
                _lanes_eager(block, effort, moved, launches, runs)
        elif rate == MATRIX:
            _matrix(block, effort, moved, launches, runs)
        elif rate == WIDE_MATRIX:
            _wide(block, effort, moved, launches, runs)
        else:
            _lanes(block, effort, moved, launches, runs)


@kernel
def supply_points(lo, hi, demand, supply, totals):
    """Times of a pass at the columns lo..hi of ``supply`` (6, n): adds what `supply_ops` finds to ``totals`` (6, n)."""
    out = np.empty((demand.shape[0], 6))
    for point in range(lo, hi):
        supply_ops(demand, supply, point, out)
        for j in range(demand.shape[0]):
            for r in range(6):
                totals[r, point] += out[j, r]


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
    need = footprint(job, wide=wide_format(job.device, job.format))
    holds = "weights, state and activations" if need.state else "weights and activations"
    return (Fit(level.name, level.role, need.total, level.capacity.si, holds),)


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


def _matmul_efficiency(job: Job) -> float:
    achieved = _gpu(job).achieved_peak.get(compute_format(job.device, job.format))
    return min(1.0, achieved.si / peak(job.device, job.format)) if achieved else job.model["matmul_efficiency"]


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


def record(job: Job) -> np.ndarray:
    """What the compiled model must know of a device before rates: in the order of `_FIELDS`, in SI."""
    wide, low = BITS[wide_format(job.device, job.format)] / 8, BITS[job.format] / 8
    kept = wide if job.format in WEIGHT_ONLY else low
    narrow = compute_format(job.device, job.format)
    sides = _side(job, narrow), _side(job, wide_format(job.device, job.format))
    return np.array([_units(job), low, kept, wide, _cache(job), float(job.switches["fuse"]), *sides])


def _roofs(job: Job) -> tuple[float, float, float]:
    """Dense peaks that ops are held against, by RATE. [FLOP/s]"""
    return peak(job.device, job.format), peak(job.device, wide_format(job.device, job.format)), _vector_peak(job)


SUPPLY_OF: tuple[Callable[[Job], float], ...] = (
    lambda job: 1.0 / (peak(job.device, job.format) * _matmul_efficiency(job)),
    lambda job: 1.0 / (peak(job.device, wide_format(job.device, job.format)) * _matmul_efficiency(job)),
    lambda job: 1.0 / _vector_peak(job),
    lambda job: 1.0 / (_bandwidth(job) * job.model["memory_efficiency"]),
    _launch,
    lambda job: 0.0 if job.switches["graph"] else _issue(job),
)
"""What a device supplies, in the order of `SUPPLY`. Each on its own: a sweep tabulates it against what it reads."""


def supply(job: Job) -> np.ndarray:
    """Seconds per unit of each demand, a column of the supply array. [s/FLOP, s/B, s]"""
    return np.array([rate(job) for rate in SUPPLY_OF])


def demand(job: Job) -> np.ndarray:
    """What a job's ops ask of one device, shape (n_ops, DEMANDS)."""
    rows = np.array([job.phase.ops.index(op) for op in job.ops]) if len(job.ops) != len(job.phase.ops) else slice(None)
    table = T.lower(job.phase)[rows]
    out = np.zeros((table.shape[0], DEMANDS))
    demand_ops(table, float(job.batch), job.length, job.context, float(job.ways), record(job), out)
    if not (job.switches["graph"] or job.switches["fuse"]):
        out[:, LAUNCHES] *= kernels(job.ops, job.model["split_ops"])
    return out


def price(job: Job) -> PhaseCost:
    """Cost of one pass on one device. An estimate."""
    asked = demand(job)
    seconds = np.zeros((asked.shape[0], 6))
    supply_ops(asked, supply(job).reshape(-1, 1), 0, seconds)
    runs, roofs = asked[:, RUNS], np.array(_roofs(job))[asked[:, RATE].astype(int)]
    return PhaseCost(seconds, runs * asked[:, WORK], roofs, runs * asked[:, BYTES], runs * asked[:, NEAR])


FAMILY = DeviceFamily(
    kind="gpu",
    title="GPU or TPU",
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    halves=Halves(lambda job: (demand(job),), SUPPLY_OF, supply_points, block=supply_block),
    issue=lambda job: 0.0 if job.switches["graph"] else _issue(job),
    parameters=(
        Parameter("matmul_efficiency", 0.80, "1", "published",
                  "Largest matmul rate measured on A100, H100, B200, MI300X, Gaudi over dense peak: 0.72 to 0.87.",
                  source="public matmul-FLOPS finder tables of the ml-engineering handbook; a part's own figure wins"),
        Parameter("memory_efficiency", 0.85, "1", "assumed",
                  "Streams reach 0.8 to 0.93 of the HBM or GDDR peak on every part we have seen measured."),
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
        Parameter("collective_latency", 10e-6, "s", "published", "One step between neighbours on a board.",
                  source="empirical constant of NVIDIA's serving-configuration tables"),
        Parameter("vector_share", 1 / 16, "1", "assumed", "Vector over matrix rate where no FP32 peak is printed."),
        Parameter("tile_side", 16.0, "1", "assumed",
                  "Least rows and columns of a matrix instruction where the spec lists none: 16 by 8 here."),
        Parameter("units", 108.0, "1", "assumed", "Streaming multiprocessors or their like where the spec lists none."),
    ),
    assumptions=(
        "Arithmetic and memory traffic of an operator overlap; operators do not overlap each other.",
        "Weights stored narrower than they are computed with are widened on the fly, at no cost of their own.",
        "Activations that fit in half of the last-level cache never reach off-chip memory.",
    ),
    switches=(
        Switch("graph", "Captured graph", "Operators are launched as one graph, not one by one from a framework."),
        Switch("fuse", "Fused operators", "Element-wise operators ride in their producer; scores stay on chip."),
    ),
)  # fmt: skip
