"""A report as one HTML file that needs nothing else: its numbers, charts, operators and what they rest on."""

from html import escape
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared import glossary, report_tables
from app.shared.figures import report as charts
from app.shared.figures import roofline
from app.shared.figures.style import Figure
from app.views.explore import texts
from app.views.explore.headline import cards
from engine.cost.error_bands import told
from engine.cost.report import Report
from engine.published.nearest import nearest

_STYLE = Path(__file__).with_name("report.css").read_text()


def _number(value: float) -> str:
    """Four digits, never a power of ten; what would be lost in zeros is said to be small."""
    return "<0.001" if 0 < value < 1e-3 else f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


Drawn = tuple[str, str, Figure]
"""A question, its computed answer, and the figure that both are of."""


def figures(report: Report, dark: bool = False, baseline: Report | None = None, width: float = 400) -> dict[str, Drawn]:
    """Charts of the page and of the file by key, in the page's order; what a report has nothing for is left out.

    `width` is the plot area that a roofline's labels are laid out for. [px]
    """
    parts, band, per = report.breakdown, report.error_band.relative, glossary.per(report)
    under = roofline.roofline(report, dark, baseline, width)
    drawn = {
        "breakdown": (
            texts.WHERE_TIME_GOES,
            glossary.answer_breakdown(report),
            charts.breakdown(parts, band, per, dark),
        ),
        "roofline": ("Roofline, per device", glossary.answer_roofline(report), under),
    }
    if report.memory:
        drawn["fits"] = ("What fits where", glossary.answer_fits(report), charts.fits(report.memory, dark))
    if report.links:
        drawn["links"] = (texts.TRAFFIC_EACH_LINK, glossary.answer_links(report), charts.links(report.links, dark))
    for at, (name, answer, spans) in enumerate(glossary.timelines(report)):
        drawn[f"timeline.{at}"] = (name, answer, charts.timeline(spans, dark))
    return drawn


def _chart(figure: Figure, first: bool) -> str:
    drawn = go.Figure(figure.to_dict()).update_layout(template="plotly_white")
    return drawn.to_html(full_html=False, include_plotlyjs=first)


def _table(frame: pd.DataFrame) -> str:
    return frame.to_html(index=False, border=0, float_format=_number, na_rep=fmt.UNKNOWN)


def report_html(report: Report, assumed_price: bool) -> str:
    """The whole text of the file; its charts can be hovered and saved, and it asks no server for anything."""
    title = f"{report.system_name} · {report.workload_name}"
    numbers = "".join(
        f"<div><dt>{escape(card.named)}</dt><dd>{escape(card.value)}</dd></div>"
        for card in cards(report, None, False, assumed_price)
    )
    drawn = "".join(
        f"<section><h2>{escape(question)}</h2><p class='note'>{escape(answer)}</p>{_chart(figure, at == 0)}</section>"
        for at, (question, answer, figure) in enumerate(figures(report).values())
    )
    evidence = nearest(report.scenario)
    lines = [
        f"Error band: {told(report.error_band)}.",
        *([f"Nearest evidence: {evidence.sentence}."] if evidence else ()),
    ]
    trust = "".join(f"<p class='note'>{escape(line)}</p>" for line in lines)
    operators = report_tables.operators(report).rename(columns={"Share of time": "Share of time (%)"})
    rests = pd.DataFrame([{"Assumption": a.text, "Evidence": a.basis} for a in report.assumptions])
    versions = " · ".join(f"{name} {value}" for name, value in report.versions.items())
    knobs = " · ".join(glossary.knobs(report.scenario, None))
    verdict = escape(report.verdict.replace("**", ""))
    problems = "".join(f"<p><strong>{escape(problem)}</strong></p>" for problem in report.problems)
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
        f"content='width=device-width'><title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1><p class='note'>{escape(knobs)}</p>{problems}<p>{verdict}</p>"
        f"<dl>{numbers}</dl>{trust}{drawn}"
        f"<section><h2>Operators</h2>{_table(operators)}</section>"
        f"<section><h2>Assumptions</h2>{_table(rests)}</section>"
        f"<p class='note'><code>{escape(versions)}</code><br>Scenario <code>{escape(report.token)}</code></p>"
        "</body></html>\n"
    )
