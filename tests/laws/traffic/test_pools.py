"""Disaggregated serving: transfers share ports fairly, nothing is lost, and limits in closed form."""

import json
from dataclasses import replace

import numpy as np
import pytest

from engine.cli.main import main
from engine.traffic import Fixed, LogNormal, Poisson, TrafficError
from engine.traffic.engines.calendar import ClosedLoop, serve
from engine.traffic.engines.operating_points import Engine
from engine.traffic.engines.pools import Network, Pool, Pools, serve_pools, shared_flows
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.plan import Demand, NodeFacts, SiteFacts, capacity_plan, group_of
from tests.each import each
from tests.laws.traffic.test_calendar import GPU, PASSES

RULES = Scheduler(budget=2048, kv_blocks=4000, block=16)
FREE = Network(0.0, 1e9)
LENGTHS = LogNormal(60, 0.8, 300)


def through(load, pools=(1, 1), network=FREE, requests=400, outputs=LENGTHS, **kw):
    first, second = (Pool(GPU, RULES, engines=count) for count in pools)
    return serve_pools(first, second, network, load, LogNormal(200, 0.8, 900), outputs, requests, **kw)


def test_a_client_may_ask_many_times() -> None:
    """Each round settles a wave of the clients; 500 requests of one client needed more rounds than there were."""
    report = through(ClosedLoop(1), requests=450, outputs=Fixed(20))
    gap = report.tpot.mean.value
    assert report.requests_per_s * (report.ttft.mean.value + 19 * gap) == pytest.approx(1.0)
    with pytest.raises(TrafficError, match="clients is 1: 20,000 requests did not settle in 400 rounds; give fewer"):
        through(ClosedLoop(1), requests=20_000)


@each("ratio", [(1, 1), (1, 3), (3, 1)])
def test_pools_of_twice_the_engines_carry_twice_as_much(ratio: tuple[int, int]) -> None:
    """Clients that fill one engine were to fill all of a pool: eight of each carried a third of eight times one."""
    pool, twice = Pool(GPU, RULES), (2 * ratio[0], 2 * ratio[1])
    limits = {"ttft_s": 2.0, "tpot_s": 0.03}
    subject = Engine(GPU, RULES, 1, Fixed(512), Fixed(64), limits, Pools(pool, pool, FREE).at(ratio))
    double = replace(subject, pools=subject.pools.at(twice))
    assert double.saturated_qps == pytest.approx(2.0 * subject.saturated_qps)
    clients = 2 * double.places
    full = double.at(ClosedLoop(clients), 16 * clients).report.requests_per_s
    assert 0.87 * double.saturated_qps < full <= double.saturated_qps
    assert double.highest(Poisson(1.0)).qps == pytest.approx(2.0 * subject.highest(Poisson(1.0)).qps, rel=0.08)


def test_a_narrow_port_bounds_what_pools_carry() -> None:
    pool = Pool(GPU, RULES)
    narrow = Network(1e5, 1e8)
    subject = Engine(GPU, RULES, 1, Fixed(512), Fixed(64), {}, Pools(pool, pool, narrow))
    assert subject.saturated_qps == pytest.approx(1e8 / (512 * 1e5))


def test_an_engine_s_stages_prefill_side_by_side(capsys) -> None:
    """Two pipeline stages are two batches under way: a pool took an engine of any number of stages or copies as one."""
    target = ["simulate", "--system", "h200-sxm", "--workload", "llama3.1-8b", "--scheme", "tensor", "--devices", "2"]
    target += ["--inputs", "4096", "--outputs", "8", "--clients", "16", "--pools", "1:1", "--json"]
    rates = {}
    for stages in (1, 2):
        assert main([*target, "--prefill-set", f"pipeline_parallel={stages}"]) == 0
        data = json.loads(capsys.readouterr().out)
        rates[stages] = data["requests_per_s"]
        assert data["output_tokens_per_s_per_device"] == pytest.approx(data["output_tokens_per_s"] / 4)
    assert rates[2] > rates[1]


def test_auto_pools_are_the_best_of_a_device(capsys) -> None:
    target = ["simulate", "--system", "h200-sxm", "--workload", "llama3.1-8b", "--scheme", "tensor", "--devices", "1"]
    target += ["--inputs", "2048", "--outputs", "64", "--clients", "32", "--prefill-set", "devices=4", "--json"]
    found = {}
    for ratio in ("auto:3", "1:2", "2:1"):
        assert main([*target, "--pools", ratio]) == 0
        found[ratio] = json.loads(capsys.readouterr().out)
    rate = {ratio: data["output_tokens_per_s_per_device"] for ratio, data in found.items()}
    assert rate["auto:3"] == max(rate.values())
    assert rate["1:2"] == pytest.approx(found["1:2"]["output_tokens_per_s"] / 6)


