"""Matrix products equal their naive twins over drawn shapes, on every thread count, and onnxruntime's."""

from unittest import mock

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from engine.lab.operators import gemm
from engine.lab.operators.binary import binary_counts, pack_binary
from engine.lab.operators.gemm import bf16_bits, gemm_f32, gemm_s32, gemm_u8, pack_bf16, pack_f32, pack_s8
from engine.lab.ranges import KernelError
from tests.effort import examples
from tests.reference import naive_gemm as naive

EXAMPLES = settings(max_examples=examples(25), deadline=None, derandomize=True)
SIZES = st.one_of(st.sampled_from([0, 1, 5, 6, 7, 63, 64, 65]), st.integers(0, 140))
SEEDS = st.integers(0, 2**31)


def unaligned(array):
    """A contiguous copy whose data starts one element past a 64-byte boundary."""
    raw = np.empty(array.nbytes + 128, np.uint8)
    skip = -raw.ctypes.data % 64 + array.itemsize
    copy = raw[skip : skip + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@EXAMPLES
@given(SIZES, SIZES, SIZES, SEEDS)
def test_integer_products_are_exact(m, k, n, seed):
    rng = np.random.default_rng(seed)
    a = unaligned(rng.integers(0, 256, (m, k)).astype(np.uint8))
    b = rng.integers(-128, 128, (k, n)).astype(np.int8)
    bias = rng.integers(-(10**6), 10**6, n).astype(np.int32)
    zero = int(rng.integers(0, 256))
    packed = pack_s8(b)
    expected = naive.s32(a, b, zero, bias)
    scale = (rng.random(n) * 1e-3).astype(np.float32)
    for threads in (1, 2):
        np.testing.assert_array_equal(gemm_s32(a, packed, zero, bias, threads=threads), expected)
        for relu in (False, True):
            got = gemm_u8(a, packed, scale, zero, bias, 7, relu, threads=threads)
            np.testing.assert_array_equal(got, naive.requantised(expected, scale, 7, relu))


@EXAMPLES
@given(SIZES, SIZES, SIZES, SEEDS)
def test_real_products_stay_within_the_bound_and_ignore_threads(m, k, n, seed):
    rng = np.random.default_rng(seed)
    a = unaligned(rng.standard_normal((m, k)).astype(np.float32))
    b = rng.standard_normal((k, n)).astype(np.float32)
    bias = rng.standard_normal(n).astype(np.float32)
    packed = pack_f32(b)
    for relu in (False, True):
        got = gemm_f32(a, packed, bias, relu, threads=1)
        assert np.all(np.abs(got - naive.real(a, b, bias, relu)) <= naive.real_bound(a, b, bias))
        assert got.tobytes() == gemm_f32(a, packed, bias, relu, threads=2).tobytes()


@EXAMPLES
@given(st.integers(1, 30), st.integers(1, 70), st.integers(1, 140), st.integers(1, 9), SEEDS)
def test_the_way_a_product_is_cut_changes_no_bit(m, k, n, depth, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 256, (m, k)).astype(np.uint8), rng.integers(-128, 128, (k, n)).astype(np.int8)
    x, w = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    patterns = bf16_bits(x)
    ints, reals, wide = pack_s8(b), pack_f32(w), pack_bf16(w)
    calls = [
        lambda: gemm_s32(a, ints, 3),
        lambda: gemm_u8(a, ints, np.full(n, 1e-3, np.float32)),
        lambda: gemm_f32(x, reals, relu=True),
        lambda: gemm_f32(patterns, wide),
    ]
    whole = [call() for call in calls]
    with mock.patch.multiple(gemm, DEPTH=depth, ROW_BLOCK_BYTES=1):
        for call, expected in zip(calls, whole, strict=True):
            assert call().tobytes() == expected.tobytes()


@pytest.mark.parametrize("stride", [4096, 8192])
def test_rows_a_page_apart(stride):
    rng = np.random.default_rng(stride)
    a, b = rng.integers(0, 256, (13, stride)).astype(np.uint8), rng.integers(-128, 128, (stride, 3)).astype(np.int8)
    np.testing.assert_array_equal(gemm_s32(a, pack_s8(b), 9), naive.s32(a, b, 9))
    x, w = a.view(np.float32)[:, : stride // 4], np.ones((stride // 4, 3), np.float32)
    x[...] = rng.standard_normal(x.shape)
    assert np.all(np.abs(gemm_f32(x, pack_f32(w)) - naive.real(x, w)) <= naive.real_bound(x, w))


@EXAMPLES
@given(st.integers(0, 9), st.integers(0, 150), st.integers(0, 100), SEEDS)
def test_binary_layers_are_exact(batch, size, neurons, seed):
    rng = np.random.default_rng(seed)
    x, w = (unaligned(rng.integers(0, 256, (rows, size)).astype(np.uint8)) for rows in (batch, neurons))
    packed = pack_binary(w)
    for threads in (1, 2):
        np.testing.assert_array_equal(binary_counts(x, packed, threads=threads), naive.binary_counts(x, w))


def _session(nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(("m", "k", "n"), [(3, 845, 65), (64, 256, 2), (37, 64, 128)])
def test_onnxruntime_agrees_on_reals(m, k, n):
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    session = _session(
        [helper.make_node("MatMul", ["a", "b"], ["y"])],
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [m, k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [m, n])],
        {"b": b},
    )
    theirs = session.run(None, {"a": a})[0].astype(np.float64)
    both = 2 * naive.real_bound(a, b)  # each side may be off by one bound
    assert np.all(np.abs(gemm_f32(a, pack_f32(b)) - theirs) <= both)


@pytest.mark.parametrize(("m", "k", "n"), [(3, 845, 65), (64, 256, 2), (37, 64, 128)])
def test_onnxruntime_agrees_on_integers(m, k, n):
    rng = np.random.default_rng(m)
    a, b = rng.integers(0, 256, (m, k)).astype(np.uint8), rng.integers(-64, 64, (k, n)).astype(np.int8)
    session = _session(
        [helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"])],
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [m, k])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [m, n])],
        {"b": b, "z": np.array(9, np.uint8)},
    )
    np.testing.assert_array_equal(gemm_s32(a, pack_s8(b), 9), session.run(None, {"a": a})[0])


