"""An operator with its buffers, ready to be timed, and what its output should have been in float64.

Weights and inputs are noise (one block of it, repeated), which no kernel here is faster or slower for. Every builder
returns a `Case`; ``copies`` sets of weights exist where a network has that many layers, so that each pass finds the
caches as a network would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from engine.lab.operators.activation import activate
from engine.lab.operators.gemm import gemm_f32, gemm_u8, pack_f32, pack_s8
from engine.lab.operators.gemv import SMALL_N, gemv, small_f32
from engine.lab.operators.halfprec import gemm_bf16, gemm_narrow, pack_narrow, rounded_bits
from engine.lab.operators.quantise import quantise
from engine.scenario import ScenarioError

Check = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Output -> (a sample of it, the float64 values of the same)."""

_BLOCK = np.random.default_rng(7).standard_normal(1 << 20).astype(np.float32)
_CHECKED_FLOP = 5e7  # work of a float64 twin: a few tens of milliseconds
_STREAMED_ROWS = 4  # up to here weights are streamed as they lie instead of packed
_ZERO = 128


class MeasureError(ScenarioError):
    """Something that can't be measured here: one sentence naming the field, the value and what is allowed."""


@dataclass(frozen=True)
class Case:
    """One operator on its buffers.

    Attributes
    ----------
    kernel : name of the operator that runs.
    runs : one call for each set of weights.
    check : what the first run's output is held against.
    library : the same work by numpy, where numpy has it.
    flops, bytes : work of one call and the bytes it must touch, each counted once. [FLOP], [B]
    precision : format of the weights.
    live : activations, which in a network the operator before has just written.
    """

    kernel: str
    runs: tuple[Callable[[], Any], ...]
    check: Check | None
    library: Callable[[], object] | None
    flops: float
    bytes: float
    precision: str
    live: tuple[np.ndarray, ...] = ()

    def touch(self) -> None:
        """Write the activations as they are: they are then as near as a network would leave them."""
        for array in self.live:
            np.add(array, 0, out=array, casting="unsafe")


