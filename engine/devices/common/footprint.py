"""How many bytes of a network lie on one device: parameters, state and the activations in flight. Exact counts."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.devices.common.column import larger
from engine.devices.common.counts import dealt
from engine.devices.common.job import Job
from engine.scenario.formats import BITS, WEIGHT_ONLY
from model_zoo.ops import LOOKUPS, ZERO, Dim, Graph, Op, Phase


@dataclass(frozen=True)
class Footprint:
    """Resident bytes of one device. [B]"""

    weights: float
    tables: float  # embedding tables, read a row at a time
    state: float
    activations: float

    @property
    def total(self) -> float:
        """Everything together. [B]"""
        return self.weights + self.tables + self.state + self.activations


@dataclass(frozen=True)
class _Share:
    """One device's share of a network, formats left open.

    `busiest` holds, for operators in the scenario's format and for wide ones, elements read and written by those that
    may move most: of any others, one of these moves more at every size.
    """

    weights: tuple[float, float]  # elements in the scenario's format and in the wide one
    tables: tuple[float, float]
    state: float  # part of what grows with the context, on the device that holds most
    constant: tuple[float, float]  # of what does not, in the scenario's format and in the wide one
    busiest: tuple[tuple[bool, bool, Dim, Dim], ...]  # (low, of the job's phase, reads, writes)


def _activity(op: Op, ways: float, fused: bool) -> tuple[Dim, Dim]:
    """Elements of one device's share of an operator's inputs and outputs, what stays on chip left out. [-]"""
    heads, rows = dealt(op.g.coef, op.m.coef, ways) if op.shard == "g" else (1.0, 1.0)
    even = heads * rows / (ways if op.shard == "elements" else 1)
    reads = ZERO if fused and op.reads.c else op.reads * (even / (ways if op.shard == "k" else 1))
    writes = ZERO if fused and op.writes.c else op.writes * (even / (ways if op.shard == "n" else 1))
    return reads, writes


def _kind(dim: Dim) -> tuple[float, ...]:
    return (dim.b, dim.s, dim.c, dim.cap) if dim.coef else ()


@lru_cache(maxsize=512)
def _share(graph: Graph, phase: Phase, rows: bytes, ways: float, fused: bool) -> _Share:
    """Share of the operators at those places of a phase, and of their like in the other phases.

    What only other phases have, as what guesses, lies with the last operator.
    """
    places = np.frombuffer(rows, dtype=np.int64)
    names = {phase.ops[i].name for i in places}
    if len(phase.ops) - 1 in places:
        names |= {op.name for run in graph.phases for op in run.ops} - {op.name for op in phase.ops}
    parameters, stored_ops = np.zeros((2, 2)), set()
    largest: dict[tuple, list[tuple[Dim, Dim]]] = {}
    for run in graph.phases:
        for op in run.ops:
            if op.name not in names:
                continue
            reads, writes = _activity(op, ways, fused)
            pairs = largest.setdefault((bool(op.quantisable), run is phase, _kind(reads), _kind(writes)), [])
            if not any(r.coef >= reads.coef and w.coef >= writes.coef for r, w in pairs):
                pairs[:] = [(r, w) for r, w in pairs if r.coef > reads.coef or w.coef > writes.coef]
                pairs.append((reads, writes))
            if op.name not in stored_ops and op.stored:
                stored_ops.add(op.name)
                size = op.stored * op.layers / (1 if op.shard == "none" else ways)
                parameters[int(op.kind in LOOKUPS), int(not op.quantisable)] += size
    state = [(op, dealt(op.g.coef, op.m.coef, ways)[0]) for op in phase.ops if op.state_writes.coef and op.shard == "g"]
    most_heads = max((part for op, part in state if op.state_writes.s), default=1.0 / ways)
    constant = np.zeros(2)
    for op, part in state:
        constant[int(not op.quantisable)] += (not op.state_writes.s) * op.state_writes.coef * op.layers * part
    whole = sum(op.state_writes.coef * op.layers for op, _ in state if not op.state_writes.s)
    constant = constant / whole if whole else np.array([most_heads, 0.0])
    busiest = tuple((low, here, r, w) for (low, here, *_), pairs in largest.items() for r, w in pairs)
    weights, tables = parameters.tolist()
    return _Share(tuple(weights), tuple(tables), most_heads, tuple(constant.tolist()), busiest)


def footprint(
    job: Job,
    low_bits: float | None = None,
    wide: str = "fp16",
    table_bits: float | None = None,
    fused: bool = False,
) -> Footprint:
    """Bytes one device must hold for its share of the *whole* network, every phase of it. [B]

    Sharded parameters divide by `job.ways`, others are copies. Parameters are in the scenario's format where an op may
    run in it and in `wide` otherwise. State (KV cache) is counted at the longest context, on the device with most
    heads. Activations are the largest inputs plus outputs of any one op, as far as this device has a share of them:
    two buffers that ping-pong. An estimate; exact for parameters and state.

    Parameters
    ----------
    low_bits, table_bits : stored bits of a parameter in the low format, and of an embedding-table element. [-]
    fused : whether what is as wide as the context (scores of attention) stays on chip.
    """
    bits = BITS[job.format] if low_bits is None else low_bits
    wide_bits = max(BITS[wide], bits) if bits < BITS[wide] else bits
    kept_bits = 16.0 if job.format in WEIGHT_ONLY else bits  # of activations and state
    share = _share(job.graph, job.phase, job.rows.tobytes(), float(job.ways), fused)
    activations = 0.0
    for low, here, reads, writes in share.busiest:
        at = (job.batch, job.length if here else 1.0, job.max_context)
        activations = larger(activations, (reads.at(*at) + writes.at(*at)) * (kept_bits if low else wide_bits) / 8)
    weights = (share.weights[0] * bits + share.weights[1] * wide_bits) / 8
    tables = share.tables[0] * (table_bits or bits) + share.tables[1] * (table_bits or wide_bits)
    state_bits, at = wide_bits if job.graph.state_is_wide else kept_bits, (job.batch, job.max_context, job.max_context)
    state = sum(term.at(*at) for term in job.graph.state_elements.terms if term.c) * share.state * state_bits
    constant = [term for term in job.graph.state_elements.terms if not term.c]
    for bits, part in zip((state_bits, wide_bits), share.constant, strict=True) if constant else ():
        state += sum(term.at(*at) for term in constant) * part * bits
    return Footprint(weights, tables / 8, state / 8 * job.streams, activations * job.streams)
