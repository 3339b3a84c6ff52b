"""Nearest evidence: which published or measured figure lies closest to a scenario, and how far off we are there.

Figures and our predictions of them are recorded in a file that `python -m tests.tools.published` renews, so that no
report waits for a claim to be evaluated.
"""

import json
import math
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from engine.cost.report import Report
from engine.published.headline import TEXTS
from engine.scenario import Scenario, decode
from engine.scenario.configuration import configuration
from engine.scenario.fields import BY_FAMILY
from engine.scenario.sentences import amount
from hardware_specs.catalog import default_catalog
from hardware_specs.schema import Device
from model_zoo.catalog import default_zoo

FILE = Path(__file__).resolve().parent / "evidence.json"
TITLES, ROLES = TEXTS["documents"], TEXTS["roles"]
"""What each of the five documents is about, by its number; what a figure was used for, in words."""
_OTHER_FIELDS = ("scheme", "streams", *(of.path for of in BY_FAMILY), "params", "layers", "split", "second_split")


@dataclass(frozen=True)
class NearestEvidence:
    """A published or measured figure beside our prediction of it, and how far its scenario is from another.

    Attributes
    ----------
    published, predicted : in `unit` as printed: a number, or a (low, high) pair for a printed range.
    error : predicted / published - 1, to the nearest end of a range; None for a bound that is met. [-]
    role : of `ROLES`.
    distance : as `distance` has it; 0: the scenario itself. [-]
    token : the scenario of the figure.
    """

    id: str
    source: str
    where: str
    metric: str
    unit: str
    published: Any
    predicted: Any
    error: float | None
    role: str
    distance: float
    token: str

    @property
    def of(self) -> str:
        """Whose figure it is: `this scenario`, or its system, workload and configuration."""
        if self.distance == 0:
            return "this scenario"
        s = decode(self.token)
        system, workload = default_catalog().system(s.system).name, default_zoo().workload(s.workload).name
        return f"{workload} on {system} ({configuration(s)})"

    @property
    def sentence(self) -> str:
        """The figure, where it is printed, our prediction of it and what it was used for; no mark at the end."""
        off = "met" if self.error is None else f"{100 * self.error:+.1f}%"
        figure, model = (_text(value, self.unit) for value in (self.published, self.predicted))
        text = f"{figure} {self.metric.removesuffix('_pct').replace('_', ' ')}"
        return f"{self.source} ({self.where}) prints {text} for {self.of}; predicted {model}: {off}, {ROLES[self.role]}"


def _text(value: Any, unit: str) -> str:
    """A printed value with its unit, or a range with it once."""
    if isinstance(value, dict):
        value = value["min"], value["max"]
    if isinstance(value, list | tuple):
        low, high = value
        return f"{_text(low, '-')} to {_text(high, unit)}"
    if unit == "s":
        return amount(value, unit)
    if unit in ("fraction", "%"):
        return f"{100 * value if unit == 'fraction' else value:.3g}%"
    number = f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    return number if unit in ("-", "x", None) else f"{number} {unit}"


def _device(scenario: Scenario) -> Device:
    return default_catalog().device(default_catalog().system(scenario.system).devices[0].device)


def distance(scenario: Scenario, evidence: Scenario, whole: bool = True) -> float:
    """How far a figure's scenario is from the one that is asked; 0 where it is the same. [-] A convention.

    A sum over what differs. Part: 0.5 for another system of the same device, 1 for another part of its generation or
    vendor, 2 for another of its family. Work: 1 for another network, 4 for one of another kind. Regime: 1 where one
    runs batch 1 and the other a larger batch. Batch, inputs and outputs: 0.25 per doubling. Devices: 0.5 per doubling.
    Precision: 0.5. Every other choice, switch and what-if: 0.25. A figure that is not of a ``whole`` request (a share,
    a ratio): 1.
    """
    part, rival = _device(scenario), _device(evidence)
    result = 0.0 if whole else 1.0
    if scenario.system != evidence.system:
        result += 0.5 if part is rival else 1.0 if part.lineage == rival.lineage else 2.0
    if scenario.workload != evidence.workload:
        kinds = {default_zoo().workload(s.workload).family for s in (scenario, evidence)}
        result += 1.0 if len(kinds) == 1 else 4.0
    result += float((scenario.batch == 1) != (evidence.batch == 1))
    for name, weight in (("batch", 0.25), ("inputs", 0.25), ("outputs", 0.25), ("devices", 0.5)):
        result += weight * abs(math.log2(max(getattr(scenario, name), 1) / max(getattr(evidence, name), 1)))
    result += 0.5 * (scenario.precision != evidence.precision)
    result += 0.25 * sum(getattr(scenario, name) != getattr(evidence, name) for name in _OTHER_FIELDS)
    result += 0.25 * (bool(scenario.tile) and scenario.tile != evidence.tile)
    for pair in (scenario.switches, evidence.switches), (scenario.overrides, evidence.overrides):
        keys = {key for settings in pair for key in settings}
        result += 0.25 * sum(pair[0].get(key) != pair[1].get(key) for key in keys)
    return result


@cache
def _records() -> dict[str, list[tuple[dict[str, Any], Scenario]]]:
    """Recorded figures with their scenarios, by device family."""
    result: dict[str, list[tuple[dict[str, Any], Scenario]]] = {}
    for row in json.loads(FILE.read_text()):
        scenario = decode(row["token"])
        result.setdefault(_device(scenario).kind, []).append((row, scenario))
    return result


def nearest(scenario: Scenario) -> NearestEvidence | None:
    """The figure of the same device family that lies closest; None where nothing of that family is printed.

    Of figures as close, the one that was held out from calibration comes first, then the order of the documents.
    """
    order = ("validation", "recalled", "in view", "calibration")
    candidates = [
        (distance(scenario, of, row["whole"]), order.index(row["role"]), at, row)
        for at, (row, of) in enumerate(_records().get(_device(scenario).kind, ()))
    ]
    if not candidates:
        return None
    far, _, _, row = min(candidates, key=lambda candidate: candidate[:3])
    return NearestEvidence(**{key: value for key, value in row.items() if key != "whole"}, distance=round(far, 4))


def data_of(report: Report) -> dict[str, Any]:
    """A report as plain data with its `nearest_evidence`: the JSON of the command line and of the app's export."""
    evidence = nearest(report.scenario)
    return report.to_dict() | {"nearest_evidence": None if evidence is None else asdict(evidence)}


def row_of(report: Report) -> dict[str, Any]:
    """A report as one flat row with its nearest evidence before the versions, each of its fields a column."""
    evidence, row = nearest(report.scenario), report.csv_row()
    tail = {key: row.pop(key) for key in list(row) if key.endswith("_version")}
    names = ("id", "source", "where", "metric", "unit", "published", "predicted", "error", "role", "distance")
    return row | {f"nearest_evidence_{name}": evidence and getattr(evidence, name) for name in names} | tail
