"""A pass of a soft vector processor: recurrent cells step by step, other products with what rides behind. Estimates."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from engine.devices.common.cached import remembered
from engine.devices.common.column import (
    as_doubles,
    columns_as,
    each_larger,
    exceeds,
    larger,
    largest,
    numbers,
    one_by_one,
    smaller,
)
from engine.devices.common.contract import COMPUTE, HOST, LINKS, OFFCHIP, ONCHIP, OVERHEAD, Span
from engine.devices.common.job import Job
from engine.devices.npu.chains import CELLS, TABLES, Passes, cut, floor_cycles, pass_cycles
from engine.devices.npu.instance import Engine
from engine.devices.npu.pinning import HOST_KINDS, levels, spills, stored_bits
from engine.devices.npu.timing import sequence_cycles
from hardware_specs.schema import Device
from model_zoo.ops import Op, recurrence

_CELLS = {(1, 1): "rnn", (3, 1): "gru", (3, 2): "gru-reset-first", (4, 1): "lstm"}
"""Program of a recurrent cell, by its gates and by how many products they take."""

_STEPS: dict[str, list[str]] = TABLES["steps"]
"""Vector instructions of an operator, any activation standing for all; moving data needs none."""
_POOLS = frozenset(("MaxPool", "AveragePool", "GlobalAveragePool", "ReduceSum", "ReduceMax"))


def peak(device: Device, format: str) -> float:
    """Multiply-adds of an instance that fills all its multipliers in every cycle. [FLOP/s] A bound."""
    return Engine.of(device, format).peak


@dataclass
class PassCost:
    """A pass under construction: numbers, or columns of them. [s], [B]"""

    seconds: np.ndarray
    offchip: np.ndarray
    onchip: np.ndarray
    overheads: list[tuple[str, str, float]]
    host_ops: tuple[str, ...]
    bytes_out: float = 0.0
    step_spans: Callable[[], tuple[Span, ...]] = tuple  # of the first recurrent cell: a detail, and of numbers alone


@dataclass(frozen=True)
class OperatorCycles:
    """What one execution of each operator takes for one request. Numbers, or columns of them, an entry an operator.

    Attributes
    ----------
    chains : first operator, number of operators, and whether they are a recurrent cell, whose cycles are not here [-]
    host_ops : names of operators left to the host
    times : executions in a pass [-]
    products : which are products outside of cells [-]
    multiply, on_chip : cycles of a product on the multipliers, and with its weights from on-chip memory [cycle]
    vector, any_exposed : cycles of a vector operation that nothing of its chain hides [cycle], and 1 where there are
        some [-]
    start : cycles until the first result of a chain, at its first operator [cycle]
    visits : calls of the host [-]
    host_elements : elements that an operator of the host reads and writes [elements]
    read, share : weights [elements], and the part of an operator that one of the devices has [-]
    """

    chains: tuple[tuple[int, int, bool], ...]
    host_ops: tuple[str, ...]
    times: np.ndarray
    products: np.ndarray
    multiply: np.ndarray
    on_chip: np.ndarray
    vector: np.ndarray
    any_exposed: np.ndarray
    start: np.ndarray
    visits: np.ndarray
    host_elements: np.ndarray
    read: np.ndarray
    share: np.ndarray


def pass_cost(job: Job, engine: Engine | None = None, memory: float = 1.0) -> PassCost:
    """A pass, operator by operator, on the device's instance or on another one, its DRAM `memory` times as slow. [s]

    A batch is served one request after the other, or as many as share weights.
    """
    engine = (engine or Engine.of(job.device, job.format)).for_batch(job.batch)
    cycles, bits = _operator_cycles((job, engine)), stored_bits(job.device, job.format)
    room, _, bandwidth, *_ = levels(job.device)
    runs = cycles.times * math.ceil(job.batch / engine.side)
    read = cycles.read * runs * bits / 8 * cycles.share
    offchip = read * spills((job, room, bits)) if bandwidth else numbers((len(job.ops),))
    sheet = PassCost(numbers((len(job.ops), 6)), offchip, read - offchip, [], cycles.host_ops)
    stream = memory * offchip / bandwidth if bandwidth else numbers((len(job.ops),))
    multiply, on_chip = cycles.multiply * runs / engine.clock, cycles.on_chip * runs / engine.clock
    floor = work(job) / engine.peak * cycles.any_exposed
    sheet.seconds[:, COMPUTE] = multiply + each_larger(cycles.vector * runs / engine.clock, floor)
    sheet.seconds[:, ONCHIP] = on_chip - multiply
    sheet.seconds[cycles.products, OFFCHIP] = each_larger((stream - on_chip)[cycles.products], 0.0)
    transfer_s = cycles.host_elements * runs * 2.0 / job.model["host_rate"]
    sheet.seconds[:, HOST] = cycles.visits * runs * job.model["host_visit"] + transfer_s
    sheet.seconds[:, OVERHEAD] = cycles.start * runs / engine.clock
    for at, count, cell in cycles.chains:
        if cell:
            _price_cell(job, engine, sheet, stream, at, count)
        elif job.ops[at].contraction and job.ops[at].shard != "none":
            wire_s, bytes_out = _exchange(job, job.ways, job.ops[at].writes.at(1, job.length, job.context))
            sheet.seconds[at, LINKS] = wire_s * runs[at]
            sheet.bytes_out += bytes_out * runs[at]
    return sheet


def share_of(job: Job, op: Op) -> float:
    """Part of an operator that one of the devices has. [-]"""
    return 1.0 if op.shard == "none" else 1.0 / job.ways


@remembered(lambda job: (id(job.ops), job.ways, job.batch, job.length, job.context))
def work(job: Job) -> np.ndarray:
    """What one of the devices does of each operator in a pass: numbers or columns. [FLOP]"""
    at = (job.batch, job.length, job.context)
    of = [share_of(job, op) * (op.flops.at(*at) * op.layers * op.steps.at(*at)) for op in job.ops]
    return as_doubles(columns_as(numbers((len(of),)), of))


def _exchange(job: Job, peers: float, elements: float) -> tuple[float, float]:
    """Seconds and bytes until `peers` devices, each with its share of `elements` float16 values, all hold them."""
    if peers <= 1 or job.link is None:
        return 0.0, 0.0
    bytes_out = (peers - 1.0) / peers * elements * 2.0
    return job.link.latency.si * job.link_hops + bytes_out / job.link.usable, bytes_out


def cell_of(ops: Sequence[Op]) -> str:
    """Which program runs a recurrent cell; empty where none does."""
    products = [op for op in ops if op.contraction and op.sequential]
    gates = sum(round(op.n.coef / op.k.coef) for op in products)
    return _CELLS.get((gates, len(products)), "")


def _price_cell(job: Job, engine: Engine, sheet: PassCost, stream: np.ndarray, at: int, count: int) -> None:
    """A recurrent cell: each step is the longer of engine occupancy, MFU occupancy and the chain of its state.

    Over several devices, copies of the cell that run side by side go apart; where there are fewer copies than
    devices a matrix is cut by rows, and every step waits for the parts of the state to cross the network.
    """
    ops = job.ops[at : at + count]
    recurrent = next(op for op in ops if op.contraction and op.sequential)
    hidden = recurrent.k.coef
    kind = cell_of(ops)
    parallel = recurrent.attribute("parallel", 1.0)
    apart = min(job.ways, parallel)
    copies = math.ceil(parallel / apart)  # copies on one device
    peers = max(1, job.ways // int(apart))  # devices that share a matrix
    rows = math.ceil(hidden / peers)
    together = copies if job.switches["interleave"] else 1
    steps = recurrent.steps.at(1, job.length, job.context)
    rounds = recurrent.layers / parallel * copies / together * math.ceil(job.batch / engine.side)
    executions = steps * rounds
    multiply, on_chip = (_busy_cycles(ops, npu, rows, hidden, together) for npu in (engine.without_fetch, engine))
    off_chip = stream[at : at + count] / executions * engine.clock  # cycles a step has weights come from DRAM
    waits = np.array([larger(wait, 0.0) for wait in off_chip - on_chip], dtype=object)
    ahead = any(op.contraction and not op.sequential for op in ops)  # the inputs' products are here too
    chains = sum(len(cut(c, engine.pipe.mfus)) for c in CELLS[kind] if ahead or c.source != "x")
    mfu = together * chains * engine.vectors(rows) * engine.vector_beats
    exchanges = sum(op.contraction and op.sequential for op in ops)  # times a step that the parts must come together
    wire_s, bytes_out = (exchanges * cost for cost in _exchange(job, peers, hidden * together))
    busy = on_chip.sum() + waits.sum()
    if engine.in_order:
        sizes = rows, hidden, ops[0].k.coef if ahead else 0.0
        floor = one_by_one(lambda n: sequence_cycles(kind, engine, *sizes, int(n), together) / n, steps)
    else:
        floor = floor_cycles(kind, engine.pipe)
    step = largest((busy, mfu, floor + wire_s * engine.clock))
    second = executions / engine.clock
    sheet.seconds[at : at + count, COMPUTE] += multiply * second
    sheet.seconds[at : at + count, ONCHIP] += (on_chip - multiply) * second
    sheet.seconds[at : at + count, OFFCHIP] += waits * second
    waiting = [i for i, op in enumerate(ops) if op.sequential]
    slack = step - busy
    link = smaller(slack, wire_s * engine.clock)
    depth = np.array([engine.pipe.product if ops[i].contraction else engine.pipe.mfu / 3 for i in waiting], object)
    working = 1.0 - exceeds(step, mfu)  # the multifunction units are what a step waits for
    idle = (slack - link) * second * depth / depth.sum()
    sheet.seconds[[at + i for i in waiting], COMPUTE] += idle * working
    sheet.seconds[[at + i for i in waiting], OVERHEAD] += idle * (1.0 - working)
    sheet.seconds[[at + i for i in waiting], LINKS] += link * second * depth / depth.sum()
    sheet.bytes_out += bytes_out * executions
    # the first input has nothing to hide behind, and a sequence has to be started
    entry = engine.crossing(ops[0].k.coef, hidden) if engine.in_order else pass_cycles(engine.pipe)
    name = ops[0].name.removesuffix("-input")
    sheet.overheads.append((f"start of {name}", "overhead", (engine.pipe.start + entry) * rounds / engine.clock))
    _hand_out(job, sheet, recurrent, at + count, apart, name)
    if sheet.step_spans is tuple:
        chain = floor, wire_s * engine.clock
        sheet.step_spans = partial(_step_spans, ops, (multiply, on_chip, off_chip), mfu, chain, engine.clock)


def _hand_out(job: Job, sheet: PassCost, recurrent: Op, end: int, apart: float, name: str) -> None:
    """A cell's outputs brought together where copies of it went apart: every step's state, else the last one."""
    read = any(job.ops[end - 1].name in op.inputs for op in job.ops[end:])
    steps, parallel = recurrent.steps.at(1, job.length, job.context), recurrent.attribute("parallel", 1.0)
    gather_s, bytes_out = _exchange(job, apart, (steps if read else 1.0) * recurrent.k.coef * parallel)
    if bytes_out:
        times = recurrent.layers / parallel * job.batch
        sheet.overheads.append((f"outputs of {name}", "links", gather_s * times))
        sheet.bytes_out += bytes_out * times


def _busy_cycles(ops: Sequence[Op], engine: Engine, rows: float, hidden: float, together: float) -> np.ndarray:
    """Cycles that a step's products keep the tile engines, of so many cells together. [cycle]"""
    result = numbers((len(ops),))
    for i, op in enumerate(ops):
        if op.contraction:
            result[i] = together * round(op.n.coef / hidden) * engine.product(1.0, rows, op.k.coef)
    return result


