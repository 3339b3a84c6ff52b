"""Brainwave-like soft vector processors: weights pinned in on-chip memory, one request at a time.

Matrix work is counted in native tiles over the tile engines. A recurrent step takes the longer of the work it gives
to the engines and the depth of the chain from its state to the next one (`npu_isa.chains`): inputs are multiplied
ahead while the chain of the state is under way, so the two overlap and do not add. Sources: Chung et al., IEEE Micro
2018; tiling and chains recalled from Fowers et al., ISCA 2018. Estimates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.devices.family import DeviceFamily, Fit, Job, Parameter, PhaseCost, Span
from engine.devices.footprint import footprint
from engine.devices.npu_isa.chains import CELLS, DEPTHS, Pipeline, cut, floor_cycles, pass_cycles
from hardware_specs.schema import Device
from model_zoo.ops import Graph, Op

__all__ = ["FAMILY", "Engine", "stored_bits"]

_COMPUTE, _OFFCHIP, _ONCHIP, _LINKS, _HOST, _OVERHEAD = range(6)
_GATES = {3: "gru", 4: "lstm"}

HOST_KINDS = frozenset(
    ("Gather", "EmbeddingBag", "Softmax", "LayerNormalization", "RMSNormalization", "LRN", "TopK", "ArgMax",
     "RotaryEmbedding", "RoiAlign", "NonMaxSuppression", "Hash", "Preprocess")
)  # fmt: skip
"""Operators without an instruction: reductions across a vector, lookups, and data-dependent ones."""

_POOLS = frozenset(("MaxPool", "AveragePool", "GlobalAveragePool", "ReduceSum", "ReduceMax"))


@dataclass(frozen=True)
class Engine:
    """What the cost model reads of an instance."""

    native: float
    lanes: float
    tiles: float
    clock: float
    beats: float  # cycles a native tile, or a native vector, takes
    vector_beats: float  # cycles a native vector takes in an MFU
    pipe: Pipeline

    @classmethod
    def of(cls, device: Device) -> Engine:
        """Read off the `npu` block."""
        npu = device.npu
        assert npu is not None
        depths = {name: npu.depths[name].si for name in DEPTHS}
        native, lanes = npu.native_dim.si, npu.lanes.si
        beats = math.ceil(native / lanes)
        vector = math.ceil(native / npu.mfu_lanes.si) if npu.mfu_lanes else beats
        pipe = Pipeline.of(depths, native, lanes, npu.tiles.si, npu.mfus.si)
        return cls(native, lanes, npu.tiles.si, npu.clock.si, beats, vector, pipe)

    def vectors(self, elements: float) -> float:
        """Native vectors that hold so many elements. [-]"""
        return math.ceil(elements / self.native)

    def product(self, rows: float, n: float, k: float) -> float:
        """Cycles of `rows` matrix-vector products by one n x k matrix. [cycle]

        Its native tiles are dealt to the engines; a matrix of fewer tiles than engines is copied where several rows
        can use the copies.
        """
        tiles = self.vectors(n) * self.vectors(k)
        if rows > 1:
            return math.ceil(rows * tiles / self.tiles) * self.beats
        return rows * math.ceil(tiles / self.tiles) * self.beats


def formats(device: Device) -> tuple[str, ...]:
    """Formats of the dot products; everything else is float16."""
    return tuple(f for f in ("ms-fp8", "ms-fp9", "fp16", "int8") if f in device.peak)


def peak(device: Device, format: str) -> float:
    """Native dimension x lanes x tile engines multiply-adds a cycle. [FLOP/s] A bound.

    A format whose printed peak is lower than the best one keeps that ratio.
    """
    npu = device.npu
    assert npu is not None
    best = max(p.si for p in device.peak.values())
    share = device.peak[format].si / best  # type: ignore[index]  # formats() lists only keys of `peak`
    return 2.0 * npu.native_dim.si * npu.lanes.si * npu.tiles.si * npu.clock.si * share


def stored_bits(device: Device, format: str) -> float:
    """Bits a weight takes on chip, exponent shared over a block: sign and mantissa. [bit]"""
    assert device.npu is not None
    listed = device.npu.weight_bits.si
    own = next((f for f in formats(device)), format)
    extra = {"ms-fp8": 0.0, "ms-fp9": 1.0}
    return listed + extra.get(format, 0.0) - extra.get(own, 0.0)


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this processor can't run the graph, or None."""
    assert device.npu is not None
    lacking = [name for name in DEPTHS if name not in device.npu.depths]
    if lacking:
        return f"{device.name} can't be timed: its npu.depths lack {', '.join(lacking)}."
    for phase in graph.phases:
        for op in phase.ops:
            if op.kind == "BinaryGemm":
                return f"{device.name} multiplies small floats; it has no instruction for the binary layer {op.name}."
    return None


