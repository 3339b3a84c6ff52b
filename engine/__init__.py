"""Inferscape's engine: headless, import it in a notebook or drive it with ``python -m engine``.

>>> from engine import default_scenario, evaluate
>>> report = evaluate(default_scenario("dfx-u280", "gpt2-1.5b"))

Names are imported when first asked for, so that ``import engine`` costs nothing.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_PUBLIC = {
    "evaluate": "engine.evaluate",
    "Report": "engine.cost.report",
    "Scenario": "engine.scenario",
    "ScenarioError": "engine.scenario",
    "encode": "engine.scenario",
    "decode": "engine.scenario",
    "Unsupported": "engine.devices.common.contract",
    "choices": "engine.resolve.choices",
    "default_scenario": "engine.resolve.choices",
    "why_not": "engine.resolve.choices",
    "PRESETS": "engine.resolve.presets",
    "preset": "engine.resolve.presets",
    "validate": "engine.published",
    "apply": "engine.scenario.overrides",
}

__all__ = sorted(_PUBLIC)  # noqa: PLE0605  # built from the one table above


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


class _Engine(ModuleType):
    """A function that has its module's name (`evaluate`, `choices`) stays the function when the module is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _PUBLIC.get(name) == value.__name__:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Engine
