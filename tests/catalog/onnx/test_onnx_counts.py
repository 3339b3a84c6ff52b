"""Patterns that exporters write, counted against sums made by hand."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnxruntime import InferenceSession

from model_zoo.families import FAMILIES, build_graph
from model_zoo.importers.onnx.model import read_onnx
from tests.catalog.onnx_files import FLOAT, INT64, f32, i64, model, node
from tests.each import each

UINT8, INT8, INT32 = TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32


def ops_of(data: bytes, **options):
    return {op.name: op for op in read_onnx(data, **options).phases[0].ops}


@pytest.mark.parametrize(
    "marks",
    [
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"dilations": [2, 2], "pads": [2, 2, 2, 2]},
        {"strides": [2, 1]},
        {"auto_pad": "VALID"},
        {"pads": [0, 1, 2, 3]},
    ],
)
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_convolutions_follow_the_shape_that_onnxruntime_makes(marks, groups):
    data = model(
        [node("Conv", ["x", "w", "b"], ["y"], name="c", group=groups, **marks)],
        [("x", FLOAT, ["N", 8, 13, 11])],
        [("y", FLOAT, None)],
        {"w": f32(16, 8 // groups, 3, 3), "b": f32(16)},
    )
    out = InferenceSession(data).run(None, {"x": f32(3, 8, 13, 11)})[0]
    op = ops_of(data)["c"]
    assert op.writes.at(3) == out.size
    assert op.macs(3) == out.size * 9 * 8 / groups
    assert op.flops.at(3) == 2 * op.macs(3)
    assert (op.stored, op.reads.at(3)) == (16 * 8 * 9 / groups + 16, 3 * 8 * 13 * 11)


def test_transposed_and_three_dimensional_convolutions():
    up = ops_of(
        model(
            [node("ConvTranspose", ["x", "w"], ["y"], name="up", strides=[2, 2], pads=[1, 1, 1, 1], group=2)],
            [("x", FLOAT, ["N", 8, 5, 7])],
            [("y", FLOAT, None)],
            {"w": f32(8, 3, 4, 4)},
        )
    )["up"]
    assert up.macs(2) == 2 * 5 * 7 * 8 * 3 * 16  # every pixel meets every weight of its channel
    assert up.writes.at(2) == 2 * 6 * 10 * 14
    clip = ops_of(
        model(
            [node("Conv", ["x", "w"], ["y"], name="clip", group=4, pads=[1] * 6)],
            [("x", FLOAT, ["N", 4, 6, 8, 10])],
            [("y", FLOAT, None)],
            {"w": f32(4, 1, 3, 3, 3)},
        )
    )["clip"]
    assert clip.macs(1) == 4 * 6 * 8 * 10 * 27
    assert (clip.attribute("kernel_t"), clip.attribute("frames"), clip.attribute("height")) == (3, 6, 8)


@pytest.mark.parametrize(
    ("kind", "gates", "cell"),
    [("LSTM", 4, "lstm"), ("GRU", 3, "gru"), ("GRU", 3, "gru-reset-first"), ("RNN", 1, "rnn")],
)
@pytest.mark.parametrize("directions", [1, 2])
def test_recurrent_layers_equal_the_builder(kind, gates, cell, directions):
    hidden, width = 6, 5
    weights = {
        "w": f32(directions, gates * hidden, width),
        "r": f32(directions, gates * hidden, hidden),
        "b": f32(directions, 2 * gates * hidden),
    }
    way = "bidirectional" if directions == 2 else "forward"
    more = {"linear_before_reset": 1} if cell == "gru" else {}
    data = model(
        [node(kind, ["x", "w", "r", "b"], ["y"], name="rnn", hidden_size=hidden, direction=way, **more)],
        [("x", FLOAT, ["steps", "batch", width])],
        [("y", FLOAT, None)],
        weights,
    )
    built = build_graph(FAMILIES["rnn"], {"cell": cell, "input": width, "hidden": hidden, "directions": directions})
    read = read_onnx(data)
    assert read.parameters == built.parameters == sum(w.size for w in weights.values())
    for here, there in zip(read.phases[0].ops, built.phases[0].ops, strict=True):
        assert (here.name, here.kind, here.layers, here.sequential) == (
            there.name,
            there.kind,
            there.layers,
            there.sequential,
        )
        for at in ((1, 4, 4), (3, 9, 9)):
            assert here.flops.at(*at) * here.steps.at(*at) == there.flops.at(*at) * there.steps.at(*at)
            assert here.reads.at(*at) == there.reads.at(*at)


@each("axes", [(50, 2), ("T", 2), ("steps", "requests"), (50, "batch"), (1, 50), (50, 1)])
@each("layout", [0, 1])
@each("behind", ["input", "Relu", "Transpose"])
@each(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_the_sequence_axis_is_not_the_batch(kind, gates, behind, layout, axes):
    """A request of a recurrent layer is one row that steps through the sequence, however the file lays its axes."""
    hidden, width = 6, 5
    given = [*(axes if layout == 0 else axes[::-1]), width]
    nodes = []
    if behind == "Transpose":
        given = [given[1], given[0], width]
        nodes = [node("Transpose", ["x"], ["v"], perm=[1, 0, 2])]
    elif behind == "Relu":
        nodes = [node("Relu", ["x"], ["v"])]
    nodes.append(node(kind, ["v" if nodes else "x", "w", "r"], ["y"], name="rnn", hidden_size=hidden, layout=layout))
    weights = {"w": f32(1, gates * hidden, width), "r": f32(1, gates * hidden, hidden)}
    graph = read_onnx(model(nodes, [("x", FLOAT, given)], [("y", FLOAT, None)], weights))
    steps = axes[0] if isinstance(axes[0], int) else 7
    for batch in (1, 3):
        for op in graph.phases[0].ops:
            if op.contraction:
                assert (op.m.at(batch, 7), op.steps.at(batch, 7)) == (batch, steps)
        assert graph.macs(batch, 7) == batch * steps * gates * hidden * (width + hidden)
        assert graph.input_elements.at(batch, 7) == batch * steps * width


@pytest.mark.parametrize("after", [0, 1])
def test_a_gru_resets_before_its_product_unless_it_says_otherwise(after):
    """`linear_before_reset` is 0 where a file leaves it out: then the candidate's product waits for the reset state."""
    weights = {"w": f32(1, 18, 5), "r": f32(1, 18, 6)}
    more = {"linear_before_reset": 1} if after else {}
    data = model(
        [node("GRU", ["x", "w", "r"], ["y"], name="g", hidden_size=6, **more)],
        [("x", FLOAT, ["T", "batch", 5])],
        [("y", FLOAT, None)],
        weights,
    )
    graph = read_onnx(data)
    waiting = [op.n.coef for op in graph.phases[0].ops if op.contraction and op.sequential]
    assert waiting == ([18] if after else [12, 6])
    assert graph.parameters == 18 * 11
    assert graph.macs(2, 7) == 2 * 7 * 18 * 11


