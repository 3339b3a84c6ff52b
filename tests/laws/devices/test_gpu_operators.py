"""Operators on GPUs: never past the roof, more hardware never slower, more work never faster, bad rows a sentence."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import default_scenario, evaluate
from engine.devices.common import collective as ring
from engine.devices.gpu.operators.collective import form_of
from engine.devices.gpu.operators.kinds import KINDS, Kind
from engine.devices.gpu.operators.predict import named_part, predict
from engine.devices.gpu.operators.record import NoModel, Part, facts, fitted
from engine.devices.gpu.operators.rows import parse_columns
from engine.devices.gpu.operators.slots import BOUND, SECONDS
from tests.each import each
from tests.effort import examples

PARTS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "l40s", "l4")
_OPS = {"op": "mla_gen_pre", "kv_dtype": "bfloat16"}
_AT_MOST = {"kv_heads": 32, "topk": 8, "moe_tp": 4, "moe_ep": 8, "gpus": 8, "gated": 1, "window": 8192, "head_dim": 256}


def _variants(kind: Kind, part: Part) -> list[dict[str, str]]:
    """Texts of every format (or variant) and runtime that a kind's constants know on a part."""
    variants = []
    for key, by in fitted()[part.generation].get(kind.name, {}).items():
        for runtime in by:
            texts = {name: default or _OPS.get(name, key) for name, default in kind.texts.items()}
            format, *after = key.split(".")
            texts |= {"op": after[0], "kernel": format} if after else {}
            *arithmetic, own = format.split("-")
            texts |= {"attn_dtype": arithmetic[0]} if arithmetic else {}
            framework, _, own = runtime.partition("-")
            texts |= {"kernel": next((name for name, called in facts()["kernels"].items() if called == own), "")}
            variants.append({"framework": framework, "device": part.id} | texts | {kind.format: own})
    return variants


def _seconds(
    kind: Kind, part: Part, texts: dict[str, str], numbers: dict[str, np.ndarray], cold: bool = True
) -> np.ndarray:
    return kind.model(part, texts, numbers, cold)


def _shapes(kind: Kind, seed: int, rows: int = 200) -> dict[str, np.ndarray]:
    """Random valid shapes of a kind, even in logarithms."""
    rng = np.random.default_rng(seed)
    numbers = {}
    for name in (*kind.shape, *kind.defaults):
        least = 0.0 if name in kind.zeros else 1.0
        most = _AT_MOST.get(name, 20_000)
        numbers[name] = np.maximum(np.floor(np.exp(rng.uniform(0, np.log(most + 1), rows))), least)
    return numbers


CASES = [(kind, name) for kind in KINDS for name in PARTS if _variants(KINDS[kind], named_part(name))]


def _cases(kind: str, name: str) -> tuple[Kind, Part, list[dict[str, str]]]:
    part = named_part(name)
    return KINDS[kind], part, _variants(KINDS[kind], part)


def _able(kind: Kind, part: Part, texts: dict[str, str]) -> bool:
    try:
        _seconds(kind, part, texts, _shapes(kind, 0, 1))
    except NoModel:
        return False
    return True


@each(("kind", "name"), CASES)
def test_none_is_faster_than_the_roof(kind: str, name: str) -> None:
    """And few rows are held there: the mechanisms themselves stay below it."""
    what, part, variants = _cases(kind, name)
    for i, texts in enumerate(variants):
        if not _able(what, part, texts):
            continue
        for cold in (False, True):
            found = _seconds(what, part, texts, _shapes(what, i), cold)
            assert np.isfinite(found).all()
            assert (found[:, SECONDS] > 0).all()
            assert (found[:, SECONDS] >= found[:, BOUND]).all()
            assert (found[:, SECONDS] > found[:, BOUND] * 1.0001).mean() > 0.97


@each("field", ["bandwidth", "power", "units"])
@each(("kind", "name"), CASES)
def test_more_of_a_part_is_never_slower(kind: str, name: str, field: str) -> None:
    """Bandwidth and power at all else alike; units with the peaks they bring, beyond what a tile more a wave costs."""
    what, part, variants = _cases(kind, name)
    more = replace(part, **{field: getattr(part, field) * 2.0})
    if field == "units":
        more = replace(more, peak={name: value * 2.0 for name, value in part.peak.items()})
    for i, texts in enumerate(variants):
        if _able(what, part, texts):
            shapes = _shapes(what, 100 + i)
            before, after = (_seconds(what, p, texts, shapes)[:, SECONDS] for p in (part, more))
            assert (after <= before * 1.0001).all(), (texts, (after / before).max())


