"""Constructors of ops that every family shares, so that a count is written once.

Counting rules: a contraction is 2 * G * M * N * K FLOP and its bias rides along (papers count it so too); an
element-wise op is OPERATIONS[kind] per element, where exp, tanh, a division or a root is one operation. Reads and
writes are activation elements; weights and state are counted apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypedDict, Unpack

from model_zoo.ops import ONE, ZERO, Dim, Op, Shard
from model_zoo.schema import WorkloadError

OPERATIONS: dict[str, float] = {
    "Add": 1,
    "Mul": 1,
    "Div": 1,
    "Relu": 1,
    "Clip": 2,
    "Sign": 1,  # compare with a threshold
    "Tanh": 1,
    "Sigmoid": 4,  # negate, exp, add, divide
    "Silu": 5,  # sigmoid, multiply
    "Swish": 5,
    "HardSwish": 5,  # add, two clips, two multiplies
    "Gelu": 9,  # 0.5 x (1 + tanh(a (x + b x^3)))
    "Softmax": 5,  # maximum, subtract, exp, sum, divide
    "LayerNormalization": 7,  # sum, subtract, square, sum, normalise, scale, shift
    "RMSNormalization": 4,  # square, sum, normalise, scale
    "BatchNormalization": 2,  # scale and shift, statistics folded
    "RotaryEmbedding": 3,  # two multiplies and an add
    "GlobalAveragePool": 1,
    "ReduceSum": 1,
    "ReduceMax": 1,
    "ArgMax": 1,
    "TopK": 1,
}
_WIDE = frozenset(
    {
        "Softmax",
        "LayerNormalization",
        "RMSNormalization",
        "Gelu",
        "Silu",
        "Swish",
        "Sigmoid",
        "Tanh",
        "RotaryEmbedding",
        "LRN",
    }
)


class OpFields(TypedDict, total=False):
    """Fields that an `Op` takes as they are given: how often it runs, what it keeps, what it is told."""

    layers: int
    steps: Dim
    sequential: bool
    state_writes: Dim
    attributes: tuple[tuple[str, float], ...]


def linear(
    name: str,
    rows: Dim,
    k: float,
    n: float,
    *,
    group: str,
    inputs: Sequence[str] = (),
    kind: str = "Gemm",
    bias: bool = True,
    stored: float | None = None,
    shard: Shard = "n",
    state_reads: Dim = ZERO,
    quantisable: bool = True,
    **rest: Unpack[OpFields],
) -> Op:
    """Rows of activations (rows x k) times a k x n matrix of weights."""
    own = k * n + (n if bias else 0)
    return Op(
        name=name,
        kind=kind,
        group=group,
        inputs=tuple(inputs),
        m=rows,
        n=Dim(float(n)),
        k=Dim(float(k)),
        flops=rows * (2.0 * k * n),
        stored=own if stored is None else stored,
        weights=Dim(float(own)),
        reads=ZERO if state_reads.coef else rows * k,
        writes=rows * n,
        state_reads=state_reads,
        shard=shard,
        quantisable=quantisable,
        **rest,
    )


def matmul(
    name: str,
    g: Dim,
    m: Dim,
    n: Dim,
    k: Dim,
    *,
    group: str,
    reads: Dim,
    state_reads: Dim = ZERO,
    inputs: Sequence[str] = (),
    layers: int = 1,
    shard: Shard = "g",
) -> Op:
    """G products of (m x k) by (k x n), both sides computed: `reads` covers those that aren't kept state."""
    return Op(
        name=name,
        kind="MatMul",
        group=group,
        inputs=tuple(inputs),
        layers=layers,
        g=g,
        m=m,
        n=n,
        k=k,
        flops=g * m * n * k * 2.0,
        reads=reads,
        writes=g * m * n,
        state_reads=state_reads,
        shard=shard,
    )


