"""BF16 products: patterns stored packed, sums in float32.

::

    packed = pack_bf16(b)                 # float32 [K, N], rounded, or uint16 patterns, once
    gemm_bf16(a_bits, packed)             # bf16 patterns [M, K] -> float32 [M, N]

With AVX512-BF16 the tile is vdpbf16ps (denormals count as zero there, and each pair is rounded once less than two fused
steps); elsewhere the values are widened once, exactly, and run on the FP32 tile at its rate.
"""

import numpy as np

from engine.lab.ir.microkernel import HAS_BF16, in_panels
from engine.lab.operators.gemm import Packed, checked, gemm_f32, multiply, pack_f32, padded
from engine.lab.ranges import output, require, whole


def rounded_bits(values: np.ndarray, format: str) -> np.ndarray:
    """Patterns (uint16) of ``values`` in ``bf16`` or ``fp16``, nearest even; what is too large is infinity."""
    require(format in ("bf16", "fp16"), f"format is {format!r}; allowed: bf16, fp16")
    values = np.ascontiguousarray(values, np.float32)
    if format == "fp16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def _widened(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def pack_bf16(b: np.ndarray) -> Packed:
    """Pack weights [K, N]: float32 values, which are rounded, or uint16 patterns."""
    patterns = isinstance(b, np.ndarray) and b.dtype == np.uint16
    whole("b", b, np.uint16 if patterns else np.float32, 2)
    bits = b if patterns else rounded_bits(b, "bf16")
    return Packed("bf16", *b.shape, in_panels(bits, "bf16", np.uint16)) if HAS_BF16 else pack_f32(_widened(bits))


def gemm_bf16(
    a_bits: np.ndarray,
    packed: Packed,
    bias: np.ndarray | None = None,
    relu: bool = False,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``max(a @ b + bias, relu ? 0 : -inf)``: bf16 patterns (uint16) [M, K] -> float32 [M, N]."""
    if not HAS_BF16:
        return gemm_f32(_widened(whole("a_bits", a_bits, np.uint16, 2)), packed, bias, relu, out, threads)
    checked(a_bits, np.uint16, packed, "bf16", "a_bits")
    init = packed.zeros if bias is None else padded("bias", bias, packed.n, np.float32)
    out = output(out, (a_bits.shape[0], packed.n), np.float32)
    return multiply(a_bits, packed, init, out, threads, low=np.float32(0 if relu else -np.inf))
