"""BF16 products: exact where the arithmetic is, within a stated bound elsewhere."""

import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators.gemm import bf16_bits, gemm_f32, pack_bf16
from tests.effort import examples
from tests.reference import naive_gemm as naive

EXAMPLES = settings(max_examples=examples(20), deadline=None, derandomize=True)
SIZES = st.integers(0, 100)
SEEDS = st.integers(0, 2**31)


@EXAMPLES
@given(SIZES, SIZES, SIZES, SEEDS)
def test_bfloat_products(m, k, n, seed):
    rng = np.random.default_rng(seed)
    a, b = (bf16_bits(rng.standard_normal(shape).astype(np.float32)) for shape in ((m, k), (k, n)))
    x, w = naive.widened(a, "bf16"), naive.widened(b, "bf16")
    got = gemm_f32(a, pack_bf16(b))
    assert np.all(np.abs(got - naive.real(x, w)) <= 2 * naive.real_bound(x, w))
    for threads in (1, 2):
        assert gemm_f32(a, pack_bf16(w), threads=threads).tobytes() == got.tobytes()


def test_an_infinity_beside_the_end_of_an_odd_row_stays_one():
    a, b = np.ones((7, 5), np.float32), np.ones((5, 3), np.float32)
    a[1, 3], a[2, 4], b[3, 2] = np.inf, -np.inf, -1
    with np.errstate(invalid="ignore"):
        expected = (a[:, :, None] * b[None]).sum(1)
    got = gemm_f32(bf16_bits(a), pack_bf16(b))
    np.testing.assert_array_equal(got, expected)


def test_rounding_equals_ml_dtypes():
    rng = np.random.default_rng(1)
    values = (rng.standard_normal(50_000) * np.exp(6 * rng.standard_normal(50_000))).astype(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, 65519.99, 65520.0, 1e-8, 2**-24, 1.5 * 2**-24], np.float32)
    values = np.concatenate([values, special])
    np.testing.assert_array_equal(bf16_bits(values), values.astype(ml_dtypes.bfloat16).view(np.uint16))
