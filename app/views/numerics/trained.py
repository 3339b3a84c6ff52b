"""Networks trained on the machine that serves the page and what fewer bits cost them: Wide & Deep, a perceptron."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from app.shared import formats as fmt
from app.shared import host_runs, jobs, parts
from app.views.numerics import charts, texts
from engine.lab.host.measure.jobs import digits, wide_deep
from engine.lab.numerics.trained import DigitsStudy, WideDeepStudy

_ROWS = 50_000  # of training, and as many held out: some seconds of a server that others use too


def _result(key: str, label: str, help: str, job: tuple[Any, ...]) -> Any:
    """The last result of a queued job, if there is one; a button asks for it."""
    slot = f"v.trained.{key}"
    if st.button(label, icon=":material/model_training:", key=f"n.{key}", help=help):
        with jobs.line(f"n.{key}") as bar:
            outcome = host_runs.followed(job, bar, lambda share: f"Training, judging, timing: {fmt.percent(share)}")
        st.session_state[f"{slot}.problem"] = outcome if isinstance(outcome, str) else None
        if not isinstance(outcome, str):
            st.session_state[slot] = outcome
    problem = st.session_state.get(f"{slot}.problem")
    if problem:
        parts.refused(problem)
    return st.session_state.get(slot)


def _table(columns: dict[str, list[Any]], formats: dict[str, str], alt: str) -> None:
    config = {name: st.column_config.NumberColumn(format=formats[name]) for name in formats}
    parts.table(pd.DataFrame(columns), alt, config, tall=None)


def _wide_deep(study: WideDeepStudy) -> None:
    plain, published = study.quality[:2]
    assert plain.auc is not None
    assert published.auc is not None
    answer = texts.WIDE_DEEP_ANSWER.format(gain=fmt.times(study.gain(512)), lost=100 * study.accuracy_lost)
    answer += f"answers, {plain.auc - published.auc:.5f} of AUC"
    with parts.card(texts.WIDE_DEEP, answer):
        fig = charts.layer_errors(study.quality[1:], parts.dark())
        parts.figure(fig, texts.WIDE_DEEP_ALT.format(answer=answer), "wide-deep-layers")
        _table(
            {
                "Served in": [q.precision for q in study.quality],
                "Accuracy (%)": [100 * q.accuracy for q in study.quality],
                "AUC": [q.auc for q in study.quality],
                "Log loss (nat)": [q.log_loss for q in study.quality],
                "Answers changed (%)": [100 * (q.changed or 0.0) for q in study.quality],
                "Samples/s (k)": [fmt.THOUSAND(s.rate) for s in study.speed],
            },
            {
                "Accuracy (%)": "%.3f",
                "AUC": "%.5f",
                "Log loss (nat)": "%.5f",
                "Answers changed (%)": "%.3f",
                "Samples/s (k)": fmt.cells(fmt.THOUSAND(s.rate) for s in study.speed),
            },
            texts.WIDE_DEEP_TABLE_ALT,
        )
        st.caption(
            texts.WIDE_DEEP_CAPTION.format(rows=study.rows, held_out=study.held_out, share=fmt.percent(study.base))
        )


def _digits(study: DigitsStudy) -> None:
    plain, binary = study.quality
    answer = texts.DIGITS_ANSWER.format(binary=fmt.percent(binary.accuracy), plain=fmt.percent(plain.accuracy))
    answer += f"{fmt.times(study.image_s[0] / study.image_s[1])} as fast"
    with parts.card(texts.DIGITS, answer):
        _table(
            {
                "Stored in": [q.precision for q in study.quality],
                "Accuracy (%)": [100 * q.accuracy for q in study.quality],
                "Weights (kB)": [fmt.KILOBYTE(size) for size in study.weight_bytes],
                "Images/s (k)": [fmt.THOUSAND(1 / time) for time in study.image_s],
            },
            {"Accuracy (%)": "%.2f", "Weights (kB)": "%.2f", "Images/s (k)": "%.1f"},
            texts.DIGITS_TABLE_ALT,
        )
        st.caption(texts.DIGITS_CAPTION.format(hidden=" and ".join(map(str, study.hidden)), held_out=study.held_out))


def trained_here() -> None:
    """All cards; nothing runs before a button, and runs wait for their turn."""
    cards: tuple[tuple[str, str, str, tuple[Any, ...], Callable[[Any], None], str], ...] = (
        (
            "wide_deep",
            "Train Wide & Deep",
            texts.WIDE_DEEP_TITLE,
            (wide_deep, _ROWS),
            _wide_deep,
            texts.WIDE_DEEP_SAYS,
        ),
        (
            "digits",
            "Train the perceptron",
            "Perceptron trained here",
            (digits,),
            _digits,
            texts.DIGITS_SAYS,
        ),
    )
    for key, label, title, job, show, says in cards:
        slot = st.container()
        study = _result(key, label, texts.RUN_HELP, job)
        with slot:
            if study is None:
                with parts.card(title, "not run yet"):
                    st.caption(f"{says}.")
            else:
                show(study)
