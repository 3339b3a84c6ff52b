"""Small ONNX files for the tests of the importer, written node by node."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["FLOAT", "INT64", "conv", "f32", "i64", "model", "node"]

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def f32(*shape: int) -> np.ndarray:
    """Weights of that shape."""
    return np.ones(shape, np.float32)


def i64(*values: int) -> np.ndarray:
    """A list of whole numbers."""
    return np.array(values, np.int64)


def model(nodes, inputs, outputs, weights=None, *, opset=20, functions=(), domains=()) -> bytes:
    """Bytes of a model, unchecked; inputs and outputs are (name, type, shape), weights arrays or tensors."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        [numpy_helper.from_array(w, n) if isinstance(w, np.ndarray) else w for n, w in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)
    return made.SerializeToString()


def conv() -> bytes:
    """A network of one convolution of stride 2, ReLU, mean and a fully connected layer, with an open batch."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], name="c1", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["r"], name="r1"),
        node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        node("Flatten", ["p"], ["f"], name="flat"),
        node("Gemm", ["f", "w2", "b2"], ["y"], name="fc", transB=1),
    ]
    weights = {"w1": f32(8, 3, 3, 3), "b1": f32(8), "w2": f32(10, 8), "b2": f32(10)}
    return model(nodes, [("x", FLOAT, ["N", 3, 12, 12])], [("y", FLOAT, ["N", 10])], weights)
