"""The headline numbers as plain data: label, band, value, and how they stand against the baseline. Pure."""

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


def _rate(value: float | None, unit: str, over: str, room: int) -> tuple[str, str]:
    """A rate that fits its card, and the unit's name for the label where the card has no room for it."""
    text = fmt.si(value, f"{glossary.rate_unit(unit, room == _ROOM_PHONE)}/{over}")
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
    other = base if base is not None and base.unit == report.unit else None
    band = "" if report.error_band.relative is None else fmt.band(report.error_band.relative)
    room, per, helps = _ROOM_PHONE if phone else _ROOM, glossary.per(report), glossary.HELP
    rate, counted = _rate(report.throughput_per_s, report.unit, "s", room)
    per_watt, counted_too = _rate(report.throughput_per_w, report.unit, "J", room)

    def card(name: str, label: str, note: str, value: str, help: str) -> HeadlineFigure:
        now, then, rising = getattr(report, name), getattr(other, name, None), name.startswith("throughput")
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
    powered = report.power_w is not None
    energy = ("" if powered else texts.NO_POWER) + "".join(_token(report, name) for name in ("input", "output"))
    if report.capex_usd is not None:
        price = "list price" if not assumed_price else "assumed" if phone else "assumed price"
        price_help = helps["capex"]
    else:
        price = texts.WHAT_IF_PRICE if report.unlisted and not phone else "no price"
        price_help = texts.WHAT_IF_PRICE_HELP if report.unlisted else texts.NO_PRICE_HELP
    work, money = f"{helps['throughput']} Counted in {report.unit}s.", fmt.usd(report.capex_usd)
    named, per_note = "Perf/W" if phone else "Perf per watt", counted_too + band if powered else "no power"
    return [
        *times,
        card("throughput_per_s", "Throughput", counted + band, rate, work),
        card("throughput_per_w", named, per_note, per_watt, helps["perf_per_watt"] + energy),
        card("capex_usd", "Capital cost", price, money, price_help),
    ]
