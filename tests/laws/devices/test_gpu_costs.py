"""GPUs: what formats cost beside their bytes, what the board's limit allows, what kernels of a network share."""

from itertools import pairwise

import pytest

from engine import default_scenario, evaluate
from engine.devices.gpu import flags as R
from engine.devices.gpu.flags import phase_table
from engine.devices.gpu.operators.record import draw_s, fitted, reference
from engine.resolve.bind import bind
from engine.scenario.formats import BITS
from hardware_specs import default_catalog


def asked(system: str, workload: str, **fields):
    return evaluate(default_scenario(system, workload, **fields))


def _op(report, name: str):
    return next(op for op in report.ops if op.name == name)


@pytest.mark.parametrize("system", ["h100-sxm", "h200-sxm", "b200-sxm", "l40s"])
def test_quantising_an_input_costs_a_kernel_of_each_product(system):
    """At one token a product in FP8 takes half of what it does in 16 bits, and a kernel that quantises its input."""
    wide, narrow = (asked(system, "llama3.1-8b", precision=p, inputs=32, outputs=2) for p in ("bf16", "fp8"))
    for name in ("qkv", "attention-out"):
        one, other = ([op.time_s for op in report.ops if op.name == name][-1] / 32 for report in (wide, narrow))
        assert other > one / 2 + 4.5e-6


@pytest.mark.parametrize("precision", ["w8a16", "w4a16"])
def test_weights_alone_are_no_faster_than_16_bits_on_a_long_prompt(precision):
    """Every tile widens its weights, while arithmetic stays as it was: up to a third slower, never faster by more
    than what is not read."""
    whole = {"inputs": 4096, "outputs": 1, "batch": 8}
    wide, narrow = (asked("a100-sxm-80gb", "llama3.1-8b", precision=p, **whole) for p in ("bf16", precision))
    assert wide.latency_s * 0.98 < narrow.latency_s < wide.latency_s * 1.4


def test_clocks_fall_under_the_board_s_limit():
    """72 W feed an L4's tensor cores at half of their rate; twice that, and long products are a quarter faster."""
    base = default_scenario("l4", "llama3.1-8b", precision="fp16", inputs=4096, outputs=1, batch=1)
    usual = evaluate(base)
    more = evaluate(base.with_(overrides={"devices.0.power.max": 150.0}))
    assert 0.7 < more.latency_s / usual.latency_s < 0.88
    for op in usual.ops:
        if op.name in ("gate-up", "down"):
            assert op.peak_used < 0.6


def test_a_part_with_power_to_spare_computes_as_before():
    base = default_scenario("h100-sxm", "llama3.1-8b", precision="bf16", batch=1, inputs=64, outputs=2)
    usual, more = evaluate(base), evaluate(base.with_(overrides={"devices.0.power.max": 1400.0}))
    assert more.tpot_s == pytest.approx(usual.tpot_s, rel=0.01)


@pytest.mark.parametrize("system", ["h100-sxm", "t4", "mi300x"])
def test_products_of_a_recurrence_s_inputs_are_one(system):
    """They are known before the first step: all of them together take less than a tenth of the steps' own."""
    base = default_scenario(system, "deepbench-lstm-1024")
    for fuse, share in ((True, 0.1), (False, None)):
        report = evaluate(base.with_(switches=base.switches | {"fuse": fuse}))
        apart, own = _op(report, "rnn-input").time_s, _op(report, "rnn-recurrent").time_s
        assert apart < share * own if share else apart > 0.3 * own


@pytest.mark.parametrize("system", ["h100-sxm", "a100-sxm-80gb", "mi300x"])
def test_alike_tables_are_read_by_one_call(system):
    base = default_scenario(system, "dlrm-mlperf-v1", batch=1)
    one, each = (
        _op(evaluate(base.with_(switches=base.switches | {"fuse": fuse})), "embedding").time_s for fuse in (True, False)
    )
    assert each > 10.0 * one


@pytest.mark.parametrize("system", ["l4", "t4", "a100-sxm-80gb", "l40s"])
def test_a_batch_somewhat_beyond_the_cache_is_not_much_slower_an_image(system):
    """What a cache holds of activations falls with their size, not from all to none."""
    rates = [asked(system, "resnet50", precision="int8", batch=batch).throughput_per_s for batch in (8, 16, 32)]
    assert rates[0] * 0.98 < rates[1]
    assert rates[1] * 0.98 < rates[2]


