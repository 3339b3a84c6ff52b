"""LSTM and GRU steps against the slow twin and onnxruntime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators.rnn import GATES, gru_step, lstm_step, pack_cell
from engine.lab.ranges import KernelError
from tests.effort import examples
from tests.reference import naive, onnx_oracle


def draw(kind, seed, batch, inputs, hidden):
    rng, g = np.random.default_rng(seed), GATES[kind]
    shapes = [(batch, inputs), (batch, hidden), (batch, hidden), (g * hidden, inputs), (g * hidden, hidden)]
    return [rng.normal(size=s).astype(np.float32) * 0.5 for s in shapes]


def step(kind, x, h, c, w, r, threads=None):
    packed = pack_cell(kind, w, r)
    return lstm_step(x, h, c, packed, threads=threads) if kind == "lstm" else (gru_step(x, h, packed, threads=threads),)


def check(kind, seed, batch, inputs, hidden):
    x, h, c, w, r = draw(kind, seed, batch, inputs, hidden)
    bias = np.zeros(2 * len(w))
    exact = naive.lstm_step(x, h, c, w, r, bias) if kind == "lstm" else (naive.gru_step(x, h, w, r, bias),)
    for ours, truth in zip(step(kind, x, h, c, w, r), exact, strict=True):
        assert ours.shape == truth.shape
        assert np.all(np.abs(ours - truth) <= 1e-6 * (3 + inputs + hidden))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 99), batch=st.integers(0, 9), inputs=st.integers(0, 40), hidden=st.integers(1, 50))
def test_step_equals_twin(kind, seed, batch, inputs, hidden):
    check(kind, seed, batch, inputs, hidden)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 17), (4, 0, 16)])
def test_step_fixed_shapes(kind, shape):
    check(kind, 0, *shape)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_step_equals_onnxruntime(kind):
    x, h, c, w, r = draw(kind, 1, 3, 20, 37)
    feeds = {"x": x[None], "w": w[None], "r": r[None], "h": h[None]}
    names, extra = ["x", "w", "r", "", "", "h"], {"hidden_size": 37}
    if kind == "lstm":
        feeds["c"] = c[None]
        names.append("c")
    else:
        extra["linear_before_reset"] = 1
    outs = step(kind, x, h, c, w, r)
    for i, ours in enumerate(outs):
        theirs = onnx_oracle.run(kind.upper(), feeds, names=names, which=1 + i, outputs=1 + len(outs), **extra)
        assert np.abs(ours - theirs[0]).max() <= 5e-6


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_step_is_the_same_for_any_threads(kind):
    values = draw(kind, 2, 6, 65, 131)
    for one, two in zip(step(kind, *values, threads=1), step(kind, *values, threads=2), strict=True):
        assert np.array_equal(one, two)


def test_bad_input_is_one_sentence():
    with pytest.raises(KernelError, match=r"w is \(4, 3\); a lstm of 2 units needs \(8, 3\)"):
        pack_cell("lstm", np.zeros((4, 3), np.float32), np.zeros((8, 2), np.float32))
    packed = pack_cell("gru", np.zeros((6, 3), np.float32), np.zeros((6, 2), np.float32))
    with pytest.raises(KernelError, match="packed is a gru; allowed: lstm"):
        lstm_step(np.zeros((1, 3), np.float32), np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32), packed)
