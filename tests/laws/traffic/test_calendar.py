"""Laws of the calendar of passes: conservation, identities of queueing theory, and limits in closed form."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from engine.cli.main import main
from engine.kernels.events.passes import GIVEN, PASS, Times
from engine.traffic import Fixed, LogNormal, Poisson, Trace, TrafficError, Uniform
from engine.traffic.engines.calendar import ClosedLoop, ServingReport, serve
from engine.traffic.engines.scheduler import POLICIES, Scheduler
from engine.traffic.sizes import Listed
from tests.each import each

NONE, ONE = np.zeros(1), np.ones(1)


def given(**seconds: float) -> Times:
    """A machine whose other coefficients are 0. [s]"""
    values = np.array([seconds.get(name, 0.0) for name in GIVEN])
    return Times(values, ONE, NONE, ONE, NONE, NONE, ONE, NONE, NONE[None])


GPU = given(
    prefill_base=12e-3, per_token=1.6e-5, per_token2=5e-10, decode_base=2.5e-3, per_sequence=5e-5, per_context=1e-6
)
TIGHT = Scheduler(budget=1024, kv_blocks=400, block=16, max_seqs=48)
LOADS = {
    "a closed loop": ClosedLoop(64),
    "clients that think": ClosedLoop(64, think_s=0.4, exponential=True),
    "a ramp": ClosedLoop(64, ramp_s=3.0),
    "arrivals": Poisson(12.0),
}


def run(load, rules=TIGHT, requests=1500, seed=0, times=GPU) -> ServingReport:
    return serve(times, rules, load, LogNormal(200, 0.8, 900), LogNormal(60, 0.8, 400), requests, seed=seed)


@each("load, policy", [(load, policy) for load in LOADS for policy in POLICIES])
def test_no_request_is_lost_and_blocks_are_conserved(load: str, policy: str) -> None:
    rules = replace(POLICIES[policy], budget=1024, kv_blocks=400, block=16, max_seqs=48)
    report = run(LOADS[load], rules)
    log = dict(zip(PASS, report.log.T))
    assert np.isfinite(report.finish).all()
    assert (report.arrive < report.first).all()
    assert (report.first <= report.finish).all()
    assert report.peak_kv_blocks <= report.kv_blocks
    assert (log["blocks"] <= report.kv_blocks).all()
    assert (log["start_s"][1:] >= (log["start_s"] + log["duration_s"])[:-1] - 1e-9).all()
    assert (log["prefill_tokens"] + log["decode_rows"] <= rules.budget).all()
    if policy == "trtllm":  # admits only what can run to its end
        assert report.preemptions == 0


def test_a_pass_ahead_with_guesses_keeps_to_the_cache() -> None:
    """Who ended unseen keeps its blocks for a pass, and a guess writes nothing beyond the end of its request."""
    rules = replace(
        POLICIES["trtllm"], chunked=True, budget=256, kv_blocks=24, block=16, acceptance=(0.8, 0.5), asynchronous=True
    )
    report = serve(GPU, rules, ClosedLoop(5), Fixed(64), Fixed(128), 40)
    assert report.peak_kv_blocks <= report.kv_blocks
    returning = replace(rules, asynchronous=False, reserve=0.0, preempt="swap", swap_s=1e-4)
    swapped = serve(GPU, returning, ClosedLoop(5), Fixed(64), Fixed(128), 40)
    assert swapped.swapped_blocks
    assert swapped.peak_kv_blocks <= swapped.kv_blocks
    alone = replace(rules, kv_blocks=12, chunked=False, asynchronous=False)
    assert serve(GPU, alone, ClosedLoop(1), Fixed(64), Fixed(128), 20).preemptions == 0


def test_a_prompt_in_pieces_enters_where_all_of_it_fits_before_others_decode() -> None:
    """Its second piece found the cache full, and it gave its blocks back and entered again, for ever."""
    rules = replace(POLICIES["vllm"], prefill_first=True, budget=64, kv_blocks=12, block=16, max_seqs=4)
    report = serve(GPU, rules, ClosedLoop(5), Fixed(100), Fixed(90), 20)
    assert np.isfinite(report.finish).all()


@each("load", LOADS)
def test_littles_law_holds(load: str) -> None:
    """The mean number in the engine is the rate times the mean stay; both sides from the instants alone."""
    report = run(LOADS[load])
    ends = np.sort(np.concatenate([report.arrive, report.finish]))
    inside = np.array([np.count_nonzero((report.arrive <= t) & (report.finish > t)) for t in ends[:-1]])
    area = float((inside * np.diff(ends)).sum())
    assert area == pytest.approx(report.e2e.mean.value * report.requests, rel=1e-9)


def test_a_closed_loop_obeys_its_identity() -> None:
    """E[TTFT] = C / X - (tokens - 1) E[TPOT] - think time; the ends of a run are a few per cent of 40 waves."""
    report = serve(GPU, Scheduler(kv_blocks=16384), ClosedLoop(32, think_s=0.2), Fixed(512), Fixed(64), 32 * 40)
    assert report.identity_s is not None
    whole = report.e2e.mean.value + 0.2
    assert report.ttft.mean.value == pytest.approx(report.identity_s, abs=0.03 * whole)


def test_one_seat_and_one_token_is_a_queue_of_one_server() -> None:
    """M/G/1: mean wait rate E[S^2] / 2 (1 - load) (Pollaczek and Khinchine)."""
    seconds, rate = 1e-5, 60.0
    sizes = Uniform(200, 1800).draw(60_000, 5, 2, 0)
    rules = Scheduler(budget=2048, max_seqs=1)
    report = serve(
        given(per_token=seconds, decode_base=1.0), rules, Poisson(rate), Listed(sizes), Fixed(1), 60_000, seed=5
    )
    service = sizes * seconds
    wait = rate * float((service**2).mean()) / (2 * (1 - rate * float(service.mean())))
    assert report.ttft.mean.value == pytest.approx(wait + float(service.mean()), rel=0.05)


def geometric(mean: float, count: int) -> Listed:
    return Listed(np.random.default_rng(7).geometric(1.0 / mean, count) + 1)


def test_passes_that_cost_the_same_whoever_runs_are_as_many_servers_as_seats() -> None:
    """M/M/c: Erlang's C. Prompts cost next to nothing, a fixed time per token."""
    seats, mean, step, rate, count = 4, 200.0, 1e-3, 15.0, 40_000
    machine = given(per_token=1e-12, decode_base=step)
    rules = Scheduler(max_seqs=seats)
    report = serve(machine, rules, Poisson(rate), Fixed(1), geometric(mean, count), count, seed=2)
    load = rate * mean * step
    terms = [load**k / float(np.prod(np.arange(1, k + 1))) for k in range(seats + 1)]
    last = terms[-1] * seats / (seats - load)
    waits = last / (sum(terms[:-1]) + last)
    stay = mean * step + waits / (seats / (mean * step) - rate)
    assert report.e2e.mean.value == pytest.approx(stay, rel=0.05)


