"""``split``, ``camera``, ``forward`` and ``fuse``: they answer in both forms and refuse in one sentence."""

from __future__ import annotations

import json

import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.scenario import Scenario


def told(capsys, *args: str):
    assert main([*args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *args: str) -> str:
    assert main(list(args)) == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said
    return said


def test_the_best_cut_is_a_scenario_that_evaluates_to_it(capsys):
    found = told(capsys, "split", "preset:alexnet-split", "--goal", "throughput")
    report = evaluate(Scenario.model_validate(found["scenario"]))
    best = next(p for p in found["points"] if p["at"] == found["best"]["at"])
    assert report.latency_s == pytest.approx(best["latency_s"], rel=1e-9)
    assert best["interval_s"] == min(p["interval_s"] for p in found["points"])
    assert main(["split", "preset:alexnet-split"]) == 0
    assert "best for latency" in capsys.readouterr().out


def test_a_quantised_first_part_sends_a_quarter(capsys):
    wide = told(capsys, "split", "preset:edge-camera")["points"]
    low = told(capsys, "split", "preset:edge-camera", "--first-precision", "int8")["points"]
    assert low[5]["crossing_bytes"] == wide[5]["crossing_bytes"] / 4
    said = refused(capsys, "split", "preset:edge-camera", "--first-precision", "int3")
    assert said.startswith("precision of the first part is 'int3'; ")


def test_a_camera_is_placed(capsys):
    found = told(capsys, "camera", "mobilenet-v1", "--limit-ms", "10")
    assert len(found) == 5
    assert [p["meets_limit"] for p in found] == [p["latency_s"] <= 0.01 for p in found]
    assert "limit-ms is -1.0; allowed" in refused(capsys, "camera", "mobilenet-v1", "--limit-ms", "-1")
    assert "frames is 0.0; allowed" in refused(capsys, "camera", "mobilenet-v1", "--frames", "0")


def test_packets_pass_beside_inference(capsys):
    found = told(capsys, "forward", "--executors", "0")
    assert found["bytes_per_s"][-1] == pytest.approx(10e9)
    assert found["cycles_per_s"] == pytest.approx(60 * 800e6)
    assert "is a gpu; forwarding" in refused(capsys, "forward", "v100-32gb")


def test_chains_are_told(capsys):
    found = told(capsys, "fuse", "--system", "arm-edge", "--workload", "mobilenet-v1", "--precision", "fp32")
    assert found["depth_s"] < found["breadth_s"]
    assert found["depth_bytes"] < found["breadth_bytes"]
    assert found["chains"]
    assert "is a dfx; depth-first" in refused(capsys, "fuse", "--system", "dfx-u280", "--workload", "gpt2-345m")
