"""Beside the pages: garbage is collected where nobody waits, memory stays, and no script runs for ever."""

import gc
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.server.upkeep import Collector, watch
from app.shared import boundary, parts
from engine.evaluate import evaluate
from engine.kernels import allowance
from engine.kernels.jit import inner, run_chunks
from engine.resolve.presets import PRESETS
from tests.app.conftest import free_port
from tests.app.loops import run
from tests.bench.sessions import load, served

MAIN = Path(__file__).parents[3] / "app" / "main.py"


def spin(seconds: float) -> None:
    """Compute for so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def computes(seconds: float) -> None:
    """Evaluate one preset after the other for so long."""
    scenario = PRESETS["wide-deep-int8"].scenario
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        evaluate(scenario)


def apart(work: Callable[[], None]) -> list[BaseException]:
    """What a thread of its own ended with."""
    ended: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(200)
    assert not thread.is_alive(), "it still runs"
    return ended


@pytest.mark.timeout(900)
def test_a_page_that_never_ends_is_ended_with_a_sentence(monkeypatch):
    at = AppTest.from_file(str(MAIN), default_timeout=240).run()
    assert not at.error
    monkeypatch.setattr(parts, "footer", lambda: computes(600))
    monkeypatch.setattr(boundary, "allowance", lambda: allowance.allowance(1.0))
    at.run(timeout=240)
    assert not at.exception
    assert len(at.error) == 1
    assert "It had computed for more than 1 s and was ended" in at.error[0].value
    monkeypatch.undo()
    assert not at.run().error


def test_a_loop_that_swallows_the_first_end_is_ended_again():
    ends = []

    def stubborn() -> None:
        with allowance.allowance(0.2):
            try:
                computes(60)
            except Exception as end:  # as a careless script would
                ends.append(end)
                computes(60)

    ends += apart(stubborn)
    assert [type(end) for end in ends] == [allowance.Overdue] * 2


def test_who_waits_or_compiles_is_not_ended():
    def patient() -> None:
        with allowance.allowance(0.1):
            time.sleep(0.5)
            before = time.thread_time()
            inner(lambda x: np.sort(x)[::-1] + np.cumsum(x))(np.ones(3))
            compiled.append(time.thread_time() - before)
            allowance.beat()

    compiled: list[float] = []
    assert apart(patient) == []
    assert compiled[0] > 0.1


def test_an_allowance_inside_another_shortens_it_and_no_more():
    with allowance.allowance(0.3):
        with allowance.allowance(60.0), pytest.raises(allowance.Overdue, match=r"0 s"):
            computes(30)
        with pytest.raises(allowance.Overdue):
            allowance.beat()
    allowance.beat()


def test_what_the_pool_computes_is_taken_from_who_asked_for_it():
    with allowance.allowance(0.5), pytest.raises(allowance.Overdue):
        for _ in run_chunks(lambda _: spin(0.05), range(1000)):
            pass


def test_no_thread_is_looked_into_or_thrown_at():
    root = MAIN.parents[1]
    sources = [file for room in ("app", "engine") for file in (root / room).rglob("*.py")]
    assert [f for f in sources if re.search(r"_current_frames|SetAsyncExc|f_back", f.read_text())] == []


def test_the_server_ends_where_a_script_computes_on_and_never_asks():
    ended: list[str] = []
    look = partial(watch, 0.3, lambda: ended.append("aborted"))

    def within(work: Callable[[float], None]) -> None:
        with allowance.allowance(0.1):
            thread = threading.Thread(target=look)
            work(0.6)
            thread.start()
            thread.join()

    assert apart(lambda: within(time.sleep)) == []
    assert ended == []
    assert apart(lambda: within(spin)) == []
    assert ended == ["aborted"]
    look()
    assert ended == ["aborted"], "nothing computes any more"


class Told:
    """A collector with a clock and readers of the test's own."""

    def __init__(self) -> None:
        self.now, self.reading = 0.0, False
        self.collector = Collector(lambda: self.reading, lambda: self.now)

    def after(self, seconds: float, garbage: bool = False) -> int:
        """Collections so far, once so much time has passed."""
        if garbage:
            kept = [[] for _ in range(60_000)]
            del kept
        for _ in range(round(10 * seconds)):
            self.now += 0.1
            self.collector.look()
        return self.collector.collections


def test_garbage_is_collected_when_nobody_reads_and_only_then():
    me = Told()
    me.reading = True
    assert me.after(5, garbage=True) == 0
    me.reading = False
    assert me.after(0.2) == 0
    assert me.after(0.5) == 1
    assert me.after(60) == 1, "nothing new, nothing to collect"


def test_garbage_is_collected_in_the_end_where_somebody_always_reads():
    me = Told()
    me.reading = True
    assert me.after(15, garbage=True) == 0
    assert me.after(10) == 1


def test_cycles_go_without_the_collection_after_every_script():
    class Page:
        living = 0

        def __init__(self) -> None:
            Page.living += 1
            self.me, self.parts = self, [[] for _ in range(1000)]

        def __del__(self) -> None:
            Page.living -= 1

    me = Told()
    me.reading = True
    gc.disable()  # not even Python's own: what goes is what the collector takes
    try:
        pages = [Page() for _ in range(60)]
        gc.collect(1)
        del pages
        for _ in range(50):
            gc.collect(0)
        me.after(5)
        assert Page.living == 60
        me.reading = False
        me.after(1)
        assert Page.living == 0
    finally:
        gc.enable()


@pytest.mark.whole
@pytest.mark.timeout(400)
def test_memory_stays_over_many_reruns():
    """Short for every day; `python -m tests.bench.sessions --think 0 --reruns 10000` is the long one."""
    port = free_port()
    with served(port) as process:
        run(load(port, 4, 0.0, 1e9, 40, process))
        before = process.memory_info().rss
        run(load(port, 4, 0.0, 1e9, 60, process))
        a_rerun = (process.memory_info().rss - before) / 60
    assert a_rerun < 400e3, f"{a_rerun / 1e3:.0f} kB a rerun"
