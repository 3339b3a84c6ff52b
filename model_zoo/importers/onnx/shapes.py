"""Shapes of every tensor of an ONNX file at one batch and length: ONNX's own inference, node by node.

Arithmetic on shapes (what exporters write for a reshape) is carried out on the way, on tensors of at most `SMALL`
elements, so that what follows from the lengths is known as it would be at run time.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from entries.files import read_plain
from model_zoo.importers.onnx.file import MAX_ELEMENTS, NATIVE, SMALL, File, first_line, quote
from model_zoo.schema import WorkloadError

OPERATORS = read_plain(Path(__file__).with_name("operators.yaml"))
_FOLDABLE, MICROSOFT = (frozenset(OPERATORS[name]) for name in ("foldable", "microsoft"))
_BRANCHES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
_VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_MOST_AXES = 64  # of a tensor: far more than anything has


@dataclass
class Walk:
    """Types of all tensors at one batch and length; `data` holds the small ones whose values follow from shapes."""

    file: File
    batch: int
    length: int
    types: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from onnx import helper

        at = self.file.at(self.batch, self.length)
        for name, axes in self.file.inputs.items():
            shape = [at.get(a, a) if isinstance(a, str) else a for a in axes]
            self.types[name] = helper.make_tensor_type_proto(self.file.elements[name], shape)
            self._limit(name, f"input {quote(name)}")
        for name, shape in self.file.weights.items():
            self.types[name] = helper.make_tensor_type_proto(self.file.elements[name], shape)
        self.data.update(self.file.small)
        for number, node in enumerate(self.file.nodes, 1):
            self._node(node, number)

    def shape(self, name: str) -> tuple[int | None, ...] | None:
        """Extents of a tensor, None for one that depends on the data; None for a tensor nothing is known about."""
        kind = self.types.get(name)
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        return tuple(int(d.dim_value) if d.HasField("dim_value") else None for d in kind.tensor_type.shape.dim)

    def element(self, name: str) -> int:
        """ONNX element type of a tensor, 0 where it is not known."""
        kind = self.types.get(name)
        return kind.tensor_type.elem_type if kind is not None else 0

    def count(self, name: str) -> int | None:
        """Elements of a tensor, None where they can't be known from shapes."""
        extents = self.shape(name)
        return None if extents is None or None in extents else prod(e for e in extents if e is not None)

    def _limit(self, name: str, where: str) -> None:
        count = self.count(name)
        if count is not None and not 0 <= count <= MAX_ELEMENTS:
            raise WorkloadError(f"{where} has {count:.3g} elements; at most {MAX_ELEMENTS} are allowed")

    def _node(self, node: Any, number: int) -> None:
        if node.op_type in _BRANCHES:
            return
        if node.domain == "com.microsoft" and node.op_type in MICROSOFT and node.input and node.input[0] in self.types:
            self.types[node.output[0]] = self.types[node.input[0]]
            return
        schema = _schema(node.op_type, self.file.opset) if node.domain in ("", "ai.onnx") else None
        if schema is None:
            return
        label = quote(node.name or f"{node.op_type.lower()}{number}")
        _refuse_fatal(node, label)
        self._infer(schema, node, label)
        if node.op_type == "NonMaxSuppression":
            self._bound(node)
        for name in filter(None, node.output):
            self._limit(name, f"the result {quote(name)} of node {label}")
        if node.op_type in _VIEWS:
            before, after = self.count(node.input[0]), self.count(node.output[0])
            if None not in (before, after) and before != after:
                raise WorkloadError(
                    f"node {label} ({node.op_type}) makes {after} elements of {before} at batch {self.batch} and "
                    f"length {self.length}: its sizes are those of one batch or length, so fix the open axes to it"
                )
        self._fold(node)

    def _bound(self, node: Any) -> None:
        """Boxes that are kept at most, where the file says how many of a class are."""
        from onnx import helper, numpy_helper

        boxes, scores = self.shape(node.input[0]), self.shape(node.input[1])
        limit = self.data.get(node.input[2]) if len(node.input) > 2 else None
        if limit is None or not boxes or not scores or None in boxes or None in scores:
            return
        per_class = min(int(numpy_helper.to_array(limit).reshape(-1)[0]), boxes[1] or 0)
        if per_class > 0:
            rows = (boxes[0] or 0) * (scores[1] or 0) * per_class
            self.types[node.output[0]] = helper.make_tensor_type_proto(7, [rows, 3])

    def _infer(self, schema: Any, node: Any, label: str) -> None:
        from onnx import checker, helper, shape_inference

        names = [name for name in node.input if name]
        try:
            checker.check_node(node, _context(self.file.opset, self.file.ir_version))
            if not all(name in self.types for name in names):
                return
            types = shape_inference.infer_node_outputs(
                schema,
                node,
                {n: self.types[n] for n in names},
                {n: self.data[n] for n in names if n in self.data},
                opset_imports=[helper.make_opsetid("", self.file.opset)],
                ir_version=self.file.ir_version,
            )
        except (shape_inference.InferenceError, checker.ValidationError, *NATIVE) as error:
            complaint = first_line(error)
            raise WorkloadError(
                f"inputs or attributes of node {label} ({node.op_type}) do not fit ({complaint})"
            ) from None
        self.types.update(types)

    def _fold(self, node: Any) -> None:
        """Values of a node whose result follows from shapes alone, where it is small."""
        from onnx import numpy_helper

        inputs, outputs = [n for n in node.input if n], [n for n in node.output if n]
        sizes = [self.count(name) for name in outputs]
        if node.op_type not in _FOLDABLE or not all(size is not None and size <= SMALL for size in sizes):
            return
        try:
            if node.op_type in ("Shape", "Size"):  # of whatever lies there
                shapes = {n: self.shape(n) or () for n in inputs if self.count(n) is not None}
                feeds = {n: np.broadcast_to(False, [e or 0 for e in shape]) for n, shape in shapes.items()}
            else:
                feeds = {n: numpy_helper.to_array(self.data[n]) for n in inputs if n in self.data}
            if not feeds.keys() >= set(inputs):
                return
            results = _runner(node.SerializeToString(), self.file.opset).run(None, feeds)
            for name, value in zip(outputs, results, strict=True):
                if value.size <= SMALL:
                    self.data[name] = numpy_helper.from_array(value, name)
        except Exception:  # each operator of the reference is Python of its own and raises what it likes
            return  # the value stays unknown


