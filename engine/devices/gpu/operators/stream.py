"""Operators that read and write once: norms, activations, sums, look-ups, quantising, recurrences. Estimates."""

from __future__ import annotations

from engine.devices.gpu.operators import slots as S
from engine.devices.gpu.operators.terms import hit_share
from engine.kernels.ir.doubles import above, larger
from engine.kernels.jit import kernel

# the kind's three constants: seconds of its start, share of the DRAM bandwidth, bytes a second one unit moves (of a
# recurrence: seconds an element of its state)
FORMAT = ("start", "share", "rate")
START, SHARE, RATE = range(3)


@kernel
def stream_seconds(moved, machine, form, out):
    """Seconds of an operator that moves ``moved`` bytes, the same ones in every replay; fills ``out``. Estimate."""
    missed = 1.0 - hit_share(moved, 2.0 * machine[S.L2_SHARE] * machine[S.L2])
    dram = moved * missed / (machine[S.BANDWIDTH] * form[SHARE])
    chip = moved / (machine[S.UNITS] * form[RATE])
    busy = max(dram, chip)
    out[S.BOUND] = max(moved - 2.0 * machine[S.L2], 0.0) / machine[S.BANDWIDTH]
    out[S.BOUND_BY] = S.MEMORY
    out[S.SECONDS] = max(busy + form[START], out[S.BOUND])
    out[S.REGIME] = S.AT_START if form[START] >= busy else S.AT_MEMORY if dram >= chip else S.AT_CHIP


@kernel
def seconds_of(moved, l2, l2_share, bandwidth, units, start, share, rate):
    """`stream_seconds` at `LANES` parts with an L2 alike, and in which of them it is bound by what a unit moves."""
    missed = 1.0 - hit_share(moved, 2.0 * l2_share * l2)
    dram, chip = moved * missed / (bandwidth * share), moved / (units * rate)
    busy = larger(dram, chip)
    bound = larger(moved - 2.0 * l2, 0.0) / bandwidth
    return larger(busy + start, bound), above(busy, start) & above(chip, dram)


@kernel
def stream_rows(lo, hi, moved, machine, form, out):
    """`stream_seconds` of the rows lo..hi; ``out`` is (rows, `slots.ANSWER`)."""
    for i in range(lo, hi):
        stream_seconds(moved[i], machine, form, out[i])


@kernel
def recurrent_seconds(moved, state, machine, form, out):
    """Seconds of a recurrence that moves ``moved`` bytes, the same in every replay, and touches ``state`` elements.

    Fills ``out``. An estimate.
    """
    near = hit_share(moved, 2.0 * machine[S.L2_SHARE] * machine[S.L2])
    dram = moved * (1.0 - near) / (machine[S.BANDWIDTH] * form[SHARE])
    onchip = state * form[RATE] + moved * near / (machine[S.UNITS] * machine[S.FEED])
    out[S.BOUND] = max(moved - 2.0 * machine[S.L2], 0.0) / machine[S.BANDWIDTH]
    out[S.BOUND_BY] = S.MEMORY
    out[S.SECONDS] = max(dram + onchip + form[START], out[S.BOUND])
    out[S.REGIME] = S.AT_START if form[START] >= max(dram, onchip) else S.AT_MEMORY if dram >= onchip else S.AT_CHIP


@kernel
def recurrent_rows(lo, hi, moved, state, machine, form, out):
    """`recurrent_seconds` of the rows lo..hi; ``out`` is (rows, `slots.ANSWER`)."""
    for i in range(lo, hi):
        recurrent_seconds(moved[i], state[i], machine, form, out[i])
