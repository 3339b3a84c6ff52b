"""A matrix product on a GPU: the fastest of a menu of tiles and splits, as a tuned library would pick. Estimates.

A wave of tiles computes at the data sheet's rate, is fed from the L2 and from DRAM, and draws power; the four overlap.
Behind them come what doesn't overlap: the start of the kernel, the latency of one tile's chain of steps along k, the
store of a tile, and the reduction of a split k. Formats with their own scales add a pass that quantises the input.
"""

import numpy as np

from engine.devices.gpu.operators import slots as S
from engine.devices.gpu.operators.terms import SLACK, answer, hit_share, regime
from engine.kernels.ir.doubles import (
    FULL,
    LANES,
    above,
    alike,
    at_least,
    chosen,
    entry,
    larger,
    load,
    loads,
    root,
    rounded_down,
    rounded_up,
    smaller,
    spread,
    store,
    write,
)
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
    "flop_s", "draw_s", "in_bytes", "weight_bytes", "out_bytes", "quantise_s", "quantise_byte_s", "splits",
    "widen_s", "side",
)  # fmt: skip
FLOP_S, DRAW_S, IN_BYTES, WEIGHT_BYTES, OUT_BYTES, QUANTISE_S, QUANTISE_BYTE_S, MOST_SPLITS, WIDEN_S, SIDE = range(10)
_MACHINE, _FORMAT = len(S.MACHINE), len(FORMAT)


# a tile and a split on a menu: what its terms multiply the rates of a part by
MENU = ("compute", "feed", "widen", "deep", "store", "joins", "join", "far")
_COMPUTE, _FEEDS, _WIDENS, _DEEPS, _STORES, _JOINS, _PARTS, _FAR = range(8)
WAYS = 3 * TILES.shape[0]  # of a menu

STRIDE = 128
"""Parts side by side: a row of what `best_of` reads of each, flat, holds so many."""
RATES = 10
"""Rows of what a way is multiplied by at a part in a format: bytes of DRAM a second; then seconds a FLOP, a byte of
operands, an element widened and a byte of DRAM take, a step, a byte stored, a start and a byte joined; and a FLOP at
the power limit."""
_AT_LIMIT = RATES - 1

BUSY_S, REST_S, MISSED, LARGEST = range(4)  # what `best_of` answers, a row of `LANES` parts each
RESULTS = 4
SPAN = STRIDE // LANES  # parts side by side of which `spans` finds the least and the largest rates


@kernel
def menu_of(g, m, n, k, inputs, weights, misses, hit, machine, form, menu):
    """Ways to ``g`` products ``(m, k) x (k, n)`` of so many bytes: fills ``menu`` (WAYS, MENU), returns how many.

    Tiles and splits: what of a part's data they depend on is its units and its L2. ``misses`` are bytes of inputs and
    outputs that the L2 does not hold, ``hit`` is the share of the weights that it does. Of `LANES` products side by
    side every entry is as many; a way that one of them lacks takes it forever.
    """
    units, room = machine[S.UNITS], machine[S.L2_SHARE] * machine[S.L2]
    misses = misses + weights * (1.0 - hit)
    limit, count = smaller(form[MOST_SPLITS], k / _LEAST_K), 0
    for t in range(TILES.shape[0]):
        rows, columns = alike(m, TILES[t, 0]), alike(n, TILES[t, 1])
        excess = at_least(rows, 2.0 * m) if TILES[t, 0] > 64.0 else 0
        excess |= at_least(columns, 2.0 * n) if TILES[t, 1] > 64.0 else 0
        if excess == FULL:
            continue
        if form[SIDE] > 16.0:
            rows, columns = larger(rows, form[SIDE]), larger(columns, form[SIDE])
        elif form[SIDE] == 1.0:
            rows, columns = smaller(rows, m), smaller(columns, n)
        down, across = rounded_up(m / rows), rounded_up(n / columns)
        # tiles at work at once form a rectangle: each of its sides is read once, the rest of an operand again
        high = smaller(down, root(units * columns / rows))
        wide = smaller(across, larger(1.0, units / larger(high, 1.0)))
        high = smaller(down, larger(1.0, units / wide))
        far, wider, higher = misses, above(across, wide), above(down, high)
        if wider:
            read = hit_share(inputs + wide * columns * k * form[WEIGHT_BYTES], room)
            far = chosen(wider, far + inputs * (across / wide - 1.0) * (1.0 - read), far)
        if higher:
            read = hit_share(weights + high * rows * k * form[IN_BYTES], room)
            far = chosen(higher, far + weights * (down / high - 1.0) * (1.0 - read), far)
        tiles = g * down * across
        split = alike(tiles, 1.0)
        for turn in range(3):  # whole, then as many parts of k as fill the units once, or twice
            lacking = excess
            if turn > 0:
                split = larger(smaller(rounded_down(turn * units / tiles), limit), 1.0)
                lacking |= above(2.0, split)
                if lacking == FULL:
                    continue
            deep = rounded_up(k / split / _DEEP) * _DEEP
            waves = rounded_up(tiles * split / units)
            row = menu[count]
            write(row, _COMPUTE, chosen(lacking, alike(waves, np.inf), waves * 2.0 * rows * columns * deep))
            write(row, _FEEDS, waves * (rows * form[IN_BYTES] + columns * form[WEIGHT_BYTES]) * deep)
            write(row, _WIDENS, waves * columns * deep)
            write(row, _DEEPS, deep)
            write(row, _STORES, waves * rows * columns * form[OUT_BYTES])
            write(row, _JOINS, alike(split, _JOIN if turn > 0 else 0.0))
            write(row, _PARTS, split * g * m * n * 8.0 if turn > 0 else alike(split, 0.0))
            write(row, _FAR, far)
            count += 1
    return count


