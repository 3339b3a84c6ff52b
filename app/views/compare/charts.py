"""Scenarios side by side as figures. Pure: SI in, figures out."""

import textwrap
from collections.abc import Sequence
from itertools import accumulate

import pandas as pd

from app.shared import formats as fmt
from app.shared.figures.drawing import Bar, hover, rows
from app.shared.figures.style import (
    CLOUD,
    INK,
    NEUTRAL,
    PALETTE,
    RESOURCE_LABELS,
    Figure,
    rows_height,
    span,
    two_lines,
)
from app.views.compare import texts
from engine.devices.common.contract import RESOURCES

_APART = 20.0  # times that differ by more are drawn as shares: the short ones would have no parts to see
_EXTRA = 96  # [px]; of the legend, and what pills and a line of help take of the card beside it
_NAME = 26  # characters of a line on a tick


def _name(letter: str, name: str, number: str) -> str:
    """A scenario on a tick: its system, its configuration beneath, and its number."""
    system, comma, configuration = name.partition(", ")
    lines = (*textwrap.wrap(f"{letter} · {system}{comma.strip()}", _NAME), *textwrap.wrap(configuration, _NAME))
    return "<br>".join((*lines, f"<b>{number}</b>"))


def metric_bars(
    scenarios: Sequence[tuple[str, str, float | None, float | None]], base: int, label: str, unit: str, dark: bool
) -> Figure:
    """One metric, a bar a scenario, with its error band; the baseline is grey.

    `scenarios` are (letter, name, value [SI], relative half width of the error band) in the order of the comparison.
    """
    scale = fmt.scale([v for _, _, v, _ in scenarios], unit)
    marks = []
    for at, (letter, name, v, band) in enumerate(scenarios):
        if v is not None:
            ends = None if band is None else (scale(v) * band / (1 + band), scale(v) * band)
            says = hover(f"{letter} · {name}", f"{scale.text(v)} {scale.unit} {fmt.band(band)}")
            marks.append(Bar(at, scale(v), NEUTRAL if at == base else INK[dark], says, band=ends))
    widest = max((bar.length + (bar.band[1] if bar.band else 0.0) for bar in marks), default=0.0)
    labels = [_name(letter, name, scale.text(v)) for letter, name, v, _ in scenarios]
    x = span(f"{label} ({scale.unit})", 0, widest * 1.05 or 1, grid=True)
    return rows(labels, marks, x, dark, min_rows=2)


def breakdowns(scenarios: Sequence[tuple[str, str, dict[str, float]]], dark: bool) -> tuple[Figure, bool]:
    """Where each scenario's time goes: a bar a scenario, a part a resource; whether shares are drawn, not times.

    `scenarios` are (letter, name, resource -> time [s]).
    """
    totals = [sum(parts.values()) for _, _, parts in scenarios]
    shares = max(totals, default=0.0) > _APART * min(totals, default=1.0)
    scale = fmt.scale(totals, "s")
    marks, starts = [], [0.0] * len(scenarios)
    for resource in RESOURCES:
        times = [parts.get(resource, 0.0) for _, _, parts in scenarios]
        visible = any(t > 0.005 * total for t, total in zip(times, totals))
        for at, (time, total) in enumerate(zip(times, totals)):
            unit, name = 100 / total if shares else scale.factor, RESOURCE_LABELS[resource]
            says = hover(f"{scenarios[at][0]} · {name}", f"{fmt.seconds(time)}, {fmt.percent(time / total)}")
            bar = Bar(at, time * unit, PALETTE[resource][dark], says, starts[at] * unit, part=name)
            marks += [bar] if visible else []
            starts[at] += time
    extent = 100 if shares else scale(max(totals, default=1.0)) * 1.02
    x = span("Share of time (%)" if shares else f"Time ({scale.unit})", 0, extent, grid=True)
    labels = [_name(letter, name, fmt.seconds(t)) for (letter, name, _), t in zip(scenarios, totals)]
    return rows(labels, marks, x, dark, min_rows=2, legend=True, height=rows_height(labels) + _EXTRA), shares


def operator_bars(gains: pd.DataFrame, base: str, rival: str, dark: bool, count: int = 8) -> Figure:
    """Time each operator saves (right) or costs (left) in `rival` against `base`, the largest first: `differences`."""
    largest = gains.head(count)
    scale = fmt.scale(largest["gained"], "s")
    labels = [two_lines(name, scale.text(gain_s)) for name, gain_s in largest["gained"].items()]
    marks = []
    for at, (name, base_s, rival_s, gain_s) in enumerate(largest.itertuples()):
        says = hover(name, f"{base} {fmt.seconds(base_s)}, {rival} {fmt.seconds(rival_s)}")
        marks.append(Bar(at, scale(gain_s), INK[dark] if gain_s > 0 else CLOUD[dark], says))
    low, high = min(0.0, *(b.length for b in marks), 0.0), max(0.0, *(b.length for b in marks), 0.0)
    pad = 0.05 * (high - low or 1.0)
    title = texts.SAVED_AXIS.format(other=rival, base=base, unit=scale.unit)
    ends = (low - pad if low else 0, high + pad if high else 0)
    return rows(labels, marks, span(title, *ends, grid=True, zeroline=True, zerolinecolor=NEUTRAL), dark)


def attribution(
    ends: tuple[str, str],
    values: tuple[float, float],
    shares: Sequence[tuple[str, float]],
    unit: str,
    title: str,
    rising: bool,
    dark: bool,
) -> Figure:
    """From one scenario's figure to another's: a bar a kind of change, each from where the last one ended.

    Changes for the better are ink, for the worse hatched; `rising` says whether more is better. `shares` add up to
    the difference of `values`. [SI]
    """
    reach = list(accumulate((share for _, share in shares), initial=values[0]))
    scale = fmt.scale(reach, unit)
    totals = [f"{end}  <b>{scale.text(value)}</b>" for end, value in zip(ends, values)]
    labels = [totals[0]]
    marks = [Bar(0, scale(values[0]), NEUTRAL, hover(*ends[:1], scale.text(values[0])))]
    for at, ((name, share), start) in enumerate(zip(shares, reach), 1):
        better, change = (share > 0) == rising, f"{'+' if share > 0 else ''}{scale.text(share)}"
        labels.append(two_lines(name, change))
        says = hover(name, f"{change} {scale.unit}, {'better' if better else 'worse'}")
        marks.append(Bar(at, scale(share), INK[dark], says, scale(start), hatch="" if better else "/"))
    labels.append(totals[1])
    marks.append(Bar(len(marks), scale(values[1]), NEUTRAL, hover(*ends[1:], scale.text(values[1]))))
    low, high = min(0.0, *map(scale, reach)), max(map(scale, reach))
    pad = 0.04 * (high - low or 1.0)
    x = span(f"{title} ({scale.unit})", low - pad if low < 0 else 0, high + pad, grid=True)
    return rows(labels, marks, x, dark)
