"""FP16 matrix-vector product in the order of DFX's unit: products, a pairwise tree, then tiles, all rounded to fp16.

For every lane (output) and every tile of ``d`` inputs: ``d`` products, each rounded to fp16; a tree that adds
neighbours, each sum rounded to fp16; the tile's sum is added to a running fp16 sum. Where ``sums`` of them run, tile i
goes to sum i modulo ``sums``, and they are added by pairs of neighbours at the end. The result is bit-exact against the
same tree in numpy float16, for every input including subnormals, overflow and NaN positions.

::

    packed = pack_tree(w)            # fp16 patterns uint16 [N, K], once
    tree_matvec(packed, x, d=64)     # fp16 patterns uint16 [K] -> uint16 [N]; K padded with +0 to whole tiles

A value is rounded by conversion to fp16 and back, in registers. Without conversion instructions it is done in float32:
``(x + M) - M`` with ``M = 1.5 * 2**13 * max(2**floor(log2 |x|), 2**-14)`` is exact, overflow is clamped apart.
"""

from dataclasses import dataclass

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.ir.half_tree import make_tile
from engine.lab.ir.microkernel import VL, aligned
from engine.lab.ranges import over_range, require, whole

WIDTHS = (16, 32, 64, 128)


@dataclass(frozen=True, eq=False)
class TreeWeights:
    """fp16 patterns in ``[panel][k][VL]``, one output to a lane; n outputs, k inputs."""

    n: int
    k: int
    words: np.ndarray


_tree_16, _tree_32, _tree_64, _tree_128 = (make_tile(width) for width in WIDTHS)


@kernel
def tree_panels(lo, hi, words, x, width, out):
    """Panels ``[lo, hi)`` of VL outputs: fills ``out`` (sums, outputs), which is zero before."""
    k = x.size
    for panel in range(lo, hi):
        for i in range(0, k, width):
            at = (panel * k + i) * VL
            total = out[(i // width) % out.shape[0], panel * VL : (panel + 1) * VL]
            if width == 64:
                _tree_64(words, at, x, i, total)
            elif width == 128:
                _tree_128(words, at, x, i, total)
            elif width == 32:
                _tree_32(words, at, x, i, total)
            else:
                _tree_16(words, at, x, i, total)


def pack_tree(w: np.ndarray) -> TreeWeights:
    """Pack fp16 patterns (uint16) [N, K]; K is padded with zeros to 128, so any width of tile fits."""
    whole("w", w, np.uint16, 2)
    n, k = w.shape
    across, deep = -(-n // VL), -(-k // WIDTHS[-1]) * WIDTHS[-1]
    full = np.zeros((across * VL, deep), np.uint16)
    full[:n, :k] = w
    words = aligned(full.size, np.uint16)
    words[:] = full.reshape(across, VL, deep).transpose(0, 2, 1).reshape(-1)
    return TreeWeights(n, k, words)


def tree_matvec(
    packed: TreeWeights, x: np.ndarray, d: int = 64, threads: int | None = None, sums: int = 1
) -> np.ndarray:
    """Product of packed weights and ``x`` (uint16 fp16 patterns [K]) in the order of the tree -> uint16 [N].

    ``sums``: how many running sums of tiles each output has.

    Bit-exact against numpy float16, NaN payloads aside. K is taken as padded with +0 to a multiple of 128.
    """
    whole("x", x, np.uint16, 1)
    require(d in WIDTHS, f"d is {d}; allowed: {', '.join(map(str, WIDTHS))}")
    require(sums >= 1, f"sums is {sums}; at least 1 is allowed")
    require(x.shape == (packed.k,), f"x has shape {x.shape}; allowed: {(packed.k,)}")
    across = -(-packed.n // VL)
    deep = -(-packed.k // WIDTHS[-1]) * WIDTHS[-1]
    wide = np.zeros(deep, np.float32)
    wide[: packed.k] = x.view(np.float16)
    out = np.zeros((1 << (sums - 1).bit_length(), across * VL), np.float32)
    if out.size and deep:
        over_range(tree_panels, across, packed.words, wide, d, out[:sums], threads=threads)
    halves = out[:, : packed.n].astype(np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        while len(halves) > 1:
            halves = halves[0::2] + halves[1::2]
    return halves[0].view(np.uint16)