@kernel
def thin(menu, count):
    """Leaves out of a menu what takes no less of anything than a way before it, so never wins; how many stay."""
    size = 0
    for c in range(count):
        better = False
        for d in range(size):
            col = 0
            while col < len(MENU) and menu[d, col] <= menu[c, col]:
                col += 1
            if col == len(MENU):
                better = True
                break
        if not better:
            for col in range(len(MENU)):
                menu[size, col] = menu[c, col]
            size += 1
    return size


@kernel
def follow(block, machine, form, row, places):
    """Fills the rows `RATES` from ``row`` on, of parts and a format whose rows begin at ``machine`` and ``form``."""
    for at in range(0, places, LANES):
        part, of = (
            loads(block, machine * STRIDE + at, STRIDE, _MACHINE),
            loads(block, form * STRIDE + at, STRIDE, _FORMAT),
        )
        bus, units, feed = part[S.BANDWIDTH] * part[S.DRAM_SHARE], part[S.UNITS], part[S.FEED]
        computes, steps = of[FLOP_S] * units, (part[S.STEP], 1.0 / part[S.STORE], part[S.START])
        rates = bus, computes, 1.0 / feed, of[WIDEN_S], 1.0 / bus, *steps, 1.0 / (units * feed), of[DRAW_S]
        for r in range(RATES):
            store(block, (row + r) * STRIDE + at, rates[r])


@kernel
def _terms(way, flops, rates, draw4):
    """Of a way on the menu, of as many lanes as ``flops``: seconds computing, being fed and of DRAM, the fourth power
    of what they overlap in with a power limit's, and seconds that do not overlap."""
    _, computes, per_fed, widen_s, per_bus, step, per_stored, start, per_joined, _ = rates
    compute, dram = entry(flops, way, _COMPUTE) * computes, entry(flops, way, _FAR) * per_bus
    feed = entry(flops, way, _FEEDS) * per_fed + entry(flops, way, _WIDENS) * widen_s
    tail = entry(flops, way, _DEEPS) * step + entry(flops, way, _STORES) * per_stored
    tail = tail + (entry(flops, way, _JOINS) * start + entry(flops, way, _PARTS) * per_joined)
    a, b, c = compute * compute, feed * feed, dram * dram
    return compute, feed, dram, a * a + b * b + c * c + draw4, tail


@kernel
def spans(block, places, row, ends):
    """The least and the largest rates of every `SPAN` parts of a block: fills ``ends`` (2, RATES * LANES)."""
    rates = np.empty(RATES * LANES)
    for at in range(0, places, LANES):
        values = loads(block, row * STRIDE + at, STRIDE, RATES)
        for r in range(RATES):
            store(rates, r * LANES, values[r])
            low = high = rates[r * LANES]
            for lane in range(1, LANES):
                low, high = min(low, rates[r * LANES + lane]), max(high, rates[r * LANES + lane])
            to = r * LANES + at // SPAN
            ends[0, to] = min(low, ends[0, to]) if at % SPAN else low
            ends[1, to] = max(high, ends[1, to]) if at % SPAN else high


@kernel
def in_question(menu, count, flops, ends, bits, guess, ways):
    """Ways on a menu that may be the fastest at some part of `spans`: fills ``ways`` (WAYS, 2), returns how many.

    Of each its place on the menu and a bit for each of the ``bits`` spans where its least time is no more than what
    the ``guess`` takes at most: at higher rates no term takes less.
    """
    low, high, size = loads(ends[0], 0, LANES, RATES), loads(ends[1], 0, LANES, RATES), 0
    draw, high_draw = flops * low[_AT_LIMIT], flops * high[_AT_LIMIT]
    draw, high_draw = draw * draw, high_draw * high_draw
    _, _, _, fourth, tail = _terms(menu[guess], flops, high, high_draw * high_draw)
    limit = (root(root(fourth)) + tail) * SLACK
    for c in range(count):
        _, _, _, fourth, tail = _terms(menu[c], flops, low, draw * draw)
        margin = limit - tail
        room = margin * margin
        beaten = above(0.0, margin) | above(fourth, room * room)
        if bits & ~beaten:
            ways[size, 0], ways[size, 1] = c, bits & ~beaten
            size += 1
    return size


