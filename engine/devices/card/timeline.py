"""The card's schedule as bars: the segment that takes longest for a report, every core of a whole pass for a node."""

import numpy as np

from engine.devices.card import demand as D
from engine.devices.card.points import CoreSchedule
from engine.devices.common.contract import RESOURCES, Job, Span

SHOWN = 400  # bars of a report's timeline


def bars_of(job: Job, cores: int, run: CoreSchedule) -> tuple[tuple[Span, ...], str]:
    """Bars of the segment of the pass that takes longest, the longest ops of it."""
    asked, seconds = run.asked, run.seconds
    groups = asked[:, D.SEGMENT].astype(int)
    chosen = int(np.bincount(groups, seconds.sum(axis=1)).argmax())
    rows = np.flatnonzero((groups == chosen) & (run.end > run.begin))
    if len(rows) > SHOWN:
        rows = np.sort(rows[np.argsort(run.begin[rows] - run.end[rows], kind="stable")[:SHOWN]])
    busiest_of = seconds.argmax(axis=1)
    bars = tuple(
        Span(_lane(int(pieces), cores), job.ops[j].name, begin, end - begin, RESOURCES[busiest_of[j]])
        for j, pieces, begin, end in zip(
            rows.tolist(), asked[rows, D.PIECES].tolist(), run.begin[rows].tolist(), run.end[rows].tolist(), strict=True
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
    job: Job, start: int, cores: int, run: CoreSchedule, first: np.ndarray, waits: np.ndarray, ranked: bool
) -> tuple[Span, ...]:
    """Every piece of a pass on its core, ``core 1`` and so on, counted from the card's core number `start`.

    Segments follow each other, a segment of so many layers that often; what a pass does on the host comes after the
    operators around it. The last bar ends with the pass, unless that ends on the host. [s]
    """
    asked, seconds = run.asked, run.seconds
    names = [RESOURCES[r] for r in seconds.argmax(axis=1)]
    result: list[Span] = []
    clock, low = 0.0, 0
    while low < len(asked):
        high = low + 1
        while high < len(asked) and asked[high, D.SEGMENT] == asked[low, D.SEGMENT]:
            high += 1
        bars = _pieces(low, high, cores, run, first, waits, ranked)
        for _ in range(max(1, round(asked[low, D.RUNS]))):
            for op, core, at, done in bars:
                if done > at:
                    result.append(Span(f"core {start + core + 1}", job.ops[op].name, clock + at, done - at, names[op]))
            clock += max(run.end[low:high].tolist())
        apart = (asked[low:high, D.HOST_OPS] > 0) | (asked[low:high, D.PIXELS] > 0)
        clock += float(seconds[low:high][apart].sum())
        low = high
    return tuple(result)


def _pieces(
    low: int, high: int, cores: int, run: CoreSchedule, first: np.ndarray, waits: np.ndarray, ranked: bool
) -> list[tuple[int, int, float, float]]:
    """Op, core, begin and end of every piece of ops low..high, in the order in which `points` places them. [s]"""
    free, channel, bars = [0.0] * cores, 0.0, []
    order = sorted(range(low, high), key=lambda j: -run.rank[j]) if ranked else range(low, high)
    for j in order:
        before = [run.end[i] for i in waits[first[j] : first[j + 1]].tolist() if low <= i < high]
        ready, arrived, piece = float(max(before, default=0.0)), 0.0, float(run.piece[j])
        pieces = int(run.asked[j, D.PIECES])
        if pieces and run.far[j] > 0.0:
            channel = arrived = max(channel, ready) + float(run.far[j])
        for _ in range(pieces):
            at = len(bars) % cores
            if ranked and free[at] > min(free):
                at = free.index(min(free))
            begin = max(ready, free[at])
            free[at] = max(begin + piece, arrived)
            bars.append((j, at, begin, free[at]))
    return bars
