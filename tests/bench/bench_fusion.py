"""Depth-first blocks of four networks on this machine: the measured gain beside the one the CPU model predicts.

The model gets this core's measured roofline and the rate of each kernel alone, the element-wise ones on data in cache;
what finishing each operator before the next costs is its prediction. CPU seconds of the calling thread, medians of
interleaved rounds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import median
from time import thread_time
from typing import Any

import numpy as np

from engine.fusion import block_gain, chain_gain, tile_cache, tile_rows
from engine.host import host_core
from engine.kernels.operators import fused
from engine.kernels.operators.activation import activate
from engine.kernels.operators.conv import conv, pack_conv
from engine.kernels.operators.norm import batch_norm
from engine.kernels.operators.pool import max_pool
from engine.kernels.probe import Roofline, probe
from hardware_specs.schema import Device
from model_zoo.families.blocks import elementwise
from model_zoo.families.images import Net
from model_zoo.ops import Op, dim

BLOCKS = {
    "AlexNet conv1, ReLU, pool1": (3, 227, 96, 11, 4, 0, 3, 2),
    "VGG16 conv1-2, ReLU, pool1": (64, 224, 64, 3, 1, 1, 2, 2),
    "ResNet-152 conv1, ReLU, maxpool": (3, 224, 64, 7, 2, 3, 3, 2),
    "DenseNet-161 conv0, ReLU, pool0": (3, 224, 96, 7, 2, 3, 3, 2),
}
"""Channels, side, filters, kernel, stride and padding of the convolution; window and stride of the pool."""


IN_CACHE = 100_000  # elements that stay in a second-level cache with their results
CHAINS = {
    "AlexNet ReLU, pool5": (64, 13, 256, False, 3, 2),
    "VGG16 ReLU, pool1": (1, 224, 64, False, 2, 2),
    "ResNet-152 norm, ReLU, maxpool": (1, 112, 64, True, 3, 2),
    "DenseNet-161 norm0, ReLU, pool0": (1, 112, 96, True, 3, 2),
    "DenseNet-161 norm0, ReLU, pool0, batch 8": (8, 112, 96, True, 3, 2),
}
"""Batch, side, channels, whether a batch normalisation begins it; window and stride of the pool: no product inside."""


def _chain_ops(side: int, channels: int, normalised: bool, window: int, stride: int) -> tuple[Op, ...]:
    size = dim(side * side * channels, "b")
    net = Net(channels, side, side)
    net.pool("pool", net.input, window, stride)
    norm = elementwise("norm", "BatchNormalization", size, group="chain", inputs=(), stored=2.0 * channels)
    relu = elementwise("relu", "Relu", size, group="chain", inputs=("norm",) if normalised else ())
    pool = replace(net.ops[-1], inputs=("relu",))
    return (norm, relu, pool) if normalised else (relu, pool)


def _alone(side: int, channels: int, window: int, stride: int) -> dict[str, float]:
    """Time of each element-wise kernel on an image. [s]"""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, side, side, channels), dtype=np.float32)
    gain, shift = rng.normal(size=(2, channels)).astype(np.float32)
    same, out = np.empty_like(x), fused.relu_pool_depth_first(x, window, stride, threads=1)
    both = (x, gain, shift, window, stride)
    calls = {
        "norm": partial(batch_norm, x, gain, shift, out=same, threads=1),
        "relu": partial(activate, x, "relu", out=same, threads=1),
        "pool": partial(max_pool, x, window, stride=stride, out=out, threads=1),
        "relu+pool": partial(fused.relu_pool_depth_first, x, window, stride, out=out, threads=1),
        "norm+relu+pool": partial(fused.affine_relu_pool_depth_first, *both, out=out, threads=1),
    }
    return {name: median(times) for name, times in _times(calls, 41).items()}


def _work(channels: int, window: int, stride: int, roofline: Roofline) -> dict[str, float]:
    """Vector work of an input element of each kernel on data in cache, at the model's vector a cycle. [FLOP]

    The difference of two sizes: what a call costs by itself is not work.
    """
    side = round((IN_CACHE / channels) ** 0.5)
    large, tiny = (_alone(n, channels, window, stride) for n in (side, window))
    more = (side * side - window * window) * channels
    rate = roofline.fp32 / 4  # a vector a cycle is a quarter of the FP32 peak
    return {name: max(large[name] - tiny[name], 1e-9) / more * rate for name in large}


def _chain(name: str, device: Device, roofline: Roofline) -> dict[str, Any]:
    """A chain of element-wise operators and a pool: buffers are kept, as a framework's allocator would."""
    batch, side, channels, normalised, window, stride = CHAINS[name]
    rng = np.random.default_rng(1)
    x = rng.standard_normal((batch, side, side, channels), dtype=np.float32)
    out = fused.relu_pool_depth_first(x, window, stride, threads=1)
    hidden = (np.empty_like(x), np.empty_like(x))
    if normalised:
        gain, shift = rng.normal(size=(2, channels)).astype(np.float32)
        both = (x, gain, shift, window, stride)
        deep = partial(fused.affine_relu_pool_depth_first, *both, out=out, threads=1)
        wide = partial(fused.affine_relu_pool_breadth_first, *both, hidden=hidden, out=out.copy(), threads=1)
    else:
        deep = partial(fused.relu_pool_depth_first, x, window, stride, out=out, threads=1)
        wide = partial(fused.relu_pool_breadth_first, x, window, stride, hidden=hidden[0], out=out.copy(), threads=1)
    took = _times({"deep": deep, "wide": wide}, 21)
    measured = median(w / d for w, d in zip(took["wide"], took["deep"], strict=True))
    work = _work(channels, window, stride, roofline)
    elements = dim(side * side * channels, "b")
    ops = [replace(op, flops=elements * work[op.name]) for op in _chain_ops(side, channels, normalised, window, stride)]
    together = elements * work["norm+relu+pool" if normalised else "relu+pool"]
    predicted = chain_gain(device, ops, batch, together=together)
    return {
        "name": f"depth first: {name}", "value": measured, "unit": "x", "against": f"predicted {predicted:.2f} x",
        "ratio": measured / predicted, "goal": "gain > 1", "met": measured > 1,
    }  # fmt: skip


