"""What pages, files and rows say of a scenario is what `evaluate` says: every preset and random scenarios, by door."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.shared import formats as fmt
from app.shared import glossary
from app.shared.load import Load, answer
from app.views.compare.tables import METRICS, ComparedScenario, rows
from app.views.compare.tables import value as value_of
from app.views.explore import report_file
from app.views.explore.report_file import cards, report_html
from app.views.machine.facts import money
from app.views.traffic import tables
from engine import evaluate
from engine.cost.report import Report
from engine.resolve.bind import named
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, encode
from engine.scenario.sentences import cost_unit
from engine.traffic import Demand, Sla, capacity_plan
from engine.traffic.plan import SiteFacts
from engine.traffic.scenario_load import answer_unit, inferences_of, is_decoder, node_facts
from engine.traffic.serving import Serving
from hardware_specs.catalog import default_catalog
from tests.each import each
from tests.effort import EFFORT, examples
from tests.laws.cost.test_views_agree import random_scenarios

FIGURES = ("latency_s", "ttft_s", "tpot_s", "throughput_per_s", "power_w", "energy_per_unit_j", "capex_usd",
           "usd_per_million", "bound", "limited_by", "fits", "unit")  # fmt: skip
COUNT = examples(100)


def _scenarios() -> Iterator[Scenario]:
    yield from (preset.scenario for preset in PRESETS.values())
    yield from random_scenarios(COUNT, 29)


def _cards(report: Report) -> dict[str, str]:
    """What the cards of Explore should say, by their labels."""
    named = glossary.rate_unit(report.unit)
    said = {"Capital cost": fmt.usd(report.capex_usd)}
    for label, value, over in (
        ("Throughput", report.throughput_per_s, "s"),
        ("Perf per watt", report.throughput_per_w, "J"),
    ):
        text = fmt.si(value, f"{named}/{over}")  # where that is too long, the unit is in the label
        said[label] = text if value is None or len(text) <= 17 else f"{fmt.si(value)}/{over}"
    if report.tpot_s is None:
        return said | {"Latency": fmt.seconds(report.latency_s)}
    times = {"TTFT": report.ttft_s, "TPOT": report.tpot_s, "End to end": report.latency_s}
    return said | {label: fmt.seconds(value) for label, value in times.items()}


def _differ(report: Report) -> Iterator[tuple[str, str]]:
    """Doors that answer otherwise, and what they say."""
    row = report.csv_row()
    yield from (("CSV row", name) for name in FIGURES if row[name] != getattr(report, name))
    column = ComparedScenario(0, "", report.scenario, "", (), report)
    (compared,) = rows([column], column, report.versions)
    yield from (("Compare, file", name) for name in FIGURES if compared[name] != getattr(report, name))
    for key, metric in METRICS.items():
        decoder_only = key == "ttft" and report.tpot_s is None
        if value_of(column, metric) != (None if decoder_only else getattr(report, metric.name)):
            yield "Compare", key
    shown = {card.label: card.value for card in cards(report, None, False, False)}
    yield from (("Explore", label) for label, text in _cards(report).items() if shown.get(label) != text)
    money_said = dict(money(named(report.scenario), report))
    expected = {"Capital cost": fmt.usd(report.capex_usd), "Power": fmt.si(report.power_w, "W"),
                f"$ per million {cost_unit(report.unit)}s": fmt.usd(report.usd_per_million)}  # fmt: skip
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


@each("id", PRESETS)
def test_the_report_file_says_what_evaluate_says(monkeypatch: pytest.MonkeyPatch, id: str) -> None:
    monkeypatch.setattr(report_file, "_chart", lambda *_: "")
    report = evaluate(PRESETS[id].scenario)
    file = unescape(report_html(report, False))
    found = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", file))
    for label, text in _cards(report).items():
        assert text in {value for name, value in found.items() if name.startswith(label)}
    assert report.verdict.replace("**", "") in file


def test_load_names_the_power_energy_and_money_of_evaluate() -> None:
    """Of a node that works all the time: what the table of nodes says, to the unit that `evaluate` counts in."""
    for id, preset in PRESETS.items():
        scenario = preset.scenario
        costs = scenario.costs.model_copy(update={"utilisation": 1.0})
        report = evaluate(scenario.with_(costs=costs))
        sequences = is_decoder(scenario)
        load = Load(encode(scenario), Serving(max_batch=scenario.batch if sequences else 1))
        headline = answer(load, Sla(1e3 * report.latency_s)).headline
        node, _ = node_facts(scenario, headline)
        site = SiteFacts(20, 1e9, 0.0, costs.pue, costs.energy_usd_per_kwh, costs.years)
        full = replace(node, qps=node.full_qps)
        plan = capacity_plan(Demand((full.qps,)), full, site, headroom=0.0, survives="none")
        each_holds = scenario.outputs if sequences else 1  # units of an inference
        assert (node.busy_w, node.capex_usd) == (report.power_w, report.capex_usd), id
        assert plan.nodes == 1
        assert plan.mean_w == pytest.approx(report.power_w * costs.pue)
        assert plan.energy_j_per_inference == pytest.approx(report.energy_per_unit_j * costs.pue * each_holds), id
        if plan.usd_per_million is None:
            assert report.usd_per_million is None
        else:
            assert plan.usd_per_million == pytest.approx(report.usd_per_million * each_holds), id
        unit = answer_unit(report)
        columns = tables.columns([plan], unit)
        assert columns["Nodes"] == [1]
        assert columns[f"$ / M {unit}s"] == [plan.usd_per_million]
        for name, value, unit in (("Mean", plan.mean_w, "W"), ("Energy", plan.energy_j_per_inference, "J")):
            scale = fmt.scale([value], unit)
            (column,) = (values for label, values in columns.items() if label.startswith(f"{name} ({scale.unit}"))
            assert column == [scale(value)]


def _shown(at: AppTest) -> dict[str, float]:
    """Times on cards, by label. [s]"""
    units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
    words = {m.label: str(m.value).split() for m in at.metric}
    return {
        label: float(number) * units[unit[0]] for label, (number, *unit) in words.items() if unit and unit[0] in units
    }


PAGES = ("explore", "machine", "node", "split", "traffic", "choose", "compare")
OPENED = [(page, id) for page in PAGES for id in PRESETS]
OPENED = OPENED if EFFORT >= 5 else random.Random(29).sample(OPENED, 8)
"""Pages and presets that are opened: some in an ordinary run, all in a soak."""


@each("page, id", OPENED)
def test_every_page_of_a_preset_opens_and_names_its_figures(page: str, id: str) -> None:
    report = evaluate(PRESETS[id].scenario)
    at = AppTest.from_file(str(Path(__file__).parents[3] / "app" / "main.py"), default_timeout=240)
    at.query_params["s"] = encode(report.scenario)
    at.run()
    if page != "explore":
        at.switch_page(f"views/{page}/page.py").run()
    assert not at.exception, [e.message for e in at.exception]
    said = [str(e.value) for e in (*at.metric, *at.markdown, *at.caption, *at.info, *at.warning)]
    text = "\n".join(said)
    if page == "explore":
        assert {m.label.split(" ±")[0].split(",")[0]: m.value for m in at.metric}.items() >= _cards(report).items()
    elif page == "machine":
        assert {fmt.si(report.power_w, "W"), fmt.usd(report.capex_usd)} <= set(said)
    elif page == "node":
        assert (report.verdict in said) == (default_catalog().system(report.scenario.system).topology == "switch")
    elif page == "split":
        assert report.verdict in said
    elif page == "traffic":
        if is_decoder(report.scenario):  # as many clients as the scenario has sequences, all at once
            rate = report.throughput_per_s / report.scenario.outputs
            assert fmt.si(rate, "QPS") in [m.value for m in at.metric]
            assert _shown(at)["TTFT p50"] == pytest.approx(report.ttft_s, rel=0.01)
            assert report.tpot_s is None or _shown(at)["Inter-token p50"] == pytest.approx(report.tpot_s, rel=0.02)
        else:
            rate = report.throughput_per_s / inferences_of(report.scenario)
            assert f"Capacity is {fmt.si(rate, 'QPS')}" in text
    elif page == "compare":
        assert re.search(r"\*\*[A-Z], ", text)
    else:
        assert len(at.dataframe) > 1
