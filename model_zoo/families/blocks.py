"""Constructors of ops that every family shares, so that a count is written once.

Counting rules: a contraction is 2 * G * M * N * K FLOP and its bias rides along (papers count it so too); an
element-wise op is OPERATIONS[kind] per element, where exp, tanh, a division or a root is one operation. Reads and
writes are activation elements; weights and state are counted apart.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from model_zoo.ops import KINDS, ZERO, Dim, Graph, Linear, Op, Phase, dim
from model_zoo.schema import WorkloadError

ROW = dim(1, "b")
ONCE, LENGTH = Linear(1.0), Linear(0, 1, 0)  # what a pass is over: one of what enters, or the request's length

OPERATIONS: dict[str, float] = {kind: of["work"] for kind, of in KINDS.items() if "work" in of}


def forward(ops: Sequence[Op], unit: str, entering: Dim, leaving: Dim, through: Linear = ONCE, **fields: Any) -> Graph:
    """A network of one pass, over a request's length where it goes ``through`` that."""
    phases = (Phase("forward", tuple(ops), length=through, context=through),)
    return Graph(phases, unit, input_elements=entering, output_elements=leaving, **fields)


def attributes(**values: float) -> tuple[tuple[str, float], ...]:
    """Attributes of an operator as it holds them."""
    return tuple((name, float(value)) for name, value in values.items())


def linear(name: str, rows: Dim, k: float, n: float, /, *, bias: bool = True, **fields: Any) -> Op:
    """Rows of activations (rows x k) times a k x n matrix of weights.

    Here and below ``fields`` of `Op` stand in place of what is worked out.
    """
    parameters = k * n + (n if bias else 0)
    counts: dict[str, Any] = {
        "kind": "Gemm",
        "m": rows,
        "n": Dim(float(n)),
        "k": Dim(float(k)),
        "flops": rows * (2.0 * k * n),
        "stored": parameters,
        "weights": Dim(float(parameters)),
        "reads": ZERO if fields.get("state_reads", ZERO).coef else rows * k,
        "writes": rows * n,
        "shard": "n",
    }
    return Op(name, **counts | fields)


def matmul(name: str, g: Dim, m: Dim, n: Dim, k: Dim, /, *, reads: Dim, **fields: Any) -> Op:
    """G products of (m x k) by (k x n), both sides computed: `reads` covers those that aren't kept state."""
    writes = g * m * n
    counts: dict[str, Any] = {"flops": writes * k * 2.0, "reads": reads, "writes": writes, "shard": "g"}
    return Op(name, "MatMul", g=g, m=m, n=n, k=k, **counts | fields)


def elementwise(
    name: str, kind: str, elements: Dim, *, operands: float = 1, operations: float | None = None, **fields: Any
) -> Op:
    """An element-wise op or a reduction over `elements` of `operands` inputs each; shard "g" deals out G parts.

    WorkloadError where the kind has no one figure (a pool's depends on its window) and `operations` is left out.
    """
    if operations is None and kind not in OPERATIONS:
        raise WorkloadError(
            f"operator {name!r} is a {kind}, whose work an element is not one figure: `operations` is needed"
        )
    counts: dict[str, Any] = {
        "flops": elements * (OPERATIONS[kind] if operations is None else operations),
        "weights": Dim(float(fields.get("stored", 0.0))),
        "reads": elements * operands,
        "writes": elements,
        "shard": "elements",
        "quantisable": "wide" not in KINDS[kind],
    }
    return Op(name, kind, **counts | fields)


def move(name: str, kind: str, elements: Dim, **fields: Any) -> Op:
    """Data movement: elements read and written, no arithmetic; shard "g" deals out G parts."""
    counts: dict[str, Any] = {"reads": elements, "writes": elements, "shard": "elements"}
    return Op(name, kind, **counts | fields)


def _rows_of_table(lookups: Dim, table_rows: float, width: float) -> dict[str, Any]:
    """What reading so many rows of a table is, each of `width` elements."""
    return {
        "stored": float(table_rows) * width,
        "weights": lookups * width,
        "reads": lookups,
        "writes": lookups * width,
        "gather_rows": lookups,
        "row_elements": float(width),
        "shard": "n",
    }


def gather(name: str, lookups: Dim, table_rows: float, width: float, **fields: Any) -> Op:
    """One row of `width` elements for each index."""
    return Op(name, "Gather", **_rows_of_table(lookups, table_rows, width) | fields)


def bag(name: str, bags: Dim, lookups: float, table_rows: float, width: float, **fields: Any) -> Op:
    """`lookups` rows summed into each bag (SparseLengthsSum); `layers` tables of `table_rows` rows exist.

    Devices that share the tables get whole tables, each an equal number of the lookups.
    """
    rows = bags * lookups
    counts = _rows_of_table(rows, table_rows, width)
    counts |= {"flops": rows * width, "writes": bags * width, "shard": "elements"}
    return Op(name, "EmbeddingBag", attributes=attributes(lookups=lookups, rows=table_rows), **counts | fields)


