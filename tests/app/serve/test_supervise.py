"""What dies of a signal is served again, not for ever, and ends when it is asked to."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app.server import supervise
from tests.app.conftest import free_port
from tests.bench.sessions import answers

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.timeout(400)


def test_what_dies_of_a_signal_is_started_again_but_not_for_ever(tmp_path, capfd):
    log = tmp_path / "starts"
    die = f"import os; open({str(log)!r}, 'a').write('x'); os.kill(os.getpid(), 11)"
    assert supervise.supervise([sys.executable, "-c", die]) == 128 + signal.SIGSEGV
    assert log.read_text() == "x" * supervise._LIMIT
    assert "SIGSEGV" in capfd.readouterr().err


@pytest.mark.parametrize("status", [0, 3])
def test_what_ends_by_itself_stays_ended(tmp_path, status):
    log = tmp_path / "starts"
    end = f"import sys; open({str(log)!r}, 'a').write('x'); sys.exit({status})"
    assert supervise.supervise([sys.executable, "-c", end]) == status
    assert log.read_text() == "x"


def test_an_interrupt_ends_what_is_served():
    wait = "import time; print(1, flush=True); time.sleep(300)"
    keep = (
        "import sys; from app.server import supervise; sys.exit(supervise.supervise([sys.executable, *sys.argv[1:]]))"
    )
    with subprocess.Popen([sys.executable, "-c", keep, "-c", wait], cwd=ROOT, stdout=subprocess.PIPE) as keeper:
        try:
            assert keeper.stdout is not None
            keeper.stdout.readline()  # it is served
            (server,) = psutil.Process(keeper.pid).children()
            keeper.send_signal(signal.SIGINT)
            assert keeper.wait(30) == 0
            assert not server.is_running()
        finally:
            keeper.kill()


def test_the_server_comes_back_after_a_fault_and_ends_when_asked():
    port = free_port()
    command = [sys.executable, "-m", "app.server.supervise", "--server.port", str(port)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as keeper:
        try:
            answers(port, keeper)
            (server,) = psutil.Process(keeper.pid).children()
            server.send_signal(signal.SIGSEGV)
            server.wait(20)
            answers(port, keeper)
            (again,) = psutil.Process(keeper.pid).children()
            assert again.pid != server.pid
            keeper.send_signal(signal.SIGTERM)
            assert keeper.wait(30) == 0
            assert not again.is_running()
        finally:
            keeper.kill()
        assert keeper.stderr is not None
        said = keeper.stderr.read().decode()
    assert "Fatal Python error: Segmentation fault" in said
    assert "SIGSEGV" in said
