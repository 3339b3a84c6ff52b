"""``split``, ``camera``, ``forward`` and ``fuse``: they answer in both forms and refuse in one sentence."""

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
    assert len(found) == 7
    assert [p["meets_limit"] for p in found] == [p["latency_s"] <= 0.01 for p in found]
    for flag, value in (("--limit-ms", "-1"), ("--frames", "0")):
        said = refused(capsys, "camera", "mobilenet-v1", flag, value)
        assert f"{flag}: '{value}' is not allowed: a number above 0" in said
    street, hut = "street=arm-edge-cpu,machines=each", "hut=xeon-e5-2650,link=ethernet-1g,format=int8,km=20"
    found = told(capsys, "camera", "mobilenet-v1", "--tier", street, "--tier", hut, "--cameras", "10")
    assert [row["name"] for row in found] == ["street", "hut", "street and hut"]
    assert all(row["p99_s"] >= row["latency_s"] * (1 - 1e-9) for row in found)
    assert found[2]["link_bytes"] == [found[2]["uplink_bytes_per_s"] / 5.0]
    said = refused(capsys, "camera", "mobilenet-v1", "--tier", "hut=xeon-e5-2650,speed=1")
    assert "tier is 'hut=xeon-e5-2650,speed=1'; allowed: NAME=DEVICE and link, precision" in said
    own = told(capsys, "camera", "preset:edge-camera")
    best = told(capsys, "split", "preset:edge-camera")["best"]
    assert min(row["latency_s"] for row in own) == best["latency_s"]
    assert own == told(capsys, "camera", "mobilenet-v1", "--system", "edge-tiers")
    assert "pass rate is 1.5" in refused(capsys, "camera", "resnet50", "--filter", "mobilenet-v1", "--passed", "1.5")
    assert "none is set" in refused(capsys, "camera", "resnet50", "--passed", "0.5")  # it was left aside in silence
    assert main(["ask", "camera", "resnet50"]) == 0  # 300 W of a V100 that works 1% of the time had no word beside them
    assert "Assumed: Tesla V100 32 GB draws its full power when idle" in capsys.readouterr().out


def test_a_camera_s_best_place_is_said_first(capsys):
    """The command listed ways, and which of them answers soonest was left to the reader."""
    for cameras, said in (
        (10, "least latency: metro edge, "),
        (1000, "no place keeps the limit and up with 1,000 cameras"),
    ):
        limit = () if cameras == 10 else ("--limit-ms", "1")
        assert main(["ask", "camera", "preset:edge-camera", "--cameras", str(cameras), *limit]) == 0
        assert capsys.readouterr().out.startswith(said)


def test_three_executors_are_cut_twice_and_a_link_of_no_rate_is_refused(capsys):
    chain = ("--system", "edge-metro-core", "--workload", "binary-mlp-mnist", "--precision", "fp32")
    found = told(capsys, "split", *chain)
    report = evaluate(Scenario.model_validate(found["scenario"]))
    assert report.latency_s == found["best"]["latency_s"] == min(p["latency_s"] for p in found["points"])
    assert found["scenario"]["second_split"] == found["best"]["second_at"]
    for role in ("peer", "backhaul"):
        assert "bandwidth" in refused(capsys, "split", *chain, "--set", f"links.{role}.bandwidth=0 Gbit/s")
    assert "precision of the first part is 'int2'" in refused(capsys, "split", *chain, "--first-precision", "int2")


def test_packets_pass_beside_inference(capsys):
    found = told(capsys, "forward", "--executors", "0")
    assert found["bytes_per_s"][-1] == pytest.approx(10e9)
    assert told(capsys, "forward", "--executors", "480")["drop_bytes"] is None  # was no JSON
    assert "is a gpu; forwarding" in refused(capsys, "forward", "v100-32gb")


def test_chains_are_told(capsys):
    found = told(capsys, "fuse", "--system", "arm-edge", "--workload", "mobilenet-v1", "--precision", "fp32")
    assert found["depth_s"] < found["breadth_s"]
    assert found["depth_bytes"] < found["breadth_bytes"]
    assert found["chains"]
    assert "is a dfx; depth-first" in refused(capsys, "fuse", "--system", "dfx-u280", "--workload", "gpt2-345m")


LLAMA = ("--system", "apple-m4-max", "--workload", "llama3.1-8b", "--precision", "fp16")
PREDICTING = {
    "evaluate": ("latency_s", "evaluate", *LLAMA),
    "split": ("", "split", "--system", "edge-tiers", "--workload", "alexnet"),
    "fuse": ("depth_s", "fuse", "--system", "arm-edge", "--workload", "alexnet"),
    "simulate": ("", "simulate", "preset:dfx-345m", "--qps", "1", "--requests", "2000"),
    "capacity": ("capacity_per_s", "capacity", *LLAMA, "--demand", "1", "--sla", "p95=60s", "--requests", "2000"),
}


@pytest.mark.parametrize("command", PREDICTING)
def test_a_band_or_words_stand_beside_every_prediction(capsys, command):
    figure, *argv = PREDICTING[command]
    assert main([*argv, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    band = data["error_band"]
    assert (band["relative"] is None) == band["why"].startswith(
        ("only", "nothing", "no part", "no independent", "what-ifs")
    )
    if figure:
        stem, unit = (figure.removesuffix("_per_s"), "per_s") if "per_s" in figure else figure.rsplit("_", 1)
        ends = data[f"{stem}_low_{unit}"], data[f"{stem}_high_{unit}"]
        assert (ends == (None, None)) == (band["relative"] is None)
    assert main(argv) == 0
    assert "error band" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("of", "counted"), [(LLAMA, "request"), (("--system", "fb-card", "--workload", "resnet50"), "image")]
)
def test_a_plan_names_what_its_money_and_energy_are_counted_by(capsys, of, counted):
    assert main(["capacity", *of, "--demand", "1", "--sla", "p95=60s", "--requests", "2000", "--node-usd", "5000"]) == 0
    said = capsys.readouterr().out
    assert f"for 10^6 {counted}s" in said
    assert f" {counted}s/J at this load" in said
    assert "inferences" not in said


def test_a_band_stands_beside_every_cut_and_every_camera(capsys):
    assert main(["split", "--system", "edge-tiers", "--workload", "alexnet", "--json"]) == 0
    assert all(p.keys() >= {"latency_low_s", "latency_high_s"} for p in json.loads(capsys.readouterr().out)["points"])
    assert main(["camera", "alexnet", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(row.keys() >= {"latency_low_s", "latency_high_s", "error_band"} for row in rows)
