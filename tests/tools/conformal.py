"""Error bands by conformal prediction: normalised nonconformity scores, one source left out at a time.

A *source* is one publication's measurements of one part: its rows share a laboratory, a clock and a driver, and count
as one. The nonconformity score of a row is |ln(measured / predicted)| over the scale of its cell (family, kind of work,
regime), where the scale comes from the sources that other publications printed, shrunk to the scale of all. A cell's
band is the conformal quantile of all scores, each source weighing the same whatever its rows, times its scale.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.cost.error_bands import MIN_SOURCES

LEVEL = 0.9
_OUTSIDE = 1.05  # a part that was not measured has a band at least so much wider
_SHRINK = 2.0  # sources that the scale of all cells counts for in the scale of one


@dataclass(frozen=True)
class Residual:
    """One measured row beside its prediction, which no constant was fitted on."""

    id: str
    cell: str  # family | kind of work | regime
    publication: str
    part: str
    lineage: str
    error: float  # predicted / measured - 1
    batch: int = 1
    several: bool = False  # devices worked on a request together
    recalled: bool = False
    seen: bool = False  # in view when constants or facts that its prediction takes were chosen, though not fitted on

    @cached_property
    def source(self) -> tuple[str, str]:
        """What counts as independent of others: who printed it, and of which part."""
        return self.publication, self.part

    @cached_property
    def size(self) -> float:
        """|ln(measured / predicted)|."""
        return abs(math.log1p(self.error))


def source_of(row: Residual) -> tuple[str, str]:
    """What counts as independent."""
    return row.source


def _means(rows: Iterable[Residual]) -> dict[tuple[str, tuple[str, str]], float]:
    """Mean size of the residuals of each source in each cell."""
    by_source: dict[tuple[str, tuple[str, str]], list[float]] = {}
    for row in rows:
        by_source.setdefault((row.cell, row.source), []).append(row.size)
    return {key: sum(sizes) / len(sizes) for key, sizes in by_source.items()}


def _scales(means: Mapping[tuple[str, tuple[str, str]], float]) -> Callable[[str], float]:
    """Scale of a cell: the mean of its sources' `_means`, shrunk to the median of all sources."""
    ranked = sorted(means.values())
    overall = ranked[len(ranked) // 2] if ranked else 0.0
    own: dict[str, list[float]] = {}
    for (cell, _), mean in means.items():
        own.setdefault(cell, []).append(mean)
    return lambda cell: (sum(own.get(cell, ())) + _SHRINK * overall) / (len(own.get(cell, ())) + _SHRINK)


def _quantile(scored: Sequence[tuple[float, Residual]], group: Callable[[Residual], Any] = source_of) -> float:
    """Quantile of scores: every group weighs the same, and so does each of its cells within it.

    By Hazen's position, (k - 1/2) of n, which holds the level on average where split conformal's k of n + 1 holds it at
    least; a 90% quantile then exists from five groups on (`MIN_SOURCES`). Infinite for fewer.
    """
    rows = Counter((group(row), row.cell) for _, row in scored)
    cells = Counter(name for name, _ in rows)
    held = 0.0
    for score, row in sorted(scored, key=lambda one: one[0]):
        held += 1.0 / (cells[group(row)] * rows[group(row), row.cell])
        if held >= LEVEL * len(cells) + 0.5 - 1e-9:
            return score
    return math.inf


def _scored(rows: Sequence[Residual], apart: Callable[[Residual], Any]) -> list[tuple[float, Residual]]:
    """Scores of rows, each by a scale that knows nothing of what it has ``apart`` from others."""
    result, means = [], _means(rows)
    of = {(row.cell, row.source): apart(row) for row in rows}  # a source is of one publication and one lineage
    for name in sorted(set(of.values())):
        scale = _scales({key: mean for key, mean in means.items() if of[key] != name} or means)
        result += [(row.size / scale(row.cell), row) for row in rows if apart(row) == name]
    return result


def _publication(row: Residual) -> str:
    return row.publication


def evident(rows: Sequence[Residual]) -> list[Residual]:
    """Rows of cells that enough independent sources speak of."""
    sources: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        sources.setdefault(row.cell, set()).add(row.source)
    return [row for row in rows if len(sources[row.cell]) >= MIN_SOURCES]


def bands(rows: Sequence[Residual]) -> dict[str, Any]:
    """What `engine.cost.error_bands` reads: every cell's evidence and the logarithm of its band's half width.

    The width is None where sources are too few. ``outside`` is by how much it grows for a part that was not measured:
    scores with whole lineages of parts left out instead of publications, each part weighing the same.
    """
    used = evident(rows)
    known = {row.cell for row in used}
    quantile, scale = _quantile(_scored(used, _publication)), _scales(_means(used))
    unseen = _quantile(_scored(used, lambda row: row.lineage), lambda row: row.part)
    enough = math.isfinite(quantile)
    cells = {}
    for cell in sorted({row.cell for row in rows}):
        mine = [row for row in rows if row.cell == cell]
        cells[cell] = {
            "rows": len(mine),
            "recalled": sum(row.recalled for row in mine),
            "seen": sum(row.seen for row in mine),
            "sources": len({row.source for row in mine}),
            "publications": len({row.publication for row in mine}),
            "log_width": round(quantile * scale(cell), 4) if enough and cell in known else None,
            "parts": sorted({row.part for row in mine}),
            "lineages": sorted({row.lineage for row in mine}),
            "several": any(row.several for row in mine),
            "largest_batch": max(row.batch for row in mine),
        }
    if not math.isfinite(unseen):
        unseen = max((score for score, _ in _scored(used, lambda row: row.lineage)), default=0.0)
    outside = max(_OUTSIDE, unseen / quantile) if enough else _OUTSIDE
    return {"level": LEVEL, "outside": round(outside, 4), "cells": cells, "coverage": coverage(rows)}


def coverage(rows: Sequence[Residual], apart: Callable[[Residual], Any] = source_of) -> list[dict[str, Any]]:
    """By cell, rows whose measurement a band holds that was found without their source. Cross-validation."""
    used = evident(rows)
    held: dict[str, list[bool]] = {}
    for name in sorted({apart(row) for row in used}):
        kept = [row for row in used if apart(row) != name]
        quantile, scale = _quantile(_scored(kept, _publication)), _scales(_means(kept))
        for row in used:
            if apart(row) == name:
                held.setdefault(row.cell, []).append(row.size <= quantile * scale(row.cell))
    return [{"cell": cell, "n": len(group), "held": sum(group)} for cell, group in sorted(held.items())]
