"""An ONNX file as a graph of ops: shapes from ONNX's own inference, counts by the rules of families/blocks.py.

The batch is the open axis that is called so (batch, batch_size, N), else the first axis of the first input, unless a
recurrent layer says which one it is: ONNX names its axes, and its sequence comes first. One other axis of the inputs
may be open: it is the length S, and the context C where it occurs a second time in one count, as in attention scores.
Inputs that hold keys and values of tokens before make the file a decoder: it is walked as it fills its cache and as it
adds a token, past and present are one cache that stays where it is, and products read it there.
What grows neither in proportion to them nor stays is refused. Where the file fixes the batch, activations are taken to
grow with it in proportion.

What follows from weights alone is worked out once and costs nothing (runtimes do it when they load), and so is what
follows from the lengths (shapes, masks, positions). Weights kept outside the file are not needed: only shapes are read.
"""

import re
from dataclasses import replace
from math import prod
from typing import Any

from model_zoo.families.blocks import OPERATIONS, elementwise, gather, move
from model_zoo.importers.onnx.counts import Survey, combine
from model_zoo.importers.onnx.file import File, open_file, quote
from model_zoo.importers.onnx.products import PRODUCTS, RECURRENT, attributes_of, axes_of
from model_zoo.importers.onnx.shapes import MICROSOFT, OPERATORS
from model_zoo.ops import ONE, Dim, Graph, Linear, Op, Phase, Sum, dim
from model_zoo.schema import WorkloadError

_INDICES = frozenset({6, 7, 12, 13})  # ONNX's numbers for INT32, INT64, UINT32 and UINT64
_VIEWS, _MOVES, _GROWS, _POOLS, _REDUCTIONS, _SKIPS = (
    frozenset(OPERATORS[name]) for name in ("views", "moves", "grows", "pools", "reductions", "skips")
)
_KINDS = {name: kind for kind, names in OPERATORS["alike"].items() for name in names}
_WHY = OPERATORS["refused"]
_LAYOUT = _VIEWS | {"Transpose", "Expand", "Cast"}  # a cache is read as it lies, whatever form a product wants
_APPENDS, _LAYS = "appends", "lays out"
_COMPOSITES = RECURRENT | {"Attention"}  # several ops, named after the node


def _lookup(file: Survey, node: Any, name: str) -> list[Op]:
    """Rows of a table of the file's own."""
    width, (_, new) = float(prod(file.shape(node.input[0])[1:])), file.parameters([node.input[0]])
    fields = {"group": "network", "inputs": file.made_by(node.input), "stored": new}
    return [gather(name, file.elements(node.input[1]), 1, width, **fields)]


def _pool(file: Survey, node: Any, name: str, kind: str) -> list[Op]:
    whole, out = file.elements(node.input[0]), file.elements(node.output[0])
    marks = attributes_of(node)
    if kind in _POOLS:
        extents = marks["kernel_shape"]
        strides = marks.get("strides") or [1]
        work, window = out * float(prod(extents)), float(prod(extents)) ** (1 / len(extents))
        attributes = (("kernel", window), ("stride", float(max(strides))))
    else:
        work, (height, width) = whole, ((1, *file.shape(node.input[0])[2:]))[-2:]
        attributes = (("height", float(height)), ("width", float(width)))
    return [file.op(node, name, kind, flops=work, reads=whole, writes=out, shard="elements", attributes=attributes)]


def _plain(file: Survey, node: Any, name: str, kind: str) -> list[Op]:
    """Element-wise ops, reductions and data movement."""
    split = kind in ("Split", "TopK")
    out = combine([file.elements(o) for o in node.output if o]) if split else file.elements(node.output[0])
    activations = file.activations(node.input)
    inputs = file.made_by(node.input)
    if kind in _MOVES:
        reads = file.elements(activations[0]) if kind in _GROWS and activations else out
        return [move(name, kind, reads, group="network", inputs=inputs, writes=out)]
    reads = combine([file.elements(i) for i in activations]) if activations else out
    read, new = file.parameters(node.input)
    operations = OPERATIONS.get(kind, 0.0)
    if kind == "LRN":
        operations = 5.0 + float(attributes_of(node).get("size", 5))
    elif node.op_type in ("Sum", "Max", "Min", "Mean"):
        operations = float(max(len(node.input) - 1, 1))
    elif node.op_type in _SKIPS:
        operations += 1.0
    work = file.elements(activations[0]) if kind in _REDUCTIONS and activations else out
    counts: dict[str, Any] = {"stored": new, "weights": Dim(read), "reads": reads, "writes": out}
    return [elementwise(name, kind, work, group="network", inputs=inputs, operations=operations, **counts)]


