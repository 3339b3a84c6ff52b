"""Cards of the Load page, whatever the workload: the plan, and a simulation in the background."""

from collections.abc import Callable, Hashable, Mapping

import pandas as pd
import streamlit as st

from app.shared import formats as fmt
from app.shared import parts
from app.shared.boundary import callback
from app.shared.widgets.choices import choose
from app.views.traffic import tables, texts
from app.views.traffic.simulation import SimulationJob


def capacity_card(frame: pd.DataFrame | None, answer: str, notes: list[str], peak: str, caption: str) -> None:
    """Nodes, racks, power and money for the demand."""
    with parts.card(texts.NODES.format(peak=peak), answer):
        if frame is not None:
            parts.table(frame.dropna(axis=1, how="all"))
        for note in notes:
            st.caption(fmt.plain(note))
        st.caption(caption)


@st.fragment(run_every=0.4)
def progress(job: SimulationJob) -> None:
    """How far a simulation is, with Cancel beside it."""
    if not job.running:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(job.share, text=job.status())
        st.button("Cancel", on_click=job.cancel, key="t.cancel")


def simulation_of(subject: Hashable) -> tuple[SimulationJob | None, bool]:
    """The simulation that was started for what is asked, if any, and whether it runs: it may end as a page is drawn."""
    job: SimulationJob | None = st.session_state.get("t.job")
    return (job, job.running) if job is not None and job.subject == subject else (None, False)


def simulation_controls(
    job: SimulationJob | None,
    running: bool,
    make: Callable[[int], SimulationJob],
    counts: Mapping[int, str],
    usual: int,
    qps: float,
) -> None:
    """The button, and how far the page's own simulation is that was ``running`` when its results were drawn.

    ``make`` makes another, of so many requests a load. The run that draws the button starts it, not a callback, which
    would still have the number and the load of the run before.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        names = {str(count): name for count, name in counts.items()}
        requests = int(choose("Requests per point", names, "requests", str(usual), width=140))
        click = st.button("Simulate", type="primary", disabled=running, key="t.run", shortcut=parts.run_keys())
        st.caption(tables.job_said(job, qps))
    if click:
        callback(start)(make(requests))
        st.rerun()
    if job is not None and running:
        progress(job)


def start(job: SimulationJob) -> None:
    """Queue a simulation in place of the one that the session has."""
    before: SimulationJob | None = st.session_state.get("t.job")
    if before is not None:
        before.cancel()
    job.submit()
    st.session_state["t.job"] = job
