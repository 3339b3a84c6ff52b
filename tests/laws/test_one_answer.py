"""One answer at every door: a scenario has the same figures wherever it is asked, and no setting is dropped.

More scenarios than `make test` tries: ``make soak``.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator

import pytest

from engine import default_scenario, evaluate
from engine.analyses.cuts import split_points
from engine.cli.main import main
from engine.cli.scenario import scenario_of
from engine.cost.report import Report
from engine.published.measured.compare import read_measured
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, decode, encode
from engine.sweep import price, space_of
from engine.sweep.goals import FIGURES
from engine.sweep.pricing.blocks import table_rows
from engine.traffic.scenario_load import inferences_of, is_decoder, service_table
from tests.effort import examples
from tests.laws.cost.test_views_agree import random_scenarios

COUNT = examples(300)


def _scenarios() -> Iterator[Scenario]:
    yield from (preset.scenario for preset in PRESETS.values())
    yield from random_scenarios(COUNT, 28)


def _figures(report: Report) -> dict[str, float | None]:
    return {name: report.figure(name) for name in FIGURES}


def test_evaluate_a_sweep_of_one_and_a_row_of_its_table_are_equal_to_the_bit() -> None:
    wrong, doors = [], Counter()
    for scenario in _scenarios():
        report = evaluate(scenario)
        asked = _figures(report)
        space = space_of({"scenario": scenario.model_dump(mode="json"), "axes": {"batch": [scenario.batch]}})
        values, refused, misfits = price(space)
        swept = {
            name: None if math.isnan(value) else float(value) for name, value in zip(FIGURES, values[:, 0], strict=True)
        }
        (row,) = table_rows(space)
        listed = {name: row[name] for name in FIGURES}
        for door, found in (("sweep", swept), ("row", listed)):
            if refused[0] or found != asked or misfits[0] == report.fits or row["fits"] != report.fits:
                differ = [name for name in FIGURES if found[name] != asked[name]]
                wrong.append((door, scenario.system, scenario.workload, scenario.scheme, differ, encode(scenario)))
        assert evaluate(decode(row["token"])).latency_s == report.latency_s
        doors[scenario.system] += 1
    assert not wrong, wrong[:5]
    assert doors.total() == COUNT + len(PRESETS)


@pytest.mark.parametrize(
    ("system", "workload", "fields"),
    [
        ("fb-node", "resnet50", {"scheme": "replicas"}),
        ("dfx-u280", "gpt2-345m", {"scheme": "single"}),
        ("edge-tiers", "mobilenet-v1", {"scheme": "split"}),
        ("h100-sxm", "llama3.1-70b", {"devices": 4}),
        ("fb-node", "dlrm-more-complex", {"switches": {"fuse": False}}),
    ],
)
def test_what_a_pair_leaves_open_is_the_same_at_every_door(capsys, tmp_path, system, workload, fields) -> None:
    """Of a scheme alone, flags, files, sweeps and tables kept the devices and the cut of another scheme."""
    usual = default_scenario(system, workload, **fields)
    pair = {"system": system, "workload": workload}
    file = tmp_path / "pair.yaml"
    file.write_text(json.dumps(pair | fields))
    assert scenario_of(str(file)) == usual
    assert space_of({"scenario": pair | fields, "axes": {"batch": [1]}}).base == usual
    if "switches" in fields:
        return
    flags = [f"--{name}={value}" for name, value in (pair | fields).items()]
    assert main(["evaluate", *flags, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["token"] == encode(usual)
    columns = {name: f"{value:.1f}" if name == "devices" else str(value) for name, value in (pair | fields).items()}
    columns["latency_ms"] = "1"
    file.write_text(f"{','.join(columns)}\n{','.join(columns.values())}\n")
    assert read_measured(file).rows[0].scenario == usual


def test_a_cut_of_the_split_door_is_the_scenarios_own() -> None:
    seen = 0
    for scenario in _scenarios():
        if scenario.scheme != "split":
            continue
        point = next(point for point in split_points(scenario) if point.at == scenario.split)
        report = evaluate(scenario.with_(second_split=point.second_at))
        assert point.latency_s == report.latency_s
        if report.energy_per_unit_j is not None and point.energy_j is not None:
            assert point.energy_j / report.energy_per_unit_j == pytest.approx(
                report.throughput_per_s * point.interval_s / scenario.streams
            )
        seen += 1
    assert seen > 2


def test_a_load_that_vanishes_waits_for_nothing_but_the_scenario() -> None:
    seen = 0
    for scenario in _scenarios():
        report = evaluate(scenario)
        if is_decoder(scenario) or not report.fits:
            continue
        table = service_table(scenario)
        assert table.latency_s is not None
        assert float(table.latency_s[0, 0]) == report.latency_s
        units = report.throughput_per_s * float(table.hold_s[0, 0]) / table.servers
        assert units >= inferences_of(scenario) * (1 - 1e-9)  # at least one a request: items, or several of each
        seen += 1
    assert seen > 20
