"""Number formats as pure functions: the float32 values a tensor takes when it is stored in a format, and its bits.

Rounding is to nearest, ties to even, in float64, so every result is the exact rounding. Formats: symmetric integers
(one scale per tensor, row or channel), binary, IEEE-like small floats (fp16, bf16 and the 1-5-2 and 1-5-3
layouts of document 001's ms-fp8 and ms-fp9), and blocks with a shared exponent.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from entries.schema import InputError

Granularity = Literal["tensor", "row", "channel"]
_AXIS = {"tensor": None, "row": 0, "channel": -1}
SCALE_BITS = 32
"""Bits of a stored scale: one fp32. [bit]"""


class NumericsError(InputError):
    """A format, calibration or metric was given values it does not define."""


def _finite(x: np.ndarray) -> np.ndarray:
    values = np.asarray(x, np.float64)
    if not np.isfinite(values).all():
        raise NumericsError("x holds a NaN or an infinity; allowed: finite values")
    return values


def _scale_axes(values: np.ndarray, granularity: Granularity) -> tuple[int, ...] | None:
    """Axes that share one scale."""
    if granularity not in _AXIS:
        raise NumericsError(f"granularity is {granularity!r}; allowed: {', '.join(_AXIS)}")
    axis = _AXIS[granularity]
    if axis is None or values.ndim == 0:
        return None
    return tuple(a for a in range(values.ndim) if a != axis % values.ndim)


def _groups(shape: tuple[int, ...], granularity: Granularity) -> int:
    axis = _AXIS[granularity]
    return 1 if axis is None or not shape else shape[axis]


@dataclass(frozen=True)
class Integer:
    """``bits``-wide integers with a scale: as many codes below 0 as above, so the most negative one is left out."""

    bits: int = 8
    granularity: Granularity = "tensor"

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 16:
            raise NumericsError(f"bits is {self.bits}; allowed: 2 to 16")

    def codes(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Integer codes of ``x``, and the float32 scale that broadcasts against them."""
        values, largest = _finite(x), 2 ** (self.bits - 1) - 1
        size = np.abs(values).max(axis=_scale_axes(values, self.granularity), keepdims=True, initial=0.0)
        scale = (size / largest).astype(np.float32)
        scale[scale == 0] = 1  # nothing but zeros: any scale represents them
        ratio = (values.astype(np.float32) / scale).astype(np.float64)  # fp32 division, as ONNX QuantizeLinear
        return np.clip(np.rint(ratio), -largest, largest).astype(np.int64), scale

    def apply(self, x: np.ndarray) -> np.ndarray:
        """``code * scale``, float32 (ONNX DequantizeLinear of QuantizeLinear)."""
        codes, scale = self.codes(x)
        return (codes.astype(np.float32) * scale).astype(np.float32)

    def storage_bits(self, shape: tuple[int, ...]) -> int:
        """Codes, and one fp32 scale per group. [bit]"""
        return int(np.prod(shape)) * self.bits + _groups(shape, self.granularity) * SCALE_BITS


@dataclass(frozen=True)
class GroupInteger:
    """Integers of which ``group`` along the last axis share a scale in fp16, and are fp16 again when they are used."""

    bits: int = 8
    group: int = 32

    def apply(self, x: np.ndarray) -> np.ndarray:
        """``code * scale`` rounded to fp16, as float32."""
        values = _finite(x)
        whole = -(-values.shape[-1] // self.group)
        short = whole * self.group - values.shape[-1]
        shape = (*values.shape[:-1], whole, self.group)  # said in full: a device's share may have no rows
        groups = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, short)]).reshape(shape)
        largest = 2 ** (self.bits - 1) - 1
        scale = (np.abs(groups).max(-1, keepdims=True, initial=0.0) / largest).astype(np.float16)
        codes = np.rint(groups / np.where(scale == 0, 1, scale).astype(np.float64))
        result = np.clip(codes, -largest, largest).astype(np.float16) * scale
        return result.reshape(*shape[:-2], whole * self.group)[..., : values.shape[-1]].astype(np.float32)


