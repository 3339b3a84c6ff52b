"""Runs on the machine that serves the page: queued, followed, given up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import streamlit as st

from app.shared import priority
from engine.lab.host.measure import MeasureError, MeasurementCancelled
from engine.lab.host.measure.queue import QueuedRun, queued
from engine.lab.ranges import KernelError

_LOOK_S = 0.15  # between two looks at a run
_STOPPED = "The run was stopped; nothing was measured"


@st.cache_resource
def last() -> dict[str, Any]:
    """What this host measured last, by kind, whoever asked: a page has something to show before its reader asks."""
    return {}


@contextmanager
def line(key: str) -> Iterator[Any]:
    """A progress bar with a button that stops the run, gone afterwards."""
    place = st.empty()
    with place.container(horizontal=True, vertical_alignment="center", gap="small"):
        bar = st.progress(0.0, "Queued")
        st.button("Cancel", key=f"{key}.cancel", icon=":material/stop_circle:")
    yield bar
    place.empty()


def _told(ticket: QueuedRun, said: Callable[[float], str]) -> str:
    if ticket.ahead:
        return f"Waiting: {ticket.ahead} run{'s' if ticket.ahead > 1 else ''} ahead of yours"
    return said(ticket.share) if ticket.share else "Compiling and preparing"


def followed(
    job: tuple[Any, ...], bar: Any, said: Callable[[float], str], share: Callable[[float], float] = lambda done: done
) -> Any:
    """Result of a queued job, or the sentence that says why there is none; whatever leaves the page gives it up."""
    try:
        ticket = queued(*job)
    except MeasureError as error:
        return str(error)
    try:
        with priority.patient():
            while not ticket.done:
                time.sleep(_LOOK_S)
                bar.progress(min(share(ticket.share), 1.0), _told(ticket, said))
        return ticket.result()
    except (MeasureError, KernelError) as error:
        return str(error)
    except MeasurementCancelled:
        return _STOPPED
    finally:
        ticket.give_up()


def one_by_one(
    key: str,
    wanted: list[str],
    runs: dict[str, Any],
    job: Callable[[str], tuple[Any, ...]],
    words: Callable[[str], str],
) -> str | None:
    """Measure one after another, each in its own turn, so that other readers' runs come between.

    Fills ``runs`` by name, begins anew where it holds all; returns the sentence that ended it, if one did.
    """
    left = [name for name in wanted if name not in runs] or wanted
    if left == wanted:
        runs.clear()
    known = len(wanted) - len(left)
    with line(key) as bar:
        for at, name in enumerate(left, known):
            row = followed(
                job(name),
                bar,
                lambda _, at=at, name=name: f"{at + 1} of {len(wanted)}: {words(name)}",
                lambda done, at=at: (at + done) / len(wanted),
            )
            if isinstance(row, str):
                return row
            runs[name] = row
    return None
