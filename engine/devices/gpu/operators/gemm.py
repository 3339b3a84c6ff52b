"""A matrix product on a GPU: the fastest of a menu of tiles and splits, as a tuned library would pick. Estimates.

A wave of tiles computes at the data sheet's rate, is fed from the L2 and from DRAM, and draws power; the four overlap.
Behind them come what doesn't overlap: the start of the kernel, the latency of one tile's chain of steps along k, the
store of a tile, and the reduction of a split k. Formats with their own scales add a pass that quantises the input.
"""

from __future__ import annotations

import numpy as np

from engine.devices.gpu.operators.slots import (
    BANDWIDTH,
    BOUND,
    BOUND_BY,
    COMPUTE,
    DRAM_SHARE,
    FEED,
    L2,
    L2_SHARE,
    MEMORY,
    REGIME,
    SECONDS,
    START,
    STEP,
    STORE,
    UNITS,
)
from engine.devices.gpu.operators.terms import hit_share, overlapped, regime
from engine.kernels.jit import kernel

TILES = np.array(
    [
        (256, 256),
        (256, 128),
        (128, 256),
        (192, 128),
        (128, 192),
        (128, 128),
        (64, 256),
        (256, 64),
        (128, 64),
        (64, 128),
        (64, 64),
        (128, 32),
        (64, 32),
        (32, 128),
        (32, 64),
        (16, 128),
        (16, 64),
        (16, 32),
    ],
    dtype=np.float64,
)
"""Tiles of the output that libraries ship, rows of the input first. [elements]"""
_DEEP = 32.0  # k advances in steps of this [elements]
_JOIN = 1.5  # starts that joining a split reduction takes: a barrier and a second pass
_LEAST_K = 128.0  # and a split keeps at least this much of it

# a format on a part, as `record.format_record` fills it
FORMAT = (
    "flop_s",
    "draw_s",
    "in_bytes",
    "weight_bytes",
    "out_bytes",
    "quantise_s",
    "quantise_byte_s",
    "splits",
    "widen_s",
    "side",
)
FLOP_S, DRAW_S, IN_BYTES, WEIGHT_BYTES, OUT_BYTES, QUANTISE_S, QUANTISE_BYTE_S, MOST_SPLITS, WIDEN_S, SIDE = range(10)


BUSY_S, REST_S, MISSED, LARGEST = range(4)  # what `best_tile` answers
FOUND = 4


