"""TopK and NonMaxSuppression with ONNX semantics: the largest values of rows, and boxes that no better one covers.

Both order 64-bit keys, a value's bits above its place counted from the end, so that one integer comparison also settles
ties: the lower place comes first. A heap holds what is kept; values it cannot take are passed over a block at a time.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.threads.ranges import over_range, require, whole

_SIGN, _MAGNITUDE, _PLACES = np.int32(31), np.int32(0x7FFFFFFF), np.int64(0xFFFFFFFF)
_ZERO, _HALF = np.float32(0), np.float32(0.5)
_BLOCK = 64
"""Values passed over at once, and boxes compared before the next look whether one covers enough. [elements]"""


@inner
def _ordered(value, turn):
    """A float32 as an integer of the same order (flipped by ``turn`` -1); both zeros are one, a NaN is at an end."""
    bits = np.int32(np.float32(value + _ZERO).view(np.int32))
    return np.int32(np.int32(bits ^ ((bits >> _SIGN) & _MAGNITUDE)) ^ turn)


@inner
def _key(ordered, place):
    return np.int64(np.int64(ordered) << np.int64(32)) | (_PLACES - np.int64(place))


@inner
def _place(key):
    return _PLACES - (key & _PLACES)


@inner
def _sink(heap, start, count):
    """Let the key at ``start`` sink to where both keys below are larger."""
    key, at = heap[start], start
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = key


@inner
def _heaped(heap, count):
    """Make a heap of the first ``count`` keys: the least of them comes first."""
    for start in range(count // 2 - 1, -1, -1):
        _sink(heap, start, count)


@inner
def _falling(heap, count):
    """Make the first ``count`` keys of a heap fall."""
    for last in range(count - 1, 0, -1):
        heap[0], heap[last] = heap[last], heap[0]
        _sink(heap, 0, last)


@kernel
def top_rows(lo, hi, x, turn, values, places):
    """Rows ``[lo, hi)``: the ``places.shape[1]`` largest values, falling; with ``turn`` -1 the smallest, rising."""
    columns, count = x.shape[1], places.shape[1]
    heap = np.empty(count, np.int64)
    for r in range(lo, hi):
        row = x[r]
        for c in range(count):
            heap[c] = _key(_ordered(row[c], turn), c)
        _heaped(heap, count)
        for first in range(count, columns, _BLOCK):
            part, best = row[first : first + _BLOCK], np.int32(-0x80000000)
            for i in range(part.size):
                best = max(best, _ordered(part[i], turn))
            if np.int64(best) <= heap[0] >> np.int64(32):  # of equal values the earlier one stays
                continue
            for i in range(part.size):
                key = _key(_ordered(part[i], turn), first + i)
                if key > heap[0]:
                    heap[0] = key
                    _sink(heap, 0, count)
        _falling(heap, count)
        for c in range(count):
            places[r, c] = _place(heap[c])
            values[r, c] = row[places[r, c]]


@inner
def _covers(top, left, bottom, right, kept, count, limit):
    """Whether one of ``count`` boxes ``kept`` ``[4, boxes]`` shares more than ``limit`` of the union with this one."""
    own = np.float32(np.float32(bottom - top) * np.float32(right - left))
    for first in range(0, count, _BLOCK):
        last = min(count, first + _BLOCK)
        tops, lefts, bottoms, rights = (
            kept[0, first:last],
            kept[1, first:last],
            kept[2, first:last],
            kept[3, first:last],
        )
        seen = False
        for i in range(tops.size):
            a, b, c, d = tops[i], lefts[i], bottoms[i], rights[i]
            high = np.float32((bottom if bottom < c else c) - (top if top > a else a))
            wide = np.float32((right if right < d else d) - (left if left > b else b))
            shared, area = np.float32(high * wide), np.float32(np.float32(c - a) * np.float32(d - b))
            union = np.float32(np.float32(own + area) - shared)
            some = (high > _ZERO) & (wide > _ZERO) & (shared > _ZERO) & (own > _ZERO) & (area > _ZERO) & (union > _ZERO)
            seen |= some & (np.float32(shared / union) > limit)
        if seen:
            return True
    return False


@inner
def _corners(box, centred):
    """Top, left, bottom and right of a box."""
    a, b, c, d = box[0], box[1], box[2], box[3]
    if centred:
        wide, high = np.float32(c * _HALF), np.float32(d * _HALF)
        return np.float32(b - high), np.float32(a - wide), np.float32(b + high), np.float32(a + wide)
    return min(a, c), min(b, d), max(a, c), max(b, d)


@kernel
def suppress_classes(lo, hi, boxes, centred, scores, most, limit, least, chosen, counts):
    """Pairs ``[lo, hi)`` of image and class: places of the boxes kept, best first, and how many."""
    places, classes = scores.shape[1], scores.shape[0] // boxes.shape[0]
    keys, kept = np.empty(places, np.int64), np.empty((4, most), np.float32)
    for pair in range(lo, hi):
        score, box, count, found = scores[pair], boxes[pair // classes], 0, 0
        for i in range(places):
            if score[i] > least:
                keys[found] = ~_key(_ordered(score[i], np.int32(0)), i)  # the best score is the least key
                found += 1
        _heaped(keys, found)
        while found > 0 and count < most:  # only as many are put in order as are looked at
            i = _place(~keys[0])
            found -= 1
            keys[0] = keys[found]
            _sink(keys, 0, found)
            top, left, bottom, right = _corners(box[i], centred)
            if not _covers(top, left, bottom, right, kept, count, limit):
                kept[0, count], kept[1, count], kept[2, count], kept[3, count] = top, left, bottom, right
                chosen[pair, count] = i
                count += 1
        counts[pair] = count


def top_k(x: np.ndarray, k: int, *, largest: bool = True, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` largest (or smallest) values of the last axis in order, and their places: ONNX TopK, sorted.

    ``x`` float32 ``[..., n]``; returns float32 and int64 ``[..., k]``. Of equal values the one at the lower place comes
    first. A NaN counts as beyond the infinity of its sign.
    """
    require(isinstance(x, np.ndarray) and x.ndim >= 1, "x must have at least one axis")
    whole("x", x, np.float32, x.ndim)
    require(0 <= k <= x.shape[-1], f"k is {k}; allowed: 0 to {x.shape[-1]}, the values of a row")
    shape = (*x.shape[:-1], k)
    values, places = np.empty(shape, np.float32), np.empty(shape, np.int64)
    if places.size:
        rows = places.size // k
        turn = np.int32(0 if largest else -1)
        over_range(
            top_rows,
            rows,
            x.reshape(rows, x.shape[-1]),
            turn,
            values.reshape(rows, k),
            places.reshape(rows, k),
            threads=threads,
            grain=1 + 8192 // x.shape[-1],
        )
    return values, places


