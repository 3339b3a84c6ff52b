"""TopK and NonMaxSuppression against a twin that sorts, and against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators.select import non_max_suppression, top_k
from engine.lab.threads.ranges import KernelError
from tests.reference import naive, onnx_oracle

INT64 = onnx_oracle.TensorProto.INT64


def check_top(x, k, largest):
    expected = naive.top_k(x, k, largest)
    for threads in (1, 2):
        values, places = top_k(x, k, largest=largest, threads=threads)
        np.testing.assert_array_equal(places, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis=1))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), st.integers(0, 5), st.integers(0, 300), st.integers(1, 40), st.booleans(), st.data())
def test_largest_values_equal_a_stable_sort(seed, rows, columns, distinct, largest, data):
    k = data.draw(st.integers(0, columns))
    # few distinct values, zeros of both signs among them: ties are the rule
    x = np.random.default_rng(seed).integers(-distinct, distinct + 1, (rows, columns)).astype(np.float32)
    check_top(np.where(x == 0, np.float32(-0.0 if seed % 2 else 0.0), x) * np.float32(0.5), k, largest)


def test_largest_values_fixed_shapes():
    rng = np.random.default_rng(1)
    for shape, k in (((3, 1), 1), ((2, 1000), 1000), ((2, 1000), 7), ((1, 65), 64), ((4, 0), 0)):
        check_top(rng.normal(size=shape).astype(np.float32), k, largest=True)
    check_top(np.array([[0.0, -0.0, np.inf, -np.inf, -0.0, 0.0]], np.float32), 4, largest=True)
    check_top(np.array([[0.0, -0.0, np.inf, -np.inf, -0.0, 0.0]], np.float32), 4, largest=False)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("columns", "k"), [(1, 1), (257, 256), (1000, 10), (5000, 300)])
def test_largest_values_equal_onnxruntime(columns, k, largest):
    x = np.random.default_rng(columns).integers(-99, 99, (2, 3, columns)).astype(np.float32)
    feeds = {"x": x, "k": np.array([k])}
    for which, kind in ((0, onnx_oracle.TensorProto.FLOAT), (1, INT64)):
        theirs = onnx_oracle.run("TopK", feeds, kind, which=which, outputs=2, largest=int(largest))
        np.testing.assert_array_equal(top_k(x, k, largest=largest)[which], theirs)


def draw_boxes(seed, images, classes, count):
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 10, (images, count, 2)).astype(np.float32)
    sizes = rng.choice(np.array([-2, 0, 1, 3], np.float32), (images, count, 2))  # turned, empty and like boxes
    scores = rng.integers(0, 20, (images, classes, count)).astype(np.float32) / np.float32(20)
    return np.concatenate([corners, corners + sizes], axis=2), scores


def check_boxes(seed, images, classes, count, most, overlap, least):
    boxes, scores = draw_boxes(seed, images, classes, count)
    expected = naive.non_max_suppression(boxes, scores, most, overlap, least)
    for threads in (1, 2):
        got = non_max_suppression(boxes, scores, most, overlap=overlap, least_score=least, threads=threads)
        np.testing.assert_array_equal(got, expected)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 999),
    st.integers(0, 2),
    st.integers(0, 3),
    st.integers(0, 40),
    st.integers(0, 12),
    st.sampled_from((0.0, 0.1, 0.5, 1.0)),
    st.sampled_from((-np.inf, 0.0, 0.5)),
)
def test_boxes_equal_twin(seed, images, classes, count, most, overlap, least):
    check_boxes(seed, images, classes, count, most, overlap, least)


def test_boxes_fixed_shapes():
    check_boxes(1, 1, 1, 1, 1, 0.5, 0.0)
    check_boxes(2, 2, 2, 33, 33, 1.0, -np.inf)
    check_boxes(3, 1, 1, 400, 300, 0.9, 0.0)  # more boxes kept than are compared in one go


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.7])
def test_boxes_equal_onnxruntime(overlap, centred):
    boxes, scores = draw_boxes(7, 2, 3, 200)
    if centred:
        boxes[..., 2:] = np.abs(boxes[..., 2:])
    feeds = {
        "b": boxes,
        "s": scores,
        "m": np.array([50]),
        "o": np.array([overlap], np.float32),
        "l": np.array([0.25], np.float32),
    }
    theirs = onnx_oracle.run("NonMaxSuppression", feeds, INT64, center_point_box=int(centred))
    ours = non_max_suppression(boxes, scores, 50, overlap=overlap, least_score=0.25, centred=centred)
    np.testing.assert_array_equal(ours, theirs)


def test_what_is_wrong_is_named():
    x, boxes = np.ones((2, 3), np.float32), np.zeros((1, 3, 4), np.float32)
    with pytest.raises(KernelError, match="k is 4; allowed: 0 to 3"):
        top_k(x, 4)
    with pytest.raises(KernelError, match=r"boxes is \(1, 3, 3\); allowed"):
        non_max_suppression(np.zeros((1, 3, 3), np.float32), np.zeros((1, 1, 3), np.float32), 1)
    with pytest.raises(KernelError, match=r"scores is \(1, 1, 2\); allowed: \[1, classes, 3\]"):
        non_max_suppression(boxes, np.zeros((1, 1, 2), np.float32), 1)
    with pytest.raises(KernelError, match=r"overlap is 1\.5; allowed: 0 to 1"):
        non_max_suppression(boxes, np.zeros((1, 1, 3), np.float32), 1, overlap=1.5)
