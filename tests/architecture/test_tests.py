"""The tests themselves: rows of data are one test, and one that runs rows fails with every row that does."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.each import each

ROOT = Path(__file__).parents[2]

MOST = 48
"""Tests that one function may be: beyond, its parameters are rows of data and `tests.each` takes them."""


def test_no_function_is_more_tests_than_a_reader_would_read(request: pytest.FixtureRequest) -> None:
    """Of those collected in this run."""
    tests = Counter(item.nodeid.split("[", maxsplit=1)[0] for item in request.session.items)
    assert not {name: count for name, count in tests.items() if count > MOST}


def test_what_make_check_leaves_out_are_tests() -> None:
    """A test that is renamed would be run by it again, unseen; one that is gone would stay in the list."""
    names = (ROOT / "tests" / "slow-tests.txt").read_text().splitlines()
    assert names == sorted(set(names))
    sources = {name.split("::")[0] for name in names}
    tests = {
        f"{file}::{test}"
        for file in sources
        for test in re.findall(r"^def (test_\w+)", (ROOT / file).read_text(), re.M)
    }
    assert set(names) <= tests | sources, "tests/slow-tests.txt"


def test_every_row_that_fails_is_said_and_the_others_run() -> None:
    seen: list[tuple[int, str]] = []

    @each(("size", "name"), [(1, "a"), pytest.param(2, "b"), (3, "c")])
    def test(size: int, name: str) -> None:
        seen.append((size, name))
        if size == 1:
            raise KeyError(name)
        if size == 2:
            pytest.fail("as where nothing was raised that should be")

    with pytest.raises(AssertionError, match=r"(?s)2 of 3 rows fail.*1, a: KeyError.*2, b: Failed") as caught:
        test()
    assert isinstance(caught.value.__cause__, KeyError)
    assert seen == [(1, "a"), (2, "b"), (3, "c")]


def test_no_rows_are_no_test_and_fixtures_stay_asked_for() -> None:
    @each("row", [])
    def empty(row: int) -> None: ...

    with pytest.raises(AssertionError, match="no row"):
        empty()

    @each("row", [1, 2])
    def given(row: int, tmp_path: object) -> None:
        assert tmp_path == "here"

    assert list(inspect.signature(given).parameters) == ["tmp_path"]
    given(tmp_path="here")
