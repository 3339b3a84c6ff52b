"""Counts as functions of batch and length, from the shapes a file has at two batches and at two lengths."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from model_zoo.importers.onnx.file import File, quote
from model_zoo.importers.onnx.shapes import Walk
from model_zoo.ops import Dim, Op
from model_zoo.schema import WorkloadError

BATCH, LENGTH = 2, 32  # where shapes are first worked out
_TYPES = frozenset({1, 2, 3, 4, 5, 6, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26})  # floats and quantised ints


def combine(dims: Sequence[Dim]) -> Dim:
    """Sum of counts; of those that do not grow alike, the kind that is largest at the batch and length walked."""
    groups: dict[tuple[int, int, int], float] = {}
    for d in dims:
        key = (d.b, d.s, d.c)
        groups[key] = groups.get(key, 0.0) + d.coef
    if not groups:
        return Dim(0.0)
    result = [Dim(coef, *key) for key, coef in groups.items()]
    return max(result, key=lambda d: d.at(BATCH, LENGTH, LENGTH))


@dataclass
class Survey:
    """Shapes of a file at every point, and who made which tensor.

    `constant` are tensors that follow from the file's own alone, each with the tensor it was made of, so that a
    weight is stored once whatever its form; `static` those that follow from weights and lengths; `caches` those that
    are a cache in whatever form, each with the tensor that leaves it for the next pass.
    """

    file: File
    walks: tuple[Walk, ...] = ()
    constant: dict[str, str] = field(default_factory=dict)
    static: set[str] = field(default_factory=set)
    source: dict[str, tuple[str, ...]] = field(default_factory=dict)
    roots: set[str] = field(default_factory=set)
    caches: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        batch = self.file.batch if isinstance(self.file.batch, int) else BATCH
        points = [(batch, LENGTH)]
        if isinstance(self.file.batch, str):
            points.append((2 * batch, LENGTH))
        if self.grows:
            points.append((batch, 2 * LENGTH))
        self.walks = tuple(Walk(self.file, *point) for point in points)
        self.constant = {name: name for name in self.file.weights}

    @property
    def grows(self) -> bool:
        """Whether there is a length at all."""
        return self.file.length is not None or bool(self.file.past)

    def shape(self, name: str, point: int = 0) -> tuple[int, ...]:
        """Extents of a tensor at a point, the first one; WorkloadError where they are not known."""
        result = self.walks[point].shape(name)
        if result is None or None in result:
            raise WorkloadError(
                f"the shape of tensor {quote(name)} can't be inferred from the inputs' shapes; it depends on the data, "
                "or its operator has no shape rule"
            )
        return tuple(e for e in result if e is not None)

    def measure(self, name: str, of: Callable[[tuple[int, ...]], int | float]) -> tuple[float, ...]:
        """Something of a tensor's shape at every point."""
        return tuple(float(of(self.shape(name, point))) for point in range(len(self.walks)))

    def elements(self, name: str) -> Dim:
        """Elements of a tensor as a count."""
        return self.spread([self.measure(name, prod)], f"tensor {quote(name)}")[0]

    def powers(self, measures: tuple[float, ...], label: str) -> tuple[int, int]:
        """With which power of the batch and of the length a figure grows."""
        batch = length = 0
        tail = list(measures[1:])
        if isinstance(self.file.batch, str):
            batch = _power(measures[0], tail.pop(0), label, str(self.file.batch), self.walks[0].batch, 1)
        if self.grows:
            length = _power(measures[0], tail.pop(0), label, self.file.length or "past", LENGTH, 2)
        return batch, length

    def spread(self, factors: Sequence[tuple[float, ...]], label: str) -> list[Dim]:
        """Counts whose product is linear in batch, length and context; a fixed batch is a factor of the first."""
        powers = [self.powers(factor, label) for factor in factors]
        lengths = ["c", "s"] if self.file.steps else ["s", "c"]
        if sum(b for b, _ in powers) > 1 or sum(s for _, s in powers) > 2:
            raise WorkloadError(f"{label} grows faster than the batch and the square of the length, which has no count")
        dims = []
        for factor, (b, s) in zip(factors, powers, strict=True):
            known_lengths = [lengths.pop(0) for _ in range(s)]
            coef = factor[0] / (self.walks[0].batch ** b * LENGTH**s)
            dims.append(Dim(coef, b, int("s" in known_lengths), int("c" in known_lengths)))
        if isinstance(self.file.batch, int):
            first = dims[0]
            dims[0] = Dim(first.coef / self.file.batch, 1, first.s, first.c)
        return dims

    def made_by(self, names: Sequence[str]) -> tuple[str, ...]:
        """Ops that made some tensors, each once."""
        result: dict[str, None] = {}
        for name in names:
            result.update(dict.fromkeys(self.source.get(name, ())))
        return tuple(result)

    def op(self, node: Any, name: str, kind: str, **fields: Any) -> Op:
        """An operator that reads what a node reads."""
        return Op(name, kind, "network", self.made_by(node.input), **fields)

    def activations(self, names: Sequence[str]) -> list[str]:
        """Those of some tensors that are not the file's own and are known."""
        return [n for n in names if n and n not in self.constant and self.walks[0].shape(n) is not None]

    def is_weight(self, name: str) -> bool:
        """Whether a tensor is made of parameters: numbers that were learned, no axes, sizes or bounds."""
        if name not in self.constant:
            return False
        return bool(self.walks[0].shape(name)) and self.walks[0].element(name) in _TYPES

    def parameters(self, names: Sequence[str]) -> tuple[float, float]:
        """Parameters an op reads, and those of them no op before it has read."""
        read = new = 0.0
        for name in dict.fromkeys(names):
            if self.is_weight(name):
                count = float(prod(self.shape(name)))
                root = self.constant[name]
                read += count
                new += 0.0 if root in self.roots else count
                self.roots.add(root)
        return read, new


def _power(first: float, second: float, label: str, axis: str, at: int, limit: int) -> int:
    """With which power a figure grows where an axis doubles."""
    for power in range(limit + 1):
        if second == first * 2**power:
            return power
    raise WorkloadError(
        f"{label} has {first:g} elements where the axis {quote(axis)} is {at} and {second:g} where it is {2 * at}: "
        "neither fixed nor in proportion, so give that axis a size"
    )
