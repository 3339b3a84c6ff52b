"""The card's schedule as bars: the segment that takes longest for a report, every core of a whole pass for a node."""

from __future__ import annotations

import numpy as np

from engine.devices.card import cores as C
from engine.devices.card import demand as D
from engine.devices.common.contract import RESOURCES, Job, Span

__all__ = ["bars_of", "core_spans"]

SHOWN = 400  # bars of a report's timeline


def bars_of(
    job: Job, cores: int, asked: np.ndarray, seconds: np.ndarray, spans: np.ndarray
) -> tuple[tuple[Span, ...], str]:
    """Bars of the segment of the pass that takes longest, the longest ops of it."""
    groups = asked[:, D.SEGMENT].astype(int)
    chosen = int(np.bincount(groups, seconds.sum(axis=1)).argmax())
    rows = np.flatnonzero((groups == chosen) & (spans[:, 1] > spans[:, 0]))
    if len(rows) > SHOWN:
        rows = np.sort(rows[np.argsort(spans[rows, 0] - spans[rows, 1], kind="stable")[:SHOWN]])
    busiest_of = seconds.argmax(axis=1)
    bars = tuple(
        Span(_lane(int(pieces), cores), job.ops[j].name, begin, end - begin, RESOURCES[busiest_of[j]])
        for j, pieces, begin, end in zip(
            rows.tolist(),
            asked[rows, D.PIECES].tolist(),
            spans[rows, 0].tolist(),
            spans[rows, 1].tolist(),
            strict=True,
        )
    )
    layers = int(asked[rows[0], D.RUNS]) if len(rows) else 1
    return bars, f"one of {layers} layers" if layers > 1 else job.phase.name


def _lane(pieces: int, cores: int) -> str:
    """Name of the row an operator of so many pieces is drawn in."""
    if pieces >= cores:
        return "all cores"
    return f"{pieces} core{'s' if pieces > 1 else ''}"


def core_spans(
    job: Job,
    start: int,
    cores: int,
    asked: np.ndarray,
    first: np.ndarray,
    waits: np.ndarray,
    supply: np.ndarray,
    seconds: np.ndarray,
    ranked: bool,
) -> tuple[Span, ...]:
    """Every piece of a pass on its core, ``core 1`` and so on, counted from the card's core number `start`.

    Segments follow each other, a segment of so many layers that often; what a pass does on the host comes after the
    operators around it. The last bar ends with the pass, unless that ends on the host. [s]
    """
    n = asked.shape[0]
    piece, far, kernel = np.zeros(n), np.zeros(n), np.zeros(n)
    C.piece_seconds(asked, supply, 0, piece, far, kernel)
    begin, end, held, rank, core_of, free = (
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros((n, 2)),
        np.zeros(cores),
    )
    names = [RESOURCES[r] for r in seconds.argmax(axis=1)]
    result: list[Span] = []
    clock, low = 0.0, 0
    while low < n:
        high = low + 1
        while high < n and asked[high, D.SEGMENT] == asked[low, D.SEGMENT]:
            high += 1
        bars = np.full((int(asked[low:high, D.PIECES].sum()), 4), -1.0)
        makespan = C.list_schedule(
            low, high, asked, piece, far, first, waits, cores, ranked, begin, end, held, free, rank, core_of, bars
        )
        for _ in range(max(1, round(asked[low, D.RUNS]))):
            for j, core, at, done in bars.tolist():
                if done > at:
                    op = int(j)
                    result.append(
                        Span(f"core {start + int(core) + 1}", job.ops[op].name, clock + at, done - at, names[op])
                    )
            clock += makespan
        apart = (asked[low:high, D.HOST_OPS] > 0) | (asked[low:high, D.PIXELS] > 0)
        clock += float(seconds[low:high][apart].sum())
        low = high
    return tuple(result)
