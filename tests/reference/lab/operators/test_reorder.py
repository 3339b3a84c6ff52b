"""Operators between the products, RoiAlign and batched products against twin and library."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators.batched import gemm_batched
from engine.lab.operators.norm import local_response_norm
from engine.lab.operators.reorder import argmax, reduce_sum, repeat_rows, transpose
from engine.lab.operators.roi import roi_align
from engine.lab.operators.rotary import rotary, rotary_angles
from engine.lab.threads.ranges import KernelError
from tests.reference import naive, onnx_oracle

ROUNDING = 2.0**-23
TYPES = (np.uint8, np.uint16, np.float32, np.int64)


def draw_array(seed, shape, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * 50).astype(dtype)


def check_transpose(x, axes):
    expected = np.ascontiguousarray(np.transpose(x, axes))
    for threads in (1, 2):
        got = transpose(x, axes, threads=threads)
        assert got.flags.c_contiguous
        np.testing.assert_array_equal(got, expected)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_transpose_equals_numpy(data):
    rank = data.draw(st.integers(1, 5))
    shape = data.draw(st.tuples(*[st.integers(0, 40 if rank < 3 else 9)] * rank))
    axes = data.draw(st.permutations(range(rank)))
    check_transpose(draw_array(rank, shape, data.draw(st.sampled_from(TYPES))), axes)


@pytest.mark.parametrize("dtype", TYPES)
def test_transpose_fixed_shapes(dtype):
    for shape, axes in (
        ((33, 50), (1, 0)),
        ((2, 16, 32), (0, 2, 1)),
        ((5, 4, 8), (1, 0, 2)),
        ((1, 7), (1, 0)),
        ((2, 3, 4, 5), (3, 1, 0, 2)),
        ((0, 3), (1, 0)),
    ):
        check_transpose(draw_array(1, shape, dtype), axes)


def test_transpose_equals_onnxruntime():
    x = draw_array(2, (3, 37, 4, 20))
    for axes in ((0, 2, 1, 3), (0, 2, 3, 1), (3, 2, 1, 0)):
        np.testing.assert_array_equal(transpose(x, axes), onnx_oracle.run("Transpose", {"x": x}, perm=axes))


def check_sum(x, axis):
    exact, size = (v.astype(np.float64).sum(axis) for v in (x, np.abs(x)))
    got = reduce_sum(x, axis)
    assert got.shape == exact.shape
    assert np.all(np.abs(got - exact) <= x.shape[axis] * ROUNDING * size)
    np.testing.assert_array_equal(got, reduce_sum(x, axis, threads=2))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_sum_equals_twin(data):
    rank = data.draw(st.integers(1, 4))
    x = draw_array(3, data.draw(st.tuples(*[st.integers(0, 90 if rank < 3 else 9)] * rank)))
    check_sum(x, data.draw(st.integers(-rank, rank - 1)))


def test_sum_fixed_shapes():
    for shape, axis in (((3, 129), 1), ((3, 129), 0), ((2, 5, 17), 1), ((4, 0), 1), ((1,), 0)):
        check_sum(draw_array(4, shape), axis)


def test_sum_equals_onnxruntime():
    x = draw_array(5, (9, 26, 33))
    for axis in (0, 1, 2):
        theirs = onnx_oracle.run("ReduceSum", {"x": x, "axes": np.array([axis])}, keepdims=0)
        assert np.all(np.abs(reduce_sum(x, axis) - theirs) <= 40 * ROUNDING * np.abs(x).sum(axis))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 20), st.integers(1, 60), st.integers(0, 5))
def test_rows_repeat_and_yield_their_largest(rows, columns, times):
    x = draw_array(6, (rows, columns)).round()
    np.testing.assert_array_equal(repeat_rows(x, times), np.repeat(x, times, axis=0))
    np.testing.assert_array_equal(argmax(x), x.argmax(-1))


def test_rows_fixed_shapes():
    x = draw_array(7, (3, 50)).round()
    np.testing.assert_array_equal(repeat_rows(x, 2, threads=2), np.repeat(x, 2, axis=0))
    np.testing.assert_array_equal(argmax(x), onnx_oracle.run("ArgMax", {"x": x}, 7, axis=1, keepdims=0))


def check_response(x, size, beta):
    exact = naive.local_response_norm(x, size, 1e-2, beta, 1.5)
    for threads in (1, 2):
        got = local_response_norm(x, size, alpha=1e-2, beta=beta, bias=1.5, threads=threads)
        assert np.all(np.abs(got - exact) <= 4 * (size + 4) * ROUNDING * np.abs(exact) + 1e-30)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 9), st.integers(0, 70), st.integers(1, 9), st.sampled_from((0.75, 0.5, 1.0)))
def test_response_norm_equals_twin(rows, channels, size, beta):
    check_response(draw_array(8, (rows, channels)), size, beta)


@pytest.mark.parametrize(("channels", "size", "beta"), [(1, 5, 0.75), (33, 5, 0.75), (16, 4, 0.6)])
def test_response_norm_fixed_shapes(channels, size, beta):
    check_response(draw_array(9, (3, channels)), size, beta)


def test_response_norm_equals_onnxruntime():
    x = draw_array(10, (2, 7, 5, 96))
    theirs = onnx_oracle.run("LRN", {"x": onnx_oracle.channels_first(x)}, size=5, alpha=1e-3, beta=0.75, bias=2.0)
    ours = local_response_norm(x, 5, alpha=1e-3, bias=2.0)
    np.testing.assert_allclose(ours, np.moveaxis(theirs, 1, -1), rtol=2e-6)


def draw_boxes(seed, count, high, wide):
    rng = np.random.default_rng(seed)
    corners = rng.uniform(-3, max(high, wide) + 3, (count, 2, 2)).astype(np.float32)
    corners.sort(axis=1)
    return corners.reshape(count, 4), rng.integers(0, 2, count)


def check_boxes(seed, count, high, wide, channels, size, samples, transform):
    x = draw_array(seed, (2, high, wide, channels))
    boxes, images = draw_boxes(seed, count, high, wide)
    exact = naive.roi_align(x, boxes, images, size, 0.5, samples, transform)
    for threads in (1, 2):
        got = roi_align(x, boxes, images, size, scale=0.5, samples=samples, transform=transform, threads=threads)
        assert got.shape == exact.shape
        # a sample's place errs by a few roundings of a coordinate, times the slope of the image there
        assert np.all(np.abs(got - exact) <= 64 * ROUNDING * max(high, wide) * np.abs(x).max(initial=0))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 99),
    st.integers(0, 4),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(0, 20),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.integers(1, 3),
    st.sampled_from(("half_pixel", "output_half_pixel")),
)
def test_boxes_equal_twin(seed, count, high, wide, channels, size, samples, transform):
    check_boxes(seed, count, high, wide, channels, size, samples, transform)


def test_boxes_fixed_shapes():
    check_boxes(1, 3, 9, 11, 17, (3, 2), 2, "half_pixel")
    check_boxes(2, 2, 1, 1, 1, (1, 1), 1, "output_half_pixel")


@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("transform", ["half_pixel", "output_half_pixel"])
def test_boxes_equal_onnxruntime(transform, samples):
    x = draw_array(11, (2, 30, 25, 19))
    boxes, images = draw_boxes(12, 7, 60, 50)
    feeds = {"x": onnx_oracle.channels_first(x), "b": boxes, "i": images}
    theirs = onnx_oracle.run(
        "RoiAlign",
        feeds,
        output_height=7,
        output_width=5,
        sampling_ratio=samples,
        spatial_scale=0.5,
        coordinate_transformation_mode=transform,
    )
    ours = roi_align(x, boxes, images, (7, 5), scale=0.5, samples=samples, transform=transform)
    np.testing.assert_allclose(ours, np.moveaxis(theirs, 1, -1), atol=2e-3)


def check_rotary(tokens, heads, depth):
    x = draw_array(17, (tokens, heads, depth))
    cosine, sine = rotary_angles(np.arange(tokens) + 3, depth)
    turns = (x[..., : depth // 2] + 1j * x[..., depth // 2 :]) * (cosine + 1j * sine.astype(np.float64))[:, None]
    exact = np.concatenate([turns.real, turns.imag], axis=2)
    for threads in (1, 2):
        got = rotary(x, cosine, sine, threads=threads)
        assert np.all(np.abs(got - exact) <= 3 * ROUNDING * np.abs(x).max(initial=0))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 30), st.integers(0, 5), st.integers(1, 40))
def test_rotary_turns_complex_pairs(tokens, heads, pairs):
    check_rotary(tokens, heads, 2 * pairs)


def test_rotary_fixed_shapes():
    check_rotary(3, 2, 34)


def test_rotary_equals_onnxruntime():
    x = draw_array(18, (6, 4, 32))
    cosine, sine = rotary_angles(np.arange(6), 32)
    feeds = {"x": x.transpose(1, 0, 2)[None].copy(), "p": np.arange(6)[None], "c": cosine, "s": sine}
    theirs = onnx_oracle.run("RotaryEmbedding", feeds, domain="com.microsoft")
    np.testing.assert_allclose(rotary(x, cosine, sine), theirs[0].transpose(1, 0, 2), rtol=1e-5, atol=1e-4)


def check_batched(groups, rows, depth, columns):
    a, b = draw_array(13, (groups, rows, depth)), draw_array(14, (groups, depth, columns))
    exact, size = a.astype(np.float64) @ b.astype(np.float64), np.abs(a).astype(np.float64) @ np.abs(b)
    got = gemm_batched(a, b)
    assert np.all(np.abs(got - exact) <= (depth + 2) * ROUNDING * size)
    np.testing.assert_array_equal(got, gemm_batched(a, b, threads=2))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 4), st.integers(0, 40), st.integers(0, 30), st.integers(0, 90))
def test_batched_products_equal_twin(groups, rows, depth, columns):
    check_batched(groups, rows, depth, columns)


@pytest.mark.parametrize("shape", [(2, 27, 12, 27), (1, 250, 3, 5), (2, 3, 0, 2), (3, 7, 9, 64)])
def test_batched_products_fixed_shapes(shape):
    check_batched(*shape)


def test_batched_products_equal_onnxruntime():
    a, b = draw_array(15, (12, 50, 64)), draw_array(16, (12, 64, 70))
    theirs = onnx_oracle.run("MatMul", {"a": a, "b": b})
    assert np.all(np.abs(gemm_batched(a, b) - theirs) <= 2 * 66 * ROUNDING * (np.abs(a) @ np.abs(b)))


def test_bad_input_is_one_sentence():
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(KernelError, match=r"axes are \(0, 0\); allowed: an order of 0 to 1"):
        transpose(x, (0, 0))
    with pytest.raises(KernelError, match="axis is 2; allowed: -2 to 1"):
        reduce_sum(x, 2)
    with pytest.raises(KernelError, match=r"b is \(1, 4, 2\); allowed: \[1, 3, columns\]"):
        gemm_batched(np.zeros((1, 2, 3), np.float32), np.zeros((1, 4, 2), np.float32))
    with pytest.raises(KernelError, match="images must be 1 numbers of 0 to 0"):
        roi_align(np.zeros((1, 2, 2, 1), np.float32), np.zeros((1, 4), np.float32), np.array([1]), (1, 1))
    with pytest.raises(KernelError, match="size is 0; allowed: 1 or more"):
        local_response_norm(x, 0)
