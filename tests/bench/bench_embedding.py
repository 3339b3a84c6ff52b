"""Embedding bags on one thread, in the cache and beyond it, against torch and against reading random rows.

A ratio is the peer's time over ours, the median over rounds that run both in alternating order; times are CPU seconds
of the calling thread, since other work may share the machine. Rows without a goal are reported for what they are.
"""

import importlib.util
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from engine.kernels.jit import inner
from engine.lab.ir.embedding_bag import IDS_AHEAD
from engine.lab.ir.lanes import prefetch
from engine.lab.operators.embedding import RowTable, embedding_bag
from engine.lab.ranges import fresh
from tests.bench.timing import Row, interleaved, row

ROWS_BEYOND_CACHE, ROWS_IN_CACHE = 8_000_000, 2_000
BAGS, LOOKUPS, WIDTH, ROUNDS = 512, 40, 64, 100
Bag = Callable[[np.ndarray], object]
TORCH = importlib.util.find_spec("torch") is not None


def _stored(fmt: str, rows: int) -> np.ndarray:
    """A table of constant rows: only the traffic matters, and filling it stays quick. It is read until that is steady.

    Pages of a guest may be its host's to bring back, which takes longer than any row; reading them all does it once.
    """
    kind, width = {
        "fp32": (np.float32, WIDTH),
        "fp16": (np.uint16, WIDTH),
        "int8": (np.uint8, WIDTH + 8),
        "int4": (np.uint8, WIDTH // 2 + 4),
    }[fmt]
    table = fresh((rows, width), kind)
    table[:] = 0x3C00 if fmt == "fp16" else 1
    took = [np.inf]
    while len(took) < 3 or (took[-1] < 0.9 * min(took[:-1]) and len(took) < 12):
        start = perf_counter()
        np.bitwise_or.reduce(table.reshape(-1).view(np.uint32))
        took.append(perf_counter() - start)
    return table


def _torch_bag(fmt: str, data: np.ndarray, offsets: np.ndarray) -> Bag:
    import torch

    torch.set_num_threads(1)
    table = torch.from_numpy(data.view(np.float16) if fmt == "fp16" else data)
    starts = torch.from_numpy(offsets[:-1].copy())
    if fmt in ("fp32", "fp16"):
        return lambda ids: torch.nn.functional.embedding_bag(torch.from_numpy(ids), table, starts, mode="sum")
    run = (
        torch.ops.quantized.embedding_bag_byte_rowwise_offsets
        if fmt == "int8"
        else torch.ops.quantized.embedding_bag_4bit_rowwise_offsets
    )
    return lambda ids: run(table, torch.from_numpy(ids), starts, False, 0, False, None, None, False)


def _touch(stride: int, ahead: int = 48) -> Callable[[Any, Any], int]:
    """``f(flat, ids)``: sum of a word of every line of rows of ``stride`` bytes, each row asked for ``ahead`` of time.

    Nothing but the traffic of a bag: a row that starts anywhere in a line may reach into one more.
    """
    pitch, lines, last = np.uintp(stride), stride // 64, np.uintp(stride - 1)
    ragged = stride % 64 > 0

    @inner
    def touch(flat: Any, ids: Any) -> int:
        total = 0
        for i in range(ids.size):
            prefetch(ids, i + ahead + IDS_AHEAD)
            wanted = ids[min(i + ahead, ids.size - 1)] * stride
            for line in range(lines):
                prefetch(flat, wanted + 64 * line)
            start = np.uintp(ids[i]) * pitch
            for line in range(lines):
                total += flat[start + np.uintp(64 * line)]
            if ragged:
                prefetch(flat, wanted + 64 * lines)
                prefetch(flat, wanted + stride - 1)
                total += flat[start + np.uintp(64 * lines)] + flat[start + last]
        return total

    return touch


def _bounded(
    fmt: str,
    data: np.ndarray,
    ours: Bag,
    peer: Bag,
    ids: list[np.ndarray],
) -> list[Row]:
    """Ours and the peer against reading the same number of random rows of the table and doing nothing with them.

    This is the bound of the moment: what a random row costs depends on the pages the system gave the table (in a guest
    also on those of its host), and moves from run to run far more than the shares do.
    """
    stride, pick = data.strides[0], iter(ids)
    calls = {"ours": ours, "peer": peer, "touch": partial(_touch(stride), data.reshape(-1).view(np.uint8))}
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(len(ids) // len(calls)):
        for name in list(calls)[:: 1 if turn % 2 else -1]:
            rows = next(pick)
            start = thread_time()
            calls[name](rows)
            spent[name].append(thread_time() - start)
    result = []
    for name, label in (("ours", "embedding bag"), ("peer", "torch's bag" if TORCH else "bag without prefetch")):
        share = median(t / s for t, s in zip(spent["touch"][1:], spent[name][1:], strict=True))
        rate = BAGS * LOOKUPS / median(spent["touch"][1:]) * stride
        result.append(row(f"{label} {fmt}, DRAM, share of the bound", rate, "B/s", "reading random rows", share))
    return result


def _in_turns(name: str, ours: Bag, peer: Bag, against: str, rows: int, goal: float | None = None) -> Row:
    """Ours beside a peer, each call on rows of its own: nothing is warm."""
    rng = np.random.default_rng(0)
    pick = iter([rng.integers(0, rows, BAGS * LOOKUPS) for _ in range(12 * ROUNDS)])
    calls = {who: (lambda run=run: run(next(pick))) for who, run in (("ours", ours), ("peer", peer))}
    seconds = interleaved(calls, ROUNDS, at_least=0.0)
    ratio = float(np.median(seconds["peer"] / seconds["ours"]))
    return row(name, BAGS * LOOKUPS / float(np.median(seconds["ours"])), "lookup/s", against, ratio, goal)


def rows() -> list[Row]:
    """Bags of 40 lookups in the four formats, tables beyond and within the caches; single lookups."""
    rng, found = np.random.default_rng(0), []
    offsets = np.arange(BAGS + 1, dtype=np.int64) * LOOKUPS
    out = np.zeros((BAGS, WIDTH), np.float32)
    for fmt in ("fp32", "fp16", "int8", "int4"):
        for rows, place, goal in ((ROWS_BEYOND_CACHE, "DRAM", 1.3), (ROWS_IN_CACHE, "cache", None)):
            data = _stored(fmt, rows)
            ours = partial(embedding_bag, RowTable(fmt, WIDTH, data), offsets=offsets, out=out, threads=1)
            peer, against = partial(ours, distance=0), "no prefetch"
            if TORCH:
                peer, against = _torch_bag(fmt, data, offsets), "torch"
            name = f"embedding bag {fmt}, {rows} x {WIDTH}, {place}"
            found.append(_in_turns(name, ours, peer, against, rows, goal if TORCH else None))
            if place == "DRAM":
                ids = [rng.integers(0, rows, BAGS * LOOKUPS) for _ in range(3 * ROUNDS)]
                found += _bounded(fmt, data, ours, peer, ids)
    return found + ([_single()] if TORCH else [])


def _single() -> Row:
    """Lookups without bags in an fp32 table beyond the caches."""
    import torch

    table = RowTable("fp32", WIDTH, _stored("fp32", ROWS_BEYOND_CACHE))
    data, single = torch.from_numpy(table.data), fresh((BAGS * LOOKUPS, WIDTH))
    return _in_turns(
        f"single lookups fp32, {table.rows} x {WIDTH}, DRAM",
        partial(embedding_bag, table, out=single, threads=1),
        lambda ids: torch.nn.functional.embedding(torch.from_numpy(ids), data),
        "torch",
        table.rows,
    )
