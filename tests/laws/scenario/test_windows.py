"""A request that outgrows a window or ends a chunk while it decodes: what its passes take, pass by pass."""

import math
from functools import cache
from itertools import product

import pytest

from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.cost.pieces import PhaseRun
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario
from model_zoo.catalog import default_zoo
from tests.each import each

ZOO = default_zoo()


@cache
def windows() -> dict[str, int]:
    """Tokens that the layers of a network look back that look back least, where they don't see all. [-]"""
    caps = {id: [op.cap for p in ZOO.graph(id).phases if p.repeat.o for op in p.ops] for id in ZOO.ids()}
    return {id: int(min(of)) for id, of in caps.items() if of and min(of) < math.inf}


def _decoding(scenario: Scenario) -> list[PhaseRun]:
    """Passes that write a token each."""
    bound = bind(scenario)
    return [run for run in assemble(bound, make_plan(bound)).priced[0].runs if run.job.phase.repeat.o]


@each(("id", "system"), lambda: product(windows(), ["h200-sxm", "epyc-9965"]))
def test_a_request_takes_what_its_passes_take_one_by_one(id: str, system: str) -> None:
    """Its bytes and work exactly, its time within 2%: across the window, or from one chunk into the next."""
    window, passes = windows()[id], 12
    base = default_scenario(system, id).with_(batch=4)
    for first in (window - 6, 2 * window - 8):
        (whole,) = _decoding(base.with_(inputs=first, outputs=passes + 1))
        one = [_decoding(base.with_(inputs=first + i, outputs=2))[0].cost for i in range(passes)]
        moved = sum(float(cost.offchip.sum() + cost.onchip.sum()) for cost in one)
        cost = whole.cost
        assert float(cost.offchip.sum() + cost.onchip.sum()) * passes == pytest.approx(moved, rel=1e-9), first
        assert float(cost.flops.sum()) * passes == pytest.approx(sum(float(o.flops.sum()) for o in one), rel=1e-9)
        assert cost.total_s * passes == pytest.approx(sum(o.total_s for o in one), rel=0.02), first


@pytest.mark.parametrize("network", ["llama4-scout", "gemma3-27b"])
def test_a_prompt_computes_the_pairs_that_its_tokens_see(network: str) -> None:
    """A chunk's own triangle or a window's band, whatever the prompt's length beyond."""
    window = windows()[network]
    base = default_scenario("h200-sxm", network).with_(batch=1)

    def work(tokens: int) -> float:
        bound = bind(base.with_(inputs=tokens))
        run = assemble(bound, make_plan(bound)).priced[0].runs[0]
        at = [i for i, op in enumerate(run.job.ops) if op.cap == window]
        return float(run.cost.flops[at].sum())

    triangle = work(window)  # of one chunk, as of a first window
    more = window * window / (window * (window + 1) / 2) if network == "gemma3-27b" else 1.0
    assert work(4 * window) == pytest.approx(triangle * (1 + 3 * more), rel=1e-9)
