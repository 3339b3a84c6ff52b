"""The device families. One line registers one; each family's physics is in its one module."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from engine.devices.common.contract import DeviceFamily

__all__ = ["FAMILIES", "family"]

FAMILIES: dict[str, str] = {
    "cpu": "engine.devices.cpu.family",
    "gpu": "engine.devices.gpu.family",
    "card": "engine.devices.card.family",
    "npu": "engine.devices.npu.family",
    "dfx": "engine.devices.dfx.family",
    "smartnic": "engine.devices.smartnic.family",
}


@cache
def family(kind: str) -> DeviceFamily:
    """The family of a device kind; its module is imported when first asked for."""
    return import_module(FAMILIES[kind]).FAMILY
