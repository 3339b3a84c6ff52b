"""Hostile ONNX files: every one ends in one sentence that names the node, tensor or axis, and none in a crash."""

import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from model_zoo import WorkloadError
from model_zoo.importers.onnx.file import MAX_NODES
from model_zoo.importers.onnx.model import read_onnx
from tests.catalog.onnx_files import FLOAT, INT64, f32, i64, model, node
from tests.each import each

X, Y = [("x", FLOAT, ["N", 4])], [("y", FLOAT, None)]
IMAGE = [("x", FLOAT, ["N", 4, 8, 8])]


def relu(shape, **options) -> bytes:
    return model([node("Relu", ["x"], ["y"], name="r")], [("x", FLOAT, shape)], Y, **options)


def weight(dims, location: str | None = None) -> TensorProto:
    """A tensor of that shape without any data, or with its data in another file."""
    tensor = TensorProto()
    tensor.name, tensor.data_type = "w", FLOAT
    tensor.dims.extend(dims)
    if location is not None:
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", location
    return tensor


def one(kind, inputs, weights=None, given=X, outputs=("y",), domain="", **attributes) -> bytes:
    made = node(kind, inputs, list(outputs), name="odd", domain=domain, **attributes)
    return model([made], given, Y, weights, domains=[domain] if domain else [])


def doubling(deep: int) -> bytes:
    """Functions that call the next one twice: 2**deep nodes out of a few hundred bytes."""
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", f"f{deep}", ["a"], ["c"], [node("Relu", ["a"], ["c"])], opsets)]
    for level in range(deep):
        inner = [node(f"f{level + 1}", [a], [b], domain="own") for a, b in (("a", "b"), ("b", "c"))]
        functions.append(helper.make_function("own", f"f{level}", ["a"], ["c"], inner, opsets))
    return model([node("f0", ["x"], ["y"], domain="own")], X, Y, functions=functions, domains=["own"])


def calling_itself() -> bytes:
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    inner = [node("f", ["a"], ["b"], domain="own")]
    return model(
        [node("f", ["x"], ["y"], domain="own")],
        X,
        Y,
        domains=["own"],
        functions=[helper.make_function("own", "f", ["a"], ["b"], inner, opsets)],
    )


