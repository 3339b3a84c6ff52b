"""Laws of the DFX core: instruction streams that re-sum, bytes that are exact, time that never improves by accident."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.devices.dfx import program as isa
from engine.devices.dfx.core import LayerSizes, core_record, time_program
from engine.devices.dfx.family import TILE_SIDES
from engine.devices.dfx.tiling import CANDIDATES, dsp_slices
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario.overrides import apply_all
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

DEVICE = default_catalog().device("alveo-u280-dfx")
LINK = default_catalog().link("qsfp-100g-aurora")
MODEL = family("dfx").model(DEVICE)

LAYERS = st.builds(
    lambda heads, ffn, layers: LayerSizes(64.0 * heads, heads, 64, 64.0 * ffn, layers, 50257),
    st.integers(2, 24),
    st.integers(4, 96),
    st.integers(1, 48),
)
CARDS = st.sampled_from([1, 2, 4])
TILES = st.sampled_from(CANDIDATES)


def timed(part="layer", layer=None, cards=4, tile=(64, 16), context=64.0, chaining=True, **model):
    layer = layer or LayerSizes(1536, 24, 64, 6144, 48, 50257)
    record = core_record(DEVICE, LINK, 1, cards, tile, MODEL | model)
    return time_program(part, record, layer, context, chaining)


@settings(max_examples=60, deadline=None)
@given(LAYERS, CARDS, TILES, st.integers(1, 1024), st.booleans(), st.sampled_from(["layer", "head", "token"]))
def test_busy_and_stall_make_the_total_and_roles_sum_to_it(layer, cards, tile, context, chaining, part):
    t = timed(part, layer, cards, tile, float(context), chaining)
    assert t.by_role.sum() == pytest.approx(t.cycles, rel=1e-12)
    assert (t.by_role >= -1e-9).all()
    assert (t.busy <= t.cycles + 1e-9).all()
    for unit in range(len(isa.UNITS)):  # a unit does one thing at a time
        rows = np.nonzero(t.code[:, isa.UNIT] == unit)[0]
        ends = t.start[rows] + t.code[rows, isa.OCCUPY]
        assert (t.start[rows][1:] >= ends[:-1] - 1e-9).all()
        assert t.busy[unit] == pytest.approx(t.code[rows, isa.OCCUPY].sum())


@settings(max_examples=60, deadline=None)
@given(LAYERS, CARDS, st.integers(1, 1024))
def test_no_instruction_starts_before_its_operands(layer, cards, context):
    t = timed("layer", layer, cards, context=float(context), chaining=False)
    for column in (isa.DEP1, isa.DEP2):
        dep = t.code[:, column].astype(int)
        has = dep >= 0
        assert (dep[has] < np.nonzero(has)[0]).all()
        assert (t.start[has] >= t.done[dep[has]] - 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(LAYERS, CARDS, st.integers(1, 1024))
def test_hbm_bytes_are_weights_and_cache_exactly(layer, cards, context):
    t = timed("layer", layer, cards, context=float(context))
    heads = np.ceil(layer.heads / cards)
    local, part, ffn = heads * layer.head, np.ceil(layer.width / cards), np.ceil(layer.ffn / cards)
    weights = layer.width * (3 * local + part + ffn) + layer.ffn * part
    cache = 2 * context * local + 2 * local  # read, and the new key and value written
    assert t.hbm.sum() == 2 * (weights + cache)


@settings(max_examples=40, deadline=None)
@given(LAYERS, st.integers(1, 900))
def test_longer_context_fewer_cards_and_no_chaining_are_never_faster(layer, context):
    base = timed("layer", layer, 4, context=float(context)).cycles
    assert timed("layer", layer, 4, context=float(context + 64)).cycles >= base
    assert timed("layer", layer, 4, context=float(context), chaining=False).cycles >= base
    assert timed("layer", layer, 4, context=float(context), handoff=1200.0).cycles >= base
    assert timed("layer", layer, 4, context=float(context), burst_gap=5.0).cycles >= base


def test_more_bandwidth_is_never_slower_and_less_is():
    base = default_scenario("dfx-u280", "gpt2-345m")
    more = evaluate(apply_all(base, ["devices.0.memory.hbm.bandwidth=900 GB/s"])).latency_s
    less = evaluate(apply_all(base, ["devices.0.memory.hbm.bandwidth=100 GB/s"])).latency_s
    assert more <= evaluate(base).latency_s < less


def test_offchip_bytes_of_a_request_follow_from_the_passes():
    scenario = default_scenario("dfx-u280", "gpt2-345m", devices=1, inputs=5, outputs=3)
    report = evaluate(scenario)
    width, layers, passes = 1024, 24, 7
    weights = passes * (layers * 12 * width**2 + 50257 * width)
    means = 5 * 3.0 + 2 * 6.5  # tokens 1 to 5 at their mean context, then two passes at theirs
    cache = layers * 2 * width * (means + passes)
    assert sum(op.offchip_bytes for op in report.ops) == pytest.approx(2 * (weights + cache), rel=1e-12)


def test_slices_of_the_matrix_unit_are_three_for_each_multiplier():
    for d, lanes in CANDIDATES:
        assert dsp_slices(d, lanes, 64)["matrix function unit"] == 3 * d * lanes


@pytest.mark.parametrize("workload", ["resnet50", "gru-3200x2400", "xlm-r-large"])
def test_other_networks_are_refused_in_one_sentence(workload):
    reason = family("dfx").supports(DEVICE, default_zoo().graph(workload), "fp16")
    assert reason is not None
    assert reason.endswith(".")
    assert "\n" not in reason


def test_skipping_the_head_of_input_tokens_saves_time():
    base = default_scenario("dfx-u280", "gpt2-345m", devices=1)
    saved = base.with_(switches={**base.switches, "skip_head": True})
    assert evaluate(saved).latency_s < evaluate(base).latency_s


def test_a_tile_beyond_the_parts_slices_is_refused_in_one_sentence():
    base = default_scenario("dfx-u280", "gpt2-345m", devices=1)
    with pytest.raises(Unsupported, match=r"takes .* DSP slices; .* has 9,024\.$"):
        evaluate(base.with_(tile=(128, 128)))
    assert evaluate(base.with_(tile=(64, 16))).latency_s == evaluate(base).latency_s


def test_a_tile_narrower_than_the_memory_port_leaves_channels_idle_and_a_wider_one_waits():
    base = default_scenario("dfx-u280", "gpt2-345m", devices=1)
    full, half, eighth, double = (evaluate(base.with_(tile=tile)) for tile in ((64, 16), (64, 8), (8, 16), (64, 32)))
    assert half.latency_s > 1.5 * full.latency_s
    assert eighth.latency_s > 5 * full.latency_s
    assert eighth.bound == "compute"
    assert full.bound == "offchip"
    assert full.latency_s <= double.latency_s < 1.001 * full.latency_s
    assert len({sum(op.offchip_bytes for op in r.ops) for r in (full, half, eighth, double)}) == 1


def test_the_vector_unit_is_as_wide_as_the_tile():
    base = default_scenario("dfx-u280", "gpt2-1.5b")
    narrow, wide = base.with_(tile=(16, 64)), base.with_(tile=(64, 16))
    own = apply_all(narrow, ["devices.0.dfx.vector_lanes=256"])  # four times as wide as d
    assert evaluate(narrow).latency_s > 1.02 * evaluate(wide).latency_s
    assert evaluate(own).latency_s < evaluate(wide).latency_s  # a shallower tree in front of as wide a vector unit


@pytest.mark.parametrize(("model", "cards"), [("345m", 1), ("345m", 4), ("1.5b", 4)])
def test_the_published_tile_is_the_fastest_that_fits_in_a_long_context_and_a_hair_off_in_a_short_one(model, cards):
    def latencies(inputs, outputs):
        found = {}
        base = default_scenario("dfx-u280", f"gpt2-{model}", devices=cards, inputs=inputs, outputs=outputs)
        for tile in itertools.product(TILE_SIDES, TILE_SIDES):
            try:
                found[tile] = evaluate(base.with_(tile=tile)).latency_s
            except Unsupported:
                assert 3 * tile[0] * tile[1] > 9024 * 0.9
        return found

    long, short = latencies(768, 256), latencies(64, 64)
    assert min(long, key=long.get) == (64, 16)
    assert short[64, 16] < 1.004 * min(short.values())


def test_a_port_slower_than_the_memory_is_named_as_the_limit_and_is_one():
    base = default_scenario("dfx-u280", "gpt2-1.5b")

    def run(*changes: str):
        report = evaluate(apply_all(base, list(changes)))
        return report.latency_s, any("that port is the off-chip limit" in a.text for a in report.assumptions)

    bandwidth, clock = "devices.0.memory.hbm.bandwidth", "devices.0.dfx.clock"
    assert run() == run(f"{bandwidth}=900 GB/s") == (run()[0], True)
    assert run(f"{bandwidth}=400 GB/s")[1] is False
    assert run(f"{clock}=230 MHz")[1] is False
