"""Runs on the machine that serves the page: queued, followed, given up; and its networks, predicted and measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
import streamlit as st

from app.shared import formats as fmt
from app.shared import parts, priority
from app.views.kernels import charts as kernel_charts
from engine.lab.host.measure import Bounds, MeasureError, MeasurementCancelled
from engine.lab.host.measure.compare import Compared, fitting, summary
from engine.lab.host.measure.jobs import network
from engine.lab.host.measure.queue import QueuedRun, queued
from engine.lab.threads.ranges import KernelError
from model_zoo.catalog import default_zoo

_LOOK_S = 0.15  # between two looks at a run
_STOPPED = "The run was stopped; nothing was measured"
_NETWORKS = Bounds(bytes=2e9, seconds=0.6)  # of each network: buffers, and time spent sampling
_MOST_FLOPS = 2.5e10  # of a request


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
        return f"Waiting: {ticket.ahead} run{'s' if ticket.ahead > 1 else ''} before this one"
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


def networks() -> None:
    """Every network that fits this server: measured, predicted, and how far off the prediction was."""
    runs: dict[str, Compared] = st.session_state.get("network_rows", {})
    wanted = [id for id, reason in fitting(default_zoo(), _NETWORKS, _MOST_FLOPS).items() if not reason]
    slot = st.container()
    done = len([id for id in wanted if id in runs])
    label = "Measure networks" if done in (0, len(wanted)) else "Go on"
    if st.button(
        label,
        icon=":material/table_chart:",
        key="k.networks.run",
        help="FP32, one thread, as requested in the model catalog. About a minute; other readers' runs come between.",
    ):
        kept = st.session_state.setdefault("network_rows", {})
        st.session_state.network_problem = one_by_one(
            "k.networks", wanted, kept, lambda id: (network, id, "fp32", 1, _NETWORKS), str
        )
        st.rerun()
    rows = [row for row in runs.values() if row.ratio is not None]
    with slot:
        if not rows:
            with parts.card("Networks on this host", f"{len(wanted)} of the catalog fit; none measured yet"):
                st.caption(
                    "Each is run with this project's operators and predicted by the CPU model from the host probe."
                )
        else:
            _shown(list(runs.values()), rows)
        problem = st.session_state.get("network_problem")
        if problem:
            parts.refused(problem)


def _shown(every: list[Compared], rows: list[Compared]) -> None:
    answer = summary(rows)
    with parts.card("Networks on this host: predicted over measured", answer):
        fig = kernel_charts.networks(rows, parts.dark(), 270 if parts.mobile() else 900)
        parts.figure(fig, f"Predicted over measured time of each network: {answer}", "kernel-networks")
        frame = pd.DataFrame(
            [
                {
                    "Network": row.workload,
                    "Measured": fmt.seconds(row.measured_s),
                    "Predicted": fmt.seconds(row.predicted_s),
                    "Error (%)": 100 * (row.error or 0.0),
                    "Furthest off": _widest(row),
                }
                for row in sorted(rows, key=lambda row: -abs(row.error or 0.0))
            ]
        )
        text = st.column_config.TextColumn
        parts.table(
            frame,
            "Measured and predicted time of every network that ran",
            {
                "Network": text(pinned=True),
                "Measured": text(alignment="right"),
                "Predicted": text(alignment="right"),
                "Error (%)": st.column_config.NumberColumn(format="%+.0f"),
                "Furthest off": text("Furthest off", help="Operator with the largest difference in time"),
            },
            key="k.networks.table",
        )
        left = [row for row in every if row.ratio is None]
        if left:
            st.caption(fmt.plain("Not measured: " + "; ".join(f"{row.workload} ({row.reason})" for row in left)))


def _widest(row: Compared) -> str:
    off = row.widest
    if off is None or not off.measured_s:
        return ""
    return f"{off.kernel} {fmt.signed(off.predicted_s / off.measured_s - 1)}"
