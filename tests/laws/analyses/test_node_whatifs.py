"""Padding, host work, and section VIII's what-ifs: each switch moves what it should, and only where it can."""

import numpy as np
import pytest

from engine.devices.card.embedding_bags import list_lengths, overflow
from engine.devices.card.padding import COMPILED_LENGTHS, padded_length
from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.resolve.choices import choices, default_scenario
from engine.scenario import Scenario, ScenarioError, decode, encode
from engine.sweep import FIGURES, figures_of, price, space_of


def _with(scenario: Scenario, **on: bool) -> Scenario:
    return scenario.with_(switches={**scenario.switches, **{k.replace("_", "-"): v for k, v in on.items()}})


def _text(**changes) -> Scenario:
    return default_scenario("fb-node", "xlm-r-large", **({"scheme": "replicas", "inputs": 40} | changes))


def _seconds(scenario: Scenario) -> float:
    return evaluate(scenario).latency_s


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize(
    ("mean", "spread", "batch"), [(40.0, 0.5, 1), (40.0, 0.5, 8), (100.0, 0.8, 4), (20.0, 0.3, 16)]
)
def test_padding_is_what_drawn_sentences_would_need(mean, spread, batch, alike):
    rng = np.random.default_rng(3)
    drawn = rng.lognormal(np.log(mean) - spread**2 / 2, spread, (200_000, 1 if alike else batch)).max(axis=1)
    steps = np.array(COMPILED_LENGTHS)
    want = steps[np.minimum(np.searchsorted(steps, drawn), len(steps) - 1)].mean()
    assert padded_length(mean, spread, batch, COMPILED_LENGTHS, alike) == pytest.approx(want, rel=0.01)


def test_sentences_all_alike_take_the_next_length():
    for mean, want in ((32.0, 32.0), (33.0, 64.0), (512.0, 512.0), (700.0, 700.0)):
        for alike in (True, False):
            assert padded_length(mean, 0.0, 8, COMPILED_LENGTHS, alike) == want


def test_buckets_and_like_lengths_save_work_and_padding_costs_some():
    exact = _text(batch=8)
    padded = _with(exact, static_shapes=True)
    naive, single = _with(padded, like_lengths=False), _with(padded, padding_buckets=False)
    assert _seconds(exact) < _seconds(padded) < _seconds(naive) < _seconds(single)
    assert any("are padded to" in a.text for a in evaluate(padded).assumptions)
    alone = _text(batch=1)
    assert _seconds(_with(alone, static_shapes=True)) == pytest.approx(
        _seconds(_with(alone, static_shapes=True, like_lengths=False))
    )  # a batch of one has nobody to wait for
    assert _seconds(_with(exact, padding_buckets=False)) == _seconds(exact)  # without padding there is no bucket


def test_a_sweep_over_lengths_and_batches_sees_the_padding():
    axes = {
        "inputs": [20, 40, 90],
        "batch": [1, 4],
        "model.length_spread": [0.0, 0.6],
        "switches.static-shapes": [True, False],
        "switches.like-lengths": [False, True],
    }
    scenario = {"system": "fb-node", "workload": "xlm-r-large", "scheme": "replicas"}
    space = space_of({"scenario": scenario, "axes": axes, "constraints": []})
    values, bad, _ = price(space)
    assert not bad.any()
    for number in range(0, space.size, 3):
        figures = figures_of(space, number)
        for name, value in zip(FIGURES, values[:, number], strict=True):
            assert np.float64(figures[name]).tobytes() == np.float64(value).tobytes(), (name, space.values(number))


def test_a_sweep_over_streams_shares_the_hosts_cores_as_evaluate_does():
    """Copies of a stage on the host follow the streams: a sweep kept those of its first design."""
    scenario = default_scenario("fb-node", "resnext3d-101", scheme="replicas", switches={"host-decode": True})
    space = space_of({"scenario": scenario.model_dump(), "axes": {"streams": [1, 2, 4]}, "constraints": []})
    values, bad, _ = price(space)
    assert not bad.any()
    for number in range(space.size):
        figures = figures_of(space, number)
        for name, value in zip(FIGURES, values[:, number], strict=True):
            assert np.float64(figures[name]).tobytes() == np.float64(value).tobytes(), (name, space.values(number))


def test_embedding_on_the_host_takes_tables_off_the_card_and_bytes_onto_the_link():
    card = _text()
    host = _with(card, host_embedding=True)
    held = [max(m.need_bytes for m in evaluate(s).memory if m.role == "offchip" and "net" in m.device) for s in (host,)]
    assert held[0] < evaluate(card).memory[0].need_bytes - 400e6
    moved = [next(r for r in evaluate(s).links if r.role == "peer").bytes_per_request for s in (card, host)]
    assert moved[1] == pytest.approx(moved[0] - 40 * 2 + 40 * 1024 * 2, rel=0.01)
    assert evaluate(host).breakdown["host"] > 0


def test_two_nets_share_the_cores_and_carry_more_requests():
    one = default_scenario("fb-card", "fbnetv3-detection")
    two = _with(one, two_nets=True)
    a, b = evaluate(one), evaluate(two)
    assert b.throughput_per_s > a.throughput_per_s
    assert b.latency_s > a.latency_s
    cores = dict(b.tile)["sparse-cores"]
    rates = {n: evaluate(two.with_(tile=(n,))).throughput_per_s for n in range(1, 12)}
    assert max(rates, key=lambda n: rates[n]) == cores
    assert any(row.name == "after rpn-nms" for row in b.other)


