"""GPUs: experts read once a pass, what a device holds, copies under arithmetic, exchanges and who owns which head."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from engine import ScenarioError, default_scenario, evaluate, why_not
from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.cost.exchanges import exchange
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.devices.gpu.operators.kinds import KINDS
from engine.devices.gpu.operators.predict import predict
from engine.evaluate import bind
from engine.traffic.engines.pass_times import decoder_of
from hardware_specs import default_catalog
from model_zoo.ops import Dim
from tests.each import each

ONE_OF_EACH = ("h100-sxm", "xeon-8280l", "fb-card", "brainwave-s10", "dfx-u280", "agilio-cx")
NETWORKS = (
    "qwen3-30b-a3b",
    "mixtral-8x7b",
    "llama3.1-8b",
    "bert-base",
    "resnet50",
    "dlrm-rmc2",
    "wide-deep-criteo",
    "deepbench-gru-2816",
)


def asked(system: str, workload: str, **fields):
    return evaluate(default_scenario(system, workload, **fields))


def _runs(system: str, workload: str, **fields):
    bound = bind(default_scenario(system, workload, **fields))
    return [run for stage in assemble(bound, make_plan(bound)).priced for run in stage.runs]


@each(("system", "workload"), [pair for pair in product(ONE_OF_EACH, NETWORKS) if why_not(*pair) is None])
def test_no_operator_reads_more_weights_than_it_stores(system, workload):
    """What a pass moves for an operator is at most its own weights once, its state, and what it reads and writes.

    Four bytes an element, lines of a cache around each row looked up, and five passes over its activations (an INT8
    operator stores 32-bit sums and reads them again) bound what any family counts.
    """
    found = 0
    for batch in (1, 8, 64):
        try:
            runs = _runs(system, workload, batch=batch)
        except (ScenarioError, Unsupported, ValueError):
            continue
        one_by_one = batch if system == "brainwave-s10" else 1  # what a processor of one item reads, it reads for each
        for run in runs:
            job, at, turns = run.job, (run.job.batch, run.job.length, run.job.context), 1.0
            if system == "dfx-u280":  # a core takes token after token, those of the input too, each with all weights
                at, turns = (1, 1, run.job.context), run.job.batch * run.job.length
            moved = run.cost.offchip + run.cost.onchip if system == "h100-sxm" else run.cost.offchip
            for op, size in zip(job.ops, moved, strict=True):
                touched = sum(d.at(*at) for d in (op.reads, op.writes, op.state_reads, op.state_writes))
                own = one_by_one * op.stored or op.weights.at(*at)
                rows = op.gather_rows.at(*at) * 64.0
                most = turns * op.layers * op.steps.at(*at) * (4.0 * (own + 5.0 * touched) + rows)
                assert size <= most * (1 + 1e-9), (batch, job.phase.name, op.name, size / most)
                found += 1
    assert found


def test_the_first_token_of_experts_waits_for_their_weights_once():
    """Thirty billion parameters are 61 GB; what 64 prompts of 512 tokens choose of them is read once."""
    report = asked("h100-sxm", "qwen3-30b-a3b", precision="bf16", batch=64, inputs=512, outputs=2)
    assert report.ttft_s < 4.0


@pytest.mark.parametrize("system", ["h100-sxm", "a100-sxm-80gb", "mi300x", "tpu-v6e"])
def test_scores_that_stay_on_chip_are_not_resident(system):
    """At 128k tokens 8B parameters hold 16 GB, their cache 17 GB and no operator more than a few: not 2,232 GB."""
    base = default_scenario(system, "llama3.1-8b", precision="bf16", inputs=131072, outputs=1)
    need = evaluate(base).memory[0].need_bytes
    assert 33e9 < need < 60e9
    half = evaluate(base.with_(inputs=65536)).memory[0].need_bytes
    assert need - half == pytest.approx(half - evaluate(base.with_(inputs=1)).memory[0].need_bytes, rel=0.02)


@pytest.mark.parametrize("workload", ["llama2-70b", "mixtral-8x7b", "gpt2-1.5b", "bert-large"])
@pytest.mark.parametrize("fuse", [True, False])
def test_devices_that_share_operators_share_what_these_hold(workload, fuse):
    """Twice the devices never hold more each, and activations of dealt-out operators divide like their weights."""
    base = default_scenario("h100-sxm", workload, inputs=512, batch=32, precision="bf16", scheme="tensor", devices=2)
    base = base.with_(switches=base.switches | {"fuse": fuse})
    needs = [evaluate(base.with_(devices=n)).memory[0].need_bytes for n in (2, 4, 8)]
    assert needs[0] > needs[1] > needs[2]
    stores = bind(base).graph.ops
    whole = max(4.0 * (op.reads.at(32, 512, 512) + op.writes.at(32, 512, 512)) for op in stores if op.shard == "none")
    assert needs[0] - needs[1] > (needs[0] - whole) / 2 * 0.7


def test_room_for_cached_tokens_is_what_weights_and_the_longest_prompt_leave():
    """Llama 3.1 8B: 128 KiB a token, 90% of 80 GB, 16 GB of weights: 427 thousand tokens less a pass's activations."""
    for system, most in (("h100-sxm", 80e9), ("h200-sxm", 141e9)):
        base = default_scenario(system, "llama3.1-8b", precision="bf16", inputs=8192, outputs=512)
        scheduler = decoder_of(base, 4).scheduler
        assert scheduler.kv_blocks * scheduler.block == pytest.approx((0.9 * most - 16.06e9) / 131072, rel=0.05)


