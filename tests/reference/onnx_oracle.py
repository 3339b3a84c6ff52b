"""One ONNX operator run by onnxruntime: the outside oracle."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def session(nodes, inputs, outputs, constants=None, threads=1, opset=20):
    """Session over ``nodes``; ``inputs`` and ``outputs`` map a name to an ONNX element type."""
    graph = helper.make_graph(
        nodes,
        "oracle",
        [helper.make_tensor_value_info(name, kind, None) for name, kind in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=9
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(kind, feeds, output=TensorProto.FLOAT, names=None, which=0, outputs=1, **attributes):
    """Output ``which`` of one operator; ``names`` lists its inputs in order ('' for an absent one)."""
    produced = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(kind, names or list(feeds), produced, **attributes)
    types = {name: helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype) for name, value in feeds.items()}
    return session([node], types, {produced[which]: output}).run(None, feeds)[0]


def channels_first(x):
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


__all__ = ["TensorProto", "channels_first", "helper", "onnx", "run", "session"]
