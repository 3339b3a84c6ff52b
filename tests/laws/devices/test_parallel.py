"""Devices that share a decoder in several ways at once: what is conserved, what is never slower, what is refused."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import default_scenario, evaluate
from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.resolve.bind import bind
from engine.resolve.choices import choices
from engine.scenario import Scenario, ScenarioError, decode, encode
from engine.scenario.configuration import configuration
from engine.sweep import price, space_of
from engine.sweep.goals import FIGURES
from engine.traffic.scenario_load import device_token_bytes, priced

MIXTURE = default_scenario(
    "h200-sxm", "deepseek-r1", devices=8, scheme="tensor", precision="fp8", inputs=512, outputs=17, batch=64
)
DENSE = default_scenario("h100-sxm", "llama3.1-70b", devices=8, scheme="tensor", inputs=512, outputs=17, batch=16)
WAYS = ("pipeline_parallel", "attention_dp", "expert_parallel")


def _arrangements(scenario: Scenario) -> list[dict[str, int]]:
    """Every legal choice of the three ways."""
    found = []
    for pipeline, ranks, experts in itertools.product((1, 2, 4, 8), repeat=3):
        ways = dict(zip(WAYS, (pipeline, ranks, experts), strict=True))
        try:
            bind(scenario.with_(**ways))
        except ScenarioError:
            continue
        found.append(ways)
    return found


def _held(scenario: Scenario) -> dict[str, float]:
    """Bytes on all devices, and FLOPs of a request on all of them: of stages, each on its devices."""
    times = assemble(bound := bind(scenario), make_plan(bound))
    total = {"weights": 0.0, "state": 0.0, "flops": 0.0}
    for part in times.priced:
        names = {op.name for run in part.runs for op in run.job.ops}
        graph = part.runs[0].job.graph
        ops = {op.name: op for op in graph.ops if op.name in names}
        copied = [op.stored * op.layers * part.stage.devices for op in ops.values() if op.shard == "none"]
        once = [op.stored * op.layers * part.stage.ranks for op in ops.values() if op.shard != "none"]
        total["weights"] += sum(once) + sum(copied)
        total["flops"] += sum(float(run.cost.flops.sum()) * run.passes for run in part.runs) * part.stage.devices
        total["state"] += sum(term.at(1, 1, 1) for term in graph.state_elements.terms)
    return total


@pytest.mark.parametrize("scenario", [MIXTURE, DENSE], ids=["mixture", "dense"])
def test_one_of_each_way_is_tensor_parallelism_and_a_sweep_finds_every_arrangement_to_the_bit(scenario) -> None:
    whole, ones = (evaluate(s) for s in (scenario, scenario.with_(**dict.fromkeys(WAYS, 1))))
    assert [ones.figure(name) for name in FIGURES] == [whole.figure(name) for name in FIGURES]
    axes = {path: [1, 2, 4, 8] for path in WAYS} | {"batch": [1, 24, 64], "redundant_experts": [0, 8]}
    space = space_of({"scenario": scenario.model_dump(mode="json"), "axes": axes})
    values, refused, misfits = price(space)
    several = 0
    for number in range(space.size):
        if refused[number]:
            with pytest.raises(ScenarioError):
                evaluate(space.scenario(number))
            continue
        report = evaluate(one := space.scenario(number))
        found = [None if math.isnan(value) else float(value) for value in values[:, number]]
        assert found == [report.figure(name) for name in FIGURES], encode(one)
        assert misfits[number] != report.fits
        assert decode(encode(one)) == one
        several += 1
    assert several >= (60 if scenario is MIXTURE else 20)


@pytest.mark.parametrize("scenario", [MIXTURE, DENSE], ids=["mixture", "dense"])
def test_weights_state_and_work_are_conserved(scenario: Scenario) -> None:
    alone = _held(scenario.with_(devices=1, scheme="single"))
    for ways in _arrangements(scenario):
        held = _held(scenario.with_(**ways))
        assert held["state"] == pytest.approx(alone["state"]), ways
        assert held["weights"] >= alone["weights"] * (1 - 1e-12), ways
        if ways["attention_dp"] == 1:  # else work that all tensor ways do once is done on each
            assert held["flops"] == pytest.approx(
                _held(scenario.with_(pipeline_parallel=ways[WAYS[0]]))["flops"], rel=0.01
            )
        if ways == {"pipeline_parallel": 8, "attention_dp": 1, "expert_parallel": 1}:
            assert held["weights"] == pytest.approx(alone["weights"])
            assert held["flops"] == pytest.approx(alone["flops"])


def test_every_arrangement_of_1024_devices_is_priced_and_says_how_they_share() -> None:
    wide = MIXTURE.with_(devices=1024, batch=4096)
    for ways, said, short in (
        ({"attention_dp": 32}, "TP 8 x PP 4 x attention DP 32, EP 128 on 1024 devices", "TP8 PP4 DP32 EP128"),
        ({"context_parallel": 32}, "TP 8 x PP 4 x attention DP 1 x context 32, EP 128", "TP8 PP4 CP32 EP128"),
    ):
        report = evaluate(wide.with_(pipeline_parallel=4, expert_parallel=128, **ways))
        assert said in " ".join(a.text for a in report.assumptions)
        assert configuration(report.scenario) == f"1024x, FP8, {short}, batch 4,096"
    near, far = (evaluate(MIXTURE.with_(devices=n, attention_dp=n, expert_parallel=n)) for n in (8, 16))
    assert far.breakdown["links"] > near.breakdown["links"], "tokens cross between nodes"


LONG = DENSE.with_(inputs=131_072, outputs=3, batch=1)
GROUPS = "context_parallel"


@pytest.mark.parametrize("scenario", [MIXTURE, DENSE], ids=["mixture", "dense"])
def test_one_group_of_a_context_is_none_and_a_sweep_finds_every_number_of_them_to_the_bit(scenario) -> None:
    alone, one = evaluate(scenario), evaluate(scenario.with_(**{GROUPS: 1}))
    assert [one.figure(name) for name in FIGURES] == [alone.figure(name) for name in FIGURES]
    axes = {
        GROUPS: [1, 2, 8],
        "attention_dp": [1, 4],
        "pipeline_parallel": [1, 2],
        "batch": [1, 12],
        "inputs": [3, 700],
    }
    space = space_of({"scenario": scenario.model_dump(mode="json"), "axes": axes})
    values, refused, misfits = price(space)
    assert sum(map(bool, refused)) == 4 * 4, "of 8 devices no more than 8 are dealt out, in four of twelve ways"
    for number in (n for n in range(space.size) if not refused[n]):
        report = evaluate(one := space.scenario(number))
        found = [None if math.isnan(value) else float(value) for value in values[:, number]]
        assert found == [report.figure(name) for name in FIGURES], encode(one)
        assert misfits[number] != report.fits
        assert decode(encode(one)) == one


def _attended(scenario: Scenario) -> tuple[float, float, float, float]:
    """FLOPs of taking in a prompt on all devices, elements of the cache and bytes sent to gather it on one, TTFT."""
    times = assemble(bound := bind(scenario), make_plan(bound))
    runs = [(part.stage, run) for part in times.priced for run in part.runs if run.job.phase.name == "prefill"]
    flops = sum(
        float(spent) * stage.devices
        for stage, run in runs
        for op, spent in zip(run.job.ops, run.cost.flops, strict=True)
        if op.group != "lm-head"  # one group's work, while the others wait
    )
    sent = sum(run.cost.link_bytes for stage, run in runs if stage.attends)
    state = sum(fit.state_bytes for part in times.priced for fit in part.fits)
    return flops, state, sent, times.figure("ttft_s") or 0.0


@given(st.sampled_from([2, 4, 8, 16, 64]), st.integers(4096, 1_000_000))
def test_groups_of_a_context_share_its_work_and_its_cache_and_gather_every_key_once(groups: int, inputs: int) -> None:
    few = LONG.with_(inputs=inputs)
    many = few.with_(**{"devices": 8 * groups, GROUPS: groups})
    (flops, state, _, _), (flops_now, state_now, sent, first) = _attended(few), _attended(many)
    assert flops_now == pytest.approx(flops, rel=1e-6)
    assert state_now * groups == pytest.approx(state, rel=1e-4)
    keys = 80 * inputs * 2 * 128 * 2.0  # layers, tokens, a KV head's keys and values, in 16 bits
    assert sent == pytest.approx(keys * (groups - 1) / groups, rel=1e-9)
    wire = next(stage for stage in make_plan(bind(many)).stages if stage.attends).wire
    assert wire is not None
    assert wire.beyond is not None
    assert first > sent / wire.beyond.usable, "each device's way to other nodes carries what it gathers"


def test_groups_of_one_node_send_nothing_beyond_it() -> None:
    far = {}
    for system, devices in (("mi300x", 8), ("h100-sxm", 8), ("h100-sxm", 16)):
        scenario = default_scenario(system, "llama3.1-70b", devices=devices, scheme="tensor", inputs=4096, outputs=9)
        bound = bind(scenario.with_(**{GROUPS: devices // 4}))
        runs = [run for part in assemble(bound, make_plan(bound)).priced for run in part.runs if part.stage.attends]
        far[system, devices] = sum(run.cost.beyond_bytes for run in runs) / sum(run.cost.link_bytes for run in runs)
    assert far["mi300x", 8] == far["h100-sxm", 8] == 0.0
    assert 0.2 < far["h100-sxm", 16] < 0.5, "of four groups, two lie on each node"


def test_a_long_prompt_falls_with_groups_until_the_wire_and_a_token_of_one_request_does_not() -> None:
    found = [evaluate(LONG.with_(**{"devices": 8 * n, GROUPS: n})) for n in (1, 2, 4, 8)]
    first, after = ([r.figure(name) for r in found] for name in ("ttft_s", "tpot_s"))
    assert all(a > b > a / 2 for a, b in itertools.pairwise(first)), "less than twice as fast"
    assert after == sorted(after), "each group reads all weights for a token of its own; of others' it only attends"
    full = LONG.with_(batch=64, inputs=32_768)
    shared, dealt = evaluate(full), evaluate(full.with_(**{"devices": 64, GROUPS: 8}))
    assert dealt.figure("tpot_s") < 0.7 * shared.figure("tpot_s"), "the cache is most of what a token reads"
    assert device_token_bytes(full.with_(**{"devices": 64, GROUPS: 8}), 32_768) == pytest.approx(
        device_token_bytes(full, 32_768) / 8
    )


def test_more_of_what_helps_is_never_slower_and_more_imbalance_never_faster() -> None:
    experts = MIXTURE.with_(attention_dp=8, expert_parallel=8)
    times = [evaluate(experts.with_(expert_imbalance=f"{p}%" if p else None)).latency_s for p in (0, 10, 50, 100, 200)]
    assert times == sorted(times)
    assert times[-1] > 1.05 * times[0]
    uneven = experts.with_(expert_imbalance="100%")
    copies = [evaluate(uneven.with_(redundant_experts=n)) for n in (None, 8, 16)]
    assert [r.latency_s for r in copies] == sorted((r.latency_s for r in copies), reverse=True)
    needs = [r.memory[0].need_bytes for r in copies]
    assert needs == sorted(set(needs)), "copies take room"
    for path in WAYS[:2]:  # a pipeline's batches and a rank's requests divide what a device reads of the cache
        more = [evaluate(DENSE.with_(batch=64, **{path: n})) for n in (1, 2, 4, 8)]
        assert all(r.throughput_per_s > more[0].throughput_per_s for r in more[1:]), path
        assert more[-1].breakdown["links"] < 0.5 * more[0].breakdown["links"], path


def test_stages_overlap_and_an_uneven_rank_is_waited_for() -> None:
    piped = priced(DENSE.with_(pipeline_parallel=4))[2]
    assert piped.interval_s >= max(piped.part("stage_s")) > piped.latency_s / 5
    full, one_more, spread = (priced(DENSE.with_(attention_dp=8, batch=n))[2].priced[0].time_s for n in (64, 65, 72))
    assert full < one_more == spread, "the fullest rank sets the pace"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"expert_parallel": 3}, "expert_parallel is 3; allowed: 1, 2, 4, 8"),
        ({"expert_parallel": 8, "pipeline_parallel": 4}, "expert_parallel is 8; allowed: 1, 2"),
        ({"pipeline_parallel": 3}, "pipeline_parallel is 3; allowed: 1, 2, 4, 8"),
        ({"attention_dp": 16}, "attention_dp is 16; allowed: 1, 2, 4, 8"),
        ({"context_parallel": 3}, "context_parallel is 3; allowed: 1, 2, 4, 8"),
        ({"context_parallel": 4, "attention_dp": 4}, "attention_dp is 4; allowed: 1, 2"),
        (
            {"workload": "qwen3-next-80b-a3b", "context_parallel": 2},
            "the network has no device left, or state beside keys and values that grow with the context, which",
        ),
        ({"expert_imbalance": "10%"}, "the network has no ranks of experts of their own"),
        ({"expert_parallel": 8, "redundant_experts": 3}, "redundant_experts is 3; allowed: 0, 8, 16"),
        ({"scheme": "replicas", "attention_dp": 2}, "the scheme is 'replicas', not tensor"),
        ({"devices": 12}, "devices is 12: H200 SXM offers 1, 2, 4, 8, 16 or a multiple of 8 up to 1,024"),
        ({"devices": 2048}, "or a multiple of 8 up to 1,024"),
    ],
)
def test_what_does_not_divide_is_refused_with_what_does(changes: dict, sentence: str) -> None:
    with pytest.raises(ScenarioError) as refusal:
        evaluate(MIXTURE.with_(**changes))
    assert sentence in str(refusal.value)


def test_a_dense_network_and_another_family_have_no_ranks_of_experts() -> None:
    with pytest.raises(ScenarioError, match="the network has no routed experts"):
        evaluate(DENSE.with_(expert_parallel=2))
    with pytest.raises(ScenarioError, match="attention_dp is 2; allowed here: 1, as"):
        evaluate(default_scenario("dfx-u280", "gpt2-1.5b", attention_dp=2))
    assert choices(MIXTURE).by_family["expert_parallel"] == (2, 4, 8)
    assert "attention_dp" not in MIXTURE.with_(attention_dp=None).model_dump(exclude_none=True)


def test_the_timeline_of_a_layer_has_attention_and_experts_in_the_order_of_the_network() -> None:
    names = [span.name for span in evaluate(MIXTURE.with_(attention_dp=4, expert_parallel=8)).timeline]
    wanted = ["attention-out-experts", "gate-up-experts", "down-experts", "combine-experts"]
    assert [name for name in names if name in wanted] == wanted
