"""Peak rate of a soft processor against precision: how many multiply-accumulators a part's multipliers and logic hold.

Narrow mantissas are packed: several products leave one hard multiplier side by side, so a part holds more of them.
Every product needs a place in an adder tree made of soft logic; logic that is left over makes further multipliers.
An estimate of what the part holds, not of an instance. The share of the logic a matrix unit takes is the one that
gives the printed 80,000 units of ms-fp8 on a Stratix 10 280; areas of soft multipliers and adders are assumed. The
largest instance known has 96,000 on that part; a design that is further above the estimate is refused.
Source of the formats: Chung et al., IEEE Micro 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hardware_specs.schema import Device

__all__ = ["FORMATS", "Density", "densities", "overfull", "packed", "resized"]

FORMATS: dict[str, int] = {"int16": 15, "int8": 7, "ms-fp11": 5, "ms-fp10": 4, "ms-fp9": 3, "ms-fp8": 2}
"""Formats with the bits of their magnitudes; the sign is handled apart, the exponent is shared."""

SIDE = 18  # bits of either operand of a hard multiplier; a DSP block of these parts has two
PER_BLOCK = 2.0
GUARD = 5  # bits that sums in a tree grow by
LOGIC_SHARE = 0.386  # of the part's logic, for products and trees: 80,000 units of ms-fp8 on a Stratix 10 280
MOST = 1.2  # times the estimate, as far as anybody has gone: 96,000 units on that part


def packed(bits: int, side: int = SIDE) -> int:
    """Products of two magnitudes of `bits` that one side x side multiplier gives side by side. [-] A bound.

    With r values `2 bits` apart in one operand, the other holds values `2 r bits` apart, so that no products overlap.
    """
    most = 0
    for r in range(1, side + 1):
        if 2 * bits * (r - 1) + bits > side:
            break
        others = (side - bits) // (2 * bits * r) + 1
        most = max(most, r * others)
    return most


def _tree(bits: int) -> float:
    """Logic modules an accumulated product takes: its sum of 2 bits + guard, two bits a module. [ALM]"""
    return (2 * bits + GUARD) / 2


def _product(bits: int) -> float:
    """Logic modules of a soft multiplier: an array of bits x bits partial products, two a module. [ALM]"""
    return bits * bits / 2


@dataclass(frozen=True)
class Density:
    """Multiply-accumulators of one format that a part holds, and their peak."""

    format: str
    hard: float  # in packed multipliers
    soft: float  # in logic
    flops_per_s: float


def densities(device: Device) -> tuple[Density, ...]:
    """For each format what the part holds, and its peak at the instance's clock. [-], [FLOP/s] An estimate."""
    npu, fabric = device.npu, device.fpga
    if npu is None or fabric is None or fabric.alm is None or fabric.dsp is None:
        return ()
    found = []
    for name, bits in FORMATS.items():
        logic = LOGIC_SHARE * fabric.alm.si
        hard = min(fabric.dsp.si * PER_BLOCK * packed(bits), math.floor(logic / _tree(bits)))
        soft = math.floor((logic - hard * _tree(bits)) / (_tree(bits) + _product(bits)))
        found.append(Density(name, hard, soft, 2.0 * (hard + soft) * npu.clock.si))
    return tuple(found)


def resized(device: Device, format: str) -> Device:
    """The instance as its part holds it in a format it was not built for: with as many of its tile engines as fit.

    One at least, which `overfull` then refuses. A format of its `peak` leaves it as it is. An estimate.
    """
    npu, held = device.npu, next((d for d in densities(device) if d.format == format), None)
    if npu is None or held is None or format in device.peak:
        return device
    fit = max(1.0, math.floor((held.hard + held.soft) / (npu.native_dim.si * npu.lanes.si)))
    if fit >= npu.tiles.si:
        return device
    tiles = npu.tiles.model_copy(update={"value": f"{fit:.0f}", "si": fit, "basis": "derived"})
    return device.model_copy(update={"npu": npu.model_copy(update={"tiles": tiles})})


def overfull(device: Device, format: str) -> str | None:
    """Why the part can't hold the instance with dot products in that format, or None; also where it is not known."""
    npu, held = device.npu, next((d for d in densities(device) if d.format == format), None)
    if npu is None or held is None:
        return None
    units, most = npu.native_dim.si * npu.lanes.si * npu.tiles.si, MOST * (held.hard + held.soft)
    if units <= most:
        return None
    return (
        f"{npu.tiles.si:.0f} tile engines of {npu.native_dim.si:.0f} x {npu.lanes.si:.0f} take {units:,.0f} "
        f"multipliers of {format}; the part of {device.name} holds at most about {most:,.0f}."
    )
