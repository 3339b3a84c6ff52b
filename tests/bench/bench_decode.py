"""A transformer's decode step, attention and the FP16 product tree: ratios interleaved in one process.

A decode step reads every weight and the whole cache once, so it is held against a read of the same arrays by the same
number of threads, next to it, who share it out in pieces as a step's do: cores of a shared host differ in speed. Times
are processor seconds of all threads, since other work may share the machine; the rate printed is bytes over those,
times the threads.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from engine.kernels import jit, probe
from engine.kernels.operators.attention import attention
from engine.kernels.operators.decoder import DecoderWeights, decode_step
from engine.kernels.operators.halfprec import rounded_bits
from engine.kernels.operators.halftree import pack_tree, tree_matvec
from engine.kernels.threads.ranges import over_range

LAYERS, WIDTH, HEADS, LENGTH = 24, 1024, 16, 512  # GPT-2 345M, half its context in the cache
ROUNDS = 9
_PART = 1 << 16  # words of one piece of a stream
Call = Callable[[], object]


def _interleaved(calls: dict[str, Call], rounds: int = ROUNDS, clock: Callable[[], float] = time.thread_time):
    """Seconds of every call in every round, in alternating order, after one warm-up of each."""
    for call in calls.values():
        call()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name in list(calls)[:: 1 if turn % 2 else -1]:
            start = clock()
            calls[name]()
            taken[name].append(clock() - start)
    return {name: np.array(seconds) for name, seconds in taken.items()}


def _row(name: str, value: float, unit: str, against: str, ratio: float, goal: float | None) -> dict:
    return {
        "name": name,
        "value": float(value),
        "unit": unit,
        "against": against,
        "ratio": float(ratio),
        "goal": "reported" if goal is None else f">= {goal}",
        "met": goal is None or bool(ratio >= goal),
    }


def _model(stored: Any) -> tuple[DecoderWeights, np.ndarray, np.ndarray]:
    block = (np.random.default_rng(3).random(1 << 20, np.float32) - np.float32(0.5)) * np.float32(0.06)
    values = block if stored == "f32" else rounded_bits(block, stored)
    shapes = (3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)
    qkv, project, up, down = (np.resize(values, (LAYERS, *shape)) for shape in shapes)
    bias, norms = np.zeros((LAYERS, 9 * WIDTH), np.float32), np.ones((LAYERS, 4, WIDTH), np.float32)
    keys, cached = (np.resize(values, (LAYERS, HEADS, LENGTH, WIDTH // HEADS)) for _ in range(2))
    return DecoderWeights(stored, HEADS, qkv, project, up, down, bias, norms), keys, cached


def _stream(arrays: list[np.ndarray], threads: int) -> None:
    for array in arrays:
        parts = max(1, array.size // _PART)
        over_range(probe._read_range, parts, array, np.zeros(parts, np.int32), _PART, 1, threads=threads, finest=8)


def decode_rows() -> list[dict]:
    """All layers' weights and the cache of one token, in three formats, on one thread and on all."""
    rows = []
    for stored in ("f32", "bf16", "fp16"):
        model, keys, values = _model(stored)
        x = np.ones(WIDTH, np.float32)
        arrays = [a.reshape(-1).view(np.int32) for a in (model.qkv, model.project, model.up, model.down, keys, values)]
        total = sum(a.nbytes for a in arrays)
        for threads in sorted({1, jit.pool_size()}):
            step = partial(decode_step, x, model, keys, values, LENGTH - 1, threads)
            stream = partial(_stream, arrays, threads)
            seconds = _interleaved({"ours": step, "stream": stream}, clock=time.process_time)
            ratio = np.median(seconds["stream"] / seconds["ours"])
            rate = threads * total / float(np.median(seconds["ours"])) / 1e9
            name = f"GPT-2 345M decode step {stored}, cache of {LENGTH}, {threads} thread{'s' * (threads > 1)}"
            rows.append(_row(name, rate, "GB/s", "memory stream", ratio, 0.85))
    return rows


def attention_rows() -> list[dict]:
    """A prompt through one layer's attention, against torch where it is installed, else numpy's products alone."""
    rng = np.random.default_rng(4)
    rows = []
    for tokens in (128, 1024):
        q, k, v = (rng.standard_normal((tokens, HEADS, 64)).astype(np.float32) for _ in range(3))
        keys, values = (np.ascontiguousarray(a.transpose(1, 0, 2)) for a in (k, v))
        peer, name = _attention_peer(q, keys, values)
        ours = partial(attention, q, keys, values, tokens, threads=1)
        seconds = _interleaved({"ours": ours, "peer": peer})
        rate = 2.0 * HEADS * 64 * tokens * (tokens + 1) / float(np.median(seconds["ours"])) / 1e9
        label = f"causal attention, {tokens} tokens, {HEADS} heads of 64"
        rows.append(_row(label, rate, "GFLOP/s", name, np.median(seconds["peer"] / seconds["ours"]), None))
    return rows


def _attention_peer(q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> tuple[Call, str]:
    if importlib.util.find_spec("torch") is None:
        turned = np.ascontiguousarray(q.transpose(1, 0, 2))
        return lambda: (turned @ keys.transpose(0, 2, 1)) @ values, "numpy, both products only"
    import torch

    torch.set_num_threads(1)
    a, b, c = (torch.from_numpy(x)[None] for x in (np.ascontiguousarray(q.transpose(1, 0, 2)), keys, values))
    return partial(torch.nn.functional.scaled_dot_product_attention, a, b, c, is_causal=True), "torch"


def tree_rows() -> list[dict]:
    """The product tree of d = 64 on one core, weights in the last-level cache."""
    rng = np.random.default_rng(5)
    n = k = 1024
    packed = pack_tree(rng.standard_normal((n, k)).astype(np.float16).view(np.uint16))
    x = rng.standard_normal(k).astype(np.float16).view(np.uint16)
    seconds = _interleaved({"ours": partial(tree_matvec, packed, x, threads=1)}, 31)["ours"]
    rate = n * k / float(np.median(seconds)) / 1e9
    return [_row("FP16 product tree, d = 64", rate, "GMAC/s", "10 GMAC/s on AVX-512", rate / 10, 1.0)]


def rows() -> list[dict]:
    """All rows: ``name, value, unit, against, ratio, goal, met``."""
    return [*tree_rows(), *attention_rows(), *decode_rows()]