@each(("kind", "name"), CASES)
def test_more_work_is_never_faster(kind: str, name: str) -> None:
    """Twice of any extent takes no less, but for the tile chosen: a tenth at most."""
    what, part, variants = _cases(kind, name)
    for i, texts in enumerate(variants):
        if not _able(what, part, texts):
            continue
        shapes = _shapes(what, 200 + i)
        before = _seconds(what, part, texts, shapes)[:, SECONDS]
        for extent in what.grows:
            after = _seconds(what, part, texts, shapes | {extent: shapes[extent] * 2.0})[:, SECONDS]
            assert (after >= before * 0.9).all(), (texts, extent, (after / before).min())


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 5000), st.integers(1, 20000), st.integers(1, 20000), st.sampled_from(PARTS))
def test_a_gemm_from_dram_takes_at_least_its_bytes(m: int, n: int, k: int, name: str) -> None:
    part = named_part(name)
    texts = {"device": name, "dtype": "bfloat16"}
    one = {"m": np.array([float(m)]), "n": np.array([float(n)]), "k": np.array([float(k)])}
    found = _seconds(KINDS["gemm"], part, texts, one)[0]
    assert found[SECONDS] >= max(2.0 * m * n * k / part.peak["bf16"], 2.0 * n * k / part.bandwidth)


def test_constants_are_in_their_ranges_and_few() -> None:
    limits = facts()["constants"]
    assert len(limits) <= 10
    for generation, found in fitted().items():
        for name, value in found["machine"].items():
            low, high = limits[name]["range"]
            assert low <= value <= high, (generation, name, value)
        for kind in KINDS:
            table = facts()["kinds"][kind]
            assert len(table) <= (
                7 if kind == "moe" else 3
            )  # experts' kernels have tiles of their own, not a machine's
            for by in found.get(kind, {}).values():
                for constants in by.values():
                    assert set(constants) == set(table)
                    for name, value in constants.items():
                        low, high = table[name]["range"]
                        assert low <= value <= high, (generation, kind, name, value)


def test_a_hundred_thousand_rows_are_quick() -> None:
    rng = np.random.default_rng(7)
    rows = 100_000
    numbers = {name: np.floor(np.exp(rng.uniform(0, 9, rows))) + 1 for name in ("m", "n", "k")}
    texts = {"device": ["h100_sxm"] * rows, "dtype": ["bfloat16"] * rows}
    few = {name: value[:10] for name, value in numbers.items()}
    predict(KINDS["gemm"], {name: value[:10] for name, value in texts.items()}, few)  # compiled now
    begun = time.thread_time()
    answers = predict(KINDS["gemm"], texts, numbers)
    assert (answers.why == 0).all()
    assert time.thread_time() - begun < 4.0


@pytest.mark.parametrize("name", ["t4", "v100-32gb"])
def test_a_generation_that_was_not_measured_is_predicted_without_evidence(name: str) -> None:
    """From its data sheet, with the constants of the generation whose kernels it runs; nothing says how far off."""
    texts = {"device": [name], "dtype": ["bfloat16"]}
    answers = predict(KINDS["gemm"], texts, {"m": np.array([4096.0]), "n": np.array([4096.0]), "k": np.array([4096.0])})
    assert answers.reasons == ("",)
    assert answers.seconds[0] >= answers.bound[0] > 0.0
    assert np.isnan(answers.low[0])
    assert np.isnan(answers.high[0])


def test_every_generation_with_constants_says_where_they_are_from() -> None:
    for generation, found in fitted().items():
        assert found["basis"] == "calibrated", generation
        assert found["data"], generation
        assert all(
            named_part(name).generation == generation and named_part(name).is_measured for name in found["parts"]
        )
    assert not named_part("h200-sxm").is_measured