def _overlapping() -> list[tuple[str, str]]:
    return [
        ("a100-sxm-80gb", "resnet50"),
        ("h100-sxm", "bert-large"),
        ("t4", "mobilenet-v1"),
        ("l4", "resnet50"),
        ("h100-sxm", "dlrm-mlperf-v1"),
        ("mi300x", "resnet50"),
    ]


@pytest.mark.parametrize(("system", "workload"), _overlapping())
@pytest.mark.parametrize("scheme", ["single", "replicas"])
def test_throughput_is_that_of_the_slower_of_copy_and_compute(system, workload, scheme):
    """A batch crosses the host's wire while the one before it is computed: two engines of a device, one each way."""
    for batch in (1, 32, 256):
        base = default_scenario(system, workload, batch=batch, devices=2 if scheme == "replicas" else 1, scheme=scheme)
        bound = bind(base)
        times = assemble(bound, make_plan(bound))
        wires: dict[str, float] = {}
        for hop, seconds in times.hops:
            wires[hop.way] = wires.get(hop.way, 0.0) + seconds
        slowest = max(*(p.time_s / p.stage.copies for p in times.priced), *wires.values())
        assert times.interval_s == pytest.approx(slowest, rel=1e-12)
        assert times.latency_s == pytest.approx(sum(p.time_s for p in times.priced) + sum(wires.values()), rel=1e-12)


@pytest.mark.parametrize("system", ["h100-sxm", "t4", "mi300x"])
@pytest.mark.parametrize("workload", ["llama3.1-8b", "bert-large", "dlrm-mlperf-v1", "gpt2-1.5b"])
def test_integers_cross_in_four_bytes_whatever_the_precision(system, workload):
    for precision in family("gpu").formats(default_catalog().device(system)):
        try:
            bound = bind(default_scenario(system, workload, precision=precision, batch=4))
        except (ScenarioError, ValueError):
            continue
        into = next(hop for hop in make_plan(bound).hops if hop.name == "input")
        graph, s = bound.graph, bound.scenario
        indices = graph.input_indices.at(s.batch, s.inputs, s.inputs)
        values = graph.input_elements.at(s.batch, s.inputs, s.inputs) - indices
        assert indices > 0
        assert into.bytes_per_message * into.messages >= 4.0 * indices
        assert into.bytes_per_message * into.messages <= 4.0 * (indices + values)


def test_an_exchange_of_partial_sums_is_as_wide_as_they_are():
    """FP8 and INT4 multiply narrow numbers; what the devices add up is 16 bits."""
    sent = {}
    for precision in ("bf16", "fp8", "w4a16"):
        runs = _runs("h100-sxm", "llama2-70b", precision=precision, devices=8, scheme="tensor", batch=64)
        sent[precision] = runs[0].cost.link_bytes
    assert sent["fp8"] == sent["w4a16"] == sent["bf16"]


