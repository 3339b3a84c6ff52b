"""Activations and 8-bit codes of float32 arrays: exponential, sigmoid, tanh and GELU as numba can vectorise them.

PyPI wheels of numba have no vector math library, so ``np.exp`` in a loop is scalar; these are polynomials over
arithmetic, select and bit operations only, which LLVM turns into vectors. Relative error bounds are stated per function
and tested over the whole range.
"""

from typing import Literal, get_args

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.ranges import KernelError, output, over_range, real, require

FUSED = {"contract"}
"""A product and a sum may become one fused multiply-add: the only liberty the compiler gets here."""
_HIGH, _LOW = np.float32(88.0), np.float32(-87.0)
_LOG2E = np.float32(1.44269504088896341)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # Cody & Waite's split of ln 2
_ROUND = np.float32(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer held in the low mantissa bits
_E2, _E3, _E4 = np.float32(0.5), np.float32(1.6666665459e-1), np.float32(4.1665795894e-2)
_E5, _E6, _E7 = np.float32(8.3334519073e-3), np.float32(1.3981999507e-3), np.float32(1.9875691500e-4)
_ZERO, _HALF, _ONE, _TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
_BIAS, _MANTISSA = np.int32(127), np.int32(23)
_MAGIC = np.int32(0x4B400000)  # bits of _ROUND
_SQRT_2_OVER_PI, _CUBIC = np.float32(0.79788456080286536), np.float32(0.044715)
_SMALL = np.float32(0.25)
_P3, _P5, _P7 = np.float32(-1 / 3), np.float32(2 / 15), np.float32(-17 / 315)
_P9 = np.float32(62 / 2835)


@inner(fastmath=FUSED)
def exp_below32(x):
    """``exp(x)`` of a float32 of at most 88: relative error under 2e-7 down to -87, 0 below, NaN kept.

    Polynomial of Cephes ``expf`` on ``[-ln2/2, ln2/2]``, scaled by the power of two written into the exponent.
    """
    value = _LOW if x < _LOW else x
    magic = np.float32(value * _LOG2E + _ROUND)
    n = np.float32(magic - _ROUND)
    r = np.float32(np.float32(value - n * _LN2_HIGH) - n * _LN2_LOW)
    p = np.float32(_E7 * r + _E6)
    p = np.float32(p * r + _E5)
    p = np.float32(p * r + _E4)
    p = np.float32(p * r + _E3)
    p = np.float32(p * r + _E2)
    p = np.float32(p * r * r + r + _ONE)
    power = np.int32((np.int32(magic.view(np.int32) - _MAGIC) + _BIAS) << _MANTISSA).view(np.float32)
    return _ZERO if x < _LOW else np.float32(p * power)


@inner(fastmath=FUSED)
def exp32(x):
    """``exp(x)`` of a float32: relative error under 2e-7 on [-87, 88], clamped outside, 0 at -infinity, NaN kept."""
    return exp_below32(_HIGH if x > _HIGH else x)


@inner(fastmath=FUSED)
def sigmoid32(x):
    """``1 / (1 + exp(-x))`` of a float32: absolute error under 2e-7."""
    return np.float32(_ONE / np.float32(_ONE + exp32(np.float32(-x))))


@inner(fastmath=FUSED)
def tanh32(x):
    """``tanh(x)`` of a float32: absolute error under 3e-7; odd by construction, series below 1/4."""
    magnitude = np.float32(abs(x))
    square = np.float32(x * x)
    series = np.float32(_P9 * square + _P7)
    series = np.float32(series * square + _P5)
    series = np.float32(series * square + _P3)
    series = np.float32(magnitude * np.float32(series * square + _ONE))
    ratio = np.float32(_ONE - np.float32(_TWO / np.float32(_ONE + exp32(np.float32(_TWO * magnitude)))))
    value = series if magnitude < _SMALL else ratio
    return np.float32(-value) if x < _ZERO else value


@inner(fastmath=FUSED)
def gelu_tanh32(x):
    """The tanh form of GELU (document 004), float32: absolute error under 5e-7 * max(1, |x|) of that form."""
    inside = np.float32(_SQRT_2_OVER_PI * np.float32(x + np.float32(_CUBIC * np.float32(x * x)) * x))
    return np.float32(np.float32(_HALF * x) * np.float32(_ONE + tanh32(inside)))


GRAIN = 16384
"""Fewest elements worth a thread of their own. [elements]"""
STEP = 256
"""Chunks start at multiples of this, more than any unrolled vector loop takes at once. [elements]"""


Activation = Literal["relu", "sigmoid", "tanh", "gelu_tanh"]
_NAMES = get_args(Activation)


@kernel
def activate_range(lo, hi, place, x, out):
    """Elements ``[lo, hi)`` through the activation at that place of `Activation`; of a NaN a ReLU makes 0."""
    part, to = x[lo:hi], out[lo:hi]
    if place == 0:
        for i in range(part.size):
            to[i] = part[i] if part[i] > _ZERO else _ZERO
    elif place == 1:
        for i in range(part.size):
            to[i] = sigmoid32(part[i])
    elif place == 2:
        for i in range(part.size):
            to[i] = tanh32(part[i])
    else:
        for i in range(part.size):
            to[i] = gelu_tanh32(part[i])


def activate(
    x: np.ndarray, name: Activation, *, out: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """``name`` of every element of ``x`` (float32, C-contiguous, any shape); ``out`` may be ``x``."""
    result = output(out, real(x).shape, np.float32)
    if name not in _NAMES:
        raise KernelError(f"name is {name!r}; allowed: {', '.join(_NAMES)}")
    arguments = _NAMES.index(name), x.reshape(-1), result.reshape(-1)
    over_range(activate_range, x.size, *arguments, threads=threads, grain=GRAIN, step=STEP)
    return result


_LIMITS = {
    np.dtype(kind): tuple(map(np.float32, (np.iinfo(kind).min, np.iinfo(kind).max))) for kind in (np.int8, np.uint8)
}
"""Least and largest code of a type."""


@kernel
def quantise_all(lo, hi, x, scale, zero, low, high, out):
    """Elements ``[lo, hi)`` of a flat ``x``; a NaN becomes the zero point."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        steps = np.float32(np.rint(np.float32(part[i] / scale)))
        code = np.float32((np.float32(0) if np.isnan(steps) else steps) + zero)
        code = low if code < low else code
        to[i] = np.int32(high if code > high else code)


def quantise(
    x: np.ndarray,
    scale: float,
    zero: int = 0,
    *,
    dtype: type = np.int8,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Codes of float32 ``x`` of any shape: ONNX QuantizeLinear with one scale for all, bit for bit."""
    kind = np.dtype(dtype)
    if kind not in _LIMITS:
        require(False, f"dtype is {kind}; allowed: int8, uint8")
    low, high = _LIMITS[kind]
    require(bool(0 < scale < np.inf), "scale must be finite and above 0")
    if not low <= zero <= high:
        require(False, f"zero must fit {kind}")
    result = output(out, real(x).shape, kind)
    arguments = (x.reshape(-1), np.float32(scale), np.float32(zero), low, high, result.reshape(-1))
    over_range(quantise_all, x.size, *arguments, threads=threads, grain=GRAIN, step=STEP)
    return result
