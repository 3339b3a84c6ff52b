"""Work of the Sweep page on a thread of its own, in its turn among this server's. The thread never calls Streamlit."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from app.shared import priority
from app.shared.sweep_queue import QUEUE
from app.views.sweep import texts

_POLL_S = 0.03
_PATIENCE_S = 0.3  # that a page waits for what it stopped


class QueuedWork(ABC):
    """Work that a page asked for, on a thread of its own once its turn among this server's has come.

    Whoever iterates it sees the share that is done; leaving the loop, by an exception too, stops what can be stopped.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._began = time.monotonic()
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    @property
    def share(self) -> float:
        """What of it is done. [-]"""
        return 0.0

    def told(self) -> str:
        """Before its turn, how many are before it."""
        ahead = QUEUE.ahead(self)
        return texts.WAITING.format(ahead=ahead, plural="s" if ahead > 1 else "") if ahead else ""

    @abstractmethod
    def _do(self) -> None:
        """The work itself, on its thread."""

    def _work(self) -> None:
        with QUEUE.turn(self, self._stop) as mine:
            if not mine:
                return
            self._began = time.monotonic()
            try:
                self._do()
            except Exception as error:  # handed to whoever waits: a thread of its own has nobody else to tell
                self._error = error

    def __iter__(self) -> Iterator[float]:
        QUEUE.queue(self)
        thread = self._thread = threading.Thread(target=self._work, name="sweep", daemon=True)
        self._began = time.monotonic()
        thread.start()
        try:
            with priority.patient():
                while thread.is_alive():
                    thread.join(_POLL_S)
                    yield self.share
        finally:
            self._stop.set()
            if thread is not threading.current_thread():  # where garbage is collected on the work's own thread
                thread.join(_PATIENCE_S)
        if self._error is not None:
            raise self._error


class Question(QueuedWork):
    """A question beside a sweep, as what moves a figure most: `answer` once the loop over it is over."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        super().__init__()
        self._ask = ask
        self.answer: Any = None

    def told(self) -> str:
        """Before its turn, how many are before it."""
        return super().told() or texts.ASKED

    def _do(self) -> None:
        self.answer = priority.background().submit(self._ask).result()
