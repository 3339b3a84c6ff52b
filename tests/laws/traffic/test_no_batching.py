"""A machine whose requests follow one another serves them one at a time, at every door."""

import json

import pytest

from app.shared.load import Load, ServingLoad, serving_capacity
from app.views.traffic.serving.controls import usual_load
from app.views.traffic.serving.tables import verdict
from engine import default_scenario, evaluate
from engine.choose import choose
from engine.choose.simulation import scheduler_of
from engine.cli.main import main
from engine.devices import FAMILIES, family
from engine.scenario import encode
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import engine
from engine.traffic.engines.scheduler import POLICIES, policy_of
from engine.traffic.engines.serving_sweep import serving_sweep
from engine.traffic.scenario_load import usual_policy
from engine.traffic.service import TrafficError

DFX = default_scenario("dfx-u280", "gpt2-345m", inputs=32, outputs=32)
ALONE = {"policy": "no-batching", "max_seqs": 1, "memory_share": 1.0, "free_share": 1.0}
SHARED = {"memory_share": 0.9, "free_share": 1.0}


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> dict:
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_follows_one_another_is_known_of_the_family() -> None:
    assert {kind for kind in FAMILIES if family(kind).in_turn} == {"dfx", "npu"}
    assert usual_policy(DFX) == "no-batching"
    assert usual_policy(DFX, 8) == usual_policy(default_scenario("h100-sxm", "gpt2-345m")) == "vllm"


def test_every_door_serves_one_request_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    report, token = evaluate(DFX), encode(DFX)
    for load in (("--clients", "4"), ("--qps", "0.5")):
        assert said(capsys, "simulate", token, *load)["engine"] == ALONE
    for sla in ("ttft:p99=10s", "latency:p99=10s"):
        assert said(capsys, "capacity", token, "--demand", "1", "--sla", sla)["engine"] == ALONE
    assert usual_load(report, True).scheduler == POLICIES["no-batching"]
    best = choose({"workload": "gpt2-345m", "systems": ["dfx-u280"], "users": 8}).rows[0].best
    assert best is not None
    assert scheduler_of(best) == POLICIES["no-batching"]
    (rows,) = [list(serving_sweep({"scenario": token, "axes": {"serving.clients": [4]}}).rows())]
    assert rows[0]["tpot_s"] == pytest.approx(report.tpot_s, rel=0.01)


def test_a_token_s_time_does_not_depend_on_who_waits() -> None:
    report, rules = evaluate(DFX), POLICIES[usual_policy(DFX)]
    for clients in (1, 8):
        point = engine(DFX, rules, {}).at(ClosedLoop(clients)).report
        assert point.tpot.mean.value == pytest.approx(report.tpot_s, rel=1e-3)
        assert point.requests_per_s == pytest.approx(1.0 / report.latency_s, rel=1e-3)


def test_choose_takes_a_batch_as_requests_behind_one_another() -> None:
    """Its closed form made tokens of a batch of four take turns, 28.5 ms each, and refused what the calendar serves."""
    for demand in ({}, {"users": 4}):
        question = {"workload": "gpt2-1.5b", "inputs": 64, "outputs": 64, "batch": 4, "tpot_s": 0.025}
        row = choose(question | {"systems": ["dfx-u280"]} | demand).rows[0]
        assert row.best is not None
        assert row.best.joined is not None
        assert row.load is not None
        assert row.best.joined.tpot_s == pytest.approx(row.load.tpot_s, rel=0.01)
        assert row.best.joined.ttft_s == pytest.approx(row.load.ttft_s, rel=0.01)
        assert row.best.full_rate == pytest.approx(row.load.rate_per_s, rel=0.05)


def test_the_machine_itself_is_what_requests_wait_for() -> None:
    load = ServingLoad(Load(encode(DFX)), POLICIES[usual_policy(DFX)], (("e2e_s", 10.0),), ClosedLoop(8))
    said = verdict(load, serving_capacity(load))
    assert "requests wait for the machine, which serves one at a time, " in said


def test_a_batch_of_requests_in_turn_is_as_many_clients() -> None:
    """evaluate at batch 4 says what four clients of the machine see once their first answers are there."""
    report, rules = evaluate(DFX.with_(batch=4)), POLICIES[usual_policy(DFX)]
    steady = engine(DFX, rules, {}).at(ClosedLoop(4)).report
    assert report.continuous.tpot_s == pytest.approx(steady.tpot.mean.value, rel=2e-3)
    assert report.continuous.ttft_s == pytest.approx(steady.steady_ttft.mean.value, rel=2e-3)
    assert "One request at a time TTFT" in report.verdict
    assert "continuous batching" not in report.verdict


def test_another_policy_is_an_option_and_a_contradiction_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("simulate", encode(DFX), "--clients", "4")
    assert said(capsys, *asked, "--max-seqs", "8")["engine"] == {"policy": "vllm", "max_seqs": 8} | SHARED
    assert said(capsys, *asked, "--policy", "vllm")["engine"]["max_seqs"] == POLICIES["vllm"].max_seqs
    with pytest.raises(TrafficError, match="max_seqs is 8; policy no-batching serves one request at a time"):
        policy_of("no-batching", max_seqs=8)
    assert main([*asked, "--policy", "no-batching", "--max-seqs", "8"]) == 2


def test_every_machine_of_a_plan_has_its_own_usual_policy(capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever is named first, and whether or not more sequences at once are tried."""
    asked = ("capacity", "--workload", "gpt2-345m", "--inputs", "32", "--outputs", "32", "--precision", "fp16")
    asked += ("--devices", "1", "--scheme", "single", "--demand", "1", "--sla", "ttft:p99=5s", "--requests", "200")
    plans = [
        said(capsys, *asked, "--system", first, "--vary", f"system={other}")["node"]
        for first, other in (("h100-sxm", "dfx-u280"), ("dfx-u280", "dfx-u280"))
    ]
    assert plans[0] == plans[1]
    both = said(capsys, *asked, "--system", "dfx-u280", "--vary", "serving.max_seqs=1,4")
    assert both["engine"]["policy"] == ("vllm" if both["engine"]["max_seqs"] == 4 else "no-batching")
    policies = said(capsys, *asked, "--system", "h100-sxm", "--vary", "serving.policy=vllm,trtllm")
    assert policies["engine"]["policy"] == policies["tried"][0]["serving.policy"]
