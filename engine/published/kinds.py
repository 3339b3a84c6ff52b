"""The kind of evidence that each claim is, by what moves its prediction.

What moves it was found by changing everything, which takes minutes: `tests/tools/dependence.py` renews the file.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from engine.devices import FAMILIES, family
from engine.devices.common.setting import Rule
from engine.published.prediction import Prediction

DEPENDENCE = Path(__file__).resolve().parent / "dependence.json"
THRESHOLD = 0.01
"""Relative change of a prediction from which it depends on a constant that is halved or doubled. [-]"""
_ONE_SIDED = ("upper_bound", "lower_bound", "order")


@cache
def moves() -> dict[str, Any]:
    """What moves each prediction, and each constant that names claims with every prediction it moves, as last found."""
    return json.loads(DEPENDENCE.read_text())


def rules() -> tuple[Rule, ...]:
    """What was read off published figures without being a number."""
    return tuple(rule for fam in map(family, FAMILIES) for rule in fam.rules)


def kind_of(tolerance: Any, prediction: Prediction, moves: Mapping[str, float]) -> str:
    """Kind of a claim that is predicted, by what moves its prediction.

    ``derived`` from others; ``bound`` where the claim is one-sided or an order of magnitude; ``timing`` where a cost
    model's times or constants move it; ``input`` where only numbers of the catalog do; ``count`` where only the sizes
    and operators of a network do; else ``identity``.
    """
    if prediction.of:
        return "derived"
    if tolerance in _ONE_SIDED:
        return "bound"
    if moves["times"] or moves["model"]:
        return "timing"
    if moves["catalog"] > THRESHOLD:
        return "input"
    return "count" if moves["zoo"] > THRESHOLD else "identity"
