"""What `make run` compiles beside the app ends with it, processes and all."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest


def until(ready: Callable[[], bool], limit_s: float = 60.0) -> bool:
    """Whether something callable is true within the limit."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if ready():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not list processes in /proc")
def test_its_processes_end_with_it(tmp_path: Path) -> None:
    """A user who stops the app while kernels are compiled finds no process of ours that goes on."""
    command = [sys.executable, "-m", "engine.cli.warm"]
    warm = subprocess.Popen(command, env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)}, start_new_session=True)
    children = Path(f"/proc/{warm.pid}/task/{warm.pid}/children")
    try:
        assert until(lambda: len(children.read_text().split()) >= 2)
        family = [Path(f"/proc/{pid}") for pid in children.read_text().split()]
        time.sleep(2.0)  # its workers import and begin
        warm.terminate()
        assert warm.wait(30.0) == 143
        assert until(lambda: not any(child.exists() for child in family))
    finally:
        warm.kill()
