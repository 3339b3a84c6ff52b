"""Kernels a user may run here by name: time with spread, rates against the probed roofline, error against float64.

Everything here is a **measurement** of this host; the roofline it is held against is one too. One thread is timed by
its own CPU time, so that other work on the machine does not count; several threads by the wall clock.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.kernels import jit
from engine.lab.counters import Counts, counted
from engine.lab.host.measure import operators
from engine.lab.host.measure.cases import Case, MeasureError, product, relative_error
from engine.lab.probe import MeasuredRoofline
from engine.lab.timing import Progress, Spread, clock_for, sample
from entries.files import read_plain
from model_zoo.families.blocks import bag, elementwise, linear
from model_zoo.ops import Dim, Op, dim

_MAX_EXTENT = 65536  # of any extent but a table's rows
Shape = tuple[int, ...]
Sum = Sequence[Sequence[int | str]]
"""Products to add up, of numbers and of extents by their names."""


@dataclass(frozen=True)
class NamedKernel:
    """One entry of the menu, as `kernels.yaml` has it, with what makes it.

    Attributes
    ----------
    extents : what those of its shape are called, with a shape worth looking at.
    need : bytes its buffers take at most, asked before they are made. [B]
    work : operations of one call, asked likewise. [FLOP]
    make : (shape, precision, threads) -> case.
    op : (shape) -> the op the cost model prices; None where the vocabulary has none.
    """

    name: str
    title: str
    extents: Mapping[str, int]
    precisions: Sequence[str]
    need: Sum
    work: Sum
    make: Callable[[Shape, str, int], Case]
    op: Callable[[Shape], Op] | None

    @property
    def labels(self) -> tuple[str, ...]:
        """What the extents of its shape are called."""
        return tuple(self.extents)

    @property
    def default(self) -> Shape:
        """A shape worth looking at."""
        return tuple(self.extents.values())

    def total(self, terms: Sum, shape: Shape) -> float:
        """What `need` or `work` comes to for a shape. [B], [FLOP]"""
        sizes: dict[int | str, int] = dict(zip(self.extents, shape, strict=True))
        return float(sum(math.prod(int(sizes.get(factor, factor)) for factor in term) for term in terms))


def _conv_op(s: Shape) -> Op:
    size, channels, filters, window = s
    pixels, reads = Dim(float(size * size)), Dim(float(size * size * channels))
    attributes = (("kernel", float(window)), ("groups", 1.0), ("channels", float(channels)))
    fields = {"kind": "Conv", "bias": False, "reads": reads, "attributes": attributes}
    return linear("kernel", pixels, window**2 * channels, filters, group="kernel", **fields)


def _point_op(kind: str) -> Callable[[Shape], Op]:
    return lambda s: elementwise("kernel", kind, dim(math.prod(s)), group="kernel")


def _product(m: int, k: int, n: int, kind: str = "Gemm") -> Op:
    return linear("kernel", dim(m), k, n, group="kernel", kind=kind, bias=False)


_MADE: dict[str, tuple[Callable[[Shape, str, int], Case], Callable[[Shape], Op] | None]] = {
    "gemm": (lambda s, p, t: product(s[0], s[1], s[2], p, t), lambda s: _product(s[0], s[1], s[2])),
    "gemv": (lambda s, p, t: product(1, s[0], s[1], p, t), lambda s: _product(1, s[0], s[1])),
    "conv": (lambda s, p, t: operators.convolve((s[0], s[0]), s[1], s[2], s[3], 1, t), _conv_op),
    "embedding-bag": (
        lambda s, p, t: operators.lookup(s[0], s[1], s[2], s[3], p, t),
        lambda s: bag("kernel", dim(s[0]), s[1], s[2], s[3], group="kernel"),
    ),
    "attention": (lambda s, p, t: operators.attend(*s, t), None),
    "lstm": (lambda s, p, t: operators.recurrent("lstm", *s, t), None),
    "gru": (lambda s, p, t: operators.recurrent("gru", *s, t), None),
    "binary-fc": (lambda s, p, t: operators.binary(*s, t), lambda s: _product(*s, kind="BinaryGemm")),
    "softmax": (lambda s, p, t: operators.soft(*s, t), _point_op("Softmax")),
    "layer-norm": (lambda s, p, t: operators.normalise(*s, t), _point_op("LayerNormalization")),
    "gelu": (lambda s, p, t: operators.pointwise("gelu_tanh", math.prod(s), t), _point_op("Gelu")),
    "quantise": (lambda s, p, t: operators.quantiser(*s, t), None),
    "hash": (lambda s, p, t: operators.hash_fields(*s, t), None),
}
KERNELS: dict[str, NamedKernel] = {
    name: NamedKernel(name, **entry, make=_MADE[name][0], op=_MADE[name][1])
    for name, entry in read_plain(Path(__file__).with_name("kernels.yaml")).items()
}


def kernel_named(name: str) -> NamedKernel:
    """The kernel of that name; MeasureError names the allowed ones."""
    if name not in KERNELS:
        raise MeasureError(
            f"kernel is {name[:40]!r}; allowed: {', '.join(KERNELS)}; onnxruntime runs other operators: --workload"
        )
    return KERNELS[name]


def shape_of(kernel: NamedKernel, text: str | None) -> tuple[int, ...]:
    """Shape printed as ``512x1024x1024``; the kernel's default where nothing is given."""
    if not text:
        return kernel.default
    axes = "x".join(kernel.labels)
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != len(kernel.labels) or not all(part.strip().isdecimal() and len(part) < 12 for part in parts):
        raise MeasureError(
            f"shape is {text[:60]!r}; {kernel.name} takes {axes}, as {'x'.join(map(str, kernel.default))}"
        )
    shape = tuple(int(part) for part in parts)
    for label, extent in zip(kernel.labels, shape, strict=True):
        limit = 100_000_000 if label == "rows" else _MAX_EXTENT
        if not 1 <= extent <= limit:
            raise MeasureError(f"{label} is {extent:,}; allowed: 1 to {limit:,}")
    return shape