@pytest.mark.parametrize("system", ["a100-sxm-80gb", "h100-sxm", "t4"])
def test_what_rides_in_a_product_s_kernel_is_not_free(system):
    report = asked(system, "bert-large", precision="fp16", batch=32)
    riding = [op for op in report.ops if op.kind == "Gelu"]
    assert riding
    assert all(op.time_s > 0.0 for op in riding)


@pytest.mark.parametrize("system", ["a100-sxm-80gb", "h100-sxm", "b200-sxm", "l40s"])
def test_a_gate_is_a_kernel_of_its_own(system):
    """Both halves of its row are one product's columns: no tile of that holds them."""
    report = asked(system, "llama3.1-8b", precision="bf16", inputs=32, outputs=2)
    assert [op.time_s for op in report.ops if op.name == "gate"][-1] / 32 > 2e-6


@pytest.mark.parametrize("system", ["h100-sxm", "h200-sxm", "h200-nvl", "gh200-144gb"])
def test_features_cross_in_the_kernel_of_their_product(system):
    """What multiplies and what is added lie there before it: a tile reads them, and its own sums never leave it."""
    report = asked(system, "dlrm-v2", precision="int8", batch=59_940)
    crossing, others = _op(report, "cross2"), 2 * 59_940 * 27 * 128  # bytes of two operands
    assert crossing.offchip_bytes + crossing.onchip_bytes == pytest.approx(others)
    apart = _op(evaluate(report.scenario.with_(switches={**report.scenario.switches, "fuse": False})), "cross2")
    assert crossing.time_s < 0.6 * apart.time_s


def test_parts_that_were_not_measured_follow_from_their_data_sheets():
    """Twice the bandwidth, at all else alike, brings a token's pass closer to half; on every part of the family."""
    catalog = default_catalog()
    for id in catalog.ids("devices"):
        device = catalog.device(id)
        if device.kind != "gpu" or id not in catalog.ids("systems"):
            continue
        level = max(range(len(device.memory)), key=lambda i: (device.memory[i].role == "offchip", i == 0))
        if device.memory[level].bandwidth is None:
            continue
        base = default_scenario(id, "llama3.2-1b", batch=1, inputs=32, outputs=16)
        path = f"devices.0.memory.{device.memory[level].name}.bandwidth"
        more = base.with_(overrides={path: 2.0 * device.memory[level].bandwidth.si})
        assert evaluate(more).tpot_s < evaluate(base).tpot_s


@pytest.mark.parametrize("generation", sorted(fitted()))
def test_voltage_falls_with_the_clock_under_a_power_limit(generation):
    """A measured part holds what was measured; half its power costs it less than half its rate, and never nothing."""
    part = fitted()[generation]["parts"][0]
    of = reference(part)
    watts, printed = of.power, of.peak["bf16"]
    energy = next(iter(fitted()[generation]["gemm"]["bfloat16"].values()))["energy"]
    rates = [1 / draw_s(energy, share * watts, printed, (watts, printed)) for share in (1.0, 0.5, 0.25, 0.05, 0.025)]
    assert rates[0] == pytest.approx(watts / energy)
    assert rates[1] == pytest.approx(0.5 ** (1 / 3) * rates[0])
    assert all(a > b for a, b in pairwise(rates))
    assert rates[4] == pytest.approx(rates[3] / 2)  # the voltage falls no further


def test_scales_calibrated_beforehand_cost_an_encoder_nothing():
    encoder = default_scenario("h100-sxm", "bert-large").with_(batch=128, inputs=180)
    eight, sixteen = (evaluate(encoder.with_(precision=p)).latency_s for p in ("fp8", "bf16"))
    assert 1.4 < sixteen / eight < 2.0


@pytest.mark.parametrize("value", ["fp16", "fp8"])
@pytest.mark.parametrize("workload", ["llama3.1-8b", "deepseek-v3.2"])
def test_an_attention_is_told_the_bits_of_a_cache_in_a_format_of_its_own(workload: str, value: str) -> None:
    """By a field: read off its bytes an element, a latent cache, whose rows all heads read, never had 16 bits."""
    usual = default_scenario("h100-sxm", workload, precision="fp8", devices=1)
    graphs = [bind(usual.with_(kv_format=kv)).graph for kv in (None, value)]
    plain, own = (phase_table(graph.phases[-1]) for graph in graphs)
    scores = plain[:, R.ROLE] == R.SCORES
    assert scores.any()
    assert (plain[:, R.CACHE_BYTES] == 0.0).all()
    assert (own[scores, R.CACHE_BYTES] == BITS[value] / 8.0).all()