BRANCH = helper.make_graph([node("Relu", ["x"], ["o"])], "b", [], [helper.make_tensor_value_info("o", FLOAT, None)])
CASES = {
    "no bytes": ("text", "read from bytes, not from str"),
    "no nodes": (model([], X, X), "no nodes"),
    "a tensor": (numpy_helper.from_array(f32(3)).SerializeToString(), "no nodes"),
    "no input": (model([node("Relu", ["w"], ["y"])], [], Y, {"w": f32(3)}), "no input with a shape"),
    "no output": (model([node("Relu", ["x"], ["y"])], X, []), "no output"),
    "a cycle": (model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], X, Y), "'add1' reads 'b'"),
    "unsorted": (model([node("Relu", ["a"], ["y"]), node("Relu", ["x"], ["a"])], X, Y), "'relu1' reads 'a'"),
    "no such weights": (one("MatMul", ["x", "w"]), "'odd' reads 'w', which no input, weight or earlier node"),
    "made twice": (model([node("Relu", ["x"], ["y"])] * 2, X, Y), "makes 'y', which exists already"),
    "output of nobody": (model([node("Relu", ["x"], ["z"])], X, Y), "output 'y' of the ONNX model is made by no node"),
    "negative axis": (relu([1, -4]), "input 'x' has -4 along axis 1"),
    "empty axis": (relu([1, 0]), "input 'x' has 0 along axis 1"),
    "axis beyond int64's root": (relu([2**62, 2**62]), "input 'x' has 4611686018427387904 along axis 0"),
    "too many elements": (relu([2**40, 2**40]), "input 'x' has 1.21e.24 elements"),
    "no shape": (relu(None), "input 'x' has no shape"),
    "two lengths": (relu(["N", 3, "H", "W"]), "'H', 'W' open beside the batch 'N'; one length is allowed"),
    "a sequence": (
        helper.make_model(
            helper.make_graph(
                [node("SequenceLength", ["x"], ["y"])],
                "g",
                [helper.make_tensor_sequence_value_info("x", FLOAT, [1])],
                [helper.make_tensor_value_info("y", INT64, [])],
            )
        ).SerializeToString(),
        "input 'x' is no tensor",
    ),
    "weights overflow": (one("MatMul", ["x", "w"], {"w": weight([2**62, 2**62])}), "weight 'w' has the shape"),
    "negative weights": (one("MatMul", ["x", "w"], {"w": weight([-4, -4])}), "weight 'w' has the shape -4 x -4"),
    "weights of no columns": (one("MatMul", ["x", "w"], {"w": weight([4, 0])}), "multiplies matrices without elements"),
    "weights of one number": (one("MatMul", ["x", "w"], {"w": f32()}), r"node 'odd' \(MatMul\) do not fit"),
    "weights do not fit": (one("MatMul", ["x", "w"], {"w": f32(5, 4)}), r"'odd' \(MatMul\) do not fit"),
    "one factor": (one("MatMul", ["x"]), r"'odd' \(MatMul\) do not fit .*input size 1 not in range .min=2, max=2"),
    "no factor": (one("Relu", []), r"'odd' \(Relu\) do not fit .*input size 0 not in range"),
    "an attribute of nobody": (one("Relu", ["x"], foo=1), r"'odd' \(Relu\) do not fit .*attribute: foo"),
    "filters of a matrix": (one("Conv", ["x", "w"], {"w": f32(4, 4)}, IMAGE), r"'odd' \(Conv\) do not fit"),
    "no groups": (one("Conv", ["x", "w"], {"w": f32(4, 4, 3, 3)}, IMAGE, group=0), "in 0 groups"),
    "wrong groups": (one("Conv", ["x", "w"], {"w": f32(6, 2, 3, 3)}, IMAGE, group=4), "an image of 4 channels"),
    "filters computed": (one("Conv", ["x", "v"], None, [*IMAGE, ("v", FLOAT, [4, 4, 3, 3])]), "filters are computed"),
    "stride of nothing": (one("Conv", ["x", "w"], {"w": f32(4, 4, 3, 3)}, IMAGE, strides=[0, 0]), "strides"),
    "a padded ocean": (
        one("Conv", ["x", "w"], {"w": f32(4, 4, 3, 3)}, IMAGE, pads=[2**40] * 4),
        "'y' of node 'odd' has 3.87e.25 elem",
    ),
    "a word for a number": (one("Conv", ["x", "w"], {"w": f32(4, 4, 3, 3)}, IMAGE, group="a"), "Mismatched .* group'"),
    "no permutation": (one("Einsum", ["x", "x"]), "Required attribute 'equation' is missing"),
    "strange equation": (one("Einsum", ["x", "x"], equation="ii,ij->j"), "Einsum"),
    "a trace": (one("Einsum", ["x"], equation="ij->i"), "two factors have a count"),
    "peepholes": (
        one(
            "LSTM",
            ["x", "w", "r", "", "", "", "", "p"],
            {"w": f32(1, 8, 4), "r": f32(1, 8, 2), "p": f32(1, 6)},
            [("x", FLOAT, [3, "N", 4])],
            hidden_size=2,
        ),
        "peepholes",
    ),
    "a branch": (
        one("If", ["k"], None, [*X, ("k", TensorProto.BOOL, [])], then_branch=BRANCH, else_branch=BRANCH),
        "'odd' is a 'If'.*what runs depends on the data",
    ),
    "size of the data": (
        model([node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["y"], to=FLOAT)], X, Y),
        "size depends on the data",
    ),
    "another's operator": (one("Foo", ["x"], domain="my.own"), "'odd' is 'Foo' of the domain 'my.own'"),
    "another's Relu": (one("Relu", ["x"], domain="my.own"), "'odd' is 'Relu' of the domain 'my.own'"),
    "an axis beyond": (one("LayerNormalization", ["x", "w"], {"w": f32(4)}, axis=2**63 - 1), "'odd'.* has axis 92.*64"),
    "an axis below": (one("LayerNormalization", ["x", "w"], {"w": f32(4)}, axis=-65), "has axis -65; -64 to 64 is"),
    "shared axes below zero": (
        one("GatherND", ["x", "w"], {"w": i64(0)}, batch_dims=-9),
        r"\(GatherND\) has batch_dims -9; 0 to 64 is allowed",
    ),
    "parts of nobody": (
        one("Split", ["x"], outputs=("y", "z"), num_outputs=1),
        r"\(Split\) has num_outputs 1 and 2 results",
    ),
    "another's schema": (one("Normalizer", ["x"], domain="ai.onnx.ml"), "'Normalizer' of the domain 'ai.onnx.ml'"),
    "opset of the past": (relu([1], opset=0), "opset is 0; 1 to"),
    "opset of the future": (relu([1], opset=99), "opset is 99; 1 to"),
    "calls itself": (calling_itself(), "function 'f' calls itself"),
    "doubling functions": (doubling(60), "more than 10.12 nodes"),
    "shape in another file": (one("Reshape", ["x", "w"], {"w": weight([2], "../../etc/passwd")}), "'odd'|tensor 'y'"),
    "sizes of one batch": (
        model([node("Reshape", ["x", "s"], ["a"]), node("Relu", ["a"], ["y"])], X, Y, {"s": i64(2, 4)}),
        "makes 8 elements of 16 at batch 4",
    ),
    "grows by one": (
        model([node("Concat", ["x", "w"], ["a"], axis=0), node("Relu", ["a"], ["y"])], X, Y, {"w": f32(1, 4)}),
        "neither fixed nor in proportion",
    ),
}