@dataclass(frozen=True)
class Bounds:
    """What a run may take: memory of its buffers, work of one call or pass, and time spent sampling."""

    bytes: float = 2e9
    flops: float = 2e12
    seconds: float = 2.0


def roofs(roofline: MeasuredRoofline, precision: str, threads: int, size: float) -> tuple[float, str, float]:
    """Compute roof of a format on some threads, and the level and bandwidth that ``size`` bytes come from.

    Formats without arithmetic of their own are widened and multiplied as FP32, hence its peak. [FLOP/s], [B/s]
    """
    peaks = {"int8": roofline.int8, "bf16": roofline.bf16, "binary": roofline.binary}
    rate = peaks.get(precision) or roofline.fp32
    levels = (
        ("L1", roofline.caches.l1 * threads, roofline.l1 * threads),
        ("L2", roofline.caches.l2 * threads, roofline.l2 * threads),
        ("L3", roofline.caches.l3, roofline.l3 * threads),
    )
    for name, capacity, bandwidth in levels:
        if size <= capacity:
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
    counts: Counts
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
            "counters": self.counts.to_dict(),
        }


def allowed_threads(threads: int) -> int:
    """A number of threads that this host has; MeasureError otherwise."""
    if not 1 <= threads <= jit.pool_size():
        raise MeasureError(f"threads is {threads}; allowed on this host: 1 to {jit.pool_size()}")
    return threads


def kernel_for(name: str, shape: tuple[int, ...], precision: str, threads: int, bounds: Bounds) -> NamedKernel:
    """The kernel of that name; MeasureError where it is not offered in that format, on those threads or so large."""
    entry = kernel_named(name)
    if precision not in entry.precisions:
        raise MeasureError(f"precision is {precision[:20]!r}; allowed for {name}: {', '.join(entry.precisions)}")
    allowed_threads(threads)
    for label, value, cap, unit in (
        ("buffers", entry.total(entry.need, shape), bounds.bytes, "GB"),
        ("work", entry.total(entry.work, shape), bounds.flops, "GFLOP"),
    ):
        if value > cap:
            need, limit = f"{value / 1e9:,.3g} {unit}", f"{cap / 1e9:,.3g} {unit}"
            raise MeasureError(f"shape {'x'.join(map(str, shape))} needs {need} of {label}; allowed: {limit}")
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
    MeasurementCancelled
        ``progress`` returned False.
    """
    bounds = bounds or Bounds()
    case = kernel_for(name, shape, precision, threads, bounds).make(shape, precision, threads)
    error = relative_error(case)
    clock = clock_for(threads)
    spread = sample(case.run, clock, repeats, bounds.seconds, progress)
    library = sample(case.library, clock, 5, bounds.seconds / 3) if case.library and threads == 1 else None
    roof: tuple[float | None, str, float | None] = (None, "", None)
    if roofline is not None and (precision != "binary" or roofline.binary):
        roof = roofs(roofline, case.precision, threads, case.bytes)
    figures = spread, case.flops, case.bytes, error, library, counted(case.run, threads, spread.median)
    return KernelRun(name, case.kernel, shape, precision, threads, jit.isa(), *figures, *roof)
