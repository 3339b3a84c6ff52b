"""The tests themselves: rows of data are one test, and one that runs rows fails with every row that does."""

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from tests import green
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


FILES = {
    "engine/__init__.py": '_PUBLIC = {"evaluate": "engine.evaluate"}\n',
    "engine/evaluate.py": "def evaluate():\n    from engine.physics import heat\n",
    "engine/physics.py": 'FAMILIES = {"gpu": "engine.gpu"}\nheat = 1.0\n',
    "engine/gpu.py": 'import_module(f"engine.published.{name}")\n',
    "engine/published/paper.py": "seen = 1\n",
    "engine/aside.py": "x = 1\n",
    "engine/data.yaml": "a: 1\n",
    "docs/NOTES.md": "Notes\n",
    "tests/laws/conftest.py": "first = 1\n",
    "tests/laws/test_near.py": "from engine import evaluate\n",
    "tests/laws/test_far.py": "import subprocess\n",
}


def test_a_test_that_passed_is_left_out_until_something_it_follows_from_changes(tmp_path: Path, monkeypatch) -> None:
    """What it imports, wherever and by whatever name, or any data; of one that starts processes, any file at all."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(green, "ROOT", tmp_path)
    monkeypatch.setattr(green, "RECORD", tmp_path / "build" / "green.json")
    memories = [memory for memory in vars(green).values() if hasattr(memory, "cache_clear")]
    near, far, other = "tests/laws/test_near.py::test_a[1]", "tests/laws/test_far.py::test_b", "tests/gone.py::test_c"

    def left_out() -> set[str]:
        for memory in memories:
            memory.cache_clear()
        return green.green()

    try:
        assert left_out() == set()
        green.keep({near: True, far: False})
        assert left_out() == {near}
        for name, text in FILES.items():
            green.keep({near: True, far: True})
            assert left_out() == {near, far}
            (tmp_path / name).write_text(text + "# changed\n")
            unmoved = name in ("engine/aside.py", "tests/laws/test_far.py")
            assert left_out() == ({near} if unmoved else set()), name
        green.keep({near: False, far: True})
        assert left_out() == {far}
        green.RECORD.write_text(green.RECORD.read_text().replace(far, other))
        assert left_out() == set()
    finally:
        for memory in memories:
            memory.cache_clear()
