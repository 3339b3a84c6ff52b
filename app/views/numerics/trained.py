"""Wide & Deep trained on the machine that serves the page, and what fewer bits cost it."""

from collections.abc import Callable

import streamlit as st

from app.shared import formats as fmt
from app.shared import host_runs, jobs, parts
from app.views.numerics import charts, texts
from engine.lab.host.measure.jobs import wide_deep
from engine.lab.numerics.trained import WideDeepStudy

_ROWS = 50_000  # of training, and as many held out: some seconds of a server that others use too
_SLOT = "v.trained.wide_deep"


def _wide_deep(study: WideDeepStudy, say: Callable[[str], object]) -> None:
    plain, paper = study.quality[:2]
    answer = texts.WIDE_DEEP_ANSWER.format(gain=fmt.times(study.gain), lost=100 * study.accuracy_loss())
    answer += f"answers, {plain.auc - paper.auc:.5f} of AUC"
    say(answer)
    parts.figure(
        charts.layer_errors(study.quality[1:3], parts.dark()), f"{texts.WIDE_DEEP}: {answer}.", "wide-deep-layers"
    )
    frame = {
        "Served in": [q.precision for q in study.quality],
        "Accuracy (%)": [100 * q.accuracy for q in study.quality],
        "AUC": [q.auc for q in study.quality],
        "Log loss (nat)": [q.log_loss for q in study.quality],
        "Answers changed (%)": [100 * q.changed for q in study.quality],
        "Samples/s (k)": [fmt.THOUSAND(s.rate) for s in study.speed],
    }
    digits = {"Accuracy (%)": 3, "AUC": 5, "Log loss (nat)": 5, "Answers changed (%)": 3}
    config = {name: st.column_config.NumberColumn(format=f"%.{n}f") for name, n in digits.items()}
    parts.table(frame, config, tall=None)
    st.caption(texts.WIDE_DEEP_CAPTION.format(rows=study.rows, held_out=study.held_out, share=fmt.percent(study.base)))


def trained_here() -> None:
    """The card; nothing runs before its button, and a run waits for its turn."""
    with parts.open_card(texts.WIDE_DEEP, stretch=False) as say:
        say("not run yet")
        if st.button("Train Wide & Deep", icon=":material/model_training:", key="n.wide_deep", help=texts.RUN_HELP):
            with jobs.line("n.wide_deep") as bar:
                job = (wide_deep, _ROWS)
                outcome = host_runs.follow(job, bar, lambda share: f"Training, judging, timing: {fmt.percent(share)}")
            if isinstance(outcome, str):
                parts.refusal(outcome)
            else:
                st.session_state[_SLOT] = outcome
        if study := st.session_state.get(_SLOT):
            _wide_deep(study, say)
        else:
            st.caption(f"{texts.WIDE_DEEP_SAYS}.")
