"""The DFX machine against its twins: bits of FP16, tokens of float32, cycles of a slow scoreboard."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.devices import family
from engine.devices.dfx import program as isa
from engine.devices.dfx.answers import accuracy
from engine.devices.dfx.arithmetic import accumulate, gelu_table
from engine.devices.dfx.core import LayerSizes, core_record, time_program
from engine.devices.dfx.decoder import DIRECTION, program_of
from engine.devices.dfx.family import TILE_SIDES
from engine.devices.dfx.machine import DfxMachine, random_decoder
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.effort import examples
from tests.reference import naive_dfx
from tests.reference.float_decoder import generate, reference_logits

DEVICE = default_catalog().device("alveo-u280-dfx")
LINK = default_catalog().link("qsfp-100g-aurora")
MODEL = family("dfx").model(DEVICE)
PROMPT = [1, 5, 9, 200]


def machine(model, cards=1, tile=(64, 16), prefetch=False, format="fp16", **changed):
    return DfxMachine(model, core_record(DEVICE, LINK, 1, cards, tile, MODEL | changed, prefetch, format), format)


@cache
def reference(seed):
    model = random_decoder(seed=seed)
    return model, generate(model, PROMPT, 16)


@pytest.mark.parametrize("cards", [1, 2, 4])
@pytest.mark.parametrize("seed", [4, 5])  # whose leads are larger than what half precision moves
def test_sixteen_tokens_equal_the_float32_reference_on_one_two_and_four_cores(seed, cards):
    model, wanted = reference(seed)
    assert len(set(wanted)) > 5
    run = machine(model, cards)
    made = run.generate(PROMPT, 16)
    assert made == wanted
    exact = reference_logits(model, PROMPT + made[:-1])[-1]
    assert 0 < np.abs(run.logits - exact).max() < 0.03 * exact.std()


def test_the_number_of_cores_changes_no_bit():
    model = random_decoder(heads=4, seed=3)
    runs = [machine(model, cards) for cards in (1, 2, 3, 4)]
    for token, position in ((7, 0), (8, 1), (9, 2)):
        best = {run.step(token, position) for run in runs}
        assert len(best) == 1
    for run in runs[1:]:
        assert (run.logits.view(np.uint16) == runs[0].logits.view(np.uint16)).all()


@pytest.mark.parametrize("tile", [(64, 16), (32, 32), (8, 128)])
def test_bit_exact_against_the_slow_twin(tile):
    model = random_decoder(heads=2, layers=1, vocab=48, head=32, seed=5)
    run = machine(model, 2, tile)
    for position, token in enumerate((3, 14, 40)):
        run.step(token, position)
    turns = {(64, 16): 3, (32, 32): 11, (8, 128): 11}[tile]  # an adder of 11 stages, back at a column every d / l beats
    slow = naive_dfx.logits(model, [3, 14, 40], tile[0], turns)
    assert (run.logits.view(np.uint16) == slow.view(np.uint16)).all()


@pytest.mark.parametrize("direction", ["horizontal", "vertical"])
def test_bit_exact_against_the_slow_twin_in_every_load_direction(direction):
    """Sums of 40 columns of 16 lanes come back after three beats, those of a column alone after every one."""
    model = random_decoder(heads=2, layers=1, vocab=40, head=64, seed=5)
    turns = {"vertical": lambda columns: 11, "horizontal": lambda columns: -(-11 // max(4, -(-columns // 16)))}
    run = machine(model, **DIRECTION.settings[direction].parameters)
    bits = []
    for sums, one in ((turns[direction], run), (3, machine(model))):
        for position, token in enumerate((3, 14, 39)):
            one.step(token, position)
        assert (one.logits.view(np.uint16) == naive_dfx.logits(model, [3, 14, 39], 64, sums).view(np.uint16)).all()
        bits.append(one.logits.view(np.uint16))
    assert (bits[0] != bits[1]).any()  # another order of sums


@pytest.mark.parametrize("format", ["w8a16", "int8"])
@pytest.mark.parametrize(("cards", "prefetch"), [(1, False), (1, True), (2, False)])
def test_weights_of_eight_bits_give_the_bits_of_the_slow_twin(cards, prefetch, format):
    model = random_decoder(heads=2, layers=1, vocab=40, head=32, seed=5)
    run = machine(model, cards, prefetch=prefetch, format=format)
    for position, token in enumerate((3, 14, 39)):
        run.step(token, position)
    slow, wide = (naive_dfx.logits(model, [3, 14, 39], 64, 3, one) for one in (format, "fp16"))
    assert (run.logits.view(np.uint16) == slow.view(np.uint16)).all()
    assert (run.logits != wide).any()


def test_narrower_weights_cost_logits_more_error_each_within_what_its_rounding_can():
    """Of a drawn network: half precision below 8 bits in groups, those below 8 bits of everything."""
    found = {f: accuracy(core_record(DEVICE, None, 1, 1, (), MODEL, format=f), f) for f in ("fp16", "w8a16", "int8")}
    print({f: (a.agreement, round(a.deviation, 4)) for f, a in found.items()})
    off = [a.deviation for a in found.values()]
    assert 2 * off[0] < off[1] < off[2] < 0.2
    assert all(a.agreement == 16 for a in found.values())


GATED = {"heads": 4, "layers": 1, "vocab": 48, "head": 16, "ffn": 88, "shared": 2, "gated": True}


@pytest.mark.parametrize(("cards", "prefetch"), [(1, False), (1, True), (2, False), (2, True), (4, True)])
def test_a_small_llama_equals_its_slow_twin_bit_for_bit_on_any_number_of_cores(cards, prefetch):
    model = random_decoder(seed=6, **GATED)
    run = machine(model, cards, prefetch=prefetch)
    for position, token in enumerate((3, 14, 40)):
        run.step(token, position)
    slow = naive_dfx.gated_logits(model, [3, 14, 40], 64, 3)
    assert (run.logits.view(np.uint16) == slow.view(np.uint16)).all()


@pytest.mark.parametrize("cards", [1, 2])
def test_twelve_tokens_of_a_small_llama_equal_the_float32_reference(cards):
    model = random_decoder(heads=4, head=64, layers=2, ffn=352, shared=2, gated=True, seed=2)
    wanted = generate(model, PROMPT, 12)
    assert len(set(wanted)) > 5
    assert machine(model, cards).generate(PROMPT, 12) == wanted


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 1600), st.sampled_from([8, 16, 64, 128]), st.integers(0, 2**32 - 1))
def test_running_sums_equal_the_slow_twin_bit_for_bit(length, lanes, seed):
    x = np.random.default_rng(seed).normal(0, 4, length).astype(np.float16)
    assert accumulate(x, lanes, 11).view(np.uint16) == naive_dfx.beats(x, lanes).view(np.uint16)


def test_gelu_table_is_as_close_as_half_precision_allows():
    x = np.linspace(-10, 10, 20001).astype(np.float16)
    wide = x.astype(np.float64)
    exact = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    assert np.mean((gelu_table(x) - exact) ** 2) < 1e-6
    assert np.abs(gelu_table(x) - exact).max() < 0.004


@settings(max_examples=examples(200), deadline=None)
@given(
    heads=st.integers(1, 25),
    layers=st.integers(1, 48),
    cards=st.sampled_from([1, 2, 4]),
    tile=st.sampled_from([(d, 1024 // d) for d in TILE_SIDES]),
    context=st.integers(1, 1024),
    chaining=st.booleans(),
    row=st.floats(0, 1e-7),
    issue=st.integers(0, 300),
)
def test_priced_cycles_are_those_of_the_instruction_run(heads, layers, cards, tile, context, chaining, row, issue):
    record = core_record(
        DEVICE, LINK, 1, cards, tile, MODEL | {"interleaved_banks": 1.0, "row_cycle": row, "issue": float(issue)}
    )
    layer = LayerSizes(64.0 * heads, heads, 64.0, 256.0 * heads, layers, 50257.0)
    for part in ("layer", "head", "token"):
        timed = time_program(part, record, layer, float(context), chaining)
        cycles, _ = naive_dfx.run(timed.code, len(timed.code), chaining)
        assert timed.cycles == pytest.approx(cycles, rel=1e-12)


def test_a_pass_is_its_programs():
    report = evaluate(default_scenario("dfx-u280", "gpt2-345m", devices=2, inputs=1, outputs=1))
    graph = default_zoo().graph("gpt2-345m")
    record = core_record(DEVICE, LINK, 1, 2, (), MODEL)
    layer = LayerSizes.of(graph.phases[0])
    cycles = sum(
        times * naive_dfx.run(t.code, len(t.code), True)[0]
        for t, times in (
            (time_program("layer", record, layer, 1.0, True), 24),
            (time_program("head", record, layer, 0.0, True), 1),
            (time_program("token", record, layer, 0.0, True), 1),
        )
    )
    wires = sum(row.time_s for row in report.other if row.name in ("input", "output"))
    assert report.latency_s - wires == pytest.approx(cycles / 200e6, rel=1e-9)


def test_functional_and_timed_runs_share_one_program():
    used = set()
    for gated in (False, True):
        model = random_decoder(heads=2, layers=1, vocab=64, gated=gated)
        seen = []
        run = machine(model, 2, prefetch=gated)
        whole = run._run
        run._run = lambda program, seen=seen, whole=whole: (seen.append(program), whole(program))[1]
        run.step(1, 0)
        layer = LayerSizes(128.0, 2, 64.0, 512.0, 1, 64.0, gated=gated)
        record = core_record(DEVICE, LINK, 1, 2, (64, 16), MODEL, gated)
        for part, program in zip(("token", "layer", "head"), seen, strict=True):
            timed = time_program(part, record, layer, 1.0 if part == "layer" else 0.0, True)
            assert (timed.code == isa.encode(program, record)).all()
        used |= {instr.op for program in seen for instr in program}
        lone = core_record(DEVICE, LINK, 1, 1, (64, 16), MODEL)
        for part, source in (("layer", isa.X), ("head", isa.NEXT)):  # a card of a pipeline sends what it made
            *made, last = program_of(f"{part}-send", lone, layer, 1.0)
            assert made == program_of(part, lone, layer, 1.0)
            assert (last.op, last.src1) == (isa.SEND, source)
            used.add(last.op)
    assert used == set(range(len(isa.MNEMONICS)))


def test_accuracy_reports_tokens_and_deviation():
    found = accuracy(core_record(DEVICE, LINK, 1, 2, (), MODEL))
    assert found.agreement == 16
    assert 0 < found.deviation < found.lead < 0.03
