"""An operator with its buffers, ready to be timed, and what its output should have been in float64.

Weights and inputs are noise (one block of it, repeated), which no kernel here is faster or slower for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from engine.lab.operators.gemm import bf16_bits, gemm_f32, gemm_u8, pack_bf16, pack_f32, pack_s8
from engine.lab.operators.pointwise import quantise
from engine.scenario import ScenarioError

Check = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Output -> (a sample of it, the float64 values of the same)."""

_BLOCK = np.random.default_rng(7).standard_normal(1 << 20).astype(np.float32)
_CHECKED_FLOP = 5e7  # work of a float64 twin: a few tens of milliseconds
_ZERO = 128


class MeasureError(ScenarioError):
    """Something that can't be measured here: one sentence naming the field, the value and what is allowed."""


@dataclass(frozen=True)
class Case:
    """One operator on its buffers.

    Attributes
    ----------
    kernel : name of the operator that runs.
    run : one call.
    check : what its output is compared with.
    library : the same work by numpy, where numpy has it.
    flops, bytes : work of one call and the bytes it must touch, each counted once. [FLOP], [B]
    precision : format of the weights.
    """

    kernel: str
    run: Callable[[], Any]
    check: Check
    library: Callable[[], object] | None
    flops: float
    bytes: float
    precision: str


def noise(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Noise of a shape, float32."""
    size = int(np.prod(shape))
    block = _BLOCK if scale == 1.0 else _BLOCK * np.float32(scale)
    return np.ascontiguousarray(np.resize(block, size).reshape(shape))


def relative_error(case: Case) -> float:
    """Root of the error's energy over the signal's, against float64: 1e-7 is rounding, 1e-2 an 8-bit format. [-]"""
    got, exact = case.check(np.asarray(case.run()))
    size = float(np.sqrt((exact * exact).sum()))
    return float(np.sqrt(((got.astype(np.float64) - exact) ** 2).sum()) / size) if size > 0 else 0.0


def few_rows(rows: int, flop_per_row: float) -> int:
    """Rows of an output that a float64 twin computes. [-]"""
    return max(1, min(rows, int(_CHECKED_FLOP / max(flop_per_row, 1.0))))


def product(m: int, k: int, n: int, precision: str, threads: int) -> Case:
    """Rows [m, k] times weights [k, n]: float32 sums, or 8-bit codes of them where both sides are codes."""
    a, w = noise(m, k), noise(k, n, scale=1.0 / np.sqrt(k))
    exact = a[: few_rows(m, 2.0 * k * n)].astype(np.float64) @ w.astype(np.float64)
    name, run, (read, weight, write), step, zero = _PRODUCTS[precision](a, w, threads, exact)

    def check(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (y[: len(exact)].astype(np.float64) - zero) * step, exact

    traffic = m * k * read + k * n * weight + m * n * write
    library = partial(np.matmul, a, w, out=np.empty((m, n), np.float32))
    return Case(name, run, check, library, 2.0 * m * k * n, traffic, precision)


_Product = tuple[str, Callable[[], Any], tuple[float, float, float], float, int]
"""Operator, call, bytes of a value read, stored and written, and step and zero point of what is written."""


def _fp32(a: np.ndarray, w: np.ndarray, threads: int, exact: np.ndarray) -> _Product:
    out = np.empty((len(a), w.shape[1]), np.float32)
    return "gemm_f32", partial(gemm_f32, a, pack_f32(w), out=out, threads=threads), (4, 4, 4), 1.0, 0


def _int8(a: np.ndarray, w: np.ndarray, threads: int, exact: np.ndarray) -> _Product:
    step_a, step_w = (float(np.float32(np.abs(x).max() / 127)) for x in (a, w))
    step_y = float(np.float32(max(np.abs(exact).max(), 1e-30) / 120))
    codes = quantise(a, step_a, _ZERO, dtype=np.uint8)
    packed = pack_s8(np.clip(np.rint(w / step_w), -127, 127).astype(np.int8))
    scale = np.full(w.shape[1], step_a * step_w / step_y, np.float32)
    out = np.empty((len(a), w.shape[1]), np.uint8)
    run = partial(gemm_u8, codes, packed, scale, _ZERO, None, _ZERO, False, out, threads)
    return "gemm_u8", run, (1, 1, 1), step_y, _ZERO


def _bf16(a: np.ndarray, w: np.ndarray, threads: int, exact: np.ndarray) -> _Product:
    run = partial(gemm_f32, bf16_bits(a), pack_bf16(w), threads=threads)
    return "gemm_bf16", run, (2, 2, 4), 1.0, 0


_PRODUCTS: dict[str, Callable[[np.ndarray, np.ndarray, int, np.ndarray], _Product]] = {
    "fp32": _fp32,
    "int8": _int8,
    "bf16": _bf16,
}
