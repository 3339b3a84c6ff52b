"""How an operator is spread over the thread pool: one range kernel, contiguous pieces, one clear refusal."""

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from engine.kernels import jit
from entries.schema import InputError


class KernelError(InputError):
    """An operator was given shapes, types or values it does not define; the message names the argument."""


def require(holds: bool, message: str) -> None:
    """Raise :class:`KernelError` with ``message`` unless ``holds``."""
    if not holds:
        raise KernelError(message)


def whole(name: str, array: np.ndarray, dtype: Any, ndim: int) -> np.ndarray:
    """``array`` if it is C-contiguous with this type and rank (never a silent copy), else a refusal."""
    if isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == ndim and array.flags.c_contiguous:
        return array  # messages are only built when needed: formatting a dtype costs more than a small kernel
    require(isinstance(array, np.ndarray), f"{name} must be a numpy array, not {type(array).__name__}")
    require(array.dtype == dtype, f"{name} has type {array.dtype}; allowed: {np.dtype(dtype)}")
    require(array.ndim == ndim, f"{name} has {array.ndim} dimensions; allowed: {ndim}")
    raise KernelError(f"{name} must be C-contiguous")


def real(x: np.ndarray) -> np.ndarray:
    """``x`` if it is C-contiguous float32 with at least one axis, else a refusal."""
    require(isinstance(x, np.ndarray) and x.ndim >= 1, "x must be a numpy array with at least one axis")
    return whole("x", x, np.float32, x.ndim)


def output(out: np.ndarray | None, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """``out`` checked, or a new array."""
    if out is None:
        return np.empty(shape, dtype)
    whole("out", out, dtype, len(shape))
    if out.shape != shape:
        require(False, f"out has shape {out.shape}; allowed: {shape}")
    return out


def fresh(shape: tuple[int, ...], dtype: Any = np.float32, *, zero: bool = False) -> np.ndarray:
    """An array whose data starts on a cache line, so that rows of whole vectors never straddle two."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = (np.zeros if zero else np.empty)(size + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + size].view(kind).reshape(shape)


@lru_cache(1024)
def _pieces(count: int, threads: int, finest: int, grain: int, step: int) -> tuple[tuple[int, int], ...]:
    """Ranges that cover ``[0, count)``: one a thread, or each half a fair share of what is left, to a finest part."""
    edges = [0]
    while edges[-1] < count:
        fair = -(-(count - edges[-1]) // (2 * threads)) if finest > 1 else 0
        size = max(grain, -(-count // (finest * threads)), fair)
        edges.append(min(count, edges[-1] + -(-size // step) * step))
    return tuple(pairwise(edges))


def over_range(
    kernel: Callable[..., Any],
    count: int,
    *args: Any,
    threads: int | None = None,
    grain: int = 1,
    step: int = 1,
    finest: int = 1,
) -> None:
    """Run ``kernel(lo, hi, *args)`` over ``[0, count)`` on at most ``threads`` threads, ``grain`` or more at a time.

    The caller works too, and whoever is free takes the next piece: a helper that wakes late, or never because it is
    busy, delays nothing but what it took. ``finest`` is how many parts the last pieces are of a thread's fair share:
    1 where a piece costs something to begin. Pieces start at multiples of ``step``, so that a vector loop's remainder
    falls on the same elements in every split.

    Every kernel writes only what belongs to its own range and computes each element in an order that does not
    depend on the range, so the result is bit-identical for every number of threads. [-]
    """
    if threads == 1 or (threads := min(threads or jit.pool_size(), -(-count // max(1, grain)))) <= 1:
        kernel(0, count, *args)
        return
    waiting = deque(_pieces(count, threads, finest, max(1, grain), step))

    def share() -> None:
        while True:
            try:
                lo, hi = waiting.popleft()
            except IndexError:
                return
            try:
                kernel(lo, hi, *args)
            except BaseException:
                waiting.clear()  # nobody starts on the rest
                raise

    futures = [jit.pool().submit(share) for _ in range(min(threads, len(waiting)) - 1)]
    try:
        share()
    finally:
        for future in futures:
            if not future.cancel():
                future.result()