def test_decoding_on_the_host_is_the_bottleneck_and_a_decoder_beside_the_card_is_less_so():
    elsewhere = default_scenario("fb-node", "resnext3d-101", scheme="replicas")
    host, unit = _with(elsewhere, host_decode=True), _with(elsewhere, hardware_decode=True)
    a, b, c = evaluate(elsewhere), evaluate(host), evaluate(unit)
    assert b.throughput_per_s < a.throughput_per_s / 5
    assert b.bound == "host"
    assert b.throughput_per_s == pytest.approx(18 * 2e9 / 15 / 27.6e6, rel=0.01)  # all host cores decode, nothing else
    assert c.latency_s < b.latency_s
    sent = [next(r for r in evaluate(s).links if r.role == "host").bytes_per_request for s in (host, unit)]
    assert sent[0] < sent[1]  # a small clip's raw frames are fewer bytes than a second of video


def test_tables_beyond_lpddr_go_to_the_tier_behind_it():
    base = default_scenario("fb-node", "dlrm-more-complex", params={"rows": 30_000_000})
    behind, anyhow = _with(base, nvm_tier=True), _with(base, nvm_tier=True, nvm_locality=False)
    assert not evaluate(base).fits
    found, worse = evaluate(behind), evaluate(anyhow)
    assert found.fits
    rows = {m.level: m for m in found.memory if "sparse" in m.device}
    total = 160 * 30e6 * (64 * 0.75 + 4)  # and each row's scale and offset
    assert 6 * (rows["nvm"].need_bytes + rows["lpddr"].need_bytes) == pytest.approx(total, rel=0.01)
    assert found.throughput_per_s > 2 * worse.throughput_per_s
    fits = default_scenario("fb-node", "dlrm-more-complex")
    assert _seconds(_with(fits, nvm_tier=True)) == _seconds(fits)
    fast = behind.with_(overrides={"model.nvm_rate": 23e9})
    assert evaluate(fast).throughput_per_s > found.throughput_per_s


def test_rarely_read_tables_take_fewer_lookups_with_them():
    lengths = list_lengths(160, 8.0, 0.8, 0.2)
    assert overflow(lengths, 0, True) == 0
    assert overflow(lengths, 80, True) < overflow(lengths, 80, False) == 0.5
    assert overflow(lengths, 160, True) == pytest.approx(1)
    assert overflow(lengths, 32, True) == pytest.approx(32 / 1280, rel=0.01)  # the tables of one lookup


def test_dynamic_ranges_cost_passes_that_hardware_saves_in_part():
    low = _text(precision="int8")
    searched, collected = _with(low, dynamic_ranges=True, range_units=False), _with(low, dynamic_ranges=True)
    assert _seconds(low) < _seconds(collected) < _seconds(searched)
    wide = _text(precision="fp16")
    assert _seconds(_with(wide, dynamic_ranges=True)) == _seconds(wide)
    names = {op.name for op in bind(collected).graph.phases[0].ops}
    assert names > {op.name for op in bind(low).graph.phases[0].ops} - {"gelu-quantize"}


def test_pruned_weights_pay_where_weights_are_waited_for():
    text, small = _text(inputs=32), default_scenario("fb-card", "resnext101-32x4d")
    assert _seconds(text) / _seconds(_with(text, pruned=True)) > 1.3
    assert _seconds(small) / _seconds(_with(small, pruned=True)) == pytest.approx(1, abs=0.02)


def test_bfloat16_costs_what_fp16_does():
    assert _seconds(_text(precision="bf16")) == _seconds(_text(precision="fp16"))


def test_a_plan_of_layers_lies_between_the_formats_it_mixes():
    text = _text(inputs=32, precision="int8")
    some = text.with_(layers={"fc1": "fp16", "query": "fp16"})
    every = text.with_(layers=dict.fromkeys(("query", "key", "value", "attention-out", "fc1", "fc2"), "fp16"))
    assert _seconds(text) < _seconds(some) < _seconds(every)
    assert _seconds(every) == pytest.approx(_seconds(text.with_(precision="fp16")), rel=0.02)
    bytes_ = {op.name: op.offchip_bytes for op in evaluate(some).ops}
    assert bytes_["fc1"] > 1.2 * {op.name: op.offchip_bytes for op in evaluate(text).ops}["fc1"]
    assert decode(encode(some)).layers == some.layers
    assert _seconds(text.with_(layers={"fc1": "int8"})) == _seconds(text)
    cpu = default_scenario("xeon-8280l", "wide-deep-criteo", precision="int8")
    names = [op.name for op in bind(cpu).graph.phases[0].ops if op.contraction]
    assert _seconds(cpu.with_(layers={names[0]: "fp32"})) > _seconds(cpu)


def test_a_plan_that_fits_nothing_is_refused_in_a_sentence():
    text = _text(precision="int8")
    for layers, word in (({"softmax": "fp16"}, "layers.softmax"), ({"fc1": "fp32"}, "int8 or fp16")):
        with pytest.raises(ScenarioError, match=word):
            evaluate(text.with_(layers=layers))
    with pytest.raises(ScenarioError, match="one format"):
        evaluate(default_scenario("h100-sxm", "bert-base").with_(layers={"fc1": "fp16"}))


def test_only_switches_that_can_matter_are_offered():
    text = {s.name for s in choices(_text()).switches}
    tables = {s.name for s in choices(default_scenario("fb-node", "dlrm-more-complex")).switches}
    assert "static-shapes" in text - tables
    assert "peer-to-peer" in tables - text
    assert {"fuse", "pruned"} <= text & tables
