"""Attention on a GPU: tiles of flash attention over a whole prompt, split key-value streams for one token. Estimates.

A prompt's tiles multiply at a share of the tensor peak and take an exponential a score; causal masks and windows leave
out what no query sees, to the tile. A token's query heads read their cache in blocks that stream at what their bytes in
flight allow, more blocks a sequence where batch and heads are few, and then join.
"""

import numpy as np

from engine.devices.common.counts import in_chunks
from engine.devices.gpu.operators import slots as S
from engine.devices.gpu.operators.terms import answer, hit_share, overlap
from engine.kernels.ir.doubles import FULL, above, alike, at_least, chosen, larger, root, rounded_up, smaller
from engine.kernels.jit import kernel

PARTS = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0])
"""Blocks a sequence's cache is cut into."""
_LEAST_PART = 128.0  # tokens a block keeps; the latency of its first ones is that of its start
_ROWS = 16.0  # query heads a matrix instruction takes at once; fewer leave it idle
_THIN, _THICK = 0.12, 0.7  # shares of the tensor peak with one such instruction's rows, and with many
_RESULT_BYTES = 4.0  # a partial result is kept in 32 bits
_OWN_PART = 256.0  # what they keep where a query head has a block of its own, whose threads each take more of them
_WHOLE = 4.0  # blocks a sequence where none of them ends at a window: the root of its tokens over this, as measured ...
_MOST_WHOLE = 8.0  # ... and at most so many on a unit

# a format on a part: seconds a tensor FLOP, bytes a cached or passed element, the kind's start, seconds to fill a block
# behind another and bytes a second that a block takes, and those three of a kernel with a block for every query head;
# where that one runs: with more query heads a KV head than `most_group` or fewer than `least_group`, and where `apart`
# at a window; the parts a cache is cut into at most, by either; blocks that run on a unit at once, by either; query
# heads an instruction takes; seconds of copying queries and results where KV heads share a kernel; whether blocks are
# dealt over all of a cache whatever its window
FORMAT = (
    "flop_s", "bytes", "start", "filling", "flow", "own_start", "own_filling", "own_flow", "most_group",
    "least_group", "apart", "most_parts", "own_parts", "resident", "own_resident", "queries", "copied", "whole",
)  # fmt: skip
PROMPT = (*FORMAT[:3], "reached", "passes", "tile")
"""Of a prompt's kernel: share of the tensor peak it reaches, passes of its operands, and the queries of a tile."""
FLOP_S, BYTES, START, FILLING, FLOW, OWN_START, OWN_FILLING, OWN_FLOW, MOST_GROUP, LEAST_GROUP = range(10)
APART, MOST_PARTS, OWN_PARTS, RESIDENT, OWN_RESIDENT, QUERIES, COPIED, WHOLE = range(10, len(FORMAT))
REACHED, PASSES, TILE = range(3, len(PROMPT))


