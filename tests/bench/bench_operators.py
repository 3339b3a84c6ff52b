"""Operators other than matrix products, one thread, against onnxruntime: ratios interleaved in one process.

A ratio is the peer's time over ours, the median over rounds that run both in alternating order; times are CPU seconds
of the calling thread, since other work may share the machine. Rows without a goal are reported for what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import thread_time
from typing import Any

import numpy as np
from engine.lab.operators.conv_int8 import conv_u8, pack_conv_s8
from engine.lab.operators.select import non_max_suppression, top_k

from engine.lab.operators import fused
from engine.lab.operators.activation import activate
from engine.lab.operators.conv import conv, pack_conv, pad_spatial
from engine.lab.operators.depthwise import depthwise, narrow_groups, pack_depthwise
from engine.lab.operators.norm import layer_norm
from engine.lab.operators.pool import global_average_pool, max_pool
from engine.lab.operators.quantise import quantise
from engine.lab.operators.rnn import gru_step, lstm_step, pack_cell
from engine.lab.operators.softmax import softmax
from engine.lab.ranges import fresh
from tests.reference.onnx_oracle import TensorProto, channels_first, helper, session

Row = dict[str, Any]


def interleaved(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 15) -> tuple[float, float]:
    """Median of the peer's time over ours, and our median time [s], after one warm-up of each."""
    ours()
    theirs()
    ratios, spent = [], []
    for i in range(rounds):
        took = {}
        for call in (ours, theirs) if i % 2 else (theirs, ours):
            start = thread_time()
            call()
            took[call] = thread_time() - start
        ratios.append(took[theirs] / took[ours])
        spent.append(took[ours])
    return median(ratios), median(spent)


def row(name: str, value: float, unit: str, against: str, ratio: float, goal: float | None = None) -> Row:
    """One line of the table; ``goal`` is the least ratio, None where the ratio is only reported."""
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "against": against,
        "ratio": ratio,
        "goal": "reported" if goal is None else f">= {goal}",
        "met": goal is None or ratio >= goal,
    }


