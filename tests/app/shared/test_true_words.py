"""What pages say is so: in every preset, the sentence agrees with the numbers beside it."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.shared import formats as fmt
from app.shared import glossary, parts, report_tables, specs
from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.resolve.choices import choices, why_not
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError
from engine.scenario.formats import BITS
from hardware_specs.catalog import default_catalog

APP = Path(__file__).parents[3] / "app"
pytestmark = pytest.mark.timeout(300)


def seen(written: str | None, value: float) -> str:
    """A number of a table as it is shown."""
    if written is None:
        return fmt.digits3(value).replace(",", "")
    return f"{value:.0f}" if written == "localized" else written % value


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=6))
def test_a_tables_numbers_are_never_scientific_none_is_lost_and_none_has_many_digits(values):
    largest, written = max(values), fmt.cells(values)
    for value in values:
        text = seen(written, value)
        assert abs(float(text) - value) <= 0.51 * 10 ** max(np.floor(np.log10(largest)) - 2, -2) or (
            abs(float(text) / value - 1) < 0.051
        )
        assert "." not in text or len(text.replace(".", "").strip("0")) <= 4


def test_no_preset_has_an_operator_with_more_digits_than_are_read():
    for preset in PRESETS.values():
        frame = report_tables.operators(evaluate(preset.scenario))
        for name in frame.select_dtypes("float"):
            cells = {seen(fmt.cells(frame[name]), v) for v in frame[name].dropna()}
            long = {text for text in cells if "." in text and len(text.replace(".", "").lstrip("0")) > 4}
            assert not long, (preset.id, name, long)


def test_no_table_of_the_app_writes_numbers_scientifically():
    """A number's own three digits are `1e-7` below a millionth: `formats` alone knows what is in a column."""
    found = [
        f"{path.name}: {line.strip()[:80]}"
        for path in sorted(set(APP.rglob("*.py")) - {APP / "shared" / "formats.py"})
        for line in path.read_text().splitlines()
        if re.search(r"%\.[34]g\"", line)
    ]
    assert found == []


@pytest.mark.parametrize("id", ["dfx-1.5b", "node-dlrm", "brainwave-gru"])
def test_a_pair_that_cannot_run_is_told_knob_by_knob_too(id):
    here = PRESETS[id].scenario
    refused = [system for system in default_catalog().ids("systems") if why_not(system, here.workload)]
    assert refused
    for system in refused:
        there = here.with_(system=system, switches={"turned": False}, overrides={"devices.0.power.max": "80 W"})
        assert glossary.knobs(there, None)[-1].endswith(" 80 W")
        assert "hardware overrides none, not 1" in glossary.differences(there, here, None)


def test_no_format_is_shown_by_its_id():
    assert [name for name in BITS if glossary.format_label(name) == name] == []


@pytest.mark.parametrize("id", PRESETS)
def test_everything_fits_is_said_where_everything_does(id):
    report = evaluate(PRESETS[id].scenario)
    said = glossary.answer_fits(report)
    assert ("everything fits" in said) == all(row.need_bytes <= row.capacity_bytes for row in report.memory)


@pytest.mark.parametrize("id", PRESETS)
def test_the_host_is_said_to_be_left_out_where_nothing_stands_for_it(id):
    scenario = PRESETS[id].scenario
    said = " ".join(a.text for a in evaluate(scenario).assumptions)
    extra = bind(scenario).system.extra_power
    assert extra is None or "power leaves the host out" not in said
    for help in glossary.HELP.values():
        assert "wall power" not in help
        assert "share of the host" not in help


@pytest.mark.parametrize("id", PRESETS)
def test_a_larger_batch_is_advised_where_it_gives_more(id):
    report = evaluate(PRESETS[id].scenario)
    for op in report.ops[:20]:
        said = " ".join(report_tables.detail(op, report, False))
        assert "larger batch" not in said


@pytest.mark.parametrize("id", PRESETS)
def test_a_scenario_names_no_raw_id(id):
    scenario = PRESETS[id].scenario
    offered = choices(scenario)
    for switch in offered.switches:
        turned = scenario.with_(switches={switch.name: not switch.default})
        (said,) = [
            part
            for part in glossary.knobs(turned, scenario.with_(switches={switch.name: switch.default}))
            if part.endswith((" on", " off"))
        ]
        assert said.lower() == f"{switch.label} {'off' if switch.default else 'on'}".lower()
    for p in offered.params:
        try:
            said = glossary.knobs(scenario.with_(params={p.name: p.high}), None)
        except ScenarioError:
            continue
        assert any(part.lower().startswith(p.label.lower()) for part in said)
        assert not any("e+" in part for part in said)
    assert not any(re.search(r"_|None", part) for part in glossary.knobs(scenario, None))
    assert specs.overridden(scenario) == []


@pytest.mark.parametrize(("id", "holds"), [("edge-camera", "weights"), ("cpu-dlrm", "weights, tables")])
def test_a_memory_is_said_to_hold_what_the_network_has(id, holds):
    """The tables of a camera's network fitted, which has none."""
    rows = evaluate(PRESETS[id].scenario).memory
    assert {row.holds for row in rows if row.level == "dram"} == {f"{holds} and activations"}


def test_the_smallest_number_of_a_column_has_two_digits():
    """Costs of 5.74 and 6.93 $ an hour are no tie because another costs 300."""
    assert fmt.cells([5.74, 6.93, 7.02, 300.1]) == "%.1f"
    assert fmt.cells([10.1, 12.6, 12.9, 300.1]) == "%.1f"
    assert fmt.cells([0.22, 1.24]) == fmt.cells([5.74, 12.6]) == "%.2f"
    assert fmt.cells([4.0, 12.0, 300.0]) == "localized"


def test_a_column_of_a_wide_range_keeps_three_digits_of_each_with_their_zeros(monkeypatch):
    """The browser's `%.3g` wrote 1.40 as 1.4 between 3.28 and 0.394, and "localized" 90.0 as 90 above 89.7."""
    shown = []
    monkeypatch.setattr(parts.st, "dataframe", lambda frame, **options: shown.append((frame, options)))
    parts.table(
        pd.DataFrame({"a": [1.4, 3.28, 0.00394], "b": [90.0, 89.7, 12_345.6], "c": [0.2171, 1.5, None]}), wide="c"
    )
    styled, columns = shown[0][0], shown[0][1]["column_config"]
    written = [[cell["display_value"] for cell in row[1:]] for row in styled._translate(False, False)["body"]]
    assert written == [["1.40", "90.0", "0.217"], ["3.28", "89.7", "1.50"], ["0.00394", "12,300", "—"]]
    assert [columns[name]["type_config"]["format"] for name in "abc"] == [None] * 3
