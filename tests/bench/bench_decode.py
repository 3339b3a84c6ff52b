"""Attention and the FP16 product tree: ratios interleaved in one process, in processor seconds of one thread."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from engine.lab.operators.attention import attention
from engine.lab.operators.halftree import pack_tree, tree_matvec

HEADS = 16  # GPT-2 345M
ROUNDS = 9
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
    return [*tree_rows(), *attention_rows()]
