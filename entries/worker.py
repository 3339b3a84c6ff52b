"""A worker process: what runs there shares neither its caller's interpreter lock nor its faults, and can be ended.

Compiling, and libraries that trust what they read, hold the lock for tenths of a second, never return, fill the memory
or end their process. The process lives on between runs, so only the first one pays its start.
"""

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

_LOOK_S = 0.1  # between two looks at whether the run was given up
_LAST_S = 2.0  # that a process which closed its link may take to end
_NICE = 5  # the caller's own threads go first


class WorkerProcess:
    """One process, started when first asked for and again after it was stopped. For one caller at a time."""

    def __init__(self, seconds: float = 240.0) -> None:
        self.seconds = seconds  # of a run, its imports and compiling included
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Connection | None = None

    def call(self, job: Callable[..., Any], *args: Any, progress: Callable[[int, int], Any] = lambda *_: None) -> Any:
        """What ``job(*args, progress=...)``, a function of a module, returns there; raises what it raises.

        ``progress`` is called here with (done, of) ten times a second. Where it returns False, and after the limit, the
        process is ended: TimeoutError. ChildProcessError, with its exit status, where it ends by itself.
        """
        link = self._connect()
        until, state = monotonic() + self.seconds, (0, 1)
        try:
            link.send((job, args))
            while True:
                if link.poll(_LOOK_S):
                    kind, content = link.recv()
                    if kind == "result":
                        return content
                    if kind == "error":
                        raise content
                    state = content
                if progress(*state) is False or monotonic() > until:
                    self.stop()
                    raise TimeoutError
        except (EOFError, ConnectionError):
            raise ChildProcessError(self.stop(_LAST_S)) from None

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

    def _connect(self) -> Connection:
        if self._link is not None and self._process is not None and self._process.poll() is None:
            return self._link
        self.stop()
        ours, theirs = socketpair()
        path = os.pathsep.join(dict.fromkeys(os.path.abspath(part) for part in sys.path))  # what is found here is there
        command = [sys.executable, "-c", f"from entries.worker import serve; serve({theirs.fileno()})"]
        with theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                env=os.environ | {"PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._link = Connection(ours.detach())
        return self._link


def serve(descriptor: int) -> None:
    """The worker: runs what it is sent until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller's to handle: it closes the link
    os.nice(_NICE)
    with Connection(descriptor) as link:

        def report(count: int, of: int) -> bool:
            link.send(("progress", (count, of)))
            return True

        while True:
            try:
                request = link.recv_bytes()
            except EOFError:
                return
            try:
                job, args = pickle.loads(request)  # from the process that started this one
                answer = ("result", job(*args, progress=report))
            except Exception as error:  # the caller's to handle, whatever it is
                answer = ("error", error)
            try:
                link.send(answer)
            except ConnectionError:
                return
