"""How many bytes of a network lie on one device: parameters, state and the activations in flight. Exact counts."""

from __future__ import annotations

from dataclasses import dataclass

from engine.devices.common.column import larger
from engine.devices.common.contract import Job
from engine.devices.common.counts import dealt
from engine.scenario.formats import BITS, WEIGHT_ONLY
from model_zoo.ops import Op

__all__ = ["Footprint", "footprint"]


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


def _moved(job: Job, op: Op, length: float, fused: bool) -> float:
    """Elements of one device's share of an operator's inputs and outputs, what stays on chip left out. [-]"""
    at = (job.batch, length, job.max_context)
    heads, rows = dealt(op.g.coef, op.m.coef, float(job.ways)) if op.shard == "g" else (1.0, 1.0)
    even = heads * rows / (job.ways if op.shard == "elements" else 1)
    reads = 0.0 if fused and op.reads.c else op.reads.at(*at) * even / (job.ways if op.shard == "k" else 1)
    writes = 0.0 if fused and op.writes.c else op.writes.at(*at) * even / (job.ways if op.shard == "n" else 1)
    return reads + writes


def _state_share(job: Job) -> float:
    """Part of the state on the device that holds most: its heads' where operators are dealt out by heads. [-]"""
    shares = [
        dealt(op.g.coef, op.m.coef, float(job.ways))[0]
        for op in job.phase.ops
        if op.state_writes.coef and op.shard == "g"
    ]
    return max(shares, default=1.0 / job.ways)


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
    weights = tables = 0.0
    seen: set[str] = set()
    mine = {op.name for op in job.ops}
    activations = 0.0
    for phase in job.graph.phases:
        for op in phase.ops:
            if op.name not in mine:
                continue
            moved = _moved(job, op, job.length if phase is job.phase else 1.0, fused)
            activations = larger(activations, moved * (kept_bits if op.quantisable else wide_bits) / 8)
            if op.name in seen or op.stored == 0:
                continue
            seen.add(op.name)
            share = 1 if op.shard == "none" else job.ways
            if op.kind in ("Gather", "EmbeddingBag"):
                tables += op.stored * op.layers * (table_bits or (bits if op.quantisable else wide_bits)) / 8 / share
            else:
                weights += op.stored * op.layers * (bits if op.quantisable else wide_bits) / 8 / share
    state_bits = wide_bits if job.graph.state_is_wide else kept_bits
    state = job.graph.state_elements.at(job.batch, job.max_context, job.max_context) * state_bits / 8
    return Footprint(weights, tables, state * _state_share(job) * job.streams, activations * job.streams)
