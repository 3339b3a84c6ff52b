"""Compile what the first visitor would wait for: ``python -m engine.warm``."""

from __future__ import annotations

from engine.devices.family import Unsupported
from engine.evaluate import evaluate
from engine.presets import PRESETS
from engine.scenario import ScenarioError

__all__ = ["warm"]


def warm() -> int:
    """Evaluate every preset once; returns how many answered. Presets that can't run are left to their page to say."""
    answered = 0
    for preset in PRESETS.values():
        try:
            evaluate(preset.scenario)
            answered += 1
        except (ScenarioError, Unsupported):
            continue
    return answered


if __name__ == "__main__":
    print(f"{warm()} of {len(PRESETS)} presets evaluated")
