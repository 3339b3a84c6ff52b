"""Laws of the DFX core: instruction streams that re-sum, bytes that are exact, time that never improves by accident."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analyses.machine import tile_map
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.devices.dfx import program as isa
from engine.devices.dfx.core import LayerSizes, core_record, time_program, vector_lanes
from engine.devices.dfx.fabric import dsp_slices, fabric
from engine.devices.dfx.family import TILE_SIDES
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from engine.scenario.overrides import apply_all
from hardware_specs.catalog import Catalog, default_catalog
from model_zoo.catalog import default_zoo
from tests.effort import examples

DEVICE = default_catalog().device("alveo-u280-dfx")
LINK = default_catalog().link("qsfp-100g-aurora")
MODEL = family("dfx").model(DEVICE)

LAYERS = st.builds(
    lambda heads, ffn, layers, of: LayerSizes(64.0 * heads * of[0], heads * of[0], 64, 64.0 * ffn, layers, 50257, *of),
    st.integers(2, 24),
    st.integers(4, 96),
    st.integers(1, 48),
    st.sampled_from([(1.0, False), (1.0, True), (4.0, True)]),  # GPT-2, Llama, Llama with shared key heads
)
CARDS = st.sampled_from([1, 2, 4])
FILLING = [(d, 1024 // d) for d in (8, 16, 32, 64, 128)]
TILES = st.sampled_from(FILLING)


def timed(
    part="layer",
    layer=None,
    cards=4,
    tile=(64, 16),
    context=64.0,
    chaining=True,
    prefetch=False,
    format="fp16",
    **model,
):
    layer = layer or LayerSizes(1536, 24, 64, 6144, 48, 50257)
    record = core_record(DEVICE, LINK, 1, cards, tile, MODEL | model, prefetch, format)
    return time_program(part, record, layer, context, chaining)


@settings(max_examples=examples(60), deadline=None)
@given(LAYERS, CARDS, TILES, st.integers(1, 1024), st.booleans(), st.sampled_from(["layer", "head", "token"]))
def test_busy_and_stall_make_the_total_and_roles_sum_to_it(layer, cards, tile, context, chaining, part):
    t = timed(part, layer, cards, tile, float(context), chaining)
    assert t.by_role.sum() == pytest.approx(t.cycles, rel=1e-12)
    assert (t.by_role >= -1e-9).all()
    for unit in range(len(isa.UNITS)):  # a unit does one thing at a time
        rows = np.nonzero(t.code[:, isa.UNIT] == unit)[0]
        ends = t.start[rows] + t.code[rows, isa.OCCUPY]
        assert (t.start[rows][1:] >= ends[:-1] - 1e-9).all()
        assert t.code[rows, isa.OCCUPY].sum() <= t.cycles + 1e-9


@settings(max_examples=examples(60), deadline=None)
@given(LAYERS, CARDS, st.integers(1, 1024))
def test_no_instruction_reads_early_or_overwrites_what_is_still_read(layer, cards, context):
    """Of every register: read after it was written, written after others have read it, across all units."""
    t = timed("layer", layer, cards, context=float(context), chaining=False)
    read_until: dict[int, list[tuple[int, float]]] = {}
    valid: dict[int, float] = {}
    for row, start, done in zip(t.code, t.start, t.valid, strict=True):
        unit, target, sources = int(row[isa.UNIT]), int(row[isa.DST]), {int(row[c]) for c in (isa.SRC1, isa.SRC2)}
        for source in sources - {isa.NONE}:
            assert start >= valid.get(source, 0.0) - 1e-9
            read_until.setdefault(source, []).append((unit, start + row[isa.OCCUPY]))
        assert all(start >= end - 1e-9 for other, end in read_until.get(target, []) if other != unit)
        if target != isa.NONE:
            valid[target], read_until[target] = done, []


def test_a_lone_card_has_no_ring():
    report = evaluate(default_scenario("dfx-u280", "gpt2-345m", devices=1))
    assert not [row.name for row in report.other if "ring" in row.name]
    assert evaluate(default_scenario("dfx-u280", "gpt2-345m", devices=2)).other


def test_a_context_beyond_the_learned_positions_is_refused_in_one_sentence():
    base = default_scenario("dfx-u280", "gpt2-345m", devices=1)
    assert evaluate(base.with_(inputs=1000, outputs=25)).latency_s > 0
    for inputs, outputs in ((8000, 64), (1000, 26)):
        reached = f"{inputs + outputs - 1:,}"
        with pytest.raises(
            Unsupported, match=rf"^The request reaches {reached} tokens; .* 1,024 learned positions .*\.$"
        ):
            evaluate(base.with_(inputs=inputs, outputs=outputs))


def test_more_channels_are_never_slower_and_a_second_core_is_refused():
    base = default_scenario("dfx-u280", "gpt2-345m", devices=1)
    times = [evaluate(apply_all(base, [f"devices.0.dfx.channels={n}"])).latency_s for n in (8, 16, 32, 64, 128)]
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(times))
    assert times[0] > 1.5 * times[1] > 2 * times[2]
    assert times[4] == pytest.approx(times[2], rel=1e-12)
    with pytest.raises(Unsupported, match=r"^dfx.cores is 2: .* 1 is allowed\.$"):
        evaluate(apply_all(base, ["devices.0.dfx.cores=2"]))


@settings(max_examples=examples(40), deadline=None)
@given(LAYERS, CARDS, st.integers(1, 1024))
def test_hbm_bytes_are_weights_and_cache_exactly(layer, cards, context):
    t = timed("layer", layer, cards, context=float(context))
    keys = np.ceil(layer.heads / layer.shared / cards) * layer.head
    local, part, ffn = keys * layer.shared, np.ceil(layer.width / cards), np.ceil(layer.ffn / cards)
    weights = layer.width * (local + 2 * keys + part + ffn * (1 + layer.gated)) + layer.ffn * part
    cache = 2 * context * local + 2 * keys  # every query head reads its key head's, and the new ones are written
    assert t.hbm.sum() == 2 * (weights + cache)
    for format, weight, kept in (("fp16", 2, 2), ("w8a16", 17 / 16, 2), ("int8", 1, 17 / 16)):
        for prefetch in (False, True):
            bytes_read = timed("layer", layer, cards, context=float(context), prefetch=prefetch, format=format).hbm
            assert bytes_read.sum() == pytest.approx(weight * weights + kept * cache, rel=1e-12)


@settings(max_examples=examples(40), deadline=None)
@given(LAYERS, st.integers(1, 900))
def test_longer_context_fewer_cards_and_no_chaining_are_never_faster(layer, context):
    base = timed("layer", layer, 4, context=float(context)).cycles
    assert timed("layer", layer, 4, context=float(context + 64)).cycles >= base
    assert timed("layer", layer, 4, context=float(context), chaining=False).cycles >= base
    for cards in (1, 2, 4):
        ahead, streamed = (timed("layer", layer, cards, context=float(context), prefetch=p) for p in (True, False))
        assert ahead.cycles <= streamed.cycles
    for slower in (
        {"issue": 60.0},
        {"row_cycle": 60e-9},
        {"refresh": 0.1},
        {"hbm_access": 3e-7},
        {"unexplained": 900.0},
    ):
        assert timed("layer", layer, 4, context=float(context), **slower).cycles >= base


@settings(max_examples=examples(40), deadline=None)
@given(LAYERS, CARDS, st.integers(1, 900), st.booleans(), st.sampled_from(["layer", "head"]))
def test_weights_of_half_the_bytes_are_never_slower_and_never_twice_as_fast(layer, cards, context, prefetch, part):
    wide, narrow = (
        timed(part, layer, cards, context=float(context), prefetch=prefetch, format=f).cycles for f in ("fp16", "w8a16")
    )
    deeper = 4 * 7 * (layer.gated + 7)  # what the scale adds behind each product, once or a chunk of a head
    assert wide / 2 - 1 <= narrow <= wide + deeper * (1 + layer.heads)


def test_eight_bits_halve_what_a_card_holds_and_need_a_core_that_has_them(tmp_path):
    base = default_scenario("dfx-u280", "gpt2-1.5b", devices=4, inputs=64, outputs=64)
    found = {f: evaluate(base.with_(precision=f)) for f in family("dfx").formats(DEVICE)}
    held = {f: next(m for m in r.memory if m.level == "hbm").need_bytes for f, r in found.items()}
    slices = {f: sum(fabric(DEVICE, (64, 16), f)["dsp"].values()) for f in found}
    print({f: (r.latency_s, held[f], slices[f]) for f, r in found.items()})
    assert held["w8a16"] == pytest.approx(held["fp16"] * 17 / 32, rel=0.02)
    assert held["int8"] == pytest.approx(held["fp16"] / 2, rel=0.01)
    assert slices == {"fp16": 3523, "w8a16": 3523 + 1024, "int8": 3523 - 3072 + 512 + 64 + 32}
    assert found["int8"].latency_s < found["w8a16"].latency_s < 0.75 * found["fp16"].latency_s
    for format, report in found.items():  # whichever was asked for before
        assert any(f"takes {slices[format]:,.0f} of 9,024" in a.text for a in report.assumptions)
    for format in ("w8a16", "int8"):
        assert [a for a in found[format].assumptions if "not in the document" in a.text]
        assert found[format].error_band.relative is None
    assert not [a for a in found["fp16"].assumptions if "not in the document" in a.text]
    text = next(Path("hardware_specs/devices").rglob("alveo-u280-dfx.yaml")).read_text()
    (tmp_path / "devices").mkdir()
    plain = text.replace("  formats: [fp16, w8a16, int8]\n", "").replace("id: alveo-u280-dfx", "id: plain-core")
    (tmp_path / "devices" / "plain-core.yaml").write_text(plain)
    catalog = Catalog(guests=(tmp_path,))
    lone = default_scenario("plain-core", "gpt2-345m", catalog)
    assert evaluate(lone, catalog).fits
    with pytest.raises(
        ScenarioError, match=r"^precision is 'int8': DFX core on Alveo U280 runs fp16; it multiplies no other"
    ):
        evaluate(lone.with_(precision="int8"), catalog)


def test_the_tile_of_the_fewest_slices_is_that_of_the_scenarios_format():
    tiles = tile_map(default_scenario("dfx-u280", "gpt2-345m", precision="int8"))
    assert tiles is not None
    assert tiles.best_slices == sum(fabric(DEVICE, tiles.best, "int8")["dsp"].values())


def test_offchip_bytes_of_a_request_follow_from_the_passes():
    scenario = default_scenario("dfx-u280", "gpt2-345m", devices=1, inputs=5, outputs=3)
    report = evaluate(scenario)
    width, layers, passes = 1024, 24, 7
    weights = passes * (layers * 12 * width**2 + 50257 * width)
    means = 5 * 3.0 + 2 * 6.5  # tokens 1 to 5 at their mean context, then two passes at theirs
    cache = layers * 2 * width * (means + passes)
    assert sum(op.offchip_bytes for op in report.ops) == pytest.approx(2 * (weights + cache), rel=1e-12)


def test_slices_of_the_matrix_unit_are_three_for_each_multiplier():
    for d, lanes in FILLING:
        assert dsp_slices(d, lanes, 64)["matrix function unit"] == 3 * d * lanes


@pytest.mark.parametrize("workload", ["resnet50", "gru-3200x2400", "xlm-r-large"])
def test_other_networks_are_refused_in_one_sentence(workload):
    reason = family("dfx").supports(DEVICE, default_zoo().graph(workload), "fp16")
    assert reason is not None
    assert reason.endswith(".")
    assert "\n" not in reason


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ("llama3.2-1b", None),
        ("llama2-7b", None),
        ("gpt2-774m", None),
        ("qwen3-8b", "no qk-norm"),
        ("mixtral-8x7b", "no router"),
        ("gptj-6b", "no fc1"),
    ],
)
def test_decoders_made_as_gpt2_or_llama_is_are_run_and_others_told_what_is_missing(workload, said):
    reason = family("dfx").supports(DEVICE, default_zoo().graph(workload), "fp16")
    assert (reason is None) if said is None else said in str(reason)


@pytest.mark.parametrize("cards", [1, 4, 8])
def test_a_llama_takes_the_time_of_its_programs_and_moves_its_weights_and_cache_once(cards):
    scenario = default_scenario("dfx-u280", "llama3.2-1b", devices=cards, inputs=1, outputs=1)
    report, layer = evaluate(scenario), LayerSizes(2048, 32, 64, 8192, 16, 128256, 4.0, True)
    assert LayerSizes.of(default_zoo().graph("llama3.2-1b").phases[0]) == layer
    cycles = sum(
        timed(part, layer, cards, (), 1.0).cycles * n for part, n in (("layer", 16), ("head", 1), ("token", 1))
    )
    wires = sum(row.time_s for row in report.other if row.name in ("input", "output"))
    assert report.latency_s - wires == pytest.approx(cycles / 200e6, rel=1e-9)
    weights = 16 * (2048 * (2 * 2048 + 1024) + 3 * 2048 * 8192) + 128256 * 2048
    cache = 16 * 64 * (2 * 32 + 2 * 8)  # each query head reads its key head's token; each key head writes one
    moved = sum(op.offchip_bytes for op in report.ops) * cards
    assert moved == pytest.approx(2 * (weights + cache), rel=1e-12)
    assert {"rotary", "gate-up", "gate", "down"} <= {op.name for op in report.ops if op.time_s > 0}


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
    # one level more of partial sums: 64 x 32 is back at a column after two beats, 64 x 16 after four
    assert full.latency_s <= double.latency_s < 1.0015 * full.latency_s
    assert len({sum(op.offchip_bytes for op in r.ops) for r in (full, half, eighth, double)}) == 1


def test_the_vector_unit_keeps_its_width_whatever_the_tile():
    found = {tile: sum(dsp_slices(*tile, vector_lanes(DEVICE.dfx)).values()) for tile in FILLING[1:4]}
    assert found == {(16, 64): 3715, (32, 32): 3587, (64, 16): 3523}
    base = default_scenario("dfx-u280", "gpt2-1.5b").with_(tile=(16, 64))
    assert evaluate(apply_all(base, ["devices.0.dfx.vector_lanes=16"])).latency_s > 1.02 * evaluate(base).latency_s


@pytest.mark.parametrize(("model", "cards"), [("345m", 1), ("345m", 4), ("1.5b", 4)])
def test_the_published_tile_is_the_fastest_that_fits_in_a_long_context_and_in_a_short_one(model, cards):
    def latencies(inputs, outputs):
        result = {}
        base = default_scenario("dfx-u280", f"gpt2-{model}", devices=cards, inputs=inputs, outputs=outputs)
        for tile in itertools.product(TILE_SIDES, TILE_SIDES):
            try:
                result[tile] = evaluate(base.with_(tile=tile)).latency_s
            except Unsupported:
                assert 3 * tile[0] * tile[1] > 9024 * 0.9
        return result

    for found in (latencies(768, 256), latencies(64, 64)):
        assert min(found, key=found.get) == (64, 16)


HBM = "devices.0.memory.hbm.bandwidth"
STREAMS = {
    "latency of off-chip memory": ([], "model.hbm_access=234 ns"),
    "bandwidth of off-chip memory": (["model.reads_in_flight=32", f"{HBM}=230 GB/s"], f"{HBM}=255.6 GB/s"),
    "rows of the memory's banks": (
        ["model.reads_in_flight=32", "model.interleaved_banks=1"],
        "model.row_cycle=42.3 ns",
    ),
    "the core's port to its memory": (["model.reads_in_flight=32"], "tile=64x16"),
}


@pytest.mark.parametrize(("model", "cards"), [("345m", 1), ("1.5b", 4)])
@pytest.mark.parametrize("named", STREAMS)
def test_a_verdict_names_what_sets_the_pace_of_weights(named, model, cards):
    """What it names helps by about as much as it says, and of the others none does where the port is the limit."""
    changes, lever = STREAMS[named]
    base = apply_all(default_scenario("dfx-u280", f"gpt2-{model}", devices=cards), changes)
    now = evaluate(base)
    assert now.limited_by == named
    assert any(f"{named} sets the pace" in a.text for a in now.assumptions)
    said = float(now.verdict.split("cuts latency by ")[1].split("%")[0]) / 100
    if named.startswith("the core's port"):
        levers = [lever for _, lever in STREAMS.values()][:3]
        assert all(evaluate(apply_all(base, [one])).latency_s > 0.985 * now.latency_s for one in levers)
    else:
        assert 1 - evaluate(apply_all(base, [lever])).latency_s / now.latency_s == pytest.approx(said, abs=0.006)


def test_registers_lie_in_blocks_of_their_own():
    """A memory of 1 KiB holds no vector of 6,144 elements, whatever another kind of block has room for."""
    base = default_scenario("dfx-u280", "gpt2-1.5b")
    assert evaluate(base).fits
    for small in ("1 KiB", "10 KiB"):
        report = evaluate(apply_all(base, [f"devices.0.memory.uram.capacity={small}"]))
        assert not report.fits
        assert "URAM" in report.verdict
    assert evaluate(apply_all(base, ["devices.0.memory.uram.capacity=1 MiB"])).fits


MEMORY = {
    HBM: ("230 GB/s", "460 GB/s", "900 GB/s"),
    "devices.0.dfx.channels": (4, 8, 16, 32),
    "devices.0.dfx.clock": ("100 MHz", "200 MHz", "400 MHz"),
    "model.reads_in_flight": (1, 2, 6, 32),
    "model.interleaved_banks": (1, 2, 16, 64),
    "model.hbm_access": ("290 ns", "200 ns", "110 ns"),
    "model.row_cycle": ("59 ns", "47 ns", "0 ns"),
    "model.refresh": (0.12, 0.067, 0),
}


@pytest.mark.parametrize("format", ["fp16", "w8a16", "int8"])
@pytest.mark.parametrize(
    "beside", [(), ("model.reads_in_flight=32",), ("model.interleaved_banks=1",), ("devices.0.dfx.clock=400 MHz",)]
)
def test_a_better_memory_is_never_slower(beside, format):
    base = apply_all(default_scenario("dfx-u280", "gpt2-345m", devices=2, outputs=4, precision=format), list(beside))
    for path, values in MEMORY.items():
        if any(one.startswith(path) for one in beside):
            continue
        times = [evaluate(apply_all(base, [f"{path}={value}"])).latency_s for value in values]
        assert times == sorted(times, reverse=True), path
        assert times[0] > times[-1] or path.startswith("model."), path
