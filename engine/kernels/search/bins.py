"""Histograms of values whose range is not known beforehand: bins an eighth of an octave wide, read off their bits."""

import numpy as np

from engine.kernels.jit import kernel

_SHIFT = 49  # keeps 3 bits of the mantissa: eight bins an octave
_LOWEST = (1023 - 128) << 3  # 2**-128; what is smaller, zero and negative go to the first bin
BINS = 256 * 8


@kernel
def count_bins(values, alive, counts):
    """Adds the values that are ``alive`` to ``counts`` (BINS,); NaN is left out."""
    bits = values.view(np.int64)
    for i in range(values.shape[0]):
        if alive[i] and values[i] == values[i]:
            at = (bits[i] >> _SHIFT) - _LOWEST
            counts[min(max(at, 0), BINS - 1)] += 1


def bin_edges() -> np.ndarray:
    """Lower edge of each bin and the upper one of the last, shape (BINS + 1,)."""
    return ((np.arange(BINS + 1, dtype=np.int64) + _LOWEST) << _SHIFT).view(np.float64)
