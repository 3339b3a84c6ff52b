"""The calendar of passes against its SimPy twin, to the bit, and against figures computed apart from it."""

from dataclasses import replace

import numpy as np
import pytest

from engine.kernels.events.passes import GIVEN, Times
from engine.kernels.jit import JIT_ENABLED
from engine.traffic import Bursty, DecoderServer, Gamma, LogNormal
from engine.traffic.engines.calendar import ClosedLoop, serve
from engine.traffic.engines.priority import draw
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.runs import run_decoder
from engine.traffic.sizes import Fixed, Listed
from tests.each import each
from tests.laws.traffic.queues import whole_prompts
from tests.reference.naive_passes import Machine, Twin, run_together

COEFFICIENTS = (12e-3, 1.6e-5, 5e-10, 2.5e-3, 5e-5, 1e-6, 1e-3)
NONE, ONE = np.zeros(1), np.ones(1)
SPARED = (5e-3, 1e-3)  # of a pass of prefill and of decoding where all other ranks are idle
TABLES = ONE, NONE, ONE, NONE, NONE, ONE, NONE, NONE[None], *(np.array([each]) for each in SPARED)
GIVEN_TIMES = Times(np.array(COEFFICIENTS), *TABLES)
N = 400 if JIT_ENABLED else 60
ENGINE = Scheduler(budget=512, kv_blocks=100_000, block=16, max_seqs=32)
URGENT = ((0.2, 0), (0.8, 1))
SWAP = {"preempt": "swap", "swap_s": 3e-4}
DESK = {"read_s": 5e-5, "write_s": 1.5e-3, "repeat_s": 1e-6}
CASES = {
    "chunks beside decoding": (ENGINE, ClosedLoop(24)),
    "cache too small, the latest preempted": (replace(ENGINE, kv_blocks=120), ClosedLoop(24)),
    "whole prompts": (replace(ENGINE, chunked=False), ClosedLoop(24)),
    "prefill first": (replace(ENGINE, prefill_first=True, kv_blocks=150), ClosedLoop(24)),
    "room for every output": (replace(ENGINE, reserve=1.0, kv_blocks=150), ClosedLoop(24)),
    "room for half of them": (replace(ENGINE, reserve=0.5, kv_blocks=120), ClosedLoop(24)),
    "a pass ahead": (replace(ENGINE, asynchronous=True, kv_blocks=140), ClosedLoop(24)),
    "few seats, prefixes": (
        replace(ENGINE, max_seqs=5, prefix_hit=0.3),
        ClosedLoop(24, think_s=0.05, exponential=True),
    ),
    "whole prompts found": (replace(ENGINE, prefix_hit=1.0, max_seqs=5), Gamma(20.0, cv=1.5)),
    "several passes a decision": (replace(ENGINE, prefill_first=True, steps=4, kv_blocks=150), ClosedLoop(24)),
    "arrivals, several passes a decision": (replace(ENGINE, steps=4), Gamma(5.0, cv=1.5)),
    "arrivals": (replace(ENGINE, kv_blocks=300), Gamma(20.0, cv=1.5)),
    "priorities": (replace(ENGINE, priorities=((0.3, 2), (0.5, 0), (0.2, 7)), kv_blocks=120), ClosedLoop(24)),
    "priorities, whole prompts": (replace(ENGINE, priorities=URGENT, chunked=False, max_seqs=6), Gamma(9.0, cv=1.5)),
    "priorities, a pass ahead": (replace(ENGINE, priorities=URGENT, asynchronous=True, kv_blocks=140), ClosedLoop(24)),
    "swapped": (replace(ENGINE, **SWAP, kv_blocks=120), ClosedLoop(24)),
    "swapped, prefill first": (replace(ENGINE, **SWAP, prefill_first=True, kv_blocks=150), ClosedLoop(24)),
    "swapped, a pass ahead": (replace(ENGINE, **SWAP, asynchronous=True, kv_blocks=140), ClosedLoop(24)),
    "swapped, priorities": (replace(ENGINE, **SWAP, priorities=URGENT, kv_blocks=120), ClosedLoop(24)),
    "three ranks": (replace(ENGINE, ranks=3, kv_blocks=60), ClosedLoop(24)),
    "three ranks, several passes a decision": (replace(ENGINE, ranks=3, steps=4), Gamma(9.0, cv=1.5)),
    "three ranks that balance": (replace(ENGINE, ranks=3, balance_timeout=7, chunked=False), ClosedLoop(24)),
    "two ranks that balance, prefill first": (
        replace(ENGINE, ranks=2, balance_timeout=5, prefill_first=True, asynchronous=True),
        Gamma(9.0, cv=1.5),
    ),
    "arrivals, a pass ahead": (replace(ENGINE, asynchronous=True), Gamma(5.0, cv=1.5)),
    "a serial front end": (replace(ENGINE, **DESK, kv_blocks=140), ClosedLoop(24)),
    "a serial front end, prefill first": (
        replace(ENGINE, **DESK, asynchronous=True, prefill_first=True),
        Gamma(5.0, 1.5),
    ),
    "two ranks behind a serial front end": (replace(ENGINE, **DESK, ranks=2), ClosedLoop(24, 0.05, exponential=True)),
    "arrivals, half a pass ahead": (replace(ENGINE, asynchronous=True, overlap=0.5), Gamma(5.0, cv=1.5)),
}
PREEMPTED = {"cache too small, the latest preempted", "a pass ahead", "prefill first", "several passes a decision"}
PREEMPTED |= {
    "three ranks",
    "a serial front end",
    "priorities",
    "priorities, a pass ahead",
    *(name for name in CASES if "swapped" in name),
}


