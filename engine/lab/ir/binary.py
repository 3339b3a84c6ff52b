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
"""

from typing import Any

from llvmlite import ir

from engine.kernels.jit import cgutils, intrinsic, isa, types
from engine.lab.ir.lanes import LINE, VL, array_at, ask_for, declare
from engine.lab.ir.microkernel import HAS_COUNT, INT_KIND, load, multiply_add, splat

VECTORS = 2 if HAS_COUNT or VL == 4 else 1
ACROSS = VECTORS * VL
"""Neurons of a tile, and of a panel of packed weights: whole bytes of results."""
TALL = 4 if HAS_COUNT else 1
"""Rows of the tall tile: with a count and ones for each of 4 x 2 cells, sixteen of 32 registers."""
_TERNARY = VL == 16 and isa() != "portable"
_PAIR = 3 if _TERNARY else 6
_COUNT = 2 if HAS_COUNT else 7  # with its add; nibble look-up: 2 and, 1 shift, 2 shuffle, 1 add, 1 vpdpbusd
OPERATIONS_PER_WORD = (_PAIR + _COUNT) / 2
"""Vector operations per word of 32 bits per lane, for an issue bound: adder, count, add. [-]"""

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_SUM, _CARRY = 0x96, 0x8E  # tables of the ternary operation


def _ternary(builder: Any, a: Any, b: Any, c: Any, table: int) -> Any:
    function = declare(builder, "llvm.x86.avx512.pternlog.d.512", a.type, [a.type] * 3 + [_I32])
    return builder.call(function, [a, b, c, _I32(table)])


def _pair(builder: Any, carry: Any, a: Any, w: Any, x: Any) -> tuple[Any, Any]:
    """IR: (carry, sum) of ``carry``, ``a`` and the b for which ``a ^ b == w ^ x``."""
    if _TERNARY:
        total = _ternary(builder, carry, w, x, _SUM)
        return _ternary(builder, total, carry, a, _CARRY), total
    differ = builder.xor(w, x)
    return builder.xor(a, builder.and_(differ, builder.xor(carry, a))), builder.xor(carry, differ)


def _count_bits(builder: Any, total: Any, value: Any) -> Any:
    """IR: ``total`` plus the set bits of every 32-bit lane of ``value``."""
    if HAS_COUNT:
        count = declare(builder, f"llvm.ctpop.v{VL}i32", value.type, [value.type])
        return builder.add(total, builder.call(count, [value]))
    part = ir.VectorType(_I8, 4 * VL)
    function = declare(builder, f"llvm.ctpop.v{4 * VL}i8", part, [part])
    counts = builder.call(function, [builder.bitcast(value, part)])  # nibble look-up, 0 to 8 a byte
    if INT_KIND == "u8s8":
        unit = ir.Constant(part, [1] * (4 * VL))
        return multiply_add(builder, "u8s8", total, builder.bitcast(counts, value.type), unit)
    words = builder.bitcast(counts, value.type)
    for shift in (8, 16):  # no byte exceeds 32, so no carry crosses into the lowest byte
        words = builder.add(words, builder.lshr(words, ir.Constant(value.type, [shift] * VL)))
    return builder.add(total, builder.and_(words, ir.Constant(value.type, [0xFF] * VL)))


def tile(height: int) -> Any:
    """The tile of ``height`` rows, :data:`TALL` or 1, to be called from a compiled range kernel.

    ``tile(x, row, w, w_off, fetch, out, col)``: differing bits of rows ``row:row + height`` of ``x``, int64 [M, pairs
    of words], and the panel ``[pair][vector][2][VL]`` at word ``w_off`` of ``w``, both entwined, into int32 ``out``
    [M, N] from column ``col`` on; what is beyond ``out`` is not written.
    At every pair the tile also asks for weights from byte ``fetch`` of ``w`` on, as many as it reads where it is one
    row high, a line otherwise.
    """
    vector = ir.VectorType(_I32, VL)
    zero, row_bytes_out = ir.Constant(vector, None), 4 * ACROSS
    cells = [(r, j) for r in range(height) for j in range(VECTORS)]
    lines = 8 * ACROSS // LINE if height == 1 else 1  # asked for at a pair of words

    @intrinsic
    def emit(typingctx: Any, x: Any, row: Any, w: Any, w_off: Any, fetch: Any, out: Any, col: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            arrays = (array_at(context, builder, signature, args, place) for place in (0, 2, 5))
            (inputs, x_start), (_, weights), (output, start), row, col = *arrays, args[1], args[6]
            pairs = builder.extract_value(inputs.shape, 1)
            w_at = builder.gep(weights, [builder.mul(args[3], _I64(4))])
            fetch_at = builder.gep(weights, [args[4]])
            x_at = builder.gep(x_start, [builder.mul(row, builder.mul(pairs, _I64(8)))])
            row_at = [builder.gep(x_at, [builder.mul(_I64(8 * r), pairs)]) for r in range(height)]
            count, units = ({cell: cgutils.alloca_once_value(builder, zero) for cell in cells} for _ in range(2))
            with cgutils.for_range(builder, pairs) as loop:
                pair = loop.index
                for line in range(lines):
                    at = builder.add(builder.mul(pair, _I64(lines * LINE)), _I64(line * LINE))
                    ask_for(builder, builder.gep(fetch_at, [at]))
                at = builder.gep(w_at, [builder.mul(pair, _I64(8 * ACROSS))])
                w = [[load(builder, at, _I64(4 * VL * (2 * j + i)), vector) for i in (0, 1)] for j in range(VECTORS)]
                offset = builder.mul(pair, _I64(8))
                for r in range(height):
                    word, second = (load(builder, row_at[r], builder.add(offset, _I64(i)), _I32) for i in (0, 4))
                    word, second = splat(builder, word, VL), splat(builder, second, VL)
                    for j in range(VECTORS):
                        place, a = units[r, j], builder.xor(w[j][0], word)
                        carry, total = _pair(builder, builder.load(place), a, w[j][1], second)
                        builder.store(total, place)
                        builder.store(_count_bits(builder, builder.load(count[r, j]), carry), count[r, j])

            ldo = builder.extract_value(output.shape, 1)
            out_at = builder.gep(start, [builder.mul(builder.add(builder.mul(row, ldo), col), _I64(4))])
            inside, line = (builder.mul(width, _I64(4)) for width in (builder.sub(ldo, col), ldo))
            complete = builder.icmp_signed(">=", inside, _I64(row_bytes_out))
            room = ir.ArrayType(_I8, height * row_bytes_out)
            spill = builder.bitcast(cgutils.alloca_once(builder, room), _I8.as_pointer())
            target = builder.select(complete, out_at, spill)
            stride = builder.select(complete, line, _I64(row_bytes_out))
            for r, j in cells:
                twice = builder.shl(builder.load(count[r, j]), ir.Constant(vector, [1] * VL))
                total = _count_bits(builder, twice, builder.load(units[r, j]))
                at = builder.gep(target, [builder.add(builder.mul(stride, _I64(r)), _I64(4 * VL * j))])
                builder.store(total, builder.bitcast(at, vector.as_pointer()), align=1)
            with builder.if_then(builder.not_(complete), likely=False):
                for r in range(height):
                    source = builder.gep(spill, [_I64(row_bytes_out * r)])
                    cgutils.raw_memcpy(builder, builder.gep(out_at, [builder.mul(line, _I64(r))]), source, inside, 1)
            return context.get_dummy_value()

        n = types.intp
        return types.void(x, n, w, n, n, out, n), codegen

    return emit
