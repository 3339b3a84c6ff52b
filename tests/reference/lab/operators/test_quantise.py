"""Quantise, bit for bit against the slow twin and onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators.quantise import quantise
from engine.lab.ranges import KernelError
from tests.effort import examples
from tests.reference import naive, onnx_oracle

TYPES = (np.int8, np.uint8)


def check(seed, shape, dtype, per_channel):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=shape) * 3).astype(np.float32)
    size = shape[-1] if per_channel else None
    scale = np.float32(rng.uniform(0.01, 0.1, size))
    zero = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, size)
    codes = quantise(x, scale, zero, dtype=dtype)
    assert codes.dtype == dtype
    assert np.array_equal(codes, naive.quantise(x, scale, zero, dtype))


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 999),
    shape=st.lists(st.integers(0, 17), min_size=1, max_size=3),
    dtype=st.sampled_from(TYPES),
    per_channel=st.booleans(),
)
def test_codes_equal_twin(seed, shape, dtype, per_channel):
    check(seed, tuple(shape), dtype, per_channel)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (2, 3, 16)])
def test_codes_fixed_shapes(shape, dtype):
    check(0, shape, dtype, True)
    check(1, shape, dtype, False)


@pytest.mark.parametrize("dtype", TYPES)
def test_codes_equal_onnxruntime(dtype):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(size=4000) * 4, np.arange(-40, 40) * 0.125, [1e30, -1e30]]).astype(np.float32)
    x = x[: x.size // 6 * 6].reshape(-1, 6)
    scale, zero = np.float32(rng.uniform(0.01, 0.25, 6)), rng.integers(0, 100, 6).astype(dtype)
    scale[0] = 0.25  # halves of this scale are exact in float32: ties
    theirs = onnx_oracle.run(
        "QuantizeLinear",
        {"x": x, "s": scale, "z": zero},
        output=onnx_oracle.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)),
        axis=1,
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
    with pytest.raises(KernelError, match="scale has 2 values; allowed: 1 or 3"):
        quantise(x, np.ones(2, np.float32))
