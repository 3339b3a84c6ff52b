"""One scenario where nothing is compiled yet: a kernel is run by Python, and finds the bits that compiled code does."""

import json
import math
import os
import subprocess
import sys
from collections import defaultdict

import pytest

from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.kernels import jit
from engine.resolve.bind import bind
from engine.resolve.presets import PRESETS

OF_EACH_FAMILY = ("node-dlrm", "cpu-dlrm", "brainwave-gru", "tonic-mnist", "dfx-345m", "v100-1.5b")

_COLD = """
import json, sys
from numba.core import event
made = set()
class Listener(event.Listener):
    def on_start(self, event): made.add(event.data["dispatcher"].py_func.__module__)
    def on_end(self, event): pass
event.register("numba:compile", Listener())
from tests.laws.cost.test_few_points import numbers_of
print(json.dumps({"made": sorted(made), **{id: numbers_of(id) for id in sys.argv[1:]}}))
"""


def numbers_of(preset: str) -> list[str]:
    """Every number of a preset's price: of its figures, and of each of its operators."""
    bound = bind(PRESETS[preset].scenario)
    priced = assemble(bound, make_plan(bound))
    operators = [run.cost.seconds.tobytes().hex() for stage in priced.priced for run in stage.runs]
    joules = [repr(run.cost.joules) for stage in priced.priced for run in stage.runs]
    return [priced.rows.tobytes().hex(), *operators, *joules]


@pytest.mark.skipif(jit.CACHE_DIR is None or not jit.JIT_ENABLED, reason="nothing is compiled")
def test_a_cold_price_compiles_no_price_model_and_has_the_bits_of_a_compiled_one(tmp_path, monkeypatch) -> None:
    """A node's first number took 15 s of a processor, nearly all of it the compiler's."""
    own = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    own.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", _COLD, *OF_EACH_FAMILY]
    cold = json.loads(subprocess.run(command, env=own, capture_output=True, text=True, check=True, timeout=300).stdout)
    made = set(cold.pop("made"))
    assert not {name for name in made if name.startswith(("engine.cost", "engine.devices"))}
    monkeypatch.setattr(jit, "_SPENT_S", defaultdict(lambda: math.inf))
    assert [id for id in OF_EACH_FAMILY if cold[id] != numbers_of(id)] == []
