"""Blocks of networks run depth first on the machine that serves the page, beside what the model expects of them."""

import pandas as pd
import streamlit as st

from app.shared import formats as fmt
from app.shared import host_runs, parts
from app.views.kernels import charts, texts
from engine.lab.host.measure import Bounds
from engine.lab.host.measure.fused import BLOCKS, FusedRun
from engine.lab.host.measure.jobs import block

_BOUNDS = Bounds(bytes=2e8, seconds=0.6)  # of each block: buffers, and time spent sampling


def on_this_host() -> None:
    """A card with every block: nothing runs before the button, and runs wait for their turn."""
    runs: dict[str, FusedRun] = st.session_state.get("fused_rows", {})
    slot = st.container()
    label = texts.RUN_HOST if len(runs) in (0, len(BLOCKS)) else "Go on"
    if st.button(label, icon=":material/timer:", key="k.fused", help=texts.RUN_HELP):
        rows = st.session_state.setdefault("fused_rows", {})
        st.session_state.fused_problem = host_runs.one_by_one(
            "k.fused", list(BLOCKS), rows, lambda name: (block, name, _BOUNDS), lambda name: BLOCKS[name].title
        )
        st.rerun()
    problem = st.session_state.get("fused_problem")
    if problem:
        parts.refusal(problem)
    with slot:
        if runs:
            _shown(list(runs.values()))
        else:
            with parts.card(texts.ON_THIS_HOST, texts.BLOCKS_NOT_MEASURED.format(count=len(BLOCKS))):
                st.caption(texts.BLOCKS_NOT_MEASURED_CAPTION)


def _shown(rows: list[FusedRun]) -> None:
    faster = sum(run.gain > 1 for run in rows)
    close = sum(abs(run.gain / run.predicted - 1) <= 0.25 for run in rows)
    answer = texts.MEASURED_ANSWER.format(faster=faster, count=len(rows), close=close)
    with parts.card(texts.ON_THIS_HOST, answer, charts.speedups(rows, parts.dark()), "fused-host"):
        frame = pd.DataFrame(
            {
                "Block": [run.title for run in rows],
                "Gain, measured": [run.gain for run in rows],
                "Gain, predicted": [run.predicted for run in rows],
                "Breadth first (ms)": [fmt.MILLISECOND(run.breadth.median) for run in rows],
                "Predicted (ms)": [fmt.MILLISECOND(run.predicted_breadth_s) for run in rows],
                "Depth first (ms)": [fmt.MILLISECOND(run.depth.median) for run in rows],
                "Predicted, depth (ms)": [fmt.MILLISECOND(run.predicted_depth_s) for run in rows],
            }
        )
        parts.table(frame, tall=None)
