"""Fused chains equal their breadth-first twins bit for bit; the Wide & Deep front equals its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators import fused
from engine.lab.operators.conv import conv, pack_conv
from engine.lab.operators.norm import batch_norm
from engine.lab.operators.pointwise import activate
from engine.lab.operators.wide_deep import NO_GAIN, gather_range, hash_ids
from engine.lab.ranges import KernelError, over_range
from tests.effort import examples
from tests.reference import naive


def _max(values):
    return values.max(0, initial=-np.inf)


def relu_pool(x, window, stride):
    """Breadth first: two passes over memory."""
    return fused.max_pool(activate(x, "relu"), window, stride)


def check_conv(seed, height, width, channels, outs, window, stride, rows=4):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, height, width, channels)).astype(np.float32)
    packed = pack_conv(rng.normal(size=(outs, channels, 3, 3)).astype(np.float32), padding=1)
    first = relu_pool(conv(x, packed), window, stride)
    for threads in (1, 2):
        deep = fused.conv_relu_pool_depth_first(x, packed, window, stride, tile_rows=rows, threads=threads)
        assert np.array_equal(deep, first)
    gain, shift = rng.normal(size=(2, channels)).astype(np.float32)
    first = relu_pool(batch_norm(x, gain, shift), window, stride)
    for threads in (1, 2):
        assert np.array_equal(fused.max_pool(x, window, stride, affine=(gain, shift), threads=threads), first)
    assert np.array_equal(
        fused.max_pool(x, window, stride), naive.pool(x, *[(n, n) for n in (window, stride, 0)], _max)
    )
    plain = relu_pool(x, window, stride)
    for threads in (1, 2):
        assert np.array_equal(fused.max_pool(x, window, stride, relu=True, threads=threads), plain)
    return x, gain, shift, first


@settings(max_examples=examples(30), deadline=None)
@given(
    seed=st.integers(0, 99),
    size=st.tuples(st.integers(0, 14), st.integers(0, 14)),
    channels=st.integers(1, 9),
    outs=st.integers(1, 40),
    window=st.integers(1, 4),
    stride=st.integers(1, 3),
    rows=st.integers(1, 6),
)
def test_depth_first_equals_breadth_first(seed, size, channels, outs, window, stride, rows):
    check_conv(seed, *size, channels, outs, window, stride, rows)


def test_depth_first_fixed_shapes():
    x, gain, shift, out = check_conv(0, 9, 8, 5, 7, 3, 2)
    hidden = np.maximum(x.astype(np.float64) * gain + shift, 0)
    assert np.allclose(out, naive.pool(hidden, (3, 3), (2, 2), (0, 0), lambda v: v.max(0)), atol=1e-6)


def check_wide_deep(seed, batch, fields, buckets, width, numerics):
    rng = np.random.default_rng(seed)
    ids = rng.integers(-(2**63), 2**63 - 1, (batch, fields))
    tables = rng.normal(size=(fields, buckets, width)).astype(np.float32)
    wide, numeric = (rng.normal(size=s).astype(np.float32) for s in ((fields, buckets), (batch, numerics)))
    bucket = hash_ids(ids, buckets)
    assert np.array_equal(bucket, naive.hash_ids(ids, buckets))
    assert np.array_equal(hash_ids(ids.view(np.uint64), buckets), bucket)
    rows = [tables[f, bucket[:, f]] for f in range(fields)]
    want = sum((wide[f, bucket[:, f]] for f in range(fields)), np.zeros(batch))
    logits = []
    for n in (1, 2):
        deep, logit = np.empty((batch, fields * width + numerics), np.float32), np.empty(batch, np.float32)
        given = (ids.view(np.uint64), numeric, NO_GAIN, np.float32(0), tables, wide, deep, logit)
        over_range(gather_range, batch, *given, threads=n, grain=32)
        assert np.array_equal(deep, np.concatenate([*rows, numeric], axis=1))
        assert np.allclose(logit, want, atol=1e-5)
        logits.append(logit)
    assert np.array_equal(*logits)


@settings(max_examples=examples(20), deadline=None)
@given(
    seed=st.integers(0, 99),
    batch=st.integers(0, 70),
    fields=st.integers(1, 9),
    buckets=st.integers(1, 50),
    width=st.integers(0, 40),
    numerics=st.integers(0, 13),
)
def test_wide_deep_front_equals_definition(seed, batch, fields, buckets, width, numerics):
    check_wide_deep(seed, batch, fields, buckets, width, numerics)


def test_wide_deep_front_fixed_shapes():
    check_wide_deep(0, 5, 3, 11, 4, 2)


def test_hash_spreads_neighbouring_ids():
    counts = np.bincount(hash_ids(np.arange(64_000).reshape(-1, 1), 64)[:, 0], minlength=64)
    assert abs(counts - 1000).max() < 6 * np.sqrt(1000)  # six standard deviations of a uniform hash


def test_bad_input_is_one_sentence():
    packed = pack_conv(np.ones((2, 3, 3, 3), np.float32))
    with pytest.raises(KernelError, match="x has 2 channels; the weights take 3"):
        fused.conv_relu_pool_depth_first(np.zeros((1, 5, 5, 2), np.float32), packed, 2, 2)
