"""Operators other than matrix products, one thread, against onnxruntime, numpy or torch: one table of cases."""

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from engine.lab.operators import fused
from engine.lab.operators.attention import attention
from engine.lab.operators.conv import conv, pack_conv
from engine.lab.operators.norm import batch_norm, layer_norm
from engine.lab.operators.pointwise import activate, quantise
from engine.lab.operators.rnn import gru_step, lstm_step, pack_cell
from engine.lab.operators.softmax import softmax
from engine.lab.ranges import fresh
from tests.bench.timing import Call, Row, beside
from tests.reference.onnx_oracle import TensorProto, channels_first, helper, session

CONVOLUTIONS = (  # channels, extents, window
    (64, (56, 56), 3),
    (128, (28, 28), 3),
    (256, (14, 14), 3),
    (512, (7, 7), 3),
    (256, (14, 14), 1),
)
DEPTH = 4  # equal layers with ReLU, so that neither side pays its entry and exit layout more than once
Case = tuple[str, float, str, Call, dict[str, Call], float | None]
"""What it is, work of a call and its unit a second, our call, peers by name, and the least ratio wanted."""


def _convolution(channels: int, size: tuple[int, ...], window: int) -> Case:
    rng = np.random.default_rng(1)
    edge = window // 2
    w = rng.normal(size=(channels, channels, window, window)).astype(np.float32) * np.float32(0.05)
    nodes = []
    for i in range(DEPTH):
        nodes.append(helper.make_node("Conv", [f"x{i}", "w"], [f"c{i}"], pads=[edge] * 4))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"]))
    peer = session(nodes, {"x0": TensorProto.FLOAT}, {f"x{DEPTH}": TensorProto.FLOAT}, {"w": w})
    x = rng.normal(size=(1, *size, channels)).astype(np.float32)
    theirs = partial(peer.run, None, {"x0": channels_first(x)})
    packed, buffers = pack_conv(w, padding=edge), [fresh(x.shape) for _ in range(2)]

    def ours() -> np.ndarray:
        value = x
        for i in range(DEPTH):
            value = conv(value, packed, relu=True, out=buffers[i % 2], threads=1)
        return value

    last = np.moveaxis(theirs()[0], 1, -1)
    if not np.allclose(ours(), last, rtol=1e-3, atol=1e-3 * float(np.abs(last).max())):
        raise AssertionError("the two chains disagree: their times cannot be compared")
    flop = 2.0 * DEPTH * channels**2 * window**2 * int(np.prod(size))
    name = f"conv {window}x{window}, {channels} x {'x'.join(map(str, size))}, {DEPTH} layers"
    return (
        name,
        flop,
        "FLOP/s",
        ours,
        {"onnxruntime": theirs},
        0.8 if window == 3 else None,
    )


def _peer(kind: str, feeds: dict[str, np.ndarray], output: int = TensorProto.FLOAT, **attributes: object) -> Call:
    types = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in feeds.items()}
    peer = session([helper.make_node(kind, list(feeds), ["y"], **attributes)], types, {"y": output})
    return partial(peer.run, None, feeds)


