"""Compiled code on disk: each caller's own, no older than its sources, and made anew where it is damaged."""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.kernels import jit
from engine.kernels.jit import CACHE_DIR, JIT_ENABLED, _cache_dir, _trim, event, for_points, inner, kernel

FACTORY = """
from engine.kernels.jit import inner, kernel


def make(k):
    def rows(lo, hi, x):
        total = 0.0
        for i in range(lo, hi):
            if x[i] > 0:
                for j in range(int(x[i]) % 7):
                    total += x[i] ** (j % (k + 2)) + k * 1000
            elif x[i] < -3:
                total -= x[i] * x[(i * 3) % hi] / k
            else:
                total += x[(i + k) % hi]
        return total

    rows.__qualname__ = f"rows_{k}"
    return inner(rows)


first, second = make(1), make(2)


@kernel
def one(lo, hi, x):
    return first(lo, hi, x) + first(lo + 1, hi, x) + first(lo, hi - 1, x)


@kernel
def two(lo, hi, x):
    return second(lo, hi, x) + second(lo + 1, hi, x) + second(lo, hi - 1, x)
"""
TOLD = """
from engine.kernels.jit import kernel


@kernel
def checked(x):
    if x < 0.0:
        raise ValueError("negative", x)
    return x


@kernel
def third(x):
    return checked(x) + 1.0


@kernel
def fourth(x):
    return checked(x) + 2.0
"""
CALL = """
import sys
from collections import defaultdict
import numpy as np
import factory
import told
for name in sys.argv[1:]:
    if hasattr(factory, name):
        print(float(getattr(factory, name)(0, 100, np.linspace(-10, 40, 100))))
        continue
    print(getattr(told, name)(2.0))
    try:
        getattr(told, name)(-1.5)
    except ValueError as error:
        print(*error.args)
"""


@pytest.mark.skipif(CACHE_DIR is None or not JIT_ENABLED, reason="nothing compiled is cached here")
def test_what_two_processes_cached_a_third_reads_together(tmp_path):
    """Each compiles one body of a factory, and one caller of a function that raises; a third gets all of both."""
    (tmp_path / "factory.py").write_text(FACTORY)
    (tmp_path / "told.py").write_text(TOLD)
    root = Path(__file__).resolve().parents[3]
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{root}{os.pathsep}{tmp_path}"}

    def values(*names):
        return subprocess.check_output([sys.executable, "-c", CALL, *names], env=env, text=True).splitlines()

    one, *third = values("one", "third")
    two, *fourth = values("two", "fourth")
    assert one != two
    assert (third, fourth) == (["3.0", "negative -1.5"], ["4.0", "negative -1.5"])
    assert values("two", "one", "fourth", "third") == [two, one, *fourth, *third]


LEAF = "SCALE = {}\n"
TOPS = {
    "direct": "from engine.leaf import SCALE",
    "dotted": "import engine.middle\n\nSCALE = engine.middle.SCALE",
}
TOP = """
from engine.kernels.jit import kernel
{}


@kernel
def scaled(x):
    return x * SCALE
"""
SCALED = """
import sys
from collections import defaultdict
from importlib import import_module
all = [import_module(f"engine.{name}").scaled for name in sys.argv[1:]]
(value,) = {scaled(2.0) for scaled in all}
print(value, sum(sum(scaled.dispatcher.stats.cache_hits.values()) for scaled in all))
"""