@kernel
def best_of(menu, count, flops, block, at, row, ways, span, fastest):
    """The fastest way on a menu at the `LANES` parts from a place of ``block`` on; fills ``fastest`` (RESULTS * LANES).

    The menu is one for all of them or has as many lanes, as ``flops`` has. Tried are ``count`` of ``ways``, as
    `in_question` has them, that have the bit ``span``; `RATES` begin at ``row``.

    Found: seconds that compute and streams overlap in, seconds behind them, bytes of DRAM, and what of `slots.REGIMES`
    is the largest term. Of equal ways the first. Returns the way that the first part takes. Estimate.
    """
    rates = loads(block, row * STRIDE + at, STRIDE, RATES)
    draw = flops * rates[_AT_LIMIT]
    draw4 = draw * draw
    draw4 = draw4 * draw4
    best, way = spread(np.inf), 0
    for i in range(count):
        c = ways[i, 0]
        if ways[i, 1] & span == 0:
            continue
        compute, feed, dram, fourth, tail = _terms(menu[c], flops, rates, draw4)
        margin = best * SLACK - tail  # first whether it may be the best at all, without a root
        room = margin * margin
        if at_least(margin, 0.0) & at_least(room * room, fourth) == 0:
            continue
        busy = root(root(fourth))
        total = busy + tail
        better = above(best, total)
        if better == 0:
            continue
        if better & 1:
            way = c
        best = smaller(best, total)
        index = regime(compute, feed, dram, draw, 0.0)
        store(fastest, BUSY_S * LANES, chosen(better, busy, load(fastest, BUSY_S * LANES)))
        store(fastest, REST_S * LANES, chosen(better, tail, load(fastest, REST_S * LANES)))
        store(fastest, MISSED * LANES, chosen(better, entry(flops, menu[c], _FAR), load(fastest, MISSED * LANES)))
        store(fastest, LARGEST * LANES, chosen(better, index, load(fastest, LARGEST * LANES)))
    return way


@kernel
def product_seconds(m, n, k, layers, machine, form, block, menu, ways, best, out):
    """Seconds of one layer ``(m, k) x (k, n)`` when ``layers`` of them with other weights run in turn; fills ``out``.

    ``layers`` of 0 means that weights come from DRAM. `slots` names what ``machine`` and ``out`` hold; ``block`` has
    `LANES` of the part, then of the format, then `RATES`. Estimate.
    """
    weights, inputs, outputs = n * k * form[WEIGHT_BYTES], m * k * form[IN_BYTES], m * n * form[OUT_BYTES]
    room = machine[S.L2_SHARE] * machine[S.L2]
    hit = 0.0 if layers == 0.0 else hit_share(layers * weights + inputs + outputs, room)
    misses = (inputs + outputs) * (1.0 - hit_share(inputs + weights + outputs, room))
    count = menu_of(1.0, m, n, k, inputs, weights, misses, hit, machine, form, menu)
    best_of(menu, count, 2.0 * m * n * k, block, 0, _MACHINE + _FORMAT, ways, FULL, best)
    busy, tail = best[BUSY_S * LANES], best[REST_S * LANES]
    quantise = form[QUANTISE_S] + 2.0 * m * k * form[QUANTISE_BYTE_S]
    total = busy + tail + machine[S.START] + quantise
    if layers == 0.0:  # inputs and results may still be in the L2
        roof = weights + max(inputs + outputs - machine[S.L2], 0.0)
    else:
        roof = max(layers * weights + inputs + outputs - machine[S.L2], 0.0) / layers
    roof /= machine[S.BANDWIDTH]
    arithmetic = 2.0 * m * n * k * form[FLOP_S]
    index = best[LARGEST * LANES] if busy > tail + machine[S.START] + quantise else 0.0
    answer(total, index, arithmetic, roof, out)


@kernel
def all_ways():
    """Every way on a menu as `in_question` has them: all to be tried everywhere."""
    ways = np.full((WAYS, 2), FULL)
    for way in range(WAYS):  # an array put into a part of another compiles the sentence about shapes that do not fit
        ways[way, 0] = way
    return ways


@kernel
def product_rows(lo, hi, m, n, k, layers, machine, form, out):
    """`product_seconds` of the rows lo..hi; ``out`` is (rows, `slots.ANSWER`)."""
    rows, ways = _MACHINE + _FORMAT, all_ways()
    block, menu, best = np.empty((rows + RATES) * STRIDE), np.empty((WAYS, len(MENU))), np.empty(RESULTS * LANES)
    for lane in range(LANES):
        for r in range(rows):
            block[r * STRIDE + lane] = machine[r] if r < _MACHINE else form[r - _MACHINE]
    follow(block, 0, _MACHINE, rows, LANES)
    for i in range(lo, hi):
        product_seconds(m[i], n[i], k[i], layers[i], machine, form, block, menu, ways, best, out[i])
