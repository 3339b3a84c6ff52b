"""Matrix products on packed weights: u8 x s8 -> s32 or requantised u8, FP32, and 16/9/8-bit weights on FP32 sums.

The API other operators build on (every array C-contiguous; any of M, N, K may be 0)::

    packed = pack_s8(b)                      # int8 [K, N]    -> Packed   (once per weight matrix)
    gemm_s32(a, packed, zero_a=0, bias=None) # uint8 [M, K]   -> int32 [M, N], exact (wraps modulo 2**32)
    gemm_u8(a, packed, scale, zero_a=0, bias=None, zero_out=0, relu=False)  # -> uint8 [M, N]
    packed = pack_f32(b)                     # float32 [K, N]
    gemm_f32(a, packed, bias=None, relu=False)  # float32 [M, K] -> float32 [M, N]

All take ``out=`` (written in place) and ``threads=``; results are bit-identical for any number of threads.
Narrow weight formats are in :mod:`engine.kernels.operators.halfprec`. Packing follows
:mod:`engine.kernels.operators.microkernel`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.kernels import jit
from engine.kernels.jit import kernel
from engine.kernels.operators.microkernel import CHUNK, GROUP, INT_KIND, MR, NC, STRIP, copy_strip, tile
from engine.kernels.operators.ranges import over_range, require, whole

__all__ = [
    "Packed",
    "aligned",
    "block_rows",
    "gemm_f32",
    "gemm_s32",
    "gemm_u8",
    "output",
    "pack_f32",
    "pack_s8",
    "padded",
]

_ROW_BLOCK_BYTES = 512 * 1024  # packed rows that stay in a second-level cache beside one column panel
_GROUP = GROUP[INT_KIND]

_tile_s32 = tile(INT_KIND)
_tile_u8 = tile(INT_KIND, "u8")
_tile_f32 = tile("f32")


@dataclass(frozen=True, eq=False)
class Packed:
    """A weight matrix [K, N] in the column layout of the micro-kernel.

    ``words`` is the flat panel storage; ``sums`` the int32 column sums (integer kinds), zero padded like it.
    """

    kind: str
    k: int
    n: int
    words: np.ndarray
    sums: np.ndarray


@kernel
def _pack_s8(b, words, sums):
    k, n = b.shape
    steps = (k + _GROUP - 1) // _GROUP
    for j in range(n):
        sums[j] = 0
    for i in range(k):
        for j in range(n):
            place = ((j // NC * steps + i // _GROUP) * NC + j % NC) * _GROUP + i % _GROUP
            words[place] = b[i, j]
            sums[j] += b[i, j]


@kernel
def _pack_f32(b, words):
    k, n = b.shape
    for first in range(0, n, NC):
        count = min(NC, n - first)
        for i in range(k):
            at = first * k + i * NC
            for j in range(count):
                words[at + j] = b[i, first + j]


def panels(n: int) -> int:
    """Column panels of ``n`` columns. [-]"""
    return -(-n // NC)


def aligned(count: int, dtype: type) -> np.ndarray:
    """``count`` zeros that start on a cache line, so that no vector of packed weights straddles two."""
    raw = np.zeros(count * np.dtype(dtype).itemsize + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : raw.size - 64 + skip].view(dtype)


def pack_s8(b: np.ndarray) -> Packed:
    """Pack int8 weights [K, N] for :func:`gemm_s32` and :func:`gemm_u8`."""
    whole("b", b, np.int8, 2)
    k, n = b.shape
    width = panels(n) * NC
    words = aligned(-(-k // _GROUP) * _GROUP * width, np.int8 if _GROUP == 4 else np.int16)
    sums = np.zeros(width, np.int32)
    _pack_s8(b, words, sums)
    return Packed(INT_KIND, k, n, words, sums)


def pack_f32(b: np.ndarray) -> Packed:
    """Pack float32 weights [K, N] for :func:`gemm_f32`."""
    whole("b", b, np.float32, 2)
    k, n = b.shape
    words = aligned(k * panels(n) * NC, np.float32)
    _pack_f32(b, words)
    return Packed("f32", k, n, words, np.zeros(0, np.int32))


@kernel
def _pack_rows(a, first, last, scratch):
    """Rows ``first:last`` of ``a`` in the row layout, ``GROUP`` elements to a word, zero padded in K.

    Rows beyond ``last`` in the final tile keep whatever ``scratch`` holds: their sums are never stored.
    """
    k = a.shape[1]
    group = 4 // scratch.itemsize
    span = CHUNK * group
    strip = STRIP * group
    chunks = (k + span - 1) // span
    for row in range(first, last):
        t, r = divmod(row - first, MR)
        at = (t * chunks * MR + r) * span
        for i in range(0, k, span):
            stop = min(span, k - i)
            e = 0
            while e + strip <= stop:
                copy_strip(a, row * k + i + e, scratch, at + e)
                e += strip
            while e < stop:
                scratch[at + e] = a[row, i + e]
                e += 1
            while e % group:
                scratch[at + e] = 0
                e += 1
            at += MR * span


@kernel
def _scratch_words(rows, k, group):
    """Words of packed rows: whole tiles, whole chunks."""
    return (rows + MR - 1) // MR * MR * ((k + CHUNK * group - 1) // (CHUNK * group)) * CHUNK


@kernel
def _s32_range(lo, hi, a, words, init, c, block, scratch_like):
    m, k = a.shape
    n = c.shape[1]
    group = 4 // scratch_like.itemsize
    steps = (k + group - 1) // group
    tile_words = _scratch_words(MR, k, group)
    across = (n + NC - 1) // NC
    scratch = np.empty(_scratch_words(min(block, m), k, group) * group, scratch_like.dtype)
    packed = -1
    for job in range(lo, hi):
        first = job // across * block
        last = min(m, first + block)
        panel = job % across
        if first != packed:
            _pack_rows(a, first, last, scratch)
            packed = first
        for row in range(first, last, MR):
            _tile_s32(
                scratch, (row - first) // MR * tile_words, words, panel * steps * NC, steps, init, panel * NC, init,
                np.int32(0), np.float32(0), np.float32(0), c, row * n + panel * NC, n, last - row, n - panel * NC,
            )  # fmt: skip


@kernel
def _u8_range(lo, hi, a, words, init, scale, zero, low, high, c, block, scratch_like):
    m, k = a.shape
    n = c.shape[1]
    group = 4 // scratch_like.itemsize
    steps = (k + group - 1) // group
    tile_words = _scratch_words(MR, k, group)
    across = (n + NC - 1) // NC
    scratch = np.empty(_scratch_words(min(block, m), k, group) * group, scratch_like.dtype)
    packed = -1
    for job in range(lo, hi):
        first = job // across * block
        last = min(m, first + block)
        panel = job % across
        if first != packed:
            _pack_rows(a, first, last, scratch)
            packed = first
        for row in range(first, last, MR):
            _tile_u8(
                scratch, (row - first) // MR * tile_words, words, panel * steps * NC, steps, init, panel * NC, scale,
                zero, low, high, c, row * n + panel * NC, n, last - row, n - panel * NC,
            )  # fmt: skip


@kernel
def _f32_range(lo, hi, a, words, init, low, c, block):
    m, k = a.shape
    n = c.shape[1]
    tile_words = _scratch_words(MR, k, 1)
    across = (n + NC - 1) // NC
    scratch = np.empty(_scratch_words(min(block, m), k, 1), np.float32)
    packed = -1
    for job in range(lo, hi):
        first = job // across * block
        last = min(m, first + block)
        panel = job % across
        if first != packed:
            _pack_rows(a, first, last, scratch)
            packed = first
        for row in range(first, last, MR):
            _tile_f32(
                scratch, (row - first) // MR * tile_words, words, panel * k * NC, k, init, panel * NC, init,
                np.int32(0), low, low, c, row * n + panel * NC, n, last - row, n - panel * NC,
            )  # fmt: skip


def block_rows(m: int, row_bytes: int, columns: int, threads: int | None) -> int:
    """Rows packed at once: as many as the cache budget holds, fewer if that leaves threads idle. [-]"""
    block = max(MR, min(-(-m // MR) * MR, _ROW_BLOCK_BYTES // max(1, row_bytes) // MR * MR))
    wanted = 4 * (threads or jit.pool_size())
    if columns and -(-m // block) * columns < wanted and (threads or jit.pool_size()) > 1:
        share = -(-m * columns // wanted)
        block = max(MR, min(block, -(-share // MR) * MR))
    return block


def output(out: np.ndarray | None, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """``out`` checked, or a new array."""
    if out is None:
        return np.empty(shape, dtype)
    whole("out", out, dtype, len(shape))
    require(out.shape == shape, f"out has shape {out.shape}; allowed: {shape}")
    return out


def padded(name: str, values: np.ndarray | None, n: int, dtype: type, fill: float = 0) -> np.ndarray:
    """``values`` [N] followed by ``fill`` up to whole panels; all ``fill`` for None."""
    full = np.full(panels(n) * NC, fill, dtype) if fill else np.zeros(panels(n) * NC, dtype)
    if values is not None:
        whole(name, values, dtype, 1)
        require(values.shape == (n,), f"{name} has shape {values.shape}; allowed: {(n,)}")
        full[:n] = values
    return full


def _integer_setup(
    a: np.ndarray, packed: Packed, zero_a: int, bias: np.ndarray | None, threads: int | None
) -> tuple[np.ndarray, int, np.ndarray]:
    whole("a", a, np.uint8, 2)
    require(packed.kind == INT_KIND, f"packed has kind {packed.kind!r}; allowed: {INT_KIND!r}")
    require(a.shape[1] == packed.k, f"a has {a.shape[1]} columns; allowed: {packed.k}, the rows of the weights")
    require(0 <= zero_a <= 255, f"zero_a is {zero_a}; allowed: 0 to 255")
    init = padded("bias", bias, packed.n, np.int32)
    init -= np.int32(zero_a) * packed.sums
    block = block_rows(a.shape[0], packed.k * (4 // _GROUP), panels(packed.n), threads)
    return init, block, np.empty(0, np.uint8 if _GROUP == 4 else np.int16)


def gemm_s32(
    a: np.ndarray,
    packed: Packed,
    zero_a: int = 0,
    bias: np.ndarray | None = None,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``(a - zero_a) @ b + bias`` in int32, exact as long as the true sums fit 32 bits.

    ``a`` uint8 [M, K]; ``bias`` int32 [N]; returns int32 [M, N]. [-]
    """
    init, block, like = _integer_setup(a, packed, zero_a, bias, threads)
    out = output(out, (a.shape[0], packed.n), np.int32)
    if out.size:
        jobs = -(-a.shape[0] // block) * panels(packed.n)
        over_range(_s32_range, jobs, a, packed.words, init, out, block, like, threads=threads)
    return out


def gemm_u8(
    a: np.ndarray,
    packed: Packed,
    scale: np.ndarray,
    zero_a: int = 0,
    bias: np.ndarray | None = None,
    zero_out: int = 0,
    relu: bool = False,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Requantised product: ``clamp(rint(s * scale) + zero_out, relu ? zero_out : 0, 255)``, s as :func:`gemm_s32`.

    ``scale`` float32 [N] (input scale x weight scale / output scale), finite; ties go to even. The float32
    product is rounded once from the float32 nearest to s. Returns uint8 [M, N]. [-]
    """
    require(0 <= zero_out <= 255, f"zero_out is {zero_out}; allowed: 0 to 255")
    init, block, like = _integer_setup(a, packed, zero_a, bias, threads)
    scales = padded("scale", scale, packed.n, np.float32)
    out = output(out, (a.shape[0], packed.n), np.uint8)
    if out.size:
        jobs = -(-a.shape[0] // block) * panels(packed.n)
        low = np.float32(zero_out if relu else 0)
        arguments = (a, packed.words, init, scales, np.int32(zero_out), low, np.float32(255), out, block, like)
        over_range(_u8_range, jobs, *arguments, threads=threads)
    return out


def gemm_f32(
    a: np.ndarray,
    packed: Packed,
    bias: np.ndarray | None = None,
    relu: bool = False,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``max(a @ b + bias, relu ? 0 : -inf)`` in float32, summed in order of k from the bias.

    Error of an element at most ``(K + 1) 2**-24 (|a| @ |b| + |bias|)`` to first order. [-]
    """
    whole("a", a, np.float32, 2)
    require(packed.kind == "f32", f"packed has kind {packed.kind!r}; allowed: 'f32'")
    require(a.shape[1] == packed.k, f"a has {a.shape[1]} columns; allowed: {packed.k}, the rows of the weights")
    init = padded("bias", bias, packed.n, np.float32)
    out = output(out, (a.shape[0], packed.n), np.float32)
    if out.size:
        block = block_rows(a.shape[0], 4 * packed.k, panels(packed.n), threads)
        jobs = -(-a.shape[0] // block) * panels(packed.n)
        low = np.float32(0 if relu else -np.inf)
        over_range(_f32_range, jobs, a, packed.words, init, low, out, block, threads=threads)
    return out
