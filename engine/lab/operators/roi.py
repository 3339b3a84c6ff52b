"""RoiAlign over channels-last float32: boxes of an image resampled to one size by bilinear reads, ONNX semantics."""

from __future__ import annotations

from typing import Literal

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.threads.ranges import over_range, require, whole

_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)


@inner
def _axis(position, size):
    """Two pixels an edge-clamped position lies between and the weight of the second; (-1, ...) far outside."""
    if position < -_ONE or position > np.float32(size):
        return -1, -1, _ZERO
    position = max(position, _ZERO)
    low = int(position)
    if low >= size - 1:
        return size - 1, size - 1, _ZERO
    return low, low + 1, np.float32(position - np.float32(low))


@kernel
def roi_rows(lo, hi, x, boxes, images, scale, shift, least, samples, out):
    """Output rows ``[lo, hi)`` over all boxes; ``out`` is ``[boxes, high, wide, channels]``."""
    high, wide, channels = out.shape[1], out.shape[2], out.shape[3]
    for r in range(lo, hi):
        box, row = r // high, r % high
        left = np.float32(boxes[box, 0] * scale - shift)
        top = np.float32(boxes[box, 1] * scale - shift)
        across = max(np.float32(np.float32(boxes[box, 2] * scale - shift) - left), least)
        down = max(np.float32(np.float32(boxes[box, 3] * scale - shift) - top), least)
        cell_down, cell_across = np.float32(down / np.float32(high)), np.float32(across / np.float32(wide))
        rows = samples if samples > 0 else max(0, int(np.ceil(cell_down)))
        columns = samples if samples > 0 else max(0, int(np.ceil(cell_across)))
        share = _ONE / np.float32(max(rows * columns, 1))
        image = x[images[box]]
        for column in range(wide):
            to = out[box, row, column]
            for c in range(channels):
                to[c] = _ZERO
            for i in range(rows):
                y = top + np.float32(row) * cell_down + (np.float32(i) + _HALF) * cell_down / np.float32(rows)
                y0, y1, v = _axis(np.float32(y), x.shape[1])
                for j in range(columns):
                    at = np.float32(column) * cell_across + (np.float32(j) + _HALF) * cell_across / np.float32(columns)
                    x0, x1, h = _axis(np.float32(left + at), x.shape[2])
                    if y0 < 0 or x0 < 0:
                        continue
                    a, b, d, e = image[y0, x0], image[y0, x1], image[y1, x0], image[y1, x1]
                    wa, wb = np.float32((_ONE - v) * (_ONE - h)), np.float32((_ONE - v) * h)
                    wd, we = np.float32(v * (_ONE - h)), np.float32(v * h)
                    for c in range(channels):
                        to[c] += wa * a[c] + wb * b[c] + wd * d[c] + we * e[c]
            for c in range(channels):
                to[c] *= share


def roi_align(
    x: np.ndarray,
    boxes: np.ndarray,
    images: np.ndarray,
    size: tuple[int, int],
    *,
    scale: float = 1.0,
    samples: int = 0,
    transform: Literal["half_pixel", "output_half_pixel"] = "half_pixel",
    threads: int | None = None,
) -> np.ndarray:
    """Boxes of ``x`` ``[N, H, W, C]`` averaged into ``size`` cells: ``[boxes, *size, C]`` float32.

    Parameters
    ----------
    boxes : float32 ``[boxes, 4]``, left, top, right, bottom in the units that ``scale`` turns into pixels of ``x``.
    images : int64 ``[boxes]``, the image each box lies in.
    samples : reads along each axis of a cell; 0 takes one per pixel the cell spans. [-]
    transform : ONNX's ``coordinate_transformation_mode``; the older one has no half pixel and boxes of 1 or more.
    """
    whole("x", x, np.float32, 4)
    require(whole("boxes", boxes, np.float32, 2).shape[1] == 4, f"boxes is {boxes.shape}; allowed: [boxes, 4]")
    require(bool(np.isfinite(boxes).all()), "boxes must be finite")
    count = len(boxes)
    inside = whole("images", images, np.int64, 1).size == count and bool(((images >= 0) & (images < len(x))).all())
    require(inside, f"images must be {count} numbers of 0 to {len(x) - 1}")
    require(min(size) >= 1 and samples >= 0, f"size is {size} and samples {samples}; allowed: 1 or more, 0 or more")
    require(
        transform in ("half_pixel", "output_half_pixel"),
        f"transform is {transform!r}; allowed: half_pixel, output_half_pixel",
    )
    require(min(x.shape[1:3]) >= 1, f"x is {x.shape}; allowed: at least one row and one column")
    out = np.empty((count, *size, x.shape[3]), np.float32)
    half = transform == "half_pixel"
    shift, least = (_HALF, np.float32(-np.inf)) if half else (_ZERO, _ONE)
    over_range(
        roi_rows, count * size[0], x, boxes, images, np.float32(scale), shift, least, samples, out, threads=threads
    )
    return out
