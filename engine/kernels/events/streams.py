"""Arrival instants of point processes, one kernel each: key and parameters in, increasing times out. [s]"""

import math

import numpy as np

from engine.kernels.events.rng import fill_exponential, gamma_at, uniform
from engine.kernels.jit import kernel

_BLOCK = 512  # gaps drawn at a time, small enough to stay in the first-level cache


@kernel
def poisson_times(key, rate, out):
    """Poisson process of ``rate`` [1/s]: sums of independent exponential gaps."""
    t = 0.0
    mean_gap = 1.0 / rate
    gaps = np.empty(_BLOCK)
    for first in range(0, out.shape[0], _BLOCK):
        fill_exponential(key, first, gaps)
        for i in range(first, min(first + _BLOCK, out.shape[0])):
            t += gaps[i - first] * mean_gap
            out[i] = t


@kernel
def gamma_times(key, rate, shape, out):
    """Renewal process of ``rate`` [1/s] with gamma gaps of coefficient of variation shape^-1/2."""
    t = 0.0
    scale = 1.0 / (rate * shape)
    for i in range(out.shape[0]):
        t += gamma_at(key, i, shape) * scale
        out[i] = t


@kernel
def mmpp_times(key, rate_a, rate_b, leave_a, leave_b, out):
    """Poisson process whose rate [1/s] switches between two states at exponential instants.

    The state seen at time 0 is drawn from the stationary distribution. Each step draws the time to the next
    arrival or switch, whichever is first (competing exponentials).
    """
    in_a = uniform(key, 0) * (leave_a + leave_b) < leave_b
    t = 0.0
    draw = 1
    i = 0
    while i < out.shape[0]:
        rate = rate_a if in_a else rate_b
        leave = leave_a if in_a else leave_b
        t -= math.log(uniform(key, draw)) / (rate + leave)
        if uniform(key, draw + 1) * (rate + leave) < rate:
            out[i] = t
            i += 1
        else:
            in_a = not in_a
        draw += 2
