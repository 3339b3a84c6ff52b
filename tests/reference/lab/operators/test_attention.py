"""Attention on caches of every format, and a whole decode step, against float64 definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kernels.jit import JIT_ENABLED
from engine.lab.ir.attention import CACHED
from engine.lab.operators.attention import append, attention
from engine.lab.operators.halfprec import rounded_bits
from engine.lab.ranges import KernelError
from tests.reference import naive_gemm as naive

EXAMPLES = settings(max_examples=25 if JIT_ENABLED else 4, deadline=None)


def real(stored, array):
    return array if stored == "f32" else naive.widened(array, stored)


def check(stored, tokens, past, shared, group, depth, seed=0):
    rng = np.random.default_rng(seed)
    length = past + tokens
    q = rng.standard_normal((tokens, shared * group, depth)).astype(np.float32)
    kind = np.float32 if stored == "f32" else np.uint16
    keys = np.full((shared, length + 2, depth), np.nan if stored == "f32" else 0x7FFF, kind)
    values = keys.copy()
    filled = 0
    for part in (past, tokens):
        rows = rng.standard_normal((2, part, shared, depth)).astype(np.float32)
        append(keys, rows[0], filled, stored)
        filled = append(values, rows[1], filled, stored)
    got = attention(q, keys, values, length, threads=1, stored=stored)
    exact = naive.attention(q, real(stored, keys), real(stored, values), length)
    np.testing.assert_allclose(got, exact, rtol=0, atol=(depth + length) * 2.0**-20)
    assert got.tobytes() == attention(q, keys, values, length, threads=2, stored=stored).tobytes()


@EXAMPLES
@given(
    st.sampled_from(CACHED),
    st.integers(0, 70),
    st.integers(0, 70),
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from([1, 7, 16, 17, 64, 65, 80, 128]),
    st.integers(0, 99),
)
def test_attention_equals_its_definition(stored, tokens, past, shared, group, depth, seed):
    check(stored, tokens, past, shared, group, depth, seed)


@pytest.mark.parametrize("stored", CACHED)
@pytest.mark.parametrize("tokens", [1, 20])
def test_attention_fixed_shapes(stored, tokens):
    check(stored, tokens, 9, 1, 2, 20)


def test_values_are_stored_to_the_nearest():
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [
            (rng.standard_normal(2000) * 10.0 ** rng.integers(-9, 6, 2000)).astype(np.float32),
            np.float32([0, -0.0, 65504, 65519.9, 65520, 1e38, -1e38, 6.1e-5, 6.0e-8, 2.9e-8, np.inf, -np.inf]),
        ]
    )
    for stored in ("bf16", "fp16"):
        bits = rounded_bits(x, stored)
        kept = np.zeros((1, x.size + 1, 1), np.uint16)
        assert append(kept, np.append(x, np.float32(np.nan)).reshape(-1, 1, 1), 0, stored) == x.size + 1
        np.testing.assert_array_equal(kept[0, :-1, 0], bits)
        assert np.isnan(naive.widened(kept, stored)[0, -1, 0])


def test_bad_input_is_one_sentence():
    q, cache = np.zeros((1, 1, 4), np.float32), np.zeros((1, 3, 4), np.float32)
    with pytest.raises(KernelError, match="stored is 'int8'; allowed: f32, bf16, fp16"):
        attention(q, cache, cache, 1, stored="int8")
    with pytest.raises(KernelError, match="keys has type float32; allowed: uint16"):
        attention(q, cache, cache, 1, stored="fp16")
