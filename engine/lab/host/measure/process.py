"""A run in a process of its own: whoever serves pages shares neither its interpreter's lock nor its faults with it.

Compiling, making buffers and checking them in float64 hold the interpreter's lock for tenths of a second; beside a
server that is how long every page would wait. The process lives on between runs, so only the first one pays its start.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from socket import socketpair
from time import monotonic
from typing import Any

from engine.lab.host.measure.cases import MeasureError
from engine.lab.timing import MeasurementCancelled, Progress

_LOOK_S = 0.1  # between two looks at whether the run was given up
_LAST_S = 2.0  # that a process which closed its link may take to end
_NICE = 5  # the server's own threads go first


class MeasuringProcess:
    """One measuring process, started when first asked for and again after it was stopped. For one caller at a time."""

    def __init__(self, limit_s: float = 240.0) -> None:
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Connection | None = None

    def run(self, job: Callable[..., Any], *args: Any, progress: Progress) -> Any:
        """What ``job(*args, progress=...)`` returns there; raises what it raises.

        ``job`` is a function of a module. The process is ended when ``progress`` returns False
        (`MeasurementCancelled`), and after the limit, compiling included (`MeasureError`).
        """
        link = self._started()
        until, told = monotonic() + self._limit_s, (0, 1)
        try:
            link.send((job, args))
            while True:
                if link.poll(_LOOK_S):
                    kind, content = link.recv()
                    if kind == "result":
                        return content
                    if kind == "error":
                        raise content
                    told = content
                if progress is not None and progress(*told) is False:
                    self.stop()
                    raise MeasurementCancelled
                if monotonic() > until:
                    self.stop()
                    raise MeasureError(f"the run took longer than {self._limit_s:.0f} s, the most allowed")
        except (EOFError, ConnectionError):
            code = self.stop(_LAST_S)
            raise MeasureError(f"the measuring process ended by itself (status {code}); nothing was measured") from None

    def stop(self, patience_s: float = 0.0) -> int | None:
        """End the process, if it does not end by itself within ``patience_s``; its exit status."""
        process, link, self._process, self._link = self._process, self._link, None, None
        if link is not None:
            link.close()
        if process is None:
            return None
        try:
            return process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _started(self) -> Connection:
        if self._link is not None and self._process is not None and self._process.poll() is None:
            return self._link
        self.stop()
        ours, theirs = socketpair()
        path = os.pathsep.join(dict.fromkeys(os.path.abspath(part) for part in sys.path))  # what is found here is there
        command = [
            sys.executable,
            "-c",
            "import sys; from engine.lab.host.measure.process import serve; serve(int(sys.argv[1]))",
        ]
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env=os.environ | {"PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
            )
        self._link = Connection(ours.detach())
        return self._link


def serve(descriptor: int) -> None:
    """The measuring process: runs what it is sent until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server's to handle: it closes the link
    os.nice(_NICE)
    with Connection(descriptor) as link:

        def told(done: int, of: int) -> bool:
            link.send(("progress", (done, of)))
            return True

        while True:
            try:
                asked = link.recv_bytes()
            except EOFError:
                return
            try:
                job, args = pickle.loads(asked)  # from the process that started this one
                answer = ("result", job(*args, progress=told))
            except Exception as error:  # the caller's to handle, whatever it is
                answer = ("error", error)
            try:
                link.send(answer)
            except ConnectionError:
                return