def test_merged_batch_and_length_and_shapes_worked_out_in_the_file():
    """Exporters flatten tokens, and take head widths by a division of what Shape gave."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        *(node("Gather", ["s", f"i{i}"], [f"s{i}"]) for i in range(3)),
        node("Div", ["s2", "heads"], ["d"]),
        *(node("Unsqueeze", [a, "zero"], [f"{a}u"]) for a in ("s0", "s1", "heads", "d")),
        node("Concat", ["s0u", "s1u", "headsu", "du"], ["split"], axis=0),
        node("Reshape", ["x", "flat"], ["rows"]),
        node("MatMul", ["rows", "w"], ["p"], name="product"),
        node("Reshape", ["p", "split"], ["h"]),
        node("Transpose", ["h"], ["t"], name="heads", perm=[0, 2, 1, 3]),
        node("MatMul", ["t", "u"], ["scores"], name="by-head"),
        node("Softmax", ["scores"], ["y"], name="soft"),
    ]
    weights = {f"i{i}": np.array(i) for i in range(3)}
    weights |= {"heads": np.array(2), "zero": i64(0), "flat": i64(-1, 8), "w": f32(8, 8), "u": f32(2, 4, 3)}
    ops = ops_of(model(nodes, [("x", FLOAT, ["batch", "seq", 8])], [("y", FLOAT, None)], weights))
    assert list(ops) == ["product", "heads", "by-head", "soft"]
    assert ops["product"].macs(3, 5, 5) == 3 * 5 * 64
    assert ops["by-head"].macs(3, 5, 5) == 3 * 2 * 5 * 4 * 3
    assert ops["by-head"].stored == 24
    assert ops["soft"].writes.at(3, 5, 5) == 3 * 2 * 5 * 3


def test_masks_and_positions_are_not_work_but_their_table_is_stored():
    nodes = [
        node("Gather", ["words", "ids"], ["w"], name="words"),
        node("Shape", ["ids"], ["s"]),
        node("Gather", ["s", "one"], ["n"]),
        node("Range", ["zero", "n", "one"], ["p"]),
        node("Gather", ["places", "p"], ["q"], name="places"),
        node("Add", ["w", "q"], ["x"], name="sum"),
        node("Transpose", ["x"], ["t"], name="turned", perm=[0, 2, 1]),
        node("MatMul", ["x", "t"], ["scores"], name="scores"),
        node("Unsqueeze", ["n", "axis"], ["nu"]),
        node("Concat", ["nu", "nu"], ["square"], axis=0),
        node("ConstantOfShape", ["square"], ["ones"]),
        node("Trilu", ["ones"], ["mask"], upper=0),
        node("Add", ["scores", "mask"], ["y"], name="masked"),
    ]
    weights = {"words": f32(50, 8), "places": f32(128, 8), "zero": np.array(0), "one": np.array(1), "axis": i64(0)}
    graph = read_onnx(model(nodes, [("ids", INT64, ["batch", "seq"])], [("y", FLOAT, None)], weights))
    ops = {op.name: op for op in graph.phases[0].ops}
    assert list(ops) == ["words", "places", "sum", "turned", "scores", "masked"]
    assert ops["places"].gather_rows.at(3, 10, 10) == 10  # the batch shares them
    assert graph.parameters == (50 + 128) * 8
    assert ops["scores"].macs(3, 10, 10) == 3 * 10 * 10 * 8
    assert ops["masked"].reads.at(3, 10, 10) == 3 * 10 * 10


def test_a_tied_table_is_stored_once_whatever_its_form():
    nodes = [
        node("Gather", ["table", "ids"], ["x"], name="embed"),
        node("Transpose", ["table"], ["t"], perm=[1, 0]),
        node("MatMul", ["x", "t"], ["y"], name="logits"),
    ]
    graph = read_onnx(model(nodes, [("ids", INT64, ["batch", "seq"])], [("y", FLOAT, None)], {"table": f32(50, 8)}))
    ops = {op.name: op for op in graph.phases[0].ops}
    assert list(ops) == ["embed", "logits"]
    assert (graph.parameters, ops["logits"].weights.at(), ops["logits"].stored) == (400, 400, 0)
    assert ops["logits"].macs(2, 3) == 2 * 3 * 400


@pytest.mark.parametrize(
    ("equation", "left", "right", "macs"),
    [
        ("bsd,dhk->bshk", ["batch", "seq", 8], (8, 2, 4), 3 * 5 * 8 * 8),
        ("bshk,hkd->bsd", ["batch", "seq", 2, 4], (2, 4, 8), 3 * 5 * 8 * 8),
        ("hk,bshk->bsh", None, (2, 4), 3 * 5 * 8),
    ],
)
def test_einstein_sums_with_weights(equation, left, right, macs):
    given = left or ["batch", "seq", 2, 4]
    sides = ["x", "w"] if left else ["w", "x"]
    data = model(
        [node("Einsum", sides, ["y"], name="e", equation=equation)],
        [("x", FLOAT, given)],
        [("y", FLOAT, None)],
        {"w": f32(*right)},
    )
    op = ops_of(data)["e"]
    assert (op.macs(3, 5, 5), op.stored) == (macs, np.prod(right))
    assert op.reads.at(3, 5, 5) == 3 * 5 * 8


def test_einstein_sums_of_attention():
    given = [("q", FLOAT, ["batch", "seq", 2, 4]), ("k", FLOAT, ["batch", "seq", 2, 4])]
    op = ops_of(
        model([node("Einsum", ["q", "k"], ["y"], name="e", equation="bshd,bthd->bhst")], given, [("y", FLOAT, None)])
    )["e"]
    assert op.macs(3, 5, 5) == 3 * 2 * 5 * 5 * 4
    assert op.writes.at(3, 5, 5) == 3 * 2 * 5 * 5


def test_attention_of_one_node_equals_its_parts():
    given = [(n, FLOAT, ["batch", "seq", 32]) for n in "qkv"]
    data = model(
        [node("Attention", ["q", "k", "v"], ["y"], name="a", q_num_heads=4, kv_num_heads=4)],
        given,
        [("y", FLOAT, None)],
        opset=23,
    )
    ops = ops_of(data)
    assert list(ops) == ["a-scores", "a-softmax", "a"]
    for name in ("a-scores", "a"):
        assert ops[name].macs(3, 5, 5) == 3 * 4 * 5 * 5 * 8
    assert ops["a-softmax"].writes.at(3, 5, 5) == 3 * 4 * 5 * 5


def quantised(name: str, at: int) -> dict[str, np.ndarray]:
    return {f"{name}s": np.array(0.1, np.float32), f"{name}z": np.array(0, np.int8 if at else np.uint8)}


def test_quantised_models_store_their_weights_once():
    """QLinearConv, dequantised weights beside quantised activations, and quantisation at run time."""
    weights = {"w": np.ones((6, 4, 3, 3), np.int8), "b": np.ones(6, np.int32)}
    weights |= quantised("x", 0) | quantised("w", 1) | quantised("y", 0)
    linear = ops_of(
        model(
            [node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"], name="c")],
            [("x", UINT8, ["N", 4, 8, 8])],
            [("y", UINT8, None)],
            weights,
        )
    )["c"]
    assert (linear.macs(2), linear.stored) == (2 * 6 * 36 * 36, 6 * 36 + 6)
    pairs = [
        node("DequantizeLinear", ["w", "ws", "wz"], ["wf"]),
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"], name="q"),
        node("DequantizeLinear", ["q", "xs", "xz"], ["f"], name="dq"),
        node("Conv", ["f", "wf"], ["y"], name="c"),
    ]
    ops = ops_of(model(pairs, [("x", FLOAT, ["N", 4, 8, 8])], [("y", FLOAT, None)], weights))
    assert list(ops) == ["q", "dq", "c"]
    assert (ops["c"].macs(2), ops["c"].stored) == (2 * 6 * 36 * 36, 6 * 36)
    dynamic = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="q"),
        node("MatMulInteger", ["q", "w", "z"], ["i"], name="product"),
        node("Cast", ["i"], ["f"], name="cast", to=FLOAT),
        node("Mul", ["f", "s"], ["y"], name="scale"),
    ]
    ops = ops_of(model(dynamic, [("x", FLOAT, ["N", 4])], [("y", FLOAT, None)], {"w": np.ones((4, 3), np.int8)}))
    assert list(ops) == ["q", "product", "cast", "scale"]
    assert (ops["product"].macs(5), ops["product"].stored) == (5 * 12, 12)


@pytest.mark.parametrize(
    "kind",
    [
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.INT4,
        TensorProto.UINT4,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E5M2,
    ],
)
def test_weights_of_narrow_types(kind):
    tensor = helper.make_tensor("w", kind, [4, 3], [1.0] * 12)
    nodes = [node("Cast", ["w"], ["f"], to=FLOAT), node("MatMul", ["x", "f"], ["y"], name="p")]
    ops = ops_of(model(nodes, [("x", FLOAT, ["N", 4])], [("y", FLOAT, None)], {"w": tensor}, opset=21))
    assert (list(ops), ops["p"].stored) == (["p"], 12)


def test_clicks_of_several_inputs_and_outputs():
    nodes = [
        node("Gemm", ["dense", "wd", "bd"], ["d"], name="bottom"),
        node("Gather", ["table", "ids"], ["rows"], name="rows"),
        node("ReduceSum", ["rows", "axis"], ["bag"], name="bag", keepdims=0),
        node("Concat", ["d", "bag"], ["z"], name="both", axis=1),
        node("Gemm", ["z", "wt", "bt"], ["click"], name="top"),
    ]
    weights = {"wd": f32(13, 16), "bd": f32(16), "table": f32(1000, 16), "axis": i64(1), "wt": f32(32, 1), "bt": f32(1)}
    given = [("dense", FLOAT, ["N", 13]), ("ids", INT64, ["N", 7])]
    graph = read_onnx(model(nodes, given, [("click", FLOAT, None), ("bag", FLOAT, None)], weights))
    ops = {op.name: op for op in graph.phases[0].ops}
    assert ops["rows"].gather_rows.at(4) == 28
    assert ops["bag"].flops.at(4) == 4 * 7 * 16
    assert graph.parameters == 13 * 16 + 16 + 16000 + 32 + 1
    assert (graph.input_elements.at(4), graph.output_elements.at(4)) == (4 * 20, 4 * 17)


def test_broadcast_operands_are_read_once():
    nodes = [
        node("GlobalAveragePool", ["x"], ["m"], name="mean"),
        node("Mul", ["x", "m"], ["y"], name="scale"),
    ]
    op = ops_of(model(nodes, [("x", FLOAT, ["N", 8, 6, 6])], [("y", FLOAT, None)]))["scale"]
    assert op.reads.at(2) == 2 * 8 * 36 + 2 * 8


def test_a_split_writes_all_its_parts_and_dead_branches_do_not_run():
    nodes = [
        node("Split", ["x"], ["a", "b"], name="halves", axis=1, num_outputs=2),
        node("Exp", ["b"], ["unused"], name="dead"),
        node("Relu", ["a"], ["y"], name="kept"),
    ]
    ops = ops_of(model(nodes, [("x", FLOAT, ["N", 8])], [("y", FLOAT, None)]))
    assert list(ops) == ["halves", "kept"]
    assert ops["halves"].writes.at(3) == 24


@pytest.mark.parametrize(
    ("opset", "nodes"),
    [
        (6, [("Clip", ["x"], {"min": 0.0, "max": 6.0})]),
        (13, [("Clip", ["x", "low", "high"], {})]),
        (12, [("Squeeze", ["x"], {"axes": [2]}), ("Softmax", ["0"], {"axis": 1})]),
        (13, [("Squeeze", ["x", "two"], {}), ("Softmax", ["0"], {})]),
        (12, [("ReduceSum", ["x"], {"axes": [1]})]),
        (13, [("ReduceSum", ["x", "two"], {})]),
        (17, [("ReduceMean", ["x"], {"axes": [1]})]),
        (18, [("ReduceMean", ["x", "two"], {})]),
        (9, [("Slice", ["x"], {"starts": [0], "ends": [2], "axes": [1]})]),
        (10, [("Slice", ["x", "zero", "two"], {})]),
        (7, [("Dropout", ["x"], {"ratio": 0.5}), ("Relu", ["0"], {})]),
        (12, [("Dropout", ["x"], {}), ("Relu", ["0"], {})]),
    ],
)
def test_every_opset_s_way_to_say_it(opset, nodes):
    """Bounds, axes and sizes are attributes in old opsets and inputs in new ones: none is a parameter."""
    made, last = [], "x"
    for at, (kind, inputs, marks) in enumerate(nodes):
        last = str(at)
        made.append(node(kind, inputs, [last], **marks))
    weights = {"low": np.array(0, np.float32), "high": np.array(6, np.float32), "two": i64(2), "zero": i64(0)}
    graph = read_onnx(model(made, [("x", FLOAT, [2, 4, 1])], [(last, FLOAT, None)], weights, opset=opset))
    assert len(graph.phases[0].ops) == 1
    assert graph.parameters == 0
    assert (
        graph.phases[0].ops[0].flops.at(2)
        == {"Clip": 16, "Softmax": 40, "ReduceSum": 8, "ReduceMean": 8, "Slice": 0, "Relu": 8}[nodes[-1][0]]
    )


def test_local_functions_are_written_out():
    opsets = [helper.make_opsetid("", 20)]
    block = helper.make_function(
        "own", "Block", ["a", "w"], ["o"], [node("MatMul", ["a", "w"], ["t"]), node("Relu", ["t"], ["o"])], opsets
    )
    nodes = [node("Block", ["x", "w"], ["a"], domain="own"), node("Block", ["a", "w"], ["y"], domain="own")]
    data = model(
        nodes, [("x", FLOAT, ["N", 4])], [("y", FLOAT, None)], {"w": f32(4, 4)}, functions=[block], domains=["own"]
    )
    graph = read_onnx(data)
    assert [op.kind for op in graph.phases[0].ops] == ["Gemm", "Relu", "Gemm", "Relu"]
    assert (graph.macs(2), graph.parameters) == (64, 16)


def test_fused_operators_of_onnxruntime():
    nodes = [
        node("SkipLayerNormalization", ["x", "x", "g", "b"], ["n"], name="norm", domain="com.microsoft"),
        node("BiasGelu", ["n", "b"], ["y"], name="gelu", domain="com.microsoft"),
    ]
    ops = ops_of(
        model(
            nodes,
            [("x", FLOAT, ["batch", "seq", 8])],
            [("y", FLOAT, None)],
            {"g": f32(8), "b": f32(8)},
            domains=["com.microsoft"],
        )
    )
    assert ops["norm"].flops.at(2, 3) == 2 * 3 * 8 * 8  # an addition before the seven of the norm
    assert ops["gelu"].flops.at(2, 3) == 2 * 3 * 8 * 10
    assert [op.stored for op in ops.values()] == [16, 0]
