"""Disaggregated serving: transfers share ports fairly, nothing is lost, and limits in closed form."""

import json
from dataclasses import replace

import numpy as np
import pytest

from engine.cli.main import main
from engine.traffic import Fixed, LogNormal, Poisson, TrafficError
from engine.traffic.engines.calendar import ClosedLoop, serve
from engine.traffic.engines.pools import Network, Pool, serve_pools, shared_flows
from engine.traffic.engines.scheduler import Scheduler
from tests.laws.traffic.test_calendar import GPU, PASSES

RULES = Scheduler(budget=2048, kv_blocks=4000, block=16)
FREE = Network(0.0, 1e9)
LENGTHS = LogNormal(60, 0.8, 300)


def through(load, pools=(1, 1), network=FREE, requests=400, outputs=LENGTHS, **kw):
    first, second = (Pool(GPU, replace(RULES, replicas=count)) for count in pools)
    return serve_pools(first, second, network, load, LogNormal(200, 0.8, 900), outputs, requests, **kw)


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
