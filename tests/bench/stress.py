"""Whether the server stays up: sessions over Streamlit's wire ask for random scenarios of seven systems on four pages.

    python -m tests.bench.stress --sessions 50 --reruns 5000 --seconds 1200
    MALLOC_PERTURB_=165 python -m tests.bench.stress --seed 2          # freed memory overwritten

Starts a server of its own on this host alone, as `make run` does but for the second start. It fails, with the stacks of
every thread that the fault handler wrote, where the server dies, where a rerun does not end well or where one takes
longer than ``--patience``.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from engine.resolve.choices import choices
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, ScenarioError, encode
from tests.bench.sessions import Reader, served

__all__ = ["Outcome", "any_scenario", "stress"]

SYSTEMS = ("node-dlrm", "wide-deep-int8", "brainwave-gru", "tonic-mnist", "v100-1.5b", "dfx-345m", "edge-camera")
"""Presets of seven systems: a node of cards, a CPU, an FPGA, a SmartNIC, GPUs, an appliance and a camera's cores."""
PAGES = ("explore", "machine", "traffic", "compare")


class Outcome:
    """Reruns that ended well by page, and what ended otherwise."""

    def __init__(self, most: int, until: float) -> None:
        self.left, self.until = most, until
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []

    def goes_on(self) -> bool:
        """Whether another rerun may be asked for; takes it from those that are left."""
        if self.left <= 0 or self.failures or time.monotonic() >= self.until:
            return False
        self.left -= 1
        return True


def any_scenario(draw: random.Random) -> Scenario:
    """One of seven systems with another batch, format, scheme, number of devices and lengths; some are refused."""
    base = PRESETS[draw.choice(SYSTEMS)].scenario
    offered = choices(base)
    return base.with_(
        batch=draw.randint(1, 64),
        precision=draw.choice([*offered.formats]),
        scheme=draw.choice([base.scheme, *offered.schemes]),
        devices=draw.choice([base.devices, *offered.device_counts]),
        inputs=draw.choice([base.inputs, draw.randint(1, 64)]) if base.inputs else base.inputs,
        outputs=draw.choice([base.outputs, draw.randint(1, 64)]) if base.outputs else base.outputs,
    )


def _address(draw: random.Random) -> dict[str, str]:
    while True:
        try:
            return {"s": encode(any_scenario(draw))}
        except ScenarioError:  # such a one has no link
            continue


async def _reads(port: int, seed: int, patience: float, outcome: Outcome) -> None:
    draw = random.Random(seed)
    address = f"ws://127.0.0.1:{port}/_stcore/stream"
    async with connect(address, subprotocols=[Subprotocol("streamlit")], max_size=None, compression=None) as socket:
        me = Reader(socket, seed)
        while outcome.goes_on():
            page, question, address = draw.choice(PAGES), BackMsg(), _address(draw)
            question.rerun_script.page_name = page
            try:
                await asyncio.wait_for(me.ask(address, question), patience)
            except (Exception, asyncio.CancelledError) as error:
                what = f"{type(error).__name__} {str(error)[:500]} after {dict(me.heard)}"
                outcome.failures.append(f"/{page}?s={address['s']}: {what}")
                return
            outcome.done[page] += 1


async def stress(port: int, sessions: int, reruns: int, seconds: float, patience: float, seed: int) -> Outcome:
    """So many sessions until so many reruns are done or the time is over."""
    outcome = Outcome(reruns, time.monotonic() + seconds)
    readers = [asyncio.create_task(_reads(port, 1000 * seed + at, patience, outcome)) for at in range(sessions)]
    while not all(reader.done() for reader in readers):
        await asyncio.wait(readers, timeout=60)
        print(f"  {outcome.done.total():>6,} reruns", flush=True)
    return outcome


def main() -> int:
    """One series; 1 where anything but success came back."""
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--sessions", type=int, default=50)
    read.add_argument("--reruns", type=int, default=5000)
    read.add_argument("--seconds", type=float, default=1800.0)
    read.add_argument("--patience", type=float, default=900.0, help="after which a rerun counts as hung [s]")
    read.add_argument("--seed", type=int, default=1)
    read.add_argument("--port", type=int, default=8598)
    asked = read.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as written, served(asked.port, log=written) as process:
            began = time.monotonic()
            outcome = asyncio.run(
                stress(asked.port, asked.sessions, asked.reruns, asked.seconds, asked.patience, asked.seed)
            )
            alive = process.is_running() and process.status() != "zombie"
            took, memory = time.monotonic() - began, process.memory_info().rss / 1e6 if alive else 0.0
            if alive and outcome.failures:  # for the stacks of what hangs
                process.send_signal(signal.SIGABRT)
        said = log.read_text(errors="replace")
    count = ", ".join(f"{page} {number:,}" for page, number in sorted(outcome.done.items()))
    print(
        f"Python {sys.version.split()[0]}, {asked.sessions} sessions, {outcome.done.total():,} reruns ({count}) in "
        f"{took:.0f} s, {memory:.0f} MB, server {'alive' if alive else 'dead'}, {len(outcome.failures)} failures"
    )
    if alive and not outcome.failures:
        return 0
    print(*outcome.failures[:5], said[-40_000:], sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
