"""Largest values of windows of a channels-last image: down the rows, then across the columns.

Two passes cost ``KH + KW`` reads for each output instead of ``KH * KW``.
"""

import numpy as np

from engine.kernels.jit import inner

STRIP = 2048
"""Elements of a line of maxima: it and three stretches of input lie in a first-level cache together."""


@inner
def raise_line(line, values):
    """``line = max(line, values)``, flat and as long as both are; a NaN never wins."""
    for i in range(line.size):
        line[i] = values[i] if values[i] > line[i] else line[i]


@inner
def highest(line, flat, start, row, count, lowest):
    """``line`` = largest of ``count`` stretches of ``flat`` from ``start`` on, ``row`` apart: no less than ``lowest``.

    The usual windows read every stretch and write the line in one pass.
    """
    size = line.size
    if count == 2:
        first, second = flat[start : start + size], flat[start + row : start + row + size]
        for i in range(size):
            best = first[i] if first[i] > lowest else lowest
            line[i] = second[i] if second[i] > best else best
    elif count == 3:
        first, second = flat[start : start + size], flat[start + row : start + row + size]
        three = flat[start + 2 * row : start + 2 * row + size]
        for i in range(size):
            best = first[i] if first[i] > lowest else lowest
            best = second[i] if second[i] > best else best
            line[i] = three[i] if three[i] > best else best
    else:
        line[:] = lowest
        for k in range(count):
            raise_line(line, flat[start + k * row : start + k * row + size])


@inner
def across(line, window, stride, channels, lowest, out):
    """Windows of so many pixels to their maxima, flat: no less than ``lowest``.

    Offsets are unsigned: an index that may be negative costs a test for every element.
    """
    span = np.uintp(channels)
    for ow in range(out.size // channels):
        to, first = np.uintp(ow) * span, np.uintp(ow * stride) * span
        second, three = first + span, first + span + span
        if window == 3:
            for c in range(span):
                value = line[first + c]
                best = value if value > lowest else lowest
                value = line[second + c]
                best = value if value > best else best
                value = line[three + c]
                out[to + c] = value if value > best else best
        elif window == 2:
            for c in range(span):
                value = line[first + c]
                best = value if value > lowest else lowest
                value = line[second + c]
                out[to + c] = value if value > best else best
        else:
            for c in range(span):
                out[to + c] = lowest
            for _ in range(window):
                for c in range(span):
                    value, best = line[first + c], out[to + c]
                    out[to + c] = value if value > best else best
                first += span