def _step_spans(
    ops: Sequence[Op], cycles: tuple[np.ndarray, ...], mfu: float, chain: tuple[float, float], clock: float
) -> tuple[Span, ...]:
    """One step as bars: what occupies the units and the memories, and the dependence that may be longer.

    ``cycles`` are each product's on the multipliers, with its weights from on-chip memory, and with those from DRAM;
    the ``chain`` from state to state ends on the network.
    """
    spans, begin, (floor, link) = [], 0.0, chain

    def span(unit: str, resource: str, name: str, start: float, lasts: float) -> None:
        spans.append(Span(unit, name, start / clock, lasts / clock, resource))

    for op, multiply, on_chip, off_chip in zip(ops, *(column.tolist() for column in cycles), strict=True):
        if op.contraction:
            span("matrix-vector unit", "compute", op.name, begin, multiply)
            if exceeds(on_chip, multiply):
                span("on-chip memory", "onchip", op.name, begin, on_chip)
            if exceeds(off_chip, 0.0):
                span("DRAM", "offchip", op.name, begin, off_chip)
            begin += larger(on_chip, off_chip)
    span("multifunction units", "compute", "element-wise", 0.0, mfu)
    span("dependence", "overhead", "state to next state", 0.0, floor)
    if exceeds(link, 0.0):
        span("network", "links", "parts of the state", floor, link)
    return tuple(spans)