@pytest.mark.skipif(CACHE_DIR is None or not JIT_ENABLED, reason="nothing compiled is cached here")
def test_a_damaged_cache_heals_and_an_edit_compiles_anew_what_imports_it_and_nothing_else(tmp_path):
    """A project of three files around our decorator, each time in a fresh process."""
    source = Path(__file__).resolve().parents[3] / "engine" / "kernels"
    package = tmp_path / "engine"
    (package / "kernels").mkdir(parents=True)
    for name in ("__init__.py", "allowance.py", "jit.py", "sources.py"):
        (package / "kernels" / name).write_bytes((source / name).read_bytes())
    files = {"__init__": "", "leaf": LEAF.format(3.0), "middle": "from engine.leaf import SCALE\n", "aside": ""}
    for name, text in (files | {top: TOP.format(line) for top, line in TOPS.items()}).items():
        (package / f"{name}.py").write_text(text)
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}

    def answer():
        """What the compiled functions answer, and how many came from disk."""
        said = subprocess.check_output([sys.executable, "-c", SCALED, *TOPS], env=env, cwd=tmp_path, text=True)
        value, hits = said.split()
        return float(value), int(hits)

    assert answer() == (6.0, 0)
    for top, suffix in zip(TOPS, ("nbi", "nbc"), strict=True):
        (file,) = (tmp_path / "cache").rglob(f"{top}.*.{suffix}")
        file.write_bytes(b"")
    assert answer() == (6.0, 0), "emptied, as by a power cut"
    (package / "aside.py").write_text("ANYTHING = 1\n")
    assert answer() == (6.0, 2), "healed, and a file that no kernel imports was edited"
    (package / "leaf.py").write_text(LEAF.format(5.0))
    assert answer() == (10.0, 0), "a constant, imported itself or by a module that is imported by its dotted name"


@kernel
def _stretch(low, high, x):
    total = 0.0
    for i in range(low, high):
        total += x[i]
    return total


@inner
def _stretches(x, size):
    low, total = 0, 0.0
    while low < x.shape[0]:
        total += _stretch(low, min(low + size, x.shape[0]), x)
        low += size
    return total


@pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")
def test_what_compiled_code_calls_is_compiled_once_and_without_what_python_needs():
    """A loop that starts at 0 had its callee compiled for that 0, too, and both with wrappers that nobody called."""
    x = np.arange(7.0)
    with event.install_recorder("numba:compile") as recorder:
        assert _stretches(x, 2) == x.sum()
    made = [e.data["dispatcher"].py_func.__name__ for _, e in recorder.buffer if e.is_start]
    assert made.count("_stretch") == 1
    assert not _stretch.dispatcher.signatures
    assert _stretch(2, 4, x) == 5.0, "from Python, later"
    assert _stretches(x, 3) == x.sum()


PLACES = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "INFERSCAPE_NUMBA_BAKED")
WHERE = """
import stat, sys
from engine.kernels.jit import CACHE_DIR, kernel
import leaf
value = leaf.scaled(2.0)
print(CACHE_DIR and CACHE_DIR.parent, CACHE_DIR and oct(CACHE_DIR.parent.stat().st_mode & 0o777), value,
      sum(leaf.scaled.dispatcher.stats.cache_hits.values()))
"""
TRIPLED = """
from engine.kernels.jit import kernel


@kernel
def scaled(x):
    return 3.0 * x
"""


@pytest.fixture
def lies(tmp_path):
    """Where a fresh process keeps compiled code, who may read it, what a function answers and how often from disk."""
    (tmp_path / "leaf.py").write_text(TRIPLED)
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[3])])
    base = {key: value for key, value in os.environ.items() if key not in PLACES} | {"PYTHONPATH": paths}

    def answer(**env):
        env = base | {key: str(value) for key, value in env.items()}
        return subprocess.check_output([sys.executable, "-c", WHERE], env=env, cwd=tmp_path, text=True).split()

    return answer


@pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")
def test_compiled_code_outlasts_a_restart_in_the_users_own_cache(tmp_path, lies):
    """It lay in the temporary directory, which a restart empties. A baked copy fills an empty one."""
    home, image = tmp_path / "home", tmp_path / "image"
    at = home / ".cache" / "inferscape"
    for found in "01":
        assert lies(HOME=home) == [str(at), "0o700", "6.0", found]
    baked = lies(HOME=image, INFERSCAPE_NUMBA_BAKED=at)
    assert baked == [str(image / ".cache" / "inferscape"), "0o700", "6.0", "1"]