def _suppression(file: Survey, node: Any, name: str) -> list[Op]:
    """Boxes sorted by score and compared with those kept: ten operations a box, as the zoo's own detector counts it."""
    boxes, scores = (file.elements(name_of) for name_of in node.input[:2])
    candidates, out = scores.at(1), file.elements(node.output[0])
    read = combine([replace(boxes, coef=boxes.coef + scores.coef)])
    marks = (("boxes", candidates), ("kept", out.at(1) / 3))
    kind, work = "NonMaxSuppression", scores * 10.0
    return [file.op(node, name, kind, flops=work, reads=read, writes=out, quantisable=False, attributes=marks)]


def _of_cache(file: Survey, node: Any) -> str:
    """What a node does with a cache: appends to it, or lays it out otherwise, which costs nothing; empty: neither."""
    inputs, out = [n for n in node.input if n], node.output[0]
    if node.op_type == "Concat" and any(n in file.file.past for n in inputs):
        file.caches[out] = out
        return _APPENDS
    dynamic = [n for n in inputs[1:] if n not in file.constant and n not in file.static]
    if node.op_type in _LAYOUT and inputs and inputs[0] in file.caches and not dynamic:
        file.caches[out] = file.caches[inputs[0]]
        file.source[out] = file.made_by(inputs[:1])
        return _LAYS
    return ""


def _append(file: Survey, node: Any, name: str) -> Op:
    """Keys or values of the pass's tokens, written behind those that are cached."""
    inputs, shape = [n for n in node.input if n], file.shape(node.output[0])
    new = combine([file.elements(n) for n in inputs if n not in file.file.past])
    op = Op(name, "Concat", "network", file.made_by(inputs), reads=new, state_writes=new)
    if len(shape) == 4 and shape[1] > 1:  # heads, which devices share
        return replace(op, g=Dim(float(shape[1]), 1), shard="g")
    return op


def _lower(file: Survey, node: Any, name: str) -> list[Op]:
    kind = _KINDS.get(node.op_type, node.op_type)
    contrib = MICROSOFT if node.domain == "com.microsoft" else None
    if node.domain in ("", "ai.onnx") or (contrib and node.op_type in contrib):
        if node.op_type in PRODUCTS:
            return PRODUCTS[node.op_type](file, node, name)
        if kind == "Gather":
            on_table = node.input[0] in file.constant and attributes_of(node).get("axis", 0) == 0
            return _lookup(file, node, name) if on_table else _plain(file, node, name, "Split")
        if kind == "NonMaxSuppression" and file.walks[0].count(node.output[0]) is not None:
            return _suppression(file, node, name)
        if kind in _POOLS or kind == "GlobalAveragePool":
            return _pool(file, node, name, kind)
        if kind in _MOVES or kind in OPERATIONS or kind == "LRN":
            return _plain(file, node, name, kind)
    elif node.domain:
        raise WorkloadError(
            f"node {quote(name)} is {quote(node.op_type)} of the domain {quote(node.domain)}, which has no count here"
        )
    why = f": {_WHY[node.op_type]}" if node.op_type in _WHY else ""
    raise WorkloadError(f"node {quote(name)} is a {quote(node.op_type)}, an ONNX operator that has no count here{why}")


def _name(node: Any, number: int, names: set[str]) -> str:
    """A name for an op as scenarios may hold it: letters, digits, ``_ . -``, and no other op's."""
    label = re.sub(r"[^\w.-]+", ".", node.name).strip(".-")[-60:].strip(".-")
    name = label or f"{re.sub(r'[^a-z0-9]', '', node.op_type.lower())[:40]}{number}"
    parts = node.op_type in _COMPOSITES
    while name in names or (parts and any(peer.startswith(f"{name}-") for peer in names)):
        name = f"{name}-{number}"
    names.add(name)
    return name


def _free(file: Survey, node: Any) -> bool:
    """Whether a node costs nothing at run time; what it makes is entered as constant, static or made by others."""
    inputs, outputs = [n for n in node.input if n], [n for n in node.output if n]
    if all(n in file.constant for n in inputs) and not node.op_type.startswith("Random"):
        sizes = {n: prod(e or 0 for e in file.walks[0].shape(n) or ()) for n in (*inputs, *outputs)}
        largest = max(inputs, key=lambda n: sizes[n], default="")
        for out in outputs:
            file.constant[out] = file.constant[largest] if largest and sizes[largest] == sizes[out] else out
        return True
    static = all(n in file.static or (n in file.constant and not file.is_weight(n)) for n in inputs)
    if static or node.op_type in ("Shape", "Size"):
        file.static.update(outputs)
        return True
    if node.op_type in _VIEWS:
        file.source.update(dict.fromkeys(outputs, file.made_by(inputs[:1])))
        if inputs[0] in file.static:
            file.static.update(outputs)
        return True
    return False


