"""Compiled code that several processes cached is each caller's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.kernels.jit import CACHE_DIR, JIT_ENABLED

FACTORY = """
from engine.kernels.jit import inner, kernel


def make(k):
    @inner
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

    return rows


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
    root = Path(__file__).resolve().parents[2]
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{root}{os.pathsep}{tmp_path}"}

    def values(*names):
        command = [sys.executable, "-c", CALL, *names]
        return [float(v) for v in subprocess.check_output(command, env=env, cwd=tmp_path, text=True).split()]

    apart = values("one") + values("two")
    assert apart[0] != apart[1]
    assert values("one", "two") == apart
    assert values("two", "one") == apart[::-1]
