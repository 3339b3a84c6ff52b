"""From the ops of a network to cases: which operator runs each op, and which ops none of ours runs.

An op that another one's operator already does (a ReLU after a product, the gates of a recurrent cell, the softmax
between the two products of attention) names that op; one that has no operator here carries the reason. Convolutions,
lookups and everything that is no product with stored weights stay float32 whatever the precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

from engine.lab.host.measure import movement, operators
from engine.lab.host.measure.cases import Case, MeasureError, product
from model_zoo.ops import Op, Phase

At = tuple[float, float, float]
Image = tuple[int, tuple[int, ...]]  # channels and extents
_ACTIVATIONS = {
    "Relu": "relu",
    "Gelu": "gelu_tanh",
    "Silu": "silu",
    "Swish": "silu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Clip": "clip6",
    "HardSwish": "hard_swish",
}
_PLAIN = {"Add": "add", "Mul": "mul", "Concat": "copy"}


@dataclass(frozen=True)
class Piece:
    """One op of a phase and what becomes of it.

    `make` builds its case for a number of weight sets; None: `inside` names the op whose operator does it, or `reason`
    says why nothing does. `weight_bytes` is what one set takes, `copies` how many sets the network has, and `steps`
    how often a pass runs it on each.
    """

    op: Op
    make: Callable[[int], Case] | None = None
    inside: str = ""
    reason: str = ""
    weight_bytes: float = 0.0
    copies: int = 1
    steps: int = 1
    precision: str = "fp32"


def lower(phase: Phase, at: At, precision: str, threads: int, most_rows: int) -> list[Piece]:
    """Pieces of a phase at a batch, length and context; tables are cut to ``most_rows`` rows in all."""
    inside = _inside(phase, precision)
    images: dict[str, Image] = {}
    made = []
    for op in phase.ops:
        _follow(op, images)
        if op.name in inside:
            made.append(Piece(op, inside=inside[op.name]))
            continue
        try:
            made.append(_piece(op, phase, at, precision, threads, most_rows, images, set(inside.values())))
        except MeasureError as reason:
            made.append(Piece(op, reason=str(reason)))
    return made


def _inside(phase: Phase, precision: str) -> dict[str, str]:
    """Ops that the operator of another op does."""
    result: dict[str, str] = {}
    by_name = {op.name: op for op in phase.ops}
    for op in phase.ops:
        source = by_name.get(op.inputs[0]) if op.inputs else None
        if op.name.endswith("-recurrent") and op.sequential:
            cell = op.name.removesuffix("-recurrent")
            rest = [o.name for o in phase.ops if o.name.startswith(f"{cell}-") and o.name != op.name]
            result |= dict.fromkeys(rest, op.name)
        elif op.kind == "Softmax" and source is not None and source.kind == "MatMul" and source.state_reads.coef:
            after = next((o for o in phase.ops if o.kind == "MatMul" and op.name in o.inputs), None)
            result |= {op.name: source.name} | ({after.name: source.name} if after else {})
        elif source is not None and op.layers == source.layers and source.name not in result:
            rides = op.kind == "Relu" and source.kind in ("Gemm", "Conv")
            if rides or (op.kind == "Sign" and source.kind == "BinaryGemm"):
                result[op.name] = source.name
    return result


def _follow(op: Op, images: dict[str, Image]) -> None:
    """Remember the image an op makes, so that a pool after it knows its input."""
    if op.kind == "Conv" and "filters" in dict(op.attributes):
        images[op.name] = (int(op.attribute("filters")), tuple(_extent(n, *rest) for n, *rest in _axes(op)))
    elif op.kind in ("MaxPool", "AveragePool") and op.inputs and op.inputs[0] in images:
        channels, size = images[op.inputs[0]]
        sides = round((op.writes.coef / channels / prod(size[:-2])) ** 0.5)
        images[op.name] = (channels, (*size[:-2], sides, sides))
    elif op.inputs and op.inputs[0] in images and op.kind != "Gemm":
        channels, size = images[op.inputs[0]]
        if op.kind == "Concat":
            channels = round(op.writes.coef / prod(size))
        if op.writes.coef == channels * prod(size) or (op.kind in _ACTIVATIONS and not op.writes.coef % channels):
            images[op.name] = (channels, size)


def _axes(op: Op) -> list[tuple[int, int, int, int]]:
    """(extent, window, stride, padding) of each spatial axis of a convolution, frames first."""

    def take(name: str, default: float = 1.0) -> int:
        return int(op.attribute(name, default))

    plane = [(take(side), take("kernel"), take("stride"), take("pad", 0.0)) for side in ("height", "width")]
    if take("frames") > 1 or take("kernel_t") > 1:
        return [(take("frames"), take("kernel_t"), take("stride_t"), take("kernel_t") // 2), *plane]
    return plane


def _extent(n: int, window: int, stride: int, pad: int) -> int:
    return (n + 2 * pad - window) // stride + 1


def _piece(
    op: Op,
    phase: Phase,
    at: At,
    precision: str,
    threads: int,
    most_rows: int,
    images: dict[str, Image],
    hosts: set[str],
) -> Piece:
    g, m, n, k = (max(1, round(d.at(*at))) for d in (op.g, op.m, op.n, op.k))
    elements = max(1, round(op.writes.at(*at)))
    steps = max(1, round(op.steps.at(*at)))
    relu = op.name in hosts and any(o.kind == "Relu" and op.name in o.inputs for o in phase.ops)
    if op.kind == "Gemm" and op.name.endswith("-recurrent") and op.name in hosts:
        kind, hidden = ("lstm" if n == 4 * k else "gru"), k
        before = next(o for o in phase.ops if o.name == op.name.removesuffix("-recurrent") + "-input")
        inputs = max(1, round(before.k.at(*at)))

        def make(c: int) -> Case:
            return operators.recurrent(kind, m, inputs, hidden, threads, c)

        return Piece(op, make, weight_bytes=4.0 * n * (inputs + hidden), copies=op.layers, steps=steps)
    if op.kind == "Gemm":
        if g > 1:  # every head's tokens times a matrix of its own
            return Piece(op, lambda c: operators.batched(g, m, k, n, threads), copies=op.layers)
        low = precision if op.quantisable else "fp32"
        wide = low == "int8" and not any(o.name in op.inputs and o.contraction for o in phase.ops)
        size = {"int8": 1.0, "bf16": 2.0, "fp16": 2.0}.get(low, 4.0) * k * n
        return Piece(
            op,
            lambda c: product(m, k, n, low, threads, c, relu, wide),
            weight_bytes=size,
            copies=op.layers,
            steps=steps,
            precision=low,
        )
    if op.kind == "Conv":
        return _conv(op, at, threads, relu)
    if op.kind == "BinaryGemm":
        return Piece(
            op,
            lambda c: operators.binary(m, k, n, threads, c),
            weight_bytes=k * n / 8.0,
            copies=op.layers,
            precision="binary",
        )
    if op.kind == "MatMul" and op.name in hosts:
        batch, length = max(1, round(at[0])), n
        tokens, depth = max(1, round(at[1])), k
        heads = max(1, g // batch)
        if batch > 1:
            raise MeasureError(f"attention of a batch of {batch}: the operator takes one sequence")
        shared = max(1, round(op.state_reads.at(*at) / (length * depth)))
        shared = shared if shared <= heads and heads % shared == 0 else heads
        per = 8.0 * shared * length * depth
        return Piece(
            op,
            lambda c: operators.attend(tokens, max(tokens, length), heads, shared, depth, threads, c),
            weight_bytes=per,
            copies=op.layers,
        )
    if op.kind == "MatMul":
        return Piece(op, lambda c: operators.batched(g, m, k, n, threads), copies=op.layers)
    if op.kind in ("Gather", "EmbeddingBag"):
        return _tables(op, at, threads, most_rows)
    if op.kind in _ACTIVATIONS:
        return Piece(
            op, lambda c: operators.pointwise(_ACTIVATIONS[op.kind], elements, threads), copies=op.layers, steps=steps
        )
    if op.kind in _PLAIN:
        if elements == 1 and op.kind == "Concat":  # an append to the cache writes state alone
            elements = max(1, round(op.reads.at(*at)))
        return Piece(
            op, lambda c: operators.pointwise(_PLAIN[op.kind], elements, threads), copies=op.layers, steps=steps
        )
    if op.kind == "Softmax":
        rows = max(1, round(op.g.at(*at) * at[1])) if op.g.at(*at) > 1 else max(1, round(at[0]))
        return Piece(op, lambda c: operators.soft(rows, max(1, elements // rows), threads), copies=op.layers)
    if op.kind in ("LayerNormalization", "RMSNormalization", "BatchNormalization"):
        width = round(op.stored / (1 if op.kind == "RMSNormalization" else 2))
        if not width or elements % width:
            raise MeasureError(f"{op.kind} of {elements} values with {op.stored:.0f} parameters: row width unclear")
        return Piece(op, lambda c: operators.normalise(op.kind, elements // width, width, threads), copies=op.layers)
    if op.kind in ("MaxPool", "AveragePool", "GlobalAveragePool"):
        return _pool(op, at, threads, images)
    return _moved(op, phase, at, threads, images)


def _moved(op: Op, phase: Phase, at: At, threads: int, images: dict[str, Image]) -> Piece:
    """Ops that move or combine values between products."""
    read, written = (max(1, round(d.at(*at))) for d in (op.reads, op.writes))
    image = images.get(op.inputs[0]) if op.inputs else None
    batch = max(1, round(at[0]))
    case: Callable[[], Case]
    if op.kind == "LRN" and image is not None:
        case = partial(movement.respond, written // image[0], image[0], int(op.attribute("size", 5.0)), threads)
    elif op.kind == "Transpose":
        case = partial(movement.turn, *_turned(op, phase, at, written), threads)
    elif op.kind == "ReduceSum":
        rows = any(o.kind == "Gather" for o in phase.ops if o.name in op.inputs)  # summands of a sample lie together
        case = partial(
            movement.total, *((written, read // written, 1) if rows else (1, read // written, written)), threads
        )
    elif op.kind == "Hash":
        case = partial(movement.hash_fields, batch, written // batch, threads)
    elif op.kind == "ArgMax":
        case = partial(movement.largest, written, read // written, threads)
    elif op.kind == "TopK":
        rows = batch if written % batch == 0 else 1
        rows = max(rows, round(batch * at[1])) if read % max(1, round(batch * at[1])) == 0 else rows
        case = partial(movement.top, rows, read // rows, max(1, written // (2 * rows)), threads)
    elif op.kind == "NonMaxSuppression":
        case = partial(movement.suppress, int(op.attribute("boxes")), int(op.attribute("kept")), threads)
    elif op.kind == "RotaryEmbedding":
        tokens = max(1, round(at[0] * at[1]))
        depth = next((d for d in (128, 64, 32, 2) if written % (tokens * d) == 0), 1)
        case = partial(movement.rotate, tokens, written // (tokens * depth), depth, threads)
    elif op.kind == "Tile" or (op.kind == "Resize" and written % read == 0):  # pixels repeated
        case = partial(movement.repeat, batch, read // batch, written // read, threads)
    elif op.kind == "RoiAlign" and image is not None:
        regions, cells = (int(op.attribute(name, 1.0)) for name in ("regions", "side"))
        case = partial(movement.align_boxes, image[1][-1], image[0], batch * regions, cells, threads)
    else:
        raise MeasureError(f"no operator for {op.kind}")
    return Piece(op, lambda c: case(), copies=op.layers)


def _turned(op: Op, phase: Phase, at: At, elements: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and axes of a transpose, read off its product: heads before tokens, or a turned right side."""
    taker = next((o for o in phase.ops if o.kind == "MatMul" and op.name in o.inputs), None)
    if taker is None:
        raise MeasureError("the product this transpose is for is not known")
    g, n, k = (max(1, round(d.at(*at))) for d in (taker.g, taker.n, taker.k))
    if op.g.at(*at) <= 1:
        if elements != g * n * k:
            raise MeasureError(f"{elements} values are no {g} planes of {n} x {k}")
        return (g, n, k), (0, 2, 1)
    batch = max(1, round(at[0]))
    scores = all(o.kind == "Transpose" for o in phase.ops if o.name in taker.inputs)
    depth, heads = (k if scores else n), max(1, g // batch)
    if elements % (batch * heads * depth):
        raise MeasureError(f"{elements} values are no {batch} x {heads} heads of {depth}")
    return (batch, elements // (batch * heads * depth), heads, depth), (0, 2, 1, 3)


def _conv(op: Op, at: At, threads: int, relu: bool) -> Piece:
    batch = max(1, round(at[0]))
    groups, channels = int(op.attribute("groups", 1.0)), int(op.attribute("channels", 1.0))
    known = dict(op.attributes)
    filters = int(known.get("filters", op.n.coef * groups))
    axes = _axes(op)
    if "height" not in known:  # a convolution along a sequence, same padding; of an even window what came before
        window, long = int(op.attribute("kernel", 1.0)), max(1, round(op.m.at(*at) / batch))
        axes = [(long, window, 1, window // 2) if window % 2 else (long + window - 1, window, 1, 0)]
    spatial, window_, stride, pad = (tuple(a[i] for a in axes) for i in range(4))
    made = batch * prod(_extent(*a) for a in axes)
    if op.m.at(*at) % made == 0:  # the same convolution on every region of an image
        batch, made = batch * round(op.m.at(*at) / made), round(op.m.at(*at))
    if made != round(op.m.at(*at)):
        raise MeasureError(f"convolution of {spatial} makes {made} pixels, the network counts {op.m.at(*at):.0f}")

    def make(c: int) -> Case:
        return operators.convolve(batch, spatial, channels, filters, window_, stride, pad, groups, threads, relu, c)

    return Piece(op, make, weight_bytes=4.0 * op.stored, copies=op.layers)


def _tables(op: Op, at: At, threads: int, most_rows: int) -> Piece:
    width = max(1, round(op.row_elements))
    lookups = max(1, round(op.attribute("lookups", 1.0)))
    bags = max(1, round(op.gather_rows.at(*at) / lookups))
    rows = min(max(1, round(op.stored / width)), max(1024, most_rows // op.layers))

    def make(c: int) -> Case:
        return operators.lookup(bags, lookups, rows, width, "fp32", threads, c)

    return Piece(op, make, weight_bytes=4.0 * rows * width, copies=op.layers)


def _pool(op: Op, at: At, threads: int, images: dict[str, Image]) -> Piece:
    image = images.get(op.inputs[0]) if op.inputs else None
    if image is None:
        raise MeasureError("the image before this pool is not known")
    channels, size = image
    batch = max(1, round(at[0]))
    if op.kind == "GlobalAveragePool":
        plane, batch = (size[-2], prod(size) // size[-2]), max(batch, round(op.reads.at(*at) / channels / prod(size)))
        return Piece(op, lambda c: operators.pool(op.kind, batch, plane, channels, 1, 1, 0, threads), copies=op.layers)
    frames = prod(size[:-2])  # a window of one frame, as a batch of images
    window, stride = int(op.attribute("kernel", 1.0)), int(op.attribute("stride", 1.0))
    wanted = (op.writes.coef / channels / frames) ** 0.5
    fitting = [p for p in range(window) if abs(_extent(size[-1], window, stride, p) - wanted) < 1e-9]
    if fitting:
        plane = (size[-2], size[-1])
        return Piece(
            op,
            lambda c: operators.pool(op.kind, batch * frames, plane, channels, window, stride, fitting[0], threads),
            copies=op.layers,
        )
    raise MeasureError(f"no padding of a {window} x {window} window makes {wanted:.2f} pixels a side")
