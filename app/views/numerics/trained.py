"""Wide & Deep trained on the machine that serves the page, and what fewer bits cost it."""

from collections.abc import Callable

import streamlit as st

from app.shared import formats as fmt
from app.shared import host_runs, parts
from app.shared.report_tables import columns
from app.views.numerics import charts, texts
from engine.lab.host.measure.jobs import wide_deep
from engine.lab.numerics.trained import WideDeepStudy

_ROWS = 50_000  # of training, and as many held out: some seconds of a server that others use too
_DIGITS = {"Accuracy (%)": 3, "AUC": 5, "Log loss (nat)": 5, "Answers changed (%)": 3}


def _wide_deep(studies: list[WideDeepStudy], say: Callable[[str], object]) -> None:
    study = studies[0]
    plain, paper = study.quality[:2]
    answer = texts.WIDE_DEEP_ANSWER.format(gain=fmt.times(study.gain), lost=100 * study.accuracy_loss())
    answer += f"answers, {plain.auc - paper.auc:.5f} of AUC"
    say(answer)
    fig = charts.layer_errors(study.quality[1:3], parts.dark())
    parts.figure(fig, f"{texts.WIDE_DEEP}: {answer}.", "wide-deep-layers")
    config = {name: st.column_config.NumberColumn(format=f"%.{n}f") for name, n in _DIGITS.items()}
    frame = columns(study.quality, texts.QUALITY_COLUMNS) | columns(study.speed, texts.SPEED_COLUMNS)
    parts.table(frame, config, tall=None)
    st.caption(texts.WIDE_DEEP_CAPTION.format(rows=study.rows, held_out=study.held_out, share=fmt.percent(study.base)))


def trained_here() -> None:
    """The card of the study."""
    runs = [((wide_deep, _ROWS), lambda share: f"Training, judging, timing: {fmt.percent(share)}")]
    button = {"icon": ":material/model_training:", "help": texts.RUN_HELP}
    idle = "not run yet", f"{texts.WIDE_DEEP_SAYS}."
    host_runs.card(texts.WIDE_DEEP, "Train Wide & Deep", runs, _wide_deep, idle, "n.wide_deep", **button)
