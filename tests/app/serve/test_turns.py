"""A sweep gives way to other sessions' pages, and never for good."""

import os
import sys
import threading

import pytest
from streamlit.testing.v1 import AppTest

from app.shared import priority


@pytest.fixture
def script():
    """Starts threads that run until the test ends, named as Streamlit names those of pages."""
    end = threading.Event()
    started = []

    def start(work=end.wait) -> threading.Thread:
        started.append(threading.Thread(target=work, name=f"ScriptRunner.{priority.SCRIPT}"))
        started[-1].start()
        return started[-1]

    start.end = end
    yield start
    end.set()
    for thread in started:
        thread.join()


class Clock:
    """Time that passes only where somebody sleeps; at a moment of it something may happen."""

    def __init__(self) -> None:
        self.now, self.at, self.then = 100.0, float("inf"), lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self.at:
            self.at = float("inf")
            self.then()


@pytest.fixture
def clock(monkeypatch) -> Clock:
    mine = Clock()
    monkeypatch.setattr(priority, "time", mine)
    return mine


def waited(clock: Clock) -> float:
    began = clock.now
    priority.give_way()
    return clock.now - began


def test_nobody_waits_where_no_page_runs(clock):
    assert waited(clock) == 0


def test_a_page_is_waited_for_until_it_is_done_and_a_moment_longer(script, clock):
    page = script()

    def done() -> None:
        script.end.set()
        page.join()

    clock.at, clock.then = clock.now + 0.08, done
    assert waited(clock) == pytest.approx(0.08 + priority._AFTER_S, abs=3 * priority._STEP_S)


def test_the_wait_is_bounded_and_long_work_in_a_script_is_not_waited_for(script, clock, monkeypatch):
    script()
    assert waited(clock) == pytest.approx(priority._MOST_S, abs=2 * priority._STEP_S)
    monkeypatch.setattr(priority, "_QUICK_S", 0.0)
    assert waited(clock) == 0


def test_a_script_that_watches_work_itself_is_not_waited_for(script, clock):
    watching = threading.Event()

    def watch() -> None:
        with priority.patient():
            watching.set()
            script.end.wait()

    script(watch)
    watching.wait()
    assert waited(clock) == 0


def test_background_threads_stand_behind_pages():
    found = priority.background().submit(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())).result()
    assert found >= os.getpriority(os.PRIO_PROCESS, 0) + 1


def test_streamlit_names_its_scripts_as_assumed(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # the page takes its place and is gone

    def page() -> None:
        import threading

        import streamlit as st

        st.text(threading.current_thread().name)

    assert AppTest.from_function(page).run().text[0].value.endswith(priority.SCRIPT)
