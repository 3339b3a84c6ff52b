"""Convolutions of rank 1 to 3, grouped and depthwise, against the slow twin and onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.ir.lanes import lanes
from engine.lab.operators.conv import conv, pack_conv, pad_spatial
from engine.lab.operators.depthwise import depthwise, pack_depthwise
from engine.lab.ranges import KernelError
from tests.reference import naive, onnx_oracle

ROUNDING = 2.0**-23
"""One fp32 rounding; a sum of K products errs by at most K of them times the sum of magnitudes."""


def draw(rng, spatial, channels, outs, kernel, groups, batch=2):
    x = rng.normal(size=(batch, *spatial, channels)).astype(np.float32)
    w = rng.normal(size=(outs, channels // groups, *kernel)).astype(np.float32)
    return x, w, rng.normal(size=outs).astype(np.float32)


def check(x, w, bias, stride, padding, dilation, groups, relu=False):
    out = conv(x, pack_conv(w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups), relu=relu)
    exact = naive.conv(x, w, bias, stride, padding, dilation, groups)
    scale = naive.conv(np.abs(x), np.abs(w), np.abs(bias), stride, padding, dilation, groups)
    assert out.shape == exact.shape
    assert np.all(np.abs(out - (np.maximum(exact, 0) if relu else exact)) <= (w[0].size + 2) * ROUNDING * scale)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_conv_equals_twin(data):
    rank = data.draw(st.integers(1, 3), "rank")
    axis = st.tuples(*[st.integers(1, 3)] * rank)
    kernel, stride, dilation = data.draw(axis), data.draw(axis), data.draw(axis)
    padding = data.draw(st.tuples(*[st.integers(0, 2)] * rank))
    spatial = data.draw(st.tuples(*[st.integers(0, 7 if rank < 3 else 4)] * rank))
    groups = data.draw(st.sampled_from([1, 1, 2, 3]))
    channels, outs = groups * data.draw(st.integers(1, 7)), groups * data.draw(st.integers(1, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    batch = data.draw(st.integers(0, 2))
    check(
        *draw(rng, spatial, channels, outs, kernel, groups, batch),
        stride,
        padding,
        dilation,
        groups,
        data.draw(st.booleans()),
    )


FIXED = [
    ((6, 5), 3, 17, (3, 3), 1, 1, 1, 1),
    ((5, 4), 4, 70, (1, 1), 1, 0, 1, 1),
    ((7, 7), 8, 8, (3, 3), 2, 1, 1, 2),
    ((3, 4, 5), 2, 5, (2, 3, 3), 1, 1, 1, 1),
    ((9,), 4, 4, (3,), 1, 2, 2, 2),
    ((1, 1), 1, 1, (3, 3), 1, 1, 1, 1),
]


@pytest.mark.parametrize("shape", FIXED)
def test_conv_fixed_shapes(shape):
    spatial, channels, outs, kernel, stride, padding, dilation, groups = shape
    x, w, bias = draw(np.random.default_rng(0), spatial, channels, outs, kernel, groups)
    rank = len(spatial)
    check(x, w, bias, (stride,) * rank, (padding,) * rank, (dilation,) * rank, groups)


@pytest.mark.parametrize("shape", [*FIXED, ((14, 14), 256, 96, (3, 3), 1, 1, 1, 1)])
def test_conv_equals_onnxruntime(shape):
    spatial, channels, outs, kernel, stride, padding, dilation, groups = shape
    x, w, bias = draw(np.random.default_rng(1), spatial, channels, outs, kernel, groups)
    rank = len(spatial)
    out = conv(x, pack_conv(w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups))
    feeds = {"x": onnx_oracle.channels_first(x), "w": w, "b": bias}
    theirs = onnx_oracle.run(
        "Conv", feeds, strides=[stride] * rank, pads=[padding] * 2 * rank, dilations=[dilation] * rank, group=groups
    )
    scale = naive.conv(
        np.abs(x), np.abs(w), np.abs(bias), (stride,) * rank, (padding,) * rank, (dilation,) * rank, groups
    )
    assert np.all(np.abs(out - np.moveaxis(theirs, 1, -1)) <= 2 * (w[0].size + 2) * ROUNDING * scale)


def test_conv_splits_wide_weights_over_several_passes():
    """Weights beyond a cache segment are taken in passes over the pixels; the sum does not notice."""
    x, w, bias = draw(np.random.default_rng(2), (3, 3), 700, 64, (3, 3), 1, batch=1)
    check(x, w, bias, (1, 1), (1, 1), (1, 1), 1, relu=True)


def test_conv_is_the_same_for_any_threads():
    x, w, bias = draw(np.random.default_rng(3), (23, 19), 9, 83, (3, 3), 1)
    packed = pack_conv(w, bias, padding=1)
    assert np.array_equal(conv(x, packed, threads=1), conv(x, packed, threads=2))
    packed = pack_depthwise(w[:9, :1].copy(), bias[:9].copy(), padding=1)
    assert np.array_equal(depthwise(x, packed, threads=1), depthwise(x, packed, threads=2))


def test_borders_replace_the_padding_copy():
    x, w, bias = draw(np.random.default_rng(4), (8, 6), 5, 5, (3, 3), 1)
    packed, channelwise = pack_conv(w, bias, padding=1), pack_depthwise(w[:, :1].copy(), bias, padding=1)
    for run, weights in ((conv, packed), (depthwise, channelwise)):
        first = run(x, weights, relu=True)
        bordered = run(pad_spatial(x, (1, 1)), weights, relu=True, bordered=True, border=1)
        assert np.array_equal(bordered, pad_spatial(first, (1, 1)))
        assert np.array_equal(run(bordered, weights, bordered=True), run(first, weights))


def check_depthwise(rng, height, width, channels, kernel, stride, padding):
    x = rng.normal(size=(2, height, width, channels)).astype(np.float32)
    w = rng.normal(size=(channels, 1, *kernel)).astype(np.float32)
    bias = rng.normal(size=channels).astype(np.float32)
    out = depthwise(x, pack_depthwise(w, bias, stride=stride, padding=padding))
    exact = naive.conv(x, w, bias, stride, padding, (1, 1), channels)
    scale = naive.conv(np.abs(x), np.abs(w), np.abs(bias), stride, padding, (1, 1), channels)
    assert out.shape == exact.shape
    assert np.all(np.abs(out - exact) <= (w[0].size + 2) * ROUNDING * scale)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 999),
    size=st.tuples(st.integers(0, 9), st.integers(0, 17)),
    channels=st.integers(1, 37),
    kernel=st.sampled_from([(3, 3), (5, 5), (1, 3), (2, 4), (3, 5)]),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_depthwise_equals_twin(seed, size, channels, kernel, stride, padding):
    check_depthwise(np.random.default_rng(seed), *size, channels, kernel, stride, padding)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [(3, 3), (5, 5), (2, 4)])
def test_depthwise_fixed_shapes(kernel, stride):
    check_depthwise(np.random.default_rng(5), 5, 16, 19, kernel, (stride, stride), (1, 1))
    check_depthwise(np.random.default_rng(5), 4, 3, 5, kernel, (stride, stride), (1, 1))


def check_groups(rng, spatial, group, groups, kernel, stride, padding, batch=2):
    x, w, bias = draw(rng, spatial, group * groups, group * groups, kernel, groups, batch)
    packed, rank = pack_depthwise(w, bias, stride=stride, padding=padding), len(spatial)
    exact = naive.conv(x, w, bias, stride, padding, (1,) * rank, groups)
    scale = naive.conv(np.abs(x), np.abs(w), np.abs(bias), stride, padding, (1,) * rank, groups)
    for threads in (1, 2):
        out = depthwise(x, packed, threads=threads)
        assert out.shape == exact.shape
        assert np.all(np.abs(out - exact) <= (w[0].size + 2) * ROUNDING * scale)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_groups_of_a_few_channels_equal_twin(data):
    rank = data.draw(st.integers(1, 3), "rank")
    group = data.draw(st.sampled_from([g for g in (1, 1, 2, 4, 8) if g < lanes()]))
    axes = st.tuples(*[st.integers(1, 3)] * (rank - 1))
    kernel = (*data.draw(axes), 3 if group > 1 else data.draw(st.integers(1, 5)))
    stride = (*data.draw(axes), data.draw(st.integers(1, 2 if group > 1 else 3)))
    spatial = data.draw(st.tuples(*[st.integers(0, 9 if rank < 3 else 5)] * rank))
    padding = data.draw(st.tuples(*[st.integers(0, 2)] * rank))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    check_groups(rng, spatial, group, data.draw(st.integers(1, 9)), kernel, stride, padding)


@pytest.mark.parametrize(
    "shape",
    [
        ((4, 6, 9), 1, 20, (3, 3, 3), 1),
        ((4, 6, 9), 1, 33, (3, 3, 3), 2),
        ((11,), 1, 17, (3,), 1),
        ((6, 9), 2, 9, (3, 3), 1),
        ((6, 9), 2, 9, (3, 3), 2),
        ((3, 5, 8), 2, 2, (3, 3, 3), 1),
    ],
)
def test_groups_fixed_shapes(shape):
    spatial, group, groups, kernel, stride = shape
    rank = len(spatial)
    check_groups(np.random.default_rng(7), spatial, group, groups, kernel, (stride,) * rank, (1,) * rank)


@pytest.mark.parametrize("case", [((12, 15), 4, 32), ((9, 8), 8, 5), ((4, 9, 10), 1, 24), ((4, 9, 10), 4, 4)])
@pytest.mark.parametrize("stride", [1, 2])
def test_groups_equal_onnxruntime(case, stride):
    spatial, group, groups = case
    if group >= lanes():
        pytest.skip("a vector holds no two groups")
    x, w, bias = draw(np.random.default_rng(8), spatial, group * groups, group * groups, (3,) * len(spatial), groups)
    feeds = {"x": onnx_oracle.channels_first(x), "w": w, "b": bias}
    theirs = onnx_oracle.run("Conv", feeds, pads=[1] * 2 * len(spatial), strides=[stride] * len(spatial), group=groups)
    ours = depthwise(x, pack_depthwise(w, bias, stride=stride, padding=1))
    assert np.allclose(ours, np.moveaxis(theirs, 1, -1), rtol=1e-4, atol=1e-4)


def test_depthwise_equals_onnxruntime():
    rng = np.random.default_rng(6)
    x, w = rng.normal(size=(2, 14, 15, 33)).astype(np.float32), rng.normal(size=(33, 1, 3, 3)).astype(np.float32)
    theirs = onnx_oracle.run(
        "Conv", {"x": onnx_oracle.channels_first(x), "w": w}, pads=[1] * 4, strides=[2, 2], group=33
    )
    ours = depthwise(x, pack_depthwise(w, stride=2, padding=1))
    assert np.allclose(ours, np.moveaxis(theirs, 1, -1), rtol=1e-5, atol=1e-5)


def test_bad_input_is_one_sentence():
    packed = pack_conv(np.ones((4, 3, 3, 3), np.float32))
    with pytest.raises(KernelError, match="x has 2 channels; the weights take 3"):
        conv(np.ones((1, 5, 5, 2), np.float32), packed)
    with pytest.raises(KernelError, match="x has type float64; allowed: float32"):
        conv(np.ones((1, 5, 5, 3)), packed)
    with pytest.raises(KernelError, match="groups is 3; allowed: divisors of 4"):
        pack_conv(np.ones((4, 3, 3, 3), np.float32), groups=3)
