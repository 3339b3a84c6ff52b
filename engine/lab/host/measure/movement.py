"""Cases that move or combine values between products: transposes, sums, repeats, hashes, boxes."""

from __future__ import annotations

from functools import partial

import numpy as np

from engine.lab.host.measure.cases import Case, MeasureError, few_rows, given, room
from engine.lab.operators.norm import local_response_norm
from engine.lab.operators.reorder import argmax, reduce_sum, repeat_rows, transpose
from engine.lab.operators.roi import roi_align
from engine.lab.operators.rotary import rotary, rotary_angles
from engine.lab.operators.select import non_max_suppression, top_k
from engine.lab.operators.wide_deep import hash_ids

_OVERLAP = 0.7  # share of the union above which the lower of two proposals goes, as detection networks set it
_GOLDEN, _MIX = np.uint64(0x9E3779B97F4A7C15), (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def turn(shape: tuple[int, ...], axes: tuple[int, ...], threads: int) -> Case:
    """Axes in another order."""
    x = given(*shape)
    out = room(*(shape[a] for a in axes))
    run = partial(transpose, x, axes, out=out, threads=threads)
    exact = np.transpose(x, axes).astype(np.float64)
    library = partial(np.copyto, np.empty_like(out), np.transpose(x, axes))
    return Case("transpose", (run,), lambda y: (y, exact), library, 0.0, 8.0 * x.size, "fp32", (out, x))


def total(before: int, count: int, after: int, threads: int) -> Case:
    """Sum over the middle of three axes."""
    x = given(before, count, after)
    run = partial(reduce_sum, x, 1, threads=threads)
    exact = x.astype(np.float64).sum(axis=1)
    moved = 4.0 * (x.size + exact.size)
    return Case("reduce_sum", (run,), lambda y: (y, exact), partial(x.sum, axis=1), float(x.size), moved, "fp32", (x,))


def repeat(rows: int, columns: int, times: int, threads: int) -> Case:
    """Every row several times: a channel's gate at each pixel."""
    x = given(rows, columns)
    out = room(rows * times, columns)
    run = partial(repeat_rows, x, times, out=out, threads=threads)
    exact = np.repeat(x, times, axis=0).astype(np.float64)
    return Case("repeat_rows", (run,), lambda y: (y, exact), None, 0.0, 4.0 * (x.size + out.size), "fp32", (out, x))


def largest(rows: int, columns: int, threads: int) -> Case:
    """Place of each row's largest value."""
    x = given(rows, columns)
    run = partial(argmax, x, threads=threads)
    exact = x.argmax(axis=1).astype(np.float64)
    return Case(
        "argmax", (run,), lambda y: (y, exact), partial(x.argmax, axis=1), float(x.size), 4.0 * x.size, "fp32", (x,)
    )


def top(rows: int, columns: int, k: int, threads: int) -> Case:
    """Largest values of each row, in order."""
    x = given(rows, columns)
    if k > columns:
        raise MeasureError(f"k is {k}; allowed: at most the {columns} columns")
    run = partial(top_k, x, k, threads=threads)
    exact = -np.sort(-x.astype(np.float64), axis=1)[:, :k]

    def check(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return values, exact

    def values() -> np.ndarray:
        return run()[0]

    library = partial(np.argpartition, x, columns - k, axis=1)
    return Case("top_k", (values,), check, library, float(x.size), 4.0 * x.size + 12.0 * rows * k, "fp32", (x,))


def suppress(boxes: int, kept: int, threads: int) -> Case:
    """Boxes of one image and class, each the size of a tenth of it, thinned to at most ``kept``."""
    rng = np.random.default_rng(11)
    centres, scores = rng.uniform(0, 1, (1, boxes, 2)), rng.random((1, 1, boxes), np.float32)
    corners = np.concatenate([centres - 0.05, centres + 0.05], axis=2).astype(np.float32)
    run = partial(non_max_suppression, corners, scores, kept, overlap=_OVERLAP, threads=threads)

    def check(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        left = np.argsort(-scores[0, 0], kind="stable")
        chosen = []
        while left.size and len(chosen) < kept:  # of those left the best, then all that it does not cover
            chosen.append(left[0])
            a, b = corners[0, left[0]].astype(np.float64), corners[0, left].astype(np.float64)
            sides = np.clip(np.minimum(a[2:], b[:, 2:]) - np.maximum(a[:2], b[:, :2]), 0, None)
            shared, areas = sides.prod(axis=1), (b[:, 2:] - b[:, :2]).prod(axis=1)
            left = left[shared / ((a[2:] - a[:2]).prod() + areas - shared) <= _OVERLAP]
        return values[:, 2], np.array(chosen, np.float64)

    return Case("non_max_suppression", (run,), check, None, 10.0 * boxes, 20.0 * boxes, "fp32", (corners, scores))


def respond(rows: int, channels: int, size: int, threads: int) -> Case:
    """Local response normalisation across channels."""
    x, out = given(rows, channels), room(rows, channels)
    run = partial(local_response_norm, x, size, out=out, threads=threads)
    wide = x[: few_rows(rows, 8.0 * channels * size)].astype(np.float64)
    squares = np.pad(wide**2, [(0, 0), ((size - 1) // 2, size // 2)])
    near = np.lib.stride_tricks.sliding_window_view(squares, size, axis=1).sum(axis=-1)
    exact = wide / (1 + 1e-4 / size * near) ** 0.75
    return Case(
        "local_response_norm",
        (run,),
        lambda y: (y[: len(wide)], exact),
        None,
        (size + 5.0) * x.size,
        8.0 * x.size,
        "fp32",
        (out, x),
    )


def rotate(tokens: int, heads: int, depth: int, threads: int) -> Case:
    """Rotary position embedding of heads."""
    x = given(tokens, heads, depth)
    cosine, sine = rotary_angles(np.arange(tokens), depth)
    out = room(*x.shape)
    run = partial(rotary, x, cosine, sine, out=out, threads=threads)
    left, right = np.split(x.astype(np.float64), 2, axis=2)
    c, s = cosine[:, None].astype(np.float64), sine[:, None].astype(np.float64)
    exact = np.concatenate([left * c - right * s, right * c + left * s], axis=2)
    return Case("rotary", (run,), lambda y: (y, exact), None, 3.0 * x.size, 8.0 * x.size, "fp32", (out, x))


def hash_fields(rows: int, fields: int, threads: int, buckets: int = 1_000_000) -> Case:
    """64-bit ids to buckets, a hash for each field."""
    ids = np.random.default_rng(9).integers(0, 2**63, (rows, fields))
    run = partial(hash_ids, ids, buckets, threads=threads)
    z = ids.view(np.uint64) + (np.arange(fields, dtype=np.uint64) + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _MIX[0]
    z = (z ^ (z >> np.uint64(27))) * _MIX[1]
    z ^= z >> np.uint64(31)
    exact = (((z >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.float64)
    return Case("hash_ids", (run,), lambda y: (y, exact), None, float(ids.size), 16.0 * ids.size, "fp32", (ids,))


def align_boxes(side: int, channels: int, boxes: int, cells: int, threads: int, samples: int = 2) -> Case:
    """Boxes of one image resampled to ``cells`` x ``cells``, ``samples`` squared reads a cell."""
    rng = np.random.default_rng(10)
    x = given(1, side, side, channels)
    corners = np.sort(rng.uniform(0, side, (boxes, 2, 2)).astype(np.float32), axis=1).reshape(boxes, 4)
    images = np.zeros(boxes, np.int64)
    run = partial(roi_align, x, corners, images, (cells, cells), samples=samples, threads=threads)
    exact = _aligned(x[0], corners[0], cells, samples)
    made = float(boxes * cells**2 * channels)
    flops, moved = 8.0 * samples**2 * made, 4.0 * (4 * samples**2 + 1) * made
    return Case("roi_align", (run,), lambda y: (y[0], exact), None, flops, moved, "fp32", (x,))


def _aligned(image: np.ndarray, box: np.ndarray, cells: int, samples: int) -> np.ndarray:
    """One box in float64: the two axes are independent, so a box is a product of two interpolations."""

    def weights(low: float, high: float, extent: int) -> np.ndarray:
        at = low + (high - low) * (np.arange(cells * samples) + 0.5) / (cells * samples)
        clipped = np.clip(at, 0, extent - 1)
        first = np.minimum(clipped.astype(np.int64), max(extent - 2, 0))
        out = np.zeros((at.size, extent))
        np.add.at(out, (np.arange(at.size), first), 1 - (clipped - first))
        np.add.at(out, (np.arange(at.size), np.minimum(first + 1, extent - 1)), clipped - first)
        out[(at < -1) | (at > extent)] = 0
        return out.reshape(cells, samples, extent).mean(axis=1)

    left, top, right, bottom = box.astype(np.float64) - 0.5
    down, across = weights(top, bottom, image.shape[0]), weights(left, right, image.shape[1])
    return np.einsum("ih,jw,hwc->ijc", down, across, image.astype(np.float64))
