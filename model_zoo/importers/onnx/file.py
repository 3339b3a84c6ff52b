"""An ONNX file opened and checked: parsed, its own functions expanded, every tensor made once and before it is read."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from model_zoo.schema import WorkloadError

MAX_BYTES = 256 * 1024 * 1024
MAX_NODES = 20_000
MAX_ELEMENTS = 2**48  # of one tensor
SMALL = 4096  # elements up to which a tensor's values are looked at: shapes, axes, positions
_PAST = re.compile(r"past|cache")
_TOTAL = re.compile(r"total|past|\+")  # an axis as long as what is cached and what enters together
_BATCHES = frozenset({"batch", "batch_size", "batchsize", "bs", "b", "n"})

NATIVE = (RuntimeError, ValueError, IndexError, OverflowError, MemoryError)
"""What the exceptions of C++'s library are in Python; onnx's own come on top."""

Axes = tuple[int | str, ...]


@dataclass(frozen=True)
class File:
    """What a file holds before any shape is worked out.

    `inputs` are the tensors that enter with their axes, an open axis by its name; `weights` the shapes of the file's
    own tensors and `elements` their ONNX element type; `small` those of at most `SMALL` elements, data and all.
    `batch` is the open axis that is the batch, or its fixed size; `length` the one other open axis. A decoder with a
    cache has more: `past` are the inputs that hold it, and `axes` says what each open axis is, as (a, b) of a * L + b
    at a length L, in the pass at hand.
    """

    nodes: tuple[Any, ...]
    outputs: tuple[str, ...]
    inputs: dict[str, Axes]
    elements: dict[str, int]
    weights: dict[str, tuple[int, ...]]
    small: dict[str, Any]
    opset: int
    ir_version: int
    batch: int | str
    length: str | None
    past: frozenset[str] = frozenset()
    axes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    steps: bool = False  # whether this is the pass of one more token, its length the context

    def at(self, batch: int, length: int) -> dict[str, int]:
        """Sizes of the open axes at a batch and a length."""
        sizes = {axis: a * length + b for axis, (a, b) in self.axes.items()}
        sizes |= {self.length: length} if self.length is not None and self.length not in sizes else {}
        return sizes | ({self.batch: batch} if isinstance(self.batch, str) else {})

    def passes(self) -> "tuple[File, ...]":
        """The file as it fills its cache and as it adds a token to it."""
        open_axes = {a for axes in self.inputs.values() for a in axes if isinstance(a, str) and a != self.batch}
        behind = {a for name in self.past for a in self.inputs[name] if isinstance(a, str) and a != self.batch}
        first = {a: ((0, 0) if a in behind else (1, 0)) for a in open_axes}
        step = {a: (1, -1) if a in behind else (0, 1) if a == self.length else (1, 0) for a in open_axes}
        return replace(self, axes=first), replace(self, axes=step, steps=True)


def quote(name: str) -> str:
    """A name out of a file as a sentence may hold it: short, quoted, control characters escaped."""
    return repr(name if len(name) <= 60 else name[:57] + "...")


def first_line(error: BaseException) -> str:
    """First line of somebody else's complaint, printable and short."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return re.sub(r"[^\x20-\x7e]", "?", line)[:120]


def open_file(data: bytes) -> File:
    """The file of these bytes; WorkloadError in one sentence otherwise."""
    model = _parse(data)
    graph = model.graph
    opset = _opset(model)
    if graph.sparse_initializer:
        raise WorkloadError("the ONNX model keeps weights as sparse tensors, which have no count here")
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    weights = {name: _weight(tensor) for name, tensor in tensors.items()}
    elements = {name: tensor.data_type for name, tensor in tensors.items()}
    inputs = {v.name: _axes(v) for v in graph.input if v.name not in tensors}
    elements |= {v.name: v.type.tensor_type.elem_type for v in graph.input if v.name not in tensors}
    batch, length, past = _open_axes(inputs)
    outputs = tuple(v.name for v in graph.output)
    nodes = _live_nodes(tuple(graph.node), {*inputs, *tensors}, outputs)
    small = {name: t for name, t in tensors.items() if prod(t.dims) <= SMALL and t.data_location != t.EXTERNAL}
    return File(nodes, outputs, inputs, elements, weights, small, opset, model.ir_version, batch, length, past)


def _parse(data: bytes) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    if not isinstance(data, bytes | bytearray | memoryview):
        raise WorkloadError(f"an ONNX model is read from bytes, not from {type(data).__name__}")
    if len(data) > MAX_BYTES:
        raise WorkloadError(f"the file has more than the {MAX_BYTES} bytes that are read: keep its weights outside it")
    try:
        model = onnx.load_model_from_string(bytes(data))
    except (DecodeError, ValueError) as error:
        if "alloc failed" in str(error):  # the parser's word for it
            raise MemoryError from None
        raise WorkloadError(f"not readable as an ONNX model ({first_line(error)})") from None
    if not model.graph.node:
        raise WorkloadError("the ONNX model has no nodes")
    if not all(isinstance(text, str) for text in _texts(model)):
        raise WorkloadError("not readable as an ONNX model (a name in it is no text)")
    count = _node_count(model)
    if count > MAX_NODES:
        shown = count if count < 10**12 else "more than 10^12"
        raise WorkloadError(f"the ONNX model has {shown} nodes; at most {MAX_NODES} are read")
    return _inline(model) if model.functions else model


