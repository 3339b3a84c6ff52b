"""Binary fully connected layer: 1-bit weights and activations, popcount of the exclusive-or, threshold to 1 bit.

A neuron's agreement count is ``K - popcount(w ^ x)``; it fires (1) when the number of *differing* bits is at most
its threshold, which folds batch normalisation and sign into one integer comparison.

::

    packed = pack_binary(w)          # uint8 bits [N, K/8] -> BinaryWeights, once
    binary_counts(x, packed)         # uint8 bits [B, K/8] -> int32 [B, N], differing bits, exact
    binary_fc(x, packed, threshold)  # int32 [N] thresholds -> uint8 bits [B, ceil(N/8)], bit j of byte i = neuron 8i+j

Where the processor counts bits of vectors (VPOPCNTDQ) this is a kind of the matrix tile: a word costs an exclusive-or,
a count and an add. Elsewhere words first go through carry-save adders, 16 to one count, which costs 3.3 operations a
word instead of 8 (Harley-Seal; with AVX-512 an adder is two ternary-logic operations).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, cgutils, intrinsic, isa, kernel, types
from engine.kernels.operators.gemm import Packed, multiply
from engine.kernels.operators.microkernel import (
    HAS_COUNT,
    INT_KIND,
    NC,
    VL,
    aligned,
    declared,
    in_panels,
    load,
    multiply_add,
    panels,
    splat,
)
from engine.kernels.operators.ranges import over_range, require, whole

__all__ = ["OPERATIONS_PER_WORD", "BinaryWeights", "binary_counts", "binary_fc", "pack_binary"]

_TREE = 16
_COUNT_OPERATIONS = 7  # count of one vector by nibble look-up: 2 and, 1 shift, 2 shuffle, 1 add, 1 vpdpbusd
OPERATIONS_PER_WORD = 3.0 if HAS_COUNT else (_TREE + 2 * (_TREE - 1) + _COUNT_OPERATIONS) / _TREE
"""Vector operations per word of 32 bits per lane, for an issue bound: exclusive-or, adders or count, add. [-]"""

_BYTE, _PAIR, _WORD = np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.int32)
_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


@dataclass(frozen=True, eq=False)
class BinaryWeights:
    """Weights [n, k] in 32-bit words, one neuron to a lane; k and n in bits.

    ``words`` lie as ``[panel][word][VL]`` for the carry-save tile, or as ``packed`` for the matrix tile.
    """

    k: int
    n: int
    words: np.ndarray
    packed: Packed | None


def _adder(builder: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """IR of a full adder on every bit: (carry, sum) of three vectors."""
    if VL == 16 and isa() != "portable":
        function = declared(builder, "llvm.x86.avx512.pternlog.d.512", a.type, [a.type] * 3 + [_I32])
        return builder.call(function, [a, b, c, _I32(0xE8)]), builder.call(function, [a, b, c, _I32(0x96)])
    half = builder.xor(a, b)
    return builder.or_(builder.and_(a, b), builder.and_(half, c)), builder.xor(half, c)


def _counted(builder: Any, total: Any, value: Any) -> Any:
    """IR: ``total`` plus the set bits of every 32-bit lane of ``value``."""
    part = ir.VectorType(_I8, 4 * VL)
    function = declared(builder, f"llvm.ctpop.v{4 * VL}i8", part, [part])
    counts = builder.call(function, [builder.bitcast(value, part)])  # nibble look-up, 0 to 8 a byte
    if INT_KIND == "u8s8":
        ones = ir.Constant(part, [1] * (4 * VL))
        return multiply_add(builder, "u8s8", total, builder.bitcast(counts, value.type), ones)
    words = builder.bitcast(counts, value.type)
    for shift in (8, 16):  # no byte exceeds 32, so no carry crosses into the lowest byte
        words = builder.add(words, builder.lshr(words, ir.Constant(value.type, [shift] * VL)))
    return builder.add(total, builder.and_(words, ir.Constant(value.type, [0xFF] * VL)))


def _tile_ir() -> Any:
    vector = ir.VectorType(_I32, VL)
    levels = _TREE.bit_length() - 1

    @intrinsic
    def generated(typingctx: Any, x: Any, x_off: Any, w: Any, w_off: Any, words: Any, out: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def data(index: int, offset: Any) -> Any:
                array = context.make_array(signature.args[index])(context, builder, args[index])
                return builder.gep(builder.bitcast(array.data, _I8.as_pointer()), [builder.mul(offset, _I64(4))])

            row, w_at, words = data(0, args[1]), data(2, args[3]), args[4]
            zero = ir.Constant(vector, None)

            def differing(index: Any) -> Any:
                weights = load(builder, w_at, builder.mul(index, _I64(4 * VL)), vector)
                return builder.xor(weights, splat(builder, load(builder, row, builder.mul(index, _I64(4)), _I32), VL))

            count = cgutils.alloca_once(builder, vector)
            held = [cgutils.alloca_once(builder, vector) for _ in range(levels)]
            for place in (count, *held):
                builder.store(zero, place)
            turns = builder.sdiv(words, _I64(_TREE))
            with cgutils.for_range(builder, turns) as loop:
                first = builder.mul(loop.index, _I64(_TREE))

                def reduced(level: int, start: int) -> Any:
                    """Carry out of ``level`` for ``2**(level + 1)`` words from ``start``."""
                    if level < 0:
                        return differing(builder.add(first, _I64(start)))
                    a, b = reduced(level - 1, start), reduced(level - 1, start + 2**level)
                    carry, total = _adder(builder, builder.load(held[level]), a, b)
                    builder.store(total, held[level])
                    return carry

                builder.store(_counted(builder, builder.load(count), reduced(levels - 1, 0)), count)
            total = builder.shl(builder.load(count), ir.Constant(vector, [levels] * VL))
            for level, place in enumerate(held):
                ones = _counted(builder, zero, builder.load(place))
                total = builder.add(total, builder.shl(ones, ir.Constant(vector, [level] * VL)))
            builder.store(total, count)
            done = builder.mul(turns, _I64(_TREE))
            with cgutils.for_range(builder, builder.sub(words, done)) as loop:
                more = _counted(builder, builder.load(count), differing(builder.add(done, loop.index)))
                builder.store(more, count)
            builder.store(builder.load(count), builder.bitcast(data(5, _I64(0)), vector.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(x, types.intp, w, types.intp, types.intp, out), codegen

    return generated


def _tile_python() -> Any:
    def tile_in_python(x, x_off, w, w_off, words, out):  # type: ignore[no-untyped-def]  # mirrors the intrinsic
        weights = w[w_off : w_off + words * VL].view(np.uint32).reshape(words, VL)
        row = x.reshape(-1)[x_off : x_off + words].view(np.uint32)
        out[:] = np.bitwise_count(weights ^ row[:, None]).sum(0, dtype=np.int32)

    return tile_in_python


_tile = (_tile_ir if JIT_ENABLED else _tile_python)()
"""``tile(x, x_off, w, w_off, words, out)``: differing bits of one row and ``VL`` neurons, by carry-save adders."""


@kernel
def _counts_range(lo, hi, x, words, out):
    batch, k = x.shape
    neurons = out.shape[1]
    found = np.empty(VL, np.int32)
    for panel in range(lo, hi):
        for row in range(batch):
            _tile(x, row * k, words, panel * k * VL, k, found)
            for j in range(min(VL, neurons - panel * VL)):
                out[row, panel * VL + j] = found[j]


@kernel
def _fc_range(lo, hi, x, words, threshold, out):
    batch, k = x.shape
    parts = 16 // VL
    neurons = threshold.size
    found = np.empty(VL, np.int32)
    for word in range(lo, hi):
        for row in range(batch):
            bits = np.uint32(0)
            for part in range(parts):
                panel = word * parts + part
                if panel * VL < neurons:
                    _tile(x, row * k, words, panel * k * VL, k, found)
                    for j in range(min(VL, neurons - panel * VL)):
                        fires = found[j] <= threshold[panel * VL + j]
                        bits |= np.uint32(fires) << np.uint32(part * VL + j)
            out[row, word] = bits


def _as_words(name: str, bits: np.ndarray) -> np.ndarray:
    """Rows of packed bits as whole 32-bit words; a shorter last word is zero padded on both operands."""
    whole(name, bits, _BYTE, 2)
    rows, size = bits.shape
    if size % 4 == 0 and size:
        return bits.view(_WORD)
    full = np.zeros((rows, -(-size // 4) * 4), np.uint8)
    full[:, :size] = bits
    return full.view(np.int32)


def pack_binary(w: np.ndarray) -> BinaryWeights:
    """Pack weights given as bytes of bits, uint8 [N, K/8], for :func:`binary_fc`."""
    rows = _as_words("w", w)
    neurons, count = rows.shape
    if HAS_COUNT:
        words = in_panels(rows.T, "xnor", np.int32)
        return BinaryWeights(w.shape[1] * 8, neurons, words, Packed("xnor", count, neurons, words))
    across = -(-neurons // VL)
    full = np.zeros((across * VL, count), np.int32)
    full[:neurons] = rows
    words = aligned(full.size, np.int32)
    words[:] = full.reshape(across, VL, count).transpose(0, 2, 1).reshape(-1)
    return BinaryWeights(w.shape[1] * 8, neurons, words, None)


def _checked(x: np.ndarray, packed: BinaryWeights) -> np.ndarray:
    rows = _as_words("x", x)
    if x.shape[1] * 8 != packed.k:
        require(False, f"x has {x.shape[1] * 8} bits a row; allowed: {packed.k}, as the weights")
    return rows


def binary_counts(x: np.ndarray, packed: BinaryWeights, threads: int | None = None) -> np.ndarray:
    """Differing bits of every input row and neuron: uint8 bits [B, K/8] -> int32 [B, N], exact."""
    rows = _checked(x, packed)
    out = np.empty((x.shape[0], packed.n), np.int32)
    if packed.packed is not None:
        return multiply(rows, packed.packed, packed.packed.zeros, out, threads)
    if out.size:
        over_range(_counts_range, -(-packed.n // VL), rows, packed.words, out, threads=threads)
    return out


def binary_fc(x: np.ndarray, packed: BinaryWeights, threshold: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Neurons that fire, ``differing bits <= threshold``: uint8 bits [B, K/8] -> uint8 bits [B, ceil(N/8)], exact."""
    rows = _checked(x, packed)
    batch, n, matrix = x.shape[0], packed.n, packed.packed
    whole("threshold", threshold, _WORD, 1)
    if threshold.shape != (n,):
        require(False, f"threshold has shape {threshold.shape}; allowed: {(n,)}")
    found = np.empty((batch, -(-n // 16) * 2), _BYTE)
    out = found.view(_PAIR) if n else np.empty((batch, 0), _PAIR)
    if matrix is not None:
        limits = threshold
        if n % NC:
            limits = np.full(panels(n) * NC, -1, np.int32)  # neurons that pad the last panel never fire
            limits[:n] = threshold
        multiply(rows, matrix, matrix.zeros, out, threads, limits)
    elif out.size:
        over_range(_fc_range, out.shape[1], rows, packed.words, threshold, out, threads=threads)
    size = -(-n // 8)
    return found if found.shape[1] == size else np.ascontiguousarray(found[:, :size])
