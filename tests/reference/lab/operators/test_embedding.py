"""Embedding bags against their slow twin, in every format, on any shape, thread count and prefetch distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.lab.operators.embedding import RowTable, embedding_bag, pack_rows
from engine.lab.ranges import KernelError
from tests.each import each
from tests.effort import examples
from tests.reference import naive


def unpack_rows(table: RowTable) -> np.ndarray:
    """The float32 values a table stands for, ``[rows, width]``."""
    if table.format == "fp32":
        return table.data
    if table.format == "fp16":
        return table.data.view(np.float16).astype(np.float32)
    if table.format == "int8":
        tail = np.ascontiguousarray(table.data[:, -8:]).view(np.float32)
        return table.data[:, :-8] * tail[:, :1] + tail[:, 1:]
    tail = np.ascontiguousarray(table.data[:, -4:]).view(np.float16).astype(np.float32)
    codes = np.stack([table.data[:, :-4] & 15, table.data[:, :-4] >> 4], axis=2).reshape(table.rows, -1)
    return (codes * tail[:, :1] + tail[:, 1:])[:, : table.width]


FORMATS = ("fp32", "fp16", "int8", "int4")
ERROR = 4e-7
"""Bound: fp32 accumulation of at most 12 terms, relative to the sum of magnitudes."""


def case(rng, rows, width, bags, longest):
    values = rng.normal(size=(rows, width)).astype(np.float32)
    lengths = rng.integers(0, longest + 1, bags)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indices = rng.integers(0, rows, offsets[-1])
    return values, indices, offsets


def check(fmt, seed, width, bags, distance=96):
    values, indices, offsets = case(np.random.default_rng(seed), 23, width, bags, 12)
    table = pack_rows(values, fmt)
    rows = unpack_rows(table)
    out = embedding_bag(table, indices, offsets, distance=distance)
    scale = naive.embedding_bag(np.abs(rows) + np.abs(rows).max(initial=0), indices, offsets)
    exact = naive.embedding_bag(rows, indices, offsets)
    assert out.shape == exact.shape
    assert np.all(np.abs(out - exact) <= ERROR * scale * (8 if fmt.startswith("int") else 1))
    assert np.allclose(embedding_bag(table, indices), rows[indices], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fmt", FORMATS)
@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), width=st.integers(0, 300), bags=st.integers(0, 9), distance=st.integers(0, 130))
def test_bag_equals_twin(fmt, seed, width, bags, distance):
    check(fmt, seed, width, bags, distance)


@each("fmt", FORMATS)
@each("width", [0, 1, 7, 64, 129])
def test_bag_fixed_shapes(fmt, width):
    check(fmt, width, width, 5)


@pytest.mark.parametrize("fmt", FORMATS)
def test_bag_is_the_same_for_any_threads(fmt):
    values, indices, offsets = case(np.random.default_rng(1), 500, 77, 101, 20)
    table = pack_rows(values, fmt)
    one, two = (embedding_bag(table, indices, offsets, threads=n) for n in (1, 2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(("fmt", "levels"), [("int8", 255), ("int4", 15)])
def test_row_codes_err_by_half_a_step(fmt, levels):
    values = np.random.default_rng(2).normal(size=(40, 33)).astype(np.float32)
    step = (values.max(1) - values.min(1)) / levels
    allowed = (
        0.5 * step + (2e-3 if fmt == "int4" else 1e-6) * np.abs(values).max()
    )  # int4 stores scale and bias in fp16
    allowed += 0 if fmt == "int8" else levels * step * 2.0**-11
    assert np.all(np.abs(unpack_rows(pack_rows(values, fmt)) - values) <= allowed[:, None])


def test_fp16_table_is_numpy_float16():
    values = np.random.default_rng(3).normal(size=(9, 21)).astype(np.float32) * 1e-6
    values[0, :4] = [np.inf, -np.inf, 65504, 1e-8]
    assert np.array_equal(unpack_rows(pack_rows(values, "fp16")), values.astype(np.float16).astype(np.float32))
    ids = np.arange(9)
    assert np.array_equal(embedding_bag(pack_rows(values, "fp16"), ids), values.astype(np.float16).astype(np.float32))


def test_bad_input_is_one_sentence():
    table = pack_rows(np.ones((4, 3), np.float32), "fp32")
    ids, offsets = np.array([0, 4]), np.array([0, 2])
    with pytest.raises(KernelError, match="indices has 1 values outside the table; allowed: 0 to 3"):
        embedding_bag(table, ids, offsets)
    with pytest.raises(KernelError, match="indices has 1 values outside"):
        embedding_bag(table, np.array([-1]))
    with pytest.raises(KernelError, match="offsets must rise from 0 to 2"):
        embedding_bag(table, np.array([0, 3]), np.array([0, 1]))
    with pytest.raises(KernelError, match="data has rows of 3; int8 x 3 needs 11"):
        RowTable("int8", 3, np.zeros((2, 3), np.uint8))
