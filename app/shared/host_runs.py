"""Runs on the machine that serves the page, in a process of their own: one at a time, followed, cancelled."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from app.shared import jobs, parts
from app.shared.jobs import Job
from engine.lab.host.measure.cases import MeasureError
from engine.lab.host.measure.process import MeasuringProcess
from engine.lab.ranges import KernelError
from engine.scenario import ScenarioError

LAST: dict[str, Any] = {}
"""What this host measured last, by kind, whoever asked: a page has something to show before its reader asks."""

_APART = MeasuringProcess()  # of this server: the queue asks it for one run at a time


def follow(
    job: tuple[Any, ...], bar: Any, words: Callable[[float], str], share: Callable[[float], float] = lambda part: part
) -> Any:
    """Result of a module's `function(*arguments, progress=...)` in the measuring process, or why there is none."""
    run = Job(
        jobs.RUNS,
        lambda run: _APART.run(*job, progress=run.note),
        lambda share: words(share) if share else "Compiling and preparing",
    )
    try:
        return jobs.follow(run, bar, share)
    except (ScenarioError, MeasureError, KernelError) as error:
        return str(error)


def card(
    title: str,
    label: str,
    runs: Sequence[tuple[tuple[Any, ...], Callable[[float], str]]],
    show: Callable[[list[Any], Callable[[str], object]], None],
    idle: tuple[str, str],
    key: str,
    **button: Any,
) -> None:
    """A card of ``runs``, each a job and its words by the share that is done: none runs before the button ``label``,
    and other readers' runs come between.

    ``show`` draws what they measured and says the answer; before, ``idle`` is the answer and a caption.
    """
    slot = f"{key}.outcomes"
    with parts.open_card(title, stretch=False) as say:
        say(idle[0])
        if st.button(label, key=key, **button):
            st.session_state[slot] = outcomes = list[Any]()
            with jobs.line(key) as bar:
                for at, (job, words) in enumerate(runs):
                    outcome = follow(job, bar, words, lambda share, at=at: (at + share) / len(runs))
                    if isinstance(outcome, str):
                        parts.refusal(outcome)
                        break
                    outcomes.append(outcome)
        if outcomes := st.session_state.get(slot):
            show(outcomes, say)
        else:
            st.caption(idle[1])
