"""Layers that keep a state instead of a cache: gated delta rule, Mamba-2, Mamba-1 and plain linear attention.

The recurrence is counted token by token, as it is written down: a kernel that runs chunks of a prompt at once adds a
product inside each chunk, which is the engine's business. A state lives in 32 bits where the rest lives in 16: it is
counted as two elements a number.
"""

from model_zoo.families.blocks import attributes
from model_zoo.families.transformer_decoder.block import Block
from model_zoo.families.transformer_decoder.shape import Layer, Shape
from model_zoo.ops import ZERO, Dim, dim
from model_zoo.schema import WorkloadError

WIDE = 2.0  # elements of 16 bits a number of a state takes


def state(shape: Shape, layer: Layer) -> Dim:
    """What one layer keeps of a sequence, however long it is. [elements]"""
    heads, key, value, channels, taps = _sizes(shape, layer)
    return dim(WIDE * heads * key * value + channels * taps, "b")


def _sizes(shape: Shape, layer: Layer) -> tuple[int, int, int, int, int]:
    """Heads of the state, its rows and columns, channels of the convolution and tokens that it keeps. [-]"""
    p, taps = shape.p, shape.p.whole("conv_kernel", 1, 1024)
    if layer.mixer == "linear":
        return layer.heads, shape.head, shape.value, 0, 0
    if layer.mixer == "delta":
        keys, heads = p.whole("linear_heads", 1, 65536), p.whole("linear_value_heads", 1, 65536)
        if heads % keys:
            raise WorkloadError(f"parameter 'linear_heads' is {keys}; it must divide the {heads} linear_value_heads")
        key, value = p.whole("linear_dim", 1, 65536), p.whole("linear_value_dim", 1, 65536)
        return heads, key, value, 2 * keys * key + heads * value, taps
    width, depth = p.whole("ssm_dim", 1, 1_048_576), p.whole("ssm_state", 1, 65536)
    if layer.mixer == "mamba1":
        return 1, depth, width, width, taps
    heads, groups = p.whole("ssm_heads", 1, 65536), p.whole("ssm_groups", 1, 65536)
    if heads % groups:
        raise WorkloadError(f"parameter 'ssm_groups' is {groups}; it must divide the {heads} ssm_heads")
    return heads, depth, width, heads * width + 2 * groups * depth, taps


def mix(shape: Shape, layer: Layer, block: Block, source: str) -> str:
    """The mixing half of such a layer; the name of what it adds to the stream."""
    block.group = "state-space" if layer.mixer.startswith("mamba") else "linear-attention"
    return {"delta": _delta, "mamba2": _mamba2, "mamba1": _mamba1, "linear": _linear}[layer.mixer](
        shape, layer, block, source
    )


def _convolve(shape: Shape, layer: Layer, block: Block, source: str, *, bias: bool) -> str:
    """A short causal convolution of every channel by itself, and its activation."""
    *_, channels, taps = _sizes(shape, layer)
    reads, inner = block.rows * channels, dim(channels * taps, "b")
    product = {"g": Dim(channels), "m": block.rows, "n": Dim(1), "k": Dim(taps), "flops": reads * (2.0 * taps)}
    filters = float(channels * (taps + bias))
    state = {"stored": filters, "weights": Dim(filters), "state_reads": inner, "state_writes": inner, "shard": "g"}
    marks = attributes(kernel=taps, stride=1, groups=channels, channels=channels)
    block.op("conv", "Conv", source, **product, **state, reads=reads, writes=reads, attributes=marks)
    return block.vector("conv-silu", "Silu", channels, "conv", shard="g", g=Dim(channels))


def _recurrence(shape: Shape, layer: Layer, block: Block, ready: str, *, delta: bool) -> str:
    """The state scaled, written and read by every token; a delta rule first asks what the state holds for its key."""
    heads, key, value, *_ = _sizes(shape, layer)
    products, rows, tokens = dim(heads, "b"), block.view.positions, block.rows
    size, state_bytes = heads * key * value, dim(WIDE * heads * key * value, "b")
    shard, wide = {"shard": "g", "g": products}, {"quantisable": False}
    if delta:
        block.matmul("state-retrieve", products, rows, Dim(value), Dim(key), ready, reads=tokens * heads * key, **wide)
        block.vector("state-error", "Mul", heads * value, "state-retrieve", ready, operands=2, operations=2, **shard)
        ready = "state-error"
    counts = {"reads": tokens * heads, "writes": ZERO, "state_reads": state_bytes}
    block.vector("state-decay", "Mul", tokens * size, ready, **counts, **shard, **wide)
    counts = {"reads": tokens * (heads * (key + value)), "writes": ZERO, "state_writes": state_bytes}
    block.matmul("state-update", products, Dim(key), Dim(value), rows, ready, "state-decay", **counts, **wide)
    read = tokens * (heads * key)
    return block.matmul("state-read", products, rows, Dim(value), Dim(key), "state-update", reads=read, **wide)


