"""What a sweep hands over: the front, a cloud to draw behind it, and counts; and how it is written to a file."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engine.cost.changes import plain, shift
from engine.cost.error_bands import BANDED, NO_BAND, ErrorBand, error_band
from engine.devices.common.contract import RESOURCES
from engine.evaluate import evaluate
from engine.kernels.sources import engine_version
from engine.scenario import Scenario, ScenarioError, encode
from engine.scenario.files import inert
from engine.sweep.goals import FIGURES
from engine.sweep.space import Space
from hardware_specs.catalog import Catalog, default_catalog
from model_zoo.catalog import Zoo, default_zoo


@dataclass
class Counts:
    """How many designs were priced, refused, don't fit or miss a limit; a design can miss several."""

    size: int
    missed: np.ndarray  # of each limit, among those that run and fit
    done: int = 0
    skipped: int = 0  # differ from another design only in what their system or network has none of
    refused: int = 0
    unfit: int = 0
    kept: int = 0  # meet everything
    sentences: dict[str, None] = field(default_factory=dict)  # why designs were refused

    def add(self, part: "Counts") -> None:
        """Counts what a part of the designs came to."""
        for name in ("done", "refused", "unfit", "kept", "missed"):
            setattr(self, name, getattr(self, name) + getattr(part, name))

    def explain(self) -> None:
        """ScenarioError, with the first reason, where every design was refused."""
        if self.sentences and self.refused + self.skipped == self.size:
            raise ScenarioError(f"no design of this space can run: {next(iter(self.sentences))}")

    def say(self, sentences: Sequence[str]) -> None:
        """Remembers why designs were refused, a few sentences at most."""
        for text in sentences:
            if len(self.sentences) < 20:
                self.sentences.setdefault(text)


def origin(space: Space, scenario: Scenario | None, figures: Mapping[str, float | None]) -> dict[str, Any]:
    """What made the figures of a design, as exported rows end with it: error band, its ends, versions. [s], [1/s]

    A design that is refused is None; one of which not every figure is given is evaluated.
    """
    zoo = space.zoo or default_zoo()
    band = NO_BAND if scenario is None else _band(space.catalog, zoo, scenario, figures)
    return {
        "error_band": band.relative,
        **band.ends({name: value for name, value in figures.items() if name in BANDED}),
        "engine_version": engine_version(),
        "catalog_version": (space.catalog or default_catalog()).digest,
        "zoo_version": zoo.digest,
    }


def design_row(
    space: Space, number: int, scenario: Scenario | None, figures: Mapping[str, float | None]
) -> dict[str, Any]:
    """A design as a flat row: its number, what each axis sets, figures, token, error band, versions. [SI]"""
    axes = {path: shown(value) for path, value in space.values(number).items()}
    token = "" if scenario is None else encode(scenario)
    return {"design": number, **axes, **figures, "token": token, **origin(space, scenario, figures)}


def _band(catalog: Catalog | None, zoo: Zoo, scenario: Scenario, figures: Mapping[str, float | None]) -> ErrorBand:
    if not figures.keys() >= set(FIGURES):
        return evaluate(scenario, catalog, zoo).error_band
    before, latency, rate = plain(scenario, catalog, zoo), figures["latency_s"], figures["throughput_per_s"]
    if before is None or latency is None or rate is None:
        return NO_BAND
    limit = max(RESOURCES, key=lambda name: figures[f"{name}_s"] or 0.0)
    network, graph = zoo.workload(scenario.workload).family, zoo.graph(scenario.workload)
    return error_band(scenario, network, graph, before[1], limit, shift(scenario, latency, rate, catalog, zoo))


@dataclass(frozen=True)
class Front:
    """Designs that no other one beats in every objective, ordered by number (`SweepResult.top`: best first)."""

    space: Space
    numbers: np.ndarray
    values: np.ndarray  # (objectives, n), as reports print them

    def __len__(self) -> int:
        return len(self.numbers)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One flat row a design: number, what each axis sets, objectives, token, error band, versions."""
        names = [o.figure for o in self.space.objectives]
        for number, values in zip(self.numbers.tolist(), self.values.T.tolist(), strict=True):
            figures = dict(zip(names, values, strict=True))
            yield design_row(self.space, number, self.space.scenario(number), figures)


@dataclass(frozen=True)
class SweepResult:
    """Everything a sweep found. `cloud` (figures, n) holds NaN where a design is refused (`cloud_state` 2)."""

    space: Space
    front: Front
    top: Front  # the best by the first objective alone, best first
    cloud_numbers: np.ndarray
    cloud: np.ndarray
    cloud_state: np.ndarray  # 0 fits, 1 does not fit, 2 refused
    counts: Counts
    seconds: float
    setup_s: float = 0.0  # of the seconds: networks bound and planned, tables made, while nothing may be priced yet
    figures: tuple[str, ...] = FIGURES  # names of the cloud's rows

    @property
    def pricing_per_s(self) -> float:
        """Designs priced and thinned a second, set-up apart. [1/s]"""
        return self.counts.done / max(self.seconds - self.setup_s, 1e-9)

    def check_objectives(self) -> None:
        """ScenarioError for an objective that no design has, which leaves no front."""
        cloud = self.cloud[:, self.cloud_state == 0]
        if len(self.front) or not self.counts.kept or not cloud.size:
            return
        names = [name for name, row in zip(FIGURES, cloud, strict=True) if not np.isnan(row).all()]
        lacking = next((o.figure for o in self.space.objectives if o.figure not in names), None)
        if lacking is not None:
            raise ScenarioError(
                f"objective {lacking}: no design of this space has that figure; they have {', '.join(names)}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the command line."""
        c = self.counts
        return {
            "designs": c.size,
            **{name: getattr(c, name) for name in ("refused", "skipped", "unfit", "kept")},
            "missed": {str(limit): int(n) for limit, n in zip(self.space.limits, c.missed, strict=True)},
            "refusals": list(c.sentences),
            "seconds": self.seconds,
            "setup_s": self.setup_s,
            "evaluated": c.done,
            "designs_per_s": c.done / self.seconds,
            "objectives": [str(o) for o in self.space.objectives],
            "front": list(self.front.rows()),
            "top": list(self.top.rows()),
        }


def shown(value: Any) -> Any:
    """A value of an axis in one cell: what is set together, joined."""
    return ";".join(f"{k}={v}" for k, v in value.items()) if hasattr(value, "items") else value


def write_rows(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Writes rows to a .csv or .parquet file. Text a spreadsheet would run is made inert.

    ScenarioError for another suffix, or Parquet without pyarrow.
    """
    if path.suffix == ".parquet":
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise ScenarioError(f"{path.name}: Parquet needs pyarrow, which is not installed; use .csv") from None
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return
    if path.suffix != ".csv":
        raise ScenarioError(f"{path.name}: .csv and .parquet can be written")
    writer = None
    with path.open("w", newline="") as file:
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
            writer.writerow({key: inert(value) for key, value in row.items()})
