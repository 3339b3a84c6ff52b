"""A DFX core as a record, and its programs timed: one decoder layer, the LM head or the embedding of one token.

Every distinct configuration is run once (`scoreboard`) and remembered; a sweep reads the same memory. Estimates.
Source: Hong et al., MICRO 2022.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.devices.dfx_isa import program as isa
from engine.devices.dfx_isa.scoreboard import N_UNITS, run
from hardware_specs.schema import Device, Dfx, Link
from model_zoo.ops import Phase

__all__ = ["BYTES", "DEPTHS", "Layer", "Timed", "core_record", "time_program", "vector_lanes"]

BYTES = 2.0
DEPTHS: dict[str, float] = {
    "fp-add": 11, "fp-mul": 6, "fp-exp": 4, "fp-recip": 16, "fp-rsqrt": 16, "compare": 1, "gelu-table": 17,
    "hbm-write": 40, "ddr-read": 40,
}  # fmt: skip
"""Operator latencies a core may name, with those of the U280 core for one that leaves them out. [cycle]"""

_COMPUTE, _OFFCHIP, _ONCHIP, _LINKS, _HOST, _OVERHEAD = range(6)


@dataclass(frozen=True)
class Layer:
    """Sizes of the decoder a core runs."""

    width: float
    heads: float
    head: float
    ffn: float
    layers: int
    vocab: float

    @classmethod
    def of(cls, phase: Phase) -> Layer:
        """Sizes read off the ops of a phase."""
        ops = {op.name: op for op in phase.ops}
        return cls(
            ops["qkv"].k.coef, ops["scores"].g.coef, ops["scores"].k.coef, ops["fc1"].n.coef, ops["qkv"].layers,
            ops["lm-head"].n.coef,
        )  # fmt: skip


@dataclass(frozen=True)
class Timed:
    """A program that was run: cycles by role and unit, and what it moved. Cycles and bytes of one core."""

    cycles: float
    by_role: np.ndarray  # (roles, 6) by resource
    hbm: np.ndarray  # (roles,) bytes
    sent: float
    busy: np.ndarray  # (units,) cycles occupied
    code: np.ndarray
    start: np.ndarray
    done: np.ndarray


def vector_lanes(dfx: Dfx, d: float) -> float:
    """Elements a vector instruction takes a cycle with tiles d wide: the core's own at its own d, in proportion. [-]"""
    return dfx.vector_lanes.si * d / dfx.d.si if dfx.vector_lanes else d


def core_record(
    device: Device, link: Link | None, hops: int, cards: int, tile: tuple[int, ...], model: Mapping[str, float]
) -> tuple[float, ...]:
    """Flat record of a core for the compiled program generator: cycles, elements and bytes a cycle."""
    dfx = device.dfx
    assert dfx is not None
    clock = dfx.clock.si
    d, lanes = tile or (dfx.d.si, dfx.l.si)
    hbm = next(m for m in device.memory if m.role == "offchip" and "weights" in m.holds)
    ddr = [m for m in device.memory if m.role == "offchip" and m.name != hbm.name and m.bandwidth is not None]
    port = dfx.channels.si * dfx.channel_bits.si / 8
    dma = min(port, hbm.bandwidth.si / clock) if hbm.bandwidth else port  # bytes a cycle
    words = math.ceil(d * lanes * BYTES / port)  # all channels answer in step: a beat is whole words of the port
    depth = {name: dfx.depths[name].si if name in dfx.depths else cycles for name, cycles in DEPTHS.items()}
    rate = link.bandwidth.si * (link.payload.si if link.payload else 1.0) / clock if link else 1.0
    values = {
        isa.D: d,
        isa.L: lanes,
        isa.VECTOR: vector_lanes(dfx, d),
        isa.ADD: depth["fp-add"],
        isa.MUL: depth["fp-mul"],
        isa.EXP: depth["fp-exp"],
        isa.COMPARE: depth["compare"],
        isa.ROOT: depth["fp-rsqrt"],
        isa.RECIPROCAL: depth["fp-recip"],
        isa.TABLE: depth["gelu-table"],
        isa.BEAT: words * port / dma,
        isa.GAP: words * model["burst_gap"] / model["burst_beats"],
        isa.WRITE_LATENCY: depth["hbm-write"],
        isa.DDR_RATE: ddr[0].bandwidth.si / clock if ddr and ddr[0].bandwidth else dma,
        isa.DDR_LATENCY: depth["ddr-read"],
        isa.HOP: link.latency.si * hops * clock if link else 0.0,
        isa.LINK_RATE: rate,
        isa.HANDOFF_CYCLES: model["handoff"],
        isa.CARDS: float(cards),
        isa.BYTES: BYTES,
        isa.FILL: d * lanes * BYTES / (words * port),
    }
    return tuple(float(values[i]) for i in range(isa.RECORD))


def _summarise(code: np.ndarray, chaining: bool, fill: float) -> Timed:
    """Run a program and book its cycles; `fill` is the share of the memory port that a beat uses."""
    start, done, push = np.zeros(len(code)), np.zeros(len(code)), np.zeros(len(code))
    busy = np.zeros(N_UNITS)
    cycles = run(code, len(code), chaining, start, done, push, busy)
    role, unit = code[:, isa.ROLE].astype(int), code[:, isa.UNIT].astype(int)
    roles = np.zeros((len(isa.ROLES), 6))
    streamed = np.where(unit == isa.MPU, np.minimum(push, code[:, isa.OCCUPY]), 0.0)
    # a tile narrower than the port, or a memory faster than a beat: the matrix unit is what the stream waits for
    computing = np.where(code[:, isa.OCCUPY] <= code[:, isa.BEATS], streamed, streamed * (1.0 - fill))
    wired = np.where(unit == isa.ROUTER, np.minimum(push, code[:, isa.LATENCY]), 0.0)
    vector = np.where(unit == isa.VPU, push, 0.0)
    stored = np.where((unit == isa.WRITE) | (unit == isa.DDR), push, 0.0)
    np.add.at(roles[:, _COMPUTE], role, vector + computing)
    np.add.at(roles[:, _OFFCHIP], role, streamed - computing + stored)
    np.add.at(roles[:, _LINKS], role, wired)
    np.add.at(roles[:, _OVERHEAD], role, push - streamed - vector - wired - stored)
    hbm = np.bincount(role, code[:, isa.HBM], len(isa.ROLES))
    return Timed(cycles, roles, hbm, float(code[:, isa.SENT].sum()), busy, code, start, done)


@lru_cache(maxsize=4096)
def time_program(part: str, record: tuple[float, ...], layer: Layer, context: float, chaining: bool) -> Timed:
    """Cycles of one layer, of the LM head or of the embedding of one token on one core. An estimate."""
    if part == "layer":
        heads = math.ceil(layer.heads / record[isa.CARDS])
        code = isa.layer_program(record, layer.width, heads, layer.head, layer.ffn, context)
    elif part == "head":
        code = isa.head_program(record, layer.width, layer.vocab)
    else:
        code = isa.token_program(record, layer.width)
    return _summarise(code, chaining, record[isa.FILL])
