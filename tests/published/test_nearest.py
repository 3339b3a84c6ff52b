"""The nearest evidence: a recorded figure of the same family, what we predict there, and how far it is."""

import csv
import io
import json

import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.published.nearest import FILE, ROLES, data_of, distance, nearest, row_of
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import decode
from hardware_specs.catalog import default_catalog

KEYS = {"id", "source", "where", "metric", "unit", "published", "predicted", "error", "role", "distance"}
RECORDED = {row["id"]: row for row in json.loads(FILE.read_text())}


def test_what_is_recorded_is_what_is_predicted(claimed: list[dict], elsewhere: list[dict]) -> None:
    """Renew it with `python -m tests.tools.published`."""
    stale = []
    for row in (*claimed, *elsewhere):
        recorded = RECORDED.get(row["id"])
        if recorded is None:
            continue
        assert recorded["published"] == row["published"]
        if recorded["error"] != pytest.approx(row["error"], rel=1e-6, abs=1e-9):
            stale.append(row["id"])
    assert stale == []


def test_a_published_scenario_is_its_own_evidence() -> None:
    found = nearest(PRESETS["dfx-1.5b"].scenario)
    assert found is not None
    assert (found.id, found.role, found.distance, found.of) == ("DFX-058", "calibration", 0, "this scenario")
    assert "prints 72.68 tokens/s throughput for this scenario" in found.sentence
    assert found.sentence.endswith("%, used in calibration")
    report = evaluate(PRESETS["dfx-1.5b"].scenario)
    assert found.predicted == pytest.approx(report.throughput_per_s)
    assert found.error == pytest.approx(found.predicted / 72.68 - 1)


@pytest.mark.parametrize("id", PRESETS)
def test_every_preset_has_evidence_of_its_family(id: str) -> None:
    scenario = PRESETS[id].scenario
    found = nearest(scenario)
    assert found is not None
    catalog = default_catalog()
    kinds = {catalog.device(catalog.system(s.system).devices[0].device).kind for s in (scenario, decode(found.token))}
    assert len(kinds) == 1
    least = min(
        distance(scenario, decode(row["token"]), row["whole"])
        for row in RECORDED.values()
        if catalog.device(catalog.system(decode(row["token"]).system).devices[0].device).kind in kinds
    )
    assert found.distance == pytest.approx(least, abs=1e-4)
    assert found.role in ROLES
    assert "_" not in found.sentence.split(" prints ")[1]
    assert "None" not in found.sentence


def test_distance_is_nought_to_itself_and_grows_with_what_differs() -> None:
    base = default_scenario("h100-sxm", "llama3.1-70b", inputs=1024, outputs=1024, devices=4)
    assert distance(base, base) == 0
    for changes in ({"batch": 2}, {"inputs": 2048}, {"outputs": 512}, {"precision": "fp8"}):
        assert distance(base.with_(**changes), base) == distance(base, base.with_(**changes)) > 0
    assert distance(base.with_(batch=64), base) > distance(base.with_(batch=8), base)
    near, far = (default_scenario(name, "llama3.1-70b", devices=4) for name in ("h200-sxm", "mi300x"))
    assert distance(base, near) < distance(base, far)
    assert distance(base, base, whole=False) == 1


def test_json_csv_and_text_name_the_nearest_evidence(capsys) -> None:
    assert main(["evaluate", "preset:dfx-1.5b", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["nearest_evidence"]
    assert told.keys() >= KEYS
    assert told["id"] == "DFX-058"
    assert main(["evaluate", "preset:dfx-1.5b", "--csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["nearest_evidence_id"] == "DFX-058"
    assert float(row["nearest_evidence_error"]) == pytest.approx(told["error"])
    assert main(["evaluate", "preset:dfx-1.5b"]) == 0
    assert "nearest     DFX appliance (Table II) prints 72.68 tokens/s" in capsys.readouterr().out


def test_a_report_keeps_its_own_keys_beside_the_evidence() -> None:
    report = evaluate(PRESETS["tonic-fc"].scenario)
    assert data_of(report).keys() - report.to_dict().keys() == {"nearest_evidence"}
    added = row_of(report).keys() - report.csv_row().keys()
    assert added == {f"nearest_evidence_{key}" for key in KEYS}
