"""Sweeps of several readers share a server: some work, the others wait and say so, and memory stays within its room."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from app.shared import cached
from app.shared.sweep_queue import SweepQueue, resident
from app.views.sweep import axes, background, objectives, queued, spaces
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError, encode


class Worker:
    """A sweep that works until it is told to end."""

    def __init__(self, turns: SweepQueue) -> None:
        self.turns, self.end, self.gone, self.began = turns, threading.Event(), threading.Event(), threading.Event()
        turns.queue(self)
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self) -> None:
        with self.turns.turn(self, self.gone) as mine:
            if mine:
                self.began.set()
                self.end.wait(200)

    def finish(self) -> None:
        self.end.set()
        self.thread.join(60)


def test_few_sweeps_work_at_once_and_others_wait_in_their_order():
    turns = SweepQueue(at_once=2)
    one, two = Worker(turns), Worker(turns)
    assert one.began.wait(60)
    assert two.began.wait(60)
    three, four, five = Worker(turns), Worker(turns), Worker(turns)
    assert [turns.ahead(w) for w in (one, two, three, four, five)] == [0, 0, 2, 3, 4]
    assert not three.began.wait(0.3)
    four.gone.set()  # its reader has left
    four.thread.join(60)
    two.finish()
    assert three.began.wait(60)
    assert turns.ahead(five) == 2
    one.finish()
    assert five.began.wait(60)
    three.finish()
    five.finish()
    assert not four.began.is_set()


def test_a_queue_of_sweeps_has_an_end_and_says_so():
    turns = SweepQueue(at_once=0)
    for _ in range(16):
        turns.queue(object())
    with pytest.raises(ScenarioError, match="16 sweeps wait on this server already; try again in a minute"):
        turns.queue(object())


def test_a_sweep_ends_where_memory_is_taken_or_others_wait_long():
    used = [5e8]
    turns = SweepQueue(at_once=1, share_s=0.2, room=1e8, memory=lambda: used[0])
    one = Worker(turns)
    assert one.began.wait(60)
    time.sleep(0.3)
    assert turns.over(one) is None  # nobody waits
    two = Worker(turns)
    assert turns.over(one) == "others wait, and it had 0 s"
    used[0] = 6.1e8
    time.sleep(0.15)
    assert turns.over(one) == "sweeps may take 100 MB of this server together, and that is taken"
    one.finish()
    assert two.began.wait(60)
    time.sleep(0.15)
    assert turns.over(two) is None  # what is there when the first begins is not theirs
    two.finish()


def test_a_question_waits_for_its_turn_among_sweeps_and_says_so(monkeypatch):
    turns = SweepQueue(at_once=1)
    monkeypatch.setattr(queued, "QUEUE", turns)
    sweep = Worker(turns)
    assert sweep.began.wait(60)
    question = queued.Question(lambda: 6 * 7)
    told = []
    for _ in question:
        told.append(question.told())
        assert question.answer is None or sweep.end.is_set()
        sweep.end.set()
    assert told[0] == "Waiting: 1 sweep ahead of yours"
    assert question.answer == 42
    sweep.finish()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_sweeps_of_the_largest_space_stay_within_their_room_and_one_says_that_it_waits(monkeypatch):
    """Every value of an axis is validated and kept: 68.7 G designs are 12,288 of them, before the first is priced."""
    monkeypatch.setattr(queued, "QUEUE", SweepQueue(at_once=2, room=60e6))
    report = cached.report(encode(PRESETS["dfx-1.5b"].scenario))
    paths = [
        "devices.0.peak.fp16",
        "devices.0.memory.hbm.capacity",
        "devices.0.memory.ddr.capacity",
    ]  # all tie: a front
    spans = tuple((p, replace(axes.candidates(report.scenario)[p].first, steps=axes.MOST_STEPS)) for p in paths)
    space, metrics = spaces.PageSpace(spans, ("latency_per_unit_s", "throughput_per_s")), objectives.metrics(report)
    assert axes.size(dict(space.axes)) == 4096**3
    short = replace(space, axes=tuple((path, replace(span, steps=16)) for path, span in spans))
    for _ in background.RunningSweep(report, short, metrics, "key"):
        pass  # what is compiled and loaded once is no sweep's own
    running = [background.RunningSweep(report, space, metrics, "key") for _ in range(3)]
    loops = [iter(one) for one in running]
    for loop in loops:
        next(loop)
    before = resident()
    told = {one.told() for one in running}
    assert "Waiting: 2 sweeps ahead of yours" in told
    deadline = time.monotonic() + 200
    while any(one.outcome is None for one in running) and time.monotonic() < deadline:
        assert resident() - before < 250e6  # chunks of two sweeps that have begun come on top
        time.sleep(0.05)
    for one, loop in zip(running, loops):
        loop.close()
        assert one.settled().stopped
        assert "60 MB of this server" in one.settled().why


def test_a_loop_over_a_sweep_that_is_collected_on_the_sweeps_own_thread_ends(monkeypatch):
    monkeypatch.setattr(queued, "QUEUE", SweepQueue())
    report = cached.report(encode(PRESETS["dfx-1.5b"].scenario))
    one = background.RunningSweep(report, spaces.PageSpace((), ("latency_s",)), objectives.metrics(report), "key")
    waiting, closed = threading.Event(), threading.Event()

    def close() -> None:
        waiting.wait(200)
        loop.close()
        closed.set()

    monkeypatch.setattr(one, "_do", close)
    loop = iter(one)
    next(loop)
    waiting.set()
    assert closed.wait(120)
