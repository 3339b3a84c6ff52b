"""The trained Wide & Deep in other libraries, one thread each, on ids that are hashed already."""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

from engine.lab.numerics.criteo import FIELDS, NUMERIC
from engine.lab.numerics.wide_deep import Prepared, WideDeep

Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(rows into all tables laid end to end [batch, 26], numbers [batch, 13]) -> chance of a click [batch]."""


def flat_rows(rows: Prepared, model: WideDeep) -> np.ndarray:
    """Buckets as rows of the tables laid end to end, int64 [rows, 26]."""
    return rows.buckets + np.arange(FIELDS) * model.tables.shape[1]


def _graph(model: WideDeep) -> onnx.ModelProto:
    width = model.tables.shape[2]
    constants = {
        "tables": model.tables.reshape(-1, width),
        "wide": model.wide.reshape(-1, 1),
        "wide_numeric": model.wide_numeric[:, None],
        "flat": np.array([-1, FIELDS * width]),
        "axis": np.array([1]),
    }
    nodes = [
        helper.make_node("Gather", ["tables", "ids"], ["rows"]),
        helper.make_node("Reshape", ["rows", "flat"], ["embedded"]),
        helper.make_node("Concat", ["embedded", "numbers"], ["x0"], axis=1),
    ]
    for i, (w, b) in enumerate(zip(model.weights, model.biases, strict=True)):
        constants |= {f"w{i}": w, f"b{i}": b}
        last = i == len(model.weights) - 1
        nodes.append(helper.make_node("Gemm", [f"x{i}", f"w{i}", f"b{i}"], ["deep" if last else f"y{i}"]))
        if not last:
            nodes.append(helper.make_node("Relu", [f"y{i}"], [f"x{i + 1}"]))
    nodes += [
        helper.make_node("Gather", ["wide", "ids"], ["weights"]),
        helper.make_node("ReduceSum", ["weights", "axis"], ["sum"], keepdims=0),
        helper.make_node("MatMul", ["numbers", "wide_numeric"], ["linear"]),
        helper.make_node("Add", ["deep", "sum"], ["both"]),
        helper.make_node("Add", ["both", "linear"], ["logit"]),
        helper.make_node("Sigmoid", ["logit"], ["p"]),
    ]
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", FIELDS]),
        helper.make_tensor_value_info("numbers", TensorProto.FLOAT, ["n", NUMERIC]),
    ]
    graph = helper.make_graph(
        nodes,
        "wide-deep",
        inputs,
        [helper.make_tensor_value_info("p", TensorProto.FLOAT, ["n", 1])],
        [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _runs(model: bytes, threads: int) -> Predict:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda ids, numbers: session.run(None, {"ids": ids, "numbers": numbers})[0][:, 0]


def ort_fp32(model: WideDeep, threads: int = 1) -> Predict:
    """onnxruntime in FP32."""
    return _runs(_graph(model).SerializeToString(), threads)


class _Reader(quantization.CalibrationDataReader):
    def __init__(self, ids: np.ndarray, numbers: np.ndarray) -> None:
        self._batches: Iterator[dict[str, np.ndarray]] = iter(
            [{"ids": ids[at : at + 500], "numbers": numbers[at : at + 500]} for at in range(0, len(ids), 500)]
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._batches, None)


def ort_int8(model: WideDeep, rows: Prepared, threads: int = 1) -> Predict:
    """onnxruntime after its static quantisation (QDQ, u8 activations, s8 weights) of the deep products."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "fp32.onnx", Path(folder) / "int8.onnx"
        onnx.save(_graph(model), source)
        quantization.quantize_static(
            str(source),
            str(target),
            _Reader(flat_rows(rows, model), rows.numbers),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=["Gemm", "Relu"],
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )
        return _runs(target.read_bytes(), threads)


def torch_peers(model: WideDeep, rows: Prepared, batch: int, threads: int = 1) -> dict[str, Predict]:
    """torch in FP32 and INT8 through oneDNN with packed weights; empty where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    ops, width = torch.ops, model.tables.shape[2]
    tables, wide = torch.from_numpy(model.tables.reshape(-1, width)), torch.from_numpy(model.wide.reshape(-1))
    linear = torch.from_numpy(model.wide_numeric)
    biases = [torch.from_numpy(b) for b in model.biases]
    turned = [torch.from_numpy(np.ascontiguousarray(w.T)) for w in model.weights]
    packed = [ops.mkldnn._reorder_linear_weight(w, batch) for w in turned]

    def ends(deep: Any, ids: Any, numbers: Any) -> np.ndarray:
        return torch.sigmoid(deep[:, 0] + wide[ids].sum(1) + numbers @ linear).numpy()

    def fp32(ids: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        picked, given = torch.from_numpy(ids), torch.from_numpy(numbers)
        x = torch.cat([torch.nn.functional.embedding(picked, tables).reshape(len(ids), -1), given], 1)
        for i, (w, b) in enumerate(zip(packed, biases, strict=True)):
            x = ops.mkldnn._linear_pointwise(x, w, b, "relu" if i < len(packed) - 1 else "none", [], "")
        return ends(x, picked, given)

    at = np.arange(FIELDS)[None]
    x = np.concatenate([model.tables[at, rows.buckets].reshape(len(rows.buckets), -1), rows.numbers], 1)
    scales, zero = [float(x.max() - x.min()) / 255], round(float(-x.min() / (x.max() - x.min()) * 255))
    for w, b in zip(model.weights[:-1], model.biases[:-1], strict=True):
        x = np.maximum(x @ w + b, 0)
        scales.append(float(x.max()) / 255)
    steps = [np.abs(w).max() / 127 for w in model.weights]
    rounded = [np.rint(w.T / s) for w, s in zip(model.weights, steps, strict=True)]
    codes = [torch.from_numpy(np.ascontiguousarray(w, np.int8)) for w in rounded]
    low = [ops.onednn.qlinear_prepack(c, [batch, c.shape[1]]) for c in codes]
    units = [torch.tensor([s], dtype=torch.float32) for s in steps]
    none = torch.zeros(1, dtype=torch.int64)
    bytes_ = torch.clamp(torch.round(tables / scales[0]) + zero, 0, 255).to(torch.uint8)

    def int8(ids: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        picked, given = torch.from_numpy(ids), torch.from_numpy(numbers)
        coded = torch.clamp(torch.round(given / scales[0]) + zero, 0, 255).to(torch.uint8)
        x = torch.cat([bytes_.index_select(0, picked.reshape(-1)).reshape(len(ids), -1), coded], 1)
        for i, (w, b) in enumerate(zip(low, biases, strict=True)):
            last = i == len(low) - 1
            x = ops.onednn.qlinear_pointwise(
                x,
                scales[i],
                zero if i == 0 else 0,
                w,
                units[i],
                none,
                b,
                1.0 if last else scales[i + 1],
                0,
                torch.float32 if last else torch.uint8,
                "none" if last else "relu",
                [],
                "",
            )
        return ends(x, picked, given)

    return {"torch fp32": fp32, "torch int8": int8}
