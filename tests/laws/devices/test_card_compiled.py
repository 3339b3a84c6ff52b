"""What a card's price compiles: no more than its designs have a use for, and the same bits however they are run."""

import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from engine import default_scenario
from engine.cost.best_plan import make_plan
from engine.devices import family
from engine.devices.card.placement import _peer_ops
from engine.devices.common.counts import records
from engine.kernels import jit
from engine.kernels.jit import CACHE_DIR, JIT_ENABLED
from engine.plan.jobs import job_of
from engine.resolve.bind import bind
from tests.each import each

_TOLD = """
from numba.core import event
made = set()
class Listener(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        made.add(function.__module__.rsplit(".", 1)[-1] + "." + function.__name__)
    def on_end(self, event): pass
event.register("numba:compile", Listener())
from engine import default_scenario, evaluate
from engine.devices.card.points import _ask_on
from engine.kernels.jit import _SPENT_S
_SPENT_S[_ask_on] = float("inf")
evaluate(default_scenario("fb-card", "wide-deep-criteo"))
print(*sorted(made))
"""
"""What a card asks of its cores is compiled, which alone may search; all else is run by Python."""


@pytest.mark.whole
@pytest.mark.skipif(CACHE_DIR is None or not JIT_ENABLED, reason="nothing is compiled")
def test_a_design_whose_tilings_nobody_searches_compiles_no_search(tmp_path) -> None:
    """A search of tilings, which no default asks for, took six of the 23 seconds to the first number of a node."""
    own = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "NUMBA_OPT": "0"}  # what is compiled, not how well
    own.pop("NUMBA_CACHE_DIR", None)
    told = subprocess.run(
        [sys.executable, "-c", _TOLD], env=own, capture_output=True, text=True, check=True, timeout=300
    )
    made = set(told.stdout.split())
    assert {"points._ask_on", "demand.demand_ops", "demand.tile"} <= made
    assert not made & {"tiling.fastest_traffic", "tilings.search"}


@each(
    ("system", "workload", "searched"),
    [("fb-node", "dlrm-less-complex", False), ("fb-card", "resnet50", False), ("fb-card", "resnet50", True)],
)
def test_few_designs_have_the_bits_of_many(system: str, workload: str, searched: bool, monkeypatch) -> None:
    """Priced together, one by one, and one by one by Python: batches that differ, and rates that differ at one."""
    bound = bind(default_scenario(system, workload, switches={"search-tilings": searched}))
    stage = make_plan(bound).stages[0]
    fam = family(stage.device.kind)
    job, n = job_of(bound, stage, fam, bound.graph.phases[0]), 40
    sizes = np.array([job.sizes] * n, dtype=np.float64).T.copy()
    sizes[0, :20] = np.arange(1, 21)
    rows = np.array([fam.compiled.record(job)] * n)
    rows[30:, -3] *= np.linspace(1.0, 2.0, 10)
    found = []
    for compiled, blocks in (True, [(0, n)]), (True, [(i, i + 1) for i in range(n)]), (False, [(0, 1), (n - 1, n)]):
        monkeypatch.setattr(jit, "_is_compiled", lambda kernel, compiled=compiled: compiled)
        monkeypatch.setattr(jit, "_SPENT_S", defaultdict(float))
        totals = np.zeros((6, n))
        group = fam.groups(job)[0]
        given = *fam.compiled.tables(job), float(job.ways), sizes, records(rows), totals
        for lo, hi in blocks:
            fam.compiled.points(lo, hi, group.rows, group.times, *given)
        found.append(totals)
    assert found[0].tobytes() == found[1].tobytes()
    assert found[0][:, [0, -1]].tobytes() == found[2][:, [0, -1]].tobytes()
    assert np.unique(found[0].sum(0)).size > 20


def test_what_a_job_leaves_to_others_follows_its_switches() -> None:
    """It was remembered by the operators alone, though with two nets the host selects boxes."""
    bound = bind(default_scenario("fb-card", "ssd300-vgg16-voc"))
    stage = make_plan(bound).stages[0]
    job = job_of(bound, stage, family(stage.device.kind), bound.graph.phases[0])
    part = replace(job, ops=job.ops[:1])
    left = [_peer_ops(replace(part, switches={**part.switches, "two-nets": on})) for on in (False, True)]
    assert ["NonMaxSuppression" in {op.kind for op in ops} for ops in left] == [True, False]