@kernel
def best_tile(g, m, n, k, inputs, weights, outputs, missed, kept, machine, form, found):
    """The fastest way to ``g`` products ``(m, k) x (k, n)`` of so many bytes; fills ``found`` (FOUND). Estimate.

    ``missed`` are bytes of inputs and outputs that the L2 does not hold, ``kept`` is the share of the weights that it
    does. Found: seconds that compute and streams overlap in, seconds behind them, bytes of DRAM, and what of
    `slots.REGIMES` is the largest term.
    """
    units, bandwidth = machine[UNITS], machine[BANDWIDTH] * machine[DRAM_SHARE]
    room = machine[L2_SHARE] * machine[L2]
    missed += weights * (1.0 - kept)
    draw = 2.0 * g * m * n * k * form[DRAW_S]
    best = np.inf
    most = min(form[MOST_SPLITS], k / _LEAST_K)
    for t in range(TILES.shape[0]):
        rows, columns = TILES[t, 0], TILES[t, 1]
        if (rows > 64.0 and rows >= 2.0 * m) or (columns > 64.0 and columns >= 2.0 * n):
            continue
        if form[SIDE] > 16.0:
            rows, columns = max(rows, form[SIDE]), max(columns, form[SIDE])
        elif form[SIDE] == 1.0:
            rows, columns = min(rows, m), min(columns, n)
        down, across = np.ceil(m / rows), np.ceil(n / columns)
        # tiles at work at once form a rectangle: each of its sides is read once, the rest of an operand again
        high = min(down, np.sqrt(units * columns / rows))
        wide = min(across, max(1.0, units / max(high, 1.0)))
        high = min(down, max(1.0, units / wide))
        far = missed
        if across > wide:
            again = across / wide - 1.0
            far += inputs * again * (1.0 - hit_share(inputs + wide * columns * k * form[WEIGHT_BYTES], room))
        if down > high:
            again = down / high - 1.0
            far += weights * again * (1.0 - hit_share(weights + high * rows * k * form[IN_BYTES], room))
        dram = far / bandwidth
        steady = max(dram, draw)
        tiles = g * down * across
        split = 1.0
        for turn in range(3):  # whole, then as many parts of k as fill the units once, or twice
            if turn > 0:
                split = min(np.floor(turn * units / tiles), most)
                if split < 2.0:
                    continue
            deep = np.ceil(k / split / _DEEP) * _DEEP
            waves = np.ceil(tiles * split / units)
            compute = waves * 2.0 * rows * columns * deep * form[FLOP_S] * units
            feed = waves * (rows * form[IN_BYTES] + columns * form[WEIGHT_BYTES]) * deep / machine[FEED]
            feed += waves * columns * deep * form[WIDEN_S]
            rest = deep * machine[STEP] + waves * rows * columns * form[OUT_BYTES] / machine[STORE]
            if split > 1.0:
                rest += _JOIN * machine[START] + split * g * m * n * 8.0 / (units * machine[FEED])
            if max(compute, feed, steady) + rest >= best:
                continue
            busy = overlapped(compute, feed, dram, draw)
            if busy + rest < best:
                best = busy + rest
                found[BUSY_S], found[REST_S], found[MISSED] = busy, rest, far
                found[LARGEST] = regime(compute, feed, dram, draw, 0.0)


@kernel
def product_seconds(m, n, k, layers, machine, form, found, out):
    """Seconds of one layer ``(m, k) x (k, n)`` when ``layers`` of them with other weights run in turn; fills ``out``.

    ``layers`` of 0 means that weights come from DRAM. `slots` names what ``machine`` and ``out`` hold. Estimate.
    """
    weights, inputs, outputs = n * k * form[WEIGHT_BYTES], m * k * form[IN_BYTES], m * n * form[OUT_BYTES]
    room = machine[L2_SHARE] * machine[L2]
    kept = 0.0 if layers == 0.0 else hit_share(layers * weights + inputs + outputs, room)
    missed = (inputs + outputs) * (1.0 - hit_share(inputs + weights + outputs, room))
    best_tile(1.0, m, n, k, inputs, weights, outputs, missed, kept, machine, form, found)
    quantise = form[QUANTISE_S] + 2.0 * m * k * form[QUANTISE_BYTE_S]
    total = found[BUSY_S] + found[REST_S] + machine[START] + quantise
    if layers == 0.0:  # inputs and results may still be in the L2
        roof = weights + max(inputs + outputs - machine[L2], 0.0)
    else:
        roof = max(layers * weights + inputs + outputs - machine[L2], 0.0) / layers
    roof /= machine[BANDWIDTH]
    arithmetic = 2.0 * m * n * k * form[FLOP_S]
    out[BOUND] = max(arithmetic, roof)
    out[BOUND_BY] = COMPUTE if arithmetic >= roof else MEMORY
    out[SECONDS] = max(total, out[BOUND])
    out[REGIME] = found[LARGEST] if found[BUSY_S] > found[REST_S] + machine[START] + quantise else 0


@kernel
def product_rows(lo, hi, m, n, k, layers, machine, form, out):
    """`product_seconds` of the rows lo..hi; ``out`` is (rows, `slots.ANSWER`)."""
    found = np.empty(FOUND)
    for i in range(lo, hi):
        product_seconds(m[i], n[i], k[i], layers[i], machine, form, found, out[i])
