"""Small ONNX files for the tests of the importer, written node by node."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["FLOAT", "INT64", "f32", "i64", "model", "node"]

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
