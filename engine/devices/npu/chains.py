"""Instruction chains of the Brainwave NPU, and the latency floor of a step that depends on the one before.

A chain is a run of instructions that passes the units in their order without touching a register file in between:
an optional matrix-vector product, then vector operations in the multifunction units (MFUs), then a write. Every MFU
holds one adder, one multiplier and one activation unit behind crossbars, so it does at most one of each; a chain
that needs more is cut in two. Values pass between chains only through vector register files.

Sources: Chung et al., IEEE Micro 2018 (units and their order); the chain programming model is recalled from Fowers
et al., ISCA 2018.

Cycles are an estimate from these programs; counts of chains are exact.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.devices.common.column import larger, one_by_one
from entries.files import load_yaml

TABLES: dict[str, Any] = load_yaml(Path(__file__).with_name("tables.yaml").read_bytes())
DEPTHS: dict[str, float] = TABLES["depths"]
"""Pipeline depths that an NPU instance may name, and those of the Stratix 10 for one that has none. [cycle]"""

_UNIT_OF = {"add": "add", "sub": "add", "rsub": "add", "mul": "mul"} | dict.fromkeys(
    ("sigmoid", "tanh", "relu"), "activation"
)


@dataclass(frozen=True)
class VectorOp:
    """A vector operation of an MFU; `operand` names the register it reads beside the chain's value."""

    op: str
    operand: str = ""
    tap: str = ""  # register that also takes the value here


@dataclass(frozen=True)
class InstructionChain:
    """One instruction chain. A source or operand that ends in ``@`` is the value of the step before."""

    source: str
    ops: tuple[VectorOp, ...]
    target: str
    matrix: str = ""  # name of the weights multiplied first, or none

    @property
    def instructions(self) -> int:
        """Instructions it takes: read, product, vector operations, writes."""
        return 2 + bool(self.matrix) + len(self.ops) + sum(bool(v.tap) for v in self.ops)


def _levels(lanes: float) -> float:
    """Levels of an adder tree over so many lanes. [-]"""
    return math.ceil(math.log2(max(lanes, 2)))


@dataclass(frozen=True)
class Pipeline:
    """Depths of the units of an instance. [cycle]"""

    dispatch: float
    read: float
    write: float
    product: float  # matrix-vector unit, first tile included
    bypass: float  # past the matrix-vector unit
    mfu: float  # one multifunction unit
    mfus: int
    start: float

    @classmethod
    def of(cls, depths: Mapping[str, float], native: float, lanes: float, tiles: float, mfus: float) -> "Pipeline":
        """Depths from an instance's parameters: the adder tree deepens with lanes, the hand-over with engines.

        [cycle]
        """
        product = (
            2 * depths["mvu-convert"]  # float16 to shared exponent, and back
            + depths["mvu-distribute"]
            + math.ceil(native / lanes)  # a native tile passes
            + one_by_one(_levels, lanes) * depths["mvu-dot-level"]
            + larger(tiles - 1.0, 0.0) * depths["mvu-reduce-hop"]
        )
        mfu = sum(depths[name] for name in ("mfu-crossbar", "mfu-add", "mfu-mul", "mfu-activation"))
        return cls(
            depths["dispatch"],
            depths["vrf-read"],
            depths["vrf-write"],
            product,
            depths["mvu-bypass"],
            mfu,
            max(1, int(mfus)),
            depths["sequence-start"],
        )


def _chain(text: str) -> InstructionChain:
    """A chain as `cells.yaml` writes it: ``"h@ *Uz add:xz sigmoid>y mul:h@ -> t"``."""
    source, *words, _, target = text.split()
    matrix = words.pop(0)[1:] if words[0].startswith("*") else ""
    ops = []
    for word in words:
        body, _, tap = word.partition(">")
        op, _, operand = body.partition(":")
        ops.append(VectorOp(op, operand, tap))
    return InstructionChain(source, tuple(ops), target, matrix)


CELLS, CELLS_IN_ORDER = (
    {cell: tuple(map(_chain, chains)) for cell, chains in cells.items()}
    for cells in load_yaml(Path(__file__).with_name("cells.yaml").read_bytes()).values()
)
"""One step of each recurrent cell, and the same for units of a fixed order."""

_ORDER = ("activation", "add", "mul")


