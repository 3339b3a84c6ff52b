"""ONNX operators that multiply matrices, as ops: products, convolutions, Einstein sums, recurrent layers, attention."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from model_zoo.families.blocks import elementwise, linear, matmul
from model_zoo.families.rnn import GATES, Cell, step_of
from model_zoo.importers.onnx.counts import Survey, combine
from model_zoo.importers.onnx.file import quote
from model_zoo.ops import Dim, Op
from model_zoo.schema import WorkloadError

RECURRENT = frozenset({"LSTM", "GRU", "RNN"})


def attributes_of(node: Any) -> dict[str, Any]:
    """Attributes of a node by name."""
    from onnx import helper

    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _contraction(
    file: Survey, name: str, sides: Sequence[str], out: str, extents: Mapping[str, tuple[float, ...]]
) -> list[Op]:
    """G products of M x K by K x N, `extents` at every point; one side may be the file's own."""
    label = f"node {quote(name)}"
    if any(value <= 0 for extent in extents.values() for value in extent):
        raise WorkloadError(f"{label} multiplies matrices without elements")
    weights = [side for side in sides if side in file.constant]
    read, new = file.parameters(weights)
    inputs = file.made_by(sides)
    if weights and max(extents["g"]) == 1:
        on_left = weights[0] == sides[0]  # weights on the left: their rows are what comes out
        rows, width = ("n", "m") if on_left else ("m", "n")
        m, k, n = file.spread([extents[rows], extents["k"], extents[width]], label)
        if (k.b, k.s, k.c, n.b, n.s, n.c) == (0,) * 6:
            counts = {"stored": new, "weights": Dim(read)}
            return [linear(name, m, k.coef, n.coef, group="network", inputs=inputs, bias=False, **counts)]
    g, m, n, k = file.spread([extents[axis] for axis in "gmnk"], label)
    reads = combine([file.elements(side) for side in sides if side not in file.constant and side not in file.caches])
    state = combine([file.elements(file.caches[side]) for side in sides if side in file.caches])
    counts = {"stored": new, "weights": Dim(read), "reads": reads, "state_reads": state, "writes": file.elements(out)}
    return [matmul(name, g, m, n, k, group="network", inputs=inputs, **counts)]


def _matmul(file: Survey, node: Any, name: str) -> list[Op]:
    sides = [node.input[0], node.input[3 if node.op_type == "QLinearMatMul" else 1]]
    marks = attributes_of(node) if node.op_type == "Gemm" else {}
    out = node.output[0]

    def lhs(shape: tuple[int, ...]) -> tuple[int, int]:
        m, k = (1, shape[-1]) if len(shape) == 1 else shape[-2:]
        return (k, m) if marks.get("transA") else (m, k)

    def rhs(shape: tuple[int, ...]) -> int:
        return 1 if len(shape) == 1 else (shape[-2] if marks.get("transB") else shape[-1])

    if not file.shape(sides[0]) or not file.shape(sides[1]):
        raise WorkloadError(f"node {quote(name)} multiplies a single number as a matrix")
    m = file.measure(sides[0], lambda s: lhs(s)[0])
    k = file.measure(sides[0], lambda s: lhs(s)[1])
    n = file.measure(sides[1], rhs)
    total = file.measure(out, prod)
    if any(side in file.constant and len(file.shape(side)) <= 2 for side in sides):  # one matrix for all rows
        rows = "n" if sides[0] in file.constant else "m"
        width = m if rows == "n" else n
        grown = tuple(t / (e or 1.0) for t, e in zip(total, width, strict=True))
        units = (1.0,) * len(total)
        extents = {"g": units, "m": width if rows == "n" else grown, "n": grown if rows == "n" else width, "k": k}
    else:
        copies = tuple(t / (a * b or 1.0) for t, a, b in zip(total, m, n, strict=True))
        extents = {"g": copies, "m": m, "n": n, "k": k}
    ops = _contraction(file, name, sides, out, extents)
    biases = [i for i in node.input[2:3] if node.op_type == "Gemm" and i]
    read, new = file.parameters(biases)
    return [replace(ops[0], stored=ops[0].stored + new, weights=Dim(ops[0].weights.coef + read))] if biases else ops


