"""A browser and the served app for the walks: one of each, and a fresh context a visitor; what pages share."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import app_test, local_script_runner

from app.main import ROOMS
from engine.resolve.presets import PRESETS
from engine.scenario import encode

ROOT = Path(__file__).parents[2]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
FLAGS += ["--js-flags=--no-opt --no-maglev --single-threaded"]
"""No page is open for as long as compiling its scripts takes to pay: a sixth of a browser's time."""
DESK = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce"}
"""A desk, where nothing turns and glides: animation drawn without a GPU takes half of a browser's time."""
PATIENCE_MS = 240_000  # a cold cache compiles on the first visit
PROBES = ("/_stcore/health", "/_stcore/host-config")  # Streamlit's own, under a deep link


@pytest.fixture(scope="session", autouse=True)
def shared() -> Iterator[None]:
    """What Streamlit's server works out once, and its tests at each new visitor (0.35 of his 0.6 CPU-s) and each run of
    a script (a twentieth of it): components of installed packages, and scripts as bytecode."""
    with pytest.MonkeyPatch.context() as patch:
        name, scripts = "scan_component_manifests", ScriptCache()
        patch.setattr(manifest_scanner, name, cache(getattr(manifest_scanner, name)))
        for module in (app_test, local_script_runner):
            patch.setattr(module, "ScriptCache", lambda: scripts)
        yield


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The app, served as `make run` does."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app/serve.py", "--server.port", str(port)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 180
        while True:
            try:
                with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
                    assert answer.read() == b"ok"
                break
            except OSError:
                assert time.monotonic() < deadline, "the server did not answer ok within 180 s"
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    """A browser; without one the walks are skipped, except in CI, where they fail."""
    if not Path(CHROMIUM).exists():
        if os.environ.get("CI"):
            pytest.fail(f"no Chromium at {CHROMIUM}: the walks are part of CI")
        pytest.skip(f"no Chromium at {CHROMIUM}; set CHROMIUM to its path")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


MOVED = "to => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }"


class Visitor:
    """A page of its own: what it asked for from elsewhere, and what its console complained about."""

    def __init__(self, context: object, server: str) -> None:
        self.server, self.context = server, context
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = context.new_page()
        self.outside: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda r: self._asked(r.url))
        self.page.on("response", lambda r: self._answered(r.status, r.url))
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on("console", lambda m: self._logged(m.text))

    def _asked(self, url: str) -> None:
        if not url.startswith((self.server, self.server.replace("http", "ws"), "data:", "blob:")):
            self.outside.append(url)

    def _answered(self, status: int, url: str) -> None:
        if status >= 400 and not url.split("?", maxsplit=1)[0].endswith(PROBES):
            self.complaints.append(f"{status} {url}")

    def _logged(self, text: str) -> None:
        if "Content Security Policy" in text or "Client Error" in text:
            self.complaints.append(text)

    def open(self, path: str) -> "Visitor":
        self.page.goto(self.server + path)
        return self.settled()

    def turned_to(self, path: str) -> None:
        """Another address of the open app, as Back comes to one: a load of its scripts costs more than its page."""
        self.page.evaluate(MOVED, path)
        self.settled(anew=True)

    def left(self) -> None:
        """The app is left, and nothing that it kept in the browser stays there."""
        self.page.goto(self.server + PROBES[0])
        self.page.evaluate("localStorage.clear(), sessionStorage.clear()")
        self.context.clear_cookies()

    def settled(self, anew: bool = False) -> "Visitor":
        """Wait until the script has stopped and stays stopped, and nothing shows a skeleton.

        `anew` counts from now: just after a click the script has yet to start. Six looks as well as a time: a page kept
        from its core for a second would be looked at once, before it has told the server of the click.
        """
        if anew:
            self.page.evaluate("window.still = 0, window.looks = 0")
        self.page.wait_for_function(
            """() => {
                const dialog = document.querySelector('[role=dialog]');
                if (dialog && dialog.innerText.startsWith('Connection error')) return true;
                const app = document.querySelector('[data-testid=stApp]');
                const still = app && app.dataset.testScriptState === 'notRunning'
                    && !document.querySelector('[data-testid=stSkeleton]')
                    && document.querySelectorAll('[data-testid=stMarkdown]').length > 2;
                window.still = still ? (window.still || Date.now()) : 0;
                window.looks = still ? (window.looks || 0) + 1 : 0;
                return window.looks > 5 && Date.now() - window.still > 600;
            }""",
            timeout=480_000,
            polling=100,
        )
        assert self.complaints == []
        return self

    def turn_to(self, page: str) -> None:
        """Another page: its room, then its tab, each where the page is elsewhere."""
        name = page.lower()
        room, tabs = next((room, tabs) for room, tabs in ROOMS.items() if name in tabs)
        tab = self.page.locator(".st-key-tabs").get_by_role("link", name=tabs[name], exact=True)
        if tab.count() == 0:
            self.page.locator("[data-testid=stTopNav]").get_by_role("link", name=room, exact=True).click()
        if name != next(iter(tabs)):
            tab.click()

    def numbers(self) -> object:
        """The values of the page's tiles, as what can be waited for."""
        return self.page.locator("[data-testid=stMetricValue]")

    def metrics(self) -> list[str]:
        return self.numbers().all_inner_texts()

    def shows(self, numbers: list[str]) -> bool:
        """Whether the page comes to show these numbers: going back moves the address before the script runs."""
        deadline = time.monotonic() + 120
        while self.settled().metrics() != numbers:
            if time.monotonic() > deadline:
                return False
        return True

    def leaves(self, numbers: list[str]) -> bool:
        """Whether the page comes to show other numbers than these."""
        deadline = time.monotonic() + 120
        while self.settled().metrics() in ([], numbers):
            if time.monotonic() > deadline:
                return False
        return True

    def token(self) -> str:
        return self.page.evaluate("new URLSearchParams(location.search).get('s')")


@pytest.fixture(scope="session")
def regulars(chromium, server) -> Iterator[list[Visitor]]:
    """Who comes again and again: scripts that are parsed already save 3 of the 8 CPU seconds of a newcomer's page."""
    found = [Visitor(chromium.new_context(**DESK), server)]
    yield found
    found[0].context.close()


@pytest.fixture
def visit(chromium, server, regulars) -> Iterator[object]:
    """Opens a page: the first of a test as the regular visitor, who keeps nothing; any other in a fresh browser."""
    from playwright.sync_api import Error

    visitors: list[Visitor] = []

    usual = f"/?s={encode(PRESETS['dfx-1.5b'].scenario)}"

    def opened(path: str = usual, scheme: str = "light", wire: object = None, **context: object) -> Visitor:
        if visitors or context:
            me = Visitor(chromium.new_context(**DESK | context), server)
        elif wire:  # it stays in the page
            me = Visitor(regulars[0].context, server)
            wire.meets(me.page)
        else:
            me = regulars[0]
        me.page.emulate_media(color_scheme=scheme)
        visitors.append(me)
        return me.open(path)

    yield opened
    for me in visitors:
        if me.context is not regulars[0].context:
            me.context.close()
            continue
        try:
            me.left()
        except Error:  # a page that died is not left to the next test
            regulars[0] = Visitor(chromium.new_context(**DESK), server)
            raise
        if me is not regulars[0]:
            me.page.close()
    found = [(list(me.outside), list(me.complaints)) for me in visitors]
    regulars[0].outside.clear()
    regulars[0].complaints.clear()
    assert all(outside == [] for outside, _ in found), f"the page asked somebody else: {found}"
    assert all(complaints == [] for _, complaints in found), found
