"""Programs as text: round trips, numbers beside an oracle, hazards, and one sentence for what is wrong."""

import dataclasses
import itertools
import random

import numpy as np
import pytest

from engine.analyses.machine import execute, listing, program_text
from engine.cli.main import main
from engine.devices import family
from engine.devices.common.instruction_set import PARTS, ProgramError
from engine.devices.dfx import assembly as dfx_text
from engine.devices.dfx import program as isa
from engine.devices.dfx.core import core_record
from engine.devices.dfx.decoder import program_of
from engine.devices.dfx.machine import DfxMachine, random_decoder
from engine.devices.dfx.program import LayerSizes
from engine.devices.npu import assembly as npu_text
from engine.devices.npu.chains import CELLS, CELLS_IN_ORDER
from engine.devices.npu.machine import Processor, arithmetic
from engine.devices.npu.programs import attention, convolution, mlp, sequence
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from hardware_specs.catalog import default_catalog
from tests.each import each
from tests.effort import examples
from tests.reference.dfx_oracle import Oracle
from tests.reference.npu_oracle import exact

DFX = default_scenario("dfx-u280", "gpt2-345m", devices=1, scheme="single")
NPU = default_scenario("brainwave-s10-pre", "deepbench-gru-512", devices=1, scheme="single")
RTL = default_scenario("npu-rtl", "deepbench-gru-512", devices=1, scheme="single")
SHIPPED = {
    **{
        f"{name} {cell}": cells
        for name, table in (("any", CELLS), ("order", CELLS_IN_ORDER))
        for cell, cells in table.items()
    },
    **{f"sequence of {cell}": sequence(step, 3) for cell, step in CELLS.items()},
    "mlp": mlp(3),
    "convolution": convolution((4, 5), (3, 3)),
    "attention": attention(4),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_program_of_the_vector_processor_survives_its_text(name):
    program = npu_text.NpuProgram(SHIPPED[name], {"x": 40, "zero": 8}, {"W": (40, 30)})
    again = npu_text.assemble(npu_text.disassemble(program))
    assert (again.instructions, again.vectors, again.matrices) == (
        program.instructions,
        program.vectors,
        program.matrices,
    )


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("cards", [1, 2, 4])
def test_a_shipped_program_of_the_transformer_core_survives_its_text(part, cards):
    device = default_catalog().device("alveo-u280-dfx")
    gpt2, llama = (LayerSizes(1536.0, 24.0, 64.0, 6144.0, 48, 50257.0, *more) for more in ((), (4.0, True)))
    for layer, prefetch in itertools.product((gpt2, llama), (False, True)):
        record = core_record(device, None, 1, cards, (), family("dfx").model(device), prefetch)
        program = program_of(part, record, layer, 77.0)
        again = dfx_text.assemble(dfx_text.disassemble(dfx_text.DfxProgram(tuple(program))))
        assert list(again.instructions) == program
        dfx_text.check(again)


@pytest.mark.parametrize(("scenario", "steps"), [(RTL, 1), (NPU, 1)])
def test_a_listing_takes_what_the_price_takes(scenario, steps):
    found, one = listing(scenario, program_text(scenario)), evaluate(scenario.with_(inputs=steps))
    inside = one.latency_s - one.breakdown["links"] - sum(r.time_s for r in one.other if r.name.startswith("start"))
    if scenario is RTL:
        assert found.seconds == pytest.approx(inside, rel=1e-9)
    else:  # the price leaves the first input's products to the start of the sequence
        assert inside <= found.seconds < one.latency_s - one.breakdown["links"]


def test_the_layer_listed_is_the_layer_priced():
    found = listing(DFX.with_(inputs=1, outputs=1), program_text(DFX.with_(inputs=1, outputs=1)))
    report = evaluate(DFX.with_(inputs=1, outputs=1))
    groups = ("self-attention", "feed-forward", "layer-norm+residual")
    layers = sum(op.time_s for op in report.ops if op.group in groups and op.name != "final-norm")
    assert 24 * found.seconds == pytest.approx(layers, rel=1e-9)


def test_weights_loaded_while_the_cards_are_waited_for_are_there_when_they_answer():
    """The same layer with its weights fetched behind norms and synchronisations: the same numbers, in less time."""
    for cards in (1, 4):
        layer = RING.with_(devices=cards, inputs=64)
        ahead = layer.with_(switches={**layer.switches, "prefetch": True})
        text = program_text(ahead)
        fetched, streamed = listing(ahead, text), listing(layer, program_text(layer))
        assert text.count("load.weights") == (2 if cards == 1 else 4)  # behind norms, and the cards' synchronisations
        assert fetched.cycles < (0.99 if cards == 1 else 0.88) * streamed.cycles
        assert evaluate(ahead).latency_s < evaluate(layer).latency_s
        for load in (row for row in fetched.rows if row.text.startswith("load.weights")):
            follows = fetched.rows[load.number + 1]  # a norm's first instruction, or a synchronisation
            assert load.start <= follows.start
            assert load.end <= follows.valid or not follows.text.startswith("sync")
    layer = RING.with_(devices=2)
    ahead = layer.with_(switches={**layer.switches, "prefetch": True})
    for one, other in zip(execute(layer, program_text(layer)), execute(ahead, program_text(ahead)), strict=True):
        assert (one.register, one.after, one.error) == (other.register, other.after, other.error)


def test_a_load_gives_its_product_the_columns_it_holds_and_the_rest_streams():
    """Beats in the buffer cost the memory nothing; the access is hidden behind them; all bytes are read once."""
    layer = [f"Conv1D x, {src}, v rows=1024 n=1024 w=value @value" for src in ("-", "tile0")]

    def cycles(n):
        text = f"load.weights -, -, tile0 rows=1024 n={n} w=value @value\n{layer[1]}\n"
        rows = listing(DFX, text).rows
        return rows[0].end - rows[0].start, rows[1].end - rows[1].start

    alone = listing(DFX, layer[0] + "\n").rows[0]
    for n in (16, 64, 256, 512):
        load, rest = cycles(n)
        assert load + rest >= alone.end - alone.start - 2  # whole cycles
        assert rest < alone.end - alone.start + 50 * (n == 16)
    assert cycles(512)[1] == pytest.approx(512 + (alone.end - alone.start) / 2, abs=2)


def test_hazards_of_registers_are_named():
    first, store = "Conv1D x, -, v rows=1024 n=1024 w=value", "store.value v, -, values n=1024"
    text = f"{first}\n{store}\nConv1D x, -, v rows=64 n=64 w=value\n"
    rows = listing(DFX, text).rows
    assert [row.hazard for row in rows] == ["", "read after write", "write after read"]
    assert rows[2].start >= rows[1].end


RING = default_scenario("dfx-u280", "gpt2-345m", devices=4, scheme="tensor", inputs=20)


@pytest.mark.parametrize("scenario", [DFX.with_(inputs=20), RING, NPU, RTL])
def test_a_shipped_program_runs_close_to_the_oracle(scenario):
    values = execute(scenario, program_text(scenario))
    most = {"brainwave-s10-pre": 0.6, "npu-rtl": 0.03, "dfx-u280": 0.01}[scenario.system]
    assert all(one.error is None or one.error < most for one in values)
    assert any(one.error for one in values)


@pytest.mark.parametrize("scenario", [NPU, RTL])
@pytest.mark.parametrize("part", ["attention", "convolution", "mlp"])
def test_attention_and_a_convolution_are_timed_from_their_programs(scenario, part):
    text = program_text(scenario, part)
    found = listing(scenario, text)
    visit = 20e-6 * found.clock
    made: dict[str, float] = {}
    for row in found.rows:
        reads = [made[name] for name in row.reads if name in made]
        assert row.valid > max(reads, default=0.0)  # whatever it reads is whole before its own result is
        if "softmax" in row.text:
            assert row.valid >= max(reads) + visit
        made.update(dict.fromkeys(row.writes, row.valid))
    assert found.cycles >= sum("softmax" in row.text for row in found.rows) * visit
    assert found.cycles >= max(sum(c for u, _, _, c in found.bars if u == unit) for unit, *_ in found.bars)
    assert {"attention": {"matrix memory", "host"}}.get(part, set()) <= {unit for unit, *_ in found.bars}
    if scenario is RTL:
        assert all(one.error is None or one.error < 0.03 for one in execute(scenario, text))


def test_what_register_files_or_the_queue_do_not_hold_is_said_with_its_line():
    held = ".vector a 200000\n.vector b 100001\nv_rd a\nv_wr c\n"
    with pytest.raises(
        ProgramError, match=r"^line 3, .* 500,001 elements here; the vector register files hold 300,000$"
    ):
        listing(NPU, held)
    listing(RTL, held)  # nothing is known of its files
    chain = ".vector a 4\nv_rd a\n" + " v_relu\n" * 62
    listing(NPU, chain + "v_wr c\n")
    with pytest.raises(ProgramError, match=r"^line 2, .* the chain has 65 instructions; the queue holds 64$"):
        listing(NPU, chain + " v_relu\nv_wr c\n")


BAD = {
    "unknown mnemonic": ("v_rd x\nvv_adr y\nv_wr z", 2, 1, "mnemonic 'vv_adr' is not known; allowed: v_rd"),
    "no such name": ("v_rd x\n  vv_add 7\nv_wr z", 2, 10, "'7' is no name"),
    "too long": (".vector x 999999\nv_rd x\nv_wr y", 1, 11, "the length of a vector is '999999'"),
    "no count": ("v_rd x\nv_wr y\nloop\nend", 3, 1, "loop has no count, so it never ends"),
    "no end": (".vector x 4\nloop 3\nv_rd x\nv_wr y", 2, 1, "this loop never ends: its end is missing"),
    "too many turns": ("loop 65536\nloop 9\nv_rd x\nv_wr y\nend\nend", 1, 1, "the loop makes 1,179,648 instructions"),
    "unwritten": (".vector x 4\nv_rd x\nvv_add b\nv_wr y", 2, 1, "register 'b' is read before"),
    "sizes": (".vector x 4\n.vector b 5\nv_rd x\nvv_add b\nv_wr y", 3, 1, "vv_add meets 4 elements; 'b' has 5"),
    "no write": (".vector x 4\nv_rd x\nv_tanh", 2, 1, "this chain writes nothing"),
    "three writes": (".vector x 4\nv_rd x\nv_relu\nv_wr a\nv_wr b\nv_tanh\nv_wr c", 6, 1, "v_tanh follows two writes"),
    "empty": ("; nothing", 1, 1, "the program has no instruction"),
}
BAD_DFX = {
    "unknown mnemonic": ("Conv2D x, -, v n=4", 1, 1, "mnemonic 'Conv2D' is not known; allowed: load.token"),
    "register out of range": ("add x, r99, v n=4", 1, 8, "register 'r99' is not known; allowed: -, x"),
    "too long": ("add x, x, v n=9999999", 1, 13, "n= is '9999999': a whole number from 1 to 262,144"),
    "unwritten": ("exp v, -, v n=4", 1, 1, "register 'v' is read before anything is written to it"),
    "too few": ("add x, x", 1, 9, "add takes two sources and a target"),
    "sizes": ("mul x, x, v n=64\nexp v, -, v n=65", 2, 1, "exp works on 65 elements; 'v' has 64"),
    "weights": ("Conv1D x, -, v rows=8 n=8 w=fc9", 1, 27, "weights 'fc9' are not known"),
    "buffer": ("\nload.weights -, -, tile0 rows=6144 n=96 w=fc2", 2, 1, "576 beats of 64 x 16 weights; half of"),
    "not in it": (
        "load.weights -, -, tile1 rows=64 n=16 w=key\nConv1D x, tile1, v rows=64 n=64 w=value",
        2,
        1,
        "Conv1D works on 64 rows of value; 'tile1' holds 64 rows of key",
    ),
    "load to a register": ("load.weights -, -, v rows=64 n=16 w=key", 1, 20, "load.weights cannot write 'v'"),
    "write to a buffer": ("add x, x, tile0 n=64", 1, 11, "add cannot write 'tile0'; load.weights, and nothing else"),
    "load of a register": ("load.gamma x, -, gamma n=64 @norm1", 1, 12, "takes no register: '-' is allowed"),
    "which norm": ("load.beta -, -, beta n=64", 1, 1, "of which norm; allowed: @norm1, @norm2, @final-norm"),
}


@each(
    ("scenario", "text", "line", "column", "said"),
    [(s, *bad) for s, table in ((NPU, BAD), (DFX, BAD_DFX)) for bad in table.values()],
)
def test_what_is_wrong_is_said_with_line_and_column(scenario, text, line, column, said):
    with pytest.raises(ProgramError) as error:
        listing(scenario, text)
    assert (error.value.line, error.value.column) == (line, column)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def drawn(rng: random.Random) -> str:
    """A program of a few chains over a few registers, some of it wrong."""
    names, text = ["a", "b", "c", "d"], [".vector a 3", ".vector b 3", ".matrix W 3 3", ".matrix V 2 3"]
    for _ in range(rng.randint(1, 4)):
        text.append(f"v_rd {rng.choice(names)}")
        text += [f"mv_mul {rng.choice('WWWV')}"] * (rng.random() < 0.4)
        for _ in range(rng.randint(0, 3)):
            op = rng.choice(["vv_add", "vv_mul", "vv_a_sub_b", "vv_b_sub_a", "v_tanh", "v_relu", "v_sigm", "vv_div"])
            text.append(op + (f" {rng.choice(names)}" if op.startswith("vv") else ""))
            text += [f"v_wr {rng.choice(names)}"] * (rng.random() < 0.2)
        text += [f"v_wr {rng.choice(names)}"] * (rng.random() < 0.97)
    return "\n".join(text)


def agree_or_refuse(seed: int) -> bool:
    """One random program: run in float16 it follows float64 step by step, or it is refused with a place."""
    rng = random.Random(seed)
    text = drawn(rng)
    try:
        program = npu_text.assemble(text)
        npu_text.register_lengths(program)
    except ProgramError as error:
        return not 1 <= error.line <= text.count("\n") + 1
    numbers = np.random.default_rng(seed)
    matrices = {
        name: numbers.choice([-1.0, 0.0, 0.5], shape).astype(np.float32) for name, shape in program.matrices.items()
    }
    vectors = {name: numbers.choice([-1.0, 0.0, 1.0], n).astype(np.float32) for name, n in program.vectors.items()}
    got, wide = (Processor(f, matrices, vectors).run(program.instructions) for f in (arithmetic("fp32"), None))
    wanted = exact(program.instructions, matrices, vectors)
    assert got.keys() == wanted.keys()
    assert all((wide[name] == value).all() for name, value in wanted.items())
    for name, value in got.items():
        assert np.allclose(
            value.astype(np.float64), wanted[name], rtol=0.03, atol=0.03 * max(1, np.abs(wanted[name]).max())
        )
    again = npu_text.assemble(npu_text.disassemble(program))
    assert again.instructions == program.instructions
    return True


def test_random_programs_equal_the_oracle_or_are_refused():
    drawn = examples(3000)
    ran = sum(agree_or_refuse(seed) for seed in range(drawn))
    assert 0.1 < ran / drawn < 0.9


def whole_numbers() -> tuple[DfxMachine, ...]:
    """A core with a layer of weights -1, 0 and 1, in which sums of whole numbers stay exact in half precision, and the
    same core in float64."""
    rng, model = np.random.default_rng(0), random_decoder(heads=1, layers=1, vocab=64, positions=1)

    def drawn_as(x):
        return rng.choice([-1.0, 0.0, 1.0], x.shape, p=[0.04, 0.92, 0.04]).astype(np.float32)

    made = {}
    for field in dataclasses.fields(model.layers[0]):
        value = getattr(model.layers[0], field.name)
        if value is None:
            continue
        made[field.name] = tuple(map(drawn_as, value)) if isinstance(value, tuple) else drawn_as(value)
    model = dataclasses.replace(model, layers=(type(model.layers[0])(**made),))
    device = default_catalog().device("alveo-u280-dfx")
    record = core_record(device, None, 1, 1, (), family("dfx").model(device))
    return tuple(DfxMachine(model, record, exact=exact) for exact in (False, True))


def drawn_dfx(rng: random.Random) -> str:
    """A program of the transformer core over a few registers, some of it wrong."""
    names, lines, made = ["v", "k", "q", "wide", "middle"], ["add x, x, v n=64"], ["x", "v"]
    simple = ("add", "sub", "mul", "sub.max", "load.gamma", "load.beta", "mul.s", "accum")
    for _ in range(rng.randint(1, 6)):
        op, n = rng.choice([*simple, "Conv1D", "Conv1D", "ahead"]), rng.choice([64] * 19 + [65])
        a, b = (rng.choice(made if rng.random() < 0.95 else names) for _ in range(2))
        to = rng.choice(names)
        if op == "ahead":  # some of its columns, or of other weights, are in the buffer
            w, other = rng.choice(["value", "key", "query"]), rng.choice(["value"] + ["key"] * 9)
            lines.append(f"load.weights -, -, tile0 rows=64 n={rng.choice([8, 16, 40, 64])} w={w}")
            lines.append(f"Conv1D {a}, tile0, {to} rows={n} n=64 w={w if other == 'key' else other}")
        elif op == "Conv1D":
            lines.append(
                f"Conv1D {a}, -, {to} rows={n} n=64 w={rng.choice(['value', 'key', 'query', 'attention-out'])}"
            )
        else:
            a = "-" if op.startswith("load") else a
            lines.append(f"{op} {a}, {b if op in ('add', 'sub', 'mul', 'mul.s') else '-'}, {to} n={n} @norm1")
        made = [name for name in {*made, to} if name != to or op != "accum"]  # a sum is no vector
        made.sort()
    return "\n".join(lines)


def test_random_programs_of_the_transformer_core_equal_the_oracle_to_the_bit_or_are_refused():
    """Where every value is a multiple of 1/64 of at most 32, half precision is exact, whatever the order of sums."""
    cores, equal, refused, drawn = whole_numbers(), 0, 0, examples(600)
    for seed in range(drawn):
        rng = random.Random(seed)
        text = drawn_dfx(rng)
        try:
            program = dfx_text.assemble(text)
            dfx_text.check(program)
        except ProgramError as error:
            refused += 1 <= error.line <= text.count("\n") + 1
            continue
        again = dfx_text.assemble(dfx_text.disassemble(program))
        assert again.instructions == program.instructions
        x = np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], 64).astype(np.float16)
        none = np.zeros((0, 64))
        for most in range(1, len(program.instructions) + 1):
            wanted = Oracle(cores[0].model, {isa.X: x}, none, none).run(program.instructions[:most])
            if any((np.abs(v) > 32).any() or (v * 64 % 1).any() for v in wanted.values()):
                break
            for core in cores:
                got = core.run(program.instructions[:most], {isa.X: x}, none, none)
                assert all((np.atleast_1d(got[r]) == v).all() for r, v in wanted.items()), text
            equal += most == len(program.instructions)
    assert equal > drawn * 2 / 3
    assert refused > drawn / 6


