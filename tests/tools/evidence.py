"""Measured rows of the project that no constant was fitted on, as residuals with the cell and the source of each."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from engine.cost.error_bands import cell_of, multi_device
from engine.evaluate import evaluate
from engine.published import nearest
from engine.published.headline import independent
from engine.published.measured.compare import Measured, predict, read_measured
from engine.scenario import Scenario, decode, encode
from hardware_specs.catalog import Catalog
from model_zoo.catalog import default_zoo
from tests.tools.conformal import Residual

_FOLDER = Path(__file__).resolve().parents[2] / "engine/published/claims"
MEASURED = {"serving": _FOLDER / "serving.csv", "this-host": _FOLDER / "host" / "measured.csv"}
"""Tables of measurements, which `compare-measured` takes as they are."""
_SEEN = frozenset({"serving"})
"""Tables whose rows were in view when constants of a host and facts of engines (`measured/names.yaml`) were chosen."""
_SOURCES = {"inferencex": "InferenceX", "nvidia": "NVIDIA"}
_TIMES = ("latency", "throughput")  # metrics that are a time or a rate of a whole request


def _residual(
    id: str, publication: str, scenario: Scenario, error: float, catalog: Catalog, *, recalled: bool, seen: bool
) -> Residual:
    device, zoo = catalog.device(catalog.system(scenario.system).devices[0].device), default_zoo()
    limit = evaluate(scenario, catalog).bound
    network = zoo.workload(scenario.workload).family
    cell = cell_of(device, scenario, network, zoo.graph(scenario.workload), limit)
    part, whole = device.lineage, multi_device(scenario)
    return Residual(id, cell, publication, device.id, part, error, scenario.batch, whole, recalled, seen)


@cache
def measured_of(name: str) -> tuple[Measured, Catalog]:
    """A table that is kept here, every row predicted once a process, and the catalog its rows are looked up in."""
    path = MEASURED[name]
    root = path.parent
    catalog = Catalog(*Catalog().roots, root) if (root / "devices").is_dir() else Catalog()
    return predict(read_measured(path, catalog=catalog), catalog), catalog


def _of_tables() -> Iterator[Residual]:
    """Rows of tables kept here: a publication is who published, with which software."""
    for name in MEASURED:
        data, catalog = measured_of(name)
        columns = data.table.columns
        for row in data.rows:
            for figure, error in row.errors.items():
                at = row.number - 1
                if row.engine is not None and figure == "ttft_s":
                    continue  # many passes' time of waiting: says nothing of a scenario's own
                who = [columns[c][at] for c in ("source", "framework") if c in columns]
                publication = " ".join(who) or name
                assert row.scenario is not None
                id, seen = f"{name}-{row.number}-{figure}", name in _SEEN
                yield _residual(id, publication, row.scenario, error, catalog, recalled=False, seen=seen)


def residuals(rows: list[dict[str, Any]], elsewhere: list[dict[str, Any]]) -> list[Residual]:
    """Residuals of absolute times and rates: independent claims of the documents, results printed elsewhere, tables."""
    residues, catalog = [], Catalog()
    for row in rows:
        if independent(row) and row["metric"] in _TIMES and row["family"] and row["token"] and row["error"] is not None:
            scenario = decode(row["token"])
            residues.append(
                _residual(row["id"], row["document"], scenario, row["error"], catalog, recalled=False, seen=False)
            )
    for row in elsewhere:
        scenario = decode(row["token"])
        known = {"recalled": True, "seen": bool(row["seen"])}
        residues.append(_residual(row["id"], row["publication"], scenario, row["error"], catalog, **known))
    return [*residues, *_of_tables()]


def _words(metric: str) -> str:
    """A figure's name without its unit, as it is written: `latency`, `TPOT`."""
    return metric.upper() if metric in ("tpot", "ttft") else metric


def _served(name: str) -> Iterator[dict[str, Any]]:
    """Figures of a table of measurements, as `engine.published.nearest` records them."""
    data, _ = measured_of(name)
    columns = data.table.columns
    for row in data.rows:
        said = {column: cells[row.number - 1] for column, cells in columns.items()}
        for figure in row.errors.keys() - {"ttft_s"}:  # of many passes' waiting: says nothing of a scenario's own
            assert row.scenario is not None
            yield {
                "id": said.get("id") or f"{name}-{row.number}",
                "source": f"{_SOURCES[said['source']]}, {said['framework']} {said['version']}".rstrip(),
                "where": f"{said['model']}, {said['concurrency'] or said['batch_per_rank']} requests in flight",
                "metric": _words(figure.rpartition("_")[0]),
                "unit": "s",
                "published": row.measured[figure],
                "predicted": row.predicted[figure],
                "error": row.errors[figure],
                "role": "in view",
                "token": encode(row.scenario),
                "whole": True,
            }


def figures(rows: list[dict[str, Any]], elsewhere: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every figure that evidence near a scenario may be, as `engine.published.nearest` records them: numbers and ranges
    of claims about times and what follows from them, results printed elsewhere, and measurements of serving engines.
    """
    keys = ("id", "metric", "unit", "published", "predicted", "error", "token")
    result = []
    for row in rows:
        numbers = isinstance(row["published"], int | float | dict) and isinstance(row["predicted"], int | float | list)
        if row["token"] and row["kind"] in ("timing", "derived") and numbers and row["error"] is not None:
            where = ", ".join(filter(None, (row["where"], row["config"])))
            of = {"source": nearest.TITLES[row["document"]], "where": where, "role": row["role"]}
            result.append({key: row[key] for key in keys} | of | {"whole": row["metric"] in _TIMES})
    for row in elsewhere:
        source, _, where = row["source"].rpartition("), ")
        metric, unit = row["metric"].rsplit("_", 1)[0].removesuffix("_per"), "s"
        if metric == "throughput":
            unit = f"{default_zoo().graph(decode(row['token']).workload).unit}/s"
        of = {"source": f"{source})", "where": where, "role": "in view" if row["seen"] else "recalled", "unit": unit}
        result.append({key: row[key] for key in keys if key != "unit"} | of | {"metric": _words(metric), "whole": True})
    return [*result, *_served("serving")]
