"""Activations, softmax and norms: stated error bounds over the whole range, and the libraries' own answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators.norm import batch_norm, layer_norm
from engine.lab.operators.pointwise import activate
from engine.lab.operators.softmax import softmax
from engine.lab.ranges import KernelError
from tests.effort import examples
from tests.reference import naive, onnx_oracle

BOUND = {"relu": 0, "sigmoid": 2e-7, "tanh": 3e-7, "gelu_tanh": 5e-7}
"""Absolute error over max(1, |x|)."""


def grid(points):
    near = np.linspace(-1.5, 1.5, points)
    return np.concatenate([np.linspace(-100, 100, points), near, np.linspace(-10, 10, points)]).astype(np.float32)


def check_bounds(points):
    x = grid(points)
    for name, bound in BOUND.items():
        error = np.abs(activate(x, name) - naive.activation(x, name)) / np.maximum(1, np.abs(x))
        assert error.max() <= bound, name


def test_activations_keep_their_bounds():
    check_bounds(400_001)


def test_activations_fixed_shapes():
    check_bounds(31)
    for shape in ((0,), (1,), (3, 1, 5)):
        x = np.full(shape, -0.75, np.float32)
        assert np.allclose(activate(x, "gelu_tanh"), naive.activation(x, "gelu_tanh"), atol=1e-6)


def test_special_values():
    x = np.array([np.inf, -np.inf, 0.0, -0.0, np.nan], np.float32)
    assert np.allclose(activate(x, "sigmoid")[:3], np.float32([1, 0, 0.5]), rtol=0, atol=1e-38)  # exp is clamped at 88
    assert np.array_equal(activate(x, "tanh")[:3], np.float32([1, -1, 0]))


@pytest.mark.parametrize(
    ("name", "op", "extra"),
    [
        ("gelu_tanh", "Gelu", {"approximate": "tanh"}),
        ("sigmoid", "Sigmoid", {}),
        ("tanh", "Tanh", {}),
    ],
)
def test_activations_equal_onnxruntime(name, op, extra):
    x = grid(2001)
    assert np.abs(activate(x, name) - onnx_oracle.run(op, {"x": x}, **extra)).max() <= 1e-5


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 999), rows=st.integers(0, 9), columns=st.integers(0, 300), spread=st.floats(0.01, 30))
def test_softmax_and_norms_equal_twins(seed, rows, columns, spread):
    check_rows(np.random.default_rng(seed), rows, columns, spread)


def check_rows(rng, rows, columns, spread):
    x = (rng.normal(size=(rows, columns)) * spread).astype(np.float32)
    gain, shift = rng.normal(size=(2, columns)).astype(np.float32)
    if columns:
        exact = naive.softmax(x, 1.0)
        assert np.all(np.abs(softmax(x) - exact) <= exact * (1e-6 + 1e-7 * np.abs(x).max(initial=0)) + 1e-37)
        exact = naive.layer_norm(x, gain, shift, 1e-5)
        size = 1 + np.abs(exact)
        assert np.all(np.abs(layer_norm(x, gain, shift) - exact) <= 2e-5 * size)
    assert np.allclose(batch_norm(x, gain, shift), x * gain + shift, rtol=1e-6, atol=1e-6 * spread)
    assert softmax(x).shape == layer_norm(x, gain, shift).shape == x.shape


@pytest.mark.parametrize("columns", [0, 1, 15, 33])
def test_softmax_and_norms_fixed_shapes(columns):
    check_rows(np.random.default_rng(0), 3, columns, 2.0)


def test_softmax_masks_and_extremes():
    x = np.array([[0, -np.inf, 0], [-np.inf] * 3, [1e4, 0, -1e4], [-3e38, -3e38, -3e38]], np.float32)
    y = softmax(x)
    assert np.array_equal(y[0], np.float32([0.5, 0, 0.5]))
    assert np.isnan(y[1]).all()
    assert np.array_equal(y[2], np.float32([1, 0, 0]))
    assert np.allclose(y[3], 1 / 3)


def test_rows_equal_onnxruntime():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(7, 129)).astype(np.float32) * 4
    gain, shift = rng.normal(size=(2, 129)).astype(np.float32)
    assert np.allclose(softmax(x), onnx_oracle.run("Softmax", {"x": x}), rtol=2e-6, atol=1e-9)
    theirs = onnx_oracle.run("LayerNormalization", {"x": x, "g": gain, "b": shift}, epsilon=1e-5)
    assert np.allclose(layer_norm(x, gain, shift), theirs, rtol=1e-5, atol=1e-5)


def test_rows_are_the_same_for_any_threads():
    x = np.random.default_rng(2).normal(size=(301, 515)).astype(np.float32)
    gain = np.ones(515, np.float32)
    for run in (softmax, lambda v, threads: layer_norm(v, gain, gain, threads=threads)):
        assert np.array_equal(run(x, threads=1), run(x, threads=2))
    for name in BOUND:
        assert np.array_equal(activate(x, name, threads=1), activate(x, name, threads=2))


def test_bad_input_is_one_sentence():
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(KernelError, match="name is 'swish'; allowed: relu"):
        activate(x, "swish")
    with pytest.raises(KernelError, match="gain has 2 values; allowed: 3"):
        layer_norm(x, np.ones(2, np.float32), np.ones(2, np.float32))
