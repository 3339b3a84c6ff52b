"""Layer and folded batch normalisation, float32 over the last axis."""

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.operators.softmax import row_sum
from engine.lab.ranges import output, over_range, real, require, whole

_EPSILON = np.float32(1e-5)
_STRIP = 2048  # elements normalised in one go: rows of few channels are taken together


@kernel
def layer_norm_rows(lo, hi, x, gain, shift, out):
    """Rows ``[lo, hi)``: two passes (mean, then the variance of the centred row), population variance."""
    count = np.float32(x.shape[1])
    square = np.empty(x.shape[1], np.float32)
    for r in range(lo, hi):
        row, to = x[r], out[r]
        mean = np.float32(row_sum(row) / count)
        for c in range(row.size):
            d = np.float32(row[c] - mean)
            square[c] = d * d
        rate = np.float32(np.float32(1) / np.sqrt(np.float32(np.float32(row_sum(square) / count) + _EPSILON)))
        for c in range(row.size):
            to[c] = np.float32(np.float32(np.float32(row[c] - mean) * rate) * gain[c]) + shift[c]


@kernel
def batch_norm_rows(lo, hi, x, gain, shift, out):
    """Rows ``[lo, hi)``: ``x * gain + shift`` per channel; both are repeated over as many rows as are taken at once."""
    width, end = x.shape[1], hi * x.shape[1]
    flat, to = x.reshape(-1), out.reshape(-1)
    for start in range(lo * width, end, gain.size):
        past = min(start + gain.size, end)
        values, result = flat[start:past], to[start:past]
        for c in range(values.size):
            result[c] = np.float32(values[c] * gain[c]) + shift[c]


def _rows(x: np.ndarray, gain: np.ndarray, shift: np.ndarray, out: np.ndarray | None):
    result, width = output(out, real(x).shape, np.float32), x.shape[-1]
    require(whole("gain", gain, np.float32, 1).size == width, f"gain has {gain.size} values; allowed: {width}")
    require(whole("shift", shift, np.float32, 1).size == width, f"shift has {shift.size} values; allowed: {width}")
    rows = x.size // width if width else 0
    return x.reshape(rows, width), result, result.reshape(rows, width), 1 + 16384 // max(1, width)


def layer_norm(
    x: np.ndarray, gain: np.ndarray, shift: np.ndarray, *, out: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """``(x - mean) / sqrt(var + 1e-5) * gain + shift`` along the last axis (ONNX LayerNormalization)."""
    flat, result, to, grain = _rows(x, gain, shift, out)
    over_range(layer_norm_rows, len(flat), flat, gain, shift, to, threads=threads, grain=grain)
    return result


def batch_norm(
    x: np.ndarray, gain: np.ndarray, shift: np.ndarray, *, out: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """Inference batch normalisation with its statistics folded: ``x * gain + shift`` per channel, channels last."""
    flat, result, to, grain = _rows(x, gain, shift, out)
    if result.size:
        repeats = min(len(flat), max(1, _STRIP // gain.size))
        gain, shift = (np.tile(values, repeats) if repeats > 1 else values for values in (gain, shift))
        over_range(batch_norm_rows, len(flat), flat, gain, shift, to, threads=threads, grain=grain)
    return result
