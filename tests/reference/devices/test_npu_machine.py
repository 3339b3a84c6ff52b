"""The NPU's programs against float references, and its closed form against a run chain by chain."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.devices.common.instruction_set import relative_error
from engine.devices.npu.answers import accuracy
from engine.devices.npu.chains import CELLS, CELLS_IN_ORDER, InstructionChain, Pipeline, cut, finish, pass_cycles
from engine.devices.npu.instance import Engine
from engine.devices.npu.machine import Processor, arithmetic
from engine.devices.npu.programs import Instruction, attention, convolution, mlp, sequence
from engine.devices.npu.timing import sequence_cycles, time_chains
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario.overrides import apply_all
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import Zoo, default_zoo
from tests.effort import examples
from tests.reference import naive, onnx_oracle


def decoupled_cycles(
    cell: str, steps: int, occupancy: dict[str, float], vector_cycles: float, pipe: Pipeline
) -> tuple[float, dict[str, float]]:
    """Cycles of a sequence, and those each unit was busy: the long way round to the closed form. [cycle]

    Three clocks advance: the occupancy of the tile engines, that of the multifunction units, and the validity of every
    register along the dependence. A state is valid when all three have come that far.

    Parameters
    ----------
    occupancy : engine cycles of a product with a matrix whose name starts with W (input) or U (state). [cycle]
    vector_cycles : cycles a vector of the hidden width takes in a multifunction unit. [cycle]
    """
    chains = [piece for chain in CELLS[cell] for piece in cut(chain, pipe.mfus)]
    names = {c.source for c, _ in chains} | {v.operand for c, _ in chains for v in c.ops if v.operand}
    valid = dict.fromkeys(names, 0.0)
    engine = units = state = 0.0
    for _ in range(steps):
        for chain, places in chains:
            if chain.matrix:
                engine += occupancy[chain.matrix[0]]
            units += vector_cycles
            valid.update({chain.target: 0.0} if chain.source == "x" else finish(chain, places, pipe, valid))
        state = max(valid["h"], engine, units)
        valid["h@"] = state
        if "c" in valid:
            valid["c@"] = valid["c"]
    start = pipe.start + pass_cycles(pipe)
    return start + state, {"matrix-vector unit": engine, "multifunction units": units}


def split_to_units(program: tuple[Instruction, ...], mfus: int) -> tuple[Instruction, ...]:
    """The program with every chain cut to the MFUs of an instance."""
    done: list[Instruction] = []
    for instruction in program:
        pieces = cut(instruction, mfus) if isinstance(instruction, InstructionChain) else ((instruction, ()),)
        done += [piece for piece, _ in pieces]
    return tuple(done)


FORMATS = ("fp32", "ms-fp9", "ms-fp8")
ERRORS = {"fp32": 0.005, "ms-fp9": 0.12, "ms-fp8": 0.25}  # float16 outside the products; a bit less doubles the rest
RNG = np.random.default_rng(4)


def draw(*shape, scale=1.0):
    return RNG.normal(0, scale, shape).astype(np.float32)


def check(program, matrices, vectors, names, wanted, mfus=2):
    """Runs in each format; errors within bounds and growing as bits are taken away."""
    errors = []
    for format in FORMATS:
        got = Processor(arithmetic(format), matrices, vectors).run(split_to_units(program, mfus))
        errors.append(relative_error(np.array([got[name] for name in names]), wanted))
        assert errors[-1] < ERRORS[format]
    assert errors[0] < errors[1] < errors[2]


@pytest.mark.parametrize("mfus", [1, 2])
def test_mlp(mfus):
    w, b, x = [draw(64, 48, scale=0.15), draw(32, 64, scale=0.15)], [draw(64), draw(32)], draw(48)
    wanted = np.maximum(w[0] @ x + b[0], 0)
    vectors = {"x": x, "b1": b[0], "b2": b[1]}
    for format in FORMATS:
        program = split_to_units(mlp(2), mfus)
        got = Processor(arithmetic(format), {"W1": w[0], "W2": w[1]}, vectors).run(program)["y"]
        assert relative_error(got, w[1] @ wanted + b[1]) < ERRORS[format]


def _gru_parts(width, hidden):
    w, r = draw(3 * hidden, width, scale=width**-0.5), draw(3 * hidden, hidden, scale=hidden**-0.5)
    bias = draw(3 * hidden, scale=0.2)
    parts, names, biases = {}, "zrn", {}
    for i, gate in enumerate(names):  # ONNX order: update, reset, candidate
        cut, sign = slice(i * hidden, (i + 1) * hidden), -1 if gate == "z" else 1
        parts |= {f"W{gate}": sign * w[cut], f"U{gate}": sign * r[cut]}
        biases[f"b{gate}"] = sign * bias[cut]
    biases["h@"] = np.zeros(hidden, np.float32)
    return parts, biases, (w, r, np.concatenate([bias, np.zeros_like(bias)]))


def _gru_reference(xs, weights, hidden):
    w, r, bias = weights
    state, result = np.zeros((1, hidden)), []
    for x in xs:
        state = naive.gru_step(x[None], state, w, r, bias)
        result.append(state[0])
    return result


def _lstm_parts(width, hidden):
    w, r = draw(4 * hidden, width, scale=width**-0.5), draw(4 * hidden, hidden, scale=hidden**-0.5)
    bias = draw(4 * hidden, scale=0.2)
    parts, vectors = {}, {}
    for i, gate in enumerate("iofg"):
        cut = slice(i * hidden, (i + 1) * hidden)
        parts |= {f"W{gate}": w[cut], f"U{gate}": r[cut]}
        vectors[f"b{gate}"] = bias[cut]
    vectors |= {s: np.zeros(hidden, np.float32) for s in ("h@", "c@")}
    return parts, vectors, (w, r, np.concatenate([bias, np.zeros_like(bias)]))


def _lstm_reference(xs, weights, hidden):
    w, r, bias = weights
    h, c, result = np.zeros((1, hidden)), np.zeros((1, hidden)), []
    for x in xs:
        h, c = naive.lstm_step(x[None], h, c, w, r, bias)
        result.append(h[0])
    return result


def _rnn_parts(width, hidden):
    w, r = draw(hidden, width, scale=width**-0.5), draw(hidden, hidden, scale=hidden**-0.5)
    bias = draw(hidden, scale=0.2)
    held = {"b": bias, "h@": np.zeros(hidden, np.float32)}
    return {"W": w, "U": r}, held, (w, r, np.concatenate([bias, np.zeros_like(bias)]))


def _by_onnx(kind, **attributes):
    def reference(xs, weights, hidden):
        feeds = {"x": xs[:, None], "w": weights[0][None], "r": weights[1][None], "b": weights[2][None]}
        return list(onnx_oracle.run(kind, feeds, hidden_size=hidden, **attributes)[:, 0, 0])

    return reference


REFERENCES = {
    "gru": (_gru_parts, _gru_reference),
    "gru-reset-first": (_gru_parts, _by_onnx("GRU", linear_before_reset=0)),
    "lstm": (_lstm_parts, _lstm_reference),
    "rnn": (_rnn_parts, _by_onnx("RNN")),
}


@pytest.mark.parametrize("cell", sorted(CELLS))  # of the processor: none goes without a reference
def test_recurrent_cells(cell):
    parts_of, reference_of = REFERENCES[cell]
    hidden, width, steps = 40, 24, 5
    xs = draw(steps, width)
    matrices, vectors, weights = parts_of(width, hidden)
    wanted = np.array(reference_of(xs, weights, hidden)).astype(np.float32)
    vectors = {f"{k.replace('@', '0')}.0": v for k, v in vectors.items()} | {f"x{t}.0": x for t, x in enumerate(xs)}
    check(sequence(CELLS[cell], steps), matrices, vectors, [f"h{t}.0" for t in range(1, steps + 1)], wanted)


@pytest.mark.parametrize(("size", "window"), [((9,), (3,)), ((5, 6), (3, 3))])
def test_convolutions(size, window):
    channels, filters = 20, 16
    x = draw(1, *size, channels)
    w, bias = draw(filters, channels, *window, scale=0.1), draw(filters, scale=0.1)
    rank = len(size)
    exact = naive.conv(x, w, bias, [1] * rank, [t // 2 for t in window])
    wanted = np.maximum(exact, 0).reshape(-1, filters)
    flat = np.moveaxis(w, 1, -1).reshape(filters, -1)
    vectors = {f"x{i}": v for i, v in enumerate(x.reshape(-1, channels))}
    vectors |= {"zero": np.zeros(channels, np.float32), "b": bias}
    check(convolution(size, window), {"W": flat}, vectors, [f"y{i}" for i in range(len(wanted))], wanted)


def test_attention_with_softmax_on_the_host():
    steps, width = 6, 32
    xs = draw(steps, width)
    w = {n: draw(width, width, scale=width**-0.5) for n in ("Wq", "Wk", "Wv")}
    q, k, v = (xs @ w[n].T for n in ("Wq", "Wk", "Wv"))
    scores = q @ k.T / np.sqrt(width)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    wanted = powers / powers.sum(1, keepdims=True) @ v
    vectors = {f"x{t}": x for t, x in enumerate(xs)} | {"scale": np.full(steps, width**-0.5, np.float32)}
    check(attention(steps), w, vectors, [f"y{i}" for i in range(steps)], wanted)


def test_a_shared_exponent_costs_accuracy_and_the_more_the_longer_its_block():
    w, x = draw(64, 256, scale=0.1), draw(256)
    program, vectors = mlp(1), {"x": x, "b1": np.zeros(64, np.float32)}
    errors = [
        relative_error(Processor(arithmetic("ms-fp8", block), {"W1": w}, vectors).run(program)["y"], w @ x)
        for block in (0, 8, 128)
    ]
    assert errors == sorted(errors)
    assert errors[0] < errors[2]


def test_unknown_operators_are_refused_in_one_sentence():
    from engine.devices.npu.programs import HostOperator

    run = Processor(arithmetic("fp32"), {}, {"s": draw(4)})
    with pytest.raises(ValueError, match="allowed: softmax"):
        run.run([HostOperator("sort", "s", "t")])


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """The zoo with a network of one layer of every cell that the processor has a program for."""
    folder, text = tmp_path_factory.mktemp("zoo"), default_zoo().path("deepbench-gru-1024").read_text()
    for cell in CELLS:
        own = text.replace("id: deepbench-gru-1024", f"id: one-{cell}").replace("value: gru,", f"value: {cell},")
        (folder / f"one-{cell}.yaml").write_text(own)
    result = Zoo(guests=(folder,))
    assert not result.problems
    return result


@settings(max_examples=examples(200), deadline=None)
@given(
    cell=st.sampled_from(sorted(CELLS)),
    hidden=st.integers(1, 3000),
    width=st.integers(1, 3000),
    steps=st.integers(1, 40),
    tiles=st.integers(1, 12),
    lanes=st.sampled_from([10, 16, 40, 100]),
    native=st.sampled_from([100, 128, 400]),
    mfus=st.integers(1, 3),
    depth=st.integers(0, 400),
)
def test_priced_sequences_equal_the_run_chain_by_chain(
    zoo, cell, hidden, width, steps, tiles, lanes, native, mfus, depth
):
    base = default_scenario(
        "brainwave-s10-isca18", "deepbench-gru-1024", devices=1, scheme="single", inputs=steps
    ).with_(workload=f"one-{cell}", params={"hidden": hidden, "input": width})
    block = {"tiles": tiles, "lanes": lanes, "native_dim": native, "mfus": mfus}
    scenario = apply_all(
        base,
        [f"devices.0.npu.{name}={value}" for name, value in block.items()]
        + [
            f"devices.0.npu.depths.mvu-distribute={depth} cycles",
            "devices.0.memory.m20k.capacity=10 GB",
            "devices.0.fpga.alm=1e9",
            "devices.0.fpga.dsp=1e6",
            "devices.0.fpga.m20k=1e6",
        ],
    )
    from engine.resolve.bind import bind

    engine = Engine.of(bind(scenario, zoo=zoo).device)
    gates = engine.product(1.0, hidden, width), engine.product(1.0, hidden, hidden)
    vector = engine.vectors(hidden) * engine.vector_beats
    cycles, busy = decoupled_cycles(cell, steps, dict(zip("WU", gates, strict=True)), vector, engine.pipe)
    report = evaluate(scenario, zoo=zoo)
    inside = report.latency_s - report.breakdown["links"]
    assert inside == pytest.approx(cycles / engine.clock, rel=1e-9)
    assert all(0 <= b <= cycles for b in busy.values())


def in_order_twin(program, engine, lengths, shapes):
    """Cycles of a program on an instance that issues in order, every native vector walked through every unit."""
    whole, sizes = dict.fromkeys(lengths, 0.0), dict(lengths)
    depths = [engine.pipe.dispatch + engine.pipe.read, *[engine.pipe.mfu] * engine.pipe.mfus, engine.pipe.write]
    free = [0.0] * len(depths)
    for chain in program:
        for piece, places in cut(chain, engine.pipe.mfus, True):
            n, k = shapes[piece.matrix] if piece.matrix else (sizes[piece.source], 0)
            vectors, beat = engine.vectors(n), engine.vector_beats
            passes = -(-int(k) // int(engine.tiles * engine.lanes)) if piece.matrix else 1
            start = max(whole[piece.source], free[0])
            free[0] = start + passes * vectors * (engine.beats if piece.matrix else beat)
            out = [free[0] - (vectors - i) * (engine.beats if piece.matrix else beat) for i in range(int(vectors))]
            out = [t + depths[0] + (engine.pipe.product if piece.matrix else 0.0) for t in out]
            for unit in range(1, len(depths)):
                needed = [v.operand for v, p in zip(piece.ops, places, strict=True) if p == unit - 1 and v.operand]
                ready = max([whole[o] for o in needed], default=0.0)
                taken = []
                for t in out:
                    taken.append(max(t, ready, free[unit], taken[-1] + beat if taken else 0.0))
                free[unit] = taken[-1] + beat
                out = [t + depths[unit] for t in taken]
            whole[piece.target], sizes[piece.target] = out[-1] + beat, n
    return max(whole.values())


IN_ORDER = Engine.of(default_catalog().device("stratix-10-nx-npu-rtl"))


@settings(max_examples=examples(120), deadline=None)
@given(
    cell=st.sampled_from(sorted(CELLS_IN_ORDER)),
    hidden=st.integers(1, 2000),
    width=st.integers(1, 2000),
    steps=st.integers(1, 20),
    together=st.integers(1, 3),
    lanes=st.sampled_from([10, 40, 100]),
    mfu=st.integers(0, 90),
)
def test_sequences_in_order_equal_the_walk_of_every_vector(cell, hidden, width, steps, together, lanes, mfu):
    pipe = replace(IN_ORDER.pipe, mfu=float(mfu))
    engine = replace(IN_ORDER, lanes=float(lanes), pipe=pipe, fetch=0.0)  # the twin's weights are there
    program = sequence(CELLS_IN_ORDER[cell], steps, together)
    names = {v.operand for c in program for v in c.ops if v.operand} | {c.source for c in program}
    lengths = dict.fromkeys(names, hidden) | {f"x{t}.{i}": width for t in range(steps) for i in range(together)}
    shapes = {c.matrix: (hidden, width if c.matrix[0] == "W" else hidden) for c in program if c.matrix}
    cycles = in_order_twin(program, engine, lengths, shapes)
    assert time_chains(program, engine, lengths, shapes).cycles == pytest.approx(cycles, rel=1e-12)
    priced = sequence_cycles(cell, engine, hidden, hidden, width, steps, together)
    assert priced == pytest.approx(cycles, rel=1e-12)
    work = sum(engine.product(1, *shapes[c.matrix]) for c in program if c.matrix)
    assert cycles >= work


@pytest.mark.parametrize("cell", sorted(CELLS_IN_ORDER))
def test_cells_in_order_compute_what_the_others_do(cell):
    """Weights of the update gate are not negated there; taps and blends differ, the state does not."""
    parts_of, reference_of = REFERENCES[cell]
    hidden, steps = 24, 5
    xs = draw(steps, hidden)
    parts, held, weights = parts_of(hidden, hidden)
    for name in ("Wz", "Uz", "bz"):
        for table in (parts, held):
            if name in table:
                table[name] = -table[name]
    vectors = {f"{k}.0": v for k, v in held.items() if k[0] == "b"} | dict.fromkeys(
        ("h0.0", "c0.0"), np.zeros(hidden, np.float32)
    )
    state = vectors["h0.0"]
    for t, wanted in enumerate(reference_of(xs, weights, hidden)):
        run = Processor(arithmetic("fp32"), parts, {**vectors, "x0.0": xs[t], "h0.0": state})
        got = run.run(split_to_units(sequence(CELLS_IN_ORDER[cell], 1), 2))
        assert relative_error(got["h1.0"], wanted) < 0.01
        state = got["h1.0"].astype(np.float32)
        vectors["c0.0"] = got.get("c1.0", vectors["c0.0"])


def test_device_depths_are_those_of_the_instance():
    engine = Engine.of(default_catalog().device("stratix-10-280-brainwave-pre"))
    assert engine.beats == 10
    assert engine.pipe.mfus == 2


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_accuracy_of_a_drawn_network_by_format(cell):
    last = {format: accuracy(cell, format)[-1] for format in FORMATS}
    assert last["fp32"] < 0.005 < last["ms-fp9"] < last["ms-fp8"] < 0.4
    assert accuracy(cell, "ms-fp8", 128)[-1] > last["ms-fp8"]
    assert all(error > 0 for error in accuracy(cell, "ms-fp9"))
