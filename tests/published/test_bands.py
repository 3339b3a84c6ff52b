"""Error bands: what they rest on, that they hold what they say on sources they never saw, and when there is none."""

import json
import math
from dataclasses import replace

import pytest

from engine.cost import error_bands
from engine.cost.error_bands import BANDED, FILE, MIN_SOURCES, ErrorBand, spoken, told, widest
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario
from engine.sweep import space_of, sweep, table_rows
from tests.tools.conformal import Residual, bands, coverage, evident
from tests.tools.evidence import residuals

KNOWN = json.loads(FILE.read_text())


@pytest.fixture(scope="module")
def rows(claimed: list[dict], elsewhere: list[dict]) -> list[Residual]:
    return residuals(claimed, elsewhere)


def _at(system: str, workload: str, **fields) -> Scenario:
    return default_scenario(system, workload).with_(**fields)


def test_the_file_is_what_the_residuals_make(rows: list[Residual]) -> None:
    now = bands(rows)
    assert now["cells"].keys() == KNOWN["cells"].keys(), "run `python -m tests.tools.published`"
    for cell, found in now["cells"].items():
        assert found["parts"] == KNOWN["cells"][cell]["parts"]
        assert found["sources"] == KNOWN["cells"][cell]["sources"]
        assert found["log_width"] == pytest.approx(KNOWN["cells"][cell]["log_width"], abs=2e-3)


@pytest.mark.parametrize("apart", ["source", "publication"])
def test_nine_in_ten_measurements_lie_in_a_band_that_never_saw_their_source(rows: list[Residual], apart: str) -> None:
    found = coverage(rows, lambda row: getattr(row, apart))
    n, held = (sum(one[name] for one in found) for name in ("n", "held"))
    assert n > 50
    assert 0.85 <= held / n <= 0.95


def test_a_source_counts_once_whatever_its_rows(rows: list[Residual]) -> None:
    """The SmartNIC's band said 7% from one interpolation counted seven times."""
    cell = max({row.cell for row in evident(rows)}, key=lambda c: sum(row.cell == c for row in rows))
    again = [replace(row, id=f"{row.id}-{i}") for row in rows if row.cell == cell for i in range(3)]
    more, before = bands([*rows, *again]), bands(rows)
    assert more["cells"][cell]["sources"] == before["cells"][cell]["sources"]
    assert more["cells"][cell]["log_width"] == pytest.approx(before["cells"][cell]["log_width"])


def test_a_band_needs_five_independent_sources(rows: list[Residual]) -> None:
    for cell, found in KNOWN["cells"].items():
        assert (found["log_width"] is None) == (found["sources"] < MIN_SOURCES), cell
    few = [replace(row, publication="one", part="one") for row in rows]
    assert all(found["log_width"] is None for found in bands(few)["cells"].values())


def test_scores_of_a_law_are_held_as_often_as_promised() -> None:
    """Sources with biases of their own, all alike: a new one is held nine times in ten."""
    import numpy as np

    rng = np.random.default_rng(5)
    found = []
    for source in range(60):
        bias = rng.normal(0.0, 0.2)
        for at in range(int(rng.integers(1, 12))):
            error = math.expm1(bias + rng.normal(0.0, 0.1))
            found.append(Residual(f"{source}-{at}", "a | b | c", f"p{source}", f"d{source}", "l", error))
    by = coverage(found)
    assert 0.85 <= by[0]["held"] / by[0]["n"] <= 0.95


NOBODY_KNOWS = {
    "Cerebras Llama": _at("cerebras-wse-3", "llama3.1-8b"),
    "an NPU of one's own": _at("brainwave-s10", "deepbench-gru-2816", overrides={"devices.0.npu.tiles": "4"}),
    "a NIC at 1200 MHz": _at("agilio-cx", "binary-fc-4096", overrides={"devices.0.smartnic.clock": "1200 MHz"}),
    "arm-edge binary": _at("arm-edge", "vgg16-cifar-binary"),
    "a card's absolute time": _at("fb-card", "resnet50"),
}


@pytest.mark.parametrize("name", NOBODY_KNOWS)
def test_where_nobody_measured_the_band_is_words(name: str) -> None:
    report = evaluate(NOBODY_KNOWS[name])
    assert report.error_band.relative is None
    assert told(report.error_band).startswith("no evidence: ")
    assert set(report.interval().values()) == {None}


LLAMA = _at("apple-m4-max", "llama3.1-8b", precision="fp16")


def test_a_band_stands_around_every_time_and_rate() -> None:
    report = evaluate(LLAMA)
    data, row = report.to_dict(), report.csv_row()
    assert report.error_band.relative is not None
    for name in BANDED:
        unit = "per_s" if name.endswith("per_s") else "s"
        low, high = (f"{name.removesuffix(f'_{unit}')}_{end}_{unit}" for end in ("low", "high"))
        assert data[low] < data[name] < data[high]
        assert (row[low], row[high]) == (data[low], data[high])
        assert data[high] / data[name] == pytest.approx(data[name] / data[low])


