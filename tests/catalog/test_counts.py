"""Op counts against networks that are really run: naive loops that count every multiply, read and write."""

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest

from model_zoo import FAMILIES, Graph, Op, default_zoo
from model_zoo.families import build_graph

ZOO = default_zoo()
RNG = np.random.default_rng(7)


def matrix_product(a: np.ndarray, b: np.ndarray, tally: Counter, name: str) -> np.ndarray:
    """a @ b by loops; counts a multiply-add for each that happens."""
    out = np.zeros((a.shape[0], b.shape[1]))
    for i, j, k in product(range(a.shape[0]), range(b.shape[1]), range(a.shape[1])):
        out[i, j] += a[i, k] * b[k, j]
        tally[name] += 1
    return out


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def macs_of(graph: Graph, inputs: int, outputs: int, batch: int = 1) -> Counter:
    """Multiply-adds by op name over the request."""
    total: Counter = Counter()
    for phase in graph.phases:
        at = (batch, phase.length.at(inputs, outputs), phase.context.at(inputs, outputs))
        for op in phase.ops:
            if op.contraction:
                total[op.name] += op.macs(*at) * op.layers * op.steps.at(*at) * phase.repeat.at(inputs, outputs)
    return total


def summed(graph: Graph, field: str, inputs: int, outputs: int, batch: int = 1) -> float:
    """A count summed over ops, layers, steps and passes."""
    total = 0.0
    for phase in graph.phases:
        at = (batch, phase.length.at(inputs, outputs), phase.context.at(inputs, outputs))
        one = sum(getattr(op, field).at(*at) * op.layers * op.steps.at(*at) for op in phase.ops)
        total += one * phase.repeat.at(inputs, outputs)
    return total


def ops_of(graph: Graph) -> dict[str, Op]:
    return {op.name: op for op in graph.ops}


# decoder

HIDDEN, HEADS, KV, LAYERS, FFN, VOCAB = 8, 4, 2, 2, 12, 11
HEAD = HIDDEN // HEADS


