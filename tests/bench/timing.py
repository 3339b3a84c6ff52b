"""What every benchmark shares: calls timed in turns in one process, and a row of the table.

A ratio is the median over rounds of figures taken next to each other, because a shared machine's clock drifts. Times
are processor seconds of the calling thread unless a clock is given, since other work may share the machine.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], object]
Row = dict[str, Any]
ROUNDS = 11


def _timed(call: Call, clock: Callable[[], float], repeats: int = 1) -> float:
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def interleaved(
    calls: dict[str, Call],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.thread_time,
    at_least: float = 2e-4,
    spend: float = 0.0,
) -> dict[str, np.ndarray]:
    """Seconds of every call in every round, each warm and for ``at_least`` seconds.

    A round runs them one after another, the next one in the opposite order; there are ``rounds`` of them, or more that
    take about ``spend`` seconds. A call that is not timed comes before each, so operands lie where it left them.
    """
    repeats, once = {}, 0.0
    for name, call in calls.items():
        call()
        seconds = max(1e-7, min(_timed(call, clock) for _ in range(3)))
        repeats[name] = max(1, round(at_least / seconds))
        once += (repeats[name] + 1) * seconds
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(max(rounds, min(151, int(spend / once)))):
        for name in list(calls)[:: 1 if turn % 2 else -1]:
            calls[name]()
            taken[name].append(_timed(calls[name], clock, repeats[name]))
    return {name: np.array(seconds) for name, seconds in taken.items()}


def row(
    name: str,
    value: float,
    unit: str,
    against: str,
    ratio: float,
    goal: float | str | None = None,
    met: bool | None = None,
) -> Row:
    """One line of the table; a number as ``goal`` is the least ratio, None: the ratio is only reported."""
    if isinstance(goal, int | float):
        goal, met = f">= {goal:g}", bool(ratio >= goal)
    return {
        "name": name,
        "value": float(value),
        "unit": unit,
        "against": against,
        "ratio": float(ratio),
        "goal": "reported" if goal is None else goal,
        "met": met,
    }


def beside(
    name: str,
    work: float,
    unit: str,
    ours: Call,
    peers: dict[str, Call],
    goal: float | None = None,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.thread_time,
) -> Row:
    """A row of our rate beside the fastest of the peers."""
    seconds = interleaved({"ours": ours} | peers, rounds, clock)
    best = min(peers, key=lambda peer: float(np.median(seconds[peer])))
    rate = work / float(np.median(seconds["ours"]))
    return row(name, rate, unit, best, float(np.median(seconds[best] / seconds["ours"])), goal)