def test_prompts_that_begin_alike_are_found_where_they_are_prefilled(capsys, tmp_path) -> None:
    """Mooncake's trace is of pools; its hashes were refused there."""
    (tmp_path / "passes.yaml").write_text(PASSES)
    row = '{{"timestamp": {}, "input_length": 2048, "output_length": 20, "hash_ids": [1, 2, {}, {}]}}'
    (tmp_path / "trace.jsonl").write_text("\n".join(row.format(900 * k, 2 * k + 3, 2 * k + 4) for k in range(40)))
    given = ["simulate", "--passes", str(tmp_path / "passes.yaml"), "--trace", str(tmp_path / "trace.jsonl")]
    ttft = {}
    for more in ((), ("--prefix-hit", "0")):
        assert main([*given, "--pools", "1:1", *more, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        ttft[more] = data["ttft_s"]["p50"], data["prefix_hit"]
    assert ttft[()][1] == pytest.approx(39 / 40 * 0.5)
    assert ttft[()][0] < 0.7 * ttft["--prefix-hit", "0"][0]


def test_flows_share_what_they_cross_and_no_byte_is_lost() -> None:
    alone = shared_flows(np.array([0.0, 5.0]), np.array([2.0, 3.0]), 1.0, 4.0)
    np.testing.assert_allclose(alone, [2.0, 8.0])  # each at its own port's rate
    together = shared_flows(np.zeros(4), np.full(4, 1.0), 1.0, 2.0)
    np.testing.assert_allclose(together, 2.0)
    late = shared_flows(np.array([0.0, 1.0]), np.array([3.0, 1.0]), 2.0, 2.0)
    np.testing.assert_allclose(late, [2.0, 2.0])  # 2 B alone, then 1 B each at half
    random = np.random.default_rng(3)
    begin, sizes = np.sort(random.random(200)) * 1e-3, random.random(200)
    assert shared_flows(begin, sizes, 1.0, 3.0).max() >= sizes.sum() / 3.0  # the pipe is full all the time but its ends
    assert shared_flows(begin, sizes, 1.0, 3.0).max() <= sizes.sum() / 3.0 + 1.1


def test_one_client_is_prefilled_sent_and_decoded() -> None:
    network = Network(1e5, 1e9, 1e-3)
    first, second = (Pool(GPU, RULES) for _ in range(2))
    report = serve_pools(first, second, network, ClosedLoop(1), Fixed(256), Fixed(33), 5)
    whole = serve(GPU, RULES, ClosedLoop(1), Fixed(256), Fixed(33), 5)
    assert report.ttft.mean.value == pytest.approx(whole.ttft.mean.value, rel=1e-9)
    sent = 256 * 1e5 / 1e9 + 1e-3
    assert report.e2e.mean.value == pytest.approx(whole.e2e.mean.value + sent, rel=1e-9)


@pytest.mark.parametrize("load", [ClosedLoop(24), ClosedLoop(24, think_s=0.3), Poisson(8.0)])
def test_no_request_is_lost_and_a_closed_loop_keeps_its_clients(load) -> None:
    report = through(load, (1, 2), Network(2e5, 2e9))
    assert np.isfinite(report.finish).all()
    assert (report.arrive < report.first).all()
    assert (report.first <= report.finish).all()
    if isinstance(load, ClosedLoop):
        ends = np.sort(np.concatenate([report.arrive, report.finish]))
        inside = [np.count_nonzero((report.arrive <= t) & (report.finish > t)) for t in ends]
        assert max(inside) <= load.clients
        np.testing.assert_allclose(np.sort(report.arrive)[24:], (np.sort(report.finish) + load.think_s)[: 400 - 24])


def test_prefill_apart_keeps_gaps_short_and_a_slow_port_is_the_limit() -> None:
    mixed = serve(GPU, replace(RULES, replicas=2), Poisson(9.0), LogNormal(200, 0.8, 900), Fixed(60), 400)
    apart = through(Poisson(9.0), (1, 1), outputs=Fixed(60))
    slow = through(Poisson(9.0), (1, 1), Network(1e6, 1e9), outputs=Fixed(60))  # 0.2 GB a prompt: 5 a second at most
    assert mixed.itl is not None
    assert apart.itl is not None
    assert apart.itl.p99.value < mixed.itl.p99.value
    assert slow.requests_per_s == pytest.approx(1e9 / (float(200) * 1e6), rel=0.15)


def test_the_command_serves_pools_and_refuses_in_a_sentence(capsys, tmp_path) -> None:
    file = tmp_path / "passes.yaml"
    file.write_text(PASSES)
    given = ["simulate", "--passes", str(file), "--inputs", "256", "--outputs", "32", "--clients", "8"]
    assert main([*given, "--pools", "1:2", "--json"]) == 0
    assert '"requests_per_s"' in capsys.readouterr().out
    rates = {}
    for pools in ("1:3", "2:2", "3:1", "auto:4"):
        assert main([*given, "--pools", pools, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        rates[data["pools"]] = max(data["requests_per_s"], rates.get(data["pools"], 0.0))
    assert data["requests_per_s"] == max(rates.values())
    assert main([*given, "--pools", "auto:1"]) == 2
    assert "2 to 64 engines can be shared out between two pools" in capsys.readouterr().err
    assert main([*given, "--pools", "2"]) == 2
    assert "pools is '2'; write engines that prefill" in capsys.readouterr().err
    with pytest.raises(TrafficError, match="port_b_per_s is 0"):
        Network(1.0, 0.0)


CAPACITY = ["capacity", "--system", "h100-sxm", "--workload", "llama3.1-8b", "--inputs", "1024", "--outputs", "64"]
CAPACITY += ["--sla", "ttft:p99=1s,tpot:p50=12ms", "--demand", "200", "--requests", "300", "--json"]


def planned(capsys, *more) -> dict:
    assert main([*CAPACITY, *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_ratio_of_pools_is_asked_for_with_the_plan(capsys) -> None:
    """Every ratio beside what varies, the cheapest first; pools could not be asked for inside limits."""
    data = planned(capsys, "--pools", "1:2,auto:2", "--vary", "serving.budget=2048,8192")
    assert len(data["tried"]) == 4
    assert [row["usd_per_year"] for row in data["tried"]] == sorted(row["usd_per_year"] for row in data["tried"])
    for row in data["tried"]:
        assert row["nodes"] % {"1:1": 2, "1:2": 3}[row["pools"]] == 0
        assert row["total_devices"] == row["nodes"]
    best = data["tried"][0]
    alone = planned(capsys, "--pools", best["pools"], "--vary", f"serving.budget={best['serving.budget']}")
    assert (alone["node"], alone["plan"]) == (data["node"], data["plan"])


def test_what_prefills_is_paid_by_prompts_and_what_decodes_by_answers(capsys) -> None:
    data = planned(capsys, "--pools", "1:3")
    plan, busy = data["plan"], data["at_limit"]["pool_busy"]
    assert 1024 * plan["usd_per_million_input_tokens"] == pytest.approx(plan["usd_per_million"] / 4)
    assert 64 * plan["usd_per_million_output_tokens"] == pytest.approx(0.75 * plan["usd_per_million"])
    assert data["node"]["limit"] == f"pool that {'prefills' if busy[0] > busy[1] else 'decodes'}"
    assert "groups of 1 that prefill and 3 that decode" in " ".join(data["notes"])


def test_prefill_engines_of_their_own_are_counted(capsys) -> None:
    data = planned(capsys, "--pools", "1:1,1:2", "--scheme", "tensor", "--devices", "1", "--prefill-set", "devices=2")
    for row, mean in zip(sorted(data["tried"], key=lambda row: row["pools"]), (3 / 2, 4 / 3), strict=True):
        assert row["total_devices"] == pytest.approx(mean * row["nodes"])


@pytest.mark.parametrize("survives", ["none", "card", "node", "domain", "rack"])
def test_a_group_loses_what_its_smaller_pool_loses(survives) -> None:
    """Of groups of one node that prefills and three that decode, one node down leaves a whole group less at most."""
    first, second = NodeFacts(40.0, 48.0, 100.0, 400.0, 10.0, 8), NodeFacts(40.0, 48.0, 200.0, 800.0, 30.0, 4, domain=2)
    node = group_of(first, second, (1, 3))
    assert (node.qps, node.full_qps, node.busy_w, node.capex_usd, node.cards) == (10.0, 12.0, 700.0, 25.0, 4)
    plan = capacity_plan(Demand((395.0,)), node, SiteFacts(slots=6), headroom=0.0, survives=survives)
    assert plan.nodes == {"none": 40, "card": 44, "node": 44, "domain": 48, "rack": 64}[survives]
    assert plan.degraded_qps >= 395.0
    assert plan.spare_nodes == plan.nodes - 40


@pytest.mark.parametrize("pools", ["2", "auto:1", "auto:65", "1:0", "1:2,", "none"])
def test_pools_that_are_none_are_refused_before_a_plan(capsys, pools) -> None:
    assert main([*CAPACITY, "--pools", pools]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_port_of_no_pools_is_refused_whatever_is_served(capsys) -> None:
    """Beside one limit of a network without tokens it was ignored."""
    for target in (["preset:brainwave-gru", "--sla", "p99=20ms"], ["preset:dfx-345m", "--sla", "ttft:p99=1s"]):
        assert main(["capacity", *target, "--demand", "100", "--port", "1e9"]) == 2
        assert capsys.readouterr().err == "port is 1000000000 beside one pool; give pools\n"
