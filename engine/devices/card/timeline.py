"""The card's schedule as bars: the segment that takes longest."""

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
