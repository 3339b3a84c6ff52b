"""Metrics of a design as a sweep knows them: name, what less or more of it is called, unit, and how it is written."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from app.shared import formats as fmt
from app.shared import glossary
from app.views.sweep import texts
from engine.cost.power_and_price import unpowered
from engine.cost.report import Report
from engine.resolve.bind import bind
from engine.scenario import Scenario
from engine.scenario.overrides import unstated
from engine.sweep.space import POWERED


@dataclass(frozen=True)
class Metric:
    """One figure of a report: its name there, its label, its SI unit, and whether less is better."""

    name: str
    label: str
    unit: str
    less: bool

    def text(self, value: float | None) -> str:
        """The figure with its unit."""
        return fmt.usd(value) if self.unit == "$" else fmt.si(value, self.unit)


OPERATING = {
    m.name: m
    for m in (
        Metric("output_tokens_per_s_per_user", "Output per user", "tok/s", False),
        Metric("output_tokens_per_s_per_device", "Output per device", "tok/s", False),
        Metric("ttft_s", "Mean TTFT", "s", True),
        Metric("tpot_s", "Mean TPOT", "s", True),
        Metric("requests_per_s", "Requests", "QPS", False),
    )
}
"""Figures of a serving engine's operating point, the two that its front is of first."""


def metrics(report: Report) -> dict[str, Metric]:
    """The figures that are known for designs like this one, those to minimise first."""
    rate = glossary.rate_unit(report.unit)
    whole = report.latency_per_unit_s != report.latency_s
    rows = [
        Metric("latency_per_unit_s", f"Latency per {report.unit}" if whole else "Latency", "s", True),
        Metric("latency_s", texts.LATENCY_END_END, "s", True),
        Metric("ttft_s", texts.TIME_FIRST_TOKEN, "s", True),
        Metric("tpot_s", texts.TIME_PER_OUTPUT_TOKEN, "s", True),
        Metric("power_w", "Power", "W", True),
        Metric("energy_per_unit_j", f"Energy per {report.unit}", "J", True),
        Metric("capex_usd", "Capital cost", "$", True),
        Metric("usd_per_million", texts.COST_PER_MILLION.format(unit=report.unit), "$", True),
        Metric("throughput_per_s", "Throughput", f"{rate}/s", False),
        Metric("throughput_per_w", "Perf per watt", f"{rate}/J", False),
        Metric("throughput_per_usd", "Throughput per $", f"{rate}/s/$", False),
    ]
    return {m.name: m for m in rows if getattr(report, m.name) is not None and (whole or m.name != "latency_s")}


def priced(names: Iterable[str], scenario: Scenario, axes: Iterable[str]) -> list[str]:
    """The figures that designs along those axes have: without money where no list has their hardware, and without power
    where no rule says what their hardware draws."""
    paths = [*scenario.overrides, *axes]
    known = [name for name in names if "usd" not in name] if unstated(paths, "price") else list(names)
    return [name for name in known if name not in POWERED] if free(scenario, paths) else known


def free(scenario: Scenario, paths: Iterable[str]) -> list[str]:
    """Those of the what-ifs whose power no rule follows."""
    return unpowered(bind(scenario), paths)


def scale(metric: Metric, values: Iterable[float]) -> fmt.Scale:
    """The prefix that suits the middle, on a log scale, of a metric's values."""
    known = [v for v in values if v > 0]
    return fmt.scale([math.sqrt(min(known) * max(known))] if known else [], metric.unit)
