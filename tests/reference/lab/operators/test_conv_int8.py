"""8-bit convolution against the exact integer twin and onnxruntime's QLinearConv."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kernels.jit import JIT_ENABLED
from engine.lab.operators.conv_int8 import conv_u8, pack_conv_s8
from engine.lab.threads.ranges import KernelError
from tests.reference import naive, onnx_oracle
from tests.reference.naive_gemm import requantised


def draw(seed, spatial, channels, outs, kernel, groups, batch=1):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (batch, *spatial, channels)).astype(np.uint8)
    w = rng.integers(-128, 128, (outs, channels // groups, *kernel)).astype(np.int8)
    bias = rng.integers(-5000, 5000, outs).astype(np.int32)
    return x, w, bias, (rng.random(outs) * 2e-3).astype(np.float32)


def check(seed, spatial, channels, outs, kernel, stride, padding, dilation, groups, batch=1):
    x, w, bias, scale = draw(seed, spatial, channels, outs, kernel, groups, batch)
    packed = pack_conv_s8(w, stride=stride, padding=padding, dilation=dilation, groups=groups)
    sums = naive.conv(x.astype(np.int64) - 7, w, bias, stride, padding, dilation, groups).astype(np.int64)
    exact = requantised(sums.reshape(-1, outs).astype(np.int32), scale, 11, True).reshape(sums.shape)
    for threads in (1, 2):
        out = conv_u8(x, packed, scale, zero=7, bias=bias, zero_out=11, relu=True, threads=threads)
        np.testing.assert_array_equal(out, exact)


@settings(max_examples=25 if JIT_ENABLED else 4, deadline=None)
@given(data=st.data())
def test_conv_is_exact(data):
    rank = data.draw(st.integers(1, 3), "rank")
    axis = st.tuples(*[st.integers(1, 3)] * rank)
    kernel, stride, dilation = data.draw(axis), data.draw(axis), data.draw(axis)
    padding = data.draw(st.tuples(*[st.integers(0, 2)] * rank))
    spatial = data.draw(st.tuples(*[st.integers(0, 7 if rank < 3 else 4)] * rank))
    groups = data.draw(st.sampled_from([1, 1, 2, 3]))
    channels, outs = groups * data.draw(st.integers(1, 9)), groups * data.draw(st.integers(1, 70))
    seed, batch = data.draw(st.integers(0, 999)), data.draw(st.integers(0, 2))
    check(seed, spatial, channels, outs, kernel, stride, padding, dilation, groups, batch)


@pytest.mark.parametrize(
    "shape",
    [
        ((5, 6), 3, 5, (3, 3), 1, 1, 1, 1),
        ((7,), 4, 70, (3,), 2, 1, 1, 2),
        ((3, 4, 3), 1, 3, (2, 3, 3), 1, 1, 1, 1),
        ((1, 1), 1, 1, (1, 1), 1, 0, 1, 1),
        ((6, 6), 30, 9, (3, 3), 1, 2, 2, 1),
        ((2,), 1, 9, (1,), 2, 1, 1, 1),  # as many outputs as pixels, one of them of the border
    ],
)
def test_conv_fixed_shapes(shape):
    spatial, channels, outs, kernel, stride, padding, dilation, groups = shape
    rank = len(spatial)
    check(0, spatial, channels, outs, kernel, (stride,) * rank, (padding,) * rank, (dilation,) * rank, groups)


@pytest.mark.parametrize("shape", [((14, 13), 64, 96, 3, 1, 1), ((9, 9), 24, 40, 3, 2, 2), ((8, 8), 128, 64, 1, 1, 1)])
def test_conv_equals_onnxruntime(shape):
    spatial, channels, outs, window, stride, groups = shape
    x, w, bias, _ = draw(3, spatial, channels, outs, (window, window), groups)
    step_w = np.full(outs, 0.01, np.float32) + np.arange(outs, dtype=np.float32) * np.float32(1e-5)
    step_x, step_y = np.float32(0.02), np.float32(4.0)
    feeds = {
        "x": onnx_oracle.channels_first(x),
        "sx": np.array(step_x),
        "zx": np.array(9, np.uint8),
        "w": w,
        "sw": step_w,
        "zw": np.zeros(outs, np.int8),
        "sy": np.array(step_y),
        "zy": np.array(100, np.uint8),
        "b": bias,
    }
    pads = [window // 2] * 4
    theirs = onnx_oracle.run(
        "QLinearConv", feeds, onnx_oracle.TensorProto.UINT8, strides=[stride] * 2, pads=pads, group=groups
    )
    packed = pack_conv_s8(w, stride=stride, padding=window // 2, groups=groups)
    ours = conv_u8(x, packed, step_x * step_w / step_y, zero=9, bias=bias, zero_out=100)
    apart = np.abs(ours.astype(int) - np.moveaxis(theirs, 1, -1).astype(int))
    assert apart.max() <= 1  # the two round a product of float32 scales in different orders
    assert (apart > 0).mean() < 1e-3


def test_bad_input_is_one_sentence():
    packed = pack_conv_s8(np.ones((4, 3, 3, 3), np.int8))
    scale = np.ones(4, np.float32)
    with pytest.raises(KernelError, match="x has 2 channels; allowed: 3"):
        conv_u8(np.ones((1, 5, 5, 2), np.uint8), packed, scale)
    with pytest.raises(KernelError, match="zero is 256; allowed: 0 to 255"):
        conv_u8(np.ones((1, 5, 5, 3), np.uint8), packed, scale, zero=256)
    with pytest.raises(KernelError, match="weights has type float32; allowed: int8"):
        pack_conv_s8(np.ones((4, 3, 3, 3), np.float32))
