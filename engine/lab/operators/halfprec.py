"""Products with narrow weights: bf16, fp16, ms-fp9 (1-5-3), ms-fp8 (1-5-2) stored packed, sums in float32.

::

    packed = pack_narrow(b, "bf16")       # float32 [K, N] rounded, or uint16 patterns for bf16/fp16, once
    gemm_narrow(a, packed)                # float32 [M, K] -> float32 [M, N]
    gemm_half(a_bits, packed)             # fp16 patterns [M, K] -> fp16 patterns [M, N], float32 sums, one rounding
    gemm_bf16(a_bits, packed)             # bf16 patterns [M, K] -> float32 [M, N]

A column panel is widened to float32 once per block of rows, exactly, and then runs on the FP32 tile: the weights
cost their stored bytes and the arithmetic runs at the FP32 rate. With AVX512-BF16, ``gemm_bf16`` uses vdpbf16ps
(denormals count as zero there, and each pair is rounded once less than two fused steps).

ms-fp9 stores exponent and mantissa in a byte and the signs as a plane of bits: 9 bits a weight, really.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.ir.microkernel import HAS_BF16, NC, in_panels, panels
from engine.lab.ir.widen import STRIP, make_widen
from engine.lab.operators.gemm import (
    DEPTH,
    Packed,
    checked,
    multiply,
    output,
    padded,
    panel_rows,
    piece,
    row_blocks,
    rows_of,
)
from engine.lab.ranges import over_range, require, whole

FORMATS = ("bf16", "fp16", "ms-fp9", "ms-fp8")
_MANTISSA = {"ms-fp9": 3, "ms-fp8": 2}
_TOP_EXPONENT, _LOW_EXPONENT = 15, -14  # of every format with five exponent bits


@dataclass(frozen=True, eq=False)
class NarrowWeights:
    """Weights [k, n] in ``format``: codes of every panel ``[k][NC]``, k padded to even; signs for ms-fp9.

    ``pairs`` are the weights of the native bf16 tile where the host has one.
    """

    format: str
    k: int
    n: int
    codes: np.ndarray
    signs: np.ndarray
    pairs: Packed | None


_widen_bf16, _widen_fp16, _widen_ms9, _widen_ms8 = (make_widen(name) for name in FORMATS)


@kernel
def _widen_panel(codes, first, count, signs, format, target):
    for i in range(0, count, STRIP):
        if format == 0:
            _widen_bf16(codes, first + i, signs, target, i)
        elif format == 1:
            _widen_fp16(codes, first + i, signs, target, i)
        elif format == 2:
            _widen_ms9(codes, first + i, signs, target, i)
        else:
            _widen_ms8(codes, first + i, signs, target, i)


@kernel
def _narrow_range(lo, hi, a, codes, signs, format, stride, depth, init, low, c, blocks, across):
    k = a.shape[1]
    widened = np.empty(min(stride, (depth + 2) * NC), np.float32)
    for job in range(lo, hi):
        first, last = rows_of(job // across, blocks, a.shape[0])
        panel = job % across
        done = 0
        while True:
            count = piece(k, done, depth, 1)
            floor = low if done + count == k else np.float32(-np.inf)
            start = done * NC
            _widen_panel(codes, panel * stride + start, min(stride - start, count * NC), signs, format, widened)
            panel_rows(
                a,
                first,
                last,
                widened,
                0,
                done,
                count,
                init,
                init,
                np.int32(0),
                floor,
                floor,
                c,
                panel,
            )
            done += count
            if done == k:
                break


@kernel
def _widen_strips(lo, hi, bits, format, target):
    for strip in range(lo, hi):
        _widen_panel(bits, strip * STRIP, 1, bits, format, target[strip * STRIP :])


def _widened(bits: np.ndarray, format: str, threads: int | None) -> np.ndarray:
    """Float32 values of fp16 or bf16 patterns, exact."""
    flat = np.ascontiguousarray(bits).reshape(-1)
    out = np.empty(flat.size, np.float32)
    strips = flat.size // STRIP
    over_range(_widen_strips, strips, flat, FORMATS.index(format), out, threads=threads, grain=4096)
    rest = flat[strips * STRIP :]
    wide = (rest.astype(np.uint32) << 16).view(np.float32) if format == "bf16" else rest.view(np.float16)
    out[strips * STRIP :] = wide
    return out.reshape(bits.shape)


def rounded_bits(values: np.ndarray, format: str) -> np.ndarray:
    """Patterns (uint16) of ``values`` in ``format``, nearest even: bf16 as such, the others as an fp16 that holds them.

    fp16 and bf16 overflow to infinity; ms-fp8 and ms-fp9 saturate at their largest value.
    """
    require(format in FORMATS, f"format is {format!r}; allowed: {', '.join(FORMATS)}")
    values = np.ascontiguousarray(values, np.float32)
    if format == "bf16":
        bits = values.view(np.uint32)
        rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
        return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)
    if format in _MANTISSA:
        mantissa = _MANTISSA[format]
        _, exponent = np.frexp(values)
        step = np.ldexp(1.0, np.maximum(exponent - 1, _LOW_EXPONENT) - mantissa)
        top = (2 - 2.0**-mantissa) * 2.0**_TOP_EXPONENT
        values = np.clip(np.rint(values / step) * step, -top, top)
    with np.errstate(over="ignore"):
        return values.astype(np.float16).view(np.uint16)


def _stride(k: int) -> int:
    """Codes of a panel: whole strips. [-]"""
    return -(-k // 2) * 2 * NC


def pack_narrow(b: np.ndarray, format: str) -> NarrowWeights:
    """Pack weights [K, N]: float32 values (rounded to ``format``), or uint16 patterns of ``bf16`` or ``fp16``."""
    require(format in FORMATS, f"format is {format!r}; allowed: {', '.join(FORMATS)}")
    patterns = isinstance(b, np.ndarray) and b.dtype == np.uint16
    require(not patterns or format not in _MANTISSA, f"b holds 16-bit patterns; {format} packs float32 values")
    whole("b", b, np.uint16 if patterns else np.float32, 2)
    bits = b if patterns else rounded_bits(b, format)
    k, n = b.shape
    even = np.zeros((-(-k // 2) * 2, n), np.uint16)
    even[:k] = bits
    codes = in_panels(even, "f32", np.uint16)
    signs = np.zeros(0, np.uint16)
    if format == "ms-fp9":
        signs = np.packbits(codes >> 15, bitorder="little").view(np.uint16)
    if format in _MANTISSA:
        codes = (codes >> (8 if format == "ms-fp8" else 7)).astype(np.uint8)
    pairs = Packed("bf16", k, n, in_panels(bits, "bf16", np.uint16)) if format == "bf16" and HAS_BF16 else None
    return NarrowWeights(format, k, n, codes, signs, pairs)


def gemm_narrow(
    a: np.ndarray,
    packed: NarrowWeights,
    bias: np.ndarray | None = None,
    relu: bool = False,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``max(a @ widened(b) + bias, relu ? 0 : -inf)``: float32 [M, K] -> float32 [M, N], order and bound of FP32."""
    whole("a", a, np.float32, 2)
    require(a.shape[1] == packed.k, f"a has {a.shape[1]} columns; allowed: {packed.k}, the rows of the weights")
    init = np.zeros(panels(packed.n) * NC, np.float32) if bias is None else padded("bias", bias, packed.n, np.float32)
    out = output(out, (a.shape[0], packed.n), np.float32)
    if out.size:
        across = panels(packed.n)
        blocks = row_blocks(a.shape[0], 4 * min(packed.k, DEPTH), across, threads)
        over_range(
            _narrow_range,
            blocks * across,
            a,
            packed.codes,
            packed.signs,
            FORMATS.index(packed.format),
            _stride(packed.k),
            DEPTH,
            init,
            np.float32(0 if relu else -np.inf),
            out,
            blocks,
            across,
            threads=threads,
        )
    return out