def _texts(model: Any) -> Iterator[Any]:
    """Every name the importer goes by; protobuf hands out bytes where one is not UTF-8."""
    for entry in model.opset_import:
        yield entry.domain
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer, *model.functions):
        yield value.name
    for value in model.graph.input:
        yield from (axis.dim_param for axis in value.type.tensor_type.shape.dim)
    for function in model.functions:
        yield function.domain
        yield from (*function.input, *function.output)
    for node in (*model.graph.node, *(node for function in model.functions for node in function.node)):
        yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _node_count(model: Any) -> int:
    """Nodes with every call of the model's own functions written out."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    counts: dict[tuple[str, str, str], int | None] = {}

    def size(node: Any) -> int:
        key = (node.domain, node.op_type, node.overload)
        if key not in functions:
            return 1
        if key not in counts:
            counts[key] = None
            counts[key] = sum(size(inner) for inner in functions[key].node)
        if counts[key] is None:
            raise WorkloadError(f"the ONNX model's function {quote(node.op_type)} calls itself")
        return counts[key] or 0

    try:
        return sum(size(node) for node in model.graph.node)
    except RecursionError:
        raise WorkloadError("the ONNX model's functions call each other too deeply to be read") from None


def _inline(model: Any) -> Any:
    from onnx import checker, inliner

    try:
        return inliner.inline_local_functions(model)
    except (checker.ValidationError, *NATIVE) as error:
        raise WorkloadError(f"the ONNX model's own functions can't be written out ({first_line(error)})") from None


def _opset(model: Any) -> int:
    from onnx import defs

    result = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    newest = defs.onnx_opset_version()
    if not result:
        raise WorkloadError("the ONNX model does not say which opset it uses")
    if not 1 <= result[0] <= newest:
        raise WorkloadError(f"the ONNX model's opset is {result[0]}; 1 to {newest} can be read")
    return int(result[0])


def _weight(tensor: Any) -> tuple[int, ...]:
    dims = tuple(tensor.dims)
    if any(d < 0 for d in dims) or prod(dims) > MAX_ELEMENTS:
        extents = " x ".join(map(str, dims[:8]))
        raise WorkloadError(
            f"weight {quote(tensor.name)} has the shape {extents}; extents of at least 0 and together at most "
            f"{MAX_ELEMENTS} elements are allowed"
        )
    return dims


def _axes(value: Any) -> Axes:
    """Axes of an input: a number, or the name of an open axis (one of its own where the file gives none)."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise WorkloadError(f"input {quote(value.name)} is no tensor: sequences, maps and optionals have no count here")
    if not kind.HasField("shape"):
        raise WorkloadError(f"input {quote(value.name)} has no shape; export the model with one")
    axes: list[int | str] = []
    for number, axis in enumerate(kind.shape.dim):
        if not axis.HasField("dim_value") or axis.dim_value == -1:  # some exporters write -1 for an open axis
            axes.append(axis.dim_param or f"{value.name}.{number}")
        elif 0 < axis.dim_value <= MAX_ELEMENTS:
            axes.append(int(axis.dim_value))
        else:
            raise WorkloadError(
                f"input {quote(value.name)} has {axis.dim_value} along axis {number}; 1 to {MAX_ELEMENTS} or an open "
                "axis is allowed"
            )
    return tuple(axes)


def _open_axes(inputs: dict[str, Axes]) -> tuple[int | str, str | None, frozenset[str]]:
    """Which axis of the inputs is the batch, which the length, and which inputs hold a cache of tokens before: those
    named so that are open along one axis beside the batch's."""
    first = next((axes for axes in inputs.values() if axes), None)
    if first is None:
        raise WorkloadError("the ONNX model has no input with a shape")
    open_axes = list(dict.fromkeys(a for axes in inputs.values() for a in axes if isinstance(a, str)))
    batch = next((a for a in open_axes if a.lower() in _BATCHES), first[0])
    free = {name: [a for a in axes if isinstance(a, str) and a != batch] for name, axes in inputs.items()}
    past = frozenset(n for n in inputs if _PAST.search(n.lower()) and len(inputs[n]) >= 3 and len(free[n]) == 1)
    behind = {axis for name in past for axis in free[name]}
    lengths = [a for a in open_axes if a != batch and a not in behind and not (past and _TOTAL.search(a.lower()))]
    if len(lengths) > 1:
        raise WorkloadError(
            f"the inputs leave the axes {', '.join(map(quote, lengths[:6]))} open beside the batch "
            f"{quote(str(batch))}; one length is allowed, so give the others a size"
        )
    return batch, lengths[0] if lengths else None, past


def _live_nodes(nodes: tuple[Any, ...], inputs: set[str], outputs: tuple[str, ...]) -> tuple[Any, ...]:
    """Nodes that some output needs, after a check that every tensor is made once and before it is read."""
    available = set(inputs)
    for number, node in enumerate(nodes, 1):
        label = quote(node.name or f"{node.op_type.lower()}{number}")
        for name in node.input:
            if name and name not in available:
                raise WorkloadError(
                    f"node {label} reads {quote(name)}, which no input, weight or earlier node of the ONNX model makes"
                )
        for name in node.output:
            if name and name in available:
                raise WorkloadError(f"node {label} makes {quote(name)}, which exists already")
            available.add(name)
    if not outputs:
        raise WorkloadError("the ONNX model has no output")
    for name in outputs:
        if name not in available or not name:
            raise WorkloadError(f"output {quote(name)} of the ONNX model is made by no node")
    tensors, live = set(outputs), []
    for node in reversed(nodes):
        if tensors.intersection(filter(None, node.output)):
            tensors.update(node.input)
            live.append(node)
    return tuple(reversed(live))