def test_passes_that_cost_what_runs_share_one_processor() -> None:
    """M/M/1 under processor sharing: mean stay 1 / (service rate - rate)."""
    mean, step, rate, count = 200.0, 2e-5, 150.0, 40_000
    machine = given(per_token=1e-12, per_sequence=step)
    rules = Scheduler(budget=100_000, max_seqs=100_000)
    report = serve(machine, rules, Poisson(rate), Fixed(1), geometric(mean, count), count, seed=2)
    assert report.e2e.mean.value == pytest.approx(1.0 / (1.0 / (mean * step) - rate), rel=0.06)


def test_who_comes_while_prompts_run_waits_for_the_next_decision() -> None:
    """An engine that decides for four passes has prompts of 1 s each and passes of decoding of 0.1 s: who comes in the
    middle of the first prompt is taken in at the next decision, four passes of decoding later; at once where each pass
    is decided by itself."""
    times, come = given(prefill_base=1.0, decode_base=0.1), Trace.of([0.0, 0.5])
    for steps, first in ((4, 2.4), (1, 2.0)):
        rules = Scheduler(prefill_first=True, steps=steps)
        report = serve(times, rules, come, Fixed(100), Fixed(20), 2)
        np.testing.assert_allclose(report.first, [1.0, first])


def test_ranks_alike_are_one_engine_each_and_uneven_ones_wait_for_the_slowest() -> None:
    rules = replace(TIGHT, kv_blocks=4000)
    one = serve(GPU, rules, ClosedLoop(6), Fixed(300), Fixed(50), 60)
    four = serve(GPU, replace(rules, ranks=4), ClosedLoop(24), Fixed(300), Fixed(50), 240)
    np.testing.assert_allclose(four.finish[::4], one.finish, rtol=1e-12)
    assert four.requests_per_s == pytest.approx(4 * one.requests_per_s)
    assert (four.kv_blocks, four.preemptions) == (4 * one.kv_blocks, 4 * one.preemptions)
    apart, together = (run(ClosedLoop(64), replace(rules, **four)) for four in ({"replicas": 4}, {"ranks": 4}))
    assert together.requests_per_s < apart.requests_per_s, "a rank with a short prompt waits for the longest"
    assert together.tpot.mean.value > 1.05 * apart.tpot.mean.value