def _levels(device: Device) -> tuple[float, float, float | None, str, str]:
    """On-chip capacity [B], DRAM capacity [B] and bandwidth [B/s], and the names of both."""
    chip = max((m for m in device.memory if m.role == "onchip"), key=lambda m: m.capacity.si)
    dram = next((m for m in device.memory if m.role == "offchip"), None)
    if dram is None:
        return chip.capacity.si, 0.0, None, chip.name, ""
    return chip.capacity.si, dram.capacity.si, dram.bandwidth.si if dram.bandwidth else None, chip.name, dram.name


def place(job: Job) -> tuple[Fit, ...]:
    """Weights pinned on chip by their stored bits; what does not fit lies in DRAM, if the board has any."""
    need = footprint(job, low_bits=stored_bits(job.device, job.format))
    chip, dram, _, chip_name, dram_name = _levels(job.device)
    wanted = need.weights + need.state + need.tables * 0.0
    fits = [Fit(chip_name, "onchip", wanted, chip, "pinned weights and state", required=not dram)]
    if dram:
        spilled = max(0.0, wanted - chip)
        fits.append(Fit(dram_name, "offchip", spilled, dram, "weights that are not pinned"))
    return tuple(fits)


def _spills(job: Job, bits: float) -> dict[str, float]:
    """Share of each op's weights read from DRAM: pinning is greedy in the order of the network. [-]"""
    room, _, bandwidth, _, _ = _levels(job.device)
    if bandwidth is None:
        return {}
    spilled: dict[str, float] = {}
    for phase in job.graph.phases:
        for op in phase.ops:
            if op.name in spilled or op.stored == 0 or op.kind in HOST_KINDS:
                continue
            size = op.stored * op.layers * bits / 8 / (1 if op.shard == "none" else job.ways)
            held = min(room, size)
            room -= held
            spilled[op.name] = 1.0 - held / size
    return spilled


@dataclass
class _Sheet:
    """Arrays of a pass under construction. [s], [B]"""

    seconds: np.ndarray
    offchip: np.ndarray
    onchip: np.ndarray
    other: list[tuple[str, str, float]]
    hosted: list[str]


def price(job: Job) -> PhaseCost:
    """Cost of one pass on one processor; requests of a batch run one after the other."""
    engine = Engine.of(job.device)
    bits = stored_bits(job.device, job.format)
    n = len(job.ops)
    sheet = _Sheet(np.zeros((n, 6)), np.zeros(n), np.zeros(n), [], [])
    spills = _spills(job, bits)
    _, _, bandwidth, _, dram_name = _levels(job.device)
    spilled_bytes = _weights(job, sheet, bits, spills)
    stream = spilled_bytes / bandwidth if bandwidth else np.zeros(n)
    spans: tuple[Span, ...] = ()
    at = 0
    while at < n:
        cell = _cell_at(job.ops, at)
        if cell:
            found = _price_cell(job, engine, sheet, stream, at, cell)
            spans = spans or found
            at += cell
        else:
            at += _price_run(job, engine, sheet, stream, at)
    flops = np.array([_share(job, op) * _work(job, op) for op in job.ops])
    notes = []
    if sheet.hosted:
        notes.append(f"Left to the host's CPU, for want of an instruction: {', '.join(sheet.hosted[:6])}.")
    if spilled_bytes.any():
        notes.append(
            f"{spilled_bytes.sum() / 1e6:.1f} MB of weights a pass come from {dram_name}: they are not pinned."
        )
    return PhaseCost(
        sheet.seconds, flops, np.full(n, peak(job.device, job.format)), sheet.offchip, sheet.onchip,
        other=tuple(sheet.other), timeline=spans, timeline_of="one step of a recurrent layer" if spans else "",
        notes=tuple(notes),
    )  # fmt: skip


def _share(job: Job, op: Op) -> float:
    return 1.0 if op.shard == "none" else 1.0 / job.ways


