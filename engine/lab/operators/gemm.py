"""Matrix products on packed weights: u8 x s8 -> s32 or requantised u8, FP32, and bf16 on FP32 sums.

The API other operators build on (every array C-contiguous; any of M, N, K may be 0)::

    packed = pack_s8(b)                      # int8 [K, N]    -> Packed   (once per weight matrix)
    gemm_s32(a, packed, zero_a=0, bias=None) # uint8 [M, K]   -> int32 [M, N], exact (wraps modulo 2**32)
    gemm_u8(a, packed, scale, zero_a=0, bias=None, zero_out=0, relu=False)  # -> uint8 [M, N]
    packed = pack_f32(b)                     # float32 [K, N]
    gemm_f32(a, packed, bias=None, relu=False)  # float32 [M, K] -> float32 [M, N]
    packed = pack_bf16(b)                    # float32 [K, N], rounded, or uint16 patterns
    gemm_f32(patterns, packed)               # uint16 patterns [M, K] -> float32 [M, N]

All take ``out=`` (written in place) and ``threads=``; results are bit-identical for any number of threads.
Packing follows :mod:`engine.lab.ir.microkernel`. With AVX512-BF16 the tile of bf16 is vdpbf16ps (denormals count as
zero there, and each pair is rounded once less than two fused steps); elsewhere the values are widened once, exactly,
and run on the FP32 tile at its rate.
"""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from engine.kernels import jit
from engine.kernels.jit import kernel
from engine.lab.ir.microkernel import EDGE, GROUP, HAS_BF16, INT_KIND, MR, NC, in_panels, panels, tile
from engine.lab.ranges import output, over_range, require, whole

ROW_BLOCK_BYTES = 384 * 1024  # rows that stay in a second-level cache while the column panels pass
DEPTH = 1024  # k-words of a panel, 256 KiB, that stay there while the rows pass
_FINEST = 16  # parts of a thread's share: what one waits for the other at the end
_BYTE, _WORD, _REAL = np.dtype(np.uint8), np.dtype(np.int32), np.dtype(np.float32)
_NONE = np.int32(0)
_ZERO, _TOP, _FLOOR = np.float32(0), np.float32(255), np.float32(-np.inf)
_tall, _edge = tile(MR), tile(EDGE)


@dataclass(frozen=True, eq=False)
class Packed:
    """A weight matrix [K, N] in the column layout of the micro-kernel.

    ``words`` is the flat panel storage; ``sums`` the int32 column sums (integer kinds), zero padded like it.
    """

    kind: str
    k: int
    n: int
    words: np.ndarray
    sums: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))

    @cached_property
    def zeros(self) -> np.ndarray:
        """Start of the sums where there is neither a bias nor a zero point: 32-bit words, zero."""
        return np.zeros(panels(self.n) * NC, np.float32 if self.kind in ("f32", "bf16") else np.int32)


def pack_s8(b: np.ndarray) -> Packed:
    """Pack int8 weights [K, N] for :func:`gemm_s32` and :func:`gemm_u8`."""
    whole("b", b, np.int8, 2)
    words = in_panels(b, INT_KIND, np.int8 if INT_KIND == "u8s8" else np.int16)
    return Packed(INT_KIND, *b.shape, words, pad("sums", b.sum(0, dtype=np.int32), b.shape[1], np.int32))


def pack_f32(b: np.ndarray) -> Packed:
    """Pack float32 weights [K, N] for :func:`gemm_f32`."""
    whole("b", b, np.float32, 2)
    return Packed("f32", *b.shape, in_panels(b, "f32", np.float32))


@kernel
def panel_rows(a, first, last, right, start_k, start, clamp, c):
    """Rows ``first:last`` of ``a``, K elements from ``start_k`` on, times a panel, tuples as the tile has them.

    Into the panel's columns of ``c``; where ``start_k``, on top of the sums already there.
    """
    lda, ldc, col = a.shape[1], c.shape[1], start[2]
    row = first
    while row + MR <= last:
        target = (c, row * ldc + col, ldc)
        _tall((a, row * lda + start_k, lda), right, start, clamp, target, (MR, ldc - col), start_k > 0)
        row += MR
    while row < last:
        target = (c, row * ldc + col, ldc)
        _edge((a, row * lda + start_k, lda), right, start, clamp, target, (last - row, ldc - col), start_k > 0)
        row += EDGE