@kernel
def decode(batch, tokens, context, heads, kv_heads, row, pair_flops, cold, machine, form):
    """Attention of one new token over ``tokens`` of a ``context``: seconds, of it the start, regime, the two roofs. [s]

    ``row`` [elements] is what a cached token holds a KV head, ``pair_flops`` what a query head computes with it. Sizes
    and entries of ``machine`` and ``form`` are single doubles or `LANES` designs side by side. Estimate.
    """
    units = machine[S.UNITS]
    row_bytes = row * form[BYTES]
    kv_bytes = alike(units, batch * tokens * kv_heads * row_bytes)
    hit = kv_bytes * 0.0 if cold else hit_share(kv_bytes, machine[S.L2_SHARE] * machine[S.L2])
    dram = kv_bytes * (1.0 - hit) / (machine[S.BANDWIDTH] * machine[S.STREAM])
    group, kv_rows = alike(dram, heads / kv_heads), alike(dram, batch * kv_heads)
    window = above(alike(dram, context), alike(dram, tokens))
    apart = above(group, form[MOST_GROUP]) | above(form[LEAST_GROUP], group)
    apart |= window & above(alike(dram, form[APART]), 0.0)
    start = chosen(apart, alike(dram, form[OWN_START]), form[START])
    filling = chosen(apart, alike(dram, form[OWN_FILLING]), form[FILLING])
    flow = chosen(apart, alike(dram, form[OWN_FLOW]), form[FLOW] / larger(1.0, group / form[QUERIES]))
    resident = chosen(apart, alike(dram, form[OWN_RESIDENT]), form[RESIDENT])
    copies = ~apart & above(group, 1.0) & above(alike(dram, kv_heads), 1.0) & above(alike(dram, batch), 1.0)
    start = start + chosen(copies, alike(dram, form[COPIED]), 0.0)
    lanes = chosen(apart, alike(dram, heads), kv_heads * rounded_up(group / 64.0))
    chip = kv_bytes * chosen(apart, group, 1.0) / (units * machine[S.FEED])
    rows = larger(_ROWS / _THIN, group / _THICK)
    arithmetic = batch * kv_heads * rows * tokens * pair_flops * form[FLOP_S]
    limit = chosen(apart, alike(dram, form[OWN_PARTS]), form[MOST_PARTS])
    limit = smaller(limit, larger(1.0, tokens / chosen(apart, alike(dram, _OWN_PART), _LEAST_PART)))
    whole = window & ~apart & above(alike(dram, form[WHOLE]), 0.0)
    dealt = smaller(kv_rows * root(alike(dram, context)) / _WHOLE, _MOST_WHOLE * units)
    best, regime = alike(dram, np.inf), alike(dram, 0.0)
    for i in range(PARTS.shape[0]):
        if i > 0 and at_least(PARTS[i - 1], limit) == FULL:
            break
        parts = smaller(PARTS[i], limit)
        merge_s = 2.0 * machine[S.START] + parts * batch * heads * row * _RESULT_BYTES / (units * machine[S.FEED])
        tail = chosen(above(parts, 1.0), merge_s, 0.0)
        blocks = batch * lanes * parts
        turns = blocks / (units * resident)
        turns = chosen(apart | above(resident, 1.0), larger(1.0, turns), rounded_up(turns))
        chain = turns * larger(tokens / parts - _LEAST_PART, 0.0) * row_bytes / flow
        chain = chain + larger(0.0, chosen(whole, larger(dealt, blocks), blocks) / units - 1.0) * filling
        seconds = overlap(chain, dram, chip, arithmetic) + tail
        better = above(best, seconds)
        best = smaller(best, seconds)
        top = larger(larger(chain, dram), larger(chip, arithmetic))
        term = chosen(at_least(arithmetic, top), alike(top, float(S.AT_COMPUTE)), float(S.AT_CHIP))
        term = chosen(at_least(dram, top), float(S.AT_MEMORY), term)
        regime = chosen(better, chosen(above(tail + start, top), float(S.AT_START), term), regime)
    compute = batch * heads * tokens * pair_flops * form[FLOP_S]
    memory = larger(kv_bytes if cold else kv_bytes - machine[S.L2], 0.0) / machine[S.BANDWIDTH]
    return larger(best + start, larger(compute, memory)), start, regime, compute, memory


@kernel
def _pairs(tokens, window, anew):
    """Pairs of a sequence's first ``tokens`` and the keys they see. [-]"""
    whole = tokens * (tokens + 1.0) / 2.0
    if anew:
        part = in_chunks(tokens, larger(window, 1.0))
    else:
        part = window * (window + 1.0) / 2.0 + (tokens - window) * window
    return chosen(above(window, 0.0) & above(tokens, window), part, whole)


@kernel
def seen_by(length, context, window, anew, causal):
    """Pairs of the last ``length`` of ``context`` tokens and the keys they see, or of all keys where not causal. [-]"""
    if not causal:
        return length * context
    return _pairs(context, window, anew) - _pairs(larger(context - length, 0.0), window, anew)