def non_max_suppression(
    boxes: np.ndarray,
    scores: np.ndarray,
    most: int,
    *,
    overlap: float = 0.0,
    least_score: float = -np.inf,
    centred: bool = False,
    threads: int | None = None,
) -> np.ndarray:
    """Image, class and place of each box kept, int64 ``[kept, 3]``: ONNX NonMaxSuppression.

    Parameters
    ----------
    boxes : float32 ``[images, boxes, 4]``, two opposite corners (y, x, y, x), or ``centred`` (x, y, width, height).
    scores : float32 ``[images, classes, boxes]``; a box counts where its score is above ``least_score``.
    most : boxes kept of one class of an image at most. [-]
    overlap : shared area over the area of both beyond which the lower score of two boxes goes, 0 to 1. [-]
    """
    require(whole("boxes", boxes, np.float32, 3).shape[2] == 4, f"boxes is {boxes.shape}; allowed: [images, boxes, 4]")
    images, count = boxes.shape[:2]
    shape = whole("scores", scores, np.float32, 3).shape
    require(shape[::2] == (images, count), f"scores is {shape}; allowed: [{images}, classes, {count}]")
    require(most >= 0, f"most is {most}; allowed: 0 or more")
    require(0 <= overlap <= 1, f"overlap is {overlap}; allowed: 0 to 1")
    pairs = images * shape[1]
    chosen, counts = np.zeros((pairs, min(most, count)), np.int64), np.zeros(pairs, np.int64)
    if chosen.size:
        over_range(
            suppress_classes,
            pairs,
            boxes,
            centred,
            scores.reshape(pairs, count),
            chosen.shape[1],
            np.float32(overlap),
            np.float32(least_score),
            chosen,
            counts,
            threads=threads,
        )
    pair = np.repeat(np.arange(pairs), counts)
    places = chosen[np.arange(chosen.shape[1]) < counts[:, None]]
    return np.stack([pair // max(1, shape[1]), pair % max(1, shape[1]), places], axis=1)
