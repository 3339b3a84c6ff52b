"""Figures 8, 15 and 18 of the transformer appliance's document, drawn beside what it prints."""

from __future__ import annotations

import streamlit as st

from app.shared import cached, parts
from app.shared import formats as fmt
from app.shared.figures.drawing import Bar, hover, points, rows
from app.shared.figures.style import INK, PALETTE, Figure, span, two_lines
from app.views.published import texts
from engine.published.dfx_figures import Comparison


def _text(figure: Comparison, value: float) -> str:
    return fmt.percent(value) if not figure.unit else fmt.si(value, figure.unit)


def paired(figure: Comparison, dark: bool) -> Figure:
    """A bar for each prediction, a diamond where the document prints a number."""
    most = max(max(b.predicted, b.printed or 0.0) for b in figure.bars)
    scale = fmt.scale([most], figure.unit) if figure.unit else fmt.Scale(100.0, "%")
    labels = [two_lines(b.label, _text(figure, b.predicted)) for b in figure.bars]
    shown, printed = [], []
    for at, b in enumerate(figure.bars):
        note = hover(b.label, f"predicted {_text(figure, b.predicted)}")
        if b.printed is not None:
            note = hover(b.label, f"predicted {_text(figure, b.predicted)}, printed {_text(figure, b.printed)}")
            printed.append((scale(b.printed), at, note))
        shown.append(Bar(at, scale(b.predicted), PALETTE["compute"][dark], note))
    x = span(f"{figure.measure} ({scale.unit})", 0, 1.08 * scale(most), nticks=5)
    xs, ys, says = zip(*printed) if printed else ((), (), ())
    marks = [points(xs, ys, INK[dark], says, symbol="diamond", size=11)] if printed else []
    return rows(labels, shown, x, dark, least=200, more=marks)


def _answer(figure: Comparison) -> str:
    errors = [(b.label, b.predicted / b.printed - 1) for b in figure.bars if b.printed]
    if figure.answer:
        return figure.answer
    if not errors:
        low = min(figure.bars, key=lambda b: b.predicted)
        return texts.LEAST.format(label=low.label, figure=_text(figure, low.predicted))
    label, worst = max(errors, key=lambda row: abs(row[1]))
    return texts.FURTHEST_OFF.format(label=label, worst=fmt.signed(worst))


def section() -> None:
    """The folded part of the page; what is in it is computed when it is opened."""
    with st.expander(
        texts.DFX_FIGURES,
        key="open.dfx_figures",
        on_change="rerun",
    ) as folded:
        if not folded.open:
            return
        shown = cached.dfx_figures()
        for first in range(0, len(shown), 2):
            for column, figure in zip(st.columns(2, gap="small"), shown[first : first + 2]):
                with column, parts.card(figure.title, _answer(figure)):
                    alt = f"{figure.title}: {_answer(figure)}."
                    parts.figure(paired(figure, parts.dark()), alt, f"dfx.{figure.title.split(',')[0]}")
                    st.caption(fmt.plain(figure.note))
