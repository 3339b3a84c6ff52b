"""Pooling of any window against the slow twin and onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators.pool import adaptive_average_pool, average_pool, global_average_pool, max_pool
from engine.lab.threads.ranges import KernelError
from tests.reference import naive, onnx_oracle

MEAN_ERROR = 1e-5
"""Bound on a mean of at most 400 fp32 values of magnitude under 6."""


def check(rng, height, width, channels, window, stride, padding):
    x = rng.normal(size=(2, height, width, channels)).astype(np.float32)
    geometry = {"stride": stride, "padding": padding}
    full = window[0] * window[1]

    def highest(v):
        return v.max(0, initial=-np.inf)

    assert np.array_equal(max_pool(x, window, **geometry), naive.pool(x, window, stride, padding, highest))
    for counted in (False, True):
        ours = average_pool(x, window, **geometry, count_padding=counted)
        exact = naive.pool(
            x.astype(np.float64),
            window,
            stride,
            padding,
            lambda v, c=counted: v.sum(0) / (full if c else max(len(v), 1)),
        )
        assert ours.shape == exact.shape
        assert np.all(np.abs(ours - exact) <= MEAN_ERROR)
    codes = np.clip(np.rint(x * 40), -128, 127).astype(np.int8)
    exact = naive.pool(codes.astype(float), window, stride, padding, lambda v: v.max(0, initial=-128))
    assert np.array_equal(max_pool(codes, window, **geometry), exact.astype(np.int8))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 999),
    size=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    channels=st.integers(0, 35),
    window=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    stride=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    edge=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_pool_equals_twin(seed, size, channels, window, stride, edge):
    padding = tuple(min(p, k // 2) for p, k in zip(edge, window, strict=True))
    check(np.random.default_rng(seed), *size, channels, window, stride, padding)


@pytest.mark.parametrize("window", [(1, 1), (2, 2), (3, 3), (7, 5)])
def test_pool_fixed_shapes(window):
    check(np.random.default_rng(0), 7, 5, 17, window, (2, 1), (0, 0))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 99), size=st.tuples(*[st.integers(1, 15)] * 2), wanted=st.tuples(*[st.integers(1, 9)] * 2))
def test_adaptive_pool_equals_twin(seed, size, wanted):
    x = np.random.default_rng(seed).normal(size=(2, *size, 11)).astype(np.float32)
    assert np.all(np.abs(adaptive_average_pool(x, wanted) - naive.adaptive_average_pool(x, wanted)) <= MEAN_ERROR)
    assert np.all(np.abs(global_average_pool(x) - x.astype(np.float64).mean((1, 2))) <= MEAN_ERROR)


def test_pool_equals_onnxruntime():
    x = np.random.default_rng(1).normal(size=(2, 15, 13, 9)).astype(np.float32)
    feeds = {"x": onnx_oracle.channels_first(x)}
    shape = {"kernel_shape": [3, 4], "strides": [2, 1], "pads": [1, 2, 1, 2]}
    theirs = onnx_oracle.run("MaxPool", feeds, **shape)
    assert np.array_equal(max_pool(x, (3, 4), stride=(2, 1), padding=(1, 2)), np.moveaxis(theirs, 1, -1))
    for counted in (0, 1):
        theirs = onnx_oracle.run("AveragePool", feeds, **shape, count_include_pad=counted)
        ours = average_pool(x, (3, 4), stride=(2, 1), padding=(1, 2), count_padding=bool(counted))
        assert np.all(np.abs(ours - np.moveaxis(theirs, 1, -1)) <= 2e-6)
    theirs = onnx_oracle.run("GlobalAveragePool", feeds)[:, :, 0, 0]
    assert np.all(np.abs(global_average_pool(x) - theirs) <= 2e-6)


def test_pool_is_the_same_for_any_threads():
    x = np.random.default_rng(2).normal(size=(3, 19, 17, 21)).astype(np.float32)
    for run in (max_pool, average_pool):
        one, two = (run(x, 5, stride=1, padding=2, threads=n) for n in (1, 2))
        assert np.array_equal(one, two)


def test_bad_input_is_one_sentence():
    x = np.zeros((1, 4, 4, 2), np.float32)
    with pytest.raises(KernelError, match="padding is 2; allowed: up to half of 3"):
        max_pool(x, 3, padding=2)
    with pytest.raises(KernelError, match="window is 0; allowed"):
        average_pool(x, 0)
