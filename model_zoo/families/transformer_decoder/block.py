"""Writes operators one after the other, so that a layer reads like the network's own code."""

from dataclasses import dataclass, field, replace
from typing import Any

from model_zoo.families import blocks
from model_zoo.ops import Dim, Op, dim

TOKENS = dim(1, "bs")
NORM = "layer-norm+residual"


@dataclass(frozen=True)
class View:
    """Which tokens a pass runs, and what each attends to."""

    tokens: Dim = TOKENS  # rows of activations
    positions: Dim = field(default_factory=lambda: dim(1, "s"))  # tokens of one sequence
    seen: Dim = field(default_factory=lambda: dim(1, "c"))  # tokens that one attends to


class Block(blocks.Block):
    """Operators of one layer so far, a row of activations a token of its view."""

    def __init__(self, hidden: int, rms: bool, view: View, group: str = "") -> None:
        super().__init__(view.tokens, group, bias=False)
        self.hidden, self.rms, self.view = hidden, rms, view

    def norm(self, name: str, *inputs: str, **fields: Any) -> str:
        """The network's own norm over its width."""
        kind, scales = ("RMSNormalization", 1.0) if self.rms else ("LayerNormalization", 2.0)
        fields = {"group": NORM, "stored": scales * self.hidden, "shard": "none"} | fields
        return self.vector(name, kind, self.hidden, *inputs, **fields)

    def residual(self, name: str, *inputs: str) -> str:
        """What enters a half of a layer and what it adds."""
        fields = {"operands": len(inputs), "operations": len(inputs) - 1, "shard": "none"}
        return self.vector(name, "Add", self.hidden, *inputs, group=NORM, **fields)

    def cache(self, name: str, width: int, parts: Dim, source: str) -> str:
        """What every token leaves in the cache."""
        elements = self.rows * width
        return self.op(name, "Concat", source, reads=elements, state_writes=elements, g=parts, shard="g")

    def copies(self, tag: str, count: int) -> list[Op]:
        """The operators as those of `count` layers, names ending in `tag`."""
        names = {op.name for op in self.ops}

        def rename(name: str) -> str:
            return name + tag if name in names else name

        return [
            replace(op, name=rename(op.name), inputs=tuple(map(rename, op.inputs)), layers=op.layers * count)
            for op in self.ops
        ]
