"""Hardware counters: a group is read whole and scaled by the time it ran; a refusal says what to do."""

import errno
import mmap
import platform
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.lab import counters
from engine.lab.counters import HARDWARE, counted
from tests.each import each

SOFTWARE = {"nanoseconds": (1, 1), "page_faults": (1, 2), "unknown": (1, 999)}  # the kernel's own, on any machine
LINUX = platform.system() == "Linux"


def spin() -> int:
    """Some milliseconds of work."""
    return sum(range(200_000))


@pytest.mark.skipif(not LINUX, reason="counts are Linux's")
def test_a_group_counts_what_a_call_does():
    def touch() -> None:
        with mmap.mmap(-1, 256 * mmap.PAGESIZE) as pages:
            for page in range(256):
                pages[page * mmap.PAGESIZE] = 1

    counts = counted(touch, 1, 1e-4, SOFTWARE)
    assert counts.reason == ""
    assert set(counts.events) == {"nanoseconds", "page_faults"}, "what a processor lacks is left out"
    assert counts.events["nanoseconds"] > 1e4
    assert 1 <= counts.events["page_faults"] < 300
    assert counts.share == 1.0


@pytest.mark.skipif(not LINUX, reason="counts are Linux's")
def test_threads_that_help_are_counted_where_several_are_asked_for():
    with ThreadPoolExecutor(2) as pool:

        def share_out() -> None:
            for helper in [pool.submit(spin) for _ in range(4)]:
                helper.result()

        share_out()
        alone, together = (counted(share_out, threads, 0.1, SOFTWARE).events["nanoseconds"] for threads in (1, 2))
    assert together > 3.0 * alone


def test_a_group_that_took_turns_is_scaled_and_a_call_is_one_of_several(monkeypatch):
    files = iter(range(100, 200))
    monkeypatch.setattr(counters, "_open", lambda event, thread, leader: next(files))
    monkeypatch.setattr(counters, "ioctl", lambda *_: 0)
    monkeypatch.setattr(counters.os, "close", lambda file: None)
    reply = struct.pack("=8Q", 5, 1000, 250, 40, 80, 8, 4, 2)
    monkeypatch.setattr(counters.os, "read", lambda file, size: reply[:size])
    monkeypatch.setattr(counters.platform, "system", lambda: "Linux")
    monkeypatch.setattr(counters.platform, "machine", lambda: "aarch64")
    calls = []
    counts = counted(lambda: calls.append(1), 1, 1e-3)
    assert len(calls) == 2
    assert counts.events == dict(zip(HARDWARE, (80.0, 160.0, 16.0, 8.0, 4.0), strict=True))
    assert counts.share == 0.25
    assert counts.to_dict()["instructions_per_cycle"] == 2.0
    reply = struct.pack("=8Q", 5, 1000, 0, 0, 0, 0, 0, 0)
    monkeypatch.setattr(counters.os, "read", lambda file, size: reply)
    assert counted(spin, 1, 1.0).to_dict() == {
        "reason": "Hardware counters never ran: others hold them, as a profiler or the kernel's watchdog."
    }


@each(
    ("code", "sentence"),
    [
        (errno.EACCES, "The system forbids hardware counters: kernel.perf_event_paranoid (now "),
        (errno.EPERM, "a container needs --cap-add PERFMON."),
        (errno.ENOENT, "The processor shows no hardware counters to this system: a virtual machine has them where"),
        (errno.ENOSYS, "Hardware counters can't be opened: Function not implemented."),
    ],
)
def test_a_kernel_that_refuses_is_one_sentence(code, sentence, monkeypatch):
    def refuse(*_: object) -> int:
        raise OSError(code, "perf_event_open")

    monkeypatch.setattr(counters, "_open", refuse)
    monkeypatch.setattr(counters.platform, "system", lambda: "Linux")
    monkeypatch.setattr(counters.platform, "machine", lambda: "x86_64")
    counts = counted(lambda: pytest.fail("nothing is run in vain"), 1, 1.0)
    assert counts.events == {}
    assert sentence in counts.to_dict()["reason"]
    assert counts.reason.count(". ") == 0


def test_another_system_is_named(monkeypatch):
    monkeypatch.setattr(counters.platform, "system", lambda: "Darwin")
    assert counted(spin, 1, 1.0).reason.startswith("Hardware counters are read on 64-bit Linux alone")