def _convolution(file: Survey, node: Any, name: str) -> list[Op]:
    weight = 3 if node.op_type == "QLinearConv" else 1
    if node.input[weight] not in file.constant:
        raise WorkloadError(f"node {quote(name)}: a convolution whose filters are computed can't be counted")
    shape, image = file.shape(node.input[weight]), file.shape(node.input[0])
    attributes = attributes_of(node)
    groups = int(attributes.get("group", 1))
    transpose = node.op_type == "ConvTranspose"
    if len(shape) < 3 or len(image) != len(shape) or groups < 1:
        raise WorkloadError(
            f"node {quote(name)}: filters of {len(shape)} axes on an image of {len(image)}, in {groups} groups, are no "
            "convolution"
        )
    channels, filters = (shape[0], shape[1] * groups) if transpose else (shape[1] * groups, shape[0])
    if channels != image[1] or shape[0] % groups or not prod(shape):
        raise WorkloadError(
            f"node {quote(name)}: filters of {' x '.join(map(str, shape))} in {groups} groups do not fit an image of "
            f"{image[1]} channels"
        )
    kernel = shape[2:]
    window = shape[1] * prod(kernel)
    read, new = file.parameters([node.input[i] for i in {1: (1, 2), 3: (3, 8)}[weight] if i < len(node.input)])
    reads, writes = file.elements(node.input[0]), file.elements(node.output[0])
    if transpose:  # every pixel that enters makes a window of what leaves
        m, n, k, flops = reads * (1.0 / channels), window, channels // groups, reads * (2.0 * window)
    else:
        m, n, k, flops = writes * (1.0 / filters), filters // groups, window, writes * (2.0 * window)
    product = {"g": Dim(float(groups)), "m": m, "n": Dim(float(n)), "k": Dim(float(k)), "flops": flops, "shard": "n"}
    marks = () if transpose else _plane(attributes, kernel, image, groups, filters)
    io = {"stored": new, "weights": Dim(read), "reads": reads, "writes": writes}
    return [file.op(node, name, "Conv", **product, **io, attributes=marks)]


def _plane(
    attributes: dict[str, Any], kernel: tuple[int, ...], image: tuple[int, ...], groups: int, filters: int
) -> tuple[tuple[str, float], ...]:
    """What the cost models ask of a convolution; its plane only where one figure each tells kernel, stride and pad."""
    rank = len(kernel)
    strides, dilations = attributes.get("strides") or [1] * rank, attributes.get("dilations") or [1] * rank
    pads = attributes.get("pads") or [0] * 2 * rank
    marks = {"kernel": max(kernel), "stride": max(strides), "groups": groups, "channels": image[1], "filters": filters}
    plane = slice(-2, None)
    uniform = all(len(set(part)) == 1 for part in (kernel[plane], strides[plane], pads[rank - 2 : rank], pads[plane]))
    if rank in (2, 3) and uniform and set(dilations) == {1} and attributes.get("auto_pad", b"NOTSET") == b"NOTSET":
        marks |= {"kernel": kernel[-1], "stride": strides[-1], "pad": pads[-1], "height": image[-2], "width": image[-1]}
        deep = (image[2], kernel[0], strides[0]) if rank == 3 else (1, 1, 1)
        marks |= dict(zip(("frames", "kernel_t", "stride_t"), deep, strict=True))
    return tuple((key, float(value)) for key, value in marks.items())


def _einsum(file: Survey, node: Any, name: str) -> list[Op]:
    """A sum over two factors; one letter for each axis, none twice in a factor."""
    equation = attributes_of(node)["equation"].decode("ascii", "replace").replace(" ", "")
    before, arrow, result = equation.partition("->")
    terms = before.split(",")
    plain = arrow and all(t.isalpha() and len(set(t)) == len(t) for t in (*terms, result or "a"))
    fits = plain and len(terms) == len(node.input) == 2
    shapes = [file.shape(side) for side in node.input]
    if not fits or any(len(t) != len(s) for t, s in zip(terms, shapes, strict=True)):
        raise WorkloadError(
            f"node {quote(name)} (Einsum) has the equation {quote(equation)}; two factors have a count, as in "
            "'bij,bjk->bik'"
        )
    a, b, out = (set(t) for t in (*terms, result))
    if (a ^ b) - out or out - (a | b):
        raise WorkloadError(f"node {quote(name)} (Einsum) sums an axis that only one factor of {quote(equation)} has")
    if not (a & b) - out:
        elements = file.elements(node.output[0])
        reads = combine([file.elements(side) for side in file.activations(node.input)])
        read, new = file.parameters(node.input)
        counts: dict[str, Any] = {"stored": new, "reads": reads, "weights": Dim(read)}
        return [elementwise(name, "Mul", elements, group="network", inputs=file.made_by(node.input), **counts)]

    def extent(letters: set[str]) -> tuple[float, ...]:
        sizes = []
        for at, term in enumerate(terms):
            axes = [term.index(letter) for letter in sorted(letters) if letter in term and (at == 0 or letter not in a)]
            sizes.append(file.measure(node.input[at], lambda s, axes=axes: prod(s[i] for i in axes)))
        return tuple(x * y for x, y in zip(*sizes, strict=True))

    extents = {"g": extent(a & b & out), "m": extent(a - b), "n": extent(b - a), "k": extent((a & b) - out)}
    return _contraction(file, name, list(node.input), node.output[0], extents)


