"""The binary perceptron: packed bits equal arithmetic on +1 and -1, folding changes nothing, and it learns digits."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_digits

from engine.lab.numerics import binary_mlp
from engine.lab.numerics.binary_mlp import (
    BinaryMlp,
    Images,
    digits,
    float_classes,
    thermometer,
    train_binary,
    train_float,
)
from engine.numerics.formats import NumericsError

HIDDEN = (256, 256)


@cache
def images() -> Images:
    return digits()


@cache
def fitted() -> BinaryMlp:
    return train_binary(thermometer(images().train), images().train_labels, HIDDEN, epochs=25)


def twin(model: BinaryMlp, bits: np.ndarray) -> np.ndarray:
    """Differing bits of every class, by integer products of +1 and -1."""
    value = 2 * bits.astype(np.int64) - 1
    for rows, threshold in zip(model.rows[:-1], model.thresholds, strict=True):
        signs = 2 * np.unpackbits(rows, axis=1, bitorder="little").astype(np.int64) - 1
        differing = (value.shape[1] - value @ signs.T) // 2
        value = np.where(differing <= threshold, 1, -1)
    signs = 2 * np.unpackbits(model.rows[-1], axis=1, bitorder="little").astype(np.int64) - 1
    return (value.shape[1] - value @ signs.T) // 2


def test_digits_are_the_packaged_ones():
    theirs = load_digits()
    ours = images()
    assert len(ours.train) + len(ours.test) == len(theirs.data) == 1797
    assert np.array_equal(np.sort(np.concatenate([ours.train, ours.test]).sum(1)), np.sort(theirs.data.sum(1)))
    assert sorted(np.concatenate([ours.train_labels, ours.test_labels])) == sorted(theirs.target)
    assert ours.train.max() == 16


def test_digits_need_no_package_that_a_server_lacks():
    code = "import sys; sys.modules['sklearn'] = None; from importlib import util; known = util.find_spec\n"
    code += "util.find_spec = lambda name, *at: None if name == 'sklearn' else known(name, *at)\n"
    code += "from engine.lab.numerics.binary_mlp import digits; print(len(digits().train) + len(digits().test))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("1797\n", "")


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_packed_bits_equal_plus_and_minus_one(threads):
    bits = thermometer(images().test)
    assert np.array_equal(fitted().counts(bits, threads=threads), twin(fitted(), bits))


def test_normalisation_and_sign_fold_into_a_threshold():
    rng = np.random.default_rng(0)
    k, n = 128, 64
    weight = rng.standard_normal((k, n)).astype(np.float32)
    shift, mean = rng.standard_normal(n).astype(np.float32), rng.normal(0, 8, n).astype(np.float32)
    spread = rng.uniform(3, 12, n).astype(np.float32)
    last = rng.standard_normal((n, 8)).astype(np.float32)
    model = binary_mlp._folded(
        [weight, last],
        [shift, np.zeros(8, np.float32)],
        [mean, np.zeros(8, np.float32)],
        [spread, np.ones(8, np.float32)],
    )
    bits = rng.integers(0, 2, (500, k)).astype(np.uint8)
    sums = (2.0 * bits - 1) @ np.where(weight >= 0, 1.0, -1.0)
    fires = (sums - mean) / spread + shift >= 0
    assert np.array_equal((k - sums) / 2 <= model.thresholds[0], fires)


def test_it_learns_digits_nearly_as_well_as_floats():
    """Held-out accuracy on a real, small image set; the gap to FP32 is a few points at most."""
    given = images()
    exact = train_float((given.train / 16).astype(np.float32), given.train_labels, HIDDEN, epochs=25)
    reached = float((float_classes(exact, (given.test / 16).astype(np.float32)) == given.test_labels).mean())
    binary = float((fitted().classes(thermometer(given.test)) == given.test_labels).mean())
    assert reached > 0.95
    assert binary > 0.93
    assert reached - binary < 0.04
    assert fitted().stored_bits == 256 * 256 * 2 + 256 * 10


def test_mistakes_are_named():
    bits = np.zeros((4, 16), np.uint8)
    with pytest.raises(NumericsError, match="hidden holds 12; allowed: multiples of 8"):
        train_binary(bits, np.zeros(4, np.int64), (12,))
    with pytest.raises(NumericsError, match="epochs is 0; allowed"):
        train_binary(bits, np.zeros(4, np.int64), (8,), epochs=0)
    with pytest.raises(NumericsError, match="do not match"):
        train_binary(bits, np.zeros(3, np.int64), (8,))