@dataclass(frozen=True)
class Binary:
    """One sign bit per value and one scale: ``sign(x) * mean|x|``, the least-squares scale; sign(0) is +."""

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Signs times the mean magnitude, float32."""
        values = _finite(x)
        return (np.where(values < 0, -1.0, 1.0) * np.abs(values).mean()).astype(np.float32)

    def storage_bits(self, shape: tuple[int, ...]) -> int:
        """One bit per value and one fp32 scale. [bit]"""
        return int(np.prod(shape)) + SCALE_BITS


@dataclass(frozen=True)
class Float:
    """IEEE-like float: sign, ``exponent_bits``, ``mantissa_bits``, subnormals, top exponent kept for infinity and NaN.

    ``saturating`` clamps overflow to the largest finite value instead of infinity.
    """

    exponent_bits: int
    mantissa_bits: int
    saturating: bool = False

    def __post_init__(self) -> None:
        if not (2 <= self.exponent_bits <= 8 and 0 <= self.mantissa_bits <= 23):
            raise NumericsError(
                f"exponent_bits, mantissa_bits are {self.exponent_bits}, {self.mantissa_bits}; allowed: 2 to 8, 0 to 23"
            )

    @property
    def largest(self) -> float:
        """Largest finite value. [-]"""
        return (2 - 2.0**-self.mantissa_bits) * 2.0 ** (2 ** (self.exponent_bits - 1) - 1)

    def apply(self, x: np.ndarray) -> np.ndarray:
        """``x`` rounded to the nearest representable value, float32; infinities and NaN pass unless saturating."""
        values = np.asarray(x, np.float64)
        lowest = 2 - 2 ** (self.exponent_bits - 1)  # exponent of the smallest normal
        exponent = np.frexp(np.where(np.isfinite(values), values, 0))[1] - 1
        quantum = np.ldexp(1.0, np.maximum(exponent, lowest) - self.mantissa_bits)
        with np.errstate(invalid="ignore"):
            nearest = np.where(np.isfinite(values), np.rint(values / quantum) * quantum, values)
        beyond = np.abs(nearest) > self.largest
        edge = self.largest if self.saturating else np.inf
        return np.where(beyond, np.copysign(edge, nearest), nearest).astype(np.float32)

    def storage_bits(self, shape: tuple[int, ...]) -> int:
        """Sign, exponent and mantissa of every value. [bit]"""
        return int(np.prod(shape)) * (1 + self.exponent_bits + self.mantissa_bits)


@dataclass(frozen=True)
class SharedExponent:
    """Blocks of ``block`` values along the last axis with one exponent: sign and ``mantissa_bits`` magnitude each.

    The exponent is that of the largest magnitude; a value rounding past the largest mantissa is clamped to it. The last
    block of a row may be short. Exponents outside ``exponent_bits`` (biased as IEEE) are clamped.
    """

    block: int = 128
    mantissa_bits: int = 4
    exponent_bits: int = 8

    def __post_init__(self) -> None:
        if self.block < 1 or not 1 <= self.mantissa_bits <= 23 or not 2 <= self.exponent_bits <= 8:
            raise NumericsError(
                f"block, mantissa_bits, exponent_bits are {self.block}, {self.mantissa_bits}, {self.exponent_bits}; "
                "allowed: 1 or more, 1 to 23, 2 to 8"
            )

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Values after sharing exponents, float32."""
        values = _finite(x)
        width = values.shape[-1]
        short = -width % self.block
        padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, short)])
        blocks = padded.reshape(*values.shape[:-1], padded.shape[-1] // self.block, self.block)
        bias = 2 ** (self.exponent_bits - 1) - 1
        exponent = np.frexp(np.abs(blocks).max(-1, keepdims=True))[1] - 1
        quantum = np.ldexp(1.0, np.clip(exponent, 1 - bias, bias) - self.mantissa_bits + 1)
        largest = 2**self.mantissa_bits - 1
        nearest = np.clip(np.rint(blocks / quantum), -largest, largest) * quantum
        return nearest.reshape(padded.shape)[..., :width].astype(np.float32)

    def storage_bits(self, shape: tuple[int, ...]) -> int:
        """Sign and mantissa of every value, one exponent per block of each row. [bit]"""
        rows = int(np.prod(shape[:-1]))
        return rows * (shape[-1] * (1 + self.mantissa_bits) + -(-shape[-1] // self.block) * self.exponent_bits)


Format = Integer | Binary | Float | SharedExponent
"""What values are stored in here: each says what a tensor becomes (`apply`) and how many bits it takes."""

FORMATS: dict[str, Format] = {
    "fp32": Float(8, 23),
    "fp16": Float(5, 10),
    "bf16": Float(8, 7),
    "ms-fp11": Float(5, 5, saturating=True),
    "ms-fp10": Float(5, 4, saturating=True),
    "ms-fp9": Float(5, 3, saturating=True),
    "ms-fp8": Float(5, 2, saturating=True),
    "int8": Integer(8),
    "binary": Binary(),
}
"""The formats that have a name. Mantissas of ms-fp8 and 9 are document 001's; their 5-bit exponent is assumed."""


def by_name(name: str) -> Format:
    """The format called ``name``. NumericsError for an unknown one."""
    if name not in FORMATS:
        raise NumericsError(f"format is {name!r}; allowed: {', '.join(FORMATS)}")
    return FORMATS[name]
