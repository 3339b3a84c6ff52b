"""What a layer does to each token by itself: one wide product and back, or the few of many experts it is sent to."""

from dataclasses import replace

from model_zoo.families.blocks import attributes
from model_zoo.families.transformer_decoder.block import Block
from model_zoo.families.transformer_decoder.shape import Layer, Shape


def _half(shape: Shape, block: Block, source: tuple[str, ...], width: int, ffn: int, prefix: str = "") -> str:
    """Up, the activation, and down again."""
    act, bias = shape.activation.lower(), shape.bias in ("all", "feed-forward")
    parts = ("gate-up", act, "down", "gate") if shape.gated else ("fc1", act, "fc2")
    return block.feed([f"{prefix}{part}" for part in parts], shape.activation, width, ffn, *source, bias=bias)


def feed_forward(shape: Shape, layer: Layer, block: Block, source: str) -> str:
    """The second half of a layer; the name of what it adds to the stream."""
    block.group = "feed-forward"
    if layer.feed == "dense":
        return _half(shape, block, (source,), shape.hidden, layer.ffn)
    bias = shape.bias == "all"
    block.linear("router", shape.hidden, shape.experts, source, bias=bias, shard="none", quantisable=False)
    tokens = block.rows
    block.vector("top-k", "TopK", shape.experts, "router", writes=tokens * (2 * shape.top_k), shard="none")
    inner = shape.p.whole("expert_width", 0, 1_048_576)
    entering = block.linear("expert-down", shape.hidden, inner, source, shard="none") if inner else source
    width = inner or shape.hidden
    first, rows = len(block.ops), tokens * shape.top_k
    block.rows = rows
    last = _half(shape, block, (entering, "top-k"), width, layer.ffn)
    block.rows = tokens
    marks = attributes(experts=shape.experts, top_k=shape.top_k)
    for i, op in enumerate(block.ops[first:], first):
        if op.contraction:  # an expert's matrices each, of which a pass reads those its tokens chose
            weights = op.weights.coef
            block.ops[i] = replace(op, stored=weights * shape.experts, weights=rows * weights, attributes=marks)
    terms, parts = [last, "top-k"], shape.top_k
    shared_ffn = shape.p.whole("shared_ffn", 0, 1_048_576)
    if inner:
        block.vector("combine", "ReduceSum", width, *terms, operands=parts, operations=2.0 * parts, shard="none")
        last = block.linear("expert-up", inner, shape.hidden, "combine", shard="none")
        terms, parts = [last], 1
    if shared_ffn:
        terms.append(_half(shape, block, (source,), shape.hidden, shared_ffn, "shared-"))
        parts += 1
        if shape.says("shared_gate"):
            terms.append(block.linear("shared-expert-gate", shape.hidden, 1, source, shard="none", quantisable=False))
    if inner and not shared_ffn:
        return last
    name = "add-shared" if inner else "combine"
    return block.vector(name, "ReduceSum", shape.hidden, *terms, operands=parts, operations=2.0 * parts, shard="none")