def test_a_part_outside_its_evidence_has_a_wider_band() -> None:
    wide = []
    for name in ("h100-sxm", "h200-sxm"):
        texts, numbers = parse_columns(
            KINDS["gemm"], {"device": [name], "dtype": ["bf16"], "m": ["8192"], "n": ["8192"], "k": ["8192"]}
        )
        answers = predict(KINDS["gemm"], texts, numbers)
        wide.append(float(answers.high[0] / answers.low[0]))
    assert wide[1] > wide[0] > 1.0


def test_a_runtime_nobody_measured_takes_the_main_one() -> None:
    part, one = named_part("h100-sxm"), np.array([64.0])
    shape = {"m": one, "n": one * 64, "k": one * 64}
    found = [
        _seconds(KINDS["gemm"], part, {"dtype": "fp8", "framework": name}, shape)[0, SECONDS]
        for name in ("trtllm", "vllm", "sglang")
    ]
    assert found[0] == found[1] != found[2]


def _prompt_s(device: str, dtype: str, head: float) -> float:
    texts = {"device": [device], "kv_dtype": [dtype], "attn_dtype": [dtype]}
    shape = {"batch": 4.0, "seq_len": 4096.0, "heads": 32.0, "kv_heads": 8.0, "head_dim": head, "window": 0.0}
    return float(predict(KINDS["attention_prefill"], texts, {n: np.array([v]) for n, v in shape.items()}).seconds[0])


@pytest.mark.parametrize("head", [64.0, 128.0, 192.0, 256.0])
def test_prompts_of_heads_without_a_narrow_kernel_run_in_16_bits(head: float) -> None:
    """On Ada FP8's kernels take heads of 128 to 192: measured 0.5 to 0.6 of 16 bits there, 1.3 and 1.8 times beside."""
    ratio = _prompt_s("l40s", "fp8", head) / _prompt_s("l40s", "bfloat16", head)
    assert 0.45 < ratio < 0.75 if 128.0 <= head <= 192.0 else ratio == 1.0
    assert _prompt_s("h100-sxm", "fp8", head) < 0.95 * _prompt_s("h100-sxm", "bfloat16", head)


def _token_s(device: str, framework: str, **shape: float) -> float:
    texts = {"device": [device], "kv_dtype": ["bfloat16"], "framework": [framework]}
    shape = {
        "batch": 32.0,
        "past_len": 4095.0,
        "heads": 32.0,
        "kv_heads": 4.0,
        "head_dim": 128.0,
        "window": 0.0,
    } | shape
    return float(predict(KINDS["attention_decode"], texts, {n: np.array([v]) for n, v in shape.items()}).seconds[0])


@pytest.mark.parametrize("device", ["a100-sxm-80gb", "l40s"])
def test_a_window_has_flash_attention_2_read_a_cache_once_a_query_head(device: str) -> None:
    """It makes one product of query heads that share a cache only where there is no window: with one of 1,024 tokens,
    measured 2 to 6 times the time of a cache that ends there."""
    size = {"batch": 256.0, "heads": 64.0, "past_len": 511.0}
    whole, ends = (_token_s(device, "vllm", **size | {"past_len": n, "window": 512.0}) for n in (511.0, 1023.0))
    assert whole == _token_s(device, "vllm", **size)
    assert ends > 1.5 * whole
    assert _token_s("h100-sxm", "vllm", **size | {"past_len": 1023.0, "window": 512.0}) == _token_s(
        "h100-sxm", "vllm", **size
    )


def test_copies_of_query_heads_cost_where_several_kv_heads_share_them() -> None:
    """Measured on an A100: 12.5 us with one KV head or one sequence, 19.2 with several of both."""
    one = _token_s("a100", "vllm", batch=1.0, kv_heads=8.0, past_len=63.0)
    several = _token_s("a100", "vllm", batch=2.0, kv_heads=8.0, past_len=63.0)
    assert 4e-6 < several - one < 8e-6