def cut(
    chain: InstructionChain, mfus: int, in_order: bool = False
) -> tuple[tuple[InstructionChain, tuple[int, ...]], ...]:
    """The chain as chains that fit `mfus` MFUs, each with the MFU that runs each of its operations.

    With `in_order`, an MFU's activation comes before its adder and that before its multiplier; else in any order.
    """
    pieces: list[tuple[InstructionChain, tuple[int, ...]]] = []
    source, matrix = chain.source, chain.matrix
    ops: list[VectorOp] = []
    places: list[int] = []
    at, busy = 0, set()
    for op in chain.ops:
        unit = _UNIT_OF[op.op]
        if unit in busy or (in_order and any(_ORDER.index(u) > _ORDER.index(unit) for u in busy)):
            at, busy = at + 1, set()
        if at >= mfus:
            target = f"{chain.target}.{len(pieces)}"
            pieces.append((InstructionChain(source, tuple(ops), target, matrix), tuple(places)))
            source, matrix, ops, places, at, busy = target, "", [], [], 0, set()
        busy.add(unit)
        ops.append(op)
        places.append(at)
    pieces.append((InstructionChain(source, tuple(ops), chain.target, matrix), tuple(places)))
    return tuple(pieces)


@dataclass
class Passes:
    """Cycles a chain keeps the multifunction units of an instance, operation by operation.

    Values stream through the units of one pass, so the slowest operation of the pass counts, not their sum; a chain
    that asks for more units than there are goes through them again.
    """

    mfus: int
    _ops: tuple[VectorOp, ...] = ()
    _pieces: int = 1
    _before: float = 0.0  # cycles of the finished passes
    _last: float = 0.0  # cycles of the pass under way

    def add(self, ops: Sequence[str], cycles: float) -> float:
        """Cycles of the whole chain once vectors that take ``cycles`` a pass also go through ``ops``. [cycle]"""
        self._ops += tuple(map(VectorOp, ops))
        pieces = len(cut(InstructionChain("x", self._ops, "y"), self.mfus))
        if pieces > self._pieces:
            self._before += self._last + (pieces - self._pieces - 1) * cycles
            self._pieces, self._last = pieces, cycles
        self._last = larger(self._last, cycles)
        return self._before + self._last


def finish(
    chain: InstructionChain, places: tuple[int, ...], pipe: Pipeline, ready: dict[str, float]
) -> dict[str, float]:
    """Cycles at which the registers a chain writes are valid, given when those it reads are. [cycle]"""
    t = ready[chain.source] + pipe.dispatch + pipe.read + (pipe.product if chain.matrix else pipe.bypass)
    valid = {}
    for unit in sorted(set(places)):  # an MFU without work is passed by
        here = [v for v, place in zip(chain.ops, places, strict=True) if place == unit]
        t = max([t] + [ready[v.operand] + pipe.read for v in here if v.operand]) + pipe.mfu
        valid.update({v.tap: t + pipe.write for v in here if v.tap})
    valid[chain.target] = t + pipe.write
    return valid


def floor_cycles(cell: str, pipe: Pipeline) -> float:
    """Cycles from a state to the next one along the dependence: no step of the cell takes less. [cycle] A bound.

    Weights times the input do not depend on the state and run ahead. A native vector of the state enters the product
    as soon as it is written, so products stream behind the units that feed them and only the depth of the units
    counts here; how long the products occupy the engine is the other bound.
    """
    return one_by_one(lambda *depths: _floor(cell, Pipeline(*depths)), *(getattr(pipe, f.name) for f in fields(pipe)))


@lru_cache(maxsize=4096)
def _floor(cell: str, pipe: Pipeline) -> float:
    """The same of one instance."""
    chains = [piece for chain in CELLS[cell] for piece in cut(chain, pipe.mfus)]
    names = {c.target for c, _ in chains} | {v.tap for c, _ in chains for v in c.ops if v.tap}
    ready = {v.operand: 0.0 for c, _ in chains for v in c.ops} | {c.source: 0.0 for c, _ in chains}
    previous = 0.0
    steps = []
    for _ in range(4):
        now = dict(ready)
        for chain, places in chains:
            if chain.source == "x":  # independent of the state: long done
                now[chain.target] = 0.0
                continue
            now.update(finish(chain, places, pipe, now))
        steps.append(now["h"] - previous)
        previous = now["h"]
        ready.update({f"{name}@": now[name] for name in names})
    return steps[-1]


def pass_cycles(pipe: Pipeline, units: int = 1, product: bool = True) -> float:
    """Cycles one chain through `units` MFUs takes from a valid source to a valid target. [cycle]"""
    return pipe.dispatch + pipe.read + (pipe.product if product else pipe.bypass) + units * pipe.mfu + pipe.write
