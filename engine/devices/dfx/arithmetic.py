"""Arithmetic of the DFX core: IEEE FP16, every result rounded, sums in the order of its trees and adders; and float64.

Products are summed by a d-wide tree, tiles by the partial sums of a lane (`product`), GELU is a
table of 2048 samples on [-8, 8] with linear interpolation. An exact emulation up to the last bit of the exponential,
reciprocal and root, which are rounded correctly here. Source: Hong et al., MICRO 2022, section V-C; that partial sums
circulate in a running sum's adder is our reading of its pipelines.
"""

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine.devices.dfx import program as isa
from engine.numerics.formats import GroupInteger, Integer

HALF = np.float16
SAMPLES = 2048
LIMIT = 8.0


_X = np.linspace(-LIMIT, LIMIT, SAMPLES + 1)
_GELU = (0.5 * _X * (1 + np.tanh(np.sqrt(2 / np.pi) * (_X + 0.044715 * _X**3)))).astype(HALF)
_SILU = (_X / (1 + np.exp(-_X))).astype(HALF)


def gelu_table(x: np.ndarray, table: np.ndarray = _GELU) -> np.ndarray:
    """GELU of fp16 values, or SiLU by its samples: those around x, one multiplication and one addition in fp16."""
    place = (x.astype(np.float32) + np.float32(LIMIT)) * np.float32(SAMPLES / (2 * LIMIT))
    index = np.clip(np.floor(place), 0, SAMPLES - 1).astype(np.int64)
    share = (place - index).astype(HALF)
    low = table[index]
    inside = low + share * (table[index + 1] - low)
    return np.where(x >= HALF(LIMIT), x, np.where(x <= HALF(-LIMIT), HALF(0), inside))


def tree_sum(x: np.ndarray) -> Any:
    """Sum of a power-of-two number of fp16 values, or of rows of them, by pairs of neighbours. [-]"""
    while len(x) > 1:
        x = x[0::2] + x[1::2]
    return x[0]


def accumulate(x: np.ndarray, lanes: int, stages: int) -> np.float16:
    """Sum of a vector as the vector unit forms it: a tree over each beat, then an adder of `stages` stages.

    As many partial sums circulate in the adder as it has stages; beat i is added to sum i modulo `stages`, and the
    sums by pairs of neighbours at the end. [-]
    """
    beats = np.pad(x.astype(HALF), (0, -len(x) % lanes)).reshape(-1, lanes)
    sums = np.zeros(1 << (min(len(beats), stages) - 1).bit_length(), HALF)
    for i, beat in enumerate(beats):
        sums[i % stages] += tree_sum(beat)
    return tree_sum(sums)


def product(weights: np.ndarray, x: np.ndarray, d: int, sums: int = 1) -> np.ndarray:
    """fp16 weights [N, K] times an fp16 vector [K] by trees of width `d` -> fp16 [N].

    K is padded with +0 to whole tiles. Tile i is added to running sum i modulo `sums`, and those by pairs of
    neighbours at the end.
    """
    outputs, inputs = weights.shape
    count = -(-inputs // d)
    with np.errstate(over="ignore", invalid="ignore"):
        tiles = np.pad(weights * x, ((0, 0), (0, count * d - inputs))).reshape(outputs, count, d)
        total = np.zeros((1 << (sums - 1).bit_length(), outputs), HALF)
        for i, tile in enumerate(tree_sum(np.moveaxis(tiles, 2, 0)).T):
            total[i % sums] += tile
        return tree_sum(total)


@dataclass(frozen=True)
class IntegerWeights:
    """A matrix of INT8 codes [inputs, outputs], float64 for exact sums by BLAS, and the FP32 scale of each column."""

    codes: np.ndarray
    scales: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray) -> "IntegerWeights":
        """Each column to the nearest of 255 steps of its own scale."""
        codes, scales = Integer(8, granularity="channel").codes(matrix)
        return cls(codes.astype(np.float64), scales.ravel())

    def __len__(self) -> int:
        """Outputs. [-]"""
        return self.codes.shape[1]


def whole_product(weights: IntegerWeights, x: np.ndarray) -> np.ndarray:
    """INT8 weights times an fp16 vector [K] that is rounded to INT8 by a scale of its own -> fp16 [N].

    Sums of integers are exact; each is multiplied by both scales in FP32 and rounded once.
    """
    codes, scale = Integer(8).codes(x)
    sums = codes.astype(np.float64) @ weights.codes
    return (sums.astype(np.float32) * (weights.scales * scale.ravel())).astype(HALF)


def _half(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float32).astype(HALF)


class CoreArithmetic:
    """What a core of a record does with numbers, its weights and its cache in a format: an exact emulation."""

    dtype, inner = HALF, np.float32  # of registers, and of what a special function computes in
    number = staticmethod(_half)
    gelu, silu = staticmethod(gelu_table), staticmethod(partial(gelu_table, table=_SILU))

    def __init__(self, record: tuple[float, ...], format: str) -> None:
        self.record, self.format = record, format
        self.d, self.lanes, self.stages = (int(record[at]) for at in (isa.D, isa.VECTOR, isa.ADD))

    def store(self, matrix: np.ndarray) -> np.ndarray | IntegerWeights:
        """A [inputs, outputs] matrix as it is stored: fp16 [outputs, inputs] for the tree, or as integers."""
        if self.format == "int8":
            return IntegerWeights.of(matrix)
        columns = np.ascontiguousarray(matrix.T)
        return _half(GroupInteger().apply(columns) if self.format == "w8a16" else columns)

    def product(self, weights: np.ndarray | IntegerWeights, x: np.ndarray) -> np.ndarray:
        """Weights times a vector, as many sums of a column under way as the load direction leaves room for."""
        if isinstance(weights, IntegerWeights):
            return whole_product(weights, x)
        return product(weights, x, self.d, int(isa.partial_sums(self.record, float(len(weights)))))

    def scores(self, keys: np.ndarray, query: np.ndarray) -> np.ndarray:
        """Keys [context, head] times a query."""
        return self.product(IntegerWeights.of(keys.T) if self.format == "int8" else _half(keys), query)

    def weighted_sum(self, values: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Scores times values [context, head]; a token's scale goes with its score."""
        if self.format != "int8":
            return self.product(_half(values.T), scores)
        tokens = IntegerWeights.of(values.T)
        weights = IntegerWeights(tokens.codes.T, np.ones(1, np.float32))
        return whole_product(weights, scores * tokens.scales.astype(HALF))

    def total(self, x: np.ndarray) -> np.float16:
        """Sum of a vector. [-]"""
        return accumulate(x, self.lanes, self.stages)

    def over(self, x: np.ndarray, divisor: float) -> np.ndarray:
        """A vector times a reciprocal that is a constant of the core. [-]"""
        return x * HALF(1 / divisor)


FLOATS: Any = SimpleNamespace(
    dtype=np.float64,
    inner=np.float64,
    number=lambda x: x.astype(np.float64),
    gelu=lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    silu=lambda x: x / (1 + np.exp(-x)),
    store=lambda matrix: matrix.astype(np.float64),
    product=lambda weights, x: x @ weights,
    scores=lambda keys, query: keys @ query,
    weighted_sum=lambda values, scores: scores @ values,
    total=np.sum,
    over=np.divide,
)
"""The same in float64, nothing rounded."""
