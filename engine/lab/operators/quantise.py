"""Affine quantise of float32 to int8 or uint8, one scale for all.

``q = saturate(round_half_even(x / scale) + zero)``: ONNX QuantizeLinear, bit for bit.
"""

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.operators.pointwise import GRAIN, STEP
from engine.lab.ranges import output, over_range, real, require

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
    """Codes of float32 ``x`` of any shape."""
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
