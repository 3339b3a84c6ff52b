"""The device families. One line registers one; each family's physics is in its one module."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from engine.devices.common.contract import DeviceFamily

if TYPE_CHECKING:  # read when a machine's programs are first asked for
    from engine.devices.common.instruction_set import InstructionSet

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


@cache
def instructions_of(kind: str) -> InstructionSet | None:
    """What machines of a kind tell of their instruction set; None where they have none."""
    module = family(kind).instructions
    return import_module(module).INSTRUCTIONS if module is not None else None