@pytest.mark.parametrize("name", CASES)
def test_the_calendar_equals_its_simpy_twin_to_the_bit(name: str) -> None:
    rules, load = CASES[name]
    prompt = LogNormal(180, 0.7, 500).draw(N, 3, 2, 0)
    output = LogNormal(40, 0.9, 300).draw(N, 3, 3, 0)
    report = serve(GIVEN_TIMES, rules, load, Listed(prompt), Listed(output), N, seed=3)
    cached = np.minimum(np.floor(rules.prefix_hit * prompt).astype(int), prompt - 1)
    clients = load.clients if isinstance(load, ClosedLoop) else 0
    arrive, think = report.arrive.copy(), np.zeros(N)
    if clients and load.think_s:  # as drawn: what lies between an answer and the request after it is not shown
        from engine.kernels.events.rng import fill_exponential, stream_key

        fill_exponential(stream_key(3, 5), 0, think)
        think *= load.think_s
    if clients:
        arrive[clients:] = np.nan
    lengths = [tuple(map(int, row)) for row in zip(prompt, output, cached, draw(rules.priorities, N, 3))]
    twins = [
        Twin(Machine(*COEFFICIENTS, *SPARED), rules, arrive[own].tolist(), lengths[own], think[own].tolist(), many)
        for own, many in (
            (slice(r, None, rules.ranks), len(range(r, clients, rules.ranks))) for r in range(rules.ranks)
        )
    ]
    run_together(twins)
    for r, twin in enumerate(twins):
        own = slice(r, None, rules.ranks)
        np.testing.assert_array_equal(report.arrive[own], twin.arrive)
        np.testing.assert_array_equal(report.first[own], [twin.first[k] for k in range(len(twin.arrive))])
        np.testing.assert_array_equal(report.finish[own], [twin.finish[k] for k in range(len(twin.arrive))])
        assert (twin.free, twin.host) == (rules.kv_blocks, 0)
    sums = [sum(getattr(twin, name) for twin in twins) for name in ("preempted", "swapped", "most")]
    assert [report.preemptions, report.swapped_blocks or 0, report.peak_host_blocks or 0] == sums
    assert (report.preemptions > 0) == (name in PREEMPTED)


@each("replicas, batch, cache, places", [(1, 1, None, None), (1, 12, None, None), (3, 8, 600, None), (2, 4, 400, 6)])
def test_a_decoder_equals_a_twin_of_each_replica_to_the_bit(replicas, batch, cache, places) -> None:
    """Requests are dealt in turn, as are waiting places; what no cache can hold is dropped before."""
    arrive = Bursty(12.0, 2.0, 0.3, 0.5).times(N, 3, 0)
    prompt, output = LogNormal(140, 0.8, 500).draw(N, 3, 2, 0), LogNormal(20, 0.8, 100).draw(N, 3, 3, 0)
    rules = whole_prompts(batch, 600, replicas, cache)
    ours = run_decoder(DecoderServer(GIVEN_TIMES, rules, 600, places=places), arrive, prompt, output)
    fit = np.flatnonzero(prompt + output <= (cache or 10**9))
    first, finish = np.full((2, N), np.nan)
    for r in range(replicas):
        own = fit[r::replicas]
        lengths = [(int(prompt[i]), int(output[i]), 0) for i in own]
        room = None if places is None else len(range(r, places, replicas))
        plain = replace(rules, kv_blocks=cache or 10**9)
        twin = Twin(Machine(*COEFFICIENTS), plain, arrive[own].tolist(), lengths, [], 0, room)
        twin.run()
        first[own], finish[own] = (
            [times.get(k, np.nan) for k in range(own.size)] for times in (twin.first, twin.finish)
        )
    np.testing.assert_array_equal(ours.first, first)
    np.testing.assert_array_equal(ours.finish, finish)
    assert bool(np.isnan(finish).any()) == (places is not None or fit.size < N)


REFERENCE = {  # clients: mean TTFT [ms], mean gap [ms], requests a second; of another implementation
    1: (28.91, 3.64, 2.04),
    8: (176.63, 3.99, 11.71),
    32: (180.92, 9.30, 23.47),
    128: (302.82, 29.78, 31.30),
}


@each("clients", REFERENCE)
def test_given_passes_give_the_reference_figures(clients: int) -> None:
    rules = Scheduler(kv_blocks=16384, block=64)
    report = serve(GIVEN_TIMES, rules, ClosedLoop(clients), Fixed(1024), Fixed(128), max(64, 12 * clients))
    assert report.itl is not None
    figures = (report.ttft.mean.value * 1e3, report.itl.mean.value * 1e3, report.requests_per_s)
    assert figures == pytest.approx(REFERENCE[clients], rel=0.005)


def test_coefficients_are_those_of_the_file(tmp_path) -> None:
    from engine.traffic.engines.pass_times import given_times

    file = tmp_path / "passes.yaml"
    file.write_text(
        "prefill: {base_ms: 12, per_token_ms: 0.016, per_token2_ms: 5.0e-7}\n"
        "decode: {base_ms: 2.5, per_sequence_ms: 0.05, per_context_ms: 0.001, least_ms: 1}\n"
    )
    np.testing.assert_allclose(given_times(file).coefficients, COEFFICIENTS, rtol=1e-12)
    assert len(COEFFICIENTS) == len(GIVEN)
