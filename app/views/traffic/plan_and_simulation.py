"""Cards of the Load page, whatever the workload: the plan, and a simulation in the background."""

from collections.abc import Callable, Hashable, Mapping

import pandas as pd
import streamlit as st

from app.shared import formats as fmt
from app.shared import jobs, parts
from app.shared.widgets.choices import choose
from app.views.traffic import tables, texts
from app.views.traffic.simulation import SimulationJob
from entries.schema import InputError


def capacity_card(frame: pd.DataFrame | None, answer: str, notes: list[str], peak: str, caption: str) -> None:
    """Nodes, racks, power and money for the demand."""
    with parts.card(texts.NODES.format(peak=peak), answer):
        if frame is not None:
            parts.table(frame.dropna(axis=1, how="all"))
        for note in notes:
            st.caption(fmt.plain(note))
        st.caption(caption)


def simulation_of(subject: Hashable) -> SimulationJob | None:
    """The simulation that was made for what is asked, if any."""
    job: SimulationJob | None = st.session_state.get("t.job")
    return job if job is not None and job.subject == subject else None


def simulation_controls(
    job: SimulationJob | None, make: Callable[[int], SimulationJob], counts: Mapping[int, str], usual: int, qps: float
) -> None:
    """The button, and the progress of what it starts: ``make`` makes a simulation of so many requests a load.

    The run that draws the button starts it, not a callback, which would still have the number and the load of the run
    before; a click elsewhere gives it up, and what is done of it stays.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        names = {str(count): name for count, name in counts.items()}
        requests = int(choose("Requests per point", names, "requests", str(usual), width=140))
        click = st.button("Simulate", type="primary", key="t.run", shortcut=parts.run_keys())
        st.caption(tables.job_said(job, qps))
    if click:
        st.session_state["t.job"] = job = make(requests)
        try:
            with jobs.line("t") as bar:
                jobs.follow(job, bar)
        except InputError as error:
            st.session_state["t.job"] = None
            parts.refusal(error)
        else:
            st.rerun()