def _work(job: Job, op: Op) -> float:
    at = (job.batch, job.length, job.context)
    return op.flops.at(*at) * op.layers * op.steps.at(*at)


def _runs(job: Job, op: Op) -> float:
    """Executions of an op in a pass; a batch is served one request after the other."""
    return op.layers * op.steps.at(1, job.length, job.context) * job.batch


def _weights(job: Job, sheet: _Sheet, bits: float, spills: dict[str, float]) -> np.ndarray:
    """Bytes of weights each op reads from DRAM in a pass; fills both traffic columns. [B]"""
    for i, op in enumerate(job.ops):
        if op.kind in HOST_KINDS:
            continue
        read = op.weights_read(1, job.length, job.context) * _runs(job, op) * bits / 8 * _share(job, op)
        sheet.offchip[i] = read * spills.get(op.name, 0.0)
        sheet.onchip[i] = read - sheet.offchip[i]
    return sheet.offchip.copy()


def _cell_at(ops: tuple[Op, ...], at: int) -> int:
    """Number of ops of the recurrent cell that starts at `at`; 0 where none does."""
    first = ops[at]
    if not first.steps.s:
        return 0
    name = first.name.split("-")[0]
    end = at
    while end < len(ops) and ops[end].steps.s and ops[end].name.split("-")[0] == name:
        end += 1
    recurrent = any(op.contraction and op.sequential for op in ops[at:end])
    return end - at if recurrent else 0


def _price_cell(job: Job, engine: Engine, sheet: _Sheet, stream: np.ndarray, at: int, count: int) -> tuple[Span, ...]:
    """A recurrent cell: each step is the longer of engine occupancy, MFU occupancy and the chain of its state."""
    ops = job.ops[at : at + count]
    recurrent = next(op for op in ops if op.contraction and op.sequential)
    hidden = recurrent.k.coef
    gates = max(1, round(recurrent.n.coef / hidden))
    kind = _GATES.get(gates, "lstm")
    rows = hidden / job.ways
    occupied = np.zeros(count)
    for i, op in enumerate(ops):
        if op.contraction:
            occupied[i] = gates * engine.product(1.0, rows, op.k.coef)
    steps = recurrent.steps.at(1, job.length, job.context)
    copies = recurrent.layers * job.batch
    executions = steps * copies
    streamed = stream[at : at + count] / executions * engine.clock  # cycles a step waits for DRAM
    waits = float(np.maximum(streamed - occupied, 0.0).sum())
    ahead = any(op.contraction and not op.sequential for op in ops)  # the inputs' products are here too
    chains = sum(len(cut(c, engine.pipe.mfus)) for c in CELLS[kind] if ahead or c.source != "x")
    mfu = chains * engine.vectors(rows) * engine.vector_beats
    floor = floor_cycles(kind, engine.pipe)
    busy = float(occupied.sum())
    step = max(busy + waits, mfu, floor)
    second = executions / engine.clock
    sheet.seconds[at : at + count, _COMPUTE] += occupied * second
    sheet.seconds[at : at + count, _OFFCHIP] += np.maximum(streamed - occupied, 0.0) * second
    waiting = [i for i, op in enumerate(ops) if op.sequential]
    rest = (step - busy - waits) * second
    column = _COMPUTE if mfu >= step else _OVERHEAD
    depth = np.array([engine.pipe.product if ops[i].contraction else engine.pipe.mfu / 3 for i in waiting])
    sheet.seconds[[at + i for i in waiting], column] += rest * depth / depth.sum()
    # the first input has nothing to hide behind, and a sequence has to be started
    opening = (engine.pipe.start + pass_cycles(engine.pipe)) * copies / engine.clock
    sheet.other.append((f"start of {ops[0].name.split('-')[0]}", "overhead", opening))
    unit = 1.0 / engine.clock
    spans = []
    clock = 0.0
    for i, op in enumerate(ops):
        if op.contraction:
            spans.append(Span("matrix-vector unit", op.name, clock * unit, occupied[i] * unit, "compute"))
            clock += occupied[i]
    spans.append(Span("multifunction units", "element-wise", 0.0, mfu * unit, "compute"))
    spans.append(Span("dependence", "state to next state", 0.0, floor * unit, "overhead"))
    return tuple(spans)


