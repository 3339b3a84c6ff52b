"""The headline numbers as plain data: label, band, value, and how they stand against the baseline. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.shared import formats as fmt
from app.shared import glossary
from app.views.explore import texts
from engine.cost.report import Report

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
    def named(self) -> str:
        """The label with its note and no markup, which a reader of screens would speak: `TPOT ±9%`."""
        between = " " if self.note.startswith("±") else ", "
        return f"{self.label}{between}{self.note}" if self.note else self.label


def _card(
    label: str, note: str, value: str, help: str, pair: tuple[float | None, float | None], sense: str
) -> HeadlineFigure:
    """`sense` is "faster", "more" or "cheaper": what a better value is called."""
    delta = glossary.against(*pair, rising=sense == "more", time=sense == "faster")
    return HeadlineFigure(label, note, value, help, *(delta or ()))


def _rate(value: float | None, unit: str, over: str, room: int) -> tuple[str, str]:
    """A rate that fits its card, and the unit's name for the label where the card has no room for it."""
    text = fmt.si(value, f"{glossary.rate_unit(unit, room == _ROOM_PHONE)}/{over}")
    if len(text) <= room or value is None:
        return text, ""
    return f"{fmt.si(value)}/{over}", f"{unit}s, "


def _times(report: Report, other: Report | None, band: str) -> list[HeadlineFigure]:
    """Latency; of a decoder its parts as well: to the first token, and each one after it."""

    def card(label: str, name: str, help: str) -> HeadlineFigure:
        value = getattr(report, name)
        return _card(label, band, fmt.seconds(value), help, (value, getattr(other, name) if other else None), "faster")

    if report.tpot_s is None:
        return [card("Latency", "latency_s", f"{glossary.HELP['latency']} Here: one {glossary.per(report)}.")]
    return [
        card("TTFT", "ttft_s", glossary.HELP["ttft"]),
        card("TPOT", "tpot_s", glossary.HELP["tpot"]),
        card(
            "End to end",
            "latency_s",
            texts.LATENCY_HELP.format(latency=glossary.HELP["latency"], unit=glossary.per(report)),
        ),
    ]


def _token(report: Report, name: str) -> str:
    """What an input or output token of a decoder takes, as a sentence; empty where that is not known."""
    joules, usd = getattr(report, f"energy_per_{name}_token_j"), getattr(report, f"usd_per_million_{name}")
    if joules is None:
        return ""
    cost = "" if usd is None else f", {fmt.usd(usd)} per million"
    return f" An {name} token takes {fmt.si(joules, 'J')}{cost}."


def cards(report: Report, base: Report | None, phone: bool, assumed_price: bool) -> list[HeadlineFigure]:
    """Times, throughput, perf per watt and capital cost; deltas only against the same unit of work."""
    other = base if base is not None and base.unit == report.unit else None
    band = "" if report.error_band.relative is None else fmt.band(report.error_band.relative)
    room = _ROOM_PHONE if phone else _ROOM
    rate, counted = _rate(report.throughput_per_s, report.unit, "s", room)
    per_watt, counted_too = _rate(report.throughput_per_w, report.unit, "J", room)
    powered, priced = report.power_w is not None, report.capex_usd is not None
    return [
        *_times(report, other, band),
        _card(
            "Throughput",
            counted + band,
            rate,
            f"{glossary.HELP['throughput']} Counted in {report.unit}s.",
            (report.throughput_per_s, other.throughput_per_s if other else None),
            "more",
        ),
        _card(
            "Perf/W" if phone else "Perf per watt",
            counted_too + band if powered else "no power",
            per_watt,
            glossary.HELP["perf_per_watt"]
            + ("" if powered else texts.NO_POWER)
            + "".join(_token(report, name) for name in ("input", "output")),
            (report.throughput_per_w, other.throughput_per_w if other else None),
            "more",
        ),
        _card(
            "Capital cost",
            (("assumed" if phone else "assumed price") if assumed_price else "list price")
            if priced
            else texts.WHAT_IF_PRICE
            if report.unlisted and not phone
            else "no price",
            fmt.usd(report.capex_usd),
            glossary.HELP["capex"] if priced else texts.WHAT_IF_PRICE_HELP if report.unlisted else texts.NO_PRICE_HELP,
            (report.capex_usd, other.capex_usd if other else None),
            "cheaper",
        ),
    ]
