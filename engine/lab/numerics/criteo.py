"""A synthetic data set in the shape of Criteo's display advertising challenge: 13 counts, 26 categories, a click.

Categories are drawn by Zipf's law from vocabularies as large as the real ones, so hashing into a thousand buckets
collides. What clicks is known here: every value has an effect of its own, some pairs of values have one together, and
counts have a bent one; a network that learns them ranks better than chance, and none ranks perfectly, since the click
itself is drawn. Reproducible from a seed. Synthetic: nothing measured on it is evidence about the real data set.
"""

from dataclasses import dataclass

import numpy as np

from engine.kernels.events.rng import mix
from engine.kernels.jit import body_of
from engine.numerics.formats import NumericsError

NUMERIC, FIELDS = 13, 26
VOCABULARY: tuple[int, ...] = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
    2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip
"""Distinct values of each categorical column of the real set, recalled from its use in recommendation benchmarks."""

_INTERCEPT = -1.25  # log-odds: puts the click rate near the 0.256 of the real training rows
_MAX_ROWS = 4_000_000
_PAIRS = 24  # of columns whose values act together
_FACTORS = 3  # each such pair's effect is a product of so many
_WORLD = 20191016  # seed of what is true, the same for every draw of rows


@dataclass(frozen=True)
class Clicks:
    """Rows of the set.

    Attributes
    ----------
    ids : int64 ``[rows, 26]`` raw categories, as their 8 hexadecimal digits would read.
    counts : int64 ``[rows, 13]``, 0 or more.
    labels : float32 ``[rows]``, 0 or 1.
    """

    ids: np.ndarray
    counts: np.ndarray
    labels: np.ndarray


def _hash(value: np.ndarray, salt: int) -> np.ndarray:
    """64 well-mixed bits of every value (splitmix64's finaliser)."""
    with np.errstate(over="ignore"):
        return body_of(mix)(value.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64))


def _effect(rank: np.ndarray, salt: int) -> np.ndarray:
    """A standard normal number that belongs to a value, the same in every row: the sum of four uniform ones."""
    bits = np.ascontiguousarray(_hash(rank, salt)).view(np.uint16).reshape(*rank.shape, 4)
    return (bits.astype(np.float32).sum(-1) / np.float32(65535) - 2) * np.float32(np.sqrt(3))


def clicks(rows: int, seed: int = 0) -> Clicks:
    """Draw rows; another seed draws other rows of the same world. NumericsError for a number of rows out of range."""
    if not 1 <= rows <= _MAX_ROWS:
        raise NumericsError(f"rows is {rows}; allowed: 1 to {_MAX_ROWS}")
    world, rng = np.random.default_rng(_WORLD), np.random.default_rng([_WORLD, seed])
    sizes = np.array(VOCABULARY, np.float64)
    ranks = np.exp(rng.random((rows, FIELDS)) * np.log(sizes + 1)).astype(np.int64) - 1  # log-uniform: Zipf of 1
    counts = np.exp(rng.standard_normal((rows, NUMERIC)) * 1.3 + world.uniform(0, 4, NUMERIC)).astype(np.int64)
    weight = world.uniform(0.2, 0.6, FIELDS)
    score = np.full(rows, _INTERCEPT)
    for field in range(FIELDS):
        score += weight[field] * _effect(ranks[:, field], field)
    for pair in range(_PAIRS):
        first, second = world.choice(FIELDS, 2, replace=False)
        effect = np.zeros(rows)
        for factor in range(_FACTORS):
            salt = 1000 + 10 * pair + factor
            effect += _effect(ranks[:, first] % 64, salt) * _effect(ranks[:, second] % 64, salt + 500_000)
        score += 0.2 / np.sqrt(_FACTORS) * effect
    bent = np.log1p(counts)
    for column in range(NUMERIC):
        middle = world.uniform(1, 4)
        score += world.uniform(-0.3, 0.3) * np.abs(bent[:, column] - middle)
    labels = (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(np.float32)
    columns = np.arange(FIELDS, dtype=np.int64) << 40
    ids = (_hash(ranks + columns, 7) >> np.uint64(32)).astype(np.int64)
    return Clicks(ids, counts, labels)


def normalise(counts: np.ndarray, top: np.ndarray) -> np.ndarray:
    """Counts as float32 in [0, 1]: logarithm over that of the largest count the training rows hold, clipped."""
    return np.clip(np.log1p(counts) / np.log1p(np.maximum(top, 1)), 0, 1).astype(np.float32)