@each("load, policy", [(load, policy) for load in LOADS for policy in POLICIES])
def test_ranks_lose_no_request_and_keep_their_blocks(load: str, policy: str) -> None:
    rules = replace(POLICIES[policy], budget=1024, kv_blocks=200, block=16, max_seqs=24, ranks=3)
    report = run(LOADS[load], rules, requests=500)
    assert np.isfinite(report.finish).all()
    assert (report.arrive <= report.first).all()
    assert (report.first <= report.finish).all()
    assert report.log[:, 5].max() <= report.peak_kv_blocks <= report.kv_blocks == 600
    assert report.log[-1, 8] <= 3 * 24


def test_ranks_that_balance_take_prompts_in_together_or_after_so_many_passes() -> None:
    def found(timeout: int) -> tuple[ServingReport, set[float]]:
        rules = Scheduler(budget=320, chunked=False, kv_blocks=4000, ranks=2, balance_timeout=timeout)
        report = serve(GPU, rules, ClosedLoop(16), Fixed(300), Uniform(100, 300), 160, seed=1)
        taken = report.log[:1200, 3]  # before the last requests leave a rank with nothing to decode
        return report, set(taken[taken > 0])

    (free, apart), (one, _), (patient, together), (some, _) = map(found, (0, 1, 10_000, 20))
    assert one.as_dict() == free.as_dict()
    assert (apart, together) == ({300.0, 600.0}, {600.0})
    assert patient.tpot.mean.value < some.tpot.mean.value < free.tpot.mean.value, (
        "prompts interrupt decoding less often"
    )
    assert free.ttft.mean.value < some.ttft.mean.value < patient.ttft.mean.value
    with pytest.raises(TrafficError, match="balance_timeout is -1; it must be a whole number of at least 0"):
        Scheduler(balance_timeout=-1)


def test_bits_are_equal_on_any_number_of_threads() -> None:
    alone = run(LOADS["clients that think"])
    with ThreadPoolExecutor(4) as pool:
        for other in pool.map(lambda _: run(LOADS["clients that think"]), range(8)):
            np.testing.assert_array_equal(alone.finish, other.finish)
            assert alone.as_dict() == other.as_dict()


def test_more_room_in_the_cache_preempts_less_and_prefixes_shorten_the_first_token() -> None:
    lost = [run(ClosedLoop(64), replace(TIGHT, kv_blocks=blocks)).preemptions for blocks in (150, 400, 5000)]
    assert lost[0] > lost[1] > lost[2] == 0
    first = [
        run(ClosedLoop(64), replace(TIGHT, kv_blocks=5000, prefix_hit=hit)).ttft.mean.value for hit in (0, 0.4, 0.8)
    ]
    assert first[0] > first[1] > first[2]


def test_guesses_that_are_right_shorten_the_gap_and_those_that_are_wrong_change_nothing() -> None:
    plain, wrong, right = (
        run(ClosedLoop(16), replace(TIGHT, kv_blocks=5000, acceptance=chances)) for chances in ((), (0.0,), (1.0, 1.0))
    )
    assert plain.tpot is not None
    assert wrong.tpot is not None
    assert right.tpot is not None
    assert wrong.tpot.mean.value == pytest.approx(plain.tpot.mean.value, rel=1e-3)
    assert right.tpot.mean.value < 0.65 * plain.tpot.mean.value


def test_goodput_counts_what_is_inside_all_limits() -> None:
    report = run(LOADS["arrivals"])
    most = {"ttft_s": report.ttft.p50.value, "e2e_s": report.e2e.p90.value}
    again = serve(
        GPU, TIGHT, Poisson(12.0), LogNormal(200, 0.8, 900), LogNormal(60, 0.8, 400), 1500, limits=most, seed=0
    )
    inside = ((report.first - report.arrive <= most["ttft_s"]) & (report.finish - report.arrive <= most["e2e_s"])).sum()
    assert again.goodput_per_s == pytest.approx(inside / report.duration_s)


