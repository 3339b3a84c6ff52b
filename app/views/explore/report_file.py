"""The headline numbers and charts of a report, for the page and for one HTML file that needs nothing else. Pure."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared import glossary, link, report_tables
from app.shared.figures import report as charts
from app.shared.figures import roofline
from app.shared.figures.style import Figure
from app.views.explore import texts
from engine.cost.error_bands import told
from engine.cost.report import Report
from engine.published.nearest import nearest

_STYLE = Path(__file__).with_name("report.css").read_text()
_ROOM = 17  # characters of a value on a card of a wide window
_ROOM_PHONE = 13  # on half of a 390 px phone


@dataclass(frozen=True)
class HeadlineFigure:
    """One metric; `delta` is words, `colour` is chosen here because Streamlit would read a minus as a sign."""

    label: str
    note: str
    value: str
    help: str
    delta: str | None = None
    colour: str = "gray"

    @property
    def title(self) -> str:
        """The label with its note and no markup, which a reader of screens would speak: `TPOT ±9%`."""
        between = " " if self.note.startswith("±") else ", "
        return f"{self.label}{between}{self.note}" if self.note else self.label


def _rate(value: float | None, unit: str, over: str, room: int) -> tuple[str, str]:
    """A rate that fits its card, and the unit's name for the label where the card has no room for it."""
    text = fmt.si(value, f"{glossary.rate_unit(unit)}/{over}")
    if len(text) <= room or value is None:
        return text, ""
    return f"{fmt.si(value)}/{over}", f"{unit}s, "


def _token(report: Report, name: str) -> str:
    """What an input or output token of a decoder takes, as a sentence; empty where that is not known."""
    joules, usd = getattr(report, f"energy_per_{name}_token_j"), getattr(report, f"usd_per_million_{name}")
    if joules is None:
        return ""
    cost = "" if usd is None else f", {fmt.usd(usd)} per million"
    return f" An {name} token takes {fmt.si(joules, 'J')}{cost}."


def cards(report: Report, base: Report | None, phone: bool, assumed_price: bool) -> list[HeadlineFigure]:
    """Times, throughput, perf per watt and capital cost; deltas only against the same unit of work."""
    rival = base if base is not None and base.unit == report.unit else None
    band = "" if report.error_band.relative is None else fmt.band(report.error_band.relative)
    room, per, helps = _ROOM_PHONE if phone else _ROOM, glossary.per(report), glossary.HELP
    rate, rate_unit = _rate(report.throughput_per_s, report.unit, "s", room)
    per_watt, per_watt_unit = _rate(report.throughput_per_w, report.unit, "J", room)

    def card(name: str, label: str, note: str, value: str, help: str) -> HeadlineFigure:
        now, then, rising = getattr(report, name), getattr(rival, name, None), name.startswith("throughput")
        delta = glossary.against(now, then, rising, time=name.endswith("_s") and not rising)
        return HeadlineFigure(label, note, value, help, *(delta or ()))

    def time(name: str, label: str, help: str) -> HeadlineFigure:
        return card(name, label, band, fmt.seconds(getattr(report, name)), help)

    if report.tpot_s is None:
        times = [time("latency_s", "Latency", f"{helps['latency']} Here: one {per}.")]
    else:
        whole = texts.LATENCY_HELP.format(latency=helps["latency"], unit=per)
        times = [time("ttft_s", "TTFT", helps["ttft"]), time("tpot_s", "TPOT", helps["tpot"])]
        times.append(time("latency_s", "End to end", whole))  # of a decoder its parts as well
    has_power = report.power_w is not None
    energy = ("" if has_power else texts.NO_POWER) + "".join(_token(report, name) for name in ("input", "output"))
    if report.capex_usd is not None:
        price = "list price" if not assumed_price else "assumed" if phone else "assumed price"
        price_help = helps["capex"]
    else:
        price = texts.WHAT_IF_PRICE if report.unlisted and not phone else "no price"
        price_help = texts.WHAT_IF_PRICE_HELP if report.unlisted else texts.NO_PRICE_HELP
    work, money = f"{helps['throughput']} Counted in {report.unit}s.", fmt.usd(report.capex_usd)
    label, per_note = "Perf/W" if phone else "Perf per watt", per_watt_unit + band if has_power else "no power"
    return [
        *times,
        card("throughput_per_s", "Throughput", rate_unit + band, rate, work),
        card("throughput_per_w", label, per_note, per_watt, helps["perf_per_watt"] + energy),
        card("capex_usd", "Capital cost", price, money, price_help),
    ]


