"""Operators that read and write once: norms, activations, sums, look-ups, quantising, recurrences. Estimates."""

from engine.devices.gpu.operators import slots as S
from engine.devices.gpu.operators.terms import answer, hit_share
from engine.kernels.ir.doubles import larger
from engine.kernels.jit import kernel

# the kind's three constants: seconds of its start, share of the DRAM bandwidth, bytes a second one unit moves (of a
# recurrence: seconds an element of its state)
FORMAT = ("start", "share", "rate")
START, SHARE, RATE = range(3)


@kernel
def terms_of(traffic, l2, l2_share, bandwidth, units, share, rate):
    """Seconds in DRAM and on the chip of ``traffic`` bytes, the same in every replay; single doubles or `LANES`."""
    misses = 1.0 - hit_share(traffic, 2.0 * l2_share * l2)
    return traffic * misses / (bandwidth * share), traffic / (units * rate)


@kernel
def bound_of(traffic, l2, bandwidth):
    """Seconds in which DRAM moves what an L2 does not hold of so many bytes. [s] A bound."""
    return larger(traffic - 2.0 * l2, 0.0) / bandwidth


@kernel
def _fill_answer(traffic, dram, chip, busy, machine, form, out):
    """Fills ``out`` of an operator that is ``busy`` for so long. Estimate."""
    regime = S.AT_MEMORY if dram >= chip else S.AT_CHIP
    regime = S.AT_START if form[START] >= max(dram, chip) else regime
    answer(busy + form[START], regime, 0.0, bound_of(traffic, machine[S.L2], machine[S.BANDWIDTH]), out)


@kernel
def stream_rows(lo, hi, traffic, machine, form, out):
    """Answers to the rows lo..hi of operators that move so many bytes; ``out`` is (rows, `slots.ANSWER`)."""
    l2, l2_share, bandwidth, units = machine[S.L2], machine[S.L2_SHARE], machine[S.BANDWIDTH], machine[S.UNITS]
    for i in range(lo, hi):
        dram, chip = terms_of(traffic[i], l2, l2_share, bandwidth, units, form[SHARE], form[RATE])
        _fill_answer(traffic[i], dram, chip, max(dram, chip), machine, form, out[i])


@kernel
def recurrent_rows(lo, hi, traffic, state, machine, form, out):
    """Answers to the rows lo..hi of recurrences that move so many bytes and touch ``state`` elements; as above."""
    for i in range(lo, hi):
        near = hit_share(traffic[i], 2.0 * machine[S.L2_SHARE] * machine[S.L2])
        dram = traffic[i] * (1.0 - near) / (machine[S.BANDWIDTH] * form[SHARE])
        chip = state[i] * form[RATE] + traffic[i] * near / (machine[S.UNITS] * machine[S.FEED])
        _fill_answer(traffic[i], dram, chip, dram + chip, machine, form, out[i])
