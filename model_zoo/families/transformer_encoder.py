"""Transformer encoder, operator by operator as a framework exports it: BERT, XLM-R and the vision transformer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model_zoo.families.blocks import elementwise, gather, linear, matmul, move
from model_zoo.families.family import NetworkFamily, Params
from model_zoo.ops import ZERO, Dim, Graph, Linear, Op, Phase, dim
from model_zoo.schema import WorkloadError

CLS = dim(1, "b")  # the first token of each sentence
NORM = "layer-norm+residual"


@dataclass(frozen=True)
class _Shape:
    hidden: int
    layers: int
    heads: int
    ffn: int
    tokens: Dim  # rows of activations of a pass
    rows: Dim  # tokens of one sentence
    keys: Dim  # tokens one token attends to

    @property
    def head(self) -> int:
        return self.hidden // self.heads


def _norm(shape: _Shape, name: str, source: str, layers: int, group: str = NORM) -> Op:
    return elementwise(
        name,
        "LayerNormalization",
        shape.tokens * shape.hidden,
        group=group,
        inputs=(source,),
        layers=layers,
        stored=2.0 * shape.hidden,
        shard="none",
    )


def _attention(shape: _Shape, source: str) -> list[Op]:
    group, layers, h = "self-attention", shape.layers, shape.hidden
    tokens = shape.tokens
    products = dim(shape.heads, "b")
    scores = products * shape.rows * shape.keys
    ops: list[Op] = []
    for name in ("query", "key", "value"):
        ops.append(linear(name, tokens, h, h, group=group, inputs=(source,), layers=layers))
        ops.append(
            move(
                f"{name}-transpose",
                "Transpose",
                tokens * h,
                group=group,
                inputs=(name,),
                layers=layers,
                shard="g",
                parts=products,
            )
        )
    ops += [
        matmul(
            "scores",
            products,
            shape.rows,
            shape.keys,
            Dim(shape.head),
            group=group,
            reads=tokens * (2 * h),
            inputs=("query-transpose", "key-transpose"),
            layers=layers,
        ),
        elementwise("scale", "Mul", scores, group=group, inputs=("scores",), layers=layers, shard="g", parts=products),
        elementwise("mask", "Add", scores, group=group, inputs=("scale",), layers=layers, shard="g", parts=products),
        elementwise(
            "softmax", "Softmax", scores, group=group, inputs=("mask",), layers=layers, shard="g", parts=products
        ),
        Op(
            name="context",
            kind="MatMul",
            group=group,
            inputs=("softmax", "value-transpose"),
            layers=layers,
            g=products,
            m=shape.rows,
            n=Dim(shape.head),
            k=shape.keys,
            flops=scores * (2.0 * shape.head),
            reads=scores,
            writes=tokens * h,
            shard="g",
        ),
        move(
            "heads-concat",
            "Concat",
            tokens * h,
            group=group,
            inputs=("context",),
            layers=layers,
            shard="g",
            parts=products,
        ),
        linear("attention-out", tokens, h, h, group=group, inputs=("heads-concat",), layers=layers, shard="k"),
    ]
    return ops


def _feed_forward(shape: _Shape, source: str) -> list[Op]:
    group, layers, tokens = "feed-forward", shape.layers, shape.tokens
    return [
        linear("fc1", tokens, shape.hidden, shape.ffn, group=group, inputs=(source,), layers=layers),
        elementwise("gelu", "Gelu", tokens * shape.ffn, group=group, inputs=("fc1",), layers=layers),
        linear("fc2", tokens, shape.ffn, shape.hidden, group=group, inputs=("gelu",), layers=layers, shard="k"),
    ]


def _residual(shape: _Shape, name: str, inputs: tuple[str, str]) -> Op:
    return elementwise(
        name,
        "Add",
        shape.tokens * shape.hidden,
        group=NORM,
        inputs=inputs,
        operands=2,
        layers=shape.layers,
        shard="none",
    )


def _layers(shape: _Shape, entry: str, *, first: bool) -> list[Op]:
    """The stack; `first` puts the norm before each half (vision), otherwise after its residual (BERT)."""
    if first:
        ops = [_norm(shape, "norm1", entry, shape.layers), *_attention(shape, "norm1")]
        ops += [
            _residual(shape, "residual1", ("attention-out", entry)),
            _norm(shape, "norm2", "residual1", shape.layers),
        ]
        return [*ops, *_feed_forward(shape, "norm2"), _residual(shape, "residual2", ("fc2", "residual1"))]
    ops = [*_attention(shape, entry), _residual(shape, "residual1", ("attention-out", entry))]
    ops += [_norm(shape, "norm1", "residual1", shape.layers), *_feed_forward(shape, "norm1")]
    return [*ops, _residual(shape, "residual2", ("fc2", "norm1")), _norm(shape, "norm2", "residual2", shape.layers)]


def _text(params: Params, shape: _Shape) -> list[Op]:
    """Token, position and (where there are any) segment embeddings, summed and normalised."""
    tokens, h = shape.tokens, shape.hidden
    tables = [("token-embedding", params.whole("vocab", 1, 2**31)), ("position-embedding", params.whole("context", 1))]
    segments = params.whole("segments", 0, 65536)
    if segments:
        tables.append(("segment-embedding", segments))
    ops = [gather(name, tokens, rows, h, group="embedding") for name, rows in tables]
    names = tuple(name for name, _ in tables)
    added = elementwise(
        "add-embedding",
        "Add",
        tokens * h,
        group="embedding",
        inputs=names,
        operands=len(names),
        operations=len(names) - 1,
        shard="none",
    )
    return [*ops, added, _norm(shape, "norm-embedding", "add-embedding", 1, "embedding")]


def _patches(shape: _Shape, image: int, patch: int) -> list[Op]:
    """An image cut into patches by a convolution whose stride is its kernel, a class token and positions added."""
    side, h = image // patch, shape.hidden
    pixels = dim(side * side, "b")
    window = 3 * patch * patch
    conv = Op(
        name="patch",
        kind="Conv",
        group="embedding",
        m=pixels,
        n=Dim(h),
        k=Dim(window),
        flops=pixels * (2.0 * window * h),
        stored=float(window * h + h),
        weights=Dim(window * h + h),
        reads=dim(3 * image * image, "b"),
        writes=pixels * h,
        shard="n",
        attributes=(
            ("kernel", float(patch)),
            ("stride", float(patch)),
            ("groups", 1.0),
            ("channels", 3.0),
            ("height", float(image)),
            ("width", float(image)),
        ),
    )
    rows = side * side + 1
    return [
        conv,
        move("class-token", "Concat", shape.tokens * h, group="embedding", inputs=("patch",), shard="none"),
        elementwise(
            "add-position",
            "Add",
            shape.tokens * h,
            group="embedding",
            inputs=("class-token",),
            stored=float((rows + 1) * h),
            shard="none",
        ),
    ]


def _head(params: Params, shape: _Shape, source: str) -> list[Op]:
    ops: list[Op] = []
    if params.word("pooler", ("none", "tanh")) == "tanh":
        ops = [
            linear("pooler", CLS, shape.hidden, shape.hidden, group="head", inputs=(source,)),
            elementwise("pooler-tanh", "Tanh", CLS * shape.hidden, group="head", inputs=("pooler",)),
        ]
        source = "pooler-tanh"
    classes = params.whole("classes", 0, 2**31)
    if classes:
        ops.append(linear("classifier", CLS, shape.hidden, classes, group="head", inputs=(source,)))
    return ops


def _build(values: Mapping[str, Any]) -> Graph:
    params = Params(values)
    hidden, heads = params.whole("hidden", 1, 1_048_576), params.whole("heads", 1, 65536)
    if hidden % heads:
        raise WorkloadError(f"parameter 'heads' is {heads}; it must divide the hidden size {hidden}")
    patch = params.whole("patch", 0, 4096)
    image = params.whole("image", 1, 65536)
    if patch and image % patch:
        raise WorkloadError(f"parameter 'image' is {image}; it must be a multiple of the patch {patch}")
    fixed = (image // patch) ** 2 + 1 if patch else 0
    shape = _Shape(
        hidden=hidden,
        layers=params.whole("layers", 1, 4096),
        heads=heads,
        ffn=params.whole("ffn", 0, 1_048_576) or 4 * hidden,
        tokens=dim(fixed, "b") if fixed else dim(1, "bs"),
        rows=Dim(fixed) if fixed else dim(1, "s"),
        keys=Dim(fixed) if fixed else dim(1, "c"),
    )
    if patch:
        ops = _patches(shape, image, patch)
        ops += _layers(shape, ops[-1].name, first=True)
        ops.append(_norm(shape, "final-norm", ops[-1].name, 1))
    else:
        ops = _text(params, shape)
        ops += _layers(shape, ops[-1].name, first=False)
    head = _head(params, shape, ops[-1].name)
    through = Linear(1) if fixed else Linear(0, 1, 0)
    leaving = head[-1].writes if head else shape.tokens * hidden
    return Graph(
        phases=(Phase("forward", (*ops, *head), length=through, context=through),),
        unit="image" if fixed else "sentence",
        input_elements=dim(3 * image * image, "b") if fixed else shape.tokens,
        output_elements=Dim(leaving.coef, leaving.b) if head or fixed else dim(hidden, "b"),
        input_indices=ZERO if fixed else shape.tokens,
        positions=0 if fixed else params.whole("context", 1),
    )


FAMILY = NetworkFamily(
    name="transformer-encoder",
    build=_build,
    required=("hidden", "layers", "heads"),
    defaults={
        "ffn": 0,
        "vocab": 30522,
        "context": 512,
        "segments": 0,
        "pooler": "none",
        "classes": 0,
        "patch": 0,
        "image": 224,
    },
    adjustable={"layers": ("Layers", 1, 1024), "image": ("Image side (patches only)", 16, 4096)},
    input_label="Tokens",
)
