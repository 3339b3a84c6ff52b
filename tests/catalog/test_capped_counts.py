"""Counts that stop growing at a window: the same in Python as in the tables that compiled models read."""

import math
from dataclasses import replace

import pytest

from engine.devices.common.counts import at
from engine.devices.common.counts import seen as compiled
from model_zoo import table as T
from model_zoo.catalog import default_zoo
from model_zoo.ops import Dim, Op, Phase, Sum, dim, seen
from tests.each import each
from tests.effort import share

ZOO = default_zoo()
NAMES = ("g", "m", "n", "k", "flops", "weights", "reads", "writes", "state_reads", "state_writes")
COLUMNS = (T.G, T.M, T.N, T.K, T.FLOPS, T.WEIGHTS, T.READS, T.WRITES, T.STATE_READS, T.STATE_WRITES)


def _windowed(op: Op, cap: float) -> Op:
    capped = {n: replace(getattr(op, n), cap=cap) for n in NAMES if getattr(op, n).c}
    return replace(op, **capped)


@each("id", ZOO.ids())
def test_a_table_counts_what_the_ops_count(id: str) -> None:
    """To rounding, whatever the window, at contexts below, at and above it; of an ordinary run every fifth op."""
    for phase in ZOO.graph(id).phases:
        for cap in (math.inf, 128.0):
            ops = tuple(_windowed(op, cap) for op in phase.ops)
            table = T.lower(Phase(phase.name, ops))
            for where in (
                (1.0, 1.0, 1.0, 0.0),
                (3.0, 7.0, 127.0, 0.0),
                (3.0, 7.0, 4096.0, 0.0),
                (3.0, 1.0, 120.5, 40.0),
            ):
                for j, op in share(list(enumerate(ops)), len(ops)):
                    back = compiled(table, j, *where[2:])
                    for name, column in zip(NAMES, COLUMNS, strict=True):
                        counted = at(table, j, column, *where[:2], back)
                        assert math.isclose(counted, getattr(op, name).at(*where), rel_tol=1e-12), (name, op)


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("cap", [1, 5, 128])
def test_a_span_of_contexts_is_the_mean_of_what_each_token_sees(cap: int, anew: bool) -> None:
    for first in (1, 3, 5, 6, 100, 130):
        for many in (1, 2, 7, 64, 300):
            window = [(c - 1) % cap + 1 if anew else min(c, cap) for c in range(first, first + many)]
            mean = first + (many - 1) / 2
            assert seen(mean, many, cap, anew) == pytest.approx(sum(window) / many, rel=1e-12)
            table = T.lower(Phase("decode", (Op("scores", "MatMul", "attention", n=dim(1, "c", cap, anew)),)))
            assert compiled(table, 0, mean, float(many)) == pytest.approx(sum(window) / many, rel=1e-12)


def test_a_capped_count_stops_growing_and_a_product_keeps_the_window() -> None:
    seen = dim(8, "bs") * dim(2, "c", cap=128)
    assert [seen.at(2, 3, c) for c in (1, 127, 128, 10_000)] == [96, 96 * 127, 96 * 128, 96 * 128]
    assert (seen * 0.5).cap == 128
    both = Sum((dim(10, "bc"), dim(5, "bc", cap=4), dim(7, "b")))
    assert both.c
    assert both.at(2, 1, 100) == 2 * (1000 + 20 + 7)
    assert not Sum((dim(7, "b"),)).c


def test_an_op_has_one_window() -> None:
    op = Op("scores", "MatMul", "attention", n=dim(1, "c", cap=4), k=Dim(8), reads=dim(8, "bc", cap=5))
    with pytest.raises(ValueError, match="one window"):
        _ = op.cap
