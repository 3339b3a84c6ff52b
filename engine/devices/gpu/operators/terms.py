"""Terms that the operator models share: what stays in the L2, and how overlapped terms add up.

Each takes single doubles and `LANES` of them side by side.
"""

from engine.devices.gpu.operators import slots as S
from engine.kernels.ir.doubles import above, alike, at_least, chosen, larger, root
from engine.kernels.jit import kernel

SLACK = 1.0 + 1e-11
"""What a bound that must hold after rounding is taken longer by."""


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
def left_share(output, passing, capacity):
    """Share of ``output`` bytes that their reader still finds while ``passing`` ones pass beside them. [-]

    Between the writing of a byte and its reading lie the bytes written after it, those read before it, and its share of
    the others: all that was made, and more the later it is read. What a capacity below all of both holds is a part.
    """
    part = chosen(above(passing, 0.0), larger((capacity - output) / passing, 0.0), 0.0)
    return chosen(at_least(capacity, output + passing), alike(part, 1.0), part)


@kernel
def overlap(a, b, c, d):
    """Seconds of four streams of work that overlap: their fourth-power norm, 1.19 times two that are equal. [s]"""
    a, b, c, d = a * a, b * b, c * c, d * d
    return root(root(a * a + b * b + c * c + d * d))


@kernel
def regime(compute, chip, dram, draw, tail):
    """Which term is largest, of what overlaps or what follows it: the index of `slots.REGIMES`."""
    top = larger(larger(compute, chip), larger(dram, draw))
    index = chosen(at_least(draw, top), alike(top, float(S.AT_POWER)), float(S.AT_CHIP))
    index = chosen(at_least(dram, top), float(S.AT_MEMORY), index)
    index = chosen(at_least(compute, top), float(S.AT_COMPUTE), index)
    return chosen(above(tail, top), float(S.AT_START), index)


@kernel
def answer(seconds, index, compute, memory, out):
    """Fills ``out`` (`slots.ANSWER`) with the seconds of an operator, at least its roofs, and what sets them. [s]"""
    out[S.BOUND] = max(compute, memory)
    out[S.BOUND_BY] = S.COMPUTE if compute > memory else S.MEMORY
    out[S.SECONDS] = max(seconds, out[S.BOUND])
    out[S.REGIME] = index
