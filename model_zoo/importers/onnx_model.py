"""An ONNX file as a graph of ops: shapes from ONNX's own inference, counts by the rules of families/blocks.py.

The first axis of the first input is the batch. Where the file leaves it open, or leaves other axes open (the sequence),
counts are functions of them: an open axis that is not the batch is the length S, and the context C where it occurs a
second time in one tensor, as in attention scores. Where the file fixes the batch, activations are taken to grow with
it in proportion. Weights kept outside the file are not needed: only shapes are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from model_zoo.families.blocks import OPERATIONS, elementwise, linear, matmul, move
from model_zoo.ops import ONE, Dim, Graph, Linear, Op, Phase
from model_zoo.schema import WorkloadError

__all__ = ["MAX_BYTES", "MAX_NODES", "read_onnx"]

MAX_BYTES = 256 * 1024 * 1024
MAX_NODES = 20_000

_FREE = frozenset({
    "Constant", "ConstantOfShape", "Dropout", "Flatten", "Identity", "Range", "Reshape", "Shape", "Size", "Squeeze",
    "Unsqueeze",
})  # fmt: skip
_NEAREST = {  # ONNX names outside the vocabulary, by the kind that moves and computes alike
    "Abs": "Relu", "And": "Mul", "Ceil": "Relu", "Elu": "Silu", "Equal": "Sign", "Erf": "Tanh", "Exp": "Tanh",
    "Expand": "Tile", "Floor": "Relu", "Gelu": "Gelu", "Greater": "Sign", "GroupNormalization": "LayerNormalization",
    "HardSigmoid": "Clip", "InstanceNormalization": "LayerNormalization", "LeakyRelu": "Relu", "Less": "Sign",
    "Log": "Tanh", "LogSoftmax": "Softmax", "Max": "Add", "Min": "Add", "Mod": "Div", "Neg": "Relu", "Not": "Relu",
    "Or": "Mul", "PRelu": "Mul", "Pow": "Mul", "Reciprocal": "Div", "ReduceMean": "ReduceSum", "ReduceMin": "ReduceMax",
    "ReduceProd": "ReduceSum", "ReduceL2": "ReduceSum", "Round": "Relu", "Slice": "Split", "Softplus": "Sigmoid",
    "SpaceToDepth": "Transpose", "DepthToSpace": "Transpose", "Sqrt": "Div", "Sub": "Add", "Sum": "Add",
    "Trilu": "Mul", "Upsample": "Resize", "Where": "Add", "Cos": "Tanh", "Sin": "Tanh", "GatherND": "Split",
    "GatherElements": "Split", "ScatterND": "Split", "SimplifiedLayerNormalization": "RMSNormalization",
}  # fmt: skip
_MOVES = frozenset({"Transpose", "Concat", "Split", "Tile", "Resize", "Pad", "Cast", "QuantizeLinear",
                    "DequantizeLinear"})  # fmt: skip
_POOLS = frozenset({"MaxPool", "AveragePool"})
_PRODUCTS = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul", "Gemm"})
_CONVOLUTIONS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}  # position of the weights


@dataclass
class _File:
    """Shapes and producers of a file's tensors while it is walked."""

    shapes: dict[str, tuple[int | str, ...]]
    weights: dict[str, tuple[int, ...]]
    batch: int | str
    source: dict[str, tuple[str, ...]] = field(default_factory=dict)  # tensor -> ops that made it
    owned: set[str] = field(default_factory=set)
    ops: list[Op] = field(default_factory=list)

    def size(self, axes: tuple[int | str, ...]) -> Dim:
        """Elements of some axes of an activation as a count of B, S and C."""
        fixed = prod(a for a in axes if isinstance(a, int))
        opened = [a for a in axes if isinstance(a, str)]
        b = opened.count(str(self.batch)) if isinstance(self.batch, str) else 0
        lengths = len(opened) - b
        if b > 1 or lengths > 2:
            raise WorkloadError(
                f"a tensor has the open axes {', '.join(opened)}; one batch and two lengths are allowed"
            )
        return Dim(float(fixed), b, int(lengths > 0), int(lengths > 1))

    def elements(self, name: str) -> Dim:
        """Elements of an activation; a fixed batch is taken out and made a factor."""
        if name not in self.shapes:
            raise WorkloadError(
                f"the shape of tensor {name[:60]!r} can't be inferred; export the model with fixed shapes"
            )
        count = self.size(self.shapes[name])
        return Dim(count.coef / self.batch, 1, count.s, count.c) if isinstance(self.batch, int) else count

    def made_by(self, names: list[str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for name in names:
            found.update(dict.fromkeys(self.source.get(name, ())))
        return tuple(found)

    def own(self, names: list[str]) -> tuple[float, float]:
        """Parameters an op reads, and those of them no op before it has read."""
        read = new = 0.0
        for name in names:
            if name in self.weights:
                count = float(prod(self.weights[name]))
                read += count
                new += 0.0 if name in self.owned else count
                self.owned.add(name)
        return read, new


def _open(data: bytes) -> Any:
    try:
        import onnx
        from google.protobuf.message import DecodeError
        from onnx import shape_inference
    except ImportError:
        raise WorkloadError("reading ONNX needs the package onnx, which is not installed: pip install onnx") from None
    if len(data) > MAX_BYTES:
        raise WorkloadError(f"the file has {len(data)} bytes; at most {MAX_BYTES} are read (export without weights)")
    try:
        model = onnx.load_model_from_string(data)
        model = shape_inference.infer_shapes(model, data_prop=True)
    except (DecodeError, ValueError, RuntimeError, shape_inference.InferenceError) as error:
        raise WorkloadError(f"not readable as an ONNX model ({str(error).splitlines()[0][:120]})") from None
    if not model.graph.node:
        raise WorkloadError("the ONNX model has no nodes")
    if len(model.graph.node) > MAX_NODES:
        raise WorkloadError(f"the ONNX model has {len(model.graph.node)} nodes; at most {MAX_NODES} are read")
    return model


def _axes(value: Any) -> tuple[int | str, ...] | None:
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return tuple(
        int(axis.dim_value) if axis.HasField("dim_value") else (axis.dim_param or f"open{n}")
        for n, axis in enumerate(kind.shape.dim)
    )


def _survey(model: Any) -> _File:
    graph = model.graph
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    weights[node.output[0]] = tuple(attribute.t.dims)
    shapes: dict[str, tuple[int | str, ...]] = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        axes = _axes(value)
        if axes is not None and value.name not in weights:
            shapes[value.name] = axes
    entering = [v.name for v in graph.input if shapes.get(v.name)]
    if not entering:
        raise WorkloadError("the ONNX model has no input with a shape")
    batch = shapes[entering[0]][0]
    if batch == 0:
        raise WorkloadError("the first axis of the first input is 0; a batch of at least 1 or an open axis is needed")
    return _File(shapes, weights, batch)


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _product(file: _File, node: Any, name: str) -> Op:
    """Gemm where one side is weights, MatMul where both are computed."""
    sides = [node.input[0], node.input[3 if node.op_type == "QLinearMatMul" else 1]]
    out = file.elements(node.output[0])
    known = [side for side in sides if side in file.weights]
    if len(known) == 1:
        shape = file.weights[known[0]]
        turned = known[0] == sides[1]
        if node.op_type == "Gemm" and _attributes(node).get("transB" if turned else "transA", 0):
            shape = shape[::-1]
        k, n = (shape[-2], shape[-1]) if turned else (shape[-1], shape[-2])
        read, new = file.own(list(node.input))
        rows = Dim(out.coef / n, out.b, out.s, out.c)
        op = linear(name, rows, k, n, group="network", inputs=file.made_by(sides), bias=False, stored=new)
        return replace(op, weights=Dim(read))
    left, right = (file.shapes.get(side) for side in sides)
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        raise WorkloadError(f"node {name!r}: the shapes of its factors can't be inferred")
    flipped = _attributes(node) if node.op_type == "Gemm" else {}
    k, m = (left[-2], left[-1]) if flipped.get("transA") else (left[-1], left[-2])
    n = right[-2] if flipped.get("transB") else right[-1]
    # The inner axis S of a product with scores is their context.
    inner = Dim(1.0, 0, 0, 1) if isinstance(k, str) else Dim(float(k))
    rows, columns = (Dim(1.0, 0, int(i == 0), i) if isinstance(a, str) else Dim(float(a)) for i, a in enumerate((m, n)))
    copies = file.size(left[:-2])
    if isinstance(file.batch, int):
        copies = Dim(copies.coef / file.batch, 1, copies.s, copies.c)
    reads = file.elements(sides[0])
    more = file.elements(sides[1])
    op = matmul(name, copies, rows, columns, inner, group="network", reads=reads, inputs=file.made_by(sides))
    same = (reads.b, reads.s, reads.c) == (more.b, more.s, more.c)
    return replace(op, reads=Dim(reads.coef + more.coef, reads.b, reads.s, reads.c)) if same else op


def _convolution(file: _File, node: Any, name: str) -> Op:
    weight = node.input[_CONVOLUTIONS[node.op_type]]
    if weight not in file.weights:
        raise WorkloadError(f"node {name!r}: a convolution whose filters are computed can't be counted")
    filters, per_group, *kernel = file.weights[weight]
    found = _attributes(node)
    groups = int(found.get("group", 1))
    out = file.elements(node.output[0])
    window = per_group * prod(kernel)
    read, new = file.own(list(node.input))
    pixels = Dim(out.coef / filters, out.b, out.s, out.c)
    stride = (found.get("strides") or [1])[0]
    return Op(
        name=name, kind="Conv", group="network", inputs=file.made_by(list(node.input)), g=Dim(float(groups)), m=pixels,
        n=Dim(filters / groups), k=Dim(float(window)), flops=out * (2.0 * window), stored=new, weights=Dim(read),
        reads=file.elements(node.input[0]), writes=out, shard="n",
        attributes=(("kernel", float(kernel[0])), ("stride", float(stride)), ("groups", float(groups)),
                    ("channels", float(per_group * groups)), ("filters", float(filters))),
    )  # fmt: skip


def _lookup(file: _File, node: Any, name: str) -> Op:
    table, width = node.input[0], float(prod(file.weights[node.input[0]][1:]))
    rows = file.elements(node.input[1])
    _, new = file.own([table])
    return Op(
        name=name, kind="Gather", group="network", inputs=file.made_by(list(node.input)), stored=new,
        weights=rows * width, reads=rows, writes=rows * width, gather_rows=rows, row_elements=width, shard="n",
    )  # fmt: skip


def _plain(file: _File, node: Any, name: str, kind: str) -> Op:
    """Element-wise ops, reductions, pools and data movement."""
    out = file.elements(node.output[0])
    computed = [i for i in node.input if i in file.shapes]
    inputs = file.made_by(list(node.input))
    if kind in _MOVES:
        return move(name, kind, out, group="network", inputs=inputs)
    read, new = file.own(list(node.input))
    whole = file.elements(computed[0]) if computed else out
    if kind in _POOLS or kind == "GlobalAveragePool":
        window = float(prod(_attributes(node).get("kernel_shape", [1]))) if kind in _POOLS else whole.coef / out.coef
        return Op(name=name, kind=kind, group="network", inputs=inputs, flops=out * window, reads=whole, writes=out,
                  shard="elements", attributes=(("kernel", window**0.5),))  # fmt: skip
    reduced = kind in ("ReduceSum", "ReduceMax", "ArgMax", "TopK")
    op = elementwise(
        name, kind, whole if reduced else out, group="network", inputs=inputs,
        operands=1 if reduced else max(len(computed), 1), written=out, stored=new,
        operations=10.0 if kind == "LRN" else OPERATIONS[kind],
    )  # fmt: skip
    return replace(op, weights=Dim(read))


def _lower(file: _File, node: Any, name: str) -> Op:
    kind = _NEAREST.get(node.op_type, node.op_type)
    if node.op_type in _PRODUCTS:
        return _product(file, node, name)
    if node.op_type in _CONVOLUTIONS:
        return _convolution(file, node, name)
    if kind == "Gather":
        on_table = node.input[0] in file.weights and node.input[1] in file.shapes
        return _lookup(file, node, name) if on_table else _plain(file, node, name, "Split")
    if kind in _MOVES or kind in _POOLS or kind in OPERATIONS or kind in ("GlobalAveragePool", "LRN"):
        return _plain(file, node, name, kind)
    raise WorkloadError(f"node {name!r} is a {node.op_type[:40]!r}, an ONNX operator that has no count here")


def _bookkeeping(file: _File, node: Any, integers: set[str]) -> bool:
    """Reshapes move nothing, and arithmetic on shapes is a few integers."""
    if node.op_type in _FREE:
        return True
    outputs = [o for o in node.output if o]
    return all(o in integers and len(file.shapes.get(o, ())) <= 1 for o in outputs)


def read_onnx(data: bytes, unit: str = "inference") -> Graph:
    """Graph of an ONNX model given as bytes; WorkloadError says in one sentence what can't be read.

    Counts are exact for the operators it knows, with an activation function ONNX spells out counted operator by
    operator. Loops, recurrent operators and anything data dependent are refused.
    """
    model = _open(data)
    file = _survey(model)
    integers = {
        v.name for v in (*model.graph.value_info, *model.graph.output) if v.type.tensor_type.elem_type in (6, 7)
    }
    names: set[str] = set()
    for number, node in enumerate(model.graph.node, 1):
        made = file.made_by(list(node.input))
        if _bookkeeping(file, node, integers):
            file.source.update(dict.fromkeys(node.output, made))
            continue
        name = (node.name or f"{node.op_type.lower()}{number}")[:80]
        name = name if name not in names else f"{name}-{number}"
        names.add(name)
        file.ops.append(_lower(file, node, name))
        file.source.update(dict.fromkeys(node.output, (name,)))
    if not file.ops:
        raise WorkloadError("the ONNX model has no operator that computes")
    entering = [v.name for v in model.graph.input if v.name in file.shapes]
    through = Linear(0, 1, 0)
    return Graph(
        phases=(Phase("forward", tuple(file.ops), length=through, context=through),),
        unit=unit,
        input_elements=file.elements(entering[0]),
        output_elements=file.elements(model.graph.output[0].name) if model.graph.output else ONE,
    )
