"""Beside the pages: garbage is collected where nobody waits, memory stays, and no script runs for ever."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.server.upkeep import Collector, Overdue, Watchdog
from app.shared import link, priority
from tests.app.conftest import free_port
from tests.app.loops import run
from tests.bench.sessions import load, served

MAIN = Path(__file__).parents[3] / "app" / "main.py"


@contextmanager
def watched(dog: Watchdog) -> Iterator[None]:
    """A watchdog that looks twenty times a second."""
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.05):
            dog.look()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def script(work: Callable[[], None]) -> list[BaseException]:
    """What a thread named as Streamlit names those of pages ended with."""
    ended: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # also what is raised from outside
            ended.append(error)

    thread = threading.Thread(target=run, name=f"ScriptRunner.{priority.SCRIPT}", daemon=True)
    thread.start()
    thread.join(200)
    assert not thread.is_alive(), "it still runs"
    return ended


def spin(seconds: float) -> None:
    """Compute for so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.mark.timeout(900)
def test_a_page_that_never_ends_is_ended_with_a_sentence(monkeypatch):
    at = AppTest.from_file(str(MAIN), default_timeout=240).run()
    assert not at.error
    monkeypatch.setattr(link, "arrive", lambda: spin(60))
    with watched(Watchdog(1.0)):
        at.run(timeout=240)
    assert not at.exception
    assert len(at.error) == 1
    assert "It had computed for more than 60 s and was ended" in at.error[0].value
    monkeypatch.undo()
    assert not at.run().error


def test_a_walk_without_an_end_is_ended_again_where_it_swallows_the_first():
    dog = Watchdog(0.2)

    def stubborn() -> None:
        try:
            spin(60)
        except Exception:  # as a careless script would
            spin(60)

    with watched(dog):
        (ended,) = script(stubborn)
    assert isinstance(ended, Overdue)
    assert dog.ended == 2


def test_who_waits_or_compiles_is_not_ended():
    dog, within = Watchdog(0.2), {"__name__": "numba.core.compiler", "spin": spin}
    exec("def compile(): spin(0.8)", within)
    with watched(dog):
        assert script(lambda: time.sleep(0.8)) == []
        assert script(within["compile"]) == []
    assert dog.ended == 0


def test_whoever_has_the_number_of_a_script_that_has_ended_is_left_alone(monkeypatch):
    """Systems give a thread's number to the next one; ended in its first lines, it would hold up the whole server."""
    past = threading.Thread(target=lambda: None, name=f"ScriptRunner.{priority.SCRIPT}")
    past.start()
    past.join()
    monkeypatch.setattr(priority, "scripts", lambda: [past])
    dog, hurt = Watchdog(0.1), []

    def victim() -> None:
        past._ident = threading.get_ident()
        try:
            for _ in range(5):
                dog.look()
                spin(0.1)
        except Overdue as late:
            hurt.append(late)

    thread = threading.Thread(target=victim)
    thread.start()
    thread.join()
    assert hurt == []
    assert dog.ended == 0


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
        return self.collector.done


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


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_memory_stays_over_many_reruns():
    """Short for every day; `python -m tests.bench.sessions --think 0 --reruns 10000` is the long one."""
    port = free_port()
    with served(port) as process:
        run(load(port, 4, 0.0, 1e9, 60, process))
        before = process.memory_info().rss
        run(load(port, 4, 0.0, 1e9, 100, process))
        grown = process.memory_info().rss - before
    assert grown < 40e6, f"{grown / 100 / 1e3:.0f} kB a rerun"
