"""A node's facts for its page: what an optimisation gains, core splits. No formula of its own.

Every number is a report's, or a ratio of two reports' figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.shared import cached
from app.shared import formats as fmt
from app.views.node import texts
from engine.analyses.node.at_work import KindColumn
from engine.cost.report import Report
from engine.devices.common.contract import Switch
from engine.scenario import Scenario, encode

FIGURES = {"throughput": "Throughput", "latency": "Latency", "wires": "Bytes on links"}


@dataclass(frozen=True)
class Gain:
    """What a switch buys: how many times better a figure is with it on, None where that can't be evaluated."""

    switch: Switch
    on: bool
    alone: float | None
    beside: float | None


def _figure(report: Report, name: str) -> float:
    """A figure of which more is better."""
    if name == "throughput":
        return report.throughput_per_s
    if name == "latency":
        return 1.0 / report.latency_s
    return 1.0 / max(1.0, sum(row.bytes_per_request for row in report.links))


def _ratio(scenario: Scenario, name: str, on: dict[str, bool], off: dict[str, bool]) -> float | None:
    """How many times better a figure is with some switches than with others; None where one is not offered so."""
    better, worse = (cached.try_report(scenario, switches=switches) for switches in (on, off))
    return None if better is None or worse is None else _figure(better, name) / _figure(worse, name)


def gains(scenario: Scenario, name: str) -> tuple[float | None, list[Gain]]:
    """What all switches as they are buy against all off, and each of them, the largest beside the others first."""
    switches = cached.options(encode(scenario)).switches
    now = {s.name: scenario.switches.get(s.name, s.default) for s in switches}
    off, rows = dict.fromkeys(now, False), []
    for s in switches:
        alone = _ratio(scenario, name, off | {s.name: True}, off)
        rows.append(Gain(s, now[s.name], alone, _ratio(scenario, name, now | {s.name: True}, now | {s.name: False})))
    rows.sort(key=lambda r: -(r.beside or 0.0))
    return _ratio(scenario, name, now, off), rows


def gain_words(together: float | None, rows: list[Gain]) -> str:
    """The gain of all together and the largest single one, in words."""
    if not rows or together is None:
        return texts.NO_SWITCH
    text = f"all together {fmt.times(together)}"
    best = rows[0]
    return f"{text}, {best.switch.label.lower()} {fmt.times(best.beside)}" if (best.beside or 0.0) > 1.005 else text


def kinds_table(columns: Sequence[KindColumn]) -> dict[str, list[Any]]:
    """Columns of a table of kinds of operators: seconds as it is, and with each optimisation that changes any turned.

    One row per kind and one for the whole request, in ms.
    """
    first, *variants = columns
    kinds = list(dict.fromkeys(kind for column in columns for kind in column.seconds))
    names = {f"{c.label} {'on' if c.on else 'off'} (ms)": c for c in variants if c.seconds != first.seconds}
    return {"Operator": ["all", *kinds]} | {
        name: [1e3 * c.latency_s, *(1e3 * c.seconds.get(kind, 0.0) for kind in kinds)]
        for name, c in ({texts.MS: first} | names).items()
    }
