"""Exact order statistics of many non-negative times, without sorting them."""

import numpy as np

from engine.kernels.jit import kernel

_BINS = 8192  # of one counting pass: the counters stay in the first-level cache


@kernel
def _range(bits):
    lo = bits[0]
    hi = bits[0]
    for i in range(bits.shape[0]):
        lo = min(lo, bits[i])
        hi = max(hi, bits[i])
    return lo, hi


@kernel
def _count(bits, lo, hi, counts):
    """Histogram of ``bits`` over equal ranges of a power-of-two width; returns the log2 of the width."""
    shift = 0
    while (hi - lo) >> shift >= _BINS:
        shift += 1
    counts[:] = 0
    for i in range(bits.shape[0]):
        counts[(bits[i] - lo) >> shift] += 1
    return shift


@kernel
def _narrow(bits, rank):
    """Entry ``rank`` of sorted ``bits`` and how many equal ones follow it: count, keep the bin that holds it, repeat.

    ``bits`` are overwritten.
    """
    counts = np.empty(_BINS, np.int64)
    while True:
        lo, hi = _range(bits)
        if lo == hi:
            return lo, bits.shape[0] - 1 - rank
        shift = _count(bits, lo, hi, counts)
        holds = 0
        while rank >= counts[holds]:
            rank -= counts[holds]
            holds += 1
        matches = 0
        for i in range(bits.shape[0]):
            if (bits[i] - lo) >> shift == holds:
                bits[matches] = bits[i]
                matches += 1
        bits = bits[:matches]


@kernel
def order_statistics(bits, ranks, out):
    """Entries ``ranks`` (increasing) of the sorted sample, into ``out``. Exact.

    ``bits`` are non-negative float64 seen as int64, which keeps their order; they are only read. Two passes over the
    sample, then work on the bins that hold a wanted entry.
    """
    lo, hi = _range(bits)
    counts = np.empty(_BINS, np.int64)
    shift = _count(bits, lo, hi, counts)
    wanted = np.full(_BINS, -1, np.int64)  # where the bin's entries go
    bin_of = np.empty(ranks.shape[0], np.int64)
    before = np.empty(ranks.shape[0], np.int64)
    room = 0
    below = 0
    b = 0
    for k in range(ranks.shape[0]):
        while ranks[k] >= below + counts[b]:
            below += counts[b]
            b += 1
        bin_of[k] = b
        before[k] = below
        if wanted[b] < 0:
            wanted[b] = room
            room += counts[b]
    candidates = np.empty(room, np.int64)
    for i in range(bits.shape[0]):
        b = (bits[i] - lo) >> shift
        if wanted[b] >= 0:
            candidates[wanted[b]] = bits[i]
            wanted[b] += 1
    through = np.int64(-1)  # last rank known to hold the value found last
    for k in range(ranks.shape[0]):
        if ranks[k] <= through:
            out[k] = out[k - 1]
            continue
        b = bin_of[k]
        end = wanted[b]
        out[k], equal = _narrow(candidates[end - counts[b] : end].copy(), ranks[k] - before[k])
        through = ranks[k] + equal
