"""Binary fully connected layer: 1-bit weights and activations, popcount of the exclusive-or, threshold to 1 bit.

A neuron's agreement count is ``K - popcount(w ^ x)``; it fires (1) when the number of *differing* bits is at most
its threshold, which folds batch normalisation and sign into one integer comparison.

::

    packed = pack_binary(w)          # uint8 bits [N, K/8] -> BinaryWeights, once
    binary_counts(x, packed)         # uint8 bits [B, K/8] -> int32 [B, N], differing bits, exact
    binary_fc(x, packed, threshold)  # int32 [N] thresholds -> uint8 bits [B, ceil(N/8)], bit j of byte i = neuron 8i+j

Where the processor counts bits of vectors (VPOPCNTDQ) a word costs an exclusive-or, a count and an add. Elsewhere
words first go through carry-save adders, 16 to one count, which costs 3.3 operations a word instead of 8
(Harley-Seal; with AVX-512 an adder is two ternary-logic operations).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, cgutils, host_features, intrinsic, isa, kernel, types
from engine.kernels.operators.gemm import aligned
from engine.kernels.operators.microkernel import INT_KIND, VL, declared, load, multiply_add, splat
from engine.kernels.operators.ranges import over_range, require, whole

__all__ = ["NATIVE_COUNT", "OPERATIONS_PER_WORD", "BinaryWeights", "binary_counts", "binary_fc", "pack_binary"]

NATIVE_COUNT = VL == 16 and "avx512vpopcntdq" in host_features()
"""Whether vectors are bit-counted by one instruction."""

_TREE = 16
_COUNT_OPERATIONS = 7  # count of one vector by nibble look-up: 2 and, 1 shift, 2 shuffle, 1 add, 1 vpdpbusd
OPERATIONS_PER_WORD = 3.0 if NATIVE_COUNT else (_TREE + 2 * (_TREE - 1) + _COUNT_OPERATIONS) / _TREE
"""Vector operations per word of 32 bits per lane, for an issue bound: exclusive-or, adders or count, add. [-]"""

_TILE = 1 if not NATIVE_COUNT else 4  # rows sharing each loaded weight vector
_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


@dataclass(frozen=True, eq=False)
class BinaryWeights:
    """Weights [n, k] in 32-bit words, layout ``[panel][word][VL]``, one neuron to a lane; k and n in bits."""

    k: int
    n: int
    words: np.ndarray


def _adder(builder: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """IR of a full adder on every bit: (carry, sum) of three vectors."""
    if VL == 16 and isa() != "portable":
        function = declared(builder, "llvm.x86.avx512.pternlog.d.512", a.type, [a.type] * 3 + [_I32])
        return builder.call(function, [a, b, c, _I32(0xE8)]), builder.call(function, [a, b, c, _I32(0x96)])
    half = builder.xor(a, b)
    return builder.or_(builder.and_(a, b), builder.and_(half, c)), builder.xor(half, c)


def _counted(builder: Any, total: Any, value: Any) -> Any:
    """IR: ``total`` plus the set bits of every 32-bit lane of ``value``."""
    if NATIVE_COUNT:
        function = declared(builder, f"llvm.ctpop.v{VL}i32", value.type, [value.type])
        return builder.add(total, builder.call(function, [value]))
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


def _tile_ir(rows_at_once: int) -> Any:
    vector = ir.VectorType(_I32, VL)

    @intrinsic
    def generated(typingctx: Any, x: Any, x_off: Any, ldx: Any, w: Any, w_off: Any, words: Any, out: Any, out_off: Any):  # type: ignore[no-untyped-def]  # numba reads the arguments, not the result
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def data(index: int, offset: Any) -> Any:
                array = context.make_array(signature.args[index])(context, builder, args[index])
                return builder.gep(builder.bitcast(array.data, _I8.as_pointer()), [builder.mul(offset, _I64(4))])

            x_at, ldx, w_at, words, out_at = data(0, args[1]), args[2], data(3, args[4]), args[5], data(6, args[7])
            zero = ir.Constant(vector, None)

            def differing(row: Any, index: Any) -> Any:
                weights = load(builder, w_at, builder.mul(index, _I64(4 * VL)), vector)
                return builder.xor(weights, splat(builder, load(builder, row, builder.mul(index, _I64(4)), _I32), VL))

            rows = [builder.gep(x_at, [builder.mul(ldx, _I64(4 * r))]) for r in range(rows_at_once)]
            counts = [cgutils.alloca_once(builder, vector) for _ in rows]
            for place in counts:
                builder.store(zero, place)
            done = _I64(0)
            if not NATIVE_COUNT:
                levels = 4
                carried = [[cgutils.alloca_once(builder, vector) for _ in range(levels)] for _ in rows]
                for place in (p for row in carried for p in row):
                    builder.store(zero, place)
                turns = builder.sdiv(words, _I64(_TREE))
                with cgutils.for_range(builder, turns) as loop:
                    first = builder.mul(loop.index, _I64(_TREE))
                    for row, held, count in zip(rows, carried, counts, strict=True):

                        def reduced(
                            level: int, start: int, row: Any = row, held: Any = held, first: Any = first
                        ) -> Any:
                            """Carry out of ``level`` for ``2**(level + 1)`` words from ``start``."""
                            if level < 0:
                                return differing(row, builder.add(first, _I64(start)))
                            a, b = reduced(level - 1, start), reduced(level - 1, start + 2**level)
                            carry, total = _adder(builder, builder.load(held[level]), a, b)
                            builder.store(total, held[level])
                            return carry

                        sixteens = reduced(levels - 1, 0)
                        builder.store(_counted(builder, builder.load(count), sixteens), count)
                for held, count in zip(carried, counts, strict=True):
                    total = builder.shl(builder.load(count), ir.Constant(vector, [levels] * VL))
                    for level, place in enumerate(held):
                        ones = _counted(builder, zero, builder.load(place))
                        total = builder.add(total, builder.shl(ones, ir.Constant(vector, [level] * VL)))
                    builder.store(total, count)
                done = builder.mul(turns, _I64(_TREE))
            with cgutils.for_range(builder, builder.sub(words, done)) as loop:
                index = builder.add(done, loop.index)
                for row, count in zip(rows, counts, strict=True):
                    builder.store(_counted(builder, builder.load(count), differing(row, index)), count)
            for r, count in enumerate(counts):
                target = builder.bitcast(builder.gep(out_at, [_I64(4 * VL * r)]), vector.as_pointer())
                builder.store(builder.load(count), target, align=1)
            return context.get_dummy_value()

        index = types.intp
        return types.void(x, index, index, w, index, index, out, index), codegen

    return generated


def _tile_python(rows_at_once: int) -> Any:
    def tile_in_python(x, x_off, ldx, w, w_off, words, out, out_off):  # type: ignore[no-untyped-def]  # mirrors the intrinsic
        weights = w[w_off : w_off + words * VL].view(np.uint32).reshape(words, VL)
        for r in range(rows_at_once):
            row = x.reshape(-1)[x_off + r * ldx : x_off + r * ldx + words].view(np.uint32)
            count = np.bitwise_count(weights ^ row[:, None]).sum(0, dtype=np.int32)
            out[out_off + r * VL : out_off + (r + 1) * VL] = count

    return tile_in_python


_make_tile = _tile_ir if JIT_ENABLED else _tile_python
_one, _several = _make_tile(1), _make_tile(_TILE)


@kernel
def _pack(bits, words):
    neurons, count = bits.shape
    for j in range(neurons):
        for i in range(count):
            words[(j // VL * count + i) * VL + j % VL] = bits[j, i]


@kernel
def _counts_range(lo, hi, x, words, out):
    batch, k = x.shape
    neurons = out.shape[1]
    found = np.empty(_TILE * VL, np.int32)
    for panel in range(lo, hi):
        cols = min(VL, neurons - panel * VL)
        row = 0
        while row < batch:
            rows = _TILE if batch - row >= _TILE else 1
            if rows == 1:
                _one(x, row * k, k, words, panel * k * VL, k, found, 0)
            else:
                _several(x, row * k, k, words, panel * k * VL, k, found, 0)
            for r in range(rows):
                for j in range(cols):
                    out[row + r, panel * VL + j] = found[r * VL + j]
            row += rows


@kernel
def _fc_range(lo, hi, x, words, threshold, out):
    batch, k = x.shape
    per_pair = 16 // VL if VL < 16 else 1
    neurons = threshold.size
    found = np.empty(_TILE * VL, np.int32)
    for pair in range(lo, hi):
        row = 0
        while row < batch:
            rows = _TILE if batch - row >= _TILE else 1
            for part in range(per_pair):
                panel = pair * per_pair + part
                if panel * VL < neurons:
                    if rows == 1:
                        _one(x, row * k, k, words, panel * k * VL, k, found, 0)
                    else:
                        _several(x, row * k, k, words, panel * k * VL, k, found, 0)
                    for r in range(rows):
                        if part == 0:
                            out[row + r, pair] = 0
                        bits = np.uint32(0)
                        for j in range(min(VL, neurons - panel * VL)):
                            fires = found[r * VL + j] <= threshold[panel * VL + j]
                            bits |= np.uint32(fires) << np.uint32(j)
                        out[row + r, pair] |= np.uint16(bits << np.uint32(part * VL))
            row += rows


def _as_words(name: str, bits: np.ndarray) -> np.ndarray:
    """Rows of packed bits as whole 32-bit words; a shorter last word is zero padded on both operands."""
    whole(name, bits, np.uint8, 2)
    rows, size = bits.shape
    if size % 4 == 0:
        return bits.reshape(-1).view(np.int32).reshape(rows, size // 4) if bits.size else np.zeros((rows, 0), np.int32)
    full = np.zeros((rows, -(-size // 4) * 4), np.uint8)
    full[:, :size] = bits
    return full.view(np.int32)


def pack_binary(w: np.ndarray) -> BinaryWeights:
    """Pack weights given as bytes of bits, uint8 [N, K/8], for :func:`binary_fc`."""
    rows = _as_words("w", w)
    neurons, count = rows.shape
    words = aligned(-(-neurons // VL) * VL * count, np.int32)
    _pack(rows, words)
    return BinaryWeights(w.shape[1] * 8, neurons, words)


def _checked(x: np.ndarray, packed: BinaryWeights) -> np.ndarray:
    rows = _as_words("x", x)
    require(x.shape[1] * 8 == packed.k, f"x has {x.shape[1] * 8} bits a row; allowed: {packed.k}, as the weights")
    return rows


def binary_counts(x: np.ndarray, packed: BinaryWeights, threads: int | None = None) -> np.ndarray:
    """Differing bits of every input row and neuron: uint8 bits [B, K/8] -> int32 [B, N], exact."""
    rows = _checked(x, packed)
    out = np.empty((x.shape[0], packed.n), np.int32)
    if out.size:
        over_range(_counts_range, -(-packed.n // VL), rows, packed.words, out, threads=threads)
    return out


def binary_fc(x: np.ndarray, packed: BinaryWeights, threshold: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Neurons that fire, ``differing bits <= threshold``: uint8 bits [B, K/8] -> uint8 bits [B, ceil(N/8)], exact."""
    rows = _checked(x, packed)
    whole("threshold", threshold, np.int32, 1)
    require(threshold.shape == (packed.n,), f"threshold has shape {threshold.shape}; allowed: {(packed.n,)}")
    out = np.zeros((x.shape[0], -(-packed.n // 16)), np.uint16)
    if out.size:
        over_range(_fc_range, out.shape[1], rows, packed.words, threshold, out, threads=threads)
    return np.ascontiguousarray(out.view(np.uint8)[:, : -(-packed.n // 8)])
