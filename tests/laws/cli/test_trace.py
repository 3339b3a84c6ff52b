"""A timeline as a trace file: every bar, where and when the report says it is."""

import json

import pytest

from engine.cli.main import main
from engine.cost.timeline import TRACED
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from tests.effort import EFFORT
from tests.laws.law_grids import ONE_OF_EACH


@pytest.mark.parametrize("id", PRESETS if EFFORT >= 5 else ONE_OF_EACH)
def test_a_trace_holds_every_bar_on_its_own_unit(id, tmp_path, capsys):
    file = tmp_path / "trace.json"
    assert main(["evaluate", f"preset:{id}", "--trace", str(file)]) == 0
    capsys.readouterr()
    found, report = json.loads(file.read_text()), evaluate(PRESETS[id].scenario)
    assert found["otherData"]["token"] == report.token
    threads = {e["tid"]: e["args"]["name"] for e in found["traceEvents"] if e["name"] == "thread_name"}
    bars = [e for e in found["traceEvents"] if e["ph"] == "X"]
    assert [(threads[e["tid"]], e["name"]) for e in bars] == [(s.unit, s.name) for s in report.in_order(TRACED)]
    for bar, span in zip(bars, report.in_order(TRACED), strict=True):
        assert bar["ts"] == pytest.approx(1e6 * span.start_s)
        assert bar["dur"] == pytest.approx(1e6 * span.duration_s)


def test_a_file_that_is_there_is_kept(tmp_path, capsys):
    file = tmp_path / "trace.json"
    file.write_text("mine")
    assert main(["evaluate", f"preset:{next(iter(PRESETS))}", "--trace", str(file)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert file.read_text() == "mine"