def test_compiled_code_lies_where_it_is_told_to(tmp_path, monkeypatch):
    home, caches, given = tmp_path / "home", tmp_path / "caches", tmp_path / "given"
    for place in PLACES:
        monkeypatch.delenv(place, raising=False)
    for at, env in (
        (home / ".cache" / "inferscape", {"HOME": home, "XDG_CACHE_HOME": "not/absolute"}),
        (caches / "inferscape", {"XDG_CACHE_HOME": caches}),
        (given, {"NUMBA_CACHE_DIR": given}),
    ):
        for name, value in env.items():
            monkeypatch.setenv(name, str(value))
        found = _cache_dir()
        assert found.parent == at
        assert {path.stat().st_mode & 0o777 for path in (found, at)} == {0o700}


@pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")
def test_without_a_place_of_ones_own_nothing_is_kept(tmp_path, lies, monkeypatch):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert lies(NUMBA_CACHE_DIR=tmp_path / "open") == ["None", "None", "6.0", "0"]
    for place in PLACES:
        monkeypatch.delenv(place, raising=False)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert _cache_dir() is None


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    def entry(path, used, size=100):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "code").write_bytes(bytes(size))
        os.utime(tmp_path / path, (used, used))

    def there():
        return sorted(str(folder.relative_to(tmp_path)) for folder in tmp_path.glob("*/*"))

    entry("numba-1/old", 10.0)
    entry("numba-2/older", 5.0)
    entry("numba-2/new", 20.0)
    entry("numba-2/mine", 30.0)
    entry("another/project", 1.0, 10_000)
    everything = there()
    _trim(tmp_path, 400, 25.0)
    assert there() == everything
    _trim(tmp_path, 399, 25.0)
    assert "numba-2/older" not in there()
    assert len(there()) == 4
    _trim(tmp_path, 150, 25.0)
    assert there() == ["another/project", "numba-2/mine"]
    _trim(tmp_path, 0, 25.0)
    assert there() == ["another/project", "numba-2/mine"], "this process's own, and what is none of ours"


@kernel
def _halved(x):
    return x / 2.0


def _tripled(x):
    return 3.0 * x


@kernel
def _halves(x, count):
    total = 0.0
    for _ in range(count):
        x = _halved(x)
        total += x
    return total


@pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")
def test_few_points_are_run_by_python_until_that_has_taken_as_long_as_compiling_may(monkeypatch):
    monkeypatch.setattr(jit, "_is_compiled", lambda kernel: bool(kernel.dispatcher.signatures))
    monkeypatch.setattr(jit, "_SPENT_S", defaultdict(float))
    assert for_points(_halves, 32)(1.0, 3) == 0.875
    assert not _halves.dispatcher.signatures
    assert not _halved.dispatcher.signatures
    jit._SPENT_S[_halves] += 2.0 * jit._PATIENCE_S
    assert for_points(_halves)(1.0, 3) == 0.875
    assert len(_halves.dispatcher.signatures) == 1
    assert for_points(_halves) is _halves


@pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")
def test_what_lies_in_the_cache_and_many_points_are_never_run_by_python(monkeypatch):
    assert for_points(_halves, 33) is _halves
    monkeypatch.setattr(jit, "_is_compiled", lambda kernel: True)
    monkeypatch.setattr(jit, "_SPENT_S", defaultdict(float))
    assert for_points(_halves) is _halves


@pytest.mark.skipif(CACHE_DIR is None or not JIT_ENABLED, reason="nothing is kept")
def test_an_entry_of_the_cache_is_seen_before_it_is_read():
    jit._is_cached.cache_clear()
    _halves(1.0, 3)
    assert jit._is_compiled(SimpleNamespace(py_func=_halves.py_func, signatures=()))
    assert not jit._is_compiled(SimpleNamespace(py_func=_halved.py_func, signatures=()))


@pytest.mark.skipif(CACHE_DIR is None or not JIT_ENABLED, reason="nothing is kept")
def test_the_cache_is_searched_once_for_a_kernel_that_it_lacks(monkeypatch):
    asked = []
    monkeypatch.setattr(Path, "rglob", lambda path, name: asked.append(name) or [])
    monkeypatch.setattr(jit, "_SPENT_S", defaultdict(float))
    vars(_tripled).update(py_func=_tripled, signatures=())
    assert [for_points(_tripled)(1.0) for _ in range(3)] == [3.0, 3.0, 3.0]
    assert len(asked) == 1
