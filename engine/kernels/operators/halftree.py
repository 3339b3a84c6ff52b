"""FP16 matrix-vector product in the order of DFX's unit: products, a pairwise tree, then tiles, all rounded to fp16.

For every lane (output) and every tile of ``d`` inputs: ``d`` products, each rounded to fp16; a tree that adds
neighbours, each sum rounded to fp16; the tile's sum is added to the running fp16 sum. The result is bit-exact
against the same tree in numpy float16, for every input including subnormals, overflow and NaN positions.

::

    packed = pack_tree(w)            # fp16 patterns uint16 [N, K], once
    tree_matvec(packed, x, d=64)     # fp16 patterns uint16 [K] -> uint16 [N]; K padded with +0 to whole tiles

A value is rounded by conversion to fp16 and back, in registers. Without conversion instructions it is done in float32:
``(x + M) - M`` with ``M = 1.5 * 2**13 * max(2**floor(log2 |x|), 2**-14)`` is exact, overflow is clamped apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, intrinsic, kernel, types
from engine.kernels.operators.gemm import aligned
from engine.kernels.operators.lanes import HALF, half_vector, has_f16c
from engine.kernels.operators.microkernel import VL, load, splat
from engine.kernels.operators.ranges import over_range, require, whole

__all__ = ["WIDTHS", "TreeWeights", "pack_tree", "tree_matvec"]

WIDTHS = (16, 32, 64, 128)
_AHEAD = 8 * 1024  # bytes of weights to prefetch ahead: beyond one page, within a second-level cache
_I8, _I16, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()


@dataclass(frozen=True, eq=False)
class TreeWeights:
    """fp16 patterns in ``[panel][k][VL]``, one output to a lane; n outputs, k inputs."""

    n: int
    k: int
    words: np.ndarray


def _rounded(builder: Any, value: Any) -> Any:
    """IR: float32 lanes rounded to the nearest fp16 (ties to even), kept as float32."""
    floats, words = value.type, ir.VectorType(_I32, VL)

    def bits(constant: int) -> Any:
        return ir.Constant(words, [constant] * VL)

    raw = builder.bitcast(value, words)
    magnitude, sign = builder.and_(raw, bits(0x7FFFFFFF)), builder.and_(raw, bits(0x80000000))
    power = builder.and_(raw, bits(0x7F800000))
    small = bits((127 - 14) << 23)
    power = builder.select(builder.icmp_unsigned(">", power, small), power, small)
    big = builder.bitcast(builder.add(power, bits((13 << 23) | 0x400000)), floats)
    near = builder.bitcast(builder.fsub(builder.fadd(value, big), big), words)
    near = builder.or_(near, sign)  # a sum that rounds to zero keeps its sign
    limit = int(np.float32(65520).view(np.uint32))
    infinite = builder.select(
        builder.icmp_unsigned(">", magnitude, bits(0x7F800000)), raw, builder.or_(sign, bits(0x7F800000))
    )
    result = builder.select(builder.icmp_unsigned("<", magnitude, bits(limit)), near, infinite)
    return builder.bitcast(result, floats)


def _tile_ir(width: int) -> Any:
    floats = ir.VectorType(_F32, VL)
    shorts = ir.VectorType(_I16, VL)
    halves = ir.VectorType(HALF, VL)

    @intrinsic
    def generated(typingctx: Any, w: Any, w_off: Any, x: Any, x_off: Any, total: Any):
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def data(index: int, offset: Any, each: int) -> Any:
                array = context.make_array(signature.args[index])(context, builder, args[index])
                return builder.gep(builder.bitcast(array.data, _I8.as_pointer()), [builder.mul(offset, _I64(each))])

            w_at, x_at, total_at = data(0, args[1], 2), data(2, args[3], 4), data(4, _I64(0), 4)
            name = "llvm.prefetch.p0"
            kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
            hint = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)

            def half(value: Any) -> Any:
                if has_f16c():
                    return builder.fpext(builder.fptrunc(value, halves), floats)
                return _rounded(builder, value)

            level = []
            for i in range(width):
                if i * 2 * VL % 64 == 0:
                    line = builder.gep(w_at, [_I64(i * 2 * VL + _AHEAD)])
                    builder.call(hint, [line, _I32(0), _I32(3), _I32(1)])
                weight = half_vector(builder, load(builder, w_at, _I64(2 * VL * i), shorts), VL)
                level.append(half(builder.fmul(weight, splat(builder, load(builder, x_at, _I64(4 * i), _F32), VL))))
            while len(level) > 1:  # level by level: what is rounded next does not wait for what was rounded last
                level = [half(builder.fadd(a, b)) for a, b in zip(level[::2], level[1::2], strict=True)]
            value = half(builder.fadd(load(builder, total_at, _I64(0), floats), level[0]))
            builder.store(value, builder.bitcast(total_at, floats.as_pointer()), align=1)
            return context.get_dummy_value()

        index = types.intp
        return types.void(w, index, x, index, total), codegen

    return generated


def _tile_python(width: int) -> Any:
    def tile_in_python(w, w_off, x, x_off, total):
        weights = w[w_off : w_off + width * VL].view(np.float16).reshape(width, VL)
        with np.errstate(all="ignore"):
            level = weights * x[x_off : x_off + width].astype(np.float16)[:, None]
            while len(level) > 1:
                level = level[0::2] + level[1::2]
            total[:] = (total.astype(np.float16) + level[0]).astype(np.float32)

    return tile_in_python


_make_tile = _tile_ir if JIT_ENABLED else _tile_python
_tree_16, _tree_32, _tree_64, _tree_128 = (_make_tile(width) for width in WIDTHS)


@kernel
def tree_panels(lo, hi, words, x, width, out):
    """Panels ``[lo, hi)`` of VL outputs."""
    k = x.size
    total = np.empty(VL, np.float32)
    for panel in range(lo, hi):
        total[:] = 0
        for i in range(0, k, width):
            at = (panel * k + i) * VL
            if width == 64:
                _tree_64(words, at, x, i, total)
            elif width == 128:
                _tree_128(words, at, x, i, total)
            elif width == 32:
                _tree_32(words, at, x, i, total)
            else:
                _tree_16(words, at, x, i, total)
        for j in range(VL):
            out[panel * VL + j] = total[j]


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


def tree_matvec(packed: TreeWeights, x: np.ndarray, d: int = 64, threads: int | None = None) -> np.ndarray:
    """Product of packed weights and ``x`` (uint16 fp16 patterns [K]) in the order of the tree -> uint16 [N].

    Bit-exact against numpy float16, NaN payloads aside. K is taken as padded with +0 to a multiple of 128.
    """
    whole("x", x, np.uint16, 1)
    require(d in WIDTHS, f"d is {d}; allowed: {', '.join(map(str, WIDTHS))}")
    require(x.shape == (packed.k,), f"x has shape {x.shape}; allowed: {(packed.k,)}")
    across = -(-packed.n // VL)
    deep = -(-packed.k // WIDTHS[-1]) * WIDTHS[-1]
    wide = np.zeros(deep, np.float32)
    wide[: packed.k] = x.view(np.float16)
    out = np.zeros(across * VL, np.float32)
    if out.size and deep:
        over_range(tree_panels, across, packed.words, wide, d, out, threads=threads)
    return out[: packed.n].astype(np.float16).view(np.uint16)
