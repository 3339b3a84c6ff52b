"""The server as `make run` starts it: whom it answers, whom it asks, and what it says of its health."""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from app.server.guard import Guard, Health, foreign, names
from app.views.traffic.controls import _TRACE_MAX
from tests.app.conftest import free_port
from tests.app.loops import run

ROOT = Path(__file__).parents[3]
OURS = frozenset({"localhost", "desk"})
# Starts Streamlit with a hook on whatever asks for a name or opens a way out; each is a line of the file argv[1]
WATCHED = """
import runpy, sys
log = open(sys.argv[1], "a", buffering=1)
def near(host):
    text = host.decode() if isinstance(host, bytes) else str(host)
    return text in ("None", "127.0.0.1", "::1", "0.0.0.0", "localhost", "")
def heard(event, args):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        host = args[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    if not near(host):
        log.write(f"{event} {host}\\n")
sys.addaudithook(heard)
sys.argv = ["streamlit", *sys.argv[2:]]
runpy.run_module("streamlit", run_name="__main__")
"""


class Served:
    """A server of one's own and the names it asked for."""

    def __init__(self, port: int, log: Path) -> None:
        self.port, self.log = port, log

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
        to = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        to.request("GET", path, headers=headers)
        answer = to.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode(errors="replace")

    def joins(self, origin: str | None, host: str | None = None) -> bool:
        """Whether a socket opens."""

        async def ask() -> bool:
            uri, to = f"ws://{host or '127.0.0.1'}:{self.port}/_stcore/stream", ("127.0.0.1", self.port)
            try:
                async with connect(uri, origin=origin, subprotocols=["streamlit"], host=to[0], port=to[1]):
                    return True
            except InvalidStatus as refused:
                return refused.response.status_code != 403

        return run(ask())

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    log, port = tmp_path_factory.mktemp("served") / "asked", free_port()
    log.touch()
    command = [sys.executable, "-c", WATCHED, str(log), "run", "app/serve.py", "--server.port", str(port)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    me = Served(port, log)
    try:
        deadline = time.monotonic() + 240
        while True:
            try:
                if me.get("/_stcore/health")[2] == "ok":
                    break
            except OSError:
                assert process.poll() is None, process.stdout.read().decode()
            assert time.monotonic() < deadline, "no ok within 240 s"
            time.sleep(0.2)
        yield me
    finally:
        process.terminate()
        process.wait(20)


pytestmark = [pytest.mark.timeout(600)]


def test_nobody_else_is_asked_at_the_start_or_for_a_stranger(served):
    """Streamlit alone asks a public service for this machine's address, at a headless start and for each stranger."""
    assert served.get("/")[0] == 200
    assert served.joins(f"http://127.0.0.1:{served.port}")
    assert not served.joins("https://evil.example")
    assert not served.joins("null")
    assert served.asked() == []


def test_a_name_that_is_not_ours_is_refused_on_every_way_in(served):
    for path in ("/", "/_stcore/health", "/_stcore/host-config", "/static/none.js"):
        status, _, text = served.get(path, Host="evil.example")
        assert status == 403
        assert text.startswith("Host 'evil.example' is not this server's; allowed are addresses and ")
    assert not served.joins(None, "evil.example")
    assert not served.joins("http://evil.example", "evil.example")
    assert served.joins(None)


def test_the_first_page_answers_under_its_name(served):
    for path, to in (("/home", "/?"), ("/home?system=h100-sxm&batch=8", "/?system=h100-sxm&batch=8")):
        status, headers, _ = served.get(path)
        assert (status, headers["location"]) == (307, to)
    assert served.get("/home", Host="evil.example")[0] == 403


def test_every_answer_says_what_a_page_may_do(served):
    for path in ("/", "/compare", "/_stcore/health"):
        headers = served.get(path)[1]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "http" not in headers["content-security-policy"]
    config = json.loads(served.get("/_stcore/host-config")[2])
    assert config["allowedOrigins"] == []


def test_defaults_keep_the_app_to_this_machine_and_uploads_to_its_own_limit():
    code = "from streamlit import config as c; print(*map(c.get_option, ('server.address', 'browser.serverAddress', "
    code += "'client.showErrorLinks', 'server.maxUploadSize', 'runner.postScriptGC')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    address, named, links, size, collects = done.stdout.split()
    assert (address, named, links.lower(), collects) == ("127.0.0.1", "localhost", "false", "False")
    assert _TRACE_MAX <= int(size) * 2**20 < _TRACE_MAX + 2**20
    make = (ROOT / "Makefile").read_text()
    assert "\nHOST = 127.0.0.1\n" in make  # not ?=: some shells have a HOST of their own
    assert "--server.address $(HOST)" in make


@pytest.mark.parametrize(
    ("host", "origin", "ours"),
    [
        ("localhost:8501", None, True),
        ("LOCALHOST.", None, True),
        ("127.0.0.1:8501", "http://127.0.0.1:8501", True),
        ("[::1]:8501", "http://[::1]:8501", True),
        ("10.0.0.7", None, True),
        ("desk:8501", "http://desk:8501", True),
        ("localhost:8501", "https://desk", True),  # a proxy that is asked under a name of ours
        ("localhost:8501", "http://localhost:9999", False),  # another server of this machine is another site
        ("localhost:8501", "http://10.0.0.7", False),
        ("localhost:8501", "null", False),
        ("localhost.evil.example", None, False),
        ("127.0.0.1.evil.example", None, False),
        ("desk@evil.example", None, False),
        ("evil.example", "http://evil.example", False),
        ("localhost:x", None, False),
        ("", None, False),
    ],
)
def test_who_is_ours(host, origin, ours):
    assert (foreign(host, origin, OURS) is None) == ours


@given(st.text(max_size=60), st.none() | st.text(max_size=60))
def test_no_header_crashes_and_no_stranger_passes(host, origin):
    try:
        wrong = foreign(host, origin, OURS)
    except ValueError as error:
        pytest.fail(f"{host!r}, {origin!r}: {error}")
    assert wrong is None or "\n" not in wrong


def test_names_come_from_the_machine_and_from_who_starts_it(monkeypatch):
    monkeypatch.setenv("INFERSCAPE_HOSTS", "App.Example.com, other.example.")
    assert {"localhost", "app.example.com", "other.example"} <= names()


def answers(health: Health) -> tuple[int, str]:
    """What the guard says of a server whose Streamlit says ok."""
    said: list[dict] = []

    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def send(message):
        said.append(message)

    scope = {"type": "http", "path": "/_stcore/health", "headers": [(b"host", b"localhost")]}
    run(Guard(inner, health, OURS)(scope, None, send))
    return said[0]["status"], said[1]["body"].decode()


def test_health_is_ok_only_where_work_gets_done(monkeypatch):
    assert answers(Health(lambda: None)) == (200, "ok")

    def fails():
        raise FileNotFoundError("no usable temporary directory")

    status, told = answers(Health(fails))
    assert status == 503
    assert told == "a scenario can't be evaluated: FileNotFoundError: no usable temporary directory"


def test_health_works_seldom_and_says_when_work_does_not_end(monkeypatch):
    done = []
    health = Health(lambda: done.append(1))
    assert [health.status() for _ in range(5)] == ["ok"] * 5
    assert len(done) == 1
    end = threading.Event()
    stuck = Health(end.wait)
    thread = threading.Thread(target=stuck.status)
    thread.start()
    while not stuck._began:
        time.sleep(0.01)
    assert stuck.status() == "starting"
    monkeypatch.setattr("app.server.guard._LATE_S", 0.0)
    assert "has not ended" in stuck.status()
    end.set()
    thread.join()
    assert stuck.status() == "ok"


@pytest.mark.parametrize("lacks", ["temporary folder", "home"])
def test_a_server_without_a_folder_to_write_in_still_answers(lacks):
    code = "import os, tempfile, pwd\n"
    if lacks == "temporary folder":
        code += "def none():\n    raise FileNotFoundError('no such folder')\ntempfile.gettempdir = none\n"
    else:
        code += "os.environ.pop('HOME', None)\ndef nobody(uid):\n    raise KeyError(uid)\npwd.getpwuid = nobody\n"
    code += "from engine.evaluate import evaluate; from engine.resolve.presets import preset\n"
    code += "print(evaluate(preset('brainwave-gru').scenario).fits)\n"
    env = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "INFERSCAPE_CATALOG")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env=env | {"PYTHONPATH": str(ROOT)},
    )
    assert done.stdout == "True\n", done.stderr[-500:]
