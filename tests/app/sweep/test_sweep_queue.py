"""Sweeps of several readers share a server: some work, the others wait and say so, and memory stays within its room."""

import time
from dataclasses import replace
from math import prod

import pytest

from app.shared import cached, jobs
from app.shared.jobs import Queue, resident
from app.views.sweep import axes, background, spaces
from engine.resolve.presets import PRESETS
from engine.scenario import encode
from tests.app.sweep.small import followed


@pytest.mark.timeout(900)
def test_three_sweeps_of_the_largest_space_stay_within_their_room_and_one_says_that_it_waits(monkeypatch):
    """Every value of an axis is validated and kept: 68.7 G designs are 12,288 of them, before the first is priced."""
    monkeypatch.setattr(jobs, "SWEEPS", Queue("sweep", at_once=2, room=60e6))
    report = cached.report(encode(PRESETS["dfx-1.5b"].scenario))
    paths = [
        "devices.0.price",
        "devices.0.memory.hbm.capacity",
        "devices.0.memory.ddr.capacity",
    ]  # all tie: a front
    spans = tuple((p, replace(axes.candidates(report.scenario)[p].first, steps=axes.MOST_STEPS)) for p in paths)
    space, metrics = spaces.PageSpace(spans, ("latency_per_unit_s", "throughput_per_s")), spaces.metrics(report)
    assert prod(map(len, dict(space.axes).values())) == 4096**3
    short = replace(space, axes=tuple((path, replace(span, steps=16)) for path, span in spans))
    followed(
        background.RunningSweep(report, short, metrics, "key")
    )  # what is compiled and loaded once is no sweep's own
    running = [background.RunningSweep(report, space, metrics, "key") for _ in range(3)]
    for one in running:
        one.submit()
    before = resident()
    told = {one.status() for one in running}
    assert "Waiting: 2 sweeps ahead of yours" in told
    deadline = time.monotonic() + 200
    while any(one.outcome is None for one in running) and time.monotonic() < deadline:
        assert resident() - before < 250e6  # chunks of two sweeps that have begun come on top
        time.sleep(0.05)
    for one in running:
        assert one.finish().partial
        assert "60 MB of this server" in one.finish().why


def test_the_first_space_is_as_large_as_its_family_is_fast():
    """Every family with a compiled formula was given the room of those that price operators apart."""
    rooms = {id: axes.room(PRESETS[id].scenario) for id in ("v100-1.5b", "node-dlrm", "cpu-dlrm")}
    for of in ("streams", "inter_op_threads"):
        rooms[of] = axes.room(PRESETS["cpu-dlrm"].scenario.with_(**{of: 4}))
    assert rooms == {
        "v100-1.5b": axes.DESIGNS,
        "node-dlrm": axes.DESIGNS_AT_ONCE,
        "cpu-dlrm": axes.DESIGNS,
        "streams": axes.DESIGNS_AT_ONCE,
        "inter_op_threads": axes.DESIGNS_AT_ONCE,
    }
