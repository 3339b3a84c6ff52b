"""What a GPU's data sheet says of its formats and of the memory that holds a network."""

from typing import Any

from engine.scenario.formats import BITS, WEIGHT_ONLY
from hardware_specs.schema import Device, Gpu


def gpu_of(device: Device) -> Gpu:
    """The spec's accelerator."""
    assert device.gpu is not None, device.id
    return device.gpu


def compute_format(device: Device, format: str) -> str:
    """Format the arithmetic runs in: weights stored narrower alone are widened on their way to it."""
    return next(f for f in ("bf16", "fp16") if f in device.peak) if format in WEIGHT_ONLY else format


def peak(device: Device, format: str) -> float:
    """Dense peak of one device in a format. [FLOP/s] A bound."""
    return device.peak[compute_format(device, format)].si


def wide_format(device: Device, format: str) -> str:
    """Format of ops that may not run in the scenario's one: 16-bit where the part has it, else its widest."""
    if BITS[format] >= 16:
        return format
    return next((f for f in ("bf16", "fp16", "fp32") if f in device.peak), format)


def activation_bits(device: Device, format: str) -> tuple[float, float]:
    """Stored bits of an activation, and of state, of ops in the scenario's format and of those that stay wide. [bit]"""
    wide = BITS[wide_format(device, format)]
    return wide if format in WEIGHT_ONLY else BITS[format], wide


def offchip(device: Device) -> Any:
    """The level that holds the network: the largest off-chip memory, or the on-chip one of a part without any."""
    levels = [m for m in device.memory if m.role == "offchip"] or list(device.memory)
    return max(levels, key=lambda m: m.capacity.si)
