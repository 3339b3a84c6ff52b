"""Blocks of networks run depth first on the machine that serves the page, beside what the model expects of them."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app.shared import formats as fmt
from app.shared import host_runs, jobs, parts
from app.views.kernels import charts, texts
from engine.lab.host.measure import Bounds
from engine.lab.host.measure.fused import BLOCKS, FusedRun
from engine.lab.host.measure.jobs import block

_BOUNDS = Bounds(bytes=2e8, seconds=0.6)  # of each block: buffers, and time spent sampling


def on_this_host() -> None:
    """A card with every block: nothing runs before its button, and runs wait for their turn."""
    with parts.open_card(texts.ON_THIS_HOST, stretch=False) as say:
        say(texts.BLOCKS_NOT_MEASURED.format(count=len(BLOCKS)))
        if st.button(texts.RUN_HOST, icon=":material/timer:", key="k.fused", help=texts.RUN_HELP):
            st.session_state.fused_rows = rows = []
            with jobs.line("k.fused") as bar:
                for name in BLOCKS:  # each in its own turn, so that other readers' runs come between
                    row = _measure(name, len(rows), bar)
                    if isinstance(row, str):
                        parts.refusal(row)
                        break
                    rows.append(row)
        if runs := st.session_state.get("fused_rows"):
            _show(runs, say)
        else:
            st.caption(texts.BLOCKS_NOT_MEASURED_CAPTION)


def _measure(name: str, at: int, bar: Any) -> FusedRun | str:
    """A block's run, after `at` others; the sentence that says why there is none."""
    words = f"{at + 1} of {len(BLOCKS)}: {BLOCKS[name].title}"
    return host_runs.follow((block, name, _BOUNDS), bar, lambda _: words, lambda share: (at + share) / len(BLOCKS))


def _show(rows: list[FusedRun], say: Callable[[str], object]) -> None:
    faster = sum(run.gain > 1 for run in rows)
    close = sum(abs(run.gain / run.predicted_gain - 1) <= 0.25 for run in rows)
    answer = texts.MEASURED_ANSWER.format(faster=faster, count=len(rows), close=close)
    say(answer)
    parts.figure(charts.speedups(rows, parts.dark()), f"{texts.ON_THIS_HOST}: {answer}.", "fused-host")
    frame = {
        "Block": [run.title for run in rows],
        "Gain, measured": [run.gain for run in rows],
        "Gain, predicted": [run.predicted_gain for run in rows],
        "Breadth first (ms)": [fmt.MILLISECOND(run.breadth.median) for run in rows],
        "Predicted (ms)": [fmt.MILLISECOND(run.predicted_breadth_s) for run in rows],
        "Depth first (ms)": [fmt.MILLISECOND(run.depth.median) for run in rows],
        "Predicted, depth (ms)": [fmt.MILLISECOND(run.predicted_depth_s) for run in rows],
    }
    parts.table(frame, tall=None)
