"""Attention on a GPU: tiles of flash attention over a whole prompt, split key-value streams for one token. Estimates.

A prompt's tiles multiply at a share of the tensor peak and take an exponential a score; causal masks and windows leave
out what no query sees, to the tile. A token's query heads read their cache in blocks that stream at what their bytes in
flight allow, more blocks a sequence where batch and heads are few, and then join.
"""

from __future__ import annotations

import numpy as np

from engine.devices.gpu.operators.slots import (
    AT_CHIP,
    AT_COMPUTE,
    AT_MEMORY,
    AT_START,
    BANDWIDTH,
    BLOCK,
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
    SOFTMAX,
    START_S,
    STREAM,
    UNITS,
)
from engine.devices.gpu.operators.slots import START as GAP
from engine.devices.gpu.operators.terms import hit_share, overlapped
from engine.kernels.jit import kernel

PARTS = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0])
"""Blocks a sequence's cache is cut into."""
_LEAST_PART = 128.0  # tokens a block keeps; the latency of its first ones is that of its start
_ROWS = 16.0  # query heads a matrix instruction takes at once; fewer leave it idle
_THIN, _THICK = 0.12, 0.7  # shares of the tensor peak with one such instruction's rows, and with many
_TILE = 128.0  # queries a tile of a prompt has
_RESULT_BYTES = 4.0  # a partial result is kept in 32 bits

# a format on a part: seconds a tensor FLOP, bytes a cached or passed element, the kind's three constants, the group
# of query heads above which a runtime's kernel reads the cache once a head, the parts it cuts a cache into at most
# where several query heads share it and where one has it alone, and the blocks that run on a unit at once
FORMAT = ("flop_s", "bytes", "start", "second", "third", "most_group", "most_parts", "most_alone", "resident")
FLOP_S, BYTES, START, SECOND, THIRD, MOST_GROUP, MOST_PARTS, MOST_ALONE, RESIDENT = range(9)


@kernel
def decode_seconds(batch, tokens, heads, kv_heads, row, pair_flops, cold, machine, form, out):
    """Seconds of one new token's attention over ``tokens`` cached ones; fills ``out``. Estimate.

    ``row`` [elements] is what a cached token holds a KV head, ``pair_flops`` what a query head computes with it.
    """
    units = machine[UNITS]
    row_bytes = row * form[BYTES]
    cached = batch * tokens * kv_heads * row_bytes
    group = heads / kv_heads
    kept = 0.0 if cold else hit_share(cached, machine[L2_SHARE] * machine[L2])
    dram = cached * (1.0 - kept) / (machine[BANDWIDTH] * machine[STREAM])
    again, lanes = 1.0, kv_heads * np.ceil(group / 64.0)
    if group > form[MOST_GROUP]:  # one block a query head, each reading keys and values apart
        again, lanes = 2.0 * group, heads
    chip = cached * again / (units * machine[FEED])
    rows = max(_ROWS / _THIN, group / _THICK)
    arithmetic = batch * kv_heads * rows * tokens * pair_flops * form[FLOP_S]
    most = min(form[MOST_PARTS if group > 1.0 else MOST_ALONE], max(1.0, tokens / _LEAST_PART))
    best, which = np.inf, 0
    for i in range(PARTS.shape[0]):
        parts = min(PARTS[i], most)
        if i > 0 and PARTS[i - 1] >= most:
            break
        blocks = batch * lanes * parts
        turns = blocks / (units * form[RESIDENT])
        turns = max(1.0, turns) if form[RESIDENT] > 1.0 else np.ceil(turns)
        chain = turns * max(tokens / parts - _LEAST_PART, 0.0) * row_bytes / form[THIRD]
        chain += max(0.0, blocks / units - 1.0) * form[SECOND]
        rest = 0.0
        if parts > 1.0:
            rest += 2.0 * machine[GAP] + parts * batch * heads * row * _RESULT_BYTES / (units * machine[FEED])
        found = overlapped(chain, dram, chip, arithmetic) + rest
        if found < best:
            best = found
            top = max(chain, dram, chip, arithmetic)
            which = AT_MEMORY if top == dram else AT_COMPUTE if top == arithmetic else AT_CHIP
            if rest + form[START] > top:
                which = AT_START
    compute = batch * heads * tokens * pair_flops * form[FLOP_S]
    memory = max(cached - (0.0 if cold else machine[L2]), 0.0) / machine[BANDWIDTH]
    out[BOUND] = max(compute, memory)
    out[BOUND_BY] = COMPUTE if compute >= memory else MEMORY
    out[SECONDS] = max(best + form[START], out[BOUND])
    out[START_S] = form[START]
    out[REGIME] = which