def _ring_of(name: str, op: str, beyond: tuple[float, float, float]) -> np.ndarray:
    """Form of a library's collective on a part's wire, with nodes of so many parts and their way out."""
    part = named_part(name)
    measured = fitted()[part.generation]["collectives"][op]["nccl"]
    return np.array(form_of(part.link, part.wire, "nccl", None, measured, beyond))


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "alltoall"])
@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h100-sxm", "b200-sxm"])
def test_a_collective_over_nodes_takes_as_long_as_its_slower_level(name: str, op: str) -> None:
    """Never less than within a node alone, nor than its parts between nodes alone; at one node it is the flat one."""
    way = named_part(name).beyond
    for size in 2.0 ** np.arange(8, 34, 2):
        for joins in (2.0, 4.0, 8.0):
            form = _ring_of(name, op, (joins, *way[1:]))
            flat = _ring_of(name, op, (np.inf, np.inf, 0.0))
            within = ring.collective_seconds(ring.OPS[op], joins, size, form)
            assert within == ring.collective_seconds(ring.OPS[op], joins, size, flat)
            before = within[0]
            for nodes in (2.0, 4.0, 16.0):
                seconds, sent = ring.collective_seconds(ring.OPS[op], joins * nodes, size, form)
                between = flat.copy()
                between[ring.WIRE], between[ring.RING_SHARE], between[ring.ADDS] = form[ring.BEYOND], 1.0, 0.0
                between[ring.RING_HOP] = form[ring.BEYOND_HOP]
                part = size if op == "alltoall" else size / joins
                assert seconds >= before
                assert seconds >= ring.collective_seconds(ring.OPS[op], nodes, part, between)[0] * (1 - 1e-12)
                assert sent >= part * (1.0 - 1.0 / nodes)
                before = seconds


def test_tensor_parallelism_over_two_nodes_prices() -> None:
    """Eight H100 do not hold DeepSeek-R1 in FP8, sixteen do; a token pays for its way between the nodes."""
    eight, sixteen = (
        evaluate(default_scenario("h100-sxm", "deepseek-r1", devices=n, scheme="tensor")) for n in (8, 16)
    )
    assert not eight.fits
    assert sixteen.fits
    assert sixteen.latency_s > 0.5 * eight.latency_s
    within, between = ({row.role: row for row in sixteen.links}[role] for role in ("peer", "scale-out"))
    share = between.bytes_per_request / within.bytes_per_request  # an eighth to the other node, there and back
    assert 1.0 / 14.0 <= share <= (1.0 + 1e-9) / 9.0  # of 14 eighths in a ring of eight, 9 where its switch adds up
    assert 0 < within.utilisation < between.utilisation < 1
    shapes = {"gpus": np.array([8.0, 16.0]), "bytes": np.array([131072.0, 131072.0])}
    answers = predict(KINDS["all_reduce"], {"device": ["h100-sxm"] * 2, "dtype": ["bfloat16"] * 2}, shapes)
    assert answers.seconds[1] > answers.seconds[0] + 2 * named_part("h100-sxm").beyond[2]
    assert np.isnan(answers.high[1])
    bridged = predict(KINDS["all_reduce"], {"device": ["h100-pcie"] * 2, "dtype": ["bfloat16"] * 2}, shapes)
    assert "joins 2" in bridged.reasons[1]


@pytest.mark.parametrize("name", ["a10", "h20", "rtx-5090", "b300-sxm"])
@pytest.mark.parametrize("framework", ["trtllm", "vllm"])
def test_a_prompt_that_outgrows_its_window_takes_no_jump(name: str, framework: str) -> None:
    """A token more than a window or a tile costs at most a tile more, on parts that nobody measured as well."""
    lengths = np.array([63.0, 64.0, 65.0, 127.0, 128.0, 129.0, 511.0, 512.0, 513.0, 1023.0, 1024.0, 1025.0])
    texts = {"kv_dtype": "bfloat16", "attn_dtype": "bfloat16", "framework": framework, "device": name}
    for heads, kv_heads, width in ((32, 8, 128), (64, 1, 64), (8, 8, 256)):
        for window in (0, 128, 512, 1024):
            fixed = {"batch": 64, "heads": heads, "kv_heads": kv_heads, "head_dim": width, "window": window}
            shape = {"seq_len": lengths} | {n: np.full(12, float(v)) for n, v in fixed.items()}
            took = predict(KINDS["attention_prefill"], {n: [v] * 12 for n, v in texts.items()}, shape).seconds
            tiles = np.ceil(lengths / 64.0)
            step = took[1:] / took[:-1]
            near = lengths[1:] - lengths[:-1] == 1.0
            assert (step >= 1.0 - 1e-9).all()
            assert (step[near] <= 1.1 * (tiles[1:] / tiles[:-1])[near]).all(), (heads, window, step)
