"""Writes operators one after the other, so that a layer reads like the network's own code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from model_zoo.families.blocks import elementwise, linear, matmul
from model_zoo.ops import Dim, Op, dim

TOKENS = dim(1, "bs")
NORM = "layer-norm+residual"


@dataclass(frozen=True)
class View:
    """Which tokens a pass runs, and what each attends to."""

    tokens: Dim = TOKENS  # rows of activations
    rows: Dim = field(default_factory=lambda: dim(1, "s"))  # tokens of one sequence
    seen: Dim = field(default_factory=lambda: dim(1, "c"))  # tokens that one attends to


@dataclass
class Block:
    """Operators of one layer so far; every method adds one and returns its name."""

    hidden: int
    rms: bool
    view: View = field(default_factory=View)
    group: str = ""
    ops: list[Op] = field(default_factory=list)

    def linear(self, name: str, k: int, n: int, *inputs: str, bias: bool = False, **rest: Any) -> str:
        """Tokens times a matrix of weights."""
        self.ops.append(linear(name, self.view.tokens, k, n, group=self.group, inputs=inputs, bias=bias, **rest))
        return name

    def each(self, name: str, kind: str, width: Dim | float, *inputs: str, **rest: Any) -> str:
        """An element-wise operator or a reduction over `width` elements a token, or over that many in all."""
        elements = width if isinstance(width, Dim) else self.view.tokens * width
        self.ops.append(elementwise(name, kind, elements, group=self.group, inputs=inputs, **rest))
        return name

    def norm(self, name: str, *inputs: str) -> str:
        """The network's own norm over its width."""
        kind, stored = ("RMSNormalization", 1.0) if self.rms else ("LayerNormalization", 2.0)
        group, self.group = self.group, NORM
        self.each(name, kind, self.hidden, *inputs, stored=stored * self.hidden, shard="none")
        self.group = group
        return name

    def residual(self, name: str, *inputs: str) -> str:
        """What enters a half of a layer and what it adds."""
        more = {"operands": len(inputs), "operations": len(inputs) - 1, "shard": "none"}
        group, self.group = self.group, NORM
        self.each(name, "Add", self.hidden, *inputs, **more)
        self.group = group
        return name

    def matmul(self, name: str, g: Dim, m: Dim, n: Dim, k: Dim, inputs: Sequence[str], **rest: Any) -> str:
        """Products of activations or state."""
        self.ops.append(matmul(name, g, m, n, k, group=self.group, inputs=inputs, **rest))
        return name

    def append(self, name: str, width: int, parts: Dim, source: str) -> str:
        """What every token leaves in the cache."""
        written = self.view.tokens * width
        op = Op(name, "Concat", self.group, (source,), reads=written, state_writes=written, g=parts, shard="g")
        self.ops.append(op)
        return name

    def copies(self, tag: str, count: int) -> list[Op]:
        """The operators as those of `count` layers, names ending in `tag`."""
        own = {op.name for op in self.ops}

        def named(name: str) -> str:
            return name + tag if name in own else name

        return [
            replace(op, name=named(op.name), inputs=tuple(map(named, op.inputs)), layers=op.layers * count)
            for op in self.ops
        ]