# Medians of TensorRT-LLM's and vLLM's kernels in a captured graph, one way each row: (device, GPUs, bytes, us).
# Source: aiconfigurator, commit 095f58a5, Apache-2.0; TensorRT-LLM 1.3.0rc20 (A100: 1.0.0), vLLM 0.24.0 (A100: 0.14.0).
ALL_REDUCE = (
    ("a100-sxm-80gb", 2, 512, 4.36),
    ("a100-sxm-80gb", 8, 1024, 5.2),
    ("a100-sxm-80gb", 8, 65536, 8.7),
    ("a100-sxm-80gb", 4, 16777216, 184.0),
    ("a100-sxm-80gb", 8, 536870912, 4226.4),
    ("h100-sxm", 2, 1024, 3.45),
    ("h100-sxm", 8, 1024, 3.9),
    ("h100-sxm", 8, 65536, 5.5),
    ("h100-sxm", 2, 262144, 4.5),
    ("h100-sxm", 4, 16777216, 99.75),
    ("h100-sxm", 2, 536870912, 1694.4),
    ("b200-sxm", 2, 1024, 5.9),
    ("b200-sxm", 8, 1024, 6.8),
    ("b200-sxm", 8, 65536, 7.3),
    ("b200-sxm", 2, 67108864, 155.0),
    ("b200-sxm", 4, 1073741824, 2554.1),
)


def _all_reduce_s(system: str, gpus: int, size: float, **overrides) -> float:
    """Time of one all-reduce of `size` bytes: of a projection's result of that size."""
    base = default_scenario(system, "llama2-70b", precision="bf16", devices=gpus, scheme="tensor", outputs=1)
    bound = bind(base.with_(overrides=overrides))
    times = assemble(bound, make_plan(bound))
    job = times.priced[0].runs[0].job
    whole = next(op for op in job.ops if op.name == "attention-out")
    one = replace(job, ops=(replace(whole, writes=Dim(size / 2), layers=1),))
    ((_, _, seconds),) = exchange(times.priced[0].stage, one)[0]
    return seconds


