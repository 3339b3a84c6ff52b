"""A closed loop of clients before stations: closed forms, conservation, and what evaluate says of one client."""

import math

import numpy as np
import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from engine.traffic import Fixed, Service, TrafficError, single
from engine.traffic.closed_loop import closed_loop
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.policies import NoBatching, Station, TandemQueue
from engine.traffic.serving import Serving
from model_zoo.catalog import default_zoo
from tests.each import each

ONE = Fixed(1)


@each("preset", lambda: [name for name, p in PRESETS.items() if not default_zoo().graph(p.scenario.workload).causal])
def test_one_client_sees_what_evaluate_says(preset: str) -> None:
    scenario = PRESETS[preset].scenario
    system, sizes, _ = Serving().of(scenario)
    report = closed_loop(system, ClosedLoop(1), sizes, 64)
    assert report.e2e.mean.value == pytest.approx(evaluate(scenario).latency_s, rel=1e-9)
    assert report.requests_per_s == pytest.approx(1.0 / report.e2e.mean.value)


@each("clients, load", [(4, 0.5), (12, 1.0), (30, 3.0)])
def test_exponential_service_and_think_times_are_the_repairman(clients: int, load: float) -> None:
    """M/M/1//C: P(n) ~ C! / (C - n)! (service / think)^n; rate (1 - P(0)) / service."""
    service = 1e-3
    think = service * clients / load
    weights = [math.perm(clients, n) * (service / think) ** n for n in range(clients + 1)]
    rate = (1.0 - weights[0] / sum(weights)) / service
    report = closed_loop(
        single(Service.constant(service, cv=1.0)), ClosedLoop(clients, think, exponential=True), ONE, 200_000, seed=3
    )
    assert report.requests_per_s == pytest.approx(rate, rel=0.02)
    assert report.e2e.mean.value == pytest.approx(clients / rate - think, rel=0.05)


@each("clients", [1, 3, 4, 9])
def test_constant_stations_run_in_step(clients: int) -> None:
    """Two servers of 2 ms, then one of 0.5 ms: the rate is C over the time alone, up to that of the two."""
    chain = TandemQueue((Station(Service.constant(2e-3, 2)), Station(Service.constant(5e-4), name="after")))
    report = closed_loop(chain, ClosedLoop(clients), ONE, 5_000)
    assert report.requests_per_s == pytest.approx(min(clients / 2.5e-3, 1e3), rel=0.01)
    assert report.e2e.mean.value == pytest.approx(report.identity_s, rel=0.01)


def test_who_is_turned_away_asks_again_and_nobody_is_lost() -> None:
    system = single(Service.constant(1e-3), NoBatching(1))
    report = closed_loop(system, ClosedLoop(4, think_s=2e-4), ONE, 3_000)
    assert 0.0 < report.dropped < 1.0
    assert report.requests_per_s == pytest.approx(1e3, rel=0.01)


def test_goodput_counts_answers_inside_the_limit() -> None:
    report = closed_loop(single(Service.constant(1e-3)), ClosedLoop(4), ONE, 1_000, limits={"e2e_s": 3.5e-3})
    assert report.goodput_per_s == pytest.approx(3 / 1_000 * report.requests_per_s, rel=1e-9)  # the first three alone
    with pytest.raises(TrafficError, match="ttft_s is 1; these requests make no tokens"):
        closed_loop(single(Service.constant(1e-3)), ClosedLoop(4), ONE, 1_000, limits={"ttft_s": 1.0})


def test_the_command_serves_every_family(capsys) -> None:
    import json

    for name in ("node-dlrm", "brainwave-gru", "wide-deep-int8", "tonic-mnist"):
        assert main(["simulate", f"preset:{name}", "--clients", "6", "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert data["e2e_s"]["mean"] == pytest.approx(np.clip(data["identity_s"], 0, None), rel=0.1)
    assert main(["simulate", "preset:node-dlrm", "--clients", "6", "--budget", "64"]) == 2
    assert "budget is 64 beside" in capsys.readouterr().err
