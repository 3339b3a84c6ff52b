"""What pages, files and rows say of a scenario is what `evaluate` says: every preset and random scenarios, by door."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape

import pytest

from app.shared import formats as fmt
from app.views.compare.tables import METRICS, ComparedScenario, json_rows
from app.views.explore.headline import cards
from app.views.explore.report_file import report_html
from app.views.machine.facts import machine, money
from engine import evaluate
from engine.cost.report import Report
from engine.resolve.bind import named
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario
from tests.effort import examples
from tests.laws.cost.test_views_agree import random_scenarios

FIGURES = ("latency_s", "ttft_s", "tpot_s", "throughput_per_s", "power_w", "energy_per_unit_j", "capex_usd",
           "usd_per_million", "bound", "limited_by", "fits", "unit")  # fmt: skip
COUNT = examples(100)


def _scenarios() -> Iterator[Scenario]:
    yield from (preset.scenario for preset in PRESETS.values())
    yield from random_scenarios(COUNT, 29)


def _cards(report: Report) -> dict[str, str]:
    """What the cards of Explore should say, by their labels."""
    said = {"Capital cost": fmt.usd(report.capex_usd)}
    if report.tpot_s is None:
        return said | {"Latency": fmt.seconds(report.latency_s)}
    times = {"TTFT": report.ttft_s, "TPOT": report.tpot_s, "End to end": report.latency_s}
    return said | {label: fmt.seconds(value) for label, value in times.items()}


def _differ(report: Report) -> Iterator[tuple[str, str]]:
    """Doors that answer otherwise, and what they say."""
    row = report.csv_row()
    yield from (("CSV row", name) for name in FIGURES if row[name] != getattr(report, name))
    column = ComparedScenario(0, "", report.scenario, "", (), report)
    (compared,) = json_rows([column], column, report.versions)
    yield from (("Compare, file", name) for name in FIGURES if compared[name] != getattr(report, name))
    for metric in METRICS.values():
        decoder_only = metric.key == "ttft" and report.tpot_s is None
        if metric.of(report) != (None if decoder_only else getattr(report, metric.figure)):
            yield "Compare", metric.key
    shown = {card.label: card.value for card in cards(report, None, False, False)}
    yield from (("Explore", label) for label, text in _cards(report).items() if shown.get(label) != text)
    money_said = dict(money(machine(named(report.scenario)), report))
    expected = {"Capital cost": fmt.usd(report.capex_usd), "Power at work": fmt.si(report.power_w, "W"),
                f"$ per million {report.unit}s": fmt.usd(report.usd_per_million)}  # fmt: skip
    yield from (("Machine", label) for label, text in expected.items() if money_said[label] != text)
    if report.power_parts_w and sum(report.power_parts_w.values()) != pytest.approx(report.power_w):
        yield "Node", "power by part"


def test_every_page_and_file_says_what_evaluate_says() -> None:
    wrong, doors = [], Counter()
    for scenario in _scenarios():
        report = evaluate(scenario)
        doors[named(scenario).device.kind] += 1
        wrong += [(*found, scenario.system, scenario.workload, report.token) for found in _differ(report)]
    assert wrong == [], (Counter((door, system) for door, _, system, *_ in wrong), wrong[:5])
    assert doors.total() == COUNT + len(PRESETS)
    print(dict(doors))


@pytest.mark.parametrize("id", ["dfx-1.5b", "node-dlrm"])
def test_the_report_file_says_what_evaluate_says(id: str) -> None:
    report = evaluate(PRESETS[id].scenario)
    file = unescape(report_html(report, False))
    found = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", file))
    for label, text in _cards(report).items():
        assert text in {value for name, value in found.items() if name.startswith(label)}
    assert report.verdict.replace("**", "") in file
