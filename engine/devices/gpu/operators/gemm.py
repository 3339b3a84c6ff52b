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
    OVERLAP,
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
        (256, 192),
        (192, 256),
        (256, 128),
        (128, 256),
        (128, 192),
        (192, 128),
        (128, 128),
        (64, 256),
        (256, 64),
        (128, 96),
        (96, 128),
        (64, 192),
        (192, 64),
        (128, 64),
        (64, 128),
        (64, 96),
        (96, 64),
        (64, 64),
        (64, 32),
        (32, 64),
        (128, 32),
        (32, 128),
        (16, 128),
        (128, 16),
        (16, 64),
        (64, 16),
        (32, 32),
        (16, 32),
        (32, 16),
    ],
    dtype=np.float64,
)
"""Tiles of the output that libraries ship, rows of the input first. [elements]"""
SPLITS = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0])
"""Parts k is cut into where tiles alone leave units idle."""
_DEEP = 32.0  # k advances in steps of this [elements]
_JOIN = 1.5  # starts that joining a split reduction takes: a barrier and a second pass
_LEAST_K = 128.0  # and a split keeps at least this much of it

# a format on a part, as `record.format_record` fills it
FORMAT = ("flop_s", "draw_s", "in_bytes", "weight_bytes", "out_bytes", "quantise_s", "quantise_byte_s", "splits")
FLOP_S, DRAW_S, IN_BYTES, WEIGHT_BYTES, OUT_BYTES, QUANTISE_S, QUANTISE_BYTE_S, MOST_SPLITS = range(8)


@kernel
def product_seconds(m, n, k, layers, machine, form, out):
    """Seconds of one layer ``(m, k) x (k, n)`` when ``layers`` of them with other weights run in turn; fills ``out``.

    ``layers`` of 0 means that weights come from DRAM. `slots` names what ``machine`` and ``out`` hold. Estimate.
    """
    units, bandwidth = machine[UNITS], machine[BANDWIDTH]
    weights, inputs, outputs = n * k * form[WEIGHT_BYTES], m * k * form[IN_BYTES], m * n * form[OUT_BYTES]
    room = machine[L2_SHARE] * machine[L2]
    kept = 0.0 if layers == 0.0 else hit_share(layers * weights + inputs + outputs, room)
    near = hit_share(inputs + weights + outputs, room)
    flops = 2.0 * m * n * k
    draw = flops * form[DRAW_S]
    best, which = np.inf, 0
    for t in range(TILES.shape[0]):
        rows, columns = TILES[t, 0], TILES[t, 1]
        if (rows > 64.0 and rows >= 2.0 * m) or (columns > 64.0 and columns >= 2.0 * n):
            continue
        down, across = np.ceil(m / rows), np.ceil(n / columns)
        # tiles at work at once form a rectangle: each of its sides is read once, the rest of an operand again
        high = min(down, np.sqrt(units * columns / rows))
        wide = min(across, max(1.0, units / max(high, 1.0)))
        high = min(down, max(1.0, units / wide))
        again_in, again_weights = max(1.0, across / wide) - 1.0, max(1.0, down / high) - 1.0
        missed = inputs * (1.0 - near) + weights * (1.0 - kept) + outputs * (1.0 - near)
        if again_in > 0.0:
            missed += inputs * again_in * (1.0 - hit_share(inputs + wide * columns * k * form[WEIGHT_BYTES], room))
        if again_weights > 0.0:
            missed += weights * again_weights * (1.0 - hit_share(weights + high * rows * k * form[IN_BYTES], room))
        for s in range(SPLITS.shape[0]):
            split = SPLITS[s]
            if split > 1.0 and (
                split > form[MOST_SPLITS] or k / split < _LEAST_K or down * across * (split - 1.0) >= 2.0 * units
            ):
                break
            deep = np.ceil(k / split / _DEEP) * _DEEP
            blocks = down * across * split
            waves = np.ceil(blocks / units)
            compute = waves * 2.0 * rows * columns * deep * form[FLOP_S] * units
            feed = waves * (rows * form[IN_BYTES] + columns * form[WEIGHT_BYTES]) * deep / machine[FEED]
            dram = missed / (bandwidth * machine[DRAM_SHARE])
            rest = deep * machine[STEP] + waves * rows * columns * form[OUT_BYTES] / machine[STORE]
            if split > 1.0:
                rest += _JOIN * machine[START] + split * m * n * 8.0 / (units * machine[FEED])
            if max(compute, feed, dram, draw) + rest >= best:
                continue
            found = overlapped(compute, feed, dram, draw, machine[OVERLAP]) + rest
            if found < best:
                best = found
                which = regime(compute, feed, dram, draw, rest + machine[START])
    quantise = form[QUANTISE_S] + 2.0 * m * k * form[QUANTISE_BYTE_S]
    total = best + machine[START] + quantise
    if layers == 0.0:  # inputs and results may still be in the L2
        roof = weights + max(inputs + outputs - machine[L2], 0.0)
    else:
        roof = max(layers * weights + inputs + outputs - machine[L2], 0.0) / layers
    roof /= bandwidth
    arithmetic = flops * form[FLOP_S]
    out[BOUND] = max(arithmetic, roof)
    out[BOUND_BY] = COMPUTE if arithmetic >= roof else MEMORY
    out[SECONDS] = max(total, out[BOUND])
    out[REGIME] = which if quantise <= 0.5 * total else 0


@kernel
def product_rows(lo, hi, m, n, k, layers, machine, form, out):
    """`product_seconds` of the rows lo..hi; ``out`` is (rows, `slots.ANSWER`)."""
    for i in range(lo, hi):
        product_seconds(m[i], n[i], k[i], layers[i], machine, form, out[i])
