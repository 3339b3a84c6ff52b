"""Measured roofline of this host: compute peaks, read bandwidth of each memory level, and the cost of one call.

Every figure is a **measurement**: best of five rounds, one thread unless said. Compute peaks run only in registers,
so they bound any kernel of their kind. Levels are read with several independent vector streams; a memory probe
passes over several times the last-level cache, because a shorter pass measures the cache.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.kernels import jit
from engine.kernels.jit import JIT_ENABLED, kernel
from engine.lab.ir.binary import OPERATIONS_PER_WORD
from engine.lab.ir.lanes import LINE, VL
from engine.lab.ir.microkernel import HAS_BF16, HAS_COUNT, MR, NC
from engine.lab.ir.probe import CHAINS, STORED, compute_ir, read_ir
from engine.lab.operators.gemm import gemm_s32, pack_s8
from engine.lab.ranges import fresh, over_range, require
from engine.lab.timing import sample

_ROUNDS = 5
_SAMPLES = 1000  # at most, in a probe's time
_PER_WORD = {"f32": 1, "u8s8": 4, "bf16": 2, "xnor": 32}  # products to a 32-bit word
_LONG_PASS = 1 << 30  # bytes of memory that are enough where the last-level cache is no more than half of them


@dataclass(frozen=True)
class CacheSizes:
    """Bytes of one core's first and second level and of the shared last level. [B]"""

    l1: int
    l2: int
    l3: int


@dataclass(frozen=True)
class MeasuredRoofline:
    """What this host was seen to do; rates of one thread, ``*_all`` of the whole pool.

    ``flops`` counts a multiply and an add as two. ``triad`` counts 12 B per element (two reads, one write, no
    write-allocate traffic).
    """

    isa: str
    threads: int
    caches: CacheSizes
    fp32: float  # [FLOP/s]
    int8: float  # [OP/s], u8 x s8 -> s32
    bf16: float | None  # [FLOP/s], None where the host has no bf16 product
    l1: float  # [B/s]
    l2: float  # [B/s]
    l3: float  # [B/s]
    dram: float  # [B/s]
    dram_all: float  # [B/s]
    triad: float  # [B/s]
    gather: float  # random lines of 64 B [1/s]
    launch: float  # one compiled call, arguments included [s]
    dispatch: float  # one range kernel over the whole pool [s]
    binary: float | None = None  # [OP/s] at the vector operations a word of the binary tile; None without a bit count


_ABLE = {
    "f32": True,
    "u8s8": jit.isa() == "avx512vnni",
    "bf16": HAS_BF16,
    "xnor": HAS_COUNT,
}
_burn, _read_near, _read_far = compute_ir(), read_ir(0), read_ir(4096)


@kernel
def _peak(data, turns):
    _burn(data, turns)


@kernel
def _read_range(lo, hi, data, out, grain, repeats):
    total = np.int32(0)
    for _ in range(repeats):
        for part in range(lo, hi):
            if repeats > 1:  # a cached buffer: prefetching would only take load slots
                total ^= _read_near(data, part * grain, min(data.size, (part + 1) * grain))
            else:
                total ^= _read_far(data, part * grain, min(data.size, (part + 1) * grain))
    out[lo] = total


@kernel
def _triad(a, b, c, scale):
    for i in range(a.size):
        a[i] = b[i] + scale * c[i]


def read_once(data: np.ndarray) -> None:
    """One pass over a float32 array, read in vectors by one thread."""
    words = data.reshape(-1).view(np.int32)
    _read_range(0, 1, words, np.empty(1, np.int32), words.size, 1)


@kernel
def copy_once(source, target):
    """One array stored into another of its shape, by one thread; caches are written to, not passed by."""
    x, y = source.reshape(-1), target.reshape(-1)
    for i in range(x.size):
        y[i] = x[i]


@kernel
def _gather(table, ids):
    """Sum of the first word of the 64-byte lines ``ids``: independent, so the core overlaps what it can."""
    total = np.int32(0)
    for i in range(ids.size):
        total += table[ids[i] * 16]
    return total


@kernel
def _nothing(lo, hi, a, b, c):
    return


def _bytes(text: str) -> int:
    units = {"K": 1024, "M": 1024**2}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def cache_sizes() -> CacheSizes:
    """Cache sizes of core 0 as the kernel lists them, else those of a small core: 32 KiB, 256 KiB, 8 MiB."""
    result = {1: 32 * 1024, 2: 256 * 1024, 3: 8 * 1024**2}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level = (index / "type").read_text().strip(), int((index / "level").read_text())
            if kind != "Instruction" and level in result:
                result[level] = _bytes((index / "size").read_text().strip())
        except (OSError, ValueError):
            continue  # an entry the container hides: keep the default of that level
    return CacheSizes(result[1], result[2], result[3])


def far_bytes(last_level: int) -> int:
    """Bytes that a memory probe passes over, beside a last-level cache of so many bytes. [B]

    Eight times the cache, and no more than 1 GiB unless twice the cache is more. Assumption: a guest with a part of a
    large processor's cores has a part of its cache as well, and its memory belongs to the guest's other work.
    """
    return max(2 * last_level, min(8 * last_level, _LONG_PASS)) // LINE * LINE


def _best(
    action: Callable[[], Any],
    seconds: float,
    rounds: int = _ROUNDS,
    clock: Callable[[], float] = time.thread_time,
) -> float:
    """Shortest time of one ``action`` in ``rounds`` times so many seconds. [s]

    One thread is timed by its own CPU time: a pass over memory outlasts a time slice, so on a busy machine no round
    would be free of waiting. Work that other threads do needs the wall clock.
    """
    return sample(action, clock, _SAMPLES, rounds * seconds).best


