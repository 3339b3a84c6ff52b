"""How long readers wait when many read at once: sessions over Streamlit's own wire, each asking, reading, asking again.

    python -m tests.bench.sessions --sessions 20 50 100 --think 5 --seconds 40
    python -m tests.bench.sessions --sessions 8 --think 0 --reruns 10000     # memory along the way
    python -m tests.bench.sessions --with --runner.postScriptGC=true         # the same with an option of Streamlit's

Starts a server of its own, as `make run` does. A rerun is a whole run of Explore with another batch of a preset; it
lasts from the question to Streamlit's word that the script has ended. Thinking times are uniform within
half of the mean. The readers share the machine with the server, so figures are comparable on one machine in one go,
and nowhere else.
"""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlencode

import psutil
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from engine.resolve.presets import PRESETS
from engine.scenario import encode

__all__ = ["Reader", "answers", "load", "served"]

ROOT = Path(__file__).parents[2]
_START_S = 180.0


def answers(port: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until a server on ``port`` of this host says that it works."""
    deadline = time.monotonic() + _START_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as answer:
                if answer.read() == b"ok":
                    return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@contextmanager
def served(
    port: int, options: tuple[str, ...] = (), log: IO[bytes] | int = subprocess.DEVNULL, **env: str
) -> Iterator[psutil.Process]:
    """The app's process, served on ``port`` of this host; what it says goes to ``log``."""
    command = [sys.executable, "-m", "streamlit", "run", "app/serve.py", "--server.port", str(port), *options]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
        stdout=log,
        stderr=log,
    )
    try:
        answers(port, process)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:  # it hangs: that is for the readers' errors to say
            process.kill()
            process.wait()


class Reader:
    """One browser's session: asks for a page and waits until its script has ended."""

    def __init__(self, socket: ClientConnection, seed: int) -> None:
        self.socket = socket
        self.random = random.Random(seed)
        self.waits: list[float] = []
        self.heard: Counter[str] = Counter()  # messages since the last question, by kind

    async def ask(self, query: dict[str, str], question: BackMsg | None = None) -> float:
        """Seconds of one rerun; AssertionError where it did not end well."""
        question = question or BackMsg()
        question.rerun_script.query_string = urlencode(query)
        began = time.perf_counter()
        self.heard.clear()
        await self.socket.send(question.SerializeToString())
        while True:
            said = ForwardMsg()
            data = await self.socket.recv()
            assert isinstance(data, bytes)
            said.ParseFromString(data)
            kind = said.WhichOneof("type")
            self.heard[kind or ""] += 1
            assert (
                kind != "delta"
                or said.delta.WhichOneof("type") != "new_element"
                or (said.delta.new_element.WhichOneof("type") != "exception")
            ), said
            if kind == "script_finished":
                assert said.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
                return time.perf_counter() - began

    def query(self) -> dict[str, str]:
        """A preset with a batch of one's own."""
        scenario = PRESETS["wide-deep-int8"].scenario
        return {"s": encode(scenario.with_(batch=self.random.randint(1, 256)))}


async def _read(port: int, seed: int, think: float, until: float, most: list[int]) -> list[float]:
    address = f"ws://127.0.0.1:{port}/_stcore/stream"
    protocols = [Subprotocol("streamlit")]
    async with connect(address, subprotocols=protocols, max_size=None, compression=None) as socket:
        me = Reader(socket, seed)
        await me.ask(me.query())  # the first run of a session, its arrival, is not measured
        while time.monotonic() < until and most[0] > 0:
            await asyncio.sleep(me.random.uniform(0.5, 1.5) * think)
            most[0] -= 1
            me.waits.append(await me.ask(me.query()))
        return me.waits


async def load(
    port: int, sessions: int, think: float, seconds: float, reruns: int, process: psutil.Process, told: float = 0
) -> list[float]:
    """Seconds of every rerun of so many sessions, for so long or until there were so many reruns."""
    left, until = [reruns], time.monotonic() + seconds
    readers = [asyncio.create_task(_read(port, seed, think, until, left)) for seed in range(sessions)]
    shown = reruns
    while told and not all(reader.done() for reader in readers):
        await asyncio.sleep(0.05)
        if shown - left[0] >= told:
            shown = left[0]
            print(f"  {reruns - shown:>6,} reruns: {process.memory_info().rss / 1e6:.0f} MB", flush=True)
    return [wait for waits in await asyncio.gather(*readers) for wait in waits]


def main() -> None:
    """Measure and print a line a number of sessions."""
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--sessions", type=int, nargs="+", default=[20, 50, 100])
    read.add_argument("--think", type=float, default=5.0, help="mean time between an answer and the next question [s]")
    read.add_argument("--seconds", type=float, default=40.0, help="of each number of sessions")
    read.add_argument("--reruns", type=int, default=0, help="stop after so many, and print memory along the way")
    read.add_argument("--port", type=int, default=8599)
    asked, options = read.parse_known_args()
    with served(asked.port, tuple(o for o in options if o != "--with")) as process:
        asyncio.run(load(asked.port, 2, 0.1, 5.0, 20, process))  # warm
        for sessions in asked.sessions:
            most, seconds = (asked.reruns, 1e9) if asked.reruns else (10**9, asked.seconds)
            began, busy = time.monotonic(), sum(process.cpu_times()[:2])
            waits = sorted(
                asyncio.run(load(asked.port, sessions, asked.think, seconds, most, process, asked.reruns / 10))
            )
            spent = time.monotonic() - began
            busy = sum(process.cpu_times()[:2]) - busy
            if not waits:
                print(f"{sessions:>4} sessions: none had a second answer within {spent:.0f} s", flush=True)
                continue
            print(
                f"{sessions:>4} sessions: median {statistics.median(waits):.2f} s, "
                f"p95 {waits[int(0.95 * (len(waits) - 1))]:.2f} s, {len(waits):,} reruns, {len(waits) / spent:.1f}/s, "
                f"{1e3 * busy / len(waits):.0f} ms of CPU each, {process.memory_info().rss / 1e6:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
