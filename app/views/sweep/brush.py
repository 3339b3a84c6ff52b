"""The front over its cloud, brushed in the browser: what the component is given, and what it says back.

Selecting, hovering and colouring happen in `brush.js` and reach no server; opening a design and listing a selection do.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from app.shared import formats as fmt
from app.shared.figures.style import CLOUD, INK, NEUTRAL, PICK
from app.views.sweep.axes import Candidate
from app.views.sweep.background import Outcome, settings_along
from app.views.sweep.objectives import Metric
from engine.sweep import FIGURES

_HERE = Path(__file__).parent
_HTML = """
<div class="brush">
  <div class="plot"><canvas class="points"></canvas><canvas class="pixels"></canvas>
    <canvas class="over" role="img"></canvas>
    <div class="tip" style="display:none"></div></div>
  <div class="bar"><label>Colour by <select class="colour"></select></label><span class="legend"></span></div>
  <div class="bar"><span class="count" role="status"></span>
    <button class="clear">Clear</button><button class="list">List these below</button></div>
  <div class="picked" style="display:none"><span></span><button class="open">Show this design</button></div>
  <canvas class="upright" style="display:none"></canvas>
</div>
"""
_UPRIGHT = 8  # axes side by side that stay readable
_COMPONENT = st.components.v2.component(
    "sweep.brush", html=_HTML, css=(_HERE / "brush.css").read_text(), js=(_HERE / "brush.js").read_text()
)


def _unit(unit: str) -> dict[str, Any]:
    """A unit for the browser: `counted` ones keep a prefix with the number."""
    return {"unit": unit, "counted": fmt.counted(unit)}


def points(
    outcome: Outcome, metrics: Mapping[str, Metric], candidates: Mapping[str, Candidate]
) -> tuple[list[dict[str, Any]], np.ndarray, np.ndarray]:
    """Columns that a point can be coloured by, their values (columns, n), and the designs' numbers (n,), front last.

    Figures come first, in SI; a column of choices holds their places in its list of names.
    """
    behind = ~np.isin(outcome.cloud_numbers, outcome.drawn_numbers)  # each design once
    numbers = np.concatenate([outcome.cloud_numbers[behind], outcome.drawn_numbers])
    figures = np.concatenate([outcome.cloud_figures[:, behind], outcome.drawn_figures], axis=1)
    columns: list[dict[str, Any]] = []
    values = []
    for name in dict.fromkeys((*outcome.objectives, *metrics)):
        row = figures[FIGURES.index(name)]
        if name in outcome.objectives or np.isfinite(row).any():
            columns.append({"name": name, "label": metrics[name].label} | _unit(metrics[name].unit))
            values.append(row)
    for path, taken, stride in settings_along(outcome.space):
        candidate, digits = candidates[path], numbers // stride % len(taken)
        column = {"name": path, "label": candidate.label[:1].upper() + candidate.label[1:]}
        if candidate.row is not None:
            columns.append(column | _unit(candidate.row.unit))
            values.append(np.array(taken, dtype=np.float64)[digits])
        else:
            columns.append(column | {"unit": "", "names": [candidate.shown(v) for v in taken]})
            values.append(digits.astype(np.float64))
    return columns, np.array(values), numbers


def packed(meta: Mapping[str, Any], values: np.ndarray, numbers: np.ndarray) -> bytes:
    """One message: length of the header, header, then numbers as f8 and the columns (columns, n) as f4."""
    head = json.dumps({**meta, "n": len(numbers)}).encode()
    gap = b"\0" * (-(4 + len(head)) % 8)
    rows = np.ascontiguousarray(values, dtype="<f4").tobytes() if len(values) else b""
    return struct.pack("<I", len(head)) + head + gap + numbers.astype("<f8").tobytes() + rows


def draw(
    outcome: Outcome,
    metrics: Mapping[str, Metric],
    candidates: Mapping[str, Candidate],
    *,
    picked: int,
    limits: Mapping[str, float],
    height: int,
    alt: str,
    opened: Callable[[], None],
    listed: Callable[[], None],
) -> None:
    """The chart. `opened` and `listed` are called, on a rerun, when a design or a selection is asked for.

    `picked` is the number of the design that is ringed at first, `height` px.
    """
    key = (picked, tuple(limits.items()), height, alt)
    if key not in outcome.messages:
        columns, values, numbers = points(outcome, metrics, candidates)
        front = len(outcome.drawn_numbers)
        goals = list(range(len(outcome.objectives)))
        count = sum(column["name"] in FIGURES for column in columns)
        turned = [at for at in range(count, len(columns)) if len(set(values[at, len(numbers) - front :])) > 1]
        x, y = (metrics[name] for name in outcome.objectives[:2])
        current = [getattr(outcome.report, m.name) for m in (x, y)] if outcome.report.fits else None
        looks = [{"ink": INK[d], "cloud": CLOUD[d], "pick": PICK[d], "neutral": NEUTRAL} for d in (False, True)]
        meta = {
            "key": outcome.key, "columns": columns, "figures": count, "goals": goals, "x": 0, "y": 1,
            "less": [x.less, y.less], "limits": [limits.get(m.name) for m in (x, y)], "current": current,
            "front": front, "picked": picked, "upright": [*goals, *turned][:_UPRIGHT], "looks": looks,
            "height": height, "alt": alt,
        }  # fmt: skip
        outcome.messages.clear()
        outcome.messages[key] = packed(meta, values, numbers)
    _COMPONENT(key="front", data=outcome.messages[key], on_opened_change=opened, on_listed_change=listed)