@each("seed", range(examples(200)))
def test_random_bytes_are_refused_or_listed(seed):
    rng = random.Random(seed)
    words = [
        *npu_text.MNEMONICS,
        *dfx_text.MNEMONICS,
        *isa.REGISTERS,
        "n=4",
        "rows=9",
        "@scores",
        "loop 3",
        "end",
        "\n",
        "é",
        "-1",
    ]
    text = " ".join(rng.choice(words) for _ in range(rng.randint(1, 30)))
    for scenario in (DFX, NPU):
        said = "\n"
        try:
            cycles = listing(scenario, text).cycles
        except ScenarioError as error:
            cycles, said = 0.0, str(error)
        assert cycles > 0 or "\n" not in said


def test_the_command_line_shows_runs_times_and_checks(tmp_path, capsys):
    file = tmp_path / "mine.txt"
    file.write_text(".vector x 64\n.matrix W 32 64\nv_rd x\n mv_mul W\n v_tanh\n v_wr y\n")
    where = ["--system", "npu-rtl", "--workload", "deepbench-gru-512", "--file", str(file)]
    for what, said in (
        ("show", "x -> mv_mul W -> tanh -> y"),
        ("run", "y "),
        ("time", "cycles"),
        ("check", "0 of them"),
    ):
        assert main(["program", what, *where]) == 0
        assert said in capsys.readouterr().out
    file.write_text("v_rd x\n v_cosh\n")
    assert main(["program", "check", *where]) == 2
    assert capsys.readouterr().err.startswith("line 2, column 2: mnemonic 'v_cosh' is not known")
    assert main(["program", "show", "--system", "h100-sxm", "--workload", "resnet50"]) == 2
