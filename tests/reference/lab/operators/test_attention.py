"""Attention on a cache, a token and a prompt, against its float64 definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators.attention import attention
from engine.lab.ranges import KernelError
from tests.effort import examples
from tests.reference import naive_gemm as naive

EXAMPLES = settings(max_examples=examples(25), deadline=None)


def check(tokens, past, shared, group, depth, seed=0):
    rng = np.random.default_rng(seed)
    length = past + tokens
    q = rng.standard_normal((tokens, shared * group, depth)).astype(np.float32)
    keys, values = np.full((2, shared, length + 2, depth), np.nan, np.float32)  # what lies beyond is never read
    keys[:, :length], values[:, :length] = rng.standard_normal((2, shared, length, depth)).astype(np.float32)
    got = attention(q, keys, values, length, threads=1)
    np.testing.assert_allclose(got, naive.attention(q, keys, values, length), rtol=0, atol=(depth + length) * 2.0**-20)
    assert got.tobytes() == attention(q, keys, values, length, threads=2).tobytes()


@EXAMPLES
@given(
    st.integers(0, 70),
    st.integers(0, 70),
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from([1, 7, 16, 17, 64, 65, 80, 128]),
    st.integers(0, 99),
)
def test_attention_equals_its_definition(tokens, past, shared, group, depth, seed):
    check(tokens, past, shared, group, depth, seed)


@pytest.mark.parametrize("tokens", [1, 20])
def test_attention_fixed_shapes(tokens):
    check(tokens, 9, 1, 2, 20)


def test_bad_input_is_one_sentence():
    q, cache = np.zeros((1, 1, 4), np.float32), np.zeros((1, 3, 4), np.float32)
    with pytest.raises(KernelError, match="length is 4; allowed: 1 to 3"):
        attention(q, cache, cache, 4)
    with pytest.raises(KernelError, match="keys has type float64; allowed: float32"):
        attention(q, cache.astype(float), cache, 1)