@lru_cache(maxsize=8192)
def _runner(node: bytes, opset: int) -> Any:
    """ONNX's reference implementation of one node."""
    from onnx import NodeProto, helper
    from onnx.reference import ReferenceEvaluator

    proto = NodeProto.FromString(node)
    inputs = [
        helper.make_value_info(n, helper.make_tensor_type_proto(0, None)) for n in dict.fromkeys(proto.input) if n
    ]
    outputs = [helper.make_value_info(n, helper.make_tensor_type_proto(0, None)) for n in proto.output if n]
    graph = helper.make_graph([proto], "node", inputs, outputs)
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))


@lru_cache(maxsize=1024)
def _schema(kind: str, opset: int) -> Any:
    """ONNX's description of an operator; None where this opset has none of that name."""
    from onnx import defs

    try:
        return defs.get_schema(kind, opset)
    except defs.SchemaError:
        return None


@lru_cache(maxsize=1)
def _context(opset: int, ir_version: int) -> Any:
    """What ONNX's checker asks of a file before it looks at a node."""
    from onnx import checker

    context = checker.C.CheckerContext()
    context.ir_version, context.opset_imports = ir_version, {"": opset, "ai.onnx": opset}
    return context


def _refuse_fatal(node: Any, label: str) -> None:
    """Refuse values that ONNX's own inference trusts: they end the process, or keep it busy for a minute."""
    for attribute in node.attribute:
        name, value = attribute.name, attribute.i
        if name in ("axis", "batch_dims"):
            lowest = 0 if name == "batch_dims" else -_MOST_AXES
            if not lowest <= value <= _MOST_AXES:
                raise WorkloadError(
                    f"node {label} ({node.op_type}) has {name} {value}; {lowest} to {_MOST_AXES} is allowed"
                )
        elif name == "equation" and any(term.count(b".") not in (0, 3) for term in re.split(b",|->", attribute.s)):
            raise WorkloadError(f"node {label} ({node.op_type}) has a term with more than one '...' in its equation")
        elif name == "num_outputs" and value != len(node.output):
            raise WorkloadError(
                f"node {label} ({node.op_type}) has num_outputs {value} and {len(node.output)} results; as many are "
                "needed"
            )
