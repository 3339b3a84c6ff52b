"""This machine as a device: the CPU family's view of one of its cores, from rates measured here and now."""

from __future__ import annotations

from typing import Literal

from engine.kernels.probe import Roofline, probe
from hardware_specs.quantity import Quantity
from hardware_specs.schema import Cpu, Device, MemoryLevel, Power

__all__ = ["host_core"]


def _measured(value: float, unit: str = "") -> Quantity:
    return Quantity(value=f"{value!r} {unit}".strip(), basis="measured", source="probe", where="engine.kernels.probe")


def _level(name: str, role: Literal["offchip", "onchip"], per: Literal["device", "core"], size: float, rate: float):
    return MemoryLevel(name=name, role=role, per=per, capacity=_measured(size, "B"), bandwidth=_measured(rate, "B/s"))


def host_core(roofline: Roofline | None = None) -> Device:
    """One core of this machine, with the last-level cache and the memory behind it.

    The clock is the one at which the measured FP32 rate is the units' own, so the peak is the measured one. Capacities
    of caches are what the operating system reports, that of DRAM is nominal. A busy machine measures as a slow one.
    """
    seen = roofline if roofline is not None else probe()
    width = 64.0 if seen.isa.startswith("avx512") else 32.0 if seen.isa.startswith("avx2") else 16.0
    clock = seen.fp32 / width
    levels = (
        _level("dram", "offchip", "device", 64e9, seen.dram),
        _level("l3", "onchip", "device", seen.caches.l3, seen.l3),
        _level("l2", "onchip", "core", seen.caches.l2, seen.l2),
    )
    cpu = Cpu(
        cores=_measured(1.0),
        clock=_measured(clock, "Hz"),
        flop_per_cycle={
            "fp32": _measured(width, "FLOP/cycle"),
            "int8": _measured(max(1.0, seen.int8 / clock), "FLOP/cycle"),
        },
        core_bandwidth=_measured(seen.dram, "B/s"),
    )
    return Device(
        schema_version=1, id="this-core", name="One core of this machine", vendor="host", kind="cpu",
        summary="Measured by the roofline probe.", sources={}, memory=levels, power=Power(), cpu=cpu,
        peak={"fp32": _measured(seen.fp32, "FLOP/s"), "int8": _measured(seen.int8, "FLOP/s")},
    )  # fmt: skip