def peak_call(kind: str, turns: int = 20_000) -> tuple[Callable[[], Any], float]:
    """A call that keeps the arithmetic units busy with products of ``kind`` in registers, and its operations. [OP]"""
    require(kind in _ABLE, f"kind is {kind!r}; allowed: {', '.join(_ABLE)}")
    require(_ABLE[kind], f"kind {kind!r} has no register probe on the {jit.isa()} path of this host")
    data = np.zeros(16 * VL, np.uint8).view(STORED[kind])
    return lambda: _peak(data, turns), 2.0 * turns * CHAINS * VL * _PER_WORD[kind]


def compute_peak(kind: str, seconds: float = 0.01, rounds: int = _ROUNDS) -> float:
    """Peak rate of products in registers, one thread. [OP/s] A measurement.

    ``kind`` is ``f32``, ``u8s8``, ``bf16`` or ``xnor`` (differing bits; a bit counts as two operations).
    """
    call, operations = peak_call(kind)
    return operations / _best(call, seconds, rounds)


def stream_read(data: np.ndarray, seconds: float = 0.01, threads: int = 1, rounds: int = _ROUNDS) -> float:
    """Rate at which ``threads`` read a buffer of int32, touched before, over and over. [B/s] A measurement."""
    group = 8 * VL
    grain = -(-data.size // threads // group) * group
    out = np.zeros(threads, np.int32)
    repeats = max(1, int(16e6 // data.nbytes))

    def once() -> None:
        over_range(_read_range, threads, data, out, grain, repeats, threads=threads)

    return data.nbytes * repeats / _best(once, seconds, rounds, time.thread_time if threads == 1 else time.perf_counter)


def _integer_peak(rounds: int) -> float:
    """Peak of exact u8 x s8 products: in registers with VNNI, else of the tile on nearby data. [OP/s]

    The tile is called from Python; each call is long enough that its start, 4 us, is a tenth of it at most.
    """
    if jit.isa() == "avx512vnni":
        return compute_peak("u8s8", rounds=rounds)
    k, tiles = 512, 64
    a, b = np.ones((MR * tiles, k), np.uint8), pack_s8(np.ones((k, NC), np.int8))
    out = np.empty((MR * tiles, NC), np.int32)
    return 2.0 * out.size * k / _best(lambda: gemm_s32(a, b, out=out, threads=1), 0.01, rounds)


class Prober:
    """The buffers of a probe, made once: how often the roofline is then taken costs only the taking.

    ``words`` is the one that no cache holds, int32 whose bits are small floats.
    """

    def __init__(self) -> None:
        require(JIT_ENABLED, "the probe needs compiled code; NUMBA_DISABLE_JIT is set")
        self.caches = cache_sizes()
        size, threads = far_bytes(self.caches.l3), jit.pool_size()
        lines = size // LINE
        self.words = fresh((size // 4,), np.int32, zero=True)
        # the first touch of the pages takes as long as a process's first compiled call: both at once
        fills = [jit.pool().submit(part.fill, 1.0) for part in np.array_split(self.words.view(np.float32), threads)]
        compute_peak("f32", 0.0, 1)
        # lines visited once a pass, and far more of them than the last-level cache holds
        self._ids = np.random.default_rng(0).integers(0, lines, lines // 4, dtype=np.int32)
        for part in fills:  # what the triad adds; as floats these words are no denormal numbers
            part.result()

    def near(self, level: str, rounds: int = _ROUNDS) -> float:
        """Rate at which one thread reads a level of the caches: ``l1``, ``l2`` or ``l3``. [B/s]"""
        size = {"l1": self.caches.l1 // 2, "l2": self.caches.l2 // 2}.get(level)
        words = self.words[: (size or min(self.caches.l3 // 2, 4 * self.caches.l2)) // 4]
        return stream_read(words, 0.02 if size else 0.01, 1, rounds)

    def roofline(self, rounds: int = _ROUNDS) -> MeasuredRoofline:
        """Every figure, the best of ``rounds`` rounds of about 10 ms each. A measurement."""
        threads = jit.pool_size()
        a, b, c = np.array_split(self.words.view(np.float32)[: self.words.size // 3 * 3], 3)
        empty = np.empty(1, np.float32)

        def all_threads() -> None:  # as kernels are started
            over_range(_nothing, threads, empty, empty, empty, threads=threads)

        return MeasuredRoofline(
            isa=jit.isa(),
            threads=threads,
            caches=self.caches,
            fp32=compute_peak("f32", rounds=rounds),
            int8=_integer_peak(rounds),
            bf16=compute_peak("bf16", rounds=rounds) if HAS_BF16 else None,
            l1=self.near("l1", rounds),
            l2=self.near("l2", rounds),
            l3=self.near("l3", rounds),
            dram=stream_read(self.words, rounds=rounds),
            dram_all=stream_read(self.words, 0.01, threads, rounds),
            triad=12.0 * a.size / _best(lambda: _triad(a, b, c, np.float32(3)), 0.01, rounds),
            gather=self._ids.size / _best(lambda: _gather(self.words, self._ids), 0.01, rounds),
            launch=_best(lambda: _nothing(0, 0, empty, empty, empty), 0.005, rounds),
            dispatch=_best(all_threads, 0.005, rounds, time.perf_counter),
            binary=compute_peak("xnor", rounds=rounds) * 3 / OPERATIONS_PER_WORD if HAS_COUNT else None,
        )