def gemm_half(
    a_bits: np.ndarray, packed: NarrowWeights, bias: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """FP16 product: fp16 patterns in and out (uint16), float32 sums, one rounding to fp16 at the end."""
    whole("a_bits", a_bits, np.uint16, 2)
    sums = gemm_narrow(_widened(a_bits, "fp16", threads), packed, bias, threads=threads)
    return rounded_bits(sums, "fp16")


def gemm_bf16(
    a_bits: np.ndarray,
    packed: NarrowWeights,
    bias: np.ndarray | None = None,
    relu: bool = False,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """BF16 product: bf16 patterns (uint16) [M, K] -> float32 [M, N]; vdpbf16ps where the host has it, else FP32."""
    require(packed.format == "bf16", f"packed has format {packed.format!r}; allowed: 'bf16'")
    pairs = packed.pairs
    if pairs is None:
        return gemm_narrow(
            _widened(whole("a_bits", a_bits, np.uint16, 2), "bf16", threads), packed, bias, relu, out, threads
        )
    checked(a_bits, np.uint16, pairs, "bf16", "a_bits")
    init = pairs.zeros if bias is None else padded("bias", bias, packed.n, np.float32)
    out = output(out, (a_bits.shape[0], packed.n), np.float32)
    return multiply(a_bits, pairs, init, out, threads, low=np.float32(0 if relu else -np.inf))
