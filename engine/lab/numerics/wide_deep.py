"""Wide & Deep trained on this host: a linear part over hashed categories beside an MLP over their embeddings.

Forward and backward passes are numpy's matrix products; embeddings, the wide part and Adam's update are compiled
loops. Layers as in document 002: 26 tables of 1000 x 32, 13 numbers, hidden 1024, 512 and 256, one output.
"""

from dataclasses import dataclass

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.numerics.criteo import FIELDS, NUMERIC, Clicks, normalise
from engine.lab.numerics.perceptron import Adam, backward, forward, random_layers, sigmoid
from engine.lab.operators.wide_deep import hash_ids
from engine.numerics.formats import NumericsError

BUCKETS, WIDTH = 1000, 32
HIDDEN = (1024, 512, 256)
_BATCH = 512
_RATE, _TABLE_RATE = 1e-3, np.float32(0.02)  # of learning, of the layers and of tables and wide part [-]


@dataclass(frozen=True, eq=False)
class WideDeep:
    """Trained parameters, float32.

    Attributes
    ----------
    tables : ``[26, buckets, width]`` embeddings; wide : ``[26, buckets]`` one weight a bucket.
    wide_numeric : ``[13]``; top : ``[13]`` largest count of each column in the training rows, which normalises it.
    weights, biases : of every deep layer, ``[inputs, outputs]`` and ``[outputs]``; the last has one output.
    """

    tables: np.ndarray
    wide: np.ndarray
    wide_numeric: np.ndarray
    top: np.ndarray
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Prepared:
    """Rows after preprocessing: int64 buckets ``[rows, 26]``, float32 numbers ``[rows, 13]`` in [0, 1], clicks."""

    buckets: np.ndarray
    numbers: np.ndarray
    labels: np.ndarray


def prepare(rows: Clicks, top: np.ndarray) -> Prepared:
    """Hash the categories and normalise the counts."""
    return Prepared(hash_ids(rows.ids, BUCKETS), normalise(rows.counts, top), rows.labels)


@kernel
def _adagrad(buckets, gradient, slope, tables, sums, wide, wide_sums, rate):
    """Adagrad on the rows that a batch looked up, sample by sample."""
    width = tables.shape[2]
    for b in range(buckets.shape[0]):
        for f in range(buckets.shape[1]):
            row = buckets[b, f]
            wide_sums[f, row] += slope[b] * slope[b]
            wide[f, row] -= rate * slope[b] / np.sqrt(wide_sums[f, row])
            source, to, past = gradient[b, f * width : (f + 1) * width], tables[f, row], sums[f, row]
            for c in range(width):
                past[c] += source[c] * source[c]
                to[c] -= rate * source[c] / np.sqrt(past[c])


def train(rows: Clicks, hidden: tuple[int, ...] = HIDDEN) -> WideDeep:
    """Fit the network to rows, once: Adam on the layers, its rate falling to a tenth; Adagrad on tables and wide part.

    Reproducible on one machine; another matrix library may round differently. NumericsError for fewer rows than a
    batch.
    """
    if len(rows.labels) < _BATCH:
        raise NumericsError(f"rows is {len(rows.labels)}; allowed: at least one batch, {_BATCH}")
    rng, single = np.random.default_rng(0), np.float32
    top = rows.counts.max(axis=0)
    data = prepare(rows, top)
    tables = (rng.standard_normal((FIELDS, BUCKETS, WIDTH)) * 0.05).astype(single)
    layers = random_layers(rng, (FIELDS * WIDTH + NUMERIC, *hidden, 1))
    model = WideDeep(
        tables=tables,
        wide=np.zeros((FIELDS, BUCKETS), single),
        wide_numeric=np.zeros(NUMERIC, single),
        top=top,
        weights=tuple(w for w, _ in layers),
        biases=tuple(b for _, b in layers),
    )
    sums, wide_sums = np.full_like(model.tables, 1e-6), np.full_like(model.wide, 1e-6)
    adam = Adam((*(value for layer in layers for value in layer), model.wide_numeric))
    fields, steps = np.arange(FIELDS), len(rows.labels) // _BATCH
    for picks in rng.permutation(len(rows.labels))[: steps * _BATCH].reshape(steps, _BATCH):
        buckets, numbers = data.buckets[picks], data.numbers[picks]
        looked_up = model.tables[fields, buckets].reshape(_BATCH, -1)
        *inputs, deep = forward(layers, np.concatenate([looked_up, numbers], axis=1))
        logit = sum(model.wide[fields, buckets].T) + numbers @ model.wide_numeric + deep[:, 0]
        slope = ((sigmoid(logit) - data.labels[picks]) / _BATCH).astype(single)
        slopes, back = backward(layers, inputs, slope[:, None])
        adam.step((*slopes, numbers.T @ slope), _RATE * (1 - 0.9 * adam.steps / steps))
        _adagrad(buckets, np.ascontiguousarray(back), slope, model.tables, sums, model.wide, wide_sums, _TABLE_RATE)
    return model
