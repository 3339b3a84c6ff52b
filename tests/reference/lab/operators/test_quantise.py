"""Quantise, bit for bit against the slow twin and onnxruntime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators.pointwise import quantise
from engine.lab.ranges import KernelError
from tests.effort import examples
from tests.reference import naive, onnx_oracle

TYPES = (np.int8, np.uint8)


def check(seed, shape, dtype):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=shape) * 3).astype(np.float32)
    scale, zero = np.float32(rng.uniform(0.01, 0.1)), rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    codes = quantise(x, scale, zero, dtype=dtype)
    assert codes.dtype == dtype
    assert np.array_equal(codes, naive.quantise(x, scale, zero, dtype))


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 999),
    shape=st.lists(st.integers(0, 17), min_size=1, max_size=3),
    dtype=st.sampled_from(TYPES),
)
def test_codes_equal_twin(seed, shape, dtype):
    check(seed, tuple(shape), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (2, 3, 16)])
def test_codes_fixed_shapes(shape, dtype):
    check(1, shape, dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_codes_equal_onnxruntime(dtype):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(size=4000) * 4, np.arange(-40, 40) * 0.125, [1e30, -1e30]]).astype(np.float32)
    scale, zero = np.float32(0.25), rng.integers(0, 100).astype(dtype)  # halves of the scale are exact: ties
    theirs = onnx_oracle.run(
        "QuantizeLinear",
        {"x": x, "s": np.array(scale), "z": np.array(zero)},
        output=onnx_oracle.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)),
    )
    codes = quantise(x, scale, zero, dtype=dtype)
    assert np.array_equal(codes, theirs)


def test_codes_are_the_same_for_any_threads():
    x = np.random.default_rng(4).normal(size=(99, 1000)).astype(np.float32)
    assert np.array_equal(quantise(x, 0.02, threads=1), quantise(x, 0.02, threads=2))


def test_bad_input_is_one_sentence():
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(KernelError, match="scale must be finite and above 0"):
        quantise(x, 0.0)
    with pytest.raises(KernelError, match="zero must fit int8"):
        quantise(x, 1.0, 200)