@kernel
def piece(k, start_k, depth, group):
    """Elements of K from ``start_k`` to walk before the sums are put down: ``depth``, none left shorter than a word."""
    return depth if k - start_k >= depth + group else k - start_k


@kernel
def rows_of(block, blocks, m):
    """First and last row of one of ``blocks`` blocks: whole tiles, as even as they go."""
    tiles = (m + MR - 1) // MR
    return block * tiles // blocks * MR, min(m, (block + 1) * tiles // blocks * MR)


@kernel
def product_range(lo, hi, a, b, words, k, depth, init, scale, zero, low, high, c, blocks, across):
    """Jobs ``lo:hi`` of (block of rows, panel)."""
    group = 4 // b.itemsize
    while lo < hi:
        first, last = rows_of(lo // across, blocks, a.shape[0])
        stop = min(hi, (lo // across + 1) * across)
        start_k = 0
        while True:
            count = piece(k, start_k, depth, group)
            floor = low if start_k + count == k else _FLOOR
            for job in range(lo, stop):
                panel = job % across
                right = (b, (panel * words + start_k // group) * NC, count)
                panel_rows(a, first, last, right, start_k, (init, scale, panel * NC), (zero, floor, high), c)
            start_k += count
            if start_k == k:
                break
        lo = stop


def row_blocks(m: int, row_bytes: int, across: int, threads: int | None) -> int:
    """Blocks the rows are cut into: what the cache budget asks for, or more so that no thread idles. [-]"""
    blocks = -(-m // max(MR, ROW_BLOCK_BYTES // (row_bytes + 1)))
    threads = threads or jit.pool_size()
    if threads > 1:
        blocks = max(blocks, min(-(-m // MR), -(-2 * _FINEST * threads // across)))
    return blocks


@lru_cache(4096)
def _plan(
    m: int, k: int, rows_k: int, n: int, group: int, row_size: int, out_size: int, threads: int | None
) -> tuple[int, int, int, int, int]:
    """Jobs, k-words of a panel, elements of K walked at a time, blocks of rows and panels across of a product."""
    across = panels(n)
    depth = min(rows_k, DEPTH * group) if out_size == 4 else rows_k  # narrower results are made of whole sums
    blocks = row_blocks(m, depth * row_size, across, threads)
    return blocks * across, -(-k // group), depth, blocks, across


def multiply(
    a: np.ndarray,
    packed: Packed,
    init: np.ndarray,
    out: np.ndarray,
    threads: int | None,
    scale: np.ndarray | None = None,
    zero: np.int32 = _NONE,
    low: np.float32 = _FLOOR,
    high: np.float32 = _ZERO,
) -> np.ndarray:
    """Rows ``a`` as the tile reads them times ``packed`` into ``out``; see :func:`microkernel.tile`."""
    if out.size:
        m, k = a.shape
        jobs, words, depth, blocks, across = _plan(
            m, packed.k, k, packed.n, GROUP[packed.kind], a.itemsize, out.itemsize, threads
        )
        factors = init if scale is None else scale
        arguments = (a, packed.words, words, k, depth, init, factors, zero, low, high, out, blocks, across)
        if threads == 1:  # another call takes a quarter of a small product's time
            product_range(0, jobs, *arguments)
        else:
            over_range(product_range, jobs, *arguments, threads=threads, finest=_FINEST)
    return out


def as_rows(a: np.ndarray, kind: str) -> np.ndarray:
    """``a`` uint8 [M, K] as the tile of ``kind`` reads it: itself, or a copy in whole words of K, zero padded."""
    m, k = a.shape
    group = GROUP[kind]
    if kind == "u8s8" and (k >= group or k == 0):
        return a
    full = np.zeros((m, -(-k // group) * group), np.int16 if kind == "s16" else np.uint8)
    full[:, :k] = a
    return full


def pad(name: str, values: np.ndarray, n: int, dtype: type) -> np.ndarray:
    """``values`` [N] followed by zeros up to whole panels."""
    whole(name, values, dtype, 1)
    if values.shape != (n,):
        require(False, f"{name} has shape {values.shape}; allowed: {(n,)}")
    if n % NC == 0:
        return values
    full = np.zeros(panels(n) * NC, dtype)
    full[:n] = values
    return full


def check(a: np.ndarray, dtype: Any, packed: Packed, kind: str) -> None:
    """Refuse rows that ``packed`` cannot multiply."""
    whole("a", a, dtype, 2)
    if packed.kind != kind:
        require(False, f"packed has kind {packed.kind!r}; allowed: {kind!r}")
    if a.shape[1] != packed.k:
        require(False, f"a has {a.shape[1]} columns; allowed: {packed.k}, the rows of the weights")


def _integer_start(a: np.ndarray, packed: Packed, zero_a: int, bias: np.ndarray | None) -> np.ndarray:
    """Checks, and bias less zero point times column sums."""
    check(a, _BYTE, packed, INT_KIND)
    if not 0 <= zero_a <= 255:
        require(False, f"zero_a is {zero_a}; allowed: 0 to 255")
    init = packed.zeros if bias is None else pad("bias", bias, packed.n, np.int32)
    return init - np.int32(zero_a) * packed.sums if zero_a else init


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
    init = _integer_start(a, packed, zero_a, bias)
    out = output(out, (a.shape[0], packed.n), _WORD)
    return multiply(as_rows(a, INT_KIND), packed, init, out, threads)


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
    if not 0 <= zero_out <= 255:
        require(False, f"zero_out is {zero_out}; allowed: 0 to 255")
    init = _integer_start(a, packed, zero_a, bias)
    scales = pad("scale", scale, packed.n, np.float32)
    out = output(out, (a.shape[0], packed.n), _BYTE)
    zero, low = np.int32(zero_out), np.float32(zero_out if relu else 0)
    return multiply(as_rows(a, INT_KIND), packed, init, out, threads, scales, zero, low, _TOP)


def gemm_f32(
    a: np.ndarray,
    packed: Packed,
    bias: np.ndarray | None = None,
    relu: bool = False,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``max(a @ b + bias, relu ? 0 : -inf)`` in float32, summed in order of k from the bias.

    ``a`` float32 [M, K], or bf16 patterns (uint16) with weights of :func:`pack_bf16`; returns float32 [M, N]. Error of
    an element at most ``(K + 1) 2**-24 (|a| @ |b| + |bias|)`` to first order. [-]
    """
    narrow = packed.kind == "bf16"
    if not HAS_BF16 and isinstance(a, np.ndarray) and a.dtype == np.uint16:
        a = _widen(whole("a", a, np.uint16, 2))
    check(a, np.uint16 if narrow else _REAL, packed, "bf16" if narrow else "f32")
    init = packed.zeros if bias is None else pad("bias", bias, packed.n, np.float32)
    out = output(out, (a.shape[0], packed.n), _REAL)
    return multiply(a, packed, init, out, threads, low=_ZERO if relu else _FLOOR)


def bf16_bits(values: np.ndarray) -> np.ndarray:
    """Patterns (uint16) of ``values`` in bf16, nearest even; what is too large is infinity."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    code = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), code)


def _widen(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def pack_bf16(b: np.ndarray) -> Packed:
    """Pack weights [K, N]: float32 values, which are rounded, or uint16 patterns."""
    patterns = isinstance(b, np.ndarray) and b.dtype == np.uint16
    whole("b", b, np.uint16 if patterns else np.float32, 2)
    bits = b if patterns else bf16_bits(b)
    return Packed("bf16", *b.shape, in_panels(bits, "bf16", np.uint16)) if HAS_BF16 else pack_f32(_widen(bits))