Drawn = tuple[str, str, Figure]
"""A question, its computed answer, and the figure that both are of."""


def figures(report: Report, dark: bool = False, baseline: Report | None = None, width: float = 400) -> dict[str, Drawn]:
    """Charts of the page and of the file by key, in the page's order; what a report has nothing for is left out.

    `width` is the plot area that a roofline's labels are laid out for. [px]
    """
    parts, band, per = report.breakdown, report.error_band.relative, glossary.per(report)
    under = roofline.roofline(report, dark, baseline, width)
    panels = {
        "breakdown": (
            texts.WHERE_TIME_GOES,
            glossary.answer_breakdown(report),
            charts.breakdown(parts, band, per, dark),
        ),
        "roofline": ("Roofline, per device", glossary.answer_roofline(report), under),
    }
    if report.memory:
        panels["fits"] = ("What fits where", glossary.answer_fits(report), charts.fits(report.memory, dark))
    if report.links:
        panels["links"] = (texts.TRAFFIC_EACH_LINK, glossary.answer_links(report), charts.links(report.links, dark))
    for at, (name, answer, spans) in enumerate(glossary.timelines(report)):
        panels[f"timeline.{at}"] = (name, answer, charts.timeline(spans, dark))
    return panels


def _chart(figure: Figure, first: bool) -> str:
    plot = go.Figure(figure.to_dict()).update_layout(template="plotly_white")
    return plot.to_html(full_html=False, include_plotlyjs=first)


def _table(frame: pd.DataFrame) -> str:
    return frame.to_html(index=False, border=0, float_format=fmt.digits4, na_rep=fmt.UNKNOWN)


def report_html(report: Report, assumed_price: bool) -> str:
    """The whole text of the file; its charts can be hovered and saved, and it asks no server for anything."""
    title = f"{report.system_name} · {report.workload_name}"
    numbers = "".join(
        f"<div><dt>{escape(card.title)}</dt><dd>{escape(card.value)}</dd></div>"
        for card in cards(report, None, False, assumed_price)
    )
    sections = "".join(
        f"<section><h2>{escape(question)}</h2><p class='note'>{escape(answer)}</p>{_chart(figure, at == 0)}</section>"
        for at, (question, answer, figure) in enumerate(figures(report).values())
    )
    evidence = nearest(report.scenario)
    lines = [f"Error band: {told(report.error_band)}."]
    lines += [f"Nearest evidence: {evidence.sentence}."] if evidence else []
    trust = "".join(f"<p class='note'>{escape(line)}</p>" for line in lines)
    operators = report_tables.operators(report).rename(columns={"Share of time": "Share of time (%)"})
    rests = pd.DataFrame([{"Assumption": a.text, "Evidence": a.basis} for a in report.assumptions])
    versions = " · ".join(f"{name} {value}" for name, value in report.versions.items())
    knobs = " · ".join(glossary.knobs(report.scenario, link.usual_of(report.scenario)))
    verdict = escape(report.verdict.replace("**", ""))
    problems = "".join(f"<p><strong>{escape(problem)}</strong></p>" for problem in report.problems)
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
        f"content='width=device-width'><title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1><p class='note'>{escape(knobs)}</p>{problems}<p>{verdict}</p>"
        f"<dl>{numbers}</dl>{trust}{sections}"
        f"<section><h2>Operators</h2>{_table(operators)}</section>"
        f"<section><h2>Assumptions</h2>{_table(rests)}</section>"
        f"<p class='note'><code>{escape(versions)}</code><br>Scenario <code>{escape(report.token)}</code></p>"
        "</body></html>\n"
    )