def noise(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Noise of a shape, float32."""
    size = int(np.prod(shape))
    block = _BLOCK if scale == 1.0 else _BLOCK * np.float32(scale)
    return np.ascontiguousarray(np.resize(block, size).reshape(shape))


_SLOTS: ContextVar[tuple[np.ndarray, ...]] = ContextVar("slots", default=())


@contextmanager
def shared_activations(size: float) -> Iterator[None]:
    """Inside it `given` and `room` hand out the same few places to every case, each of up to ``size`` bytes.

    A network's operators write where earlier ones have read; with buffers of their own for each, their activations
    alone would drive the weights out of the caches.
    """
    token = _SLOTS.set(tuple(np.empty(int(size) // 4, np.float32) for _ in range(3)))  # pages not touched take nothing
    try:
        yield
    finally:
        _SLOTS.reset(token)


def _place(slot: int, shape: tuple[int, ...]) -> np.ndarray:
    size, slots = int(np.prod(shape)), _SLOTS.get()
    if not slots or size > slots[slot].size:
        return np.empty(shape, np.float32)
    return slots[slot][:size].reshape(shape)


def given(*shape: int, slot: int = 0) -> np.ndarray:
    """Noise as an operator's input of a shape, float32; a second input takes ``slot`` 2."""
    place = _place(slot, shape)
    place.reshape(-1)[:] = np.resize(_BLOCK, place.size)
    return place


def room(*shape: int) -> np.ndarray:
    """Room for an operator's output of a shape, float32."""
    return _place(1, shape)


def relative_error(case: Case) -> float | None:
    """Root of the error's energy over the signal's, against float64: 1e-7 is rounding, 1e-2 an 8-bit format. [-]"""
    if case.check is None:
        return None
    got, exact = case.check(np.asarray(case.runs[0]()))
    size = float(np.sqrt((exact * exact).sum()))
    return float(np.sqrt(((got.astype(np.float64) - exact) ** 2).sum()) / size) if size > 0 else 0.0


def few_rows(rows: int, flop_per_row: float) -> int:
    """Rows of an output that a float64 twin computes. [-]"""
    return max(1, min(rows, int(_CHECKED_FLOP / max(flop_per_row, 1.0))))


def product(
    m: int, k: int, n: int, precision: str, threads: int, copies: int = 1, relu: bool = False, wide_input: bool = False
) -> Case:
    """Rows [m, k] times weights [k, n]: float32 sums, or 8-bit codes when the next operator takes them.

    ``wide_input``: an 8-bit product gets float32 and quantises it first, which belongs to its time.
    """
    a, scale = given(m, k), 1.0 / np.sqrt(k)
    weights = [np.roll(noise(k, n, scale=scale), i, axis=0) for i in range(copies)]
    rows = few_rows(m, 2.0 * k * n)
    low = 0.0 if relu else -np.inf
    exact = np.maximum(a[:rows].astype(np.float64) @ weights[0].astype(np.float64), low)
    name, runs, check, width = _PRODUCTS[precision](a, weights, threads, relu, wide_input, rows, exact)
    touched = m * k * width[0] + k * n * width[1] + m * n * width[2]
    first, out = weights[0], np.empty((m, n), np.float32)
    library = partial(np.matmul, a, first, out=out)
    return Case(name, tuple(runs), check, library, 2.0 * m * k * n, touched, precision, (a,))


_Made = tuple[str, Sequence[Callable[[], Any]], Check, tuple[float, float, float]]


def _named(name: str, relu: bool) -> str:
    return f"{name} + relu" if relu else name


def _runs(stored: str, weights: list[np.ndarray], a: np.ndarray, threads: int, relu: bool) -> list[Callable[[], Any]]:
    """Few rows: weights streamed as they lie, the ReLU applied to the result in place."""

    def one(w: np.ndarray) -> np.ndarray:
        y = gemv(w, a, stored=stored, threads=threads)
        return activate(y, "relu", out=y, threads=threads) if relu else y

    return [partial(one, w) for w in weights]


def _first(rows: int, exact: Any) -> Check:
    """The first rows of a result beside the exact ones."""
    return lambda y: (y[:rows], exact)


def _fp32(
    a: np.ndarray, weights: list[np.ndarray], threads: int, relu: bool, wide: bool, rows: int, exact: Any
) -> _Made:
    check = _first(rows, exact)
    if len(a) <= _STREAMED_ROWS:
        turned = [np.ascontiguousarray(w.T) for w in weights]
        return _named("gemv", relu), _runs("f32", turned, a, threads, relu), check, (4, 4, 4)
    if weights[0].shape[1] <= SMALL_N and not relu:
        turned = [np.ascontiguousarray(w.T) for w in weights]
        return "small_f32", [partial(small_f32, a, t, threads=threads) for t in turned], check, (4, 4, 4)
    packed = [pack_f32(w) for w in weights]
    out = room(len(a), weights[0].shape[1])
    return "gemm_f32", [partial(gemm_f32, a, p, relu=relu, out=out, threads=threads) for p in packed], check, (4, 4, 4)


def _int8(
    a: np.ndarray, weights: list[np.ndarray], threads: int, relu: bool, wide: bool, rows: int, exact: Any
) -> _Made:
    step_a = float(np.float32(np.abs(a).max() / 127))
    step_w = np.float32(np.abs(weights[0]).max() / 127)
    step_y = np.float32(max(np.abs(exact).max(), 1e-30) / 120)
    codes = quantise(a, step_a, _ZERO, dtype=np.uint8)
    packed = [pack_s8(np.clip(np.rint(w / step_w), -127, 127).astype(np.int8)) for w in weights]
    n = weights[0].shape[1]
    scale = np.full(n, step_a * step_w / step_y, np.float32)
    out = np.empty((len(a), n), np.uint8)

    def one(p: Any) -> np.ndarray:
        given = quantise(a, step_a, _ZERO, dtype=np.uint8, out=codes, threads=threads) if wide else codes
        return gemm_u8(given, p, scale, _ZERO, None, _ZERO, relu, out, threads)

    def check(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (y[:rows].astype(np.float64) - _ZERO) * step_y, exact

    name = "quantise + gemm_u8" if wide else "gemm_u8"
    return name, [partial(one, p) for p in packed], check, (5.0 if wide else 1.0, 1, 1)


def _bf16(
    a: np.ndarray, weights: list[np.ndarray], threads: int, relu: bool, wide: bool, rows: int, exact: Any
) -> _Made:
    check = _first(rows, exact)
    if len(a) <= _STREAMED_ROWS:
        turned = [rounded_bits(w.T, "bf16") for w in weights]
        return _named("gemv bf16", relu), _runs("bf16", turned, a, threads, relu), check, (4, 2, 4)
    packed = [pack_narrow(w, "bf16") for w in weights]
    bits = rounded_bits(a, "bf16")
    return "gemm_bf16", [partial(gemm_bf16, bits, p, None, relu, None, threads) for p in packed], check, (2, 2, 4)


def _narrow(
    format: str,
    bytes: float,
    a: np.ndarray,
    weights: list[np.ndarray],
    threads: int,
    relu: bool,
    wide: bool,
    rows: int,
    exact: Any,
) -> _Made:
    if format == "fp16" and len(a) <= _STREAMED_ROWS:
        turned = [rounded_bits(w.T, "fp16") for w in weights]
        check = _first(rows, exact)
        return _named("gemv fp16", relu), _runs("fp16", turned, a, threads, relu), check, (4, 2, 4)
    packed = [pack_narrow(w, format) for w in weights]
    out = room(len(a), weights[0].shape[1])
    runs = [partial(gemm_narrow, a, p, None, relu, out, threads) for p in packed]
    return f"gemm_narrow {format}", runs, _first(rows, exact), (4, bytes, 4)


_PRODUCTS: dict[str, Callable[..., _Made]] = {
    "fp32": _fp32,
    "int8": _int8,
    "bf16": _bf16,
    "fp16": partial(_narrow, "fp16", 2.0),
    "ms-fp9": partial(_narrow, "ms-fp9", 1.125),
    "ms-fp8": partial(_narrow, "ms-fp8", 1.0),
}
