"""Terms that the operator models share: what stays in the L2, and how overlapped terms add up."""

from __future__ import annotations

from engine.devices.gpu.operators.slots import AT_CHIP, AT_COMPUTE, AT_MEMORY, AT_POWER, AT_START
from engine.kernels.jit import kernel


@kernel
def hit_share(footprint, capacity):
    """Share of a cyclic sweep over ``footprint`` bytes that a cache of ``capacity`` bytes still holds. [-]

    Replacement that is nearly least-recently-used loses all of a sweep a little larger than itself, none of a smaller:
    the 24th power of how full it is puts 88% at 8% below the capacity, 14% at 8% above.
    """
    full = footprint / capacity
    third = full * full * full
    eighth = third * third
    eighth *= eighth
    return 1.0 / (1.0 + eighth * eighth)


@kernel
def overlapped(a, b, c, d, power):
    """Seconds of four streams of work that overlap: their ``power`` norm, the largest one where it is infinite. [s]"""
    most = max(a, b, c, d)
    if most <= 0.0:
        return 0.0
    total = (a / most) ** power + (b / most) ** power + (c / most) ** power + (d / most) ** power
    return most * total ** (1.0 / power)


@kernel
def regime(compute, chip, dram, draw, rest):
    """Which term is largest: the index of `slots.REGIMES`."""
    most = max(compute, chip, dram, draw)
    if rest > most:
        return AT_START
    if compute == most:
        return AT_COMPUTE
    if dram == most:
        return AT_MEMORY
    return AT_POWER if draw == most else AT_CHIP
