"""Metrics of a design as a sweep knows them: name, what less or more of it is called, unit, and how it is written."""

import math
from collections.abc import Iterable

from app.shared import formats as fmt
from app.shared import glossary
from app.shared.glossary import Metric
from engine.cost.power_and_price import unpowered
from engine.cost.report import Report
from engine.resolve.bind import bind
from engine.scenario import Scenario
from engine.scenario.overrides import unstated
from engine.sweep.space import POWERED

_MEANS = {"ttft_s": "Mean TTFT", "tpot_s": "Mean TPOT"}
_SERVING = ("output_tokens_per_s_per_user", "output_tokens_per_s_per_device", *_MEANS, "requests_per_s")
OPERATING = {name: Metric.of(name, label=_MEANS.get(name, "")) for name in _SERVING}
"""Figures of a serving engine's operating point, the two that its front is of first."""


def metrics(report: Report) -> dict[str, Metric]:
    """The figures that are known for designs like this one, those to minimise first."""
    known = [name for name in glossary.WORDS["figures"] if getattr(report, name, None) is not None]
    if report.latency_per_unit_s != report.latency_s:
        return {name: Metric.of(name, report.unit) for name in known}
    labels = {"latency_per_unit_s": Metric.of("latency_s").label}
    return {name: Metric.of(name, report.unit, labels.get(name, "")) for name in known if name != "latency_s"}


def priced(names: Iterable[str], scenario: Scenario, axes: Iterable[str]) -> list[str]:
    """The figures that designs along those axes have: without money where no list has their hardware, and without power
    where no rule says what their hardware draws."""
    paths = [*scenario.overrides, *axes]
    known = [name for name in names if "usd" not in name] if unstated(paths, "price") else list(names)
    return [name for name in known if name not in POWERED] if unpowered(bind(scenario), paths) else known


def scale(metric: Metric, values: Iterable[float]) -> fmt.Scale:
    """The prefix that suits the middle, on a log scale, of a metric's values."""
    known = [v for v in values if v > 0]
    return fmt.scale([math.sqrt(min(known) * max(known))] if known else [], metric.unit)
