"""What the app asks a measuring process for: a kernel or a network, with what the CPU model expected of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from engine.calibrate import device_of, host
from engine.kernels.probe import Roofline
from engine.measure.compare import Compared, Host, predict_op
from engine.measure.kernels import kernel_named
from engine.measure.run import Bounds, KernelRun, measure_kernel
from engine.measure.timing import Progress

__all__ = ["KernelShown", "kernel", "network"]


@dataclass(frozen=True)
class KernelShown:
    """A run, this host's roofs, and the time the cost model expected; None where it prices no such operator. [s]"""

    run: KernelRun
    roofline: Roofline
    predicted: float | None


@cache
def _host() -> Host:
    return Host(*host())


def kernel(
    name: str, shape: tuple[int, ...], precision: str, threads: int, repeats: int, bounds: Bounds, progress: Progress
) -> KernelShown:
    """One kernel, the host probed first (once a process). A measurement beside an estimate."""
    entry = kernel_named(name)
    roofline, found = host()
    run = measure_kernel(
        name, shape, precision, threads, repeats=repeats, bounds=bounds, roofline=roofline, progress=progress
    )
    predicted = None
    if entry.op is not None:
        predicted = predict_op(device_of(roofline, found), entry.op(shape), precision, threads)
    return KernelShown(run, roofline, predicted)


def network(workload: str, precision: str, threads: int, bounds: Bounds, progress: Progress) -> Compared:
    """One network of the zoo. A measurement beside an estimate."""
    return _host().compared(workload, precision, threads, bounds=bounds, progress=progress)
