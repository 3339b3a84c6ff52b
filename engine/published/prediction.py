"""How one published figure is predicted: the shape that the module of each document fills in.

Each of those modules exports ``PREDICTIONS: dict[str, Prediction]`` and ``REASONS: dict[str, str]``; together they
name every claim of their document exactly once. A claim without a prediction stays in the list with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.scenario import Scenario


@dataclass(frozen=True)
class Prediction:
    """A prediction of one claim.

    Attributes
    ----------
    value : called with the predictions of the claims in `of`; returns the prediction in the claim's printed unit (a
        number, a (low, high) pair for a published range, or True/False for a claim about an order).
    scenario : the scenario a reader may open to see it, where there is one.
    family : device family whose error band this figure informs, where it is a performance figure.
    note : the assumption a reader must know, or what is inconsistent in the source.
    of : claims of whose predictions this one is a function: it is derived, and no evidence of its own.
    naive : the alternative that the claim must rule out and what it predicts; None: the roofline of the data sheet.
    """

    value: Callable[..., Any]
    scenario: Callable[[], Scenario] | None = None
    family: str | None = None
    note: str = ""
    of: tuple[str, ...] = ()
    naive: tuple[str, Any] | None = None


def predicted(given: Mapping[str, Prediction], id: str) -> Any:
    """The prediction of a claim, from those of others where it is derived, in its printed unit."""
    return given[id].value(*(predicted(given, other) for other in given[id].of))
