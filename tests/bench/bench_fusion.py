"""Depth-first blocks of four networks on this machine: the measured gain beside the one the CPU model predicts.

The model gets this core's measured roofline and the rate of the convolution alone; what finishing each operator before
the next costs is its prediction. CPU seconds of the calling thread, medians of interleaved rounds.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from time import thread_time
from typing import Any

import numpy as np

from engine.fusion import block_gain
from engine.host import host_core
from engine.kernels.operators import fused
from engine.kernels.operators.conv import conv, pack_conv
from engine.kernels.probe import probe
from model_zoo.families.images import Net

TILE_ROWS = 4
BLOCKS = {
    "AlexNet conv1, ReLU, pool1": (3, 227, 96, 11, 4, 0, 3, 2),
    "VGG16 conv1-2, ReLU, pool1": (64, 224, 64, 3, 1, 1, 2, 2),
    "ResNet-152 conv1, ReLU, maxpool": (3, 224, 64, 7, 2, 3, 3, 2),
    "DenseNet-161 conv0, ReLU, pool0": (3, 224, 96, 7, 2, 3, 3, 2),
}
"""Channels, side, filters, kernel, stride and padding of the convolution; window and stride of the pool."""


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
    """One row a block: the measured gain, and its ratio to the predicted one."""
    roofline = probe()
    device, rng = host_core(roofline), np.random.default_rng(0)
    found = []
    for name, (channels, side, filters, kernel, stride, pad, window, step) in BLOCKS.items():
        net = Net(channels, side, side)
        net.pool("pool", net.conv("conv", net.input, filters, kernel, stride, pad=pad), window, step)
        x = rng.standard_normal((1, side, side, channels), dtype=np.float32)
        weights = rng.standard_normal((filters, channels, kernel, kernel)).astype(np.float32)
        packed = pack_conv(weights, stride=stride, padding=pad)
        deep = partial(fused.conv_relu_pool_depth_first, x, packed, window, step, tile_rows=TILE_ROWS, threads=1)
        wide = partial(fused.conv_relu_pool_breadth_first, x, packed, window, step, threads=1)
        took = _times({"conv": partial(conv, x, packed, threads=1), "deep": deep, "wide": wide})
        gain = median(w / d for w, d in zip(took["wide"], took["deep"], strict=True))
        share = min(1.0, max(0.01, net.ops[0].flops.at(1) / (min(took["conv"]) * roofline.fp32)))
        plain = {"gemm_efficiency": share, "efficiency_ceiling": 1.0, "width_exponent": 0.0, "short_row": 0.0,
                 "thin_input": 1.0, "dram_efficiency": 1.0}  # fmt: skip
        predicted = block_gain(device, net.ops, 1, TILE_ROWS, plain)
        found.append(
            {
                "name": f"depth first: {name}", "value": gain, "unit": "x", "against": f"predicted {predicted:.2f} x",
                "ratio": gain / predicted, "goal": "0.75 to 1.25", "met": 0.75 <= gain / predicted <= 1.25,
            }
        )  # fmt: skip
    return found