def _price_run(job: Job, engine: Engine, sheet: _Sheet, stream: np.ndarray, at: int) -> int:
    """A feed-forward chain: a product and the vector operations behind it, or one op for the host."""
    ops = job.ops
    first = ops[at]
    if first.kind in HOST_KINDS:
        end = at
        while end < len(ops) and ops[end].kind in HOST_KINDS:
            sheet.hosted.append(ops[end].name)
            end += 1
        sheet.seconds[at, _HOST] += _runs(job, first) * job.model["host_visit"]
        for i in range(at, end):
            size = ops[i].reads.at(1, job.length, job.context) + ops[i].writes.at(1, job.length, job.context)
            sheet.seconds[i, _HOST] += _runs(job, ops[i]) * size * 2.0 / job.model["host_rate"]
        return end - at
    covered, end = 0.0, at
    while end < len(ops) and ops[end].kind not in HOST_KINDS and not _cell_at(ops, end):
        op = ops[end]
        if op.contraction and end > at:
            break
        runs = _runs(job, op)
        cycles = _product_cycles(job, engine, op) if op.contraction else _vector_cycles(job, engine, op)
        if op.contraction:
            covered = cycles
            spent = cycles * runs / engine.clock
            sheet.seconds[end, _COMPUTE] += spent
            sheet.seconds[end, _OFFCHIP] += max(stream[end] - spent, 0.0)
        else:
            # a vector operation rides in its producer's chain; a window over several outputs is a chain of its own
            alone = cycles if op.kind in _POOLS else max(cycles - covered, 0.0)
            least = _share(job, op) * _work(job, op) / peak(job.device, job.format) if alone else 0.0
            sheet.seconds[end, _COMPUTE] += max(alone * runs / engine.clock, least)
        end += 1
    fill = pass_cycles(engine.pipe, engine.pipe.mfus, first.contraction)
    sheet.seconds[at, _OVERHEAD] += fill * _runs(job, first) / engine.clock
    return end - at


def _product_cycles(job: Job, engine: Engine, op: Op) -> float:
    """Cycles of one execution of a contraction for one request. [cycle]"""
    at = (1, job.length, job.context)
    g, m, n, k = op.g.at(*at), op.m.at(*at), op.n.at(*at), op.k.at(*at)
    if op.shard == "n":
        n = math.ceil(n / job.ways)
    elif op.shard == "g":
        g = math.ceil(g / job.ways)
    elif op.shard == "k":
        k = math.ceil(k / job.ways)
    packed = max(1.0, min(engine.native // max(n, 1), engine.native // max(k, 1))) if g > 1 else 1.0
    if op.kind == "MatMul":  # the second matrix is written into the matrix memories first
        loading = g * n * engine.vectors(k) * engine.beats
        return g * engine.product(m, n, k) + loading
    return engine.product(math.ceil(g / packed) * m, min(n * packed, max(n, engine.native)), k)


def _vector_cycles(job: Job, engine: Engine, op: Op) -> float:
    """Cycles of one execution of a vector operation for one request. [cycle]"""
    at = (1, job.length, job.context)
    written = op.writes.at(*at) * _share(job, op)
    per = op.flops.at(*at) / max(op.writes.at(*at), 1.0) if op.kind in _POOLS else 1.0
    passes = max(1.0, math.ceil(per / engine.pipe.mfus))
    return engine.vectors(written) * engine.vector_beats * passes


FAMILY = DeviceFamily(
    kind="npu",
    title="Soft vector processor",
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    streams_io=True,
    io_format="fp16",
    parameters=(
        Parameter("host_visit", 20e-6, "s", "assumed",
                  "A sub-graph on the host's CPU: PCIe there and back, a thread woken, the operator itself."),
        Parameter("host_rate", 6e9, "B/s", "assumed", "Rate at which float16 vectors move to the host and back."),
        Parameter("collective_latency", 2e-6, "s", "published", "A message between processors passes one switch.",
                  source="Chung et al., IEEE Micro 2018: two microseconds a hop, one way"),
    ),
    assumptions=(
        "A recurrent step takes the longer of its matrix work and the dependence chain of its state; inputs run ahead.",
        "Weights are pinned greedily in the order of the network; stored bits are sign and mantissa.",
        "Requests of a batch run one after the other; the program is single-threaded.",
        "Inputs and outputs cross the network step by step while the processor works, in float16.",
        "Pipeline depths: their sum along a GRU step of width 1024 is recalled from ISCA 2018; the parts are assumed.",
    ),
)  # fmt: skip
