"""Run a kernel on this host: time with spread, rates against the probed roofline, error against float64.

Everything here is a **measurement** of this host; the roofline it is held against is one too. One thread is timed by
its own CPU time, so that other work on the machine does not count; several threads by the wall clock.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from engine.kernels import jit
from engine.lab.host.measure.cases import MeasureError, relative_error
from engine.lab.host.measure.kernels import NamedKernel, kernel_named
from engine.lab.probe import MeasuredRoofline, Prober
from engine.lab.timing import Progress, Spread, clock_for, sample


@dataclass(frozen=True)
class Bounds:
    """What a run may take: memory of its buffers, work of one call or pass, and time spent sampling."""

    bytes: float = 2e9
    flops: float = 2e12
    seconds: float = 2.0


@cache
def host_roofline() -> MeasuredRoofline:
    """The roofline of this host, probed once a process (a few seconds)."""
    return Prober().roofline()


def roofs(roofline: MeasuredRoofline, precision: str, threads: int, touched: float) -> tuple[float, str, float]:
    """Compute roof of a format on some threads, and the level and bandwidth that ``touched`` bytes come from.

    Formats without arithmetic of their own are widened and multiplied as FP32, hence its peak. [FLOP/s], [B/s]
    """
    known = {"int8": roofline.int8, "bf16": roofline.bf16, "binary": roofline.binary}
    rate = known.get(precision) or roofline.fp32
    levels = (
        ("L1", roofline.caches.l1 * threads, roofline.l1 * threads),
        ("L2", roofline.caches.l2 * threads, roofline.l2 * threads),
        ("L3", roofline.caches.l3, roofline.l3 * threads),
    )
    for name, capacity, bandwidth in levels:
        if touched <= capacity:
            return rate * threads, name, bandwidth
    return rate * threads, "DRAM", roofline.dram if threads == 1 else max(roofline.dram, roofline.dram_all)


@dataclass(frozen=True)
class KernelRun:
    """One kernel, measured. Times in seconds, rates per second."""

    kernel: str
    operator: str
    shape: tuple[int, ...]
    precision: str
    threads: int
    isa: str
    time: Spread
    flops: float
    bytes: float
    error: float  # against float64, of the signal
    library: Spread | None  # numpy's time for the same work in FP32
    peak: float | None = None  # probed, at this precision and thread count
    level: str = ""
    bandwidth: float | None = None

    @property
    def rate(self) -> float:
        """Achieved. [FLOP/s]"""
        return self.flops / self.time.median

    @property
    def traffic(self) -> float:
        """Bytes it must touch, over its time. [B/s]"""
        return self.bytes / self.time.median

    @property
    def roof_share(self) -> float | None:
        """Part of what the probed roofline allows that was reached. [-]"""
        if self.peak is None or self.bandwidth is None:
            return None
        return max(self.flops / self.peak, self.bytes / self.bandwidth) / self.time.median

    def to_dict(self) -> dict[str, Any]:
        """Plain data, SI units in the keys."""
        low, high = self.time.quartiles
        return {
            "kernel": self.kernel,
            "operator": self.operator,
            "shape": list(self.shape),
            "precision": self.precision,
            "threads": self.threads,
            "isa": self.isa,
            "time_s": self.time.median,
            "time_q1_s": low,
            "time_q3_s": high,
            "time_best_s": self.time.best,
            "samples_s": list(self.time.samples),
            "flops": self.flops,
            "bytes": self.bytes,
            "rate_flop_per_s": self.rate,
            "traffic_b_per_s": self.traffic,
            "peak_flop_per_s": self.peak,
            "level": self.level,
            "bandwidth_b_per_s": self.bandwidth,
            "roof_share": self.roof_share,
            "error_rms": self.error,
            "library_s": self.library.median if self.library else None,
        }


def allowed_threads(threads: int) -> int:
    """A number of threads that this host has; MeasureError otherwise."""
    if not 1 <= threads <= jit.pool_size():
        raise MeasureError(f"threads is {threads}; allowed on this host: 1 to {jit.pool_size()}")
    return threads


def offered(name: str, shape: tuple[int, ...], precision: str, threads: int, bounds: Bounds) -> NamedKernel:
    """The kernel of that name; MeasureError where it is not offered in that format, on those threads or so large."""
    entry = kernel_named(name)
    if precision not in entry.precisions:
        raise MeasureError(f"precision is {precision[:20]!r}; allowed for {name}: {', '.join(entry.precisions)}")
    allowed_threads(threads)
    for what, value, most, unit in (
        ("buffers", entry.need(shape), bounds.bytes, "GB"),
        ("work", entry.work(shape), bounds.flops, "GFLOP"),
    ):
        if value > most:
            need, limit = f"{value / 1e9:,.3g} {unit}", f"{most / 1e9:,.3g} {unit}"
            raise MeasureError(f"shape {'x'.join(map(str, shape))} needs {need} of {what}; allowed: {limit}")
    return entry


def measure_kernel(
    name: str,
    shape: tuple[int, ...],
    precision: str,
    threads: int = 1,
    *,
    repeats: int = 15,
    bounds: Bounds | None = None,
    roofline: MeasuredRoofline | None = None,
    progress: Progress | None = None,
) -> KernelRun:
    """Time one kernel. A measurement.

    Raises
    ------
    MeasureError
        A name, precision, shape or thread count that is not offered, or a shape beyond ``bounds``: one sentence.
    Cancelled
        ``progress`` returned False.
    """
    bounds = bounds or Bounds()
    case = offered(name, shape, precision, threads, bounds).make(shape, precision, threads)
    error = relative_error(case)
    clock = clock_for(threads)
    timed = sample(case.run, clock, repeats, bounds.seconds, progress)
    library = sample(case.library, clock, 5, bounds.seconds / 3) if case.library and threads == 1 else None
    roof: tuple[float | None, str, float | None] = (None, "", None)
    if roofline is not None and (precision != "binary" or roofline.binary):
        roof = roofs(roofline, case.precision, threads, case.bytes)
    figures = timed, case.flops, case.bytes, error, library
    return KernelRun(name, case.kernel, shape, precision, threads, jit.isa(), *figures, *roof)
