"""Is the map true, and may a stranger walk by it?"""

from collections import Counter
from pathlib import Path

from tests.architecture.map import TARGET, WALK, rooms, said, written
from tests.architecture.sources import PACKAGES, ROOT
from tests.each import each

FOLDERS = sorted({f.parent for package in PACKAGES for f in (ROOT / package).rglob("*.py")})
TESTS = sorted({f.parent for f in (ROOT / "tests").rglob("*.py")})
MOST = 20  # Python files side by side
LISTS = {"engine/lab/operators"}  # one file an operator


def test_the_map_is_what_the_imports_say():
    assert TARGET.read_text() == written(), "out of date: python -m tests.architecture.map"


def test_the_walk_is_short_and_visits_no_file_twice():
    assert len(WALK) <= 10
    assert max(Counter(WALK).values()) == 1
    assert all((ROOT / path).is_file() for path in WALK)


def test_every_room_and_folder_says_what_it_is():
    for folder in FOLDERS:
        assert said(folder), f"{folder.relative_to(ROOT)}/__init__.py has no docstring"
    assert len(rooms()) == len(set(rooms()))


@each("folder", FOLDERS, ids=lambda f: f.relative_to(ROOT).as_posix())
def test_a_folder_is_small_and_its_siblings_share_no_prefix(folder: Path):
    """At most twenty files; three that begin alike want a folder."""
    name = folder.relative_to(ROOT).as_posix()
    stems = [f.stem for f in folder.glob("*.py") if f.stem != "__init__"]
    assert name in LISTS or len(stems) < MOST, f"{name} holds {len(stems)} files"
    heads = Counter(stem.split("_")[0] for stem in stems if "_" in stem)
    assert name in LISTS or max(heads.values(), default=0) < 3, heads.most_common(1)


@each("folder", TESTS, ids=lambda f: f.relative_to(ROOT).as_posix())
def test_a_folder_of_tests_is_small(folder: Path):
    assert len(list(folder.glob("*.py"))) <= MOST


def test_few_files_lie_at_the_top():
    assert sum(len(list((ROOT / package).glob("*.py"))) for package in ("engine", "app")) <= 8
