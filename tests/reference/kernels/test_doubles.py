"""A formula of single doubles and of eight side by side: one source, the same bits, with and without a compiler."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.devices.gpu.operators.gemm import MENU, WAYS, menu_of
from engine.kernels.ir.doubles import (
    FULL,
    LANES,
    above,
    alike,
    at_least,
    chosen,
    entry,
    larger,
    load,
    loads,
    root,
    rounded_down,
    rounded_up,
    smaller,
    write,
)
from engine.kernels.jit import JIT_ENABLED, kernel
from tests.effort import EFFORT

ROOT = Path(__file__).resolve().parents[3]


@kernel
def _formula(x, y, out):
    """Every function and operator, of vectors, of numbers and of one beside the other."""
    a = larger(x * 2.0 - y, 1.5) + alike(x, 0.25) / (3.0 + y)
    a += smaller(2.0, y)
    mask = above(a, y) & ~at_least(1.0, x)
    write(out, 0, chosen(mask, root(a), rounded_up(y)) - chosen(FULL & ~mask, rounded_down(a), 0.5))
    write(out, 1, entry(x, out, 0) * a)


@kernel
def _by_eight(x, y, out):
    _formula(load(x, 0), load(y, 0), out)


@kernel
def _by_one(x, y, out):
    _formula(x[0], y[0], out)


@kernel
def _menu_by_eight(sizes, machine, form, menu):
    m, n, k = load(sizes[0], 0), load(sizes[1], 0), load(sizes[2], 0)
    return menu_of(alike(m, 1.0), m, n, k, m * k, n * k, m * n, alike(m, 0.5), machine, form, menu)


def test_eight_side_by_side_have_the_bits_of_each_by_itself() -> None:
    draw = np.random.default_rng(7)
    for _ in range(40):
        x, y = draw.lognormal(0, 1, (2, LANES))
        many, one = np.zeros(2 * LANES), np.zeros(2)
        _by_eight(x, y, many)
        for lane in range(LANES):
            _by_one(x[lane:], y[lane:], one)
            assert one.tobytes() == many[lane::LANES].tobytes(), (x, y, lane)


@kernel
def _stretches(x, out):
    for value in loads(x, 1, 9, 3):
        write(out, 0, load(out, 0) + value)


def test_stretches_read_at_once_lie_as_far_apart_as_is_said() -> None:
    x, out = np.arange(27.0) ** 2, np.zeros(LANES)
    _stretches(x, out)
    assert out.tolist() == (x[1:9] + x[10:18] + x[19:27]).tolist()


def test_a_menu_of_eight_products_holds_the_menu_of_each() -> None:
    """A way that one lacks takes it forever; no entry is undefined, so that any may be a first guess."""
    draw = np.random.default_rng(8)
    machine = np.array([108, 2e12, 4e7, 1e-6, 1e11, 1e11, 0.6, 0.9, 1e-9, 0.9, 1e12, 1e-6])
    form = np.array([1e-14, 1e-15, 2, 2, 2, 0, 0, 64, 0, 16], dtype=np.float64)
    for _ in range(6):
        sizes = np.ceil(draw.lognormal(5, 2.5, (3, LANES)))
        wide, menu = np.empty((WAYS, len(MENU) * LANES)), np.empty((WAYS, len(MENU)))
        count = _menu_by_eight(sizes, machine, form, wide)
        for lane in range(LANES):
            m, n, k = sizes[:, lane]
            own = menu_of(1.0, m, n, k, m * k, n * k, m * n, 0.5, machine, form, menu)
            of_lane = wide[:count, lane::LANES]
            assert not np.isnan(of_lane).any(), (m, n, k)
            assert menu[:own].tobytes() == of_lane[np.isfinite(of_lane[:, 0])].tobytes(), (m, n, k)


GUARDED = """
import sys
from collections import Counter
from functools import partial

import numpy as np
from engine.kernels import jit
from engine.kernels.ir import doubles

jit.compile_always()
load, loads, store = doubles.load, doubles.loads, doubles.store


@jit.inner
def checked_load(array, at):
    if at < 0 or at + 8 > array.shape[0]:
        raise IndexError("a load beyond its array")
    return load(array, at)


@jit.inner
def checked_store(array, at, value):
    if at < 0 or at + 8 > array.shape[0]:
        raise IndexError("a store beyond its array")
    store(array, at, value)


def checked_loads(array, at, apart, count):
    pass


@jit.overload(checked_loads, prefer_literal=True)
def _(array, at, apart, count):
    many = count.literal_value

    def both_ends(array, at, apart, count):
        checked_load(array, at)
        checked_load(array, at + (many - 1) * apart)
        return loads(array, at, apart, many)

    return both_ends


doubles.load, doubles.loads, doubles.store = checked_load, checked_loads, checked_store

from engine.cost.figures import money_figures, time_figures
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from engine.sweep import sweep
from engine.sweep.pricing import flat_table, points

for figures in (time_figures, money_figures):
    jit._SPENT_S[figures] = -np.inf
    setattr(points, figures.py_func.__name__, figures.py_func)
flat_table.fill_points = partial(jit._run, points.fill_points)
first_of = doubles.first_of
last_of = lambda x: first_of(checked_loads(x, -1, 1, 2)[1])
for beyond in (lambda x: first_of(checked_load(x, 0)), lambda x: x[7], last_of):
    try:
        jit.inner(beyond)(np.zeros(7))
    except IndexError:
        print("refused")
recorder = jit.event.install_recorder("numba:compile")
made = recorder.__enter__()
for name in sys.argv[1:]:
    scenario = PRESETS[name].scenario
    alone = evaluate(scenario).latency_s
    for most in (1, 7, 8, 9, 17):
        found = sweep({"scenario": scenario, "axes": {"batch": {"from": 1, "to": most, "by": 1}}})
        assert found.counts.done == most
    print(name, alone > 0.0)
made = Counter(e.data["dispatcher"].py_func.__qualname__ for _, e in made.buffer if e.is_start)
print(*(made[name] for name in ("price_ops", "_products", "_together", "_attention", "_count", "_layout")))
"""


GUARDED_PRESETS = ("v100-1.5b", "cpu-dlrm", "node-dlrm")[: 3 if EFFORT >= 5 else 1]
"""One of each family with lanes; each is compiled anew."""


@pytest.mark.whole
@pytest.mark.timeout(600)
@pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")
def test_no_lane_lies_beyond_its_array(tmp_path):
    """Eight doubles are read and written at a time, and nothing checks where: here all of it is checked.

    What reads and writes one at a time is run by Python, which checks for itself.
    A GPU's price is compiled once, whether designs side by side have one batch or several: a second copy takes ten
    seconds to make.
    """
    env = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    env["NUMBA_OPT"] = "0"  # where a lane lies is the same, and compiling takes a quarter less
    said = subprocess.run(
        [sys.executable, "-c", GUARDED, *GUARDED_PRESETS], env=env, text=True, capture_output=True, check=False
    )
    assert said.returncode == 0, said.stderr[-2000:]
    *answers, compiled = said.stdout.splitlines()
    assert answers == ["refused"] * 3 + [f"{name} True" for name in GUARDED_PRESETS]
    assert compiled.split() == ["1"] * 6