def _survey(model: File) -> Survey:
    """Shapes of a file, its batch where its first recurrent layer has it."""
    file = Survey(model)
    node = next((n for n in model.nodes if n.op_type in RECURRENT and n.domain in ("", "ai.onnx")), None)
    if node is None or node.input[0] in model.weights:
        return file
    at, along = axes_of(attributes_of(node))
    rows, steps = (file.measure(node.input[0], lambda s, axis=axis: s[axis]) for axis in (at, along))
    if isinstance(model.batch, int):
        axes = next(axes for axes in model.inputs.values() if axes)
        fits = rows[0] == 1 or int(rows[0]) in (axes[:-1] if len(axes) > 2 else axes)
        differs = rows[0] != model.batch and fits
        return Survey(replace(model, batch=int(rows[0]))) if differs else file
    batch, length = (file.powers(source, f"node {quote(node.name)}") for source in (rows, steps))
    if batch[0] or not length[0]:
        return file
    if model.length is None:  # the open axis is the sequence
        return Survey(replace(model, batch=int(rows[0]), length=model.batch))
    return Survey(replace(model, batch=model.length, length=model.batch)) if batch[1] else file


def read_onnx(data: bytes) -> Graph:
    """Graph of an ONNX model given as bytes; WorkloadError says in one sentence what can't be read.

    Counts are exact for the operators it knows, with an activation function ONNX spells out counted operator by
    operator. Control flow and anything whose size depends on the data are refused. Where a request's parts do not grow
    alike, what enters and leaves counts the larger kind.
    """
    model = open_file(data)
    if model.past:
        return _decoder(model)
    file = _survey(model)
    ops = _operators(file)
    through = Linear(0, 1, 0)
    leaving = [file.elements(n) for n in model.outputs if n not in file.constant]
    entering, indices = _entering(file)
    return Graph(
        phases=(Phase("forward", tuple(ops), length=through, context=through),),
        unit="inference",
        input_elements=entering,
        input_indices=indices,
        output_elements=combine(leaving) if leaving else ONE,
    )


def _operators(file: Survey) -> list[Op]:
    """Every operator of a file that costs anything, in the file's order."""
    names: set[str] = set()
    ops: list[Op] = []
    for number, node in enumerate(file.file.nodes, 1):
        role = _of_cache(file, node)
        if role == _LAYS or (not role and _free(file, node)):
            continue
        name = _name(node, number, names)
        node_ops = [_append(file, node, name)] if role else _lower(file, node, name)
        ops += node_ops
        names.update(op.name for op in node_ops)
        file.source.update(dict.fromkeys(filter(None, node.output), (node_ops[-1].name,)))
    if not ops:
        raise WorkloadError("the ONNX model has no operator that computes")
    return ops


def _entering(file: Survey) -> tuple[Dim, Dim]:
    """Elements that enter with a request, and those of them that are indices; a cache does not enter."""
    names = [n for n in file.file.inputs if n not in file.file.past]
    entering = combine([file.elements(n) for n in names])
    ids = [file.elements(n) for n in names if file.file.elements.get(n) in _INDICES]
    indices = [d for d in ids if (d.b, d.s, d.c) == (entering.b, entering.s, entering.c)]
    return entering, replace(entering, coef=sum(d.coef for d in indices))


def _decoder(model: File) -> Graph:
    """A network with a cache: one pass over the prompt, and one for each token more, as `Phase` says.

    The file is walked as it fills the cache and as it adds a token; both passes hold the same operators.
    """
    fill, step = (Survey(phase) for phase in model.passes())
    first, later = _operators(fill), _operators(step)
    names = {op.name for op in first}
    if {op.name for op in later} != names:
        raise WorkloadError("the ONNX model runs other operators with a cache than without one, which has no count")
    states = [step.elements(root) for root in dict.fromkeys(step.caches.values())]
    entering, indices = _entering(fill)
    through = Linear(0, 1, 0)
    return Graph(
        phases=(
            Phase("prefill", tuple(first), length=through, context=through),
            Phase("decode", tuple(later), context=Linear(0, 1, 0.5), repeat=Linear(-1, 0, 1)),
        ),
        unit="token",
        units_per_request=Linear(0, 0, 1),
        causal=True,
        state_elements=Sum(tuple(states)),
        input_elements=entering,
        input_indices=indices,
        output_elements=dim(1, "bs"),
        output_indices=dim(1, "bs"),
    )
