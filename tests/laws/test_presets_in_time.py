"""Every preset is answered, or refused in a sentence, by what each page asks of the engine, in bounded CPU time."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engine.analyses.camera import CameraNetwork, row_of, tiers_of
from engine.analyses.cuts import split_points
from engine.analyses.edge import depth_first_of, forwarding, nic_of
from engine.analyses.machine import machine
from engine.analyses.node.at_work import links
from engine.analyses.placement import placements
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.choices import choices
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, ScenarioError
from engine.sweep import inverse, sensitivity, space_of, sweep
from engine.traffic import capacity
from engine.traffic.arrangements import arrangements
from engine.traffic.policies import PLAIN
from engine.traffic.scenario_load import load_of
from tests.each import each
from tests.effort import share

LIMIT_S = 60.0  # CPU time of a call with its kernels compiled; a walk that does not end takes any limit


def small(scenario: Scenario) -> Any:
    axes = {"batch": [1, 2, 8], "streams": [1, 2], "costs.years": [1, 3]}
    return space_of({"scenario": scenario, "axes": axes, "constraints": ["fits"]})


ASKED: dict[str, Callable[[Scenario], Any]] = {
    "evaluate": evaluate,
    "Explore: choices": choices,
    "Explore: machine": machine,
    "Split: fuse": depth_first_of,
    "Split: split": split_points,
    "Split: forwarding": lambda s: forwarding(nic, 8) if (nic := nic_of(s)) else None,
    "Split: placements": lambda s: placements(CameraNetwork(row_of(s), tiers_of(s))),
    "Sweep: sweep": lambda s: sweep(small(s)),
    "Sweep: sensitivity": sensitivity,
    "Sweep: inverse": lambda s: inverse(small(s), s),
    "Node: links": links,
    "Traffic: arrangements": arrangements,
    "Traffic: capacity": lambda s: capacity(load_of(s, PLAIN)),
}


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Ends what takes more CPU time with an error, also a loop that never would."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def test_a_loop_without_end_is_ended() -> None:
    with pytest.raises(TimeoutError):
        without_end()


def without_end() -> None:
    with within(0.2):
        while True:
            pass


@each(
    ("asked", "preset"),
    [(asked, preset) for at, asked in enumerate(sorted(ASKED)) for preset in share(sorted(PRESETS), at)],
)
def test_every_preset_is_answered_or_refused_in_time(asked: str, preset: str) -> None:
    with within(LIMIT_S):
        try:
            ASKED[asked](PRESETS[preset].scenario)
        except (ScenarioError, Unsupported) as refusal:
            said = str(refusal)
        else:
            said = ""
    assert not said or (len(said) > 20 and "\n" not in said)