@kernel
def seen_pairs(length, window, causal):
    """Pairs of a query and a key it sees, of one head of one prompt; a window of 0 sees all before. [-]"""
    if not causal:
        return length * length
    if window <= 0.0 or window >= length:
        return length * (length + 1.0) / 2.0
    return window * (window + 1.0) / 2.0 + (length - window) * window


@kernel
def seen_by(length, context, window, causal):
    """Pairs of the last ``length`` of ``context`` tokens and the keys they see, or of all keys where not causal. [-]"""
    if not causal:
        return length * context
    before = max(context - length, 0.0)
    if window > 0.0:
        before = min(before, window)
    return seen_pairs(length, window, causal) + length * before


@kernel
def prompt_seconds(batch, length, context, heads, kv_heads, qk, v, window, causal, machine, form, out):
    """Seconds of attention of the last ``length`` of ``context`` tokens, where causal, or of all keys; fills ``out``.

    A window of 0 sees all before. Estimate.
    """
    units = machine[UNITS]
    exact = seen_by(length, context, window, causal)
    tiled = (exact + length * _TILE / 2.0) if causal else length * np.ceil(context / _TILE) * _TILE
    if length < _TILE:
        tiled *= _TILE / length  # the tile is full all the same
    pair = 2.0 * (qk + v) * units * form[FLOP_S] / form[SECOND] + 1.0 / machine[SOFTMAX]
    work = batch * heads * tiled * pair
    keys = min(context, window + _TILE) if window > 0.0 and causal else context
    longest = _TILE * keys * pair
    waves = batch * heads * np.ceil(length / _TILE) / units
    if waves <= 1.0:
        busy = max(work / units, longest)
    else:  # long tiles first; a last wave is half full, causal, or as full as it comes
        busy = work / units + longest * (0.5 if causal else np.ceil(waves) - waves)
    rows = batch * (length * heads + max(length, keys) * kv_heads) * (qk + v)
    moved = rows * 2.0 * form[THIRD]
    near = hit_share(moved, 2.0 * machine[L2])
    passing = moved * ((1.0 - near) / (machine[BANDWIDTH] * machine[DRAM_SHARE]) + near / (units * machine[FEED]))
    compute = batch * heads * exact * 2.0 * (qk + v) * form[FLOP_S]
    memory = max(rows * form[BYTES] - machine[L2], 0.0) / machine[BANDWIDTH]
    out[BOUND] = max(compute, memory)
    out[BOUND_BY] = COMPUTE if compute >= memory else MEMORY
    filling = max(0.0, waves - 1.0) * machine[BLOCK]
    out[SECONDS] = max(busy + filling + passing + form[START], out[BOUND])
    out[START_S] = form[START]
    most = max(busy, passing, form[START])
    out[REGIME] = AT_START if most == form[START] else AT_COMPUTE if most == busy else AT_MEMORY


@kernel
def prefill_seconds(batch, length, heads, kv_heads, qk, v, window, causal, machine, form, out):
    """Seconds of attention over fresh prompts, queries and keys ``qk`` wide, values ``v``; fills ``out``. Estimate."""
    prompt_seconds(batch, length, length, heads, kv_heads, qk, v, window, causal, machine, form, out)


@kernel
def decode_rows(lo, hi, batch, tokens, heads, kv_heads, row, pair_flops, cold, machine, form, out):
    """`decode_seconds` of the rows lo..hi; ``out`` is (rows, `slots.ANSWER`)."""
    for i in range(lo, hi):
        decode_seconds(batch[i], tokens[i], heads[i], kv_heads[i], row[i], pair_flops[i], cold, machine, form, out[i])


@kernel
def prefill_rows(lo, hi, batch, length, heads, kv_heads, qk, v, window, causal, machine, form, out):
    """`prefill_seconds` of the rows lo..hi; ``out`` is (rows, `slots.ANSWER`)."""
    for i in range(lo, hi):
        prefill_seconds(
            batch[i], length[i], heads[i], kv_heads[i], qk[i], v[i], window[i], causal, machine, form, out[i]
        )
