"""Networks trained on the machine that serves the page and what fewer bits cost them: Wide & Deep, a perceptron."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from app.shared import formats as fmt
from app.shared import host_runs, parts
from app.views.numerics import charts
from engine.analyses.format_costs import FormatCost
from engine.host.measure.jobs import digits, narrow_floats, wide_deep
from engine.numerics.trained import DigitsStudy, WideDeepStudy

__all__ = ["trained_here"]

_ROWS = 50_000  # of training, and as many held out: some seconds of a server that others use too


def _asked(key: str, label: str, help: str, job: tuple[Any, ...]) -> Any:
    """The last result of a queued job, if there is one; a button asks for it."""
    slot = f"v.trained.{key}"
    if st.button(label, icon=":material/model_training:", key=f"n.{key}", help=help):
        with host_runs.line(f"n.{key}") as bar:
            outcome = host_runs.followed(job, bar, lambda share: f"Training, judging, timing: {fmt.percent(share)}")
        st.session_state[f"{slot}.problem"] = outcome if isinstance(outcome, str) else None
        if not isinstance(outcome, str):
            st.session_state[slot] = outcome
    problem = st.session_state.get(f"{slot}.problem")
    if problem:
        st.warning(fmt.plain(f"{problem.rstrip('.')}."), icon=":material/edit_off:")
    return st.session_state.get(slot)


def _table(columns: dict[str, list[Any]], formats: dict[str, str], alt: str) -> None:
    config = {name: st.column_config.NumberColumn(format=formats[name]) for name in formats}
    st.dataframe(pd.DataFrame(columns), hide_index=True, height="content", column_config=config, alt=alt)


def _wide_deep(study: WideDeepStudy) -> None:
    plain, published = study.quality[:2]
    assert plain.auc is not None
    assert published.auc is not None
    answer = f"INT8 is {fmt.times(study.gain(512))} as fast at batch 512 and loses {100 * study.accuracy_lost:.3f}% of "
    answer += f"answers, {plain.auc - published.auc:.5f} of AUC"
    with parts.card("Wide & Deep trained here, FP32 and INT8", answer):
        fig = charts.layer_errors(study.quality[1:], parts.dark())
        parts.figure(fig, f"Signal over error of every layer's input in INT8: {answer}.", "wide-deep-layers")
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
            "Accuracy, AUC, log loss and rate in FP32 and both INT8 schemes",
        )
        st.caption(
            "As published: the first product's inputs asymmetric, later ones symmetric, a scale a layer; refined: a "
            f"scale a channel, ranges of 99.99%. {study.rows:,} synthetic rows trained, {study.held_out:,} held out, "
            f"{fmt.percent(study.base)} of them no click: no evidence about Criteo's data."
        )


def _digits(study: DigitsStudy) -> None:
    plain, binary = study.quality
    answer = f"{fmt.percent(binary.accuracy)} of digits right in one bit, {fmt.percent(plain.accuracy)} in FP32; "
    answer += f"{fmt.times(study.image_s[0] / study.image_s[1])} as fast"
    with parts.card("Perceptron trained here, FP32 and one bit", answer):
        _table(
            {
                "Stored in": [q.precision for q in study.quality],
                "Accuracy (%)": [100 * q.accuracy for q in study.quality],
                "Weights (kB)": [fmt.KILOBYTE(size) for size in study.weight_bytes],
                "Images/s (k)": [fmt.THOUSAND(1 / time) for time in study.image_s],
            },
            {"Accuracy (%)": "%.2f", "Weights (kB)": "%.2f", "Images/s (k)": "%.1f"},
            "Accuracy, size and rate of the perceptron in FP32 and in one bit",
        )
        st.caption(
            f"Hidden layers of {' and '.join(map(str, study.hidden))}; 1,797 handwritten digits (UCI, 1998), "
            f"{study.held_out} of them held out. One thread, all held-out images in a batch."
        )


def _narrow_floats(costs: tuple[FormatCost, ...]) -> None:
    own = [one for one in costs if one.format.startswith("ms-fp")]
    low = min(own, key=lambda one: one.accuracy.bits)
    answer = f"{low.format} keeps {fmt.percent(low.accuracy.converted)} of digits right as it is, "
    answer += f"{fmt.percent(low.accuracy.epochs[-1])} trained on in it; "
    answer += f"{fmt.percent(low.accuracy.trained)} in FP32"
    with parts.card("GRU retrained here in the formats of soft processors", answer):
        _table(
            {
                "Machine": [one.machine.rpartition(" on ")[2] for one in costs],
                "Stored in": [one.format for one in costs],
                "Bits a weight": [one.accuracy.bits for one in costs],
                "Weights (kB)": [fmt.KILOBYTE(one.accuracy.weight_bytes) for one in costs],
                "Peak": [fmt.si(one.peak, "FLOP/s") for one in costs],
                "State error (%)": [100 * one.error for one in costs],
                "Converted (%)": [100 * one.accuracy.converted for one in costs],
                "Retrained (%)": [100 * one.accuracy.epochs[-1] for one in costs],
            },
            {
                "Bits a weight": "%.2f",
                "Weights (kB)": "%.1f",
                "State error (%)": "%.1f",
                "Converted (%)": "%.2f",
                "Retrained (%)": "%.2f",
            },
            "Bits, size, peak, error and accuracy of each format, converted and retrained",
        )
        st.caption(
            "Weights, and vectors on their way into a product, share an exponent over a block. The error is "
            "of a drawn network's state after 16 steps, or its logits; accuracy is of held-out digits."
        )


def trained_here() -> None:
    """All cards; nothing runs before a button, and runs wait for their turn."""
    cards: tuple[tuple[str, str, str, tuple[Any, ...], Callable[[Any], None], str], ...] = (
        (
            "wide_deep",
            "Train Wide & Deep",
            "Wide & Deep trained here",
            (wide_deep, _ROWS),
            _wide_deep,
            "FP32 against INT8 on held-out rows, error by layer, samples a second",
        ),
        (
            "digits",
            "Train the perceptron",
            "Perceptron trained here",
            (digits,),
            _digits,
            "FP32 against one bit on handwritten digits",
        ),
        (
            "narrow_floats",
            "Retrain the GRU",
            "GRU retrained here in the formats of soft processors",
            (narrow_floats,),
            _narrow_floats,
            "ms-fp8 to ms-fp11 and FP16: bits, size, peak, error, accuracy before and after retraining",
        ),
    )
    for key, label, title, job, show, says in cards:
        slot = st.container()
        study = _asked(key, label, "Runs on this host, about ten seconds; other readers' runs come between.", job)
        with slot:
            if study is None:
                with parts.card(title, "not run yet"):
                    st.caption(f"{says}.")
            else:
                show(study)
