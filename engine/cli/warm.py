"""Compile what the first visitor would wait for: ``python -m engine.cli.warm``."""

from __future__ import annotations

from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from engine.sweep import sweep
from entries.schema import InputError

_DESIGNS = {
    "scenario": {"system": "v100-appliance", "workload": "gpt2-345m"},
    "axes": {
        "batch": {"from": 1, "to": 64, "by": 1},
        "devices.0.memory.hbm.bandwidth": {"from": 5e11, "to": 4e12, "steps": 64, "scale": "log"},
    },
}


def warm() -> int:
    """Evaluate every preset once and sweep a few designs; returns how many presets answered.

    Presets that can't run are left to their page to say.
    """
    answered = 0
    for preset in PRESETS.values():
        try:
            evaluate(preset.scenario)
            answered += 1
        except InputError:
            continue
    sweep(_DESIGNS)  # after them: what they compiled serves it
    return answered


if __name__ == "__main__":
    print(f"{warm()} of {len(PRESETS)} presets evaluated")