def axes_of(attributes: Mapping[str, Any]) -> tuple[int, int]:
    """Axes of a recurrent layer's input that are its batch and its sequence, by the layer's attributes."""
    return (0, 1) if attributes.get("layout", 0) else (1, 0)


def _recurrent(file: Survey, node: Any, name: str) -> list[Op]:
    """LSTM, GRU or RNN: the steps of families/rnn.py, a copy for each direction."""
    attributes = attributes_of(node)
    kind = node.op_type.lower()
    step_kind = "gru-reset-first" if kind == "gru" and not attributes.get("linear_before_reset", 0) else kind
    for side in node.input[1:3]:
        if side not in file.constant:
            raise WorkloadError(f"node {quote(name)}: a recurrent layer whose weights are computed can't be counted")
    if len(node.input) > 7 and node.input[7]:
        raise WorkloadError(f"node {quote(name)}: an LSTM with peepholes has no count here")
    directions, gates, width = file.shape(node.input[1])
    hidden = gates // GATES[kind]
    rows, steps = (file.measure(node.input[0], lambda s, at=at: s[at]) for at in axes_of(attributes))
    row, step = file.spread([rows, steps], f"node {quote(name)}")
    cell = Cell(name, "network", hidden, directions, directions, row, step)
    step_of(step_kind)(cell, width, file.made_by(node.input[:1]))
    read, new = file.parameters(list(node.input[1:4]))
    parameters = sum(op.stored for op in cell.ops) * directions
    share = 0.0 if new == 0 else new / parameters
    return [replace(op, stored=op.stored * share) for op in cell.ops] if read else cell.ops


def _attention(file: Survey, node: Any, name: str) -> list[Op]:
    """Scaled dot-product attention of opset 23: scores, softmax, context."""
    attributes = attributes_of(node)
    queries, keys, values = node.input[:3]
    flat = len(file.shape(queries)) == 3
    heads, kv_heads = int(attributes.get("q_num_heads", 0)), int(attributes.get("kv_num_heads", 0))
    if (flat and not (heads and kv_heads)) or (len(node.input) > 4 and node.input[4]):
        raise WorkloadError(
            f"node {quote(name)} (Attention) with a cache, or without its numbers of heads, has no count"
        )

    for side, copies in ((queries, heads), (keys, kv_heads), (values, kv_heads)):
        if flat and file.shape(side)[2] % copies:
            raise WorkloadError(
                f"node {quote(name)} (Attention) has {copies} heads over a width of {file.shape(side)[2]}: they must "
                "share it evenly"
            )

    def part(side: str, at: int, copies: int) -> tuple[float, ...]:
        """Rows (2) or depth (3) of a head, or batch times heads (1)."""
        if not flat:
            return file.measure(side, lambda s: s[0] * s[1] if at == 1 else s[at])
        return file.measure(side, lambda s: (s[0] * copies, s[1], s[2] // copies)[at - 1])

    g, q = part(queries, 1, heads), part(queries, 2, heads)
    depth, rows, width = part(queries, 3, heads), part(keys, 2, kv_heads), part(values, 3, kv_heads)
    sides = [file.elements(side) for side in (queries, keys, values)]
    label = f"node {quote(name)}"
    copies, m, n, k = file.spread([g, q, rows, depth], label)
    scores = copies * m * n
    first = matmul(
        f"{name}-scores", copies, m, n, k, group="network", reads=combine(sides[:2]), inputs=file.made_by(node.input)
    )
    soft = elementwise(f"{name}-softmax", "Softmax", scores, group="network", inputs=(first.name,))
    copies, m, n, k = file.spread([g, q, width, rows], label)
    last = matmul(
        f"{name}-context", copies, m, n, k, group="network", reads=combine([scores, sides[2]]), inputs=(soft.name,)
    )
    return [first, soft, replace(last, name=name)]


PRODUCTS = {
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul", "Gemm"), _matmul),
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv", "ConvTranspose"), _convolution),
    **dict.fromkeys(RECURRENT, _recurrent),
    **{"Einsum": _einsum, "Attention": _attention},
}
