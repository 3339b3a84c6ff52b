"""Attention with a cache: grouped queries, windows and chunks, a latent for all heads, and a sparse choice of keys.

A causal pass is counted as the full square of queries by keys, as papers do; what a kernel skips is the engine's
business. A query at position i of a chunk of w tokens sees i of them; a pass of many is counted as if all saw w.
"""

import math
from dataclasses import dataclass, replace

from model_zoo.families.transformer_decoder.block import Block
from model_zoo.families.transformer_decoder.shape import Layer, Shape
from model_zoo.ops import Dim, dim
from model_zoo.schema import WorkloadError


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: one vector of `rank` + `rope` elements a token is cached for all heads."""

    rank: int
    rope: int
    queries: int  # rank of the queries' own; 0: none
    index_heads: int
    index: int  # width of the indexer's keys
    top_k: int  # keys that a query keeps; 0: all


def latent_of(shape: Shape) -> Latent | None:
    """The latent of a network that has one."""
    p = shape.p
    rank = p.whole("kv_rank", 0, 65536)
    heads, width, top_k = (p.whole(key, 0, 2**31) for key in ("index_heads", "index_dim", "index_top_k"))
    if bool(heads) != bool(top_k) or bool(heads) != bool(width) or (heads and not rank):
        raise WorkloadError(
            f"parameter 'index_top_k' is {top_k}; an indexer has index_heads, index_dim and index_top_k, and chooses "
            "keys of a latent (kv_rank)"
        )
    if not rank:
        return None
    return Latent(rank, p.whole("rope_dim", 0, 65536), p.whole("q_rank", 0, 65536), heads, width, top_k)


def reach(shape: Shape, layer: Layer) -> float:
    """Tokens that a layer looks back at most. [-]"""
    if layer.mixer == "full":
        return math.inf
    return float(shape.p.whole(layer.mixer, 1, 2**31))


def cache_size(shape: Shape, layer: Layer) -> Dim:
    """What one layer keeps of each token, as far back as it looks. [elements]"""
    latent = latent_of(shape)
    if latent and layer.mixer == "full":
        return dim(latent.rank + latent.rope + latent.index, "bc")
    return dim(layer.kv_heads * (shape.head + shape.value), "bc", reach(shape, layer))


def attention(shape: Shape, layer: Layer, block: Block, source: str, *, absorb: bool) -> str:
    """Attention of one layer; the name of what it adds to the stream.

    `absorb`: the projections of a latent work on queries and results instead of on every cached token, which is how
    a pass of few tokens is run.
    """
    block.group = "self-attention"
    latent = latent_of(shape)
    if latent and layer.mixer == "full":
        return _latent(shape, layer, latent, block, source, absorb=absorb)
    return _grouped_query(shape, layer, block, source)


def _grouped_query(shape: Shape, layer: Layer, block: Block, source: str) -> str:
    heads, head = layer.heads, shape.head
    q, k, v = heads * head, layer.kv_heads * head, layer.kv_heads * shape.value
    gate = q if shape.says("query_gate") else 0
    products, tokens = dim(layer.kv_heads, "b"), block.rows
    over_heads = {"shard": "g", "g": products}
    bias = shape.bias in ("all", "attention", "qkv")
    ready = block.linear("qkv", shape.hidden, q + gate + k + v, source, bias=bias)
    if shape.head_norm != "no":  # one scale for the queries' heads and one for the keys', or one an element
        scales = 2.0 * head if shape.head_norm == "rms" else float(q + k)
        ready = block.vector("qk-norm", "RMSNormalization", q + k, ready, stored=scales, **over_heads)
    if shape.rotary:
        ready = block.vector("rotary", "RotaryEmbedding", q + k, ready, **over_heads)
    block.cache("kv-append", k + v, products, ready)
    # The query heads that share a key head are rows of one product, so a cached element is read once.
    symbols = "c" if block.view.seen.c else ""
    kv_len = dim(block.view.seen.coef, symbols, reach(shape, layer), layer.mixer == "chunk")
    rows = block.view.positions * (heads // layer.kv_heads)
    keys, values = (dim(width, "b") * kv_len for width in (k, v))
    scores = tokens * heads * kv_len
    block.matmul("scores", products, rows, kv_len, Dim(head), ready, "kv-append", reads=tokens * q, state_reads=keys)
    sinks = float(heads * shape.says("sinks"))
    block.vector("softmax", "Softmax", scores, "scores", shard="g", g=dim(heads, "b"), stored=sinks)
    extents = products, rows, Dim(shape.value), kv_len
    block.matmul("context", *extents, "softmax", "kv-append", reads=scores, state_reads=values)
    result = "context"
    if gate:
        block.vector("query-gate", "Sigmoid", q, ready, **over_heads)
        result = block.vector("gate-context", "Mul", q, "context", "query-gate", operands=2, **over_heads)
    bias = shape.bias in ("all", "attention")
    return block.linear("attention-out", heads * shape.value, shape.hidden, result, bias=bias, shard="k")


def _latent(shape: Shape, layer: Layer, latent: Latent, block: Block, source: str, *, absorb: bool) -> str:
    heads, nope, value = layer.heads, shape.head, shape.value
    sparse = latent.top_k and not absorb  # a prompt whose queries have keys of their own each
    absorb = absorb or latent.top_k > 0
    entry, tokens, alone = latent.rank + latent.rope, block.rows, dim(1, "b")
    products, wide = dim(heads, "b"), heads * (nope + latent.rope)
    bias = shape.bias in ("all", "attention", "qkv")
    if latent.queries:
        down = block.linear("qkv-down", shape.hidden, latent.queries + entry, source, bias=bias, shard="none")
        narrow = latent.queries + latent.rank
        norm = block.vector("latent-norm", "RMSNormalization", narrow, down, stored=float(narrow), shard="none")
        ready = block.linear("q-up", latent.queries, wide, norm)
    else:
        down = block.linear("kv-down", shape.hidden, entry, source, bias=bias, shard="none")
        norm = block.vector(
            "latent-norm", "RMSNormalization", latent.rank, down, stored=float(latent.rank), shard="none"
        )
        ready = block.linear("q-up", shape.hidden, wide, source)
    if latent.rope:
        width = (heads + 1) * latent.rope
        ready = block.vector("rotary", "RotaryEmbedding", width, ready, norm, shard="g", g=products)
    block.cache("kv-append", entry, alone, ready)
    cap = float(latent.top_k or math.inf)
    if latent.top_k:
        _index(shape, latent, block, source, norm)
    kv_len = dim(block.view.seen.coef, "c" if block.view.seen.c else "", cap)
    scores = tokens * heads * kv_len
    inputs = (ready, "kv-append", *(("index-top-k",) if latent.top_k else ()))
    if absorb:
        _by_head("k-up", layer, block, nope, latent.rank, ready)
        state = tokens * entry if sparse else dim(entry, "b") * kv_len
        rows = block.view.positions * heads
        extents = alone, rows, kv_len, Dim(entry)
        block.matmul("scores", *extents, "k-up", *inputs, reads=tokens * heads * entry, state_reads=state)
        width = latent.rank
    else:
        block.linear("k-up", latent.rank, heads * nope, norm)
        block.linear("v-up", latent.rank, heads * value, norm)
        read = tokens * (2 * wide + heads * value)
        extents = products, block.view.positions, kv_len, Dim(nope + latent.rope)
        block.matmul("scores", *extents, "k-up", *inputs, reads=read)
        alone, rows, width = products, block.view.positions, value
    block.vector("softmax", "Softmax", scores, "scores", shard="g", g=products)
    after = ("softmax",) if absorb else ("softmax", "v-up")
    block.matmul("context", alone, rows, Dim(width), kv_len, *after, reads=scores)
    result = "context"
    if absorb:
        result = _by_head("v-up", layer, block, latent.rank, value, "context")
    bias = shape.bias in ("all", "attention")
    return block.linear("attention-out", heads * value, shape.hidden, result, bias=bias, shard="k")


def _by_head(name: str, layer: Layer, block: Block, k: int, n: int, source: str) -> str:
    """Every head's part of the tokens times a matrix of the head's own."""
    block.linear(name, k, n, source, shard="g")
    op, heads = block.ops[-1], layer.heads
    grown = {field: getattr(op, field) * heads for field in ("flops", "stored", "weights", "reads", "writes")}
    block.ops[-1] = replace(op, g=Dim(heads), **grown)
    return name


def _index(shape: Shape, latent: Latent, block: Block, source: str, norm: str) -> None:
    """Scores of the whole context by a few narrow heads, and the best keys of each query."""
    tokens, heads, width = block.rows, latent.index_heads, latent.index
    kv_len = block.view.seen
    block.linear("index-q", latent.queries or shape.hidden, heads * width, norm, shard="none")
    block.linear("index-k", shape.hidden, width, source, shard="none")
    block.linear("index-weights", shape.hidden, heads, source, shard="none")
    block.vector("index-norm", "LayerNormalization", width, "index-k", stored=2.0 * width, shard="none")
    block.cache("index-append", width, dim(1, "b"), "index-norm")
    extents, state = (dim(1, "b"), block.view.positions * heads, kv_len, Dim(width)), dim(width, "b") * kv_len
    inputs, read = ("index-q", "index-append"), tokens * heads * width
    block.matmul("index-scores", *extents, *inputs, reads=read, state_reads=state, shard="none")
    pairs, picks = tokens * kv_len * heads, tokens * latent.top_k
    block.vector("index-top-k", "TopK", pairs, "index-scores", "index-weights", writes=picks, shard="none")