def test_kinds_of_work_do_not_vouch_for_each_other() -> None:
    usual = evaluate(LLAMA).error_band
    assert usual.relative is not None
    for fields in ({"inputs": 40_000}, {"switches": LLAMA.switches | {"graph": False}}):
        assert evaluate(LLAMA.with_(**fields)).error_band.cell != usual.cell
    cells = {name: evaluate(LLAMA.with_(runtime=name)).error_band.cell for name in ("eager", "compiled", "captured")}
    assert len(set(cells.values())) == len(cells)
    assert cells["captured"].split(" | ")[1] == usual.cell.split(" | ")[1]
    for system, workload, precision in (
        ("h100-sxm", "llama3.1-8b", "fp8"),
        ("b200-sxm", "llama3.1-8b", "fp4"),
        ("h100-sxm", "qwen3-30b-a3b", "bf16"),
    ):
        assert evaluate(_at(system, workload, precision=precision)).error_band.cell != usual.cell


def test_outside_of_its_evidence_a_band_is_wider_or_gone_and_says_so() -> None:
    usual = evaluate(LLAMA).error_band
    level = "devices.0.memory.unified.bandwidth"
    small, some, far = (
        evaluate(LLAMA.with_(overrides={level: f"{546 * f} GB/s"})).error_band for f in (1.001, 1.3, 3.0)
    )
    assert small == usual
    assert some.relative > usual.relative
    assert level in some.why
    assert far.relative is None
    assert level in far.why
    other = evaluate(_at("l40s", "llama3.1-8b", precision="fp16")).error_band
    assert other.relative > usual.relative
    assert "L40S" in other.why


def test_what_ifs_that_move_nothing_keep_the_band() -> None:
    report = evaluate(LLAMA.with_(overrides={"devices.0.power.max": "90 W"}))
    assert report.error_band == evaluate(LLAMA).error_band


def test_two_families_have_the_band_of_the_one_less_known() -> None:
    known, none = ErrorBand(0.3, "recalled", 9), ErrorBand(None, "no evidence", 1)
    assert widest([known, ErrorBand(0.5, "recalled", 9)]).relative == 0.5
    assert widest([known, none]).relative is None


def test_every_cell_is_said_in_words() -> None:
    assert all("|" not in spoken(cell) for cell in KNOWN["cells"])
    assert error_bands.LONG == 16384


def test_a_band_says_what_it_rests_on(rows: list[Residual]) -> None:
    """Of how many publications, how many rows its constants were chosen in view of, and where it held too few."""
    said = []
    for name, cell in json.loads(FILE.read_text())["cells"].items():
        mine = [row for row in rows if row.cell == name]
        assert cell["seen"] == sum(row.id.startswith("serving-") or row.id == "mlperf30-l4-bert" for row in mine)
        tried = next(one for one in error_bands.cells() if one["cell"] == name)
        known = {key: cell[key] for key in ("recalled", "sources", "publications", "seen")}
        band = ErrorBand(0.5, "validated", cell["rows"], **known, held=tried["held"], tested=tried["of"])
        said.append(told(band))
        assert f"in {cell['publications']} publications" in said[-1]
        assert (f"{cell['seen']} in view" in said[-1]) == bool(cell["seen"])
        assert ("without a row's source" in said[-1]) == (tried["held"] < 0.9 * tried["of"])
    assert any("without a row's source" in text for text in said)


def test_sweeps_put_the_band_beside_every_row() -> None:
    """The same band that the report of the row's scenario has, what-ifs of an axis included."""
    axes = {"batch": [1, 4], "devices.0.memory.unified.bandwidth": [5.46e11, 6e11, 2e12]}
    base = {"system": LLAMA.system, "workload": LLAMA.workload, "set": {"precision": "fp16"}}
    space = space_of({"scenario": base, "axes": axes, "objectives": ["latency_s:min", "throughput_per_s:max"]})
    rows = list(table_rows(space))
    seen = set()
    for row in rows:
        expected = evaluate(space.scenario(row["design"])).interval()
        assert [row[name] for name in expected] == [v and pytest.approx(v, rel=1e-6) for v in expected.values()]
        seen.add(row["latency_low_s"] is None)
    assert seen == {True, False}
    front = list(sweep(space).front.rows())
    assert all(row.keys() >= {"latency_low_s", "throughput_high_per_s"} for row in front)


def test_a_generation_of_parts_has_its_name_as_written() -> None:
    band = evaluate(_at("h100-sxm", "llama3.1-8b")).error_band
    assert "no part of Hopper was measured" in told(band), told(band)
