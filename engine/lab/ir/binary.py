"""Generator of the binary tile: rows of bits against neurons of bits, counted through carry-save adders.

Differing bits are not counted word by word. Words go two by two into a full adder on every bit position, whose sum
("ones") stays in a register and whose carry stands for two differing bits, so half as many words are counted.
With ``a = w1 ^ x1`` and ``b = w2 ^ x2`` of a neuron and a row, and ``o`` the ones so far::

    sum    s = o ^ a ^ b  =  o ^ (w1 ^ w2) ^ (x1 ^ x2)
    carry  majority of o, a and b  =  o where a and b differ (where s differs from o), else a

Weights are stored, and rows are brought once a call, *entwined*: as ``(v1, v1 ^ v2)`` in place of ``(v1, v2)``. Then s
is one ternary operation of three words at hand, ``a`` one exclusive-or and the carry one ternary operation, and b is
never made. With a count and an add to the carry that is five operations for two words, where an exclusive-or, a count
and an add a word are six. More adders before a count gain nothing: one costs as much as counting what it takes in.

Where vectors have no bit count, carries go through more adders before one is counted by nibble look-up: of 16 words
one is (Harley-Seal).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, cgutils, intrinsic, isa, types
from engine.lab.ir.microkernel import HAS_COUNT, INT_KIND, VL, declared, load, multiply_add, splat

VECTORS = 2 if HAS_COUNT or VL == 4 else 1
ACROSS = VECTORS * VL
"""Neurons of a tile, and of a panel of packed weights: whole bytes of results."""
TALL = 4 if HAS_COUNT else 1
"""Rows of the tall tile: with a count and ones for each of 4 x 2 cells, sixteen of 32 registers."""
LINE = 64
_LEVELS = 1 if HAS_COUNT else 4  # of adders before a carry is counted
_TERNARY = VL == 16 and isa() != "portable"
_PAIR, _ADDER = (3, 2) if _TERNARY else (6, 5)
_COUNT = 2 if HAS_COUNT else 7  # with its add; nibble look-up: 2 and, 1 shift, 2 shuffle, 1 add, 1 vpdpbusd
_WORDS = 2**_LEVELS  # to a count
OPERATIONS_PER_WORD = (_WORDS // 2 * _PAIR + (_WORDS // 2 - 1) * _ADDER + _COUNT) / _WORDS
"""Vector operations per word of 32 bits per lane, for an issue bound: adders, count, add. [-]"""

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_SUM, _MAJORITY, _CARRY = 0x96, 0xE8, 0x8E  # tables of the ternary operation


def _ternary(builder: Any, a: Any, b: Any, c: Any, table: int) -> Any:
    function = declared(builder, "llvm.x86.avx512.pternlog.d.512", a.type, [a.type] * 3 + [_I32])
    return builder.call(function, [a, b, c, _I32(table)])


def _pair(builder: Any, carry: Any, a: Any, w: Any, x: Any) -> tuple[Any, Any]:
    """IR: (carry, sum) of ``carry``, ``a`` and the b for which ``a ^ b == w ^ x``."""
    if _TERNARY:
        total = _ternary(builder, carry, w, x, _SUM)
        return _ternary(builder, total, carry, a, _CARRY), total
    differ = builder.xor(w, x)
    return builder.xor(a, builder.and_(differ, builder.xor(carry, a))), builder.xor(carry, differ)


def _adder(builder: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """IR of a full adder on every bit: (carry, sum) of three vectors."""
    if _TERNARY:
        return _ternary(builder, a, b, c, _MAJORITY), _ternary(builder, a, b, c, _SUM)
    half = builder.xor(a, b)
    return builder.or_(builder.and_(a, b), builder.and_(half, c)), builder.xor(half, c)


def _counted(builder: Any, total: Any, value: Any) -> Any:
    """IR: ``total`` plus the set bits of every 32-bit lane of ``value``."""
    if HAS_COUNT:
        count = declared(builder, f"llvm.ctpop.v{VL}i32", value.type, [value.type])
        return builder.add(total, builder.call(count, [value]))
    part = ir.VectorType(_I8, 4 * VL)
    function = declared(builder, f"llvm.ctpop.v{4 * VL}i8", part, [part])
    counts = builder.call(function, [builder.bitcast(value, part)])  # nibble look-up, 0 to 8 a byte
    if INT_KIND == "u8s8":
        unit = ir.Constant(part, [1] * (4 * VL))
        return multiply_add(builder, "u8s8", total, builder.bitcast(counts, value.type), unit)
    words = builder.bitcast(counts, value.type)
    for shift in (8, 16):  # no byte exceeds 32, so no carry crosses into the lowest byte
        words = builder.add(words, builder.lshr(words, ir.Constant(value.type, [shift] * VL)))
    return builder.add(total, builder.and_(words, ir.Constant(value.type, [0xFF] * VL)))


def _generate(height: int) -> Any:
    vector = ir.VectorType(_I32, VL)
    zero = ir.Constant(vector, None)

    def times(builder: Any, value: Any, power: int) -> Any:
        return builder.shl(value, ir.Constant(vector, [power] * VL))

    @intrinsic
    def generated(
        typingctx: Any, x: Any, row: Any, w: Any, w_off: Any, fetch: Any, limits: Any, out: Any, col: Any
    ) -> Any:
        bits = str(out.dtype) == "uint8"
        wide = ACROSS // 8 if bits else 4 * ACROSS  # bytes of a tile's row of results

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def array(index: int) -> Any:
                return context.make_array(signature.args[index])(context, builder, args[index])

            def start(array: Any) -> Any:
                return builder.bitcast(array.data, _I8.as_pointer())

            inputs, weights, row, col = array(0), start(array(2)), args[1], args[7]
            pairs = builder.extract_value(inputs.shape, 1)
            row_bytes = builder.mul(pairs, _I64(8))
            w_at = builder.gep(weights, [builder.mul(args[3], _I64(4))])
            fetch_at = builder.gep(weights, [args[4]])
            row_at = [
                builder.gep(start(inputs), [builder.mul(builder.add(row, _I64(r)), row_bytes)]) for r in range(height)
            ]
            cells = [(r, j) for r in range(height) for j in range(VECTORS)]
            count = {cell: cgutils.alloca_once(builder, vector) for cell in cells}
            levels = {cell: [cgutils.alloca_once(builder, vector) for _ in range(_LEVELS)] for cell in cells}
            for cell in cells:
                for place in (count[cell], *levels[cell]):
                    builder.store(zero, place)
            hint = declared(builder, "llvm.prefetch.p0", ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
            lines = 8 * ACROSS // LINE if height == 1 else 1

            def first_carries(pair: Any) -> dict[tuple[int, int], Any]:
                """Carry of every cell out of its first level, by one pair of words."""
                for line in range(lines):
                    at = builder.add(builder.mul(pair, _I64(lines * LINE)), _I64(line * LINE))
                    builder.call(hint, [builder.gep(fetch_at, [at]), _I32(0), _I32(3), _I32(1)])
                at = builder.gep(w_at, [builder.mul(pair, _I64(8 * ACROSS))])
                w = [[load(builder, at, _I64(4 * VL * (2 * j + i)), vector) for i in (0, 1)] for j in range(VECTORS)]
                result, offset = {}, builder.mul(pair, _I64(8))
                for r in range(height):
                    word, second = (load(builder, row_at[r], builder.add(offset, _I64(i)), _I32) for i in (0, 4))
                    word, second = splat(builder, word, VL), splat(builder, second, VL)
                    for j in range(VECTORS):
                        place, a = levels[r, j][0], builder.xor(w[j][0], word)
                        result[r, j], total = _pair(builder, builder.load(place), a, w[j][1], second)
                        builder.store(total, place)
                return result

            def add_counts(carries: dict[tuple[int, int], Any]) -> None:
                for cell, carry in carries.items():
                    builder.store(_counted(builder, builder.load(count[cell]), carry), count[cell])

            each = _WORDS // 2  # pairs to a count
            turns = builder.sdiv(pairs, _I64(each))
            with cgutils.for_range(builder, turns) as loop:
                begin = builder.mul(loop.index, _I64(each))

                def carries(level: int, pair: int) -> dict[tuple[int, int], Any]:
                    """Carries out of ``level``, of ``2**level`` pairs from ``pair`` of this turn."""
                    if level == 0:
                        return first_carries(builder.add(begin, _I64(pair)))
                    low, high = (carries(level - 1, pair + i * 2 ** (level - 1)) for i in (0, 1))
                    result = {}
                    for cell in cells:
                        place = levels[cell][level]
                        result[cell], total = _adder(builder, builder.load(place), low[cell], high[cell])
                        builder.store(total, place)
                    return result

                add_counts(carries(_LEVELS - 1, 0))
            for cell in cells:  # from here on in units of a first carry, two bits
                total = times(builder, builder.load(count[cell]), _LEVELS - 1)
                for level, place in enumerate(levels[cell][1:]):
                    more = _counted(builder, zero, builder.load(place))
                    total = builder.add(total, times(builder, more, level))
                builder.store(total, count[cell])
            walked = builder.mul(turns, _I64(each))
            with cgutils.for_range(builder, builder.sub(pairs, walked)) as loop:
                add_counts(first_carries(builder.add(walked, loop.index)))
            totals = {}
            for cell in cells:
                twice = times(builder, builder.load(count[cell]), 1)
                totals[cell] = _counted(builder, twice, builder.load(levels[cell][0]))

            output, limits_of, size = array(6), array(5), 1 if bits else 4
            ldo = builder.extract_value(output.shape, 1)
            first = builder.sdiv(col, _I64(8)) if bits else col
            out_at = builder.add(builder.mul(row, ldo), first)
            out_at = builder.gep(start(output), [builder.mul(out_at, _I64(size))])
            inside = builder.mul(builder.sub(ldo, first), _I64(size))
            complete = builder.icmp_signed(">=", inside, _I64(wide))
            spill = builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(_I8, height * wide)), _I8.as_pointer())
            target = builder.select(complete, out_at, spill)
            line = builder.mul(ldo, _I64(size))
            stride = builder.select(complete, line, _I64(wide))
            limit_at = builder.gep(start(limits_of), [builder.mul(col, _I64(4))])
            if bits:
                known = builder.sub(builder.extract_value(limits_of.shape, 0), col)
                known_all = builder.icmp_signed(">=", known, _I64(ACROSS))
                padded = builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(_I8, 4 * ACROSS)), _I8.as_pointer())
                with builder.if_then(builder.not_(known_all), likely=False):
                    cgutils.memset(builder, padded, _I64(4 * ACROSS), 0xFF)  # -1: no neuron there, none fires
                    cgutils.raw_memcpy(builder, padded, limit_at, known, 4)
                limit_at = builder.select(known_all, limit_at, padded)
            for r in range(height):
                place = builder.gep(target, [builder.mul(stride, _I64(r))])
                mask = ir.IntType(ACROSS)
                fired = mask(0)
                for j in range(VECTORS):
                    if bits:
                        limit = load(builder, limit_at, _I64(4 * VL * j), vector)
                        fires = builder.bitcast(builder.icmp_signed("<=", totals[r, j], limit), ir.IntType(VL))
                        fires = builder.zext(fires, mask) if VECTORS > 1 else fires
                        fired = builder.or_(fired, builder.shl(fires, mask(VL * j)))
                    else:
                        at = builder.bitcast(builder.gep(place, [_I64(4 * VL * j)]), vector.as_pointer())
                        builder.store(totals[r, j], at, align=1)
                if bits:
                    builder.store(fired, builder.bitcast(place, mask.as_pointer()), align=1)
            with builder.if_then(builder.not_(complete), likely=False):
                for r in range(height):
                    source = builder.gep(spill, [_I64(wide * r)])
                    cgutils.raw_memcpy(builder, builder.gep(out_at, [builder.mul(line, _I64(r))]), source, inside, 1)
            return context.get_dummy_value()

        n = types.intp
        return types.void(x, n, w, n, n, limits, out, n), codegen

    return generated


def _interpreted(height: int) -> Any:
    """The intrinsic in plain Python over the same panels, for when nothing is compiled."""

    def tile_in_python(x, row, w, w_off, fetch, limits, out, col):
        pairs = x.shape[1]
        rows = x[row : row + height].view(np.uint32).reshape(height, pairs, 1, 2, 1).copy()
        weights = w[w_off : w_off + 2 * pairs * ACROSS].view(np.uint32).reshape(pairs, VECTORS, 2, VL).copy()
        for entwined in (rows, weights):
            entwined[..., 1, :] ^= entwined[..., 0, :]
        total = np.bitwise_count(rows ^ weights).sum((1, 3), dtype=np.int32).reshape(height, ACROSS)
        if out.dtype == np.uint8:
            known = limits[col : col + ACROSS]
            total = np.packbits(total[:, : known.size] <= known, axis=1, bitorder="little")
            col //= 8
        place = out[row : row + height, col : col + total.shape[1]]
        place[:] = total[:, : place.shape[1]]

    return tile_in_python


def tile(height: int) -> Any:
    """The tile of ``height`` rows, :data:`TALL` or 1, to be called from a compiled range kernel.

    ``tile(x, row, w, w_off, fetch, limits, out, col)``: rows ``row:row + height`` of ``x``, int64 [M, pairs of words],
    against the panel ``[pair][vector][2][VL]`` at word ``w_off`` of ``w``, both entwined. The type of ``out`` picks the
    epilogue: int32 [M, N] stores differing bits from column ``col`` on, uint8 [M, ceil(N / 8)] a bit a neuron, whether
    they are at most ``limits[col:]``; neurons beyond ``limits`` never fire, and what is beyond ``out`` is not written.
    At every pair the tile also asks for weights from byte ``fetch`` of ``w`` on, as many as it reads where it is one
    row high, a line otherwise.
    """
    return (_generate if JIT_ENABLED else _interpreted)(height)


@intrinsic
def _pair_now(typingctx: Any, rows: Any, at: Any) -> Any:
    """IR: eight bytes from ``at``, aligned or not."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return load(builder, builder.bitcast(data, _I8.as_pointer()), args[1], _I64)

    return types.int64(rows, types.intp), codegen


def _pair_python(rows: Any, at: int) -> Any:
    return rows.reshape(-1)[at : at + 8].copy().view(np.int64)[0]


pair_at: Any = _pair_now if JIT_ENABLED else _pair_python
"""``pair_at(rows, at)``: the eight bytes from byte ``at`` of a byte array as one int64, aligned or not."""