@each("name", CASES)
def test_one_sentence(name):
    data, pattern = CASES[name]
    with pytest.raises(WorkloadError, match=pattern) as error:
        read_onnx(data)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 400


def test_every_cut_of_a_file_is_answered():
    """A file that ends early or holds flipped bytes is read or refused in a sentence."""
    whole = model([node("MatMul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["y"])], X, Y, {"w": f32(4, 3)})
    rng, told = np.random.default_rng(7), []
    for _ in range(1500):
        data = bytearray(whole[: rng.integers(1, len(whole) + 1)])
        for at in rng.integers(0, len(data), rng.integers(0, 4)):
            data[at] = rng.integers(0, 256)
        try:
            read_onnx(bytes(data))
        except WorkloadError as error:
            told.append(str(error))
    assert len(told) > 100
    assert all(text.isprintable() for text in told)


def test_names_are_what_a_scenario_may_hold():
    names = ["<script>alert(1)</script>", "\x1b[31mred\n", "/layer1/conv", "layer1.conv", "…", "x" * 200]
    nodes = [node("Relu", [f"t{i}"], [f"t{i + 1}"], name=name) for i, name in enumerate(names)]
    graph = read_onnx(model(nodes, [("t0", FLOAT, ["N", 4])], [(f"t{len(names)}", FLOAT, None)]))
    from pydantic import TypeAdapter

    from engine.scenario import OpName

    found = [op.name for op in graph.phases[0].ops]
    assert [TypeAdapter(OpName).validate_python(name) for name in found] == found
    assert len(set(found)) == len(names)


def test_weights_elsewhere_are_only_counted():
    """A path out of the folder is never opened: only the shape counts."""
    for location in ("missing.bin", "../../etc/passwd", "/etc/passwd", ""):
        graph = read_onnx(one("MatMul", ["x", "w"], {"w": weight([4, 10**6], location)}))
        assert graph.parameters == 4e6


def test_a_deep_graph_takes_seconds_and_a_deeper_one_is_refused():
    def chain(length: int) -> bytes:
        nodes = [node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(length)]
        return model(nodes, [("t0", FLOAT, ["N", 4])], [(f"t{length}", FLOAT, None)])

    with pytest.raises(WorkloadError, match=f"{MAX_NODES + 1} nodes"):
        read_onnx(chain(MAX_NODES + 1))
    started = time.thread_time()
    assert len(read_onnx(chain(MAX_NODES)).phases[0].ops) == MAX_NODES
    assert time.thread_time() - started < 30.0