def run_decoder(prompt: int, generated: int) -> Counter:
    """A small grouped-query decoder with a KV cache; every pass computes its full square of scores."""
    tally: Counter = Counter()
    table = weights(VOCAB, HIDDEN)
    layers = [
        {
            "qkv": weights(HIDDEN, (HEADS + 2 * KV) * HEAD),
            "out": weights(HIDDEN, HIDDEN),
            "fc1": weights(HIDDEN, FFN),
            "fc2": weights(FFN, HIDDEN),
        }
        for _ in range(LAYERS)
    ]
    cache: list[tuple[list, list]] = [([], []) for _ in range(LAYERS)]
    tokens = [int(t) for t in RNG.integers(0, VOCAB, prompt)]
    done = 0
    while done < generated:
        x = table[tokens]
        tally["gathered"] += len(tokens)
        for layer, (keys, values) in zip(layers, cache, strict=True):
            qkv = matrix_product(x, layer["qkv"], tally, "qkv")
            q = qkv[:, : HEADS * HEAD].reshape(-1, HEADS, HEAD)
            k = qkv[:, HEADS * HEAD : (HEADS + KV) * HEAD].reshape(-1, KV, HEAD)
            v = qkv[:, (HEADS + KV) * HEAD :].reshape(-1, KV, HEAD)
            keys.extend(k)
            values.extend(v)
            tally["state_writes"] += k.size + v.size
            context = np.zeros_like(q)
            for g in range(KV):
                group = slice(g * HEADS // KV, (g + 1) * HEADS // KV)
                past_k, past_v = np.array(keys)[:, g], np.array(values)[:, g]
                tally["state_reads"] += past_k.size + past_v.size  # read once for the heads that share them
                rows = q[:, group].reshape(-1, HEAD)
                scores = matrix_product(rows, past_k.T, tally, "scores")
                scores = np.exp(scores - scores.max(axis=1, keepdims=True))
                scores /= scores.sum(axis=1, keepdims=True)
                context[:, group] = matrix_product(scores, past_v, tally, "context").reshape(context[:, group].shape)
            x = x + matrix_product(context.reshape(-1, HIDDEN), layer["out"], tally, "attention-out")
            x = x + matrix_product(np.tanh(matrix_product(x, layer["fc1"], tally, "fc1")), layer["fc2"], tally, "fc2")
        logits = matrix_product(x[-1:], table.T, tally, "lm-head")
        tokens = [int(np.argmax(logits))]
        done += 1
    return tally


@pytest.mark.parametrize(("prompt", "generated"), [(1, 1), (3, 1), (3, 4), (1, 6)])
def test_decoder_counts(prompt, generated):
    graph = build_graph(
        FAMILIES["transformer-decoder"],
        {
            "hidden": HIDDEN,
            "heads": HEADS,
            "kv_heads": KV,
            "layers": LAYERS,
            "ffn": FFN,
            "vocab": VOCAB,
            "position": "rotary",
        },
    )
    tally = run_decoder(prompt, generated)
    for name, macs in macs_of(graph, prompt, generated).items():
        assert macs == pytest.approx(tally[name], rel=1e-12), name
    for field in ("state_reads", "state_writes"):
        assert summed(graph, field, prompt, generated) == pytest.approx(tally[field], rel=1e-12), field
    assert summed(graph, "gather_rows", prompt, generated) == tally["gathered"]
    held = graph.state_elements.at(1, 1, prompt + generated - 1)
    assert held == tally["state_writes"], "the cache at the end holds every token but the last"


def test_decoding_with_the_mean_context_is_exact():
    graph = ZOO.graph("llama3.1-8b")
    decode = graph.phases[1]
    inputs, outputs = 37, 10
    one_by_one = sum(op.flops.at(2, 1, inputs + step) * op.layers for step in range(1, outputs) for op in decode.ops)
    at = (2, 1, decode.context.at(inputs, outputs))
    together = sum(op.flops.at(*at) * op.layers for op in decode.ops) * decode.repeat.at(inputs, outputs)
    assert together == pytest.approx(one_by_one, rel=1e-12)


@pytest.mark.parametrize(
    ("id", "bytes_per_token"),
    [("gpt2-345m", 98_304), ("gpt2-774m", 184_320), ("gpt2-1.5b", 294_912), ("gpt2-1.5b-openai", 0.31e6)],
)
def test_cache_bytes_per_token_in_fp16(id, bytes_per_token):
    """DFX prints 0.31 MB a token for the released 1.5B; the others are 2 * layers * width * 2 B."""
    assert ZOO.graph(id).state_elements.at(1, 1, 1) * 2 == pytest.approx(bytes_per_token, rel=0.01)


@pytest.mark.parametrize(
    ("id", "layers", "head"),
    [("gpt2-345m", 302.0e6, 51.5e6), ("gpt2-774m", 707.8e6, 64.3e6), ("gpt2-1.5b", 1359e6, 77.2e6)],
)
def test_gpt2_weights_by_part(id, layers, head):
    ops = ops_of(ZOO.graph(id))
    matrices = sum(ops[n].k.coef * ops[n].n.coef * ops[n].layers for n in ("qkv", "attention-out", "fc1", "fc2"))
    assert matrices == pytest.approx(layers, rel=1e-3)
    assert ops["lm-head"].weights.coef == pytest.approx(head, rel=1e-3)
    assert ops["lm-head"].stored == 0, "the head reads the token table"


def test_residual_and_norm_are_a_thousandth_of_the_work():
    """DFX (section III) prints 0.11% of the operations for layer normalisation and residual of the 1.5B model."""
    ops = ops_of(ZOO.graph("gpt2-1.5b")).values()
    total = sum(op.flops.at(1, 1, 64) * op.layers for op in ops)
    small = sum(op.flops.at(1, 1, 64) * op.layers for op in ops if op.group == "layer-norm+residual")
    assert 0.0003 < small / total < 0.0015


@pytest.mark.parametrize(("id", "active"), [("mixtral-8x7b", 12.9e9), ("mixtral-8x22b", 39e9)])
def test_parameters_one_token_uses(id, active):
    """Published active parameters: everything but the experts that the token didn't choose."""
    graph = ZOO.graph(id)
    tables = sum(op.stored for op in ops_of(graph).values() if op.kind == "Gather")
    read = sum(op.weights_read(1, 1, 1) * op.layers for op in ops_of(graph).values() if op.kind != "Gather")
    assert read + tables == pytest.approx(active, rel=0.01)


def test_many_tokens_use_every_expert_once():
    op = ops_of(ZOO.graph("mixtral-8x7b"))["gate-up"]
    assert op.weights_read(1, 1, 1) == pytest.approx(op.stored * 2 / 8)
    assert op.weights_read(1, 1000, 1) == op.stored


# recurrent


def run_gru(width: int, hidden: int, steps: int) -> tuple[Counter, np.ndarray, np.ndarray]:
    """A GRU whose reset gate scales the recurrent product, and the same states by the textbook's blend."""
    tally: Counter = Counter()
    wx, wh = weights(width, 3 * hidden), weights(hidden, 3 * hidden)
    h = textbook = np.zeros(hidden)
    for x in weights(steps, width):
        xs = matrix_product(x[None], wx, tally, "rnn-input")[0]
        hs = matrix_product(h[None], wh, tally, "rnn-recurrent")[0]
        gates = xs[: 2 * hidden] + hs[: 2 * hidden]
        tally["rnn-gate-add"] += gates.size
        gates = 1 / (1 + np.exp(-gates))
        tally["rnn-gates"] += gates.size
        r, z = gates[:hidden], gates[hidden:]
        n = np.tanh(xs[2 * hidden :] + r * hs[2 * hidden :])
        tally.update({f"rnn-{op}": hidden for op in ("reset", "candidate-add", "candidate")})
        textbook = (1 - z) * n + z * h
        h = n + z * (h - n)
        tally.update({f"rnn-{op}": hidden for op in ("blend-subtract", "blend-scale", "state")})
        assert np.allclose(h, textbook)
    return tally, h, textbook


def test_gru_counts():
    width, hidden, steps = 5, 4, 3
    graph = build_graph(FAMILIES["rnn"], {"cell": "gru", "input": width, "hidden": hidden})
    tally, *_ = run_gru(width, hidden, steps)
    ops = ops_of(graph)
    assert macs_of(graph, steps, 1) == {n: tally[n] for n in ("rnn-input", "rnn-recurrent")}
    for name, op in ops.items():
        if not op.contraction:
            assert op.writes.at(1, steps, steps) * op.steps.at(1, steps, steps) == tally[name], name
    assert sum(op.stored for op in ops.values()) == 3 * (width + hidden) * hidden + 2 * 3 * hidden


def test_lstm_counts():
    width, hidden, steps = 5, 4, 3
    tally: Counter = Counter()
    wx, wh = weights(width, 4 * hidden), weights(hidden, 4 * hidden)
    h, c = np.zeros(hidden), np.zeros(hidden)
    for x in weights(steps, width):
        a = matrix_product(x[None], wx, tally, "rnn-input")[0] + matrix_product(h[None], wh, tally, "rnn-recurrent")[0]
        tally["rnn-gate-add"] += a.size
        i, f, o = (1 / (1 + np.exp(-a[n * hidden : (n + 1) * hidden])) for n in range(3))
        tally["rnn-gates"] += i.size + f.size + o.size
        g = np.tanh(a[3 * hidden :])
        c = f * c + i * g
        h = o * np.tanh(c)
        tally.update({f"rnn-{op}": hidden for op in ("candidate", "forget", "accept", "cell", "squash", "state")})
    graph = build_graph(FAMILIES["rnn"], {"cell": "lstm", "input": width, "hidden": hidden})
    assert macs_of(graph, steps, 1) == {n: tally[n] for n in ("rnn-input", "rnn-recurrent")}
    for name, op in ops_of(graph).items():
        if not op.contraction:
            assert op.writes.coef * steps == tally[name], name


@pytest.mark.parametrize(("id", "factor"), [("deepbench-gru-2816", 12), ("deepbench-lstm-1024", 16)])
def test_operations_of_a_step_are_the_usual_count(id, factor):
    graph, width = ZOO.graph(id), ZOO.workload(id).params["hidden"].value
    assert 2 * graph.macs(1, 25) == factor * width * width * 25


def test_turing_prototype_is_more_than_ten_times_larger_on_the_fpga():
    """Table 1 of the Brainwave article; eight LSTMs of 500 on vectors of 200 against two GRUs of 128."""
    large, small = ZOO.graph("tp1-lstm").parameters, ZOO.graph("tp1-gru-cpu").parameters
    assert large == 8 * (4 * 500 * (200 + 500) + 2 * 4 * 500)
    assert small == 2 * (3 * 128 * (200 + 128) + 2 * 3 * 128)
    assert large > 10 * small


def test_stacked_bidirectional_feeds_both_directions_on():
    graph = build_graph(FAMILIES["rnn"], {"cell": "lstm", "input": 6, "hidden": 4, "layers": 3, "directions": 2})
    first = 2 * (4 * 4 * (6 + 4) + 2 * 16)
    later = 2 * 2 * (4 * 4 * (8 + 4) + 2 * 16)
    assert graph.parameters == first + later
    assert graph.state_elements.at(1) == 3 * 2 * 2 * 4


# recommenders and binary networks


def test_dlrm_counts():
    tables, width, lookups, batch = 3, 4, 5, 2
    bottom, top = (6, 8, 4), (7, 1)
    tally: Counter = Counter()
    stored = weights(tables, 10, width)
    for _ in range(batch):
        x = weights(1, bottom[0])
        for n, (k, m) in enumerate(pairwise(bottom), 1):
            x = matrix_product(x, weights(k, m), tally, f"bottom{n}")
        vectors = [x[0]]
        for table in stored:
            rows = RNG.integers(0, 10, lookups)
            tally["rows"] += len(rows)
            vectors.append(table[rows].sum(axis=0))
        joined = np.array(vectors)
        square = matrix_product(joined, joined.T, tally, "interaction")
        handed = np.concatenate([x[0], square[np.tril_indices(tables + 1, -1)]])[None]
        for n, (k, m) in enumerate(zip((handed.shape[1], *top[:-1]), top, strict=True), 1):
            handed = matrix_product(handed, weights(k, m), tally, f"top{n}")
    graph = build_graph(
        FAMILIES["dlrm"],
        {"tables": tables, "rows": 10, "width": width, "lookups": lookups, "bottom": bottom, "top": top},
    )
    assert macs_of(graph, 1, 1, batch) == {name: n for name, n in tally.items() if name != "rows"}
    assert summed(graph, "gather_rows", 1, 1, batch) == tally["rows"]


def test_dlrm_crossing_layers_count_what_they_multiply():
    """DCN v2: each layer is x0 * (U V x) + x, with V of few rows; its products are counted as they are made."""
    tables, width, layers, rank, batch = 3, 4, 2, 5, 3
    tally: Counter = Counter()
    for _ in range(batch):
        first = x = weights(1, (tables + 1) * width)
        for n in range(1, layers + 1):
            low = matrix_product(x, weights(first.shape[1], rank), tally, f"cross{n}-down")
            x = first * matrix_product(low, weights(rank, first.shape[1]), tally, f"cross{n}-up") + x
        matrix_product(x, weights(first.shape[1], 1), tally, "top1")
    values = {"tables": tables, "rows": 10, "width": width, "lookups": 2, "bottom": [4, width], "top": [1]}
    graph = build_graph(FAMILIES["dlrm"], values | {"interaction": "cross", "cross_layers": layers, "cross_rank": rank})
    counted = macs_of(graph, 1, 1, batch)
    assert {name: n for name, n in counted.items() if not name.startswith("bottom")} == tally


@pytest.mark.parametrize(("id", "published", "batch"), [("dlrm-less-complex", 90, 50), ("dlrm-more-complex", 80, 41)])
def test_dlrm_intensity_of_the_dense_part(id, published, batch):
    """Table I's FLOP per byte, at a batch between its 32 and 64 items: INT8, weights once, activations in and out."""
    ops = [op for op in ZOO.graph(id).phases[0].ops if op.contraction]
    flops = sum(op.flops.at(batch) for op in ops)
    moved = sum(op.weights.at(batch) + op.reads.at(batch) + op.writes.at(batch) for op in ops)
    assert flops / moved == pytest.approx(published, rel=0.01)


def test_xlmr_intensity_is_its_tokens():
    """Table I: two FLOP per token and weight, two bytes a weight in FP16."""
    ops = [op for op in ops_of(ZOO.graph("xlm-r-large")).values() if op.kind == "Gemm" and op.group != "head"]
    flops = sum(op.flops.at(1, 32, 32) * op.layers for op in ops)
    assert flops / (2 * sum(op.weights.at(1, 32, 32) * op.layers for op in ops)) == pytest.approx(32, rel=0.001)


def test_wide_and_deep_bytes():
    """About 9.5 MB in FP32 against a published model file of 9 MB, split as the graph's parts are."""
    graph = ZOO.graph("wide-deep-criteo")
    ops = ops_of(graph)
    assert ops["deep-embedding"].stored == 832_000
    assert ops["wide-embedding"].stored + ops["wide-numeric"].stored == 26_013
    assert graph.parameters * 4 == pytest.approx(9.5e6, rel=0.01)
    assert ops["hash"].writes.at(512) == 26 * 512


def test_binary_layer_counts():
    bits = RNG.integers(0, 2, (6, 9)), RNG.integers(0, 2, (9, 5))
    tally: Counter = Counter()
    agree = matrix_product(2.0 * bits[0] - 1, 2.0 * bits[1] - 1, tally, "binary-fc1")
    popcount = [[int(np.sum(row == column)) for column in bits[1].T] for row in bits[0]]
    assert np.array_equal(agree, 2 * np.array(popcount) - 9)
    graph = build_graph(FAMILIES["binary-net"], {"inputs": 9, "neurons": 5})
    assert macs_of(graph, 1, 1, batch=6) == tally
    assert ops_of(graph)["binary-fc1"].stored == 45
    assert ops_of(graph)["binary-fc1-sign"].stored == 5