def test_an_all_reduce_takes_what_was_measured():
    """Half of the rows within 20%, none beyond 60%; they took 20 us at least once."""
    errors = sorted(
        abs(math.log(_all_reduce_s(system, gpus, size) * 1e6 / us)) for system, gpus, size, us in ALL_REDUCE
    )
    assert errors[len(errors) // 2] < math.log(1.2)
    assert errors[-1] < math.log(1.6)


@pytest.mark.parametrize("system", ["a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "l40s", "rtx-5090"])
def test_a_network_pays_for_an_all_reduce_what_the_operator_takes(system):
    """One model of collectives: whoever asks, a message of any length on any number of devices takes as long."""
    sizes = [1024.0, 131072.0, 524288.0, 2097152.0, 4194304.0, 67108864.0]
    shapes = [(gpus, size) for gpus in (2, 4) for size in sizes]
    gpus, size = (np.array(column, dtype=np.float64) for column in zip(*shapes, strict=True))
    texts = {"device": [system] * len(shapes), "dtype": ["bfloat16"] * len(shapes)}
    alone = predict(KINDS["all_reduce"], texts, {"gpus": gpus, "bytes": size}).seconds
    inside = np.array([_all_reduce_s(system, int(n), s) for n, s in shapes])
    late = inside[0] - alone[0]  # a part starts a collective as its generation does, whatever wire it goes over
    np.testing.assert_allclose(inside - late, alone, rtol=1e-9)
    assert late == pytest.approx(0.0, abs=1e-12) or system == "rtx-5090"


@pytest.mark.parametrize("system", ["h100-sxm", "mi300x", "tpu-v6e", "l40s"])
def test_an_exchange_starts_when_the_scenario_says_so(system):
    usual, later = (_all_reduce_s(system, 4, 16384.0, **{"model.collective_latency": t}) for t in (0.0, 20e-6))
    assert later - usual == pytest.approx(20e-6, rel=1e-9)


def test_heads_of_keys_are_dealt_out_whole_and_copied_beyond_their_number():
    """Qwen3-30B has 4 heads of keys: eight devices read a quarter of the cache each, as four do, at any batch."""
    for batch in (1, 3, 64):
        read = {}
        for ways in (1, 2, 4, 8):
            runs = _runs(
                "h100-sxm",
                "qwen3-30b-a3b",
                precision="bf16",
                devices=ways,
                batch=batch,
                inputs=2048,
                outputs=16,
                scheme="tensor" if ways > 1 else "single",
            )
            decode = runs[-1]
            at = next(i for i, op in enumerate(decode.job.ops) if op.name == "scores")
            read[ways] = float(decode.cost.offchip[at] + decode.cost.onchip[at])
        assert read[4] == pytest.approx(read[1] / 4, rel=0.02)
        assert read[8] == pytest.approx(read[4], rel=0.02)


def test_a_device_holds_the_cache_of_whole_heads():
    base = default_scenario(
        "h100-sxm", "qwen3-30b-a3b", precision="bf16", batch=64, inputs=4096, scheme="tensor", devices=4
    )
    state = bind(base).graph.state_elements.at(64, 4096, 4096) * 2
    four, eight = (evaluate(base.with_(devices=n)).memory[0].need_bytes for n in (4, 8))
    weights = bind(base).graph.parameters * 2
    assert four >= weights / 4 + state / 4
    assert eight >= weights / 8 + state / 4


@pytest.mark.parametrize("workload", ["dlrm-rmc2", "dlrm-rmc1", "resnet50", "bert-base", "mlp-mnist"])
def test_features_of_samples_are_parsed_where_there_are_some(workload):
    """A framework that parses records charges for their features; tensors are handed over as they are."""
    for system in ("xeon-8280l", "xeon-d-2191"):
        try:
            report = asked(system, workload, batch=64)
        except (ScenarioError, Unsupported, ValueError):
            continue
        assert not [o for o in report.other if "samples" in o.name or "features" in o.name]


def test_the_better_count_of_devices_is_offered():
    """Where fewer devices answer sooner than the scenario's, the report names how many."""
    worse = 0
    for system, workload, batch in product(
        ("h100-sxm", "mi300x", "tpu-v6e"), ("gpt2-345m", "bert-base", "llama3.1-8b", "resnet50"), (1, 64)
    ):
        base = default_scenario(system, workload, batch=batch, inputs=64, outputs=16)
        reports = {}
        for n in (1, 2, 4, 8):
            try:
                reports[n] = evaluate(base.with_(devices=n, scheme="tensor" if n > 1 else "single"))
            except (ScenarioError, Unsupported, ValueError):
                break
        for n, report in reports.items():
            fewer = {k: r for k, r in reports.items() if k < n and r.fits}
            best = min(fewer, key=lambda k: fewer[k].latency_s, default=None)
            said = [a.text for a in report.assumptions if "alone would answer" in a.text]
            if best is not None and fewer[best].latency_s < report.latency_s * (1 - 1e-9):
                worse += 1
                assert said, (system, workload, batch, n, best)
            else:
                assert not said, (system, workload, batch, n, said)
    assert worse


@pytest.mark.parametrize("workload", ["nemotron3-nano-30b-a3b", "qwen3-next-80b-a3b", "qwen3.5-397b-a17b"])
def test_states_of_a_recurrence_are_dealt_out_by_their_own_heads_and_stay_in_32_bits(workload):
    """Of 32 to 64 heads of states eight devices hold an eighth each, of 2 heads of keys a half; narrow or not."""
    kept = {}
    for precision, devices in (("bf16", 1), ("bf16", 8), ("fp8", 8)):
        base = default_scenario("b200-sxm", workload, precision=precision, batch=64, inputs=1, outputs=1)
        bound = bind(base.with_(devices=devices, scheme="tensor" if devices > 1 else "single"))
        (fit, *_) = assemble(bound, make_plan(bound)).priced[0].fits
        kept[precision, devices] = fit.state_bytes
    decode = bound.graph.phases[-1]
    numbers = sum(op.state_writes.coef / 2 * op.layers for op in decode.ops if op.name.startswith("state-update"))
    assert kept["bf16", 1] > 64 * numbers * 4
    assert kept["bf16", 8] == pytest.approx(kept["bf16", 1] / 8, rel=0.01)
    assert kept["bf16", 8] >= kept["fp8", 8] > 64 * numbers * 4 / 8