def _rows() -> Iterator[Case]:
    """One pass over 384 rows of 1,024."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(384, 1024)).astype(np.float32)
    gain, shift, out = np.ones(1024, np.float32), np.zeros(1024, np.float32), np.empty_like(x)
    codes, scale, zero = np.empty(x.shape, np.int8), np.float32(0.03), np.int8(0)
    pairs: tuple[tuple[str, Call, Call], ...] = (
        ("softmax", partial(softmax, x, out=out, threads=1), _peer("Softmax", {"x": x})),
        (
            "layer norm",
            partial(layer_norm, x, gain, shift, out=out, threads=1),
            _peer("LayerNormalization", {"x": x, "g": gain, "b": shift}),
        ),
        (
            "GELU (tanh)",
            partial(activate, x, "gelu_tanh", out=out, threads=1),
            _peer("Gelu", {"x": x}, approximate="tanh"),
        ),
        (
            "quantise int8",
            partial(quantise, x, scale, 0, out=codes, threads=1),
            _peer("QuantizeLinear", {"x": x, "s": np.array(scale), "z": np.array(zero)}, TensorProto.INT8),
        ),
    )
    for name, ours, theirs in pairs:
        yield f"{name}, 384 x 1024", float(x.size), "element/s", ours, {"onnxruntime": theirs}, None


def _cell(kind: str, hidden: int = 1024) -> Case:
    rng = np.random.default_rng(2)
    gates = 4 if kind == "lstm" else 3
    w, r = (rng.normal(size=(gates * hidden, hidden)).astype(np.float32) * np.float32(0.01) for _ in range(2))
    packed = pack_cell(kind, w, r)
    x, h, c = (rng.normal(size=(1, hidden)).astype(np.float32) for _ in range(3))
    feeds = {"x": x[None], "h": h[None]} | ({"c": c[None]} if kind == "lstm" else {})
    extra = {"hidden_size": hidden} | ({} if kind == "lstm" else {"linear_before_reset": 1})
    node = helper.make_node(kind.upper(), ["x", "w", "r", "", "", *list(feeds)[1:]], ["y"], **extra)
    kinds = dict.fromkeys(feeds, TensorProto.FLOAT)
    peer = session([node], kinds, {"y": TensorProto.FLOAT}, {"w": w[None], "r": r[None]})
    ours: Callable[..., object] = lstm_step if kind == "lstm" else gru_step
    state = (x, h, c) if kind == "lstm" else (x, h)
    run, theirs = partial(ours, *state, packed, threads=1), partial(peer.run, None, feeds)
    return (
        f"{kind} step, {hidden} units, batch 1",
        sum(p.words.nbytes for p in packed.products),
        "B/s",
        run,
        {"onnxruntime": theirs},
        None,
    )


def _depth_first() -> Iterator[Case]:
    """Chains against the same kernels breadth first."""
    rng = np.random.default_rng(4)
    image, small = (rng.normal(size=(1, 224, 224, c)).astype(np.float32) for c in (64, 3))
    gain, shift = rng.normal(size=(2, 64)).astype(np.float32)
    packed = pack_conv(rng.normal(size=(64, 3, 3, 3)).astype(np.float32), padding=1)
    for name, data, deep, before in (
        (
            "affine, ReLU, max pool 2x2, 64 x 224x224",
            image,
            partial(fused.max_pool, image, 2, 2, affine=(gain, shift), threads=1),
            partial(batch_norm, image, gain, shift, threads=1),
        ),
        (
            "conv 3x3, ReLU, max pool 2x2, 3 to 64 x 224x224",
            small,
            partial(fused.conv_relu_pool_depth_first, small, packed, 2, 2, threads=1),
            partial(conv, small, packed, threads=1),
        ),
    ):

        def wide(before: Any = before) -> object:
            return fused.max_pool(activate(before(), "relu", threads=1), 2, 2, threads=1)

        yield f"depth first: {name}", float(data.size), "element/s", deep, {"breadth first": wide}, None


def _attention(tokens: int, heads: int = 16, depth: int = 64) -> Case:
    """A prompt through one layer of GPT-2 345M's attention; numpy does both products alone."""
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((tokens, heads, depth)).astype(np.float32) for _ in range(3))
    keys, values, turned = (np.ascontiguousarray(a.transpose(1, 0, 2)) for a in (k, v, q))
    peers: dict[str, Call] = {"numpy, both products only": lambda: (turned @ keys.transpose(0, 2, 1)) @ values}
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(1)
        given = (torch.from_numpy(a)[None] for a in (turned, keys, values))
        peers = {"torch": partial(torch.nn.functional.scaled_dot_product_attention, *given, is_causal=True)}
    flop = 2.0 * heads * depth * tokens * (tokens + 1)
    ours = partial(attention, q, keys, values, tokens, threads=1)
    return f"causal attention, {tokens} tokens, {heads} heads of {depth}", flop, "FLOP/s", ours, peers, None


def cases() -> Iterator[Case]:
    """Every case, its buffers made when it is its turn."""
    yield from (_convolution(*shape) for shape in CONVOLUTIONS)
    yield from _rows()
    yield from map(_cell, ("lstm", "gru"))
    yield from _depth_first()
    yield from map(_attention, (128, 1024))


def rows() -> Iterator[Row]:
    """Every operator's throughput and its ratio to the best peer present, single thread."""
    yield from (beside(*case, rounds=15) for case in cases())
