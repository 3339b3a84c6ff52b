"""Figures 8, 15 and 18 of the transformer appliance's document, drawn beside what it prints."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import streamlit as st

from app.shared import cached, parts
from app.shared import formats as fmt
from app.shared.figures.style import INK, PALETTE, bar, row_height, rows_axis, style, two_lines
from app.views.published import texts
from engine.published.dfx_figures import Comparison


def _text(figure: Comparison, value: float) -> str:
    return fmt.percent(value) if not figure.unit else fmt.si(value, figure.unit)


def paired(figure: Comparison, dark: bool) -> go.Figure:
    """A bar for each prediction, a diamond where the document prints a number."""
    most = max(max(b.predicted, b.printed or 0.0) for b in figure.bars)
    scale = fmt.scale([most], figure.unit) if figure.unit else None

    def drawn(value: float) -> float:
        return scale(value) if scale else 100 * value

    data: list[dict[str, Any]] = []
    labels = []
    for at, one in enumerate(figure.bars):
        labels.append(two_lines(one.label, _text(figure, one.predicted)))
        said = f", printed {_text(figure, one.printed)}" if one.printed is not None else ""
        hover = f"<b>{one.label}</b><br>predicted {_text(figure, one.predicted)}{said}<extra></extra>"
        colour = {"color": PALETTE["compute"][dark]}
        data.append(bar(at, drawn(one.predicted), marker=colour, hovertemplate=hover))
    told = [(at, b.label, b.printed) for at, b in enumerate(figure.bars) if b.printed is not None]
    if told:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [drawn(printed) for _, _, printed in told],
                "y": [at for at, _, _ in told],
                "marker": {"symbol": "diamond", "size": 11, "color": INK[dark]},
                "hovertemplate": [f"<b>{name}</b><br>printed {_text(figure, v)}<extra></extra>" for _, name, v in told],
            }
        )
    unit = f" ({scale.unit})" if scale else " (%)"
    x = {"title": f"{figure.measure}{unit}", "range": [0, 1.08 * drawn(most)], "showgrid": False, "nticks": 5}
    return style(data, x, rows_axis(labels), max(200, 56 + row_height(labels) * len(labels)), dark)


def _answer(figure: Comparison) -> str:
    told = [(b.label, b.predicted / b.printed - 1) for b in figure.bars if b.printed]
    if figure.answer:
        return figure.answer
    if not told:
        low = min(figure.bars, key=lambda b: b.predicted)
        return texts.LEAST.format(label=low.label, figure=_text(figure, low.predicted))
    label, worst = max(told, key=lambda one: abs(one[1]))
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
