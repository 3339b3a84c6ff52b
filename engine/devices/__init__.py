"""The device families. One line registers one; each family's physics is in its one module."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from engine.devices.family import DeviceFamily

__all__ = ["FAMILIES", "family"]

FAMILIES: dict[str, str] = {
    "cpu": "engine.devices.cpu",
    "gpu": "engine.devices.gpu",
    "card": "engine.devices.card",
    "npu": "engine.devices.npu",
    "dfx": "engine.devices.dfx",
    "smartnic": "engine.devices.smartnic",
}


@cache
def family(kind: str) -> DeviceFamily:
    """The family of a device kind; its module is imported when first asked for."""
    return import_module(FAMILIES[kind]).FAMILY
