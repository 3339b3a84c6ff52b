"""Kernels a user may run here by name: time with spread, rates against the probed roofline, error against float64.

Everything here is a **measurement** of this host; the roofline it is held against is one too. One thread is timed by
its own CPU time, so that other work on the machine does not count; several threads by the wall clock.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from engine.kernels import jit
from engine.lab.counters import Counts, counted
from engine.lab.host.measure import operators
from engine.lab.host.measure.cases import Case, MeasureError, product, relative_error
from engine.lab.probe import MeasuredRoofline
from engine.lab.timing import Progress, Spread, clock_for, sample
from model_zoo.families.blocks import bag, elementwise, linear
from model_zoo.ops import Dim, Op, dim

_MAX_EXTENT = 65536  # of any extent but a table's rows
_PRODUCTS = ("fp32", "int8", "bf16")


@dataclass(frozen=True)
class NamedKernel:
    """One entry of the menu.

    Attributes
    ----------
    labels : what the extents of its shape are called.
    default : a shape worth looking at.
    make : (shape, precision, threads) -> case.
    op : (shape) -> the op the cost model prices; None where the vocabulary has none.
    need : (shape) -> bytes its buffers take at most, asked before they are made. [B]
    work : (shape) -> operations of one call, asked likewise. [FLOP]
    """

    name: str
    title: str
    labels: tuple[str, ...]
    default: tuple[int, ...]
    precisions: tuple[str, ...]
    make: Callable[[tuple[int, ...], str, int], Case]
    op: Callable[[tuple[int, ...]], Op] | None
    need: Callable[[tuple[int, ...]], float]
    work: Callable[[tuple[int, ...]], float]


def _conv_op(s: tuple[int, ...]) -> Op:
    size, channels, filters, window = s
    pixels = Dim(float(size * size))
    attributes = (("kernel", float(window)), ("groups", 1.0), ("channels", float(channels)))
    op = linear(
        "kernel", pixels, window**2 * channels, filters, group="kernel", kind="Conv", bias=False, attributes=attributes
    )
    return replace(op, reads=Dim(float(size * size * channels)))


def _point_op(kind: str) -> Callable[[tuple[int, ...]], Op]:
    return lambda s: elementwise("kernel", kind, dim(math.prod(s)), group="kernel")


def _products(s: tuple[int, ...]) -> Op:
    return linear("kernel", dim(s[0]), s[1], s[2], group="kernel", bias=False)


_FP32 = ("fp32",)
_LIST = (
    NamedKernel(
        "gemm", "Matrix product", ("M", "K", "N"), (512, 1024, 1024), _PRODUCTS,
        lambda s, p, t: product(s[0], s[1], s[2], p, t), _products,
        lambda s: 12.0 * (s[0] * s[1] + 2 * s[1] * s[2] + s[0] * s[2]), lambda s: 2.0 * math.prod(s),
    ),
    NamedKernel(
        "gemv", "Matrix times vector", ("K", "N"), (4096, 4096), _PRODUCTS,
        lambda s, p, t: product(1, s[0], s[1], p, t), lambda s: _products((1, *s)),
        lambda s: 24.0 * math.prod(s), lambda s: 2.0 * math.prod(s),
    ),
    NamedKernel(
        "conv", "Convolution", ("side", "channels", "filters", "window"), (56, 64, 64, 3), _FP32,
        lambda s, p, t: operators.convolve((s[0], s[0]), s[1], s[2], s[3], 1, t),
        _conv_op, lambda s: 8.0 * (s[0] ** 2 * (s[1] + s[2]) * 2 + s[3] ** 2 * s[1] * s[2]),
        lambda s: 2.0 * s[0] ** 2 * s[1] * s[2] * s[3] ** 2,
    ),
    NamedKernel(
        "embedding-bag", "Embedding bag", ("bags", "lookups", "rows", "width"), (256, 40, 500_000, 64),
        ("fp32", "fp16", "int8", "int4"), lambda s, p, t: operators.lookup(s[0], s[1], s[2], s[3], p, t),
        lambda s: bag("kernel", dim(s[0]), s[1], s[2], s[3], group="kernel"),
        lambda s: 4.0 * s[2] * (s[3] + 8) + 80.0 * s[0] * s[1] + 16.0 * s[0] * s[1] * s[3],
        lambda s: float(s[0] * s[1] * s[3]),
    ),
    NamedKernel(
        "attention", "Attention on a cache", ("tokens", "length", "heads", "depth"), (1, 1024, 16, 64), _FP32,
        lambda s, p, t: operators.attend(*s, t), None,
        lambda s: 32.0 * s[2] * s[3] * (s[0] + 2 * s[1]) + 24.0 * s[0] * s[1] * s[2],
        lambda s: 4.0 * math.prod(s),
    ),
    NamedKernel(
        "lstm", "LSTM step", ("batch", "inputs", "hidden"), (1, 1024, 1024), _FP32,
        lambda s, p, t: operators.recurrent("lstm", *s, t), None, lambda s: 64.0 * s[2] * (s[1] + s[2]),
        lambda s: 8.0 * s[0] * s[2] * (s[1] + s[2]),
    ),
    NamedKernel(
        "gru", "GRU step", ("batch", "inputs", "hidden"), (1, 1024, 1024), _FP32,
        lambda s, p, t: operators.recurrent("gru", *s, t), None, lambda s: 64.0 * s[2] * (s[1] + s[2]),
        lambda s: 6.0 * s[0] * s[2] * (s[1] + s[2]),
    ),
    NamedKernel(
        "binary-fc", "Binary product", ("M", "K", "N"), (16, 4096, 4096), ("binary",),
        lambda s, p, t: operators.binary(*s, t),
        lambda s: linear("kernel", dim(s[0]), s[1], s[2], group="kernel", kind="BinaryGemm", bias=False),
        lambda s: 10.0 * s[1] * s[2] + 8.0 * s[0] * (s[1] + s[2]), lambda s: 2.0 * math.prod(s),
    ),
    NamedKernel(
        "softmax", "Softmax", ("rows", "columns"), (512, 1024), _FP32, lambda s, p, t: operators.soft(*s, t),
        _point_op("Softmax"), lambda s: 24.0 * math.prod(s), lambda s: 5.0 * math.prod(s),
    ),
    NamedKernel(
        "layer-norm", "Layer normalisation", ("rows", "columns"), (512, 1024), _FP32,
        lambda s, p, t: operators.normalise(*s, t), _point_op("LayerNormalization"),
        lambda s: 24.0 * math.prod(s), lambda s: 7.0 * math.prod(s),
    ),
    NamedKernel(
        "gelu", "GELU", ("rows", "columns"), (512, 4096), _FP32,
        lambda s, p, t: operators.pointwise("gelu_tanh", math.prod(s), t), _point_op("Gelu"),
        lambda s: 24.0 * math.prod(s), lambda s: 9.0 * math.prod(s),
    ),
    NamedKernel(
        "quantise", "Quantise to 8 bits", ("rows", "columns"), (512, 4096), ("int8",),
        lambda s, p, t: operators.quantiser(*s, t), None, lambda s: 24.0 * math.prod(s), lambda s: float(math.prod(s)),
    ),
    NamedKernel(
        "hash", "Feature hashing", ("samples", "fields"), (4096, 26), _FP32,
        lambda s, p, t: operators.hash_fields(*s, t), None, lambda s: 64.0 * math.prod(s),
        lambda s: float(math.prod(s)),
    ),
)  # fmt: skip
KERNELS: dict[str, NamedKernel] = {entry.name: entry for entry in _LIST}


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
        ("buffers", entry.need(shape), bounds.bytes, "GB"),
        ("work", entry.work(shape), bounds.flops, "GFLOP"),
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