def _conv_chain(channels: int, size: tuple[int, ...], window: int, groups: int, depth: int = 4) -> Row:
    """``depth`` equal layers with ReLU, so that neither side pays its entry and exit layout more than once."""
    rng = np.random.default_rng(1)
    rank, edge = len(size), window // 2
    w = rng.normal(size=(channels, channels // groups, *[window] * rank)).astype(np.float32) * np.float32(0.05)
    bias = np.zeros(channels, np.float32)
    nodes = []
    for i in range(depth):
        nodes.append(helper.make_node("Conv", [f"x{i}", "w", "b"], [f"c{i}"], pads=[edge] * 2 * rank, group=groups))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"]))
    peer = session(nodes, {"x0": TensorProto.FLOAT}, {f"x{depth}": TensorProto.FLOAT}, {"w": w, "b": bias})
    x = rng.normal(size=(1, *size, channels)).astype(np.float32)
    feed = {"x0": channels_first(x)}
    thin = narrow_groups(channels, channels, groups, (window,) * rank, (1,) * rank)
    packed = pack_depthwise(w, bias, padding=edge) if thin else pack_conv(w, bias, padding=edge, groups=groups)
    apply = depthwise if thin else conv
    start = pad_spatial(x, (edge,) * rank)
    buffers = [fresh(start.shape, zero=True) for _ in range(2)]

    def ours() -> np.ndarray:
        value = start
        for i in range(depth):
            value = apply(value, packed, relu=True, bordered=True, border=edge, out=buffers[i % 2], threads=1)
        return value

    def theirs() -> np.ndarray:
        return peer.run(None, feed)[0]

    inside = ours()[(slice(None), *[slice(edge, edge + n) for n in size])]
    theirs_last = np.moveaxis(theirs(), 1, -1)
    if not np.allclose(inside, theirs_last, rtol=1e-3, atol=1e-3 * float(np.abs(theirs_last).max())):
        raise AssertionError("the two chains disagree: their times cannot be compared")
    ratio, spent = interleaved(ours, theirs)
    flop = 2 * depth * channels * (channels // groups) * window**rank * int(np.prod(size))
    kind = f"conv{rank}d" + (f" {groups} groups" if groups > 1 else "")
    kind = f"depthwise {rank}d" if groups == channels else kind
    label = f"{kind} {'x'.join([str(window)] * rank)}, {channels} x {'x'.join(map(str, size))}, {depth} layers"
    goal = 0.8 if window == 3 and rank == 2 and groups in (1, channels) else None
    return row(label, flop / spent, "FLOP/s", "onnxruntime", ratio, goal)


def conv_rows() -> list[Row]:
    """3x3, 1x1, grouped, depthwise and 3-D convolutions at the sizes of the usual networks."""
    shapes = [
        (64, (56, 56), 3, 1),
        (128, (28, 28), 3, 1),
        (256, (14, 14), 3, 1),
        (512, (7, 7), 3, 1),
        (256, (14, 14), 1, 1),
        (256, (14, 14), 3, 8),
        (32, (112, 112), 3, 32),
        (64, (56, 56), 3, 64),
        (256, (28, 28), 3, 256),
        (512, (14, 14), 3, 512),
        (960, (7, 7), 3, 960),
        (32, (8, 28, 28), 3, 1),
        (128, (56, 56), 3, 32),
        (256, (28, 28), 3, 32),
        (512, (14, 14), 3, 32),
        (1024, (7, 7), 3, 32),
        (64, (8, 28, 28), 3, 64),
    ]
    return [_conv_chain(*shape) for shape in shapes]


def _int8_chain(channels: int, side: int, window: int, depth: int = 4) -> Row:
    """Equal QLinearConv layers with a ReLU in the clamp, against onnxruntime's."""
    rng = np.random.default_rng(5)
    edge = window // 2
    w = rng.integers(-127, 128, (channels, channels, window, window)).astype(np.int8)
    x = rng.integers(0, 256, (1, side, side, channels)).astype(np.uint8)
    step_y = np.float32(60.0 * np.sqrt(channels * window**2))
    constants = {
        "w": w,
        "s": np.array(1, np.float32),
        "zx": np.array(0, np.uint8),
        "zw": np.array(0, np.int8),
        "sy": np.array(step_y),
        "b": np.zeros(channels, np.int32),
    }
    nodes = [
        helper.make_node(
            "QLinearConv", [f"x{i}", "s", "zx", "w", "s", "zw", "sy", "zx", "b"], [f"x{i + 1}"], pads=[edge] * 4
        )
        for i in range(depth)
    ]
    kinds = dict.fromkeys(("x0", f"x{depth}"), TensorProto.UINT8)
    peer = session(nodes, {"x0": kinds["x0"]}, {f"x{depth}": kinds["x0"]}, constants)
    feed = {"x0": channels_first(x)}
    packed = pack_conv_s8(w, padding=edge)
    scale = np.full(channels, np.float32(1) / step_y, np.float32)

    def ours() -> np.ndarray:
        value = x
        for _ in range(depth):
            value = conv_u8(value, packed, scale, threads=1)
        return value

    apart = np.abs(ours().astype(int) - np.moveaxis(peer.run(None, feed)[0], 1, -1).astype(int))
    if apart.max() > depth:
        raise AssertionError("the two chains disagree: their times cannot be compared")
    ratio, spent = interleaved(ours, lambda: peer.run(None, feed))
    operations = 2 * depth * channels**2 * window**2 * side**2
    label = f"int8 conv2d {window}x{window}, {channels} x {side}x{side}, {depth} layers"
    return row(label, operations / spent, "OP/s", "onnxruntime", ratio, 0.8 if window == 3 else None)


def int8_conv_rows() -> list[Row]:
    """8-bit convolutions at ResNet's sizes."""
    return [_int8_chain(*shape) for shape in ((64, 56, 3), (128, 28, 3), (256, 14, 3), (512, 7, 3), (256, 14, 1))]


def _one_op(
    kind: str, feeds: dict[str, np.ndarray], output: int = TensorProto.FLOAT, **attributes: Any
) -> Callable[[], object]:
    types = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in feeds.items()}
    peer = session([helper.make_node(kind, list(feeds), ["y"], **attributes)], types, {"y": output})
    return lambda: peer.run(None, feeds)


def _cell(kind: str, hidden: int) -> Row:
    rng = np.random.default_rng(2)
    gates = 4 if kind == "lstm" else 3
    w, r = (rng.normal(size=(gates * hidden, hidden)).astype(np.float32) * np.float32(0.01) for _ in range(2))
    packed = pack_cell(kind, w, r)
    x, h, c = (rng.normal(size=(1, hidden)).astype(np.float32) for _ in range(3))
    names = ["x", "w", "r", "", "", "h"] + (["c"] if kind == "lstm" else [])
    extra = {"hidden_size": hidden} | ({} if kind == "lstm" else {"linear_before_reset": 1})
    feeds = {"x": x[None], "h": h[None]} | ({"c": c[None]} if kind == "lstm" else {})
    kinds = dict.fromkeys(feeds, TensorProto.FLOAT)
    node = helper.make_node(kind.upper(), names, ["y"], **extra)
    peer = session([node], kinds, {"y": TensorProto.FLOAT}, {"w": w[None], "r": r[None]})
    run = (
        (lambda: lstm_step(x, h, c, packed, threads=1))
        if kind == "lstm"
        else (lambda: gru_step(x, h, packed, threads=1))
    )
    ratio, spent = interleaved(run, lambda: peer.run(None, feeds))
    return row(f"{kind} step, {hidden} units, batch 1", packed.data.nbytes / spent, "B/s", "onnxruntime", ratio)


def small_rows() -> list[Row]:
    """Pools, normalisations, activations, quantisation and recurrent steps."""
    rng = np.random.default_rng(3)
    found = []
    image = rng.normal(size=(1, 56, 56, 64)).astype(np.float32)
    first = channels_first(image)
    pooled = np.empty((1, 28, 28, 64), np.float32)
    text = rng.normal(size=(384, 1024)).astype(np.float32)
    gain, shift, out = np.ones(1024, np.float32), np.zeros(1024, np.float32), np.empty_like(text)
    codes = np.empty(text.shape, np.int8)
    scale, zero = np.float32(0.03), np.int8(0)
    cases = [
        (
            "max pool 3x3 / 2, 64 x 56x56",
            image,
            lambda: max_pool(image, 3, stride=2, padding=1, out=pooled, threads=1),
            _one_op("MaxPool", {"x": first}, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        ),
        (
            "global average pool, 64 x 56x56",
            image,
            lambda: global_average_pool(image, threads=1),
            _one_op("GlobalAveragePool", {"x": first}),
        ),
        ("softmax, 384 x 1024", text, lambda: softmax(text, out=out, threads=1), _one_op("Softmax", {"x": text})),
        (
            "layer norm, 384 x 1024",
            text,
            lambda: layer_norm(text, gain, shift, out=out, threads=1),
            _one_op("LayerNormalization", {"x": text, "g": gain, "b": shift}),
        ),
        (
            "GELU (erf), 384 x 1024",
            text,
            lambda: activate(text, "gelu", out=out, threads=1),
            _one_op("Gelu", {"x": text}),
        ),
        (
            "GELU (tanh), 384 x 1024",
            text,
            lambda: activate(text, "gelu_tanh", out=out, threads=1),
            _one_op("Gelu", {"x": text}, approximate="tanh"),
        ),
        (
            "GELU (2048-entry table), 384 x 1024",
            text,
            lambda: activate(text, "gelu_table", out=out, threads=1),
            _one_op("Gelu", {"x": text}, approximate="tanh"),
        ),
        (
            "quantise int8, 384 x 1024",
            text,
            lambda: quantise(text, scale, 0, out=codes, threads=1),
            _one_op("QuantizeLinear", {"x": text, "s": np.array(scale), "z": np.array(zero)}, TensorProto.INT8),
        ),
    ]
    cases += _selections(text, rng)
    for name, data, ours, theirs in cases:
        ratio, spent = interleaved(ours, theirs)
        found.append(row(name, data.size / spent, "element/s", "onnxruntime", ratio))
    return [*found, _cell("lstm", 1024), _cell("gru", 1024)]


def _selections(text: np.ndarray, rng: np.random.Generator) -> list[tuple]:
    """The largest values of rows, and the boxes of a detection network's proposals."""
    centres, scores = rng.uniform(0, 1, (1, 3000, 2)), rng.random((1, 1, 3000), np.float32)
    boxes = np.concatenate([centres - 0.05, centres + 0.05], axis=2).astype(np.float32)
    feeds = {"b": boxes, "s": scores, "m": np.array([100]), "o": np.array([0.7], np.float32)}
    kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in feeds.items()}
    suppress = session([helper.make_node("NonMaxSuppression", list(feeds), ["y"])], kinds, {"y": TensorProto.INT64})
    most = session(
        [helper.make_node("TopK", ["x", "k"], ["y", "i"])],
        {"x": TensorProto.FLOAT},
        {"y": TensorProto.FLOAT, "i": TensorProto.INT64},
        {"k": np.array([8])},
    )
    return [
        ("8 largest of 1024, 384 rows", text, lambda: top_k(text, 8, threads=1), lambda: most.run(None, {"x": text})),
        (
            "NonMaxSuppression, 100 of 3000 boxes",
            scores,
            lambda: non_max_suppression(boxes, scores, 100, overlap=0.7, threads=1),
            lambda: suppress.run(None, feeds),
        ),
    ]


def fused_rows() -> list[Row]:
    """Depth-first chains against the same kernels breadth first."""
    rng = np.random.default_rng(4)
    image = rng.normal(size=(1, 224, 224, 64)).astype(np.float32)
    gain, shift = rng.normal(size=(2, 64)).astype(np.float32)
    small = rng.normal(size=(1, 224, 224, 3)).astype(np.float32)
    packed = pack_conv(rng.normal(size=(64, 3, 3, 3)).astype(np.float32), padding=1)
    result = []
    for name, data, deep, wide in (
        (
            "affine, ReLU, max pool 2x2, 64 x 224x224",
            image,
            lambda: fused.affine_relu_pool_depth_first(image, gain, shift, 2, 2, threads=1),
            lambda: fused.affine_relu_pool_breadth_first(image, gain, shift, 2, 2, threads=1),
        ),
        (
            "conv 3x3, ReLU, max pool 2x2, 3 to 64 x 224x224",
            small,
            lambda: fused.conv_relu_pool_depth_first(small, packed, 2, 2, threads=1),
            lambda: fused.conv_relu_pool_breadth_first(small, packed, 2, 2, threads=1),
        ),
    ):
        ratio, spent = interleaved(deep, wide)
        result.append(row(f"depth first: {name}", data.size / spent, "element/s", "breadth first", ratio))
    return result


def rows() -> list[Row]:
    """Every operator's throughput and its ratio to the best peer present, single thread."""
    return [*conv_rows(), *int8_conv_rows(), *small_rows(), *fused_rows()]
