"""Transformer encoder, operator by operator as a framework exports it: BERT, XLM-R and the vision transformer."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from model_zoo.families import blocks
from model_zoo.families.blocks import LENGTH, ROW, attributes, forward
from model_zoo.families.family import Params
from model_zoo.families.transformer_decoder.block import NORM, Block, View
from model_zoo.ops import Dim, Graph, Op, dim
from model_zoo.schema import WorkloadError


class _Layers(Block):
    """The stack of a network of `hidden` width, every product of it with a bias.

    `groups` of channels keep apart in every product but the one behind attention; `distances` is how often a head
    multiplies with embeddings of how far tokens are apart.
    """

    def __init__(self, hidden: int, params: Params, view: View) -> None:
        super().__init__(hidden, False, view)
        self.layers, self.bias = params.whole("layers", 1, 4096), True
        self.groups, self.distances = params.whole("groups", 1, 65536), params.whole("distances", 0, 2)
        self.own_distances = params.word("distance_weights", ("own", "shared")) == "own"
        self.narrow_attention = params.word("quantised", ("all", "feed-forward")) == "all"
        self.affine = params.word("norm", ("layer", "affine")) == "affine"
        self.activation = params.word("activation", ("Gelu", "Relu"))

    def norm(self, name: str, *inputs: str, **fields: Any) -> str:
        """A layer's norm, or scales and shifts alone in its place; groups lie channel by channel around it."""
        if self.groups > 1 and not fields:
            inputs = (self.move(f"{name}-rows", "Transpose", self.hidden, *inputs, group=NORM),)
            made = super().norm(name, *inputs, **fields)
            return self.move(f"{name}-channels", "Transpose", self.hidden, made, group=NORM)
        if not self.affine:
            return super().norm(name, *inputs, **fields)
        fields = {"group": NORM, "stored": 2.0 * self.hidden, "shard": "none"} | fields
        return self.vector(name, "BatchNormalization", self.hidden, *inputs, **fields)

    def product(self, name: str, k: int, n: int, source: str, **fields: Any) -> str:
        """Rows times a matrix, or times one for each group of channels: a convolution of single pixels."""
        if self.groups == 1:
            return self.linear(name, k, n, source, **fields)
        if k % self.groups or n % self.groups:
            raise WorkloadError(f"parameter 'groups' is {self.groups}; it must divide {k} and {n} channels")
        shape = {"kernel": 1, "stride": 1, "groups": self.groups, "channels": k, "height": 1, "width": 1, "filters": n}
        fields |= {"g": Dim(self.groups), "n": Dim(n // self.groups), "reads": self.rows * k}
        return self.linear(name, k // self.groups, n, source, kind="Conv", attributes=attributes(**shape), **fields)

    def attention(self, heads: int, query: str, key: str, value: str, prefix: str = "", wide: int = 0) -> str:
        """Attention, its heads laid out by transposes; values are made of rows that are `wide`."""
        self.group, h = "self-attention", self.hidden
        products, head, positions, keys = dim(heads, "b"), h // heads, self.view.positions, self.view.seen
        scores = products * positions * keys
        shard: dict[str, Any] = {"shard": "g", "g": products}
        for name, source in (("query", query), ("key", key), ("value", value)):
            width = wide or h if name == "value" else h
            made = self.product(f"{prefix}{name}", width, h, source, quantisable=self.narrow_attention)
            self.move(f"{made}-transpose", "Transpose", h, made, **shard)
        sides = f"{prefix}query-transpose", f"{prefix}key-transpose"
        reads = self.rows * (2 * h)
        sums = [self.matmul(f"{prefix}scores", products, positions, keys, Dim(head), *sides, reads=reads)]
        sums += [self.distance(side, products, head, shard) for side in ("query", "key")[: self.distances]]
        if len(sums) > 1:
            sums = [self.vector("add-distances", "Add", scores, *sums, operands=len(sums), **shard)]
        scaled = self.vector(f"{prefix}scale", "Mul", scores, *sums, **shard)
        masked = self.vector(f"{prefix}mask", "Add", scores, scaled, **shard)
        self.vector(f"{prefix}softmax", "Softmax", scores, masked, **shard)
        sides = f"{prefix}softmax", f"{prefix}value-transpose"
        self.matmul(f"{prefix}context", products, positions, Dim(head), keys, *sides, reads=scores)
        self.move(f"{prefix}heads-concat", "Concat", h, f"{prefix}context", **shard)
        fields: dict[str, Any] = {"shard": "k", "quantisable": self.narrow_attention}
        return self.linear(f"{prefix}attention-out", h, h, f"{prefix}heads-concat", **fields)

    def distance(self, side: str, products: Dim, head: int, shard: dict[str, Any]) -> str:
        """Queries or keys times the embeddings of all distances of two tokens; each pair takes that of its own."""
        h, positions, distances = self.hidden, self.view.positions, self.view.seen * 2.0
        fields: dict[str, Any] = {"rows": positions * 2.0, "bias": False, "quantisable": self.narrow_attention}
        fields |= {} if self.own_distances else {"stored": 0.0}
        embedded = self.linear(f"{side}-distances", h, h, "distances", **fields)
        extents, inputs = (products, positions, distances, Dim(head)), (f"{side}-transpose", embedded)
        made = self.matmul(f"{side}-distance-scores", *extents, *inputs, reads=self.rows * h)
        wide = products * positions * distances
        return self.move(f"{side}-distance-pairs", "Transpose", wide, made, writes=wide * 0.5, **shard)

    def feed_forward(self, ffn: int, source: str, prefix: str = "") -> str:
        """Up, the activation and down again."""
        self.group = "feed-forward"
        wide = self.product(f"{prefix}fc1", self.hidden, ffn, source)
        wide = self.vector(f"{prefix}{self.activation.lower()}", self.activation, ffn, wide)
        return self.product(f"{prefix}fc2", ffn, self.hidden, wide, shard="k")

    def stack(self, heads: int, ffn: int, entry: str, *, first: bool, prefix: str = "", memory: str = "") -> str:
        """The layers; `first` puts the norm before each part (vision), otherwise after its residual (BERT).

        Those of a decoder attend to `memory` as well.
        """
        parts: list[Callable[[str], str]] = [lambda x: self.attention(heads, x, x, x, prefix)]
        if memory:
            parts.append(lambda x: self.attention(heads, x, memory, memory, f"{prefix}cross-"))
        return self.chain([*parts, lambda x: self.feed_forward(ffn, x, prefix)], entry, first=first, prefix=prefix)

    def chain(self, parts: Sequence[Callable[[str], str]], x: str, *, first: bool = False, prefix: str = "") -> str:
        """Parts of a layer one after another, each with its residual and its norm."""
        for number, part in enumerate(parts, 1):
            norm, residual = f"{prefix}norm{number}", f"{prefix}residual{number}"
            if first:
                x = self.residual(residual, part(self.norm(norm, x)), x)
            else:
                x = self.norm(norm, self.residual(residual, part(x), x))
        return x

    def narrow_stack(self, width: int, heads: int, ffn: int, feeds: int, entry: str) -> str:
        """Layers that work `width` wide, with several feed-forward networks: MobileBERT's bottleneck.

        Keys and queries are of one narrowed copy of what enters, the residual is another, values are of all of it.
        """
        self.group, outer, self.hidden = "bottleneck", self.hidden, width
        x, shared = (
            self.norm(f"{name}-norm", self.linear(name, outer, width, entry), group="bottleneck")
            for name in ("narrow", "shared")
        )
        parts: list[Callable[[str], str]] = [lambda _: self.attention(heads, shared, shared, entry, wide=outer)]
        tags = [f"ffn{number}-" for number in range(1, feeds + 1)]
        x = self.chain([*parts, *(partial(self.feed_forward, ffn, prefix=tag) for tag in tags)], x)
        self.group, self.hidden = "bottleneck", outer
        return self.norm("norm-wide", self.residual("residual-wide", self.linear("widen", width, outer, x), entry))


def _text(params: Params, block: _Layers, prefix: str = "") -> str:
    """Token, position and (where there are any) segment embeddings, summed and normalised; a second reader's tokens
    are of the same table.

    Tokens are `embedding` wide with their neighbours' beside them, where a product widens them. Where heads multiply
    with distances, the position table is of those.
    """
    once: dict[str, Any] = {"group": "embedding", "layers": 1}
    h, context, distances = block.hidden, params.whole("context", 0), params.whole("distances", 0, 2)
    width, window = params.whole("embedding", 0, 1_048_576), params.whole("embedding_window", 1, 64)
    table = once | ({"stored": 0.0} if prefix else {})
    names = [block.gather(f"{prefix}token-embedding", params.whole("vocab", 1, 2**31), width or h, **table)]
    if width:
        near = block.move(f"{prefix}neighbours", "Concat", width * window, *names, **once) if window > 1 else names[0]
        names = [block.linear(f"{prefix}embedding-projection", width * window, h, near, **once)]
    tables = {"position": 0 if distances else context, "segment": params.whole("segments", 0, 65536)}
    names += [block.gather(f"{prefix}{name}-embedding", rows, h, **once) for name, rows in tables.items() if rows]
    x = names[0]
    if len(names) > 1:
        fields = once | {"operands": len(names), "operations": len(names) - 1, "shard": "none"}
        x = block.vector(f"{prefix}add-embedding", "Add", h, *names, **fields)
    if distances and context:
        block.append(blocks.gather("distances", block.view.positions * 2.0, context, h, **once))
    elif distances:  # sines and cosines
        block.vector("distances", "Tanh", block.view.positions * (2.0 * h), **once)
    return block.norm(f"{prefix}norm-embedding", x, **once)


def _patches(block: _Layers, image: int, patch: int) -> str:
    """An image cut into patches by a convolution whose stride is its kernel, a class token and positions added."""
    side, h = image // patch, block.hidden
    once: dict[str, Any] = {"group": "embedding", "layers": 1}
    marks = attributes(kernel=patch, stride=patch, groups=1, channels=3, height=image, width=image)
    size = {"rows": ROW * (side * side), "reads": ROW * (3 * image * image)}
    block.linear("patch", 3 * patch * patch, h, kind="Conv", attributes=marks, **size, **once)
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
    narrow = params.whole("bottleneck", 0, 1_048_576)
    if (narrow or hidden) % heads:
        raise WorkloadError(f"parameter 'heads' is {heads}; it must divide the hidden size {narrow or hidden}")
    patch = params.whole("patch", 0, 4096)
    image = params.whole("image", 1, 65536)
    if patch and image % patch:
        raise WorkloadError(f"parameter 'image' is {image}; it must be a multiple of the patch {patch}")
    tokens = (image // patch) ** 2 + 1 if patch else 0
    view = View(dim(tokens, "b"), Dim(tokens), Dim(tokens)) if tokens else View()
    block = _Layers(hidden, params, view)
    ffn = params.whole("ffn", 0, 1_048_576) or 4 * hidden
    entry = _patches(block, image, patch) if patch else _text(params, block)
    if narrow:
        last = block.narrow_stack(narrow, heads, ffn, params.whole("feed_forwards", 1, 64), entry)
    else:
        last = block.stack(heads, ffn, entry, first=bool(patch))
    if patch:
        last = block.norm("final-norm", last, layers=1)
    if count := params.whole("decoder_layers", 0, 4096):
        decoder = _Layers(hidden, params.but({"layers": count}), view)
        fields = {"first": False, "prefix": "decoder-", "memory": last}
        last = decoder.stack(heads, ffn, _text(params, decoder, "decoder-"), **fields)
        block.ops += decoder.ops
    head = _head(params, hidden, last)
    leaving = head[-1].writes if head else block.rows * hidden
    leaving = Dim(leaving.coef, leaving.b) if head or tokens else dim(hidden, "b")
    if tokens:
        return forward((*block.ops, *head), "image", dim(3 * image * image, "b"), leaving)
    rows, places = block.rows, params.whole("context", 0)
    return forward((*block.ops, *head), "sentence", rows, leaving, LENGTH, input_indices=rows, positions=places)