def _times(calls: dict[str, Any], rounds: int = 11) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = thread_time()
            call()
            found[name].append(thread_time() - start)
    return found


def rows() -> list[dict[str, Any]]:
    """One row a block: the measured gain, and its ratio to the predicted one.

    A block with its convolution must gain, and as predicted within a quarter; a chain without one must gain, and is
    held to no more: its kernels overlap waiting and work less than the model lets them.
    """
    roofline = probe()
    device, rng = host_core(roofline), np.random.default_rng(0)
    found = []
    for name, (channels, side, filters, kernel, stride, pad, window, step) in BLOCKS.items():
        net = Net(channels, side, side)
        net.pool("pool", net.conv("conv", net.input, filters, kernel, stride, pad=pad), window, step)
        x = rng.standard_normal((1, side, side, channels), dtype=np.float32)
        weights = rng.standard_normal((filters, channels, kernel, kernel)).astype(np.float32)
        packed = pack_conv(weights, stride=stride, padding=pad)
        rows_at_once = tile_rows(net.ops, tile_cache(device))
        hidden = conv(x, packed, threads=1)
        out = fused.relu_pool_depth_first(hidden, window, step, threads=1)
        deep = partial(
            fused.conv_relu_pool_depth_first, x, packed, window, step, tile_rows=rows_at_once, out=out, threads=1
        )
        wide = partial(
            fused.conv_relu_pool_breadth_first, x, packed, window, step, hidden=(hidden, hidden.copy()),
            out=out.copy(), threads=1,
        )  # fmt: skip
        took = _times({"conv": partial(conv, x, packed, out=hidden.copy(), threads=1), "deep": deep, "wide": wide})
        gain = median(w / d for w, d in zip(took["wide"], took["deep"], strict=True))
        share = min(1.0, max(0.01, net.ops[0].flops.at(1) / (min(took["conv"]) * roofline.fp32)))
        plain = {"gemm_efficiency": share, "efficiency_ceiling": 1.0, "width_exponent": 0.0, "short_row": 0.0,
                 "thin_input": 1.0, "dram_efficiency": 1.0}  # fmt: skip
        work = _work(filters, window, step, roofline)
        product, act, pool = net.ops
        ops = (product, replace(act, flops=act.writes * work["relu"]), replace(pool, flops=act.writes * work["pool"]))
        predicted = block_gain(device, ops, 1, rows_at_once, plain, act.writes * work["relu+pool"])
        found.append(
            {
                "name": f"depth first: {name}", "value": gain, "unit": "x", "against": f"predicted {predicted:.2f} x",
                "ratio": gain / predicted, "goal": "gain > 1, 0.75 to 1.25",
                "met": gain > 1 and 0.75 <= gain / predicted <= 1.25,
            }
        )  # fmt: skip
    return found + [_chain(name, device, roofline) for name in CHAINS]