REFUSED = {
    "kv_blocks is 3 of 16 tokens; a request of": lambda: run(ClosedLoop(4), replace(TIGHT, kv_blocks=3)),
    "without chunks it must take the longest prompt": lambda: run(
        ClosedLoop(4), replace(TIGHT, chunked=False, budget=64)
    ),
    "without chunks it must take a preempted sequence again": lambda: serve(
        GPU, Scheduler(chunked=False, budget=1024, kv_blocks=35, block=64), ClosedLoop(8), Fixed(1000), Fixed(128), 40
    ),
    "requests is 1000000000": lambda: run(ClosedLoop(4), requests=10**9),
    "prefix_hit is 1.5": lambda: Scheduler(prefix_hit=1.5),
    "clients is 0": lambda: ClosedLoop(0),
    "think_s is -1": lambda: ClosedLoop(1, think_s=-1.0),
    "acceptance is": lambda: Scheduler(acceptance=(0.5, 2.0)),
}


@each("sentence", REFUSED)
def test_what_can_not_be_run_is_refused_in_a_sentence(sentence: str) -> None:
    with pytest.raises(TrafficError, match=sentence):
        REFUSED[sentence]()


PASSES = (
    "prefill: {base_ms: 12, per_token_ms: 0.016, per_token2_ms: 5.0e-7}\n"
    "decode: {base_ms: 2.5, per_sequence_ms: 0.05, per_context_ms: 0.001, least_ms: 1}\n"
)