class Block:
    """Operators written one after the other, so that a network reads like its own code.

    Every method adds one and returns its name. `rows` of activations enter products, widths are elements a row; names
    of inputs that are empty are left out. All operators are of one `group` and exist `layers` times, unless a call says
    otherwise.
    """

    def __init__(self, rows: Dim = ROW, group: str = "", layers: int = 1, *, bias: bool = True) -> None:
        self.rows, self.group, self.layers, self.bias = rows, group, layers, bias
        self.ops: list[Op] = []

    def append(self, op: Op) -> str:
        """An operator as it is."""
        self.ops.append(op)
        return op.name

    def op(self, name: str, kind: str, *inputs: str, **fields: Any) -> str:
        """An operator by its fields."""
        return self.append(Op(name, kind, **self._fields(inputs, fields)))

    def _fields(self, inputs: Sequence[str], fields: Mapping[str, Any]) -> dict[str, Any]:
        defaults = {"group": self.group, "layers": self.layers, "inputs": tuple(filter(None, inputs))}
        return {**defaults, **fields}

    def _elements(self, width: Dim | float) -> Dim:
        return width if isinstance(width, Dim) else self.rows * width

    def linear(self, name: str, k: float, n: float, /, *inputs: str, rows: Dim | None = None, **fields: Any) -> str:
        """Rows times a matrix of weights."""
        fields = {"bias": self.bias} | self._fields(inputs, fields)
        return self.append(linear(name, self.rows if rows is None else rows, k, n, **fields))

    def vector(self, name: str, kind: str, width: Dim | float, *inputs: str, **fields: Any) -> str:
        """An element-wise operator or a reduction over `width` elements a row, or over that many in all."""
        return self.append(elementwise(name, kind, self._elements(width), **self._fields(inputs, fields)))

    def move(self, name: str, kind: str, width: Dim | float, *inputs: str, **fields: Any) -> str:
        """Data movement of `width` elements a row, or of that many in all."""
        return self.append(move(name, kind, self._elements(width), **self._fields(inputs, fields)))

    def matmul(self, name: str, g: Dim, m: Dim, n: Dim, k: Dim, *inputs: str, reads: Dim, **fields: Any) -> str:
        """Products of activations or state."""
        return self.append(matmul(name, g, m, n, k, reads=reads, **self._fields(inputs, fields)))

    def dot_attention(
        self, prefix: str, extents: tuple[Dim, Dim, Dim, Dim], *inputs: str, reads: Dim, kv: Dim = ZERO, **fields: Any
    ) -> str:
        """G products of M queries by N keys as deep as K, their softmax, and its products with values as wide as K.

        `kv` is what each of both products reads of a kept state; `inputs` past the first are read by the last too.
        """
        g, m, n, k = extents
        scores, after = g * m * n, (f"{prefix}softmax", *inputs[1:])
        self.matmul(f"{prefix}scores", *extents, *inputs, reads=reads, state_reads=kv, **fields)
        self.vector(f"{prefix}softmax", "Softmax", scores, f"{prefix}scores", g=g, **{"shard": "g"} | fields)
        return self.matmul(f"{prefix}context", g, m, k, n, *after, reads=scores, state_reads=kv, **fields)

    def feed(self, names: Sequence[str], kind: str, width: int, ffn: int, *inputs: str, **fields: Any) -> str:
        """Up to `ffn`, an activation and down again, by `names`; with a fourth, half of what goes up is a gate."""
        up, activation, down, *gates = names
        entry = self.linear(up, width, ffn * (1 + len(gates)), *inputs, **fields)
        wide = self.vector(activation, kind, ffn, entry)
        for gate in gates:
            wide = self.vector(gate, "Mul", ffn, wide, entry, operands=2)
        return self.linear(down, ffn, width, wide, shard="k", **fields)

    def gather(self, name: str, table_rows: float, width: float, *inputs: str, **fields: Any) -> str:
        """A row of a table for each row."""
        return self.append(gather(name, self.rows, table_rows, width, **self._fields(inputs, fields)))

    def mlp(
        self,
        prefix: str,
        widths: Sequence[int],
        source: str = "",
        *,
        activation: str | None = "Relu",
        last: str | None = None,
    ) -> str:
        """Fully connected layers width[0] -> width[1] -> ..., an activation between them and `last` at the end."""
        for index, (k, n) in enumerate(pairwise(widths), 1):
            name = source = self.linear(f"{prefix}{index}", k, n, source)
            kind = activation if index < len(widths) - 1 else last
            if kind:
                source = self.vector(f"{name}-{kind.lower()}", kind, n, source)
        return source
