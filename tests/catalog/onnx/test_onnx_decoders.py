"""ONNX files of decoders with a cache, of detectors that suppress boxes, and of recurrent layers of a fixed length."""

from typing import Any

import numpy as np
import pytest

from model_zoo.families import FAMILIES, build_graph
from model_zoo.importers.onnx.model import read_onnx
from model_zoo.ops import Graph, Op, Phase
from model_zoo.schema import WorkloadError
from tests.catalog.onnx_files import FLOAT, INT64, f32, i64, model, node

STEPS, WIDTH, HIDDEN = 20, 8, 16


def ops_of(graph: Graph, phase: int = 0) -> dict[str, Op]:
    return {op.name: op for op in graph.phases[phase].ops}


def recurrent(shape: list[int], *before: Any, kind: str = "LSTM", gates: int = 4, **marks: Any) -> bytes:
    """A recurrent layer of fixed shapes behind some nodes, the last of which makes `t`."""
    nodes = [*before, node(kind, ["t" if before else "x", "w", "r"], ["y"], name="cell", hidden_size=HIDDEN, **marks)]
    weights = {"w": f32(1, gates * HIDDEN, WIDTH), "r": f32(1, gates * HIDDEN, HIDDEN), "one": i64(1)}
    return model(nodes, [("x", FLOAT, shape)], [("y", FLOAT, None)], weights)


@pytest.mark.parametrize(
    "data",
    [
        recurrent([STEPS, 1, WIDTH]),
        recurrent([STEPS, 4, WIDTH]),
        recurrent([STEPS, STEPS, WIDTH]),
        recurrent([1, STEPS, WIDTH], node("Transpose", ["x"], ["t"], perm=[1, 0, 2])),
        recurrent([STEPS, WIDTH], node("Unsqueeze", ["x", "one"], ["t"])),
    ],
    ids=["one", "four", "square", "turned", "unbatched"],
)
def test_a_layer_of_fixed_shape_steps_through_its_sequence(data: bytes) -> None:
    """Its rows are the batch, whatever the first axis of the file is."""
    ops = ops_of(read_onnx(data))
    for batch in (1, 3):
        assert ops["cell-recurrent"].m.at(batch) == batch
        assert ops["cell-recurrent"].steps.at(batch) == STEPS
        assert ops["cell-recurrent"].macs(batch) == batch * HIDDEN * 4 * HIDDEN


@pytest.mark.parametrize("after", [0, 1])
def test_linear_before_reset_makes_one_product_of_a_fixed_layer(after: int) -> None:
    ops = ops_of(read_onnx(recurrent([STEPS, 1, WIDTH], kind="GRU", gates=3, linear_before_reset=after)))
    waiting = [op.n.coef for op in ops.values() if op.contraction and op.sequential]
    assert waiting == ([3 * HIDDEN] if after else [2 * HIDDEN, HIDDEN])


# boxes


def detector(most: int | None = 10, boxes: int = 100, classes: int = 3) -> bytes:
    inputs = ["boxes", "scores", *(["most"] if most is not None else [])]
    nodes = [
        node("Sigmoid", ["raw"], ["scores"], name="score"),
        node("NonMaxSuppression", inputs, ["kept"], name="nms"),
        node("Cast", ["kept"], ["y"], name="told", to=FLOAT),
    ]
    given = [("boxes", FLOAT, ["N", boxes, 4]), ("raw", FLOAT, ["N", classes, boxes])]
    return model(nodes, given, [("y", FLOAT, None)], {"most": i64(most)} if most is not None else {})


def test_suppression_keeps_as_many_boxes_as_it_is_told_to() -> None:
    nms = ops_of(read_onnx(detector()))["nms"]
    assert nms.kind == "NonMaxSuppression"
    assert nms.writes.at(2) == 2 * 3 * 10 * 3  # image, class and place of each
    assert nms.reads.at(2) == 2 * (100 * 4 + 3 * 100)
    assert dict(nms.attributes) == {"boxes": 300.0, "kept": 30.0}
    assert ops_of(read_onnx(detector(most=1000)))["nms"].writes.at(1) == 3 * 100 * 3, "no more than there are"


