"""Is a language model in Choose what the Load page's calendar of passes says of it?"""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from app.shared.load import Load, ServingLoad, serving_points
from app.views.choose.tables import load_address
from engine import default_scenario, encode, evaluate
from engine.choose import choose, question_of, read_fields
from engine.choose.simulation import load_of, scheduler_of
from engine.cli.main import main
from engine.scenario import ScenarioError
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import LIMITS, engine
from engine.traffic.engines.scheduler import POLICIES
from engine.traffic.scenario_load import usual_policy
from tests.each import each

TIGHT = {
    "workload": "llama3.1-70b",
    "inputs": 1024,
    "outputs": 1024,
    "tpot_s": 0.025,
    "systems": ("mi300x", "b200-sxm"),
}


def test_a_limit_on_ttft_holds_for_99_of_100_requests() -> None:
    """The mean of a running batch keeps a limit that its 99th percentile misses."""
    loose = {row.system: row for row in choose(TIGHT).rows}
    best, load = loose["mi300x"].best, loose["mi300x"].load
    assert best is not None
    assert load is not None
    limit = 0.9 * load.ttft_s
    for row in choose(TIGHT | {"ttft_s": limit}).rows:
        assert row.best is not None
        assert row.load is not None
        assert row.load.ttft_s <= limit
        assert row.best.usd_per_million >= loose[row.system].best.usd_per_million


def test_limits_at_percentiles_hold_under_load_with_goodput() -> None:
    """Only TTFT p99, TPOT p50 and end to end p99 could be asked for."""
    question = TIGHT | {"sla": {"ttft:p95": 0.2, "itl:p99": 0.05}, "systems": ("mi300x",)}
    answer = choose(question)
    (row,) = answer.rows
    assert row.best is not None
    assert row.load is not None
    loose = choose(question | {"sla": {}}).rows[0].best
    assert loose is not None
    assert row.best.usd_per_million > 1.2 * loose.usd_per_million
    tails = dict(row.load.tails)
    assert tails["ttft:p95"] <= 0.2
    assert tails["itl:p99"] <= 0.05
    plain = answer.to_dict()["rows"][0]
    assert plain["loaded_itl_p99_s"] == tails["itl:p99"]
    assert 0.0 < plain["loaded_goodput_per_s"] <= plain["loaded_rate_per_s"] / 1024
    assert question_of(answer.question.token) == answer.question
    assert read_fields({"sla": "ttft:p95=200ms,latency:p90=3s"}) == {"sla": {"ttft:p95": 0.2, "e2e:p90": 3.0}}
    for sla in ({"ttft:p42": 1.0}, {"ttft:p95": -1.0}):
        with pytest.raises(ScenarioError):
            choose(question | {"sla": sla})
    with pytest.raises(ScenarioError, match="sla has ttft:p95: that means nothing for ResNet-50"):
        choose({"workload": "resnet50", "sla": {"ttft:p95": 0.2}})


