"""Measured results printed elsewhere than in the five documents, recalled: evidence for error bands and nothing else.

They are data (`claims/other-sources.yaml`); no constant is solved for on them, though some were seen
while mending. Each names a scenario and one figure in SI, and in `seen` what was chosen with
it in view.
"""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import encode
from entries.files import PARSER
from hardware_specs import default_catalog
from model_zoo.catalog import default_zoo

_FILE = Path(__file__).resolve().parent / "claims" / "other-sources.yaml"
FIGURES: tuple[str, ...] = ("latency_s", "tpot_s", "throughput_per_s")
"""Figures of a report that a result may give."""


@cache
def results() -> tuple[dict[str, Any], ...]:
    """Every result as data, its source spelled out."""
    data = yaml.load(_FILE.read_bytes(), PARSER)
    return tuple(r | {"publication": r["source"], "source": data["sources"][r["source"]]} for r in data["results"])


def compare() -> list[dict[str, Any]]:
    """One row a result: id, family, kind of network, metric, measured, predicted, error (their ratio less 1)."""
    rows = []
    for result in results():
        scenario = default_scenario(**result["scenario"])  # that comes closest to what was measured
        metric = next(m for m in FIGURES if m in result)
        measurement, prediction = float(result[metric]), float(getattr(evaluate(scenario), metric))
        device = default_catalog().system(scenario.system).devices[0].device
        rows.append(
            {
                "id": result["id"],
                "role": "elsewhere",
                "family": default_catalog().device(device).kind,
                "network": default_zoo().workload(scenario.workload).family,
                "metric": metric,
                "published": measurement,
                "predicted": prediction,
                "error": prediction / measurement - 1,
                "source": f"{result['source']['title']} ({result['source']['publisher']}), {result['where']}",
                "publication": result["publication"],
                "note": result.get("note", ""),
                "seen": result.get("seen", ""),
                "token": encode(scenario),
            }
        )
    return rows
