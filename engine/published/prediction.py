"""How one published figure is predicted.

A claim's entry says under `prediction` which scenario a reader may open, the device family and what a reader must know.
Where the prediction is a figure of that scenario's report, it names the `figure` and a `scale` to the printed unit;
else the module of its document has a function for it in ``VALUES``. A claim without a prediction stays in the list
with its `reason`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
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


def prediction_of(
    entry: Mapping[str, Any], value: Callable[..., Any] | None, scenario: Callable[[], Scenario] | None
) -> Prediction:
    """The prediction that an entry describes, its value and its scenario computed where a function is given."""
    opened = scenario or (partial(default_scenario, **entry["scenario"]) if "scenario" in entry else None)
    if value is None:
        assert opened is not None
        value = partial(_figure, opened, entry["figure"], entry.get("scale", 1.0))
    naive = (entry["naive"]["name"], entry["naive"]["value"]) if "naive" in entry else None
    return Prediction(value, opened, entry.get("family"), entry.get("note", ""), tuple(entry.get("of", ())), naive)


def _figure(scenario: Callable[[], Scenario], name: str, scale: float) -> float:
    figure = evaluate(scenario()).figure(name)
    assert figure is not None, name
    return figure * scale


def predicted(predictions: Mapping[str, Prediction], id: str) -> Any:
    """The prediction of a claim, from those of others where it is derived, in its printed unit."""
    return predictions[id].value(*(predicted(predictions, other) for other in predictions[id].of))