@each("survives", ["none", "card", "node", "domain", "rack"])
@each("demand", [{"users": 500}, {"qps": 12.0}])
def test_a_demand_is_met_with_the_failure_down_as_a_plan_has_it(survives: str, demand: dict[str, float]) -> None:
    """Instances were as many as the demand takes with everything up, and no row had racks or power at the wall."""
    question = TIGHT | demand | {"survives": survives, "systems": ("mi300x",), "rack_w": 40_000}
    answer = choose(question)
    (row,) = answer.rows
    assert row.best is not None
    assert row.plan is not None
    assert row.plan.nodes == row.best.instances
    assert row.plan.survives == survives
    assert row.plan.degraded_qps >= row.best.need * row.best.rate / 1024 * (1 - 1e-9)
    assert row.load is not None
    if "users" in demand:
        assert row.best.clients * row.best.working >= 500
    plain = answer.to_dict()["rows"][0]["plan"]
    assert plain["racks"] == -(-row.best.instances // plain["nodes_per_rack"])
    assert plain["mean_w"] > 0.0


def test_a_failing_node_takes_every_instance_of_its_host() -> None:
    """Eight instances shared a host and a failing node took one of them; a host took a slot for each instance."""
    question = {"workload": "resnet50", "systems": ("a10",), "rack_w": 1e6, "rack_slots": 2}
    rate = choose(question).rows[0].best.rate
    rows = {s: choose(question | {"qps": 20 * rate, "survives": s}).rows[0] for s in ("none", "card", "node", "rack")}
    instances = {s: row.best.instances for s, row in rows.items()}
    assert instances["card"] == instances["none"] + 1
    assert instances["node"] == instances["none"] + 8
    assert instances["rack"] == instances["none"] + 16
    assert all(row.plan.nodes == row.best.instances for row in rows.values())
    plan = rows["node"].plan
    assert plan.nodes_per_rack == 16
    assert plan.degraded_qps == pytest.approx(plan.carried_qps * (plan.nodes - 8) / plan.nodes)


CROWD = {"workload": "llama3.1-8b", "outputs": 128, "systems": ["b200-sxm"]}


@each("demand", [{}, {"users": 500}, {"qps": 12.0}, CROWD])
def test_load_opens_with_the_figures_of_the_row(demand: dict[str, Any]) -> None:
    """Of more than 166 clients the page ran more requests than the row had: other figures."""
    answer = choose(TIGHT | demand)
    row = answer.rows[0]
    assert row.best is not None
    assert row.load is not None
    rules, load = scheduler_of(row.best), load_of(answer.question, row.best)
    shown = ServingLoad(Load(encode(row.best.scenario)), rules, loop=load if isinstance(load, ClosedLoop) else None,
                        qps=1.0 if isinstance(load, ClosedLoop) else load.qps)  # fmt: skip
    address = load_address(answer, row)
    point, _ = serving_points(
        replace(shown, requests=int(address["run-requests"]) if "run-requests" in address else None)
    )
    assert [point.figure(name) for name in LIMITS] == [getattr(row.load, name) for name in LIMITS]
    level = {"qps", "demand"} if "qps" in demand else {"clients", "ramp"} | ({"users"} & demand.keys())
    level |= {"run-requests"} if demand is CROWD else set()
    assert address.keys() == {"load"} | level
    plain = answer.to_dict()["rows"][0]
    assert plain["loaded_ttft_s"] == point.figure("ttft_s")
    assert plain["loaded_tpot_s"] == point.figure("tpot_s")
    assert plain["loaded_rate_per_s"] == point.report.output_tokens_per_s


def test_experts_go_whole_to_devices_where_that_carries_more() -> None:
    question = {"workload": "gpt-oss-120b", "inputs": 1024, "outputs": 1024, "tpot_s": 0.02, "systems": ["b200-sxm"]}
    best = choose(question).rows[0].best
    assert best is not None
    scenario = best.scenario
    assert scenario.expert_parallel == scenario.devices > 1
    cut = evaluate(scenario.with_(expert_parallel=None)).continuous
    assert cut is not None
    assert cut.throughput_per_s < best.full_rate


@each("system", ["h100-sxm", "rtx-5090", "fb-node", "dfx-u280"])
@each("batch", [8, 64, 256])
def test_the_closed_form_of_a_running_batch_is_near_the_calendar(system: str, batch: int) -> None:
    """Prompts of 64 tokens, which passes of decoding take along: charged alone, they made TPOT up to twice as long."""
    scenario = default_scenario(system, "gpt2-1.5b", inputs=64, outputs=64, batch=batch)
    if system == "fb-node":
        scenario = scenario.with_(scheme="replicas", devices=6)
    steady = evaluate(scenario).continuous
    assert steady is not None
    rules = POLICIES[usual_policy(scenario)]
    subject = engine(scenario, replace(rules, max_seqs=max(rules.max_seqs, batch if rules.max_seqs > 1 else 1)), {})
    clients = batch * subject.scheduler.replicas
    report = subject.at(ClosedLoop(clients, ramp_s=steady.latency_s)).report
    assert report.tpot is not None
    assert steady.tpot_s == pytest.approx(report.tpot.mean.value, rel=0.2)
    assert steady.throughput_per_s == pytest.approx(clients * 64 / report.e2e.mean.value, rel=0.2)


@each("lengths", [(128, 128, 256), (256, 512, 1024), (1024, 1024, 256)])
def test_ranks_wait_for_prompts_as_in_the_calendar(lengths: tuple[int, int, int]) -> None:
    """A prompt was charged with all experts' weights, which passes of decoding read anyway: TPOT up to 44% too long."""
    inputs, outputs, batch = lengths
    ways = {"devices": 8, "scheme": "tensor", "expert_parallel": 8, "attention_dp": 8}
    scenario = default_scenario("h100-sxm", "gpt-oss-120b", inputs=inputs, outputs=outputs, batch=batch).with_(**ways)
    steady = evaluate(scenario).continuous
    assert steady is not None
    rules = POLICIES[usual_policy(scenario)]
    subject = engine(scenario, replace(rules, max_seqs=max(rules.max_seqs, batch)), {})
    report = subject.at(ClosedLoop(batch, ramp_s=steady.latency_s), 5 * batch).report
    between = (report.arrive >= steady.latency_s) & (report.finish <= report.arrive.max())  # first wave and last
    gap = (report.finish - report.first)[between].mean() / (outputs - 1)
    assert steady.tpot_s == pytest.approx(gap, rel=0.07)


def test_choose_has_the_closed_form_of_a_report() -> None:
    question = {"workload": "gpt-oss-120b", "inputs": 256, "outputs": 256, "tpot_s": 0.02, "systems": ["b200-sxm"]}
    row = choose(question).rows[0]
    points = [point for point in row.front if (point.start.attention_dp or 1) > 1 and point.joined is not None]
    assert points
    for point in points:
        assert evaluate(point.scenario).continuous == point.joined


def test_a_terminal_has_the_times_under_load(capsys: pytest.CaptureFixture[str]) -> None:
    """Its time per token was the closed form's, beside a sentence with the simulated one."""
    argv = ["choose", "llama3.1-8b", "--inputs", "512", "--outputs", "64", "--qps", "20", "--systems", "h100-sxm"]
    assert main(argv) == 0
    said, *table = capsys.readouterr().out.splitlines()
    ttft, tpot = re.findall(r"TTFT p99 (.*?), TPOT p50 (.*?)\. ", said + " ")[0]
    assert "ttft p99" in table[1]
    assert ttft in table[2]
    assert tpot in table[2]


def test_the_command_asks_what_may_fail_and_what_a_rack_takes(capsys) -> None:
    """They were options of the command that no question had."""
    argv = ["choose", "gpt2-345m", "--qps", "40", "--systems", "h100-sxm", "--json"]
    assert main([*argv, "--survives", "rack", "--rack-slots", "4", "--rack-w", "90000"]) == 0
    answer = json.loads(capsys.readouterr().out)
    asked = {name: answer["question"][name] for name in ("survives", "rack_slots", "rack_w")}
    assert asked == {"survives": "rack", "rack_slots": 4, "rack_w": 90000.0}
    assert answer["rows"][0]["plan"]["spare_nodes"] == answer["rows"][0]["plan"]["nodes_per_rack"] == 4 * 8


def test_a_rack_that_feeds_no_instance_is_said() -> None:
    """The row had no plan, and nothing said why."""
    (row,) = choose(TIGHT | {"qps": 4.0, "survives": "rack", "systems": ("mi300x",), "rack_w": 100}).rows
    assert row.plan is None
    assert row.plan_problem.startswith("rack_w is 100 W; one node draws")
