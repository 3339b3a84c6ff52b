"""Convolutions against the slow twin and onnxruntime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators.conv import bordered_by, conv, pack_conv
from engine.lab.ranges import KernelError
from tests.effort import examples
from tests.reference import naive, onnx_oracle

ROUNDING = 2.0**-23
"""One fp32 rounding; a sum of K products errs by at most K of them times the sum of magnitudes."""


def draw(rng, spatial, channels, outs, kernel, batch=2):
    x = rng.normal(size=(batch, *spatial, channels)).astype(np.float32)
    w = rng.normal(size=(outs, channels, *kernel)).astype(np.float32)
    return x, w


def check(x, w, stride, padding, relu=False):
    out = conv(x, pack_conv(w, stride=stride, padding=padding), relu=relu)
    exact = naive.conv(x, w, np.zeros(len(w)), (stride,) * 2, (padding,) * 2)
    scale = naive.conv(np.abs(x), np.abs(w), np.zeros(len(w)), (stride,) * 2, (padding,) * 2)
    assert out.shape == exact.shape
    assert np.all(np.abs(out - (np.maximum(exact, 0) if relu else exact)) <= (w[0].size + 2) * ROUNDING * scale)


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_conv_equals_twin(data):
    kernel = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    stride, padding = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2))
    spatial = data.draw(st.tuples(st.integers(0, 7), st.integers(0, 7)))
    channels, outs = data.draw(st.integers(1, 14)), data.draw(st.integers(1, 80))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    batch = data.draw(st.integers(0, 2))
    check(
        *draw(rng, spatial, channels, outs, kernel, batch),
        stride,
        padding,
        data.draw(st.booleans()),
    )


FIXED = [
    ((6, 5), 3, 17, (3, 3), 1, 1),
    ((5, 4), 4, 70, (1, 1), 1, 0),
    ((7, 7), 8, 8, (3, 3), 2, 1),
    ((9, 2), 4, 4, (3, 1), 1, 2),
    ((1, 1), 1, 1, (3, 3), 1, 1),
]


@pytest.mark.parametrize("shape", FIXED)
def test_conv_fixed_shapes(shape):
    spatial, channels, outs, kernel, stride, padding = shape
    x, w = draw(np.random.default_rng(0), spatial, channels, outs, kernel)
    check(x, w, stride, padding)


@pytest.mark.parametrize("shape", [*FIXED, ((14, 14), 256, 96, (3, 3), 1, 1)])
def test_conv_equals_onnxruntime(shape):
    spatial, channels, outs, kernel, stride, padding = shape
    x, w = draw(np.random.default_rng(1), spatial, channels, outs, kernel)
    out = conv(x, pack_conv(w, stride=stride, padding=padding))
    feeds = {"x": onnx_oracle.channels_first(x), "w": w}
    theirs = onnx_oracle.run("Conv", feeds, strides=[stride] * 2, pads=[padding] * 4)
    scale = naive.conv(np.abs(x), np.abs(w), np.zeros(len(w)), (stride,) * 2, (padding,) * 2)
    assert np.all(np.abs(out - np.moveaxis(theirs, 1, -1)) <= 2 * (w[0].size + 2) * ROUNDING * scale)


def test_conv_splits_wide_weights_over_several_passes():
    """Weights beyond a cache segment are taken in passes over the pixels; the sum does not notice."""
    x, w = draw(np.random.default_rng(2), (3, 3), 700, 64, (3, 3), batch=1)
    check(x, w, 1, 1, relu=True)


def test_conv_is_the_same_for_any_threads():
    x, w = draw(np.random.default_rng(3), (23, 19), 9, 83, (3, 3))
    packed = pack_conv(w, padding=1)
    assert np.array_equal(conv(x, packed, threads=1), conv(x, packed, threads=2))


def test_borders_replace_the_padding_copy():
    x, w = draw(np.random.default_rng(4), (8, 6), 5, 5, (3, 3))
    packed = pack_conv(w, padding=1)
    first = conv(x, packed, relu=True)
    bordered = conv(bordered_by(x, 1), packed, relu=True, has_border=True)
    assert np.array_equal(bordered, first)


def test_bad_input_is_one_sentence():
    packed = pack_conv(np.ones((4, 3, 3, 3), np.float32))
    with pytest.raises(KernelError, match="x has 2 channels; the weights take 3"):
        conv(np.ones((1, 5, 5, 2), np.float32), packed)
    with pytest.raises(KernelError, match="x has type float64; allowed: float32"):
        conv(np.ones((1, 5, 5, 3)), packed)
