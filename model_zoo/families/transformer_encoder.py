"""Transformer encoder, operator by operator as a framework exports it: BERT, XLM-R and the vision transformer."""

from dataclasses import replace
from typing import Any

from model_zoo.families import blocks
from model_zoo.families.blocks import LENGTH, ROW, attributes, forward
from model_zoo.families.family import Params
from model_zoo.families.transformer_decoder.block import Block, View
from model_zoo.ops import Dim, Graph, Op, dim
from model_zoo.schema import WorkloadError


class _Layers(Block):
    """The stack of a network of `hidden` width, every product of it with a bias."""

    def __init__(self, hidden: int, layers: int, view: View) -> None:
        super().__init__(hidden, False, view)
        self.layers, self.bias = layers, True

    def attention(self, heads: int, source: str) -> str:
        """Attention, its heads laid out by transposes."""
        self.group, h = "self-attention", self.hidden
        products, head, positions, keys = dim(heads, "b"), h // heads, self.view.positions, self.view.seen
        scores = products * positions * keys
        shard: dict[str, Any] = {"shard": "g", "g": products}
        for name in ("query", "key", "value"):
            self.move(f"{name}-transpose", "Transpose", h, self.linear(name, h, h, source), **shard)
        sides = "query-transpose", "key-transpose"
        self.matmul("scores", products, positions, keys, Dim(head), *sides, reads=self.rows * (2 * h))
        self.vector("scale", "Mul", scores, "scores", **shard)
        self.vector("mask", "Add", scores, "scale", **shard)
        self.vector("softmax", "Softmax", scores, "mask", **shard)
        sides = "softmax", "value-transpose"
        self.matmul("context", products, positions, Dim(head), keys, *sides, reads=scores)
        self.move("heads-concat", "Concat", h, "context", **shard)
        return self.linear("attention-out", h, h, "heads-concat", shard="k")

    def feed_forward(self, ffn: int, source: str) -> str:
        """Up, GELU and down again."""
        self.group = "feed-forward"
        wide = self.vector("gelu", "Gelu", ffn, self.linear("fc1", self.hidden, ffn, source))
        return self.linear("fc2", ffn, self.hidden, wide, shard="k")

    def stack(self, heads: int, ffn: int, entry: str, *, first: bool) -> str:
        """The layers; `first` puts the norm before each half (vision), otherwise after its residual (BERT)."""
        if first:
            branch = self.attention(heads, self.norm("norm1", entry))
            stream = self.residual("residual1", branch, entry)
            return self.residual("residual2", self.feed_forward(ffn, self.norm("norm2", stream)), stream)
        stream = self.norm("norm1", self.residual("residual1", self.attention(heads, entry), entry))
        return self.norm("norm2", self.residual("residual2", self.feed_forward(ffn, stream), stream))


def _text(params: Params, block: _Layers) -> str:
    """Token, position and (where there are any) segment embeddings, summed and normalised."""
    once: dict[str, Any] = {"group": "embedding", "layers": 1}
    tables = {"token": params.whole("vocab", 1, 2**31), "position": params.whole("context", 1)}
    tables["segment"] = params.whole("segments", 0, 65536)
    names = [block.gather(f"{name}-embedding", rows, block.hidden, **once) for name, rows in tables.items() if rows]
    fields = once | {"operands": len(names), "operations": len(names) - 1, "shard": "none"}
    return block.norm("norm-embedding", block.vector("add-embedding", "Add", block.hidden, *names, **fields), **once)


def _patches(block: _Layers, image: int, patch: int) -> str:
    """An image cut into patches by a convolution whose stride is its kernel, a class token and positions added."""
    side, h = image // patch, block.hidden
    once: dict[str, Any] = {"group": "embedding", "layers": 1}
    marks = attributes(kernel=patch, stride=patch, groups=1, channels=3, height=image, width=image)
    block.linear("patch", 3 * patch * patch, h, rows=ROW * (side * side), kind="Conv", attributes=marks, **once)
    block.ops[-1] = replace(block.ops[-1], reads=ROW * (3 * image * image))
    block.move("class-token", "Concat", h, "patch", shard="none", **once)
    parameters = float((side * side + 2) * h)
    return block.vector("add-position", "Add", h, "class-token", stored=parameters, shard="none", **once)


def _head(params: Params, hidden: int, source: str) -> list[Op]:
    """What is made of each sentence's first token."""
    head = blocks.Block(ROW, "head")
    if params.word("pooler", ("none", "tanh")) == "tanh":
        source = head.vector("pooler-tanh", "Tanh", hidden, head.linear("pooler", hidden, hidden, source))
    if classes := params.whole("classes", 0, 2**31):
        head.linear("classifier", hidden, classes, source)
    return head.ops


def build(params: Params) -> Graph:
    hidden, heads = params.whole("hidden", 1, 1_048_576), params.whole("heads", 1, 65536)
    if hidden % heads:
        raise WorkloadError(f"parameter 'heads' is {heads}; it must divide the hidden size {hidden}")
    patch = params.whole("patch", 0, 4096)
    image = params.whole("image", 1, 65536)
    if patch and image % patch:
        raise WorkloadError(f"parameter 'image' is {image}; it must be a multiple of the patch {patch}")
    tokens = (image // patch) ** 2 + 1 if patch else 0
    view = View(dim(tokens, "b"), Dim(tokens), Dim(tokens)) if tokens else View()
    block = _Layers(hidden, params.whole("layers", 1, 4096), view)
    ffn = params.whole("ffn", 0, 1_048_576) or 4 * hidden
    last = block.stack(heads, ffn, _patches(block, image, patch) if patch else _text(params, block), first=bool(patch))
    if patch:
        last = block.norm("final-norm", last, layers=1)
    head = _head(params, hidden, last)
    leaving = head[-1].writes if head else block.rows * hidden
    leaving = Dim(leaving.coef, leaving.b) if head or tokens else dim(hidden, "b")
    if tokens:
        return forward((*block.ops, *head), "image", dim(3 * image * image, "b"), leaving)
    rows, places = block.rows, params.whole("context", 1)
    return forward((*block.ops, *head), "sentence", rows, leaving, LENGTH, input_indices=rows, positions=places)