@kernel
def prefill(batch, length, context, heads, kv_heads, qk, v, window, anew, causal, way, machine, form):
    """Attention of the last ``length`` of ``context`` tokens, where causal, or of all keys: what `decode` gives.

    A window of 0 sees all before; where it begins ``anew`` it is a chunk. ``way`` tells of its kernel whether it packs:
    fills a tile that queries of one head do not with those of other heads of their KV head; and whether its keys and
    values lie in pages: those alone cross the memory again, as its queries come rotated. Estimate.
    """
    packs, paged = way
    units, start, tile = machine[S.UNITS], form[START], form[TILE]
    length, context = alike(tile, length), alike(tile, context)
    exact = alike(tile, seen_by(length, context, window, anew, causal))
    if causal:  # half a tile at the diagonal sees what it may not, and where a window ends the other half
        ends = chosen(above(alike(tile, window), 0.0), smaller(larger(context - window, 0.0) / tile, 1.0), 0.0 * tile)
        pairs = exact + (1.0 + ends) * length * tile / 2.0
    else:
        pairs = length * rounded_up(context / tile) * tile
    tiles, lone = heads * rounded_up(length / tile), above(tile, length)
    if packs:
        tiles = chosen(lone, smaller(tiles, kv_heads * rounded_up(length * heads / kv_heads / tile)), tiles)
    pairs = chosen(lone, pairs * (tiles * tile / (length * heads)), pairs)  # a tile is full all the same
    pair = 2.0 * (qk + v) * units * form[FLOP_S] / form[REACHED] + 1.0 / machine[S.SOFTMAX]
    work = batch * heads * pairs * pair
    keys = chosen(above(alike(tile, window), 0.0), smaller(context, window + tile), context) if causal else context
    longest = tile * keys * pair
    waves = batch * tiles / units
    # long tiles first; a last wave is half full, causal, or as full as it comes
    last = alike(waves, 0.5) if causal else rounded_up(waves) - waves
    busy = chosen(at_least(1.0, waves), larger(work / units, longest), work / units + longest * last)
    q_rows, kv_rows = batch * length * heads * (qk + v), batch * larger(length, keys) * kv_heads * (qk + v)
    rows = q_rows + kv_rows
    traffic = 2.0 * (q_rows + kv_rows * form[PASSES] if paged else rows * form[PASSES])
    near = hit_share(rows * 2.0, machine[S.L2_SHARE] * machine[S.L2])
    passing = traffic * (
        (1.0 - near) / (machine[S.BANDWIDTH] * machine[S.DRAM_SHARE]) + near / (units * machine[S.STORE])
    )
    compute = batch * heads * exact * 2.0 * (qk + v) * form[FLOP_S]
    memory = larger(rows * form[BYTES] - machine[S.L2], 0.0) / machine[S.BANDWIDTH]
    filling = larger(0.0, waves - 1.0) * machine[S.BLOCK]
    seconds = larger(busy + filling + passing + start, larger(compute, memory))
    slowest = larger(larger(busy, passing), start)
    regime = chosen(at_least(busy, slowest), alike(slowest, float(S.AT_COMPUTE)), float(S.AT_MEMORY))
    return seconds, start, chosen(at_least(start, slowest), float(S.AT_START), regime), compute, memory


@kernel
def decode_rows(lo, hi, sizes, cold, machine, form, out):
    """`decode` of the rows lo..hi, whose ``sizes`` are columns in its order; ``out`` is (rows, `slots.ANSWER`)."""
    batch, tokens, context, heads, kv_heads, row, flops = sizes
    for i in range(lo, hi):
        size = batch[i], tokens[i], context[i], heads[i], kv_heads[i], row[i], flops[i]
        seconds, _, regime, compute, memory = decode(*size, cold, machine, form)
        answer(seconds, regime, compute, memory, out[i])


@kernel
def prefill_rows(lo, hi, sizes, causal, way, machine, form, out):
    """`prefill` of the rows lo..hi over fresh prompts: batch, length, heads, KV heads, two widths and windows."""
    batch, length, heads, kv_heads, qk, v, window = sizes
    for i in range(lo, hi):
        size = batch[i], length[i], length[i], heads[i], kv_heads[i], qk[i], v[i], window[i]
        seconds, _, regime, compute, memory = prefill(*size, False, causal, way, machine, form)
        answer(seconds, regime, compute, memory, out[i])