@pytest.mark.parametrize(("m", "k", "n"), [(3, 84, 65), (64, 256, 33)])
def test_onnxruntime_agrees_on_requantised_bytes(m, k, n):
    rng = np.random.default_rng(n)
    a, b = rng.integers(0, 256, (m, k)).astype(np.uint8), rng.integers(-64, 64, (k, n)).astype(np.int8)
    scales = {"sa": np.float32(0.02), "sb": np.float32(0.01), "sy": np.float32(0.05)}
    zeros = {"za": np.uint8(5), "zb": np.int8(0), "zy": np.uint8(100)}
    session = _session(
        [helper.make_node("QLinearMatMul", ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"], ["y"])],
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [m, k])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [m, n])],
        {"b": b, **{key: np.asarray(v) for key, v in (scales | zeros).items()}},
    )
    scale = np.full(n, scales["sa"] * scales["sb"] / scales["sy"], np.float32)
    got = gemm_u8(a, pack_s8(b), scale, 5, zero_out=100)
    difference = np.abs(got.astype(int) - session.run(None, {"a": a})[0])
    assert difference.max() <= 1  # the library folds the three scales in another order: a tie may fall either way
    assert np.mean(difference != 0) < 0.01


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gemm_s32(np.zeros((2, 3), np.int8), pack_s8(np.zeros((3, 1), np.int8))), "a has type int8"),
        (lambda: gemm_s32(np.zeros((2, 4), np.uint8), pack_s8(np.zeros((3, 1), np.int8))), "a has 4 columns"),
        (lambda: gemm_f32(np.zeros((2, 6), np.float32)[:, ::2], pack_f32(np.zeros((3, 1), np.float32))), "contiguous"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(KernelError, match=words):
        call()
