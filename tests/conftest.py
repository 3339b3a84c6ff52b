"""Which tests share a process where several run them: what is trained, served or evaluated once is needed once."""

import gc
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.effort import examples
from tests.green import ROOT, digest_of, green, keep

# Before numpy is loaded, here and in what tests start: several threads of BLAS wait for each other by spinning, and two
# processes of tests on two cores then take ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Compiled files are kept: else each of these processes, and each that a test starts, compiles every file anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

hypothesis.settings.register_profile("house", max_examples=examples(100), deadline=None)
hypothesis.settings.load_profile("house")

TOGETHER = {
    "reach": ("app/browser/test_accessible.py", "app/browser/test_reach.py"),  # half of the walks, with a server
    "browser": ("app/browser/",),  # the other half, with a server and a browser of its own
    "lab": (  # networks trained and the host probed for all of them, in one measuring process
        *("reference/lab/numerics/", "app/numerics/", "reference/lab/host/", "laws/lab/", "app/kernels/"),
    ),
    "choose": ("laws/choose/", "app/choose/"),  # the questions that the page offers answered
    "published": ("published/", "app/published/"),  # every claim predicted
    "architecture": ("architecture/",),  # every source parsed
}
"""Groups that take minutes and so start first, with the paths of their files; any other file is a group of its own."""
LONG = ("laws/", "reference/", "app/serve/")
"""Rooms with files of a minute: at the end of a run, one of those would keep one process alone."""


def group_of(test: str) -> str:
    """The group of a test by its node id, e.g. `tests/app/sweep/test_x.py::test_y[z]`."""
    file = test.split("::", maxsplit=1)[0].removeprefix("tests/")
    return next((name for name, paths in TOGETHER.items() if file.startswith(paths)), file)


def place_of(test: str) -> int:
    """When it starts, by its node id: what takes minutes, then rooms with files of a minute, then the rest. [-]"""
    names, group = list(TOGETHER), group_of(test)
    return names.index(group) if group in names else len(names) + (not group.startswith(LONG))


class ByGroup(LoadScopeScheduling):
    """Deals out whole groups. (The plugin's own groups, by a mark, hold no more with pytest 9.2: it lost `_nodeid`.)"""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process more than cores where there is a browser: who drives it waits for it most of its time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    return cores + ("not browser" not in config.option.markexpr)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByGroup:
    config.option.loadscopereorder = False  # by length, as below, not by number of tests
    return ByGroup(config, log)


WALKS = {
    "test_a_preset_link_opens_in_a_fresh_browser_and_back_and_forward_walk_the_changes",
    "test_pages_keep_the_scenario_and_history",
    "test_exports_download_with_units_token_and_versions_and_charts_take_the_other_theme",
    "test_an_edit_just_after_a_pick_keeps_both",
    "test_a_clicked_design_opens_as_its_scenario",
    "test_a_scenario_kept_in_the_browser_opens_after_a_reload_and_can_be_removed",
    "test_explore_is_read_changed_and_left_by_keys",
}
"""Walks in a browser of every run; the others wait for a run of all tests."""


def waits(item: pytest.Item) -> bool:
    """Whether a test is part of CI and `make soak` (INFERSCAPE_TESTS=all) and of a run that names its file alone."""
    if item.get_closest_marker("browser"):
        return item.nodeid.split("::")[-1].split("[")[0] not in WALKS
    return item.get_closest_marker("whole") is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--changed", action="store_true", help="only tests for which something changed since they passed")


GREEN = pytest.StashKey[set[str]]()
"""Tests that a run leaves out: it says so before it begins, and its other processes hear of them."""


def _deals(config: pytest.Config) -> bool:
    """Whether this process deals the tests out to several."""
    return getattr(config.option, "dist", "no") != "no" and not hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    told = getattr(config, "workerinput", {}).get("green", ())
    if _deals(config):
        for file in ROOT.glob("tests/**/test_*.py"):  # as they are now, whatever is edited while they run
            digest_of(file.relative_to(ROOT).as_posix())
        told = green() if config.option.changed else ()
    config.stash[GREEN] = set(told)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["green"] = sorted(node.config.stash[GREEN])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if left := len(terminalreporter.config.stash[GREEN]):
        terminalreporter.write_line(f"{left} tests passed before with all that they follow from as it is: left out")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays: Python's collector of cycles looks at none of it, now or later."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = any(".py" in path or "browser" in path for path in config.args)
    if os.environ.get("INFERSCAPE_TESTS") != "all" and not named:
        others = {item for item in items if waits(item) or item.nodeid in config.stash[GREEN]}
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=list(others))
    slow = set(SLOW.read_text().splitlines())
    for item in items:
        if slow & {item.nodeid.split("[")[0], item.nodeid.split("::")[0]}:
            item.add_marker("slow")
    items.sort(key=lambda item: place_of(item.nodeid))


SLOW = Path(__file__).with_name("slow-tests.txt")
"""Tests of more than 0.3 s of CPU time in the rooms of `make check`, which leaves them out, and files of such tests."""
SLOWEST = Path(__file__).parents[1] / "build" / "slowest-tests.txt"
"""Written by a run of several processes: seconds of the files of tests and of single tests, the slowest first."""
_SECONDS: dict[str, float] = defaultdict(float)
_PASSED: dict[str, bool] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _SECONDS[report.nodeid] += report.duration
    _PASSED[report.nodeid] = _PASSED.get(report.nodeid, True) and report.passed


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In the process that deals out the tests, what passed and what took how long is written down."""
    if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.stash[GREEN]:
        session.exitstatus = pytest.ExitCode.OK
    if _deals(session.config):
        keep(_PASSED)
        files: dict[str, float] = defaultdict(float)
        for test, seconds in _SECONDS.items():
            files[test.split("::", maxsplit=1)[0]] += seconds
        listed = (sorted(of.items(), key=lambda row: -row[1])[:100] for of in (files, _SECONDS))
        SLOWEST.parent.mkdir(exist_ok=True)
        SLOWEST.write_text("\n\n".join("\n".join(f"{s:8.2f} {name}" for name, s in rows) for rows in listed) + "\n")


@pytest.fixture(autouse=True)
def program() -> Iterator[None]:
    """The main module stays what it was: Streamlit's tests put a page's file there, which new processes would run."""
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before