def test_suppression_without_a_bound_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"'nms' is a 'NonMaxSuppression'.*max_output_boxes_per_class"):
        read_onnx(detector(most=None))


# caches

HEADS, HEAD, MODEL, FFN, VOCAB, LAYERS = 4, 8, 32, 64, 50, 2


def decoder(layers: int = LAYERS, shared: int = 1) -> bytes:
    """A decoder as exporters write it: past keys and values enter, present ones leave, `shared` query heads to each."""
    nodes = [
        node("Gather", ["table", "ids"], ["h0"], name="embed"),
        node("Cast", ["attention_mask"], ["told"], name="told", to=FLOAT),
        node("Unsqueeze", ["told", "middle"], ["seen"]),
    ]
    weights: dict[str, np.ndarray] = {
        "table": f32(VOCAB, MODEL),
        "heads": i64(0, 0, HEADS, HEAD),
        "flat": i64(0, 0, MODEL),
        "few": i64(0, 0, HEADS // shared, HEAD),
    }
    weights |= {
        "two": i64(2),
        "middle": i64(1, 2),
        "joined": i64(0, HEADS, -1, HEAD),
        "copies": i64(1, 1, shared, 1, 1),
    }
    weights["wider"] = np.array([False, False, True, False, False])
    inputs = [("ids", INT64, ["batch_size", "sequence_length"])]
    inputs.append(("attention_mask", INT64, ["batch_size", "past_sequence_length + sequence_length"]))
    outputs = [("logits", FLOAT, None)]
    for i in range(layers):
        for name in "qkv":
            nodes += [
                node("MatMul", [f"h{i}", f"w{name}{i}"], [f"{name}{i}"], name=f"{name}-proj{i}"),
                node("Reshape", [f"{name}{i}", "heads" if name == "q" else "few"], [f"{name}s{i}"]),
                node("Transpose", [f"{name}s{i}"], [f"{name}t{i}"], name=f"{name}-turn{i}", perm=[0, 2, 1, 3]),
            ]
            weights[f"w{name}{i}"] = f32(MODEL, MODEL if name == "q" else MODEL // shared)
        for name, long in (("k", "key"), ("v", "value")):
            past, present = f"past_key_values.{i}.{long}", f"present.{i}.{long}"
            inputs.append((past, FLOAT, ["batch_size", HEADS // shared, "past_sequence_length", HEAD]))
            outputs.append((present, FLOAT, None))
            nodes.append(node("Concat", [past, f"{name}t{i}"], [present], name=f"{long}-append{i}", axis=2))
            seen = f"{long}{i}"
            if shared > 1:  # repeated for the queries that share it
                nodes += [
                    node("Unsqueeze", [present, "two"], [f"{seen}u"]),
                    node("Shape", [f"{seen}u"], [f"{seen}s"]),
                    node("Where", ["wider", "copies", f"{seen}s"], [f"{seen}w"]),
                    node("Expand", [f"{seen}u", f"{seen}w"], [f"{seen}e"], name=f"{long}-repeat{i}"),
                    node("Reshape", [f"{seen}e", "joined"], [seen]),
                ]
            else:
                nodes.append(node("Identity", [present], [seen]))
        nodes += [
            node("Transpose", [f"key{i}"], [f"kt{i}x"], name=f"k-flip{i}", perm=[0, 1, 3, 2]),
            node("MatMul", [f"qt{i}", f"kt{i}x"], [f"s{i}"], name=f"scores{i}"),
            node("Add", [f"s{i}", "seen"], [f"m{i}"], name=f"mask{i}"),
            node("Softmax", [f"m{i}"], [f"p{i}"], name=f"softmax{i}", axis=-1),
            node("MatMul", [f"p{i}", f"value{i}"], [f"c{i}"], name=f"context{i}"),
            node("Transpose", [f"c{i}"], [f"ct{i}"], name=f"c-turn{i}", perm=[0, 2, 1, 3]),
            node("Reshape", [f"ct{i}", "flat"], [f"cf{i}"]),
            node("MatMul", [f"cf{i}", f"wo{i}"], [f"o{i}"], name=f"out-proj{i}"),
            node("MatMul", [f"o{i}", f"w1{i}"], [f"f{i}"], name=f"fc1{i}"),
            node("Gelu", [f"f{i}"], [f"g{i}"], name=f"gelu{i}"),
            node("MatMul", [f"g{i}", f"w2{i}"], [f"h{i + 1}"], name=f"fc2{i}"),
        ]
        weights |= {f"wo{i}": f32(MODEL, MODEL), f"w1{i}": f32(MODEL, FFN), f"w2{i}": f32(FFN, MODEL)}
    nodes.append(node("MatMul", [f"h{layers}", "head"], ["logits"], name="lm-head"))
    weights["head"] = f32(MODEL, VOCAB)
    return model(nodes, inputs, outputs, weights)


def multiplied(phase: Phase, at: tuple[float, float, float]) -> float:
    """Multiply-adds of a pass but the head's, which an exporter runs for every token."""
    return sum(op.macs(*at) * op.layers for op in phase.ops if op.contraction and "head" not in op.name)


@pytest.mark.parametrize("shared", [1, 2])
def test_a_decoder_with_a_cache_fills_it_and_then_steps(shared: int) -> None:
    """The counts of the family's own decoder, pass by pass."""
    read = read_onnx(decoder(shared=shared))
    built = build_graph(
        FAMILIES["transformer-decoder"],
        {
            "hidden": MODEL,
            "layers": LAYERS,
            "heads": HEADS,
            "vocab": VOCAB,
            "ffn": FFN,
            "bias": "none",
            "lm_head": "own",
        }
        | {"position": "none", "kv_heads": HEADS // shared},
    )
    assert [phase.name for phase in read.phases] == ["prefill", "decode"]
    assert read.causal
    assert read.unit == "token"
    assert read.state_elements.at(3, 1, 7) == built.state_elements.at(3, 1, 7)
    for mine, theirs in zip(read.phases, built.phases, strict=True):
        assert (mine.length, mine.context, mine.repeat) == (theirs.length, theirs.context, theirs.repeat)
        for batch, length, context in ((1, 1, 9), (3, 1, 40), (3, 40, 40)):
            if mine.name == "decode" and length > 1:
                continue
            at = (batch, length if mine.name == "decode" else context, context)
            assert multiplied(mine, at) == multiplied(theirs, at)
            for field in ("state_reads", "state_writes"):
                assert sum(getattr(o, field).at(*at) for o in mine.ops) == sum(
                    getattr(o, field).at(*at) * o.layers for o in theirs.ops
                ), field
    assert {op.name: op.stored for op in read.phases[1].ops} == {op.name: op.stored for op in read.phases[0].ops}


def test_what_attends_reads_the_cache_and_moves_none_of_it() -> None:
    graph = read_onnx(decoder())
    decode = ops_of(graph, 1)
    for name in ("scores0", "context1"):
        assert decode[name].state_reads.at(2, 1, 30) == 2 * 30 * MODEL
    assert decode["scores0"].reads.at(2, 1, 30) == 2 * MODEL
    assert decode["key-append0"].state_writes.at(2, 1, 30) == 2 * MODEL
    assert decode["key-append0"].writes.at(2, 1, 30) == 0
    assert not any(name.startswith("k-flip") for name in decode), "a cache is read as it lies"
    assert graph.input_elements.at(2, 30) == 2 * 2 * 30, "ids and mask enter with a request, no cache does"


def test_a_decoder_without_its_cache_is_what_it_was() -> None:
    """A file that names no past is read as before: one pass over a length."""
    nodes = [node("MatMul", ["x", "w"], ["y"], name="fc")]
    plain = read_onnx(model(nodes, [("x", FLOAT, ["N", "T", 8])], [("y", FLOAT, None)], {"w": f32(8, 8)}))
    assert [phase.name for phase in plain.phases] == ["forward"]
    assert not plain.causal