def _gated_norm(shape: Shape, layer: Layer, block: Block, result: str, gate: str, scales: int, kind: str) -> str:
    heads, _, value, *_ = _sizes(shape, layer)
    shard = {"shard": "g", "g": dim(heads, "b")}
    if scales:
        result = block.vector("state-norm", "RMSNormalization", heads * value, result, stored=float(scales), **shard)
    block.vector("state-gate", kind, heads * value, gate, **shard)
    return block.vector("gate-state", "Mul", heads * value, result, "state-gate", operands=2, **shard)


def _delta(shape: Shape, layer: Layer, block: Block, source: str) -> str:
    heads, _, value, channels, _ = _sizes(shape, layer)
    inner, rank = heads * value, shape.p.whole("linear_gate_rank", 0, 65536)
    shard = {"shard": "g", "g": dim(heads, "b")}
    if rank:  # decay of every channel, and the gate of the result, by products of a low rank
        block.linear("in-proj", shape.hidden, channels + heads + 2 * rank, source)
        block.linear("decay-up", rank, channels // 3, "in-proj", bias=False)
        gate = block.linear("gate-up-state", rank, inner, "in-proj", bias=False)
        scales = heads + channels // 3
    else:
        gate = block.linear("in-proj", shape.hidden, channels + inner + 2 * heads, source)
        scales = 2 * heads
    ready = _convolve(shape, layer, block, "in-proj", bias=False)
    keys = channels - inner
    ready = block.vector("qk-norm", "RMSNormalization", keys, ready, operations=4.0, stored=float(scales), **shard)
    ready = _recurrence(shape, layer, block, ready, delta=True)
    ready = _gated_norm(shape, layer, block, ready, gate, value, "Sigmoid" if rank else "Silu")
    return block.linear("out-proj", inner, shape.hidden, ready, shard="k")


def _mamba2(shape: Shape, layer: Layer, block: Block, source: str) -> str:
    heads, _, width, channels, _ = _sizes(shape, layer)
    inner = heads * width
    block.linear("in-proj", shape.hidden, inner + channels + heads, source)
    ready = _convolve(shape, layer, block, "in-proj", bias=True)
    step = block.vector(
        "step", "Sigmoid", heads, "in-proj", stored=3.0 * heads, shard="g", g=dim(heads, "b")
    )  # softplus; its bias, the decay and what skips the state are parameters of a head
    block.vector("step-scale", "Mul", inner, ready, step, operands=2, shard="g", g=dim(heads, "b"))
    ready = _recurrence(shape, layer, block, "step-scale", delta=False)
    ready = _gated_norm(shape, layer, block, ready, "in-proj", inner, "Silu")
    return block.linear("out-proj", inner, shape.hidden, ready, shard="k")


def _mamba1(shape: Shape, layer: Layer, block: Block, source: str) -> str:
    """Every channel has a state and a step of its own: element-wise work, no products."""
    _, depth, width, *_ = _sizes(shape, layer)
    rank = shape.p.whole("ssm_rank", 1, 65536)
    tokens, state_bytes = block.rows, dim(WIDE * width * depth, "b")
    shard = {"shard": "g", "g": Dim(width)}
    block.linear("in-proj", shape.hidden, 2 * width, source)
    ready = _convolve(shape, layer, block, "in-proj", bias=True)
    step = block.linear("x-proj", width, rank + 2 * depth, ready, shard="k")
    if shape.says("ssm_norm"):
        narrow = rank + 2 * depth
        step = block.vector("x-norm", "RMSNormalization", narrow, step, stored=float(narrow), shard="none")
    step = block.linear("step", rank, width, step, bias=True)
    # a state's element: decay (a product and an exponential), what enters (two products), their sum, and the result
    counts = {"stored": float(width * depth + width), "flops": tokens * (7.0 * width * depth)}
    counts |= {"reads": tokens * (2 * width + 2 * depth), "state_reads": state_bytes, "state_writes": state_bytes}
    block.vector("scan", "Mul", width, ready, step, quantisable=False, **counts, **shard)
    block.vector("state-gate", "Silu", width, "in-proj", **shard)
    ready = block.vector("gate-state", "Mul", width, "scan", "state-gate", operands=2, **shard)
    return block.linear("out-proj", width, shape.hidden, ready, shard="k")


def _linear(shape: Shape, layer: Layer, block: Block, source: str) -> str:
    heads, key, value, *_ = _sizes(shape, layer)
    inner = heads * value
    ready = block.linear("qkv", shape.hidden, heads * (2 * key + value), source)
    ready = block.vector("qkv-silu", "Silu", heads * (2 * key + value), ready, shard="g", g=dim(heads, "b"))
    gate = block.linear("gate-proj", shape.hidden, inner, source)
    ready = _recurrence(shape, layer, block, ready, delta=False)
    ready = _gated_norm(shape, layer, block, ready, gate, inner, "Sigmoid")
    return block.linear("out-proj", inner, shape.hidden, ready, shard="k")
