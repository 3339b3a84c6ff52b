"""Compile what the first visitor would wait for: ``python -m engine.cli.warm``."""

from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from engine.evaluate import evaluate
from engine.resolve.bind import named
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


def _answered(presets: list[str]) -> int:
    """How many of the presets that evaluate answers. [-] A count."""
    answered = 0
    for id in presets:
        try:
            evaluate(PRESETS[id].scenario)
            answered += 1
        except InputError:
            continue
    return answered


def warm() -> int:
    """Evaluate every preset once and sweep a few designs; returns how many presets answered.

    Presets that can't run are left to their page to say. Families are compiled beside each other.
    """
    families: dict[str, list[str]] = defaultdict(list)
    for id, preset in PRESETS.items():
        families[named(preset.scenario).device.kind].append(id)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        answered = sum(pool.map(_answered, families.values()))
    sweep(_DESIGNS)  # after them: what they compiled serves it
    return answered


if __name__ == "__main__":
    print(f"{warm()} of {len(PRESETS)} presets evaluated")
