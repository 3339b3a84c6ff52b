"""A sweep gives way to other sessions' pages, and never for good."""

import os
import sys
import threading
import time

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


def waited() -> float:
    began = time.monotonic()
    priority.give_way()
    return time.monotonic() - began


def test_nobody_waits_where_no_page_runs():
    assert waited() < 0.05


def test_a_page_is_waited_for_until_it_is_done_and_a_moment_longer(script):
    threading.Timer(0.08, script.end.set).start()
    script()
    assert 0.1 < waited() < 0.25


def test_the_wait_is_bounded_and_long_work_in_a_script_is_not_waited_for(script, monkeypatch):
    script()
    assert 0.2 < waited() < 0.5
    monkeypatch.setattr(priority, "_QUICK_S", 0.0)
    assert waited() < 0.05


def test_a_script_that_watches_work_itself_is_not_waited_for(script):
    watching = threading.Event()

    def watch() -> None:
        with priority.patient():
            watching.set()
            script.end.wait()

    script(watch)
    watching.wait()
    assert waited() < 0.05


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
