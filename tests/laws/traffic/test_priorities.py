"""Requests of several priorities: who is admitted first and preempted last, and that nobody is lost."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest

from engine.cli.main import main
from engine.traffic import Fixed, Poisson, Trace, TrafficError, Uniform, read_trace
from engine.traffic.engines.calendar import ClosedLoop, serve
from engine.traffic.engines.pools import Network, Pool, serve_pools
from engine.traffic.engines.priority import draw, parse
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.sizes import Listed
from entries.schema import InputError
from tests.each import each
from tests.laws.traffic.test_calendar import GPU, LOADS, PASSES, TIGHT, given, run

THREE = ((0.3, 7), (0.2, 0), (0.5, 2))


def test_one_class_and_classes_that_never_meet_change_no_bit() -> None:
    plain = run(LOADS["arrivals"], requests=300)
    single = run(LOADS["arrivals"], replace(TIGHT, priorities=((1.0, 5),)), requests=300)
    assert (single.as_dict(), single.classes) == (plain.as_dict(), ())
    alone = [run(ClosedLoop(1), replace(TIGHT, priorities=own), requests=64) for own in ((), THREE)]
    np.testing.assert_array_equal(alone[0].finish, alone[1].finish)


@each("load", LOADS)
def test_classes_add_up_to_all_requests_and_the_urgent_wait_least(load: str) -> None:
    report = run(LOADS[load], replace(TIGHT, priorities=THREE), requests=600)
    assert np.isfinite(report.finish).all()
    assert [own.priority for own in report.classes] == [0, 2, 7]
    counts = np.array([own.requests for own in report.classes])
    assert counts.sum() == report.requests
    assert counts / report.requests == pytest.approx([0.2, 0.5, 0.3], abs=0.06)
    for name in ("ttft", "e2e"):
        means = np.array([getattr(own, name).mean.value for own in report.classes])
        assert (means * counts).sum() / counts.sum() == pytest.approx(getattr(report, name).mean.value)
        assert (np.diff(means) > 0).all(), name
    assert (report.preemptions > 0) == (load != "arrivals")


def test_one_seat_is_a_queue_of_two_priorities() -> None:
    """M/G/1 without preemption: mean wait W0 / ((1 - load above) (1 - load above and own)) (Cobham, 1954)."""
    seconds, rate, count = 1e-5, 60.0, 20_000
    sizes, classes = Uniform(200, 1800).draw(count, 5, 2, 0), ((0.3, 0), (0.7, 1))
    rules = Scheduler(budget=2048, max_seqs=1, priorities=classes)
    report = serve(
        given(per_token=seconds, decode_base=1.0), rules, Poisson(rate), Listed(sizes), Fixed(1), count, seed=5
    )
    service = sizes * seconds
    residual, load = 0.5 * rate * float((service**2).mean()), rate * float(service.mean())
    for own, above, upto in zip(report.classes, (0.0, 0.3), (0.3, 1.0), strict=True):
        wait = residual / ((1 - above * load) * (1 - upto * load))
        assert own.ttft.mean.value == pytest.approx(wait + float(service.mean()), rel=0.08)


def test_a_trace_and_two_pools_keep_their_priorities(tmp_path, capsys) -> None:
    text = "time_s,size,output,priority\n" + "".join(f"{0.01 * k},200,20,{k % 2}\n" for k in range(40))
    trace, sizes, outputs = read_trace(io.StringIO(text))
    assert isinstance(trace, Trace)
    assert trace.at(9.0).priority.tolist() == [0, 1] * 20
    rules = replace(TIGHT, kv_blocks=30)
    report = serve(GPU, rules, trace, sizes, outputs, 40)
    assert [own.requests for own in report.classes] == [20, 20]
    both = serve_pools(*(Pool(GPU, rules),) * 2, Network(1e3, 1e9), trace, sizes, outputs, 40)
    assert [own.requests for own in both.classes] == [20, 20]
    assert both.classes[0].e2e.mean.value < both.classes[1].e2e.mean.value
    files = {name: tmp_path / name for name in ("passes.yaml", "trace.csv")}
    files["passes.yaml"].write_text(PASSES)
    files["trace.csv"].write_text(text.replace("size", "input_length"))
    asked = ["simulate", "--passes", str(files["passes.yaml"]), "--trace", str(files["trace.csv"]), "--kv-blocks", "30"]
    assert main([*asked, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["classes"]
    assert [(own["priority"], own["requests"]) for own in data] == [(0, 20), (1, 20)]
    assert data[0]["ttft_s"]["mean"] == report.classes[0].ttft.mean.value
    assert {"ttft_s", "itl_s", "tpot_s", "e2e_s"} <= data[1].keys()
    assert main(asked) == 0
    assert "priority 1, 20 requests" in capsys.readouterr().out
    assert main([*asked, "--priority", "1:0"]) == 2
    assert "priority is given beside a trace that has its own" in capsys.readouterr().err


@each("text", ["0.2", "0.2:0,0.8", "0.2:0,0.8:0", "-1:0,1:1", "0:3", "nan:0", "1:-4", "1:0.5", "inf:1", "1:0," * 20])
def test_what_are_no_classes_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(InputError, match="it must be shares and different whole numbers up to 1,000,000") as refusal:
        parse(text)
    assert "priority is" in str(refusal.value)


def test_a_priority_that_is_no_number_or_too_many_of_them_are_refused() -> None:
    with pytest.raises(TrafficError, match="line 2: priority is '-1'; it must be a whole number from 0"):
        read_trace(io.StringIO("time_s,priority\n0,-1\n1,2\n"))
    with pytest.raises(TrafficError, match="priority has 64 different numbers; a run takes at most 16"):
        serve(GPU, TIGHT, ClosedLoop(4), Fixed(9), Fixed(9), 64, priority=np.arange(64))
    assert np.unique(draw(THREE, 1000, 3)).tolist() == [0, 2, 7]
