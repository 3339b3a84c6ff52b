"""A serial front end that reads prompts and writes tokens: what it delays, and where it binds."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.cli.main import main
from engine.kernels.events.passes import Times
from engine.traffic import Fixed
from engine.traffic.arrivals import Poisson
from engine.traffic.engines.calendar import ClosedLoop, ServingReport, serve
from engine.traffic.engines.operating_points import binds
from engine.traffic.engines.scheduler import POLICIES, Scheduler
from tests.each import each
from tests.laws.traffic.test_calendar import GPU, given
from tests.laws.traffic.test_serving_sweep import closed_form

INPUTS, OUTPUTS = 400, 40
PLAIN = Scheduler(kv_blocks=10**6)
SERIAL = replace(PLAIN, read_s=2e-6, write_s=4e-5, repeat_s=5e-7)
SLOW = replace(SERIAL, read_s=5e-5, write_s=1e-3)
FAST = given(prefill_base=1e-4, per_token=1e-8, decode_base=1e-4)


def run(rules: Scheduler, load: ClosedLoop | Poisson, requests: int = 600, times=GPU) -> ServingReport:
    return serve(times, rules, load, Fixed(INPUTS), Fixed(OUTPUTS), requests)


def test_one_client_waits_for_its_prompt_and_its_token_alone() -> None:
    plain, serial = (run(rules, ClosedLoop(1), 20) for rules in (PLAIN, SERIAL))
    later = SERIAL.read_s * INPUTS + SERIAL.write_s
    assert serial.ttft.mean.value == pytest.approx(plain.ttft.mean.value + later, rel=1e-9)
    assert serial.tpot.mean.value == pytest.approx(plain.tpot.mean.value + SERIAL.repeat_s, rel=1e-9)
    assert SERIAL.front_end_s(INPUTS, OUTPUTS) == pytest.approx(
        sum(SERIAL.write_s + k * SERIAL.repeat_s for k in range(OUTPUTS)) + SERIAL.read_s * INPUTS
    )


def test_what_only_later_tokens_take_counts() -> None:
    """It was no front end, as the first token of an answer takes nothing of it."""
    repeats = replace(PLAIN, repeat_s=SERIAL.repeat_s)
    plain, serial = (run(rules, ClosedLoop(1), 20) for rules in (PLAIN, repeats))
    assert serial.ttft.mean.value == pytest.approx(plain.ttft.mean.value, rel=1e-9)
    assert serial.tpot.mean.value == pytest.approx(plain.tpot.mean.value + repeats.repeat_s, rel=1e-9)


@each("ranks, replicas", [(1, 1), (2, 1), (1, 2)])
def test_where_it_binds_it_is_the_rate_and_is_named(ranks: int, replicas: int) -> None:
    """An engine whose device is hardly busy, with all its ranks behind one front end, and copies with one each."""
    rules = replace(SLOW, ranks=ranks, replicas=replicas)
    report = run(rules, ClosedLoop(64), 1200, FAST)
    most = replicas / rules.front_end_s(INPUTS, OUTPUTS)
    assert 0.95 * most <= report.requests_per_s <= most * (1 + 1e-9)
    shares = binds(report, rules, replicas)
    assert max(shares, key=lambda name: shares[name]) == "front end"
    assert shares["front end"] > 0.9
    assert sum(shares.values()) == pytest.approx(1.0)
    assert "front end" not in binds(run(PLAIN, ClosedLoop(64)), PLAIN)


@each("load", [ClosedLoop(48), ClosedLoop(48, think_s=0.3, exponential=True), Poisson(8.0)])
def test_no_request_is_lost_and_littles_law_holds(load: ClosedLoop | Poisson) -> None:
    """Those in the system at random instants, by the instants of all, are the rate times the time in it."""
    report = run(SLOW, load)
    assert np.isfinite(report.finish).all()
    assert (report.arrive < report.first).all()
    assert (report.first < report.finish).all()
    end = report.finish.max()
    at = np.linspace(0.0, end, 20_001)
    inside = ((report.arrive <= at[:, None]) & (at[:, None] < report.finish)).sum(axis=1).mean()
    assert inside == pytest.approx(len(report.arrive) / end * report.e2e.mean.value, rel=0.01)
    assert report.ttft.mean.value >= run(PLAIN, load).ttft.mean.value


@each("clients, times", [(clients, times) for clients in (1, 16, 64, 512) for times in (GPU, FAST)])
def test_the_closed_form_has_it_too(clients: int, times: Times) -> None:
    rules = replace(POLICIES["sglang"], kv_blocks=10**6)
    report = run(rules, ClosedLoop(clients), max(64, 12 * clients), times)
    rate, first, gap = closed_form(rules, clients, INPUTS, OUTPUTS, times)
    assert rate == pytest.approx(report.requests_per_s, rel=0.05)
    assert first == pytest.approx(report.ttft.mean.value, rel=0.08)
    assert gap == pytest.approx(report.tpot.mean.value, rel=0.15)
    assert first + (OUTPUTS - 1) * gap == pytest.approx(clients / rate)
    slow = replace(rules, read_s=SLOW.read_s, write_s=SLOW.write_s)
    assert closed_form(slow, clients, INPUTS, OUTPUTS, times)[0] <= 1.0 / slow.front_end_s(INPUTS, OUTPUTS) * (1 + 1e-9)


def test_a_policy_has_one_where_it_was_measured() -> None:
    assert {name for name, rules in POLICIES.items() if rules.serial} == {"sglang"}


def test_given_passes_have_none_unless_it_is_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The machine is what its file says, so that the calendar can be checked apart from devices."""
    path = tmp_path / "passes.yaml"
    path.write_text("prefill: {base_ms: 12, per_token_ms: 0.016}\ndecode: {base_ms: 2.5}\n")
    times = []
    for more in ((), ("--read-s", "1e-5")):
        ask = ["simulate", "--passes", str(path), "--policy", "sglang", "--clients", "1", "--inputs", "1000", *more]
        assert main([*ask, "--outputs", "2", "--kv-blocks", "10000", "--requests", "64", "--json"]) == 0
        times.append(json.loads(capsys.readouterr().out)["ttft_s"]["mean"])
    assert times == pytest.approx([0.028, 0.038])