@remembered(lambda of: (id(of[0].ops), of[1], of[0].ways, of[0].length, of[0].context))
def _operator_cycles(of: tuple[Job, Engine]) -> OperatorCycles:
    """What one execution of each operator takes for one request: of feed-forward chains, and of calls of the host."""
    job, engine = of
    ops, at = job.ops, (1, job.length, job.context)
    n = len(ops)
    chains, products = [], np.zeros(n, dtype=bool)
    multiply, on_chip, vector, start, visits, host_elements = (numbers((n,)) for _ in range(6))
    first = 0
    while first < n:
        cell, end = recurrence(ops, first), first
        if cell:
            end += cell
        elif ops[first].kind in HOST_KINDS:
            visits[first] = 1.0
            while end < n and ops[end].kind in HOST_KINDS:
                host_elements[end] = ops[end].reads.at(*at) + ops[end].writes.at(*at)
                end += 1
        else:
            hidden, passes = 0.0, Passes(engine.pipe.mfus)
            while end < n and ops[end].kind not in HOST_KINDS and not recurrence(ops, end):
                op = ops[end]
                if op.contraction and end > first:
                    break
                if op.contraction:
                    products[end] = True
                    on_chip[end] = hidden = _product_cycles(job, engine, op)
                    multiply[end] = _product_cycles(job, engine.without_fetch, op)
                else:
                    # a vector operation rides in its producer's chain; a window over several outputs starts its own
                    if op.kind in _POOLS:
                        hidden, passes = 0.0, Passes(engine.pipe.mfus)
                    busy = passes.add(_STEPS.get(op.kind, ()), _vector_cycles(job, engine, op))
                    vector[end] = larger(busy - hidden, 0.0)
                    hidden += vector[end]
                end += 1
            fill = pass_cycles(engine.pipe, engine.pipe.mfus, ops[first].contraction)
            entering = 0.0 if first else ops[first].reads.at(*at)
            leaving = 0.0 if end < n else ops[end - 1].writes.at(*at)
            start[first] = fill + engine.crossing(entering, leaving)
        chains.append((first, end - first, bool(cell)))
        first = end
    host_ops = tuple(op.name for op in ops if op.kind in HOST_KINDS)
    times = columns_as(vector, [op.layers * op.steps.at(*at) for op in ops])
    read = columns_as(vector, [0.0 if op.kind in HOST_KINDS else op.weights_read(*at) for op in ops])
    any_exposed = columns_as(vector, [exceeds(cycles, 0.0) for cycles in vector])
    share = columns_as(vector, [share_of(job, op) for op in ops])
    columns = multiply, on_chip, vector, any_exposed, start, visits, host_elements, read, share
    return OperatorCycles(tuple(chains), host_ops, as_doubles(times), products, *map(as_doubles, columns))


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
    pack = max(1.0, min(engine.native // max(n, 1), engine.native // max(k, 1))) if g > 1 else 1.0
    if op.kind == "MatMul":  # the second matrix is written into the matrix memories first
        loading = g * n * engine.vectors(k) * engine.beats
        return g * engine.product(m, n, k) + loading
    return engine.product(math.ceil(g / pack) * m, smaller(n * pack, larger(n, engine.native)), k)


def _vector_cycles(job: Job, engine: Engine, op: Op) -> float:
    """Cycles of one execution of a vector operation for one request. [cycle]"""
    at = (1, job.length, job.context)
    elements = op.writes.at(*at) * share_of(job, op)
    per = op.flops.at(*at) / larger(op.writes.at(*at), 1.0) if op.kind in _POOLS else 1.0
    passes = larger(1.0, math.ceil(per / engine.pipe.mfus))
    return engine.vectors(elements) * engine.vector_beats * passes