def said(capsys, *arguments: str) -> dict:
    assert main(["simulate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_command_serves_given_passes(capsys, tmp_path) -> None:
    file = tmp_path / "passes.yaml"
    file.write_text(PASSES)
    lengths = ("--inputs", "1024", "--outputs", "128")
    data = said(
        capsys, "--passes", str(file), "--clients", "8", *lengths, "--kv-blocks", "16384", "--block", "64", "--chunk"
    )
    assert data["ttft_s"]["mean"] == pytest.approx(0.17663, rel=1e-3)
    assert {"mean", "p50", "p90", "p99"} <= data["itl_s"].keys() & data["e2e_s"].keys()
    assert data["requests_per_s"] == pytest.approx(11.71, rel=1e-3)
    assert data["output_tokens_per_s"] == pytest.approx(128 * data["requests_per_s"])


def test_the_command_serves_a_scenario_and_says_what_fits(capsys) -> None:
    target = ("--system", "h100-sxm", "--workload", "llama3.1-8b", "--inputs", "512", "--outputs", "64")
    few, many = (said(capsys, *target, "--clients", count) for count in ("1", "32"))
    assert few["tpot_s"]["mean"] < many["tpot_s"]["mean"]
    assert few["requests_per_s"] < many["requests_per_s"]
    alone = json.loads(_evaluated(capsys, *target))
    assert few["ttft_s"]["mean"] == pytest.approx(alone["ttft_s"], rel=0.05)
    assert few["tpot_s"]["mean"] == pytest.approx(alone["tpot_s"], rel=0.05)


def test_one_request_of_an_engine_with_attention_ranks_takes_what_evaluate_says(capsys) -> None:
    """It took what a batch of all ranks does: shared layers were billed the same tokens of every other rank."""
    target = ("--system", "h200-sxm", "--workload", "qwen3-30b-a3b", "--devices", "8", "--scheme", "tensor")
    target += ("--attention-dp", "8", "--inputs", "512", "--outputs", "32")
    one = said(capsys, *target, "--clients", "1")
    for batch, clients in (("1", "1"), ("8", "8")):
        assert main(["evaluate", *target, "--batch", batch, "--json"]) == 0
        whole = json.loads(capsys.readouterr().out)
        run = said(capsys, *target, "--clients", clients)
        assert run["ttft_s"]["mean"] == pytest.approx(whole["ttft_s"], rel=1e-3)
        assert run["tpot_s"]["mean"] == pytest.approx(whole["tpot_s"], rel=0.01)
    assert one["error_band"]["why"]


def _evaluated(capsys, *target: str) -> str:
    assert main(["evaluate", *target, "--batch", "1", "--json"]) == 0
    return capsys.readouterr().out


GIVEN_PASSES = ("--passes", "{file}", "--inputs", "9", "--outputs", "9")
FILES = {"file": "passes.yaml", "bad": "bad.yaml", "back": "back.jsonl"}
MIXTURE = ("--system", "h200-sxm", "--workload", "qwen3-30b-a3b", "--devices", "8")

LAPTOP = ("--system", "core-i7-1185g7", "--workload", "llama3.1-8b")


@each(
    "arguments, sentence",
    [
        (("--passes", "{file}", "--clients", "2"), "inputs is not given"),
        (("--passes", "{file}", "--inputs", "9", "--outputs", "9"), "clients or qps is needed"),
        (
            ("--passes", "{file}", "--inputs", "9", "--outputs", "9", "--clients", "2", "--qps", "3"),
            "a load is open or",
        ),
        (("--passes", "{bad}", "--inputs", "9", "--outputs", "9", "--clients", "2"), "decode.base_ms is -1"),
        (("preset:dfx-1.5b", "--clients", "2", "--kv-blocks", "90000000"), "the devices have room for"),
        (("preset:dfx-1.5b", "--clients", "2", "--block", "90000000"), "block is 90000000 tokens; beside the weights"),
        (
            (*LAPTOP, "--inputs", "16", "--outputs", "8176", "--clients", "1"),
            "take more than the devices' memory",
        ),
        (("preset:node-dlrm", "--clients", "2", "--budget", "64"), "makes no tokens one by one"),
        (("preset:dfx-1.5b", "--clients", "2", "--policy", "orca"), "policy is 'orca'"),
        (("preset:dfx-1.5b", "--clients", "2", "--seed", "-1"), "seed is -1; it must be a whole number of at least 0"),
        ((*MIXTURE, "--clients", "2", "--expert-parallel", "3"), "expert_parallel is 3; allowed: 1, 2, 4, 8"),
        (("preset:dfx-1.5b", "--trace", "{back}"), "trace line 3: timestamp is '500', before the line above; sort"),
        ((*MIXTURE, "--clients", "2", "--requests", "1000000000"), "requests is 1000000000; it must be a whole number"),
        ((*GIVEN_PASSES, "--qps", "1e-30"), "beyond the digits of a clock"),
        ((*GIVEN_PASSES, "--qps", "3", "--think", "2"), "think is 2 beside arrivals at a rate"),
        ((*GIVEN_PASSES, "--clients", "3", "--think-law", "exponential"), "think-law is 'exponential' beside no think"),
        ((*GIVEN_PASSES, "--clients", "3", "--arrivals", "gamma:2"), "arrivals is 'gamma:2' beside clients 3"),
        ((*GIVEN_PASSES, "--clients", "3", "--max-batch", "2"), "max-batch is 2 beside a serving engine"),
        ((*GIVEN_PASSES, "--clients", "3", "--port", "1e9"), "port is 1000000000 beside one pool"),
        ((*GIVEN_PASSES, "--clients", "3", "--swap-s", "1"), "swap-s is 1 beside preemption that recomputes"),
        ((*GIVEN_PASSES, "--clients", "3", "--balance-timeout", "5"), "balance-timeout is 5 beside one attention rank"),
        ((*GIVEN_PASSES, "--clients", "3", "--overlap", "0.5"), "overlap is 0.5 beside passes that do not overlap"),
        ((*GIVEN_PASSES, "--clients", "3", "--asynchronous", "--overlap", "2"), "overlap is 2.0; it must be a number"),
        ((*GIVEN_PASSES, "--clients", "3", "--batch", "4"), "batch is '4' beside given passes"),
        ((*GIVEN_PASSES, "--clients", "3", "--set", "batch=4"), "set is 'batch=4' beside given passes"),
        (("preset:node-dlrm", "--clients", "2", "--pools", "1:1"), "makes no tokens one by one"),
        (("preset:node-dlrm", "--clients", "2", "--arrivals", "gamma:2"), "arrivals is 'gamma:2' beside clients"),
        (("preset:node-dlrm", "--qps", "2", "--think", "1"), "think is 1 beside a queue without clients"),
    ],
)
def test_the_command_refuses_in_a_sentence(capsys, tmp_path, arguments, sentence) -> None:
    (tmp_path / "passes.yaml").write_text(PASSES)
    (tmp_path / "bad.yaml").write_text(PASSES.replace("base_ms: 2.5", "base_ms: -1"))
    row = '{{"timestamp": {}, "input_length": 10, "output_length": 5}}'
    (tmp_path / "back.jsonl").write_text("\n".join(row.format(at) for at in (0, 1000, 500)))
    names = {name: str(tmp_path / file) for name, file in FILES.items()}
    assert main(["simulate", *(word.format(**names) for word in arguments)]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
