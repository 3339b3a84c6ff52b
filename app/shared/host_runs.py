"""Runs on the machine that serves the page, in a process of their own: one at a time, followed, cancelled."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app.shared import jobs
from app.shared.jobs import Job
from engine.lab.host.measure import MeasureError, MeasurementCancelled
from engine.lab.host.measure.process import MeasuringProcess
from engine.lab.ranges import KernelError
from engine.scenario import ScenarioError

_APART = MeasuringProcess()  # of this server: the queue asks it for one run at a time
_NO_RESULT = "The run was stopped; nothing was measured"


@st.cache_resource
def last() -> dict[str, Any]:
    """What this host measured last, by kind, whoever asked: a page has something to show before its reader asks."""
    return {}


def measuring(job: tuple[Any, ...], words: Callable[[float], str] = str) -> Job:
    """A module's function and its arguments as a job: `function(*arguments, progress=...)` in the measuring process."""
    function, *arguments = job
    return Job(
        jobs.RUNS,
        lambda run: _APART.run(function, *arguments, progress=run.note),
        lambda share: words(share) if share else "Compiling and preparing",
    )


def follow(
    job: tuple[Any, ...], bar: Any, words: Callable[[float], str], share: Callable[[float], float] = lambda part: part
) -> Any:
    """Result of a run, or the sentence that says why there is none."""
    run = measuring(job, words)
    try:
        jobs.follow(run, bar, share)
        return _NO_RESULT if run.cancelled else run.result()
    except (ScenarioError, MeasureError, KernelError) as error:
        return str(error)
    except MeasurementCancelled:
        return _NO_RESULT
