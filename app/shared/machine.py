"""Inside a machine with an instruction set: its units, its fabric, its tiles, its arithmetic. On Machine."""

from __future__ import annotations

import streamlit as st

from app.shared import cached, link, parts
from app.shared import formats as fmt
from app.shared.figures import machine as machine_charts
from app.shared.figures.heat import ObjectiveAxis, heat
from app.shared.figures.machine import Bar, PeakOfPart
from engine.analyses.machine import MachineReport, generations
from engine.devices.common.instruction_set import SAME
from engine.scenario import encode
from hardware_specs.schema import Device

_PART = 0.002  # of a latency
_SLIVER = 0.02  # of a resource: units that take less are left to the command line


def precisions(device: Device) -> None:
    """Peak against precision for the generations of the soft processor; nothing where the part has none."""
    by_logic = generations(device)
    if not by_logic:
        return
    listed = [PeakOfPart(g.name, [(d.format, d.flops_per_s) for d in g.held], g.printed) for g in by_logic]
    mine = by_logic[0]
    low, high = mine.held[0], mine.held[-1]
    answer = (
        f"{fmt.si(low.flops_per_s, 'FLOP/s')} at {low.format}, {fmt.si(high.flops_per_s, 'FLOP/s')} at {high.format}"
    )
    with parts.card("Peak against precision", f"{answer} would fit (star: the instance)", stretch=False):
        parts.figure(machine_charts.peaks(listed, parts.dark()), f"Peak by precision: {answer}.", "precisions")


def _tiles(machine: MachineReport) -> None:
    tiles = machine.tiles
    if tiles is None:
        return
    side, lanes = tiles.best
    time = tiles.seconds[tiles.rows.index(side)][tiles.columns.index(lanes)]
    answer = f"{side} × {lanes} is as fast as any within {fmt.percent(SAME)}, {fmt.seconds(time)}"
    answer += ", with the fewest DSP slices"
    known = [v for row in tiles.seconds for v in row if v is not None]
    axis = ObjectiveAxis("Latency", "s", fmt.scale(known, "s"), True)
    with parts.card("Latency by tile", f"{answer} (ring: it, star: now)"):
        fig = heat(
            [str(v) for v in tiles.columns],
            [str(v) for v in tiles.rows],
            tiles.seconds,
            (tiles.rows.index(side), tiles.columns.index(lanes)),
            (tiles.rows.index(tiles.now[0]), tiles.columns.index(tiles.now[1])),
            ("Lanes l", "Tile dimension d"),
            axis,
            parts.dark(),
        )
        parts.figure(fig, f"Latency over the tile's knobs: {answer}.", "inside.tiles")


def _fabric(machine: MachineReport) -> None:
    rows = [
        Bar(
            use.name,
            use.share,
            f"{fmt.count(use.used)} of {fmt.count(use.available)}, {use.basis}",
            use.basis.startswith("printed"),
        )
        for use in machine.uses
        if use.share is not None and use.share >= _SLIVER
    ]
    if not rows:
        return
    full = max(rows, key=lambda row: row.share)
    answer = f"{full.name} {fmt.percent(full.share)} used"
    hatched = " (hatched: printed)" if any(row.weak for row in rows) else ""
    with parts.card("Fabric in use", answer + hatched):
        fig = machine_charts.shares(rows, "Share of the part", parts.dark())
        parts.figure(fig, f"Fabric of {machine.device}: {answer}.", "inside.fabric")


def _units(machine: MachineReport) -> None:
    if not machine.units:
        return
    rows = [
        Bar(
            unit.name,
            unit.busy_s / (unit.busy_s + unit.stall_s),
            f"{fmt.seconds(unit.busy_s)} busy, {fmt.seconds(unit.stall_s)} stalled",
        )
        for unit in machine.units
    ]
    most = max(rows, key=lambda row: row.share)
    answer = f"{most.name} is busy {fmt.percent(most.share)} of {machine.timeline_of}"
    with parts.card("Units", answer):
        fig = machine_charts.shares(rows, "Share of the time", parts.dark())
        parts.figure(fig, f"Units: {answer}.", "inside.units")


def _parts(machine: MachineReport) -> None:
    rows = [Bar(p.name, p.share, fmt.seconds(p.time_s)) for p in machine.parts if p.share >= _PART]
    answer = ", ".join(f"{row.name} {fmt.percent(row.share)}" for row in rows[:3])
    with parts.card("Latency by part", answer):
        fig = machine_charts.shares(rows, "Share of the latency", parts.dark())
        parts.figure(fig, f"Latency by part: {answer}.", "inside.parts")


def _arithmetic(machine: MachineReport) -> None:
    worst = max(machine.errors, key=lambda row: row.relative)
    with parts.card("Arithmetic", f"a small drawn network, run: {fmt.percent(worst.relative)} off at most"):
        for row in machine.errors:
            st.markdown(f"**{fmt.percent(row.relative)}** {fmt.plain(row.name)} :gray[· {fmt.plain(row.note)}]")


def inside() -> None:
    """What a machine with an instruction set has beside its spec."""
    with st.skeleton(height=360):
        machine = cached.machine(encode(link.current()))
    shown = [_units, _parts, _fabric] + ([_tiles] if machine.tiles else []) + [_arithmetic]
    for first in range(0, len(shown), 2):
        pair = shown[first : first + 2]
        for column, draw in zip(st.columns(len(pair), gap="small"), pair):
            with column:
                draw(machine)
