"""Transformer decoder with a KV cache: GPT-2 to Llama, grouped-query attention, gated and mixture-of-experts FFN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from model_zoo.families.blocks import elementwise, gather, linear, matmul
from model_zoo.families.family import NetworkFamily, Params
from model_zoo.ops import Dim, Graph, Linear, Op, Phase, Sum, dim
from model_zoo.schema import WorkloadError

__all__ = ["FAMILY", "Shape", "read_shape"]

TOKENS = dim(1, "bs")
LAST = dim(1, "b")  # the one token a request's logits are needed for
NORM = "layer-norm+residual"


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder, defaults resolved."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocab: int
    positions: int  # rows of a learned table; 0: rotary
    rotary: bool
    gated: bool
    rms: bool
    bias: str
    lm_head: str
    parallel: bool
    head_norm: bool
    experts: int
    top_k: int

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head

    @property
    def q_width(self) -> int:
        return self.heads * self.head


def read_shape(values: Mapping[str, Any]) -> Shape:
    """Parameters checked and defaults resolved (0 means: the usual one)."""
    p = Params(values)
    hidden, heads = p.whole("hidden", 1, 1_048_576), p.whole("heads", 1, 65536)
    head = p.whole("head_dim", 0, 65536)
    if not head and hidden % heads:
        raise WorkloadError(f"parameter 'heads' is {heads}; it must divide the hidden size {hidden}")
    kv_heads = p.whole("kv_heads", 0, 65536) or heads
    if heads % kv_heads:
        raise WorkloadError(f"parameter 'kv_heads' is {kv_heads}; it must divide the {heads} heads")
    experts, top_k = p.whole("experts", 0, 65536), p.whole("top_k", 0, 65536)
    if bool(experts) != bool(top_k) or top_k > experts:
        raise WorkloadError(f"parameter 'top_k' is {top_k}; between 1 and the {experts} experts are allowed")
    positions = p.word("position", ("learned", "rotary"))
    return Shape(
        hidden=hidden,
        layers=p.whole("layers", 1, 4096),
        heads=heads,
        kv_heads=kv_heads,
        head=head or hidden // heads,
        ffn=p.whole("ffn", 0, 1_048_576) or 4 * hidden,
        vocab=p.whole("vocab", 1, 2**31),
        positions=p.whole("context", 1, 2**31) if positions == "learned" else 0,
        rotary=positions == "rotary",
        gated=p.word("feed_forward", ("gelu", "gated")) == "gated",
        rms=p.word("norm", ("layer", "rms")) == "rms",
        bias=p.word("bias", ("all", "feed-forward", "none")),
        lm_head=p.word("lm_head", ("tied", "own", "own-bias")),
        parallel=p.word("block", ("sequential", "parallel")) == "parallel",
        head_norm=p.word("head_norm", ("no", "rms")) == "rms",
        experts=experts,
        top_k=top_k,
    )


def _norm(shape: Shape, name: str, rows: Dim, inputs: tuple[str, ...], layers: int = 1) -> Op:
    kind = "RMSNormalization" if shape.rms else "LayerNormalization"
    stored = shape.hidden * (1.0 if shape.rms else 2.0)
    return elementwise(
        name, kind, rows * shape.hidden, group=NORM, inputs=inputs, layers=layers, stored=stored, shard="none"
    )


def _embedding(shape: Shape) -> list[Op]:
    ops = [gather("token-embedding", TOKENS, shape.vocab, shape.hidden, group="embedding")]
    if shape.positions:
        ops.append(gather("position-embedding", TOKENS, shape.positions, shape.hidden, group="embedding"))
        both = ("token-embedding", "position-embedding")
        ops.append(
            elementwise("add-embedding", "Add", TOKENS * shape.hidden, group="embedding", inputs=both, operands=2)
        )
    return ops


def _attention(shape: Shape, source: str) -> list[Op]:
    group, layers = "self-attention", shape.layers
    q, kv, head = shape.q_width, shape.kv_width, shape.head
    products = dim(shape.kv_heads, "b")
    bias = shape.bias == "all"
    ops = [linear("qkv", TOKENS, shape.hidden, q + 2 * kv, group=group, inputs=(source,), layers=layers, bias=bias)]
    ready = "qkv"
    if shape.head_norm:  # one scale for the queries' heads and one for the keys'
        ops.append(
            elementwise(
                "qk-norm",
                "RMSNormalization",
                TOKENS * (q + kv),
                group=group,
                inputs=(ready,),
                layers=layers,
                stored=2.0 * head,
                shard="g",
                parts=products,
            )
        )
        ready = "qk-norm"
    if shape.rotary:
        ops.append(
            elementwise(
                "rotary",
                "RotaryEmbedding",
                TOKENS * (q + kv),
                group=group,
                inputs=(ready,),
                layers=layers,
                shard="g",
                parts=products,
            )
        )
        ready = "rotary"
    ops.append(
        Op(
            name="kv-append",
            kind="Concat",
            group=group,
            inputs=(ready,),
            layers=layers,
            reads=TOKENS * (2 * kv),
            state_writes=TOKENS * (2 * kv),
            g=products,
            shard="g",
        )
    )
    # The query heads that share a key head are rows of one product, so a cached element is read once.
    rows = dim(shape.heads // shape.kv_heads, "s")
    cached = dim(kv, "bc")
    scores = dim(shape.heads, "bs") * dim(1, "c")
    ops += [
        matmul(
            "scores",
            products,
            rows,
            dim(1, "c"),
            Dim(head),
            group=group,
            reads=TOKENS * q,
            state_reads=cached,
            inputs=(ready, "kv-append"),
            layers=layers,
        ),
        elementwise(
            "softmax",
            "Softmax",
            scores,
            group=group,
            inputs=("scores",),
            layers=layers,
            shard="g",
            parts=dim(shape.heads, "b"),
        ),
        matmul(
            "context",
            products,
            rows,
            Dim(head),
            dim(1, "c"),
            group=group,
            reads=scores,
            state_reads=cached,
            inputs=("softmax", "kv-append"),
            layers=layers,
        ),
        linear(
            "attention-out",
            TOKENS,
            q,
            shape.hidden,
            group=group,
            inputs=("context",),
            layers=layers,
            bias=bias,
            shard="k",
        ),
    ]
    return ops


def _feed_forward(shape: Shape, source: str) -> list[Op]:
    group, layers = "feed-forward", shape.layers
    bias = shape.bias != "none"
    ops: list[Op] = []
    rows, copies, attributes = TOKENS, 1, ()
    if shape.experts:
        ops.append(
            linear(
                "router",
                TOKENS,
                shape.hidden,
                shape.experts,
                group=group,
                inputs=(source,),
                layers=layers,
                bias=False,
                shard="none",
                quantisable=False,
            )
        )
        ops.append(
            elementwise(
                "top-k",
                "TopK",
                TOKENS * shape.experts,
                group=group,
                inputs=("router",),
                layers=layers,
                written=TOKENS * (2 * shape.top_k),
                shard="none",
            )
        )
        rows, copies = TOKENS * shape.top_k, shape.experts
        attributes = (("experts", float(shape.experts)), ("top_k", float(shape.top_k)))

    def expert(name: str, k: int, n: int, inputs: tuple[str, ...], shard: str) -> Op:
        own = k * n + (n if bias else 0)
        op = linear(
            name,
            rows,
            k,
            n,
            group=group,
            inputs=inputs,
            layers=layers,
            bias=bias,
            stored=float(copies * own),
            shard="k" if shard == "k" else "n",
            attributes=attributes,
        )
        return replace(op, weights=rows * own) if shape.experts else op

    inputs = (source, "top-k") if shape.experts else (source,)
    wide = rows * shape.ffn
    if shape.gated:
        ops += [
            expert("gate-up", shape.hidden, 2 * shape.ffn, inputs, "n"),
            elementwise("silu", "Silu", wide, group=group, inputs=("gate-up",), layers=layers),
            elementwise("gate", "Mul", wide, group=group, inputs=("silu", "gate-up"), operands=2, layers=layers),
            expert("down", shape.ffn, shape.hidden, ("gate",), "k"),
        ]
    else:
        ops += [
            expert("fc1", shape.hidden, shape.ffn, inputs, "n"),
            elementwise("gelu", "Gelu", wide, group=group, inputs=("fc1",), layers=layers),
            expert("fc2", shape.ffn, shape.hidden, ("gelu",), "k"),
        ]
    if shape.experts:
        combined = TOKENS * shape.hidden
        ops.append(
            elementwise(
                "combine",
                "ReduceSum",
                combined,
                group=group,
                inputs=(ops[-1].name, "top-k"),
                layers=layers,
                operands=shape.top_k,
                operations=2.0 * shape.top_k,
                shard="none",
            )
        )
    return ops


def _residual(shape: Shape, name: str, inputs: tuple[str, ...]) -> Op:
    return elementwise(
        name,
        "Add",
        TOKENS * shape.hidden,
        group=NORM,
        inputs=inputs,
        operands=len(inputs),
        operations=len(inputs) - 1,
        layers=shape.layers,
        shard="none",
    )


def _ops(shape: Shape) -> tuple[Op, ...]:
    ops = _embedding(shape)
    entry = ops[-1].name
    ops.append(_norm(shape, "norm1", TOKENS, (entry,), shape.layers))
    attention = _attention(shape, "norm1")
    ops += attention
    if shape.parallel:  # attention and feed-forward read the same normalised input and are added together
        feed = _feed_forward(shape, "norm1")
        ops += [*feed, _residual(shape, "residual", ("attention-out", feed[-1].name, entry))]
    else:
        ops += [
            _residual(shape, "residual1", ("attention-out", entry)),
            _norm(shape, "norm2", TOKENS, ("residual1",), shape.layers),
        ]
        feed = _feed_forward(shape, "norm2")
        ops += [*feed, _residual(shape, "residual2", (feed[-1].name, "residual1"))]
    ops.append(_norm(shape, "final-norm", LAST, (ops[-1].name,)))
    stored = 0.0 if shape.lm_head == "tied" else None
    ops += [
        linear(
            "lm-head",
            LAST,
            shape.hidden,
            shape.vocab,
            group="lm-head",
            inputs=("final-norm",),
            bias=shape.lm_head == "own-bias",
            stored=stored,
        ),
        elementwise("argmax", "ArgMax", LAST * shape.vocab, group="lm-head", inputs=("lm-head",), written=LAST),
    ]
    return tuple(ops)


def _build(values: Mapping[str, Any]) -> Graph:
    """Prefill reads I tokens and yields the first; each of O - 1 passes more reads one and yields one.

    The key and value of every token stay in the cache. The LM head and the norm before it run for the last token
    only. In a mixture of experts a pass reads the experts its tokens chose: no two tokens share one until all are in
    use (an upper bound, exact for one token and for many).
    """
    shape = read_shape(values)
    ops = _ops(shape)
    return Graph(
        phases=(
            Phase("prefill", ops, length=Linear(0, 1, 0), context=Linear(0, 1, 0), repeat=Linear(1)),
            Phase("decode", ops, length=Linear(1), context=Linear(0, 1, 0.5), repeat=Linear(-1, 0, 1)),
        ),
        unit="token",
        units_per_request=Linear(0, 0, 1),
        causal=True,
        state_elements=Sum((dim(2.0 * shape.layers * shape.kv_width, "bc"),)),
        input_elements=TOKENS,
        output_elements=TOKENS,
        input_indices=TOKENS,
        output_indices=TOKENS,
        positions=shape.positions,
    )


FAMILY = NetworkFamily(
    name="transformer-decoder",
    build=_build,
    required=("hidden", "layers", "heads", "vocab"),
    defaults={
        "kv_heads": 0,
        "head_dim": 0,
        "ffn": 0,
        "context": 1024,
        "position": "learned",
        "feed_forward": "gelu",
        "norm": "layer",
        "bias": "all",
        "lm_head": "tied",
        "block": "sequential",
        "head_norm": "no",
        "experts": 0,
        "top_k": 0,
    },
    adjustable={"layers": ("Layers", 1, 1024), "vocab": ("Vocabulary", 1, 2_000_000)},
    input_label="Input tokens",
    output_label="Output tokens",
)
