"""Compiled code on disk: each caller's own, no older than its sources, and made anew where it is damaged."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.kernels.jit import CACHE_DIR, JIT_ENABLED, _trim, event, inner, kernel

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
CALL = """
import sys
import numpy as np
import factory
for name in sys.argv[1:]:
    print(float(getattr(factory, name)(0, 100, np.linspace(-10, 40, 100))))
"""


@pytest.mark.skipif(CACHE_DIR is None or not JIT_ENABLED, reason="nothing compiled is cached here")
def test_bodies_cached_by_two_processes_stay_apart(tmp_path):
    """Each of two processes compiles one body of a factory; a third that loads both gets both."""
    (tmp_path / "factory.py").write_text(FACTORY)
    root = Path(__file__).resolve().parents[3]
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{root}{os.pathsep}{tmp_path}"}

    def values(*names):
        command = [sys.executable, "-c", CALL, *names]
        return [float(v) for v in subprocess.check_output(command, env=env, cwd=tmp_path, text=True).split()]

    apart = values("one") + values("two")
    assert apart[0] != apart[1]
    assert values("one", "two") == apart
    assert values("two", "one") == apart[::-1]


LEAF = "SCALE = {}\n"
MIDDLE = "from engine.leaf import SCALE\n\n\ndef unused():\n    return SCALE\n"
TOP = """
import engine.middle
from engine.kernels.jit import kernel
from engine.leaf import SCALE


@kernel
def scaled(x):
    return x * SCALE
"""
SCALED = """
import sys
from importlib import import_module
all = [import_module(f"engine.{name}").scaled for name in sys.argv[1:]]
(value,) = {scaled(2.0) for scaled in all}
print(value, sum(sum(scaled.dispatcher.stats.cache_hits.values()) for scaled in all))
"""


@pytest.fixture
def project(tmp_path):
    """A project of three files around our decorator: what its compiled functions answer in a fresh process, and how
    many came from disk."""
    source = Path(__file__).resolve().parents[3] / "engine" / "kernels"
    package = tmp_path / "engine"
    (package / "kernels").mkdir(parents=True)
    for name in ("__init__.py", "allowance.py", "jit.py", "sources.py"):
        (package / "kernels" / name).write_bytes((source / name).read_bytes())
    for name, text in {"__init__": "", "leaf": LEAF.format(3.0), "middle": MIDDLE, "top": TOP, "aside": ""}.items():
        (package / f"{name}.py").write_text(text)
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}

    def answer(*tops):
        done = subprocess.run(
            [sys.executable, "-c", SCALED, *(tops or ["top"])],
            env=env,
            cwd=tmp_path,
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        value, hits = done.stdout.split()
        return float(value), int(hits)

    answer.root = tmp_path
    return answer


@pytest.mark.skipif(CACHE_DIR is None or not JIT_ENABLED, reason="nothing compiled is cached here")
def test_an_edit_compiles_anew_what_imports_it_and_nothing_else(project):
    package = project.root / "engine"
    assert project() == (6.0, 0)
    assert project() == (6.0, 1)
    (package / "aside.py").write_text("ANYTHING = 1\n")
    assert project() == (6.0, 1), "a file that the kernel does not import"
    (package / "leaf.py").write_text(LEAF.format(5.0))
    assert project() == (10.0, 0), "an imported constant"
    (package / "middle.py").write_text(MIDDLE.replace("unused", "renamed"))
    assert project() == (10.0, 0), "a module that it imports by its dotted name"


@pytest.mark.skipif(CACHE_DIR is None or not JIT_ENABLED, reason="nothing compiled is cached here")
def test_a_damaged_cache_heals(project):
    """Emptied, as by a power cut: compiled again, and served from disk after that."""
    tops = {f"emptied_{suffix}": suffix for suffix in ("nbi", "nbc")}
    for top in tops:
        (project.root / "engine" / f"{top}.py").write_text(TOP)
    assert project(*tops) == (6.0, 0)
    assert project(*tops) == (6.0, len(tops))
    for top, suffix in tops.items():
        (file,) = (project.root / "cache").rglob(f"{top}.*.{suffix}")
        file.write_bytes(b"")
    assert project(*tops) == (6.0, 0)
    assert project(*tops) == (6.0, len(tops))


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


TOLD = """
from engine.kernels.jit import kernel


@kernel
def checked(x):
    if x < 0.0:
        raise ValueError("negative", x)
    return x


@kernel
def one(x):
    return checked(x) + 1.0


@kernel
def two(x):
    return checked(x) + 2.0
"""
TELL = """
import sys
import told
for name in sys.argv[1:]:
    print(getattr(told, name)(2.0))
    try:
        getattr(told, name)(-1.5)
    except ValueError as error:
        print(*error.args)
"""


@pytest.mark.skipif(CACHE_DIR is None or not JIT_ENABLED, reason="nothing compiled is cached here")
def test_a_later_process_finds_what_only_compiled_code_calls_with_what_it_raises(tmp_path):
    """One process compiles the callee in a caller, the next reads it for another caller, the last reads both."""
    (tmp_path / "told.py").write_text(TOLD)
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[3])])
    env = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for names in (["one"], ["two"], ["two", "one"]):
        said = subprocess.check_output([sys.executable, "-c", TELL, *names], env=env, text=True).splitlines()
        assert said == [line for name in names for line in ({"one": "3.0", "two": "4.0"}[name], "negative -1.5")]


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
    left_out = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "INFERSCAPE_NUMBA_BAKED")
    base = {key: value for key, value in os.environ.items() if key not in left_out} | {"PYTHONPATH": paths}

    def answer(**env):
        done = subprocess.run(
            [sys.executable, "-c", WHERE],
            env=base | {key: str(value) for key, value in env.items()},
            cwd=tmp_path,
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return answer


@pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")
def test_compiled_code_outlasts_a_restart_in_the_users_own_cache(tmp_path, lies):
    """It lay in the temporary directory, which a restart empties."""
    home, caches = tmp_path / "home", tmp_path / "caches"
    for at, env in (
        (home / ".cache" / "inferscape", {"HOME": home}),
        (home / ".cache" / "inferscape", {"HOME": home, "XDG_CACHE_HOME": "not/absolute"}),
        (caches / "inferscape", {"HOME": home, "XDG_CACHE_HOME": caches}),
        (tmp_path / "given", {"HOME": home, "XDG_CACHE_HOME": caches, "NUMBA_CACHE_DIR": tmp_path / "given"}),
    ):
        found = "1" if at.exists() else "0"
        assert lies(**env) == [str(at), "0o700", "6.0", found]


@pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")
def test_without_a_place_of_ones_own_nothing_is_kept(tmp_path, lies):
    (tmp_path / "file").write_text("")
    assert lies(HOME=tmp_path / "file") == ["None", "None", "6.0", "0"]
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert lies(NUMBA_CACHE_DIR=tmp_path / "open") == ["None", "None", "6.0", "0"]


@pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")
def test_a_baked_copy_fills_an_empty_cache(tmp_path, lies):
    lies(NUMBA_CACHE_DIR=tmp_path / "baked")
    env = {"HOME": tmp_path / "home", "INFERSCAPE_NUMBA_BAKED": tmp_path / "baked"}
    assert lies(**env) == [str(tmp_path / "home" / ".cache" / "inferscape"), "0o700", "6.0", "1"]


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
