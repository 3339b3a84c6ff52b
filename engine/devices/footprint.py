"""How many bytes of a network lie on one device: parameters, state and the activations in flight."""

from __future__ import annotations

from dataclasses import dataclass

from engine.column import larger
from engine.devices.family import Job
from engine.formats import BITS, WEIGHT_ONLY

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


def footprint(
    job: Job, low_bits: float | None = None, wide: str = "fp16", table_bits: float | None = None
) -> Footprint:
    """Bytes one device must hold for its share of the *whole* network, every phase of it. [B]

    Sharded parameters divide by `job.ways`, others are copies. Parameters are in the scenario's format where an op may
    run in it and in `wide` otherwise. State (KV cache) is counted at the longest context. Activations are the largest
    inputs plus outputs of any one op: two buffers that ping-pong. An estimate; exact for parameters and state.

    Parameters
    ----------
    low_bits, table_bits : stored bits of a parameter in the low format, and of an embedding-table element. [-]
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
            length = job.length if phase is job.phase else 1.0
            moved = op.reads.at(job.batch, length, job.max_context) + op.writes.at(job.batch, length, job.max_context)
            activations = larger(activations, moved * (kept_bits if op.quantisable else wide_bits) / 8)
            if op.name in seen or op.stored == 0:
                continue
            seen.add(op.name)
            share = 1 if op.shard == "none" else job.ways
            if op.kind in ("Gather", "EmbeddingBag"):
                tables += op.stored * op.layers * (table_bits or bits) / 8 / share
            else:
                weights += op.stored * op.layers * (bits if op.quantisable else wide_bits) / 8 / share
    state = job.graph.state_elements.at(job.batch, job.max_context, job.max_context) * kept_bits / 8 / job.ways
    return Footprint(weights, tables, state * job.streams, activations * job.streams)
