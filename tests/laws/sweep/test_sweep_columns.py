"""A table filled a column at a time holds the bits of one filled entry by entry; what is no arithmetic is refused."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from engine.devices.common.column import (
    Column,
    NotAlike,
    as_doubles,
    each,
    exceeds,
    larger,
    largest,
    numbers,
    one_by_one,
    rows_of,
    smaller,
)
from engine.resolve.choices import default_scenario
from engine.sweep import price, space_of
from engine.sweep.pricing.blocks import Programs
from engine.sweep.pricing.entries import TableMaker
from engine.sweep.sensitivity import knobs_of
from tests.laws.sweep.test_sweep import PAIRS

STEPS = 5


@pytest.mark.parametrize(("system", "workload"), PAIRS)
def test_columns_change_no_bit(system: str, workload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = knobs_of(default_scenario(system, workload))
    draw = random.Random(f"{system} {workload}")
    filled = []
    by_column = TableMaker._columns

    def spied(self, piece, order):
        table = by_column(self, piece, order)
        filled.append(table is not None)
        return table

    for _ in range(2):
        paths = draw.sample(sorted(known), 2)
        axes = {path: [known[path] * (1 + 0.3 * i) for i in range(STEPS)] for path in paths}
        space = space_of(
            {
                "scenario": {"system": system, "workload": workload},
                "axes": axes | {"costs.years": [1, 2, 3, 30], "costs.pue": [1.1, 1.2, 1.3]},
                "constraints": [],
            }
        )
        monkeypatch.setattr(TableMaker, "_columns", spied)
        columns = price(space)
        monkeypatch.setattr(TableMaker, "_columns", lambda *_: None)
        entries = price(space)
        for a, b in zip(columns, entries, strict=True):
            assert a.tobytes() == b.tobytes()
        assert entries[1].any()  # thirty years are refused
        assert not entries[1].all()
    assert any(filled)


def test_a_column_is_its_values_one_by_one() -> None:
    draw = np.random.default_rng(3)
    a, b = draw.lognormal(0, 30, 200), draw.lognormal(0, 30, 200)

    def of(x, y):
        return (
            (2 * x + y / 3.0) / (y - x * 1e-7) - (-x) * 0.1,
            1 / x + (y - 4),
            max(x, -1.0),
            7,
            math.ceil(x) * np.float64(3.0),
            larger(x, y),
            smaller(x, 2.0),
            largest((x, 1.0, y)),
            exceeds(x, y),
            np.ceil(y),
            one_by_one(math.log2, x),
            one_by_one(math.hypot, x, y),
            (np.array([1.0, 2.0]) * x).sum(),
            *each(lambda one: np.array([one, 0.0]), y),
        )

    rows = rows_of(of(Column(a), Column(b)), (200,))
    assert rows.tolist() == [[float(v) for v in of(x, y)] for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_columns_of_two_axes_spread_over_their_product() -> None:
    a, b = Column(np.reshape([1.0, 2.0, 3.0], (3, 1))), Column(np.reshape([5.0, 7.0], (1, 2)))
    assert rows_of([larger(a * b, 10.0), a], (3, 2))[..., 0].tolist() == [[10.0, 10.0], [10.0, 14.0], [15.0, 21.0]]
    with pytest.raises(NotAlike) as found:
        assert a * b > 10.0
    assert found.value.axes == (0, 1)
    with pytest.raises(NotAlike) as found:
        assert b > 6.0
    assert found.value.axes == (1,)
    held = numbers((2,))
    assert as_doubles(held).dtype == np.float64
    held[1] += b
    assert as_doubles(held)[1].values.tolist() == [[5.0, 7.0]]


@pytest.mark.parametrize(
    "work",
    [
        float,
        int,
        str,
        hash,
        math.sqrt,
        abs,
        round,
        math.floor,
        lambda c: c**2,
        lambda c: c // 2,
        lambda c: c % 2,
        lambda c: 1 / c,
        lambda c: c < 1.0,
        lambda c: min(c, 1.0),
        bool,
        lambda c: c == 1.0,
        lambda c: c + True,
        lambda c: c * (1 << 60),
        lambda c: c + "1",
        lambda c: {c: 1},
    ],
)
def test_what_is_no_arithmetic_alike_for_all_is_refused(work) -> None:
    with pytest.raises(NotAlike):
        work(Column([0.0, 1.0, 2.0]))


def test_a_constant_that_the_compiler_does_not_read_parts_no_family() -> None:
    base = {"scenario": {"system": "fb-node", "workload": "dlrm-less-complex"}, "constraints": []}
    blocks = {
        path: list(Programs(space_of(base | {"axes": {"batch": [8, 16], path: values}}), None, None).blocks())
        for path, values in (("model.kernel_start", [1e-6, 2e-6]), ("model.user_share", [0.25, 0.5]))
    }
    assert {path: len(found) for path, found in blocks.items()} == {"model.kernel_start": 1, "model.user_share": 2}
