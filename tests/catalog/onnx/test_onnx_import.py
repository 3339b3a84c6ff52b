"""ONNX files read as graphs: the same counts as the built-in families give for the same network."""

import pytest
from onnx import checker, load_model_from_string

from model_zoo import FAMILIES, WorkloadError
from model_zoo.families import build_graph
from model_zoo.families.images import Net
from model_zoo.importers.onnx.model import read_onnx
from tests.catalog.onnx_files import FLOAT, INT64, f32, i64, model, node


def saved(*parts) -> bytes:
    """Bytes of a model that ONNX finds no fault with."""
    data = model(*parts)
    checker.check_model(load_model_from_string(data))
    return data


def cnn(batch: int | str) -> bytes:
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], name="c1", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["r"], name="r1"),
        node("Conv", ["r", "w2", "b2"], ["d"], name="c2", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=8),
        node("Add", ["d", "r"], ["s"], name="add"),
        node("GlobalAveragePool", ["s"], ["p"], name="pool"),
        node("Flatten", ["p"], ["f"], name="flat"),
        node("Gemm", ["f", "w3", "b3"], ["y"], name="fc", transB=1),
    ]
    weights = {
        "w1": f32(8, 3, 3, 3),
        "b1": f32(8),
        "w2": f32(8, 1, 3, 3),
        "b2": f32(8),
        "w3": f32(10, 8),
        "b3": f32(10),
    }
    return saved(nodes, [("x", FLOAT, [batch, 3, 12, 12])], [("y", FLOAT, [batch, 10])], weights)


@pytest.mark.parametrize("batch", ["N", 1, 4])
def test_cnn_counts_equal_the_builder(batch):
    net = Net(3, 12, 12)
    x = net.conv("c1", net.input, 8, 3, 2)
    y = net.conv("c2", x, 8, 3, groups=8, act=None)
    net.dense("fc", net.global_pool("pool", net.add("add", y, x)), 10)
    built = {op.name: op for op in net.ops}
    graph = read_onnx(cnn(batch))
    read = {op.name: op for op in graph.phases[0].ops}
    assert list(read) == ["c1", "r1", "c2", "add", "pool", "fc"]
    for name in ("c1", "c2", "add", "pool", "fc"):
        for images in (1, 4):
            assert read[name].macs(images) == built[name].macs(images), name
            assert read[name].writes.at(images) == built[name].writes.at(images), name
            assert read[name].reads.at(images) == built[name].reads.at(images), name
            assert read[name].flops.at(images) == built[name].flops.at(images), name
        assert read[name].stored == built[name].stored, name
    assert read["add"].inputs == ("c2", "r1")
    assert read["fc"].inputs == ("pool",)
    assert graph.parameters == sum(op.stored for op in net.ops)


def attention(hidden: int, heads: int, tokens: int | str) -> bytes:
    head = hidden // heads
    nodes = [node("Gather", ["table", "ids"], ["x"], name="tokens")]
    for side in "qkv":
        order = [0, 2, 3, 1] if side == "k" else [0, 2, 1, 3]
        nodes += [
            node("MatMul", ["x", f"w{side}"], [f"{side}0"], name=side),
            node("Reshape", [f"{side}0", "split"], [f"{side}1"], name=f"{side}-reshape"),
            node("Transpose", [f"{side}1"], [f"{side}2"], name=f"{side}-transpose", perm=order),
        ]
    nodes += [
        node("MatMul", ["q2", "k2"], ["s0"], name="scores"),
        node("Softmax", ["s0"], ["s1"], name="softmax", axis=-1),
        node("MatMul", ["s1", "v2"], ["c0"], name="context"),
        node("Transpose", ["c0"], ["c1"], name="c-transpose", perm=[0, 2, 1, 3]),
        node("Reshape", ["c1", "join"], ["c2"], name="c-reshape"),
        node("MatMul", ["c2", "wo"], ["y"], name="attention-out"),
    ]
    weights = {f"w{n}": f32(hidden, hidden) for n in "qkvo"}
    weights |= {
        "table": f32(20, hidden),
        "split": i64(0, 0, heads, head),
        "join": i64(0, 0, hidden),
    }
    ids = ("ids", INT64, ["batch", tokens])
    return saved(nodes, [ids], [("y", FLOAT, ["batch", tokens, hidden])], weights)


@pytest.mark.parametrize("tokens", ["sequence", 6])
def test_attention_counts_equal_the_encoder(tokens):
    graph = read_onnx(attention(8, 2, tokens))
    read = {op.name: op for op in graph.phases[0].ops}
    encoder = build_graph(FAMILIES["transformer-encoder"], {"hidden": 8, "layers": 1, "heads": 2, "vocab": 20})
    built = {op.name: op for op in encoder.phases[0].ops}
    for here, there in (
        ("q", "query"),
        ("scores", "scores"),
        ("context", "context"),
        ("softmax", "softmax"),
        ("attention-out", "attention-out"),
    ):
        for at in ((1, 6, 6), (3, 6, 6)):
            assert read[here].macs(*at) == built[there].macs(*at), here
            assert read[here].writes.at(*at) == built[there].writes.at(*at), here
            assert read[here].flops.at(*at) == built[there].flops.at(*at), here
    assert read["tokens"].gather_rows.at(3, 6, 6) == 18
    assert read["tokens"].stored == 20 * 8
    if tokens == "sequence":
        assert read["scores"].macs(2, 30, 30) == built["scores"].macs(2, 30, 30)


def test_shared_weights_are_stored_once():
    nodes = [
        node("MatMul", ["x", "w"], ["a"], name="first"),
        node("MatMul", ["a", "w"], ["y"], name="second"),
    ]
    graph = read_onnx(saved(nodes, [("x", FLOAT, ["N", 4])], [("y", FLOAT, ["N", 4])], {"w": f32(4, 4)}))
    assert graph.parameters == 16
    assert [op.weights.at() for op in graph.phases[0].ops] == [16, 16]


def test_unknown_operator_is_refused():
    nodes = [node("Hardmax", ["x"], ["y"], name="odd")]
    data = saved(nodes, [("x", FLOAT, ["N", 4])], [("y", FLOAT, ["N", 4])], {})
    with pytest.raises(WorkloadError, match="node 'odd' is a 'Hardmax', an ONNX operator that has no count here"):
        read_onnx(data)


@pytest.mark.parametrize("data", [b"", b"not a model", b"\x00" * 64, cnn(1)[:-40]])
def test_broken_bytes_give_one_sentence(data):
    with pytest.raises(WorkloadError) as error:
        read_onnx(data)
    assert "\n" not in str(error.value)
