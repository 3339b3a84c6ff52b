"""Hardware counters of this host's cores around a call: cycles, instructions, misses. Measurements.

Linux counts what each thread's core does (perf_event_open), where the processor shows its counters and the kernel
allows it. Counted is user mode alone, which kernel.perf_event_paranoid allows up to 2.
"""

import ctypes
import errno
import math
import os
import platform
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from typing import Any

Events = Mapping[str, tuple[int, int]]
"""What is counted: type and number of each event by its name, as linux/perf_event.h has them."""
HARDWARE: Events = {
    "cycles": (0, 0),
    "instructions": (0, 1),
    "cache_references": (0, 2),
    "cache_misses": (0, 3),
    "branch_misses": (0, 5),
}
_CALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "loongarch64": 241}  # number of perf_event_open
_SIZE, _READ, _DISABLED, _USER_MODE = 64, 1 | 2 | 8, 1 << 0, 1 << 5 | 1 << 6  # times and all of a group in one read
_ENABLE, _DISABLE, _GROUP = 0x2400, 0x2401, 1
_CLOSE_ON_EXEC = 8
_LEAST_S = 2e-3
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


@dataclass(frozen=True)
class Counts:
    """What cores counted in a call, all its threads together; nothing where ``reason`` says why. A measurement.

    Attributes
    ----------
    events : counts of one call, in user mode, by name. [-]
    share : part of the time in which the counters ran; what they did not see is scaled up. [-]
    """

    events: Mapping[str, float]
    share: float = 0.0
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data: counts of one call and instructions per cycle, or the reason."""
        if self.reason:
            return {"reason": self.reason}
        result = {**self.events, "counted_share": self.share}
        if cycles := self.events.get("cycles"):
            result["instructions_per_cycle"] = self.events.get("instructions", 0.0) / cycles
        return result


def _refusal(code: int) -> str:
    """Why the kernel opens no counter, and what would allow it."""
    if code in (errno.EACCES, errno.EPERM):
        level = _PARANOID.read_text().strip() if _PARANOID.exists() else "not shown"
        return (
            f"The system forbids hardware counters: kernel.perf_event_paranoid (now {level}) may be 2 at most, and a "
            "container needs --cap-add PERFMON."
        )
    if code in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return (
            "The processor shows no hardware counters to this system: a virtual machine has them where its host gives "
            "it a virtual PMU."
        )
    return f"Hardware counters can't be opened: {os.strerror(code)}."


def _open(event: tuple[int, int], thread: int, leader: int) -> int:
    """File descriptor of an event of a thread, 0 for the calling one, in a group of its ``leader``; -1 begins one."""
    kind, number = event
    flags = _USER_MODE | (_DISABLED if leader < 0 else 0)
    attributes = struct.pack("=2I5Q2IQ", kind, _SIZE, number, 0, 0, _READ, flags, 0, 0, 0)
    numbers = map(ctypes.c_long, (thread, -1, leader, _CLOSE_ON_EXEC))
    system = ctypes.CDLL(None, use_errno=True)
    file = system.syscall(ctypes.c_long(_CALL[platform.machine()]), attributes, *numbers)
    if file < 0:
        raise OSError(ctypes.get_errno(), "perf_event_open")
    return file


def _group(events: Events, thread: int, stack: ExitStack) -> tuple[int, list[str]]:
    """Counters of a thread that run together: the leader's file and their names. OSError where the first is refused."""
    leader, names = -1, []
    for name, event in events.items():
        with suppress(*((OSError,) if names else ())):  # a processor need not have them all
            file = _open(event, thread, leader)
            stack.callback(os.close, file)
            leader = file if leader < 0 else leader
            names.append(name)
    return leader, names


def counted(action: Callable[[], object], threads: int, call_s: float, events: Events = HARDWARE) -> Counts:
    """Counts of a call of about ``call_s`` seconds, on the calling thread, or of several on all threads of the process.

    Threads that a call starts itself are not counted: call it once before. A call is repeated for two milliseconds.
    """
    if platform.system() != "Linux" or platform.machine() not in _CALL:
        machine = f"{platform.system()} on {platform.machine()}"
        return Counts(
            {}, reason=f"Hardware counters are read on 64-bit Linux alone ({', '.join(_CALL)}), not {machine}."
        )
    ids: Iterable[str] = ("0",) if threads == 1 else os.listdir("/proc/self/task")
    totals: dict[str, float] = {}
    calls, enabled, running = max(1, math.ceil(_LEAST_S / call_s)), 0, 0
    with ExitStack() as stack:
        try:
            groups = [_group(events, int(id), stack) for id in ids]
        except OSError as error:
            return Counts({}, reason=_refusal(error.errno or 0))
        for leader, _ in groups:
            ioctl(leader, _ENABLE, _GROUP)
        for _ in range(calls):
            action()
        for leader, _ in groups:
            ioctl(leader, _DISABLE, _GROUP)
        for leader, names in groups:
            _, wanted, ran, *values = struct.unpack(f"={3 + len(names)}Q", os.read(leader, 8 * (3 + len(names))))
            enabled, running = enabled + wanted, running + ran
            for name, value in zip(names, values, strict=True):
                seen = value * wanted / ran / calls if ran else 0.0
                totals[name] = totals.get(name, 0.0) + seen
    if not running:
        return Counts(
            {}, reason="Hardware counters never ran: others hold them, as a profiler or the kernel's watchdog."
        )
    return Counts(totals, running / enabled)
