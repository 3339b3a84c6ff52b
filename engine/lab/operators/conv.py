"""Convolution of images over channels-last float32: a matrix product of unfolded windows, any stride.

Channels-last makes a whole kernel row one contiguous run of ``KW * C`` values. A block of windows is unfolded into rows
that stay in a second-level cache while the product's panels pass. Padding is one copy into a zeroed border.
[FLOP] = 2 * pixels * OC * C * taps.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.ir.microkernel import MR, NC
from engine.lab.operators.gemm import DEPTH, ROW_BLOCK_BYTES, Packed, pack_f32, product_range
from engine.lab.ranges import output, over_range, require, whole

RELU, LINEAR = np.float32(0), np.float32(-np.inf)
_NO_ZERO, _NO_TOP = np.int32(0), np.float32(0)


@dataclass(frozen=True, eq=False)
class PackedConv:
    """Weights of a convolution as those of a product of windows, with the geometry they were packed for."""

    product: Packed
    channels_in: int
    channels_out: int
    kernel: tuple[int, int]
    stride: int
    padding: int

    def extents(self, high: int, wide: int) -> tuple[int, int]:
        """Rows and columns of the result for an image with its border. [pixels]"""
        rows, columns = (max(0, (n - k) // self.stride + 1) for n, k in zip((high, wide), self.kernel, strict=True))
        return rows, columns

    def arguments(self, image: np.ndarray) -> tuple[Any, ...]:
        """What `conv_pixels` reads of images ``[N, H, W, C]`` with their border and of the weights."""
        pixels, taps = layout(*image.shape, self.kernel[0], self.stride, self.extents(*image.shape[1:3]))
        weights = self.product.words, self.product.zeros
        return (image.reshape(-1), pixels, taps, self.kernel[1] * self.channels_in), weights


def pack_conv(weights: np.ndarray, *, stride: int = 1, padding: int = 0) -> PackedConv:
    """Pack ONNX-ordered weights ``[OC, C, KH, KW]`` (float32) for :func:`conv`."""
    require(isinstance(weights, np.ndarray) and weights.ndim == 4, "weights must be [OC, C, KH, KW]")
    require(weights.dtype == np.float32, f"weights has type {weights.dtype}; allowed: float32")
    require(min(weights.shape) >= 1, f"weights has shape {weights.shape}; allowed: every axis 1 or more")
    require(stride >= 1 and padding >= 0, f"stride, padding are {stride}, {padding}; allowed: 1 or more, 0 or more")
    channels_out, channels_in, high, wide = weights.shape
    product = pack_f32(np.ascontiguousarray(np.moveaxis(weights, 1, -1).reshape(channels_out, -1).T))
    return PackedConv(product, channels_in, channels_out, (high, wide), stride, padding)


def bordered_by(x: np.ndarray, padding: int) -> np.ndarray:
    """``x`` ``[N, H, W, C]`` with a border of zeros; ``x`` itself where there is none."""
    return np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0))) if padding else x


@lru_cache(maxsize=64)
def layout(
    images: int, high: int, wide: int, channels: int, window: int, stride: int, out: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Offset of the first value under each output pixel, row by row, and of each row of the kernel. [elements]"""
    image, row, column = np.ogrid[:images, : out[0], : out[1]]
    pixels = (((image * high + row * stride) * wide + column * stride) * channels).reshape(-1)
    return pixels, np.arange(window, dtype=np.int64) * (wide * channels)


@kernel
def conv_pixels(lo, hi, source, weights, floor, out):
    """Output pixels ``[lo, hi)`` of a convolution, rows of ``out`` ``[pixels, OC]``.

    ``out[p, c] = max(floor, sum of x[pixels[p] + tap + k] * words)`` with source ``(x, pixels, taps, run)`` and
    weights ``(words, zeros)``. The order of additions of an element is that of the taps whatever the block.
    """
    x, pixels, taps, run = source
    words, zeros = weights
    depth = taps.size * run
    block = max(MR, ROW_BLOCK_BYTES // (4 * min(depth, DEPTH)) // MR * MR)
    rows = np.empty((min(block, hi - lo), depth), np.float32)
    for first in range(lo, hi, block):
        count = min(block, hi - first)
        for i in range(count):
            for t in range(taps.size):
                start = pixels[first + i] + taps[t]
                values, row = x[start : start + run], rows[i, t * run : (t + 1) * run]
                for k in range(run):
                    row[k] = values[k]
        across, to = zeros.size // NC, out[first : first + count]
        product_range(
            0, across, rows[:count], words, depth, depth, DEPTH, zeros, zeros, _NO_ZERO, floor, _NO_TOP, to, 1, across
        )


def conv(
    x: np.ndarray,
    packed: PackedConv,
    *,
    relu: bool = False,
    has_border: bool = False,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``x`` ``[N, H, W, C]`` convolved (cross-correlated, as ONNX Conv) with ``packed``, optional ReLU.

    Parameters
    ----------
    has_border : ``x`` already carries the zero border that ``packed.padding`` asks for, so it is not copied.
    """
    whole("x", x, np.float32, 4)
    require(x.shape[3] == packed.channels_in, f"x has {x.shape[3]} channels; the weights take {packed.channels_in}")
    image = x if has_border else bordered_by(x, packed.padding)
    out = output(out, (x.shape[0], *packed.extents(*image.shape[1:3]), packed.channels_out), np.float32)
    if out.size:
        to, floor = out.reshape(-1, packed.channels_out), RELU if relu else LINEAR
        arguments = (*packed.arguments(image), floor, to)
        over_range(conv_pixels, len(to), *arguments, threads=threads, grain=4 * MR)
    return out
