"""The kernels a user may run by name: their shape, the precisions they exist in, and the op the cost model prices."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.lab.host.measure import operators
from engine.lab.host.measure.cases import Case, MeasureError, product
from model_zoo.families.blocks import bag, elementwise, linear
from model_zoo.ops import Dim, Op, dim

_MOST = 65536  # of any extent but a table's rows
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
        lambda s, p, t: operators.quantised(*s, t), None, lambda s: 24.0 * math.prod(s), lambda s: float(math.prod(s)),
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
    wanted = "x".join(kernel.labels)
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != len(kernel.labels) or not all(part.strip().isdecimal() and len(part) < 12 for part in parts):
        raise MeasureError(
            f"shape is {text[:60]!r}; {kernel.name} takes {wanted}, as {'x'.join(map(str, kernel.default))}"
        )
    shape = tuple(int(part) for part in parts)
    for label, extent in zip(kernel.labels, shape, strict=True):
        most = 100_000_000 if label == "rows" else _MOST
        if not 1 <= extent <= most:
            raise MeasureError(f"{label} is {extent:,}; allowed: 1 to {most:,}")
    return shape
