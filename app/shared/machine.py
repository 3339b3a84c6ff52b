"""Inside a machine with an instruction set: its units, its fabric, its tiles, its arithmetic. On Machine."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app.shared import cached, link, parts
from app.shared import formats as fmt
from app.shared.figures.drawing import hover, line, points
from app.shared.figures.heat import heat
from app.shared.figures.report import Share, shares
from app.shared.figures.style import INK, NEUTRAL, PALETTE, Figure, names_axis, span, style
from engine.analyses.machine import Generation, MachineReport, generations
from engine.analyses.machine import machine as machine_of
from engine.devices.common.instruction_set import TIE
from engine.scenario.formats import LABELS
from hardware_specs.schema import Device

_PART = 0.002  # of a latency
_SLIVER = 0.02  # of a resource: units that take less are left to the command line


def peaks(parts: Sequence[Generation], dark: bool) -> Figure:
    """Peak against precision: a line a part, told apart by marker and name; a star where its instance stands."""
    formats = [density.format for density in parts[0].densities]
    peak = max(density.flops_per_s for part in parts for density in part.densities)
    scale = fmt.scale([peak], "FLOP/s")
    looks = (("circle", "solid"), ("square", "dash"), ("diamond", "dot"))
    data = []
    for part, (symbol, dash) in zip(parts, looks):
        says = [hover(part.name, f"{d.format}: {fmt.si(d.flops_per_s, 'FLOP/s')} would fit") for d in part.densities]
        ys = [scale(d.flops_per_s) for d in part.densities]
        trace = line(range(len(formats)), ys, INK[dark], says, width=1.6, dash=dash, size=8, symbol=symbol)
        text = {"text": [""] * (len(ys) - 1) + [part.name], "textposition": "top left", "cliponaxis": False}
        data.append(trace | text | {"mode": "lines+markers+text"})
        name, rate = part.printed
        if name in formats:
            tip = hover(f"{part.name}, its instance", f"{name}: {fmt.si(rate, 'FLOP/s')}")
            data.append(points([formats.index(name)], [scale(rate)], NEUTRAL, tip, symbol="star", size=13))
    x = names_axis([LABELS.get(name, name.upper()) for name in formats], 0.4)
    return style(data, x, span(f"Peak ({scale.unit})", 0, 1.22 * scale(peak), grid=True, nticks=5), 300, dark)


def precisions(device: Device) -> None:
    """Peak against precision for the generations of the soft processor; nothing where the part has none."""
    by_logic = generations(device)
    if not by_logic:
        return
    ends = by_logic[0].densities[0], by_logic[0].densities[-1]
    rates = ", ".join(f"{fmt.si(end.flops_per_s, 'FLOP/s')} at {end.format}" for end in ends)
    answer = f"{rates} would fit (star: the instance)"
    parts.chart("Peak against precision", answer, peaks(by_logic, parts.dark()), "precisions", stretch=False)


def _tiles(machine: MachineReport) -> None:
    tiles = machine.tiles
    assert tiles is not None
    best, now = [(tiles.rows.index(side), tiles.columns.index(lanes)) for side, lanes in (tiles.best, tiles.now)]
    answer = f"{tiles.best[0]} × {tiles.best[1]}, {fmt.seconds(tiles.seconds[best[0]][best[1]])}, has the fewest DSP "
    answer += f"slices within {100 * TIE:g}% of the fastest (ring; star: now)"
    scale = fmt.scale((v for row in tiles.seconds for v in row), "s")
    names = ("Lanes l", "Tile dimension d")
    fig = heat(tiles.columns, tiles.rows, tiles.seconds, best, now, names, "Latency", scale, parts.dark())
    parts.chart("Latency by tile", answer, fig, "inside.tiles")


def _shares(question: str, answer: str, rows: list[Share], title: str, key: str) -> None:
    fig = shares(rows, PALETTE["compute"][parts.dark()], title, parts.dark())
    parts.chart(question, answer, fig, f"inside.{key}")


def _fabric(machine: MachineReport) -> None:
    rows = [
        Share(use.name, use.share, f"{fmt.count(use.used)} of {fmt.count(use.available)}, {use.basis}", weak)
        for use in machine.uses
        if use.share is not None and use.share >= _SLIVER
        for weak in [use.basis.startswith("printed")]
    ]
    if rows:
        full = max(rows, key=lambda row: row.share)
        legend = " (hatched: printed)" if any(row.weak for row in rows) else ""
        answer = f"{full.name} {fmt.percent(full.share)} used{legend}"
        _shares("Fabric in use", answer, rows, "Share of the part", "fabric")


def _units(machine: MachineReport) -> None:
    rows = [
        Share(
            u.name, u.busy_s / (u.busy_s + u.stall_s), f"{fmt.seconds(u.busy_s)} busy, {fmt.seconds(u.stall_s)} stalled"
        )
        for u in machine.units
    ]
    if rows:
        busiest = max(rows, key=lambda row: row.share)
        answer = f"{busiest.name} is busy {fmt.percent(busiest.share)} of {machine.timeline_of}"
        _shares("Units", answer, rows, "Share of the time", "units")


def _parts(machine: MachineReport) -> None:
    rows = [Share(p.name, p.share, fmt.seconds(p.time_s)) for p in machine.parts if p.share >= _PART]
    answer = ", ".join(f"{row.name} {fmt.percent(row.share)}" for row in rows[:3])
    _shares("Latency by part", answer, rows, "Share of the latency", "parts")


def _arithmetic(machine: MachineReport) -> None:
    worst = max(machine.errors, key=lambda row: row.relative)
    with parts.card("Arithmetic", f"a small random network in its formats: {fmt.percent(worst.relative)} off at most"):
        for row in machine.errors:
            st.markdown(f"**{fmt.percent(row.relative)}** {fmt.plain(row.name)} :gray[· {fmt.plain(row.note)}]")


def inside() -> None:
    """What a machine with an instruction set has beside its spec."""
    with st.skeleton(height=360):
        machine = cached.answer(machine_of, link.current())
    draws = [_units, _parts, _fabric] + ([_tiles] if machine.tiles else []) + [_arithmetic]
    for first in range(0, len(draws), 2):
        pair = draws[first : first + 2]
        parts.beside(*(partial(draw, machine) for draw in pair), widths=(1,) * len(pair))
