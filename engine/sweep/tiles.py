"""What each tile costs each operator: every value of a device's tiling knobs, the best of them and a pinned one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from engine.cost.best_plan import make_plan
from engine.cost.schedule import job_of
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.kernels.search.tiles import best_tiles
from engine.resolve.bind import bind
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo

__all__ = ["TileTable", "tile_table"]

_TILES_LIMIT = 4096


@dataclass(frozen=True)
class TileTable:
    """Seconds of a request by operator shape and tile; NaN where a tile can't be used. Rows of `seconds` are tiles.

    `whole` is everything a stage does at a tile, what belongs to no operator included: the best single tile is the
    least of it, while `best` may differ from operator to operator.
    """

    knobs: tuple[str, ...]
    tiles: tuple[tuple[int, ...], ...]
    shapes: tuple[str, ...]
    seconds: np.ndarray  # (tiles, shapes) [s]
    whole: np.ndarray  # (tiles,) [s]
    best: tuple[tuple[int, ...], ...]  # of each shape
    best_whole: tuple[int, ...]
    pinned: tuple[int, ...] | None  # the scenario's, where it pins one

    @property
    def price_of_pin(self) -> float | None:
        """Time at the pinned tile over time at the best one. [-]"""
        if self.pinned is None:
            return None
        return float(self.whole[self.tiles.index(self.pinned)] / self.whole[self.tiles.index(self.best_whole)])

    def price_of(self, shape: int) -> float | None:
        """The same for one operator shape. [-]"""
        if self.pinned is None:
            return None
        at = self.tiles.index(self.pinned)
        least = self.seconds[self.tiles.index(self.best[shape]), shape]
        return float(self.seconds[at, shape] / least) if least else 1.0


def tile_table(scenario: Scenario, catalog: Catalog | None = None, zoo: Zoo | None = None) -> TileTable:
    """Every tile of the first stage's device, for each distinct operator shape of the scenario. Exhaustive.

    Operators of the same kind and dimensions are one row. Raises ScenarioError where the device has no tiling knob.
    """
    bound = bind(scenario.with_(tile=()), catalog, zoo)
    plan = make_plan(bound)
    stage = plan.stages[0]
    fam = family(stage.device.kind)
    knobs = fam.knobs(stage.device) if fam.knobs else ()
    if not knobs:
        raise ScenarioError(f"{stage.device.name} has no tiling knob")
    if scenario.tile:
        bind(scenario, catalog, zoo)
    tiles = tuple(product(*(knob.values for knob in knobs)))
    if len(tiles) > _TILES_LIMIT:
        raise ScenarioError(f"{stage.device.name} has {len(tiles)} tiles: at most {_TILES_LIMIT} are compared")
    s = bound.scenario
    jobs = []
    for phase in bound.graph.phases:
        passes = phase.repeat.at(s.inputs, s.outputs)
        job = job_of(bound, stage, fam, phase)
        if passes > 0 and job.ops:
            jobs.append((job, passes))
    rows: dict[str, int] = {}
    of: list[list[int]] = []
    for job, _ in jobs:
        at = (job.batch, job.length, job.context)
        names = [
            f"{op.kind} {'x'.join(f'{d.at(*at):g}' for d in (op.g, op.m, op.n, op.k))}"
            if op.contraction
            else f"{op.kind} of {op.writes.at(*at):g}"
            for op in job.ops
        ]
        of.append([rows.setdefault(name, len(rows)) for name in names])
    seconds, whole = np.zeros((len(tiles), len(rows))), np.zeros(len(tiles))
    for t, tile in enumerate(tiles):
        for (job, passes), to in zip(jobs, of, strict=True):
            try:
                cost = fam.price(replace(job, tile=tile))
            except (ScenarioError, Unsupported):
                seconds[t], whole[t] = np.nan, np.nan
                continue
            np.add.at(seconds[t], to, cost.seconds.sum(axis=1) * passes)
            whole[t] += cost.total_s * passes
    best = np.empty(len(rows), dtype=np.int64)
    first = best_tiles(seconds, whole, best)
    if first < 0:
        raise Unsupported(f"{stage.device.name} can use none of its tiles for {bound.workload.name}")
    return TileTable(
        tuple(k.name for k in knobs),
        tiles,
        tuple(rows),
        seconds,
        whole,
        tuple(tiles[b] for b in best),
        tiles[first],
        scenario.tile or None,
    )