def elementwise(
    name: str,
    kind: str,
    elements: Dim,
    *,
    group: str,
    inputs: Sequence[str] = (),
    operands: float = 1,
    operations: float | None = None,
    written: Dim | None = None,
    stored: float = 0.0,
    state_reads: Dim = ZERO,
    parts: Dim = ONE,
    shard: Shard = "elements",
    **rest: Unpack[OpFields],
) -> Op:
    """An element-wise op or a reduction over `elements` of `operands` inputs each; shard "g" deals out `parts`.

    WorkloadError where the kind has no one figure (a pool's depends on its window) and `operations` is left out.
    """
    if operations is None and kind not in OPERATIONS:
        raise WorkloadError(
            f"operator {name!r} is a {kind}, whose work an element is not one figure: `operations` is needed"
        )
    return Op(
        name=name,
        kind=kind,
        group=group,
        inputs=tuple(inputs),
        g=parts,
        flops=elements * (OPERATIONS[kind] if operations is None else operations),
        stored=stored,
        weights=Dim(float(stored)),
        reads=elements * operands,
        writes=elements if written is None else written,
        state_reads=state_reads,
        shard=shard,
        quantisable=kind not in _WIDE,
        **rest,
    )


def move(
    name: str,
    kind: str,
    elements: Dim,
    *,
    group: str,
    inputs: Sequence[str] = (),
    written: Dim | None = None,
    layers: int = 1,
    state_writes: Dim = ZERO,
    parts: Dim = ONE,
    shard: Shard = "elements",
) -> Op:
    """Data movement: elements read and written, no arithmetic; shard "g" deals out `parts`."""
    return Op(
        name=name,
        kind=kind,
        group=group,
        inputs=tuple(inputs),
        layers=layers,
        g=parts,
        reads=elements,
        writes=elements if written is None else written,
        state_writes=state_writes,
        shard=shard,
    )


def gather(
    name: str, lookups: Dim, table_rows: float, width: float, *, group: str, inputs: Sequence[str] = (), layers: int = 1
) -> Op:
    """One row of `width` elements for each index."""
    return Op(
        name=name,
        kind="Gather",
        group=group,
        inputs=tuple(inputs),
        layers=layers,
        stored=float(table_rows) * width,
        weights=lookups * width,
        reads=lookups,
        writes=lookups * width,
        gather_rows=lookups,
        row_elements=float(width),
        shard="n",
    )


def bag(
    name: str,
    bags: Dim,
    lookups: float,
    table_rows: float,
    width: float,
    *,
    group: str,
    inputs: Sequence[str] = (),
    layers: int = 1,
) -> Op:
    """`lookups` rows summed into each bag (SparseLengthsSum); `layers` tables of `table_rows` rows exist.

    Devices that share the tables get whole tables, each an equal number of the lookups.
    """
    rows = bags * lookups
    return Op(
        name=name,
        kind="EmbeddingBag",
        group=group,
        inputs=tuple(inputs),
        layers=layers,
        flops=rows * width,
        stored=float(table_rows) * width,
        weights=rows * width,
        reads=rows,
        writes=bags * width,
        gather_rows=rows,
        row_elements=float(width),
        shard="elements",
        attributes=(("lookups", float(lookups)), ("rows", float(table_rows))),
    )


def mlp_chain(
    prefix: str,
    rows: Dim,
    widths: Sequence[int],
    *,
    group: str,
    inputs: Sequence[str] = (),
    activation: str | None = "Relu",
    last: str | None = None,
) -> list[Op]:
    """Fully connected layers width[0] -> width[1] -> ..., an activation between them and `last` at the end."""
    ops: list[Op] = []
    previous = tuple(inputs)
    for index, (k, n) in enumerate(pairwise(widths), 1):
        name = f"{prefix}{index}"
        ops.append(linear(name, rows, k, n, group=group, inputs=previous))
        previous = (name,)
        kind = activation if index < len(widths) - 1 else last
        if kind:
            ops.append(elementwise(f"{name}-{kind.lower()}", kind, rows * n, group=group, inputs=previous))
            previous = (ops[-1].name,)
    return ops
