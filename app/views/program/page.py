"""What does the machine do, instruction by instruction?"""

from typing import Any

import pandas as pd
import streamlit as st

from app.shared import boundary, cached, link, parts
from app.shared import formats as fmt
from app.shared.figures.drawing import Bar, bars, hover, rule
from app.shared.figures.style import PALETTE, PICK, Figure, rows_axis, span, style
from app.shared.widgets import sidebar
from app.shared.widgets.choices import choose
from app.views.program import texts
from engine.analyses.machine import Listing, Values, execute, mnemonics, program_text
from engine.analyses.machine import listing as listing_of
from engine.cost.rows import totals
from engine.devices.common.instruction_set import PARTS, Row
from engine.scenario import Scenario, ScenarioError, encode
from entries.schema import InputError

_PRESETS = ("brainwave-gru", "dfx-1.5b")
_FIRST_VALUES = 4  # values of a register
_MAX_BARS = 1500  # bars: of a longer program the longest are drawn


def _own_text(scenario: Scenario) -> str:
    """The shipped program of what the sidebar picks."""
    if "Conv1D" not in mnemonics(scenario):
        return program_text(scenario)
    with st.sidebar:
        part = choose("Program", {name: name.capitalize() for name in PARTS}, "part", help="Of one token.")
    return program_text(scenario, part)


def editor(scenario: Scenario, default: str) -> str:
    """The text that is listed: the shipped program until it is changed."""
    key = f"program.text.{encode(scenario)}.{hash(default)}"
    with parts.card("Program", texts.PROGRAM_HELP):
        text = st.text_area(
            "Program", default, height=420, key=key, label_visibility="collapsed", persist_state="session"
        )
        is_edited = text.strip() != default.strip()
        st.button(
            texts.SHIPPED_PROGRAM,
            on_click=lambda: st.session_state.update({key: default}),
            disabled=not is_edited,
            key="program.reset",
            type="tertiary",
        )
        with st.popover("Mnemonics", type="tertiary"):
            st.caption(fmt.plain(", ".join(mnemonics(scenario))))
            st.caption(texts.SYNTAX_CAPTION)
    return text


def unit_bars(listing: Listing, selection: int, dark: bool) -> Figure:
    """One row per unit, one bar per instruction; a line says when the result of the picked instruction is valid."""
    names = list(dict.fromkeys(unit for unit, *_ in listing.bars))
    text = {row.number: row.text.split("  ")[0] for row in listing.rows}
    min_cycles = listing.cycles / 250  # a bar of a cycle is still seen
    longest = sorted(sorted(listing.bars, key=lambda bar: -bar[3])[:_MAX_BARS], key=lambda bar: bar[2])
    marks = []
    for unit, number, start, cycles in (*longest, *(bar for bar in listing.bars if bar[1] == selection)):
        colour = PICK[dark] if number == selection else PALETTE["compute"][dark]
        says = hover(f"{number}: {text.get(number, '')}", f"{unit}: {cycles:,.0f} cycles from {start:,.0f}")
        marks.append(Bar(names.index(unit), max(cycles, min_cycles), colour, says, start))
    valid = next((row.valid for row in listing.rows if row.number == selection), None)
    line = [rule([valid, valid], [-0.5, len(names) - 0.5], PICK[dark], 1, "dot")] if valid is not None else []
    x = span("Cycle", 0, listing.cycles * 1.02)
    data = [*bars(marks, dark, outline=0.3), *line]
    return style(data, x, rows_axis(names, min_rows=1), 72 + 38 * max(len(names), 2), dark)


def gantt(listing: Listing, row: Row) -> None:
    """Units over time, the picked instruction marked."""
    busy = totals((unit, cycles) for unit, _, _, cycles in listing.bars)
    unit = max(busy, key=lambda name: busy[name])
    answer = f"{fmt.count(listing.cycles)} cycles, {fmt.seconds(listing.seconds)}; {unit} busy for "
    answer += fmt.percent(busy[unit] / listing.cycles)
    fig = unit_bars(listing, row.number, parts.dark())
    parts.chart("Units over time", answer, fig, "program.units", stretch=False)


def rows(listing: Listing) -> None:
    """The listing."""
    waits = sum(bool(row.hazard) for row in listing.rows)
    frame = {
        "No": [row.number for row in listing.rows],
        "Instruction": [" ".join(row.text.split()) for row in listing.rows],
        "Unit": [row.unit for row in listing.rows],
        "Start": [round(row.start) for row in listing.rows],
        "End": [round(row.end) for row in listing.rows],
        "Valid": [round(row.valid) for row in listing.rows],
        "Waits for": pd.array([row.waits_for for row in listing.rows], dtype="Int64"),
        "Hazard": [row.hazard for row in listing.rows],
    }
    answer = texts.LISTING_ANSWER.format(count=fmt.counted(len(listing.rows), "instruction"), waits=fmt.count(waits))
    with parts.card("Listing", texts.LISTING.format(said=answer), stretch=False):
        width = parts.wide_enough(frame["Unit"])
        parts.table(frame, {"Unit": st.column_config.TextColumn(width=width)}, tall=360)
    for note in listing.notes:
        st.caption(fmt.plain(note))


def _table(before: tuple[Values, ...], after: tuple[Values, ...], row: Row) -> dict[str, Any]:
    def text(values: tuple[float, ...] | None) -> str:
        return " ".join(f"{v:.4g}" for v in values[:_FIRST_VALUES]) if values else fmt.UNKNOWN

    old, new = {v.register: v for v in before}, {v.register: v for v in after}
    names = [n for n in dict.fromkeys((*row.reads, *row.writes)) if n in new]
    return {
        "Register": names,
        "Elements": [new[n].elements for n in names],
        "Before": [text(old[n].after if n in old else new[n].before) for n in names],
        "After": [text(new[n].after) for n in names],
        "From float64 (%)": [None if (e := new[n].error) is None else 100 * e for n in names],
    }


@boundary.fragment
def registers(scenario: Scenario, text: str, row: Row) -> None:
    """What the picked instruction reads and writes, before and after, on drawn numbers."""
    with parts.card("Registers", texts.REGISTERS_ANSWER.format(number=row.number), stretch=False):
        if not st.toggle("Run on numbers", key="program.run", help=texts.RUN_NUMBERS_HELP):
            st.caption(fmt.plain(f"{' '.join(row.text.split())} reads {', '.join(row.reads) or 'nothing'}."))
            return
        try:
            before = cached.answer(execute, scenario, text, limit=row.number) if row.number else ()
            frame = _table(before, cached.answer(execute, scenario, text, limit=row.number + 1), row)
        except ScenarioError as error:
            st.caption(fmt.plain(fmt.sentence(error)))
            return
        parts.table(frame)


def show() -> None:
    """The page."""
    report, scenario = parts.report_now(), link.current()
    sidebar.scenario_controls(scenario)
    parts.bar(report, "program")
    try:
        default = _own_text(scenario)
    except InputError as why:
        parts.elsewhere(fmt.sentence(why), _PRESETS, "program")
        return
    left, right = st.columns((2, 3), gap="small")
    with left:
        text = editor(scenario, default)
    with right:
        try:
            listing = cached.answer(listing_of, scenario, text)
        except ScenarioError as error:
            st.error(fmt.plain(fmt.sentence(error)), icon=":material/error:")
            listing = None
        if listing is not None and listing.rows:
            last = len(listing.rows) - 1
            step = st.slider("Instruction", 0, last, 0, key="program.step", help=texts.STEP_HELP) if last else 0
            row = listing.rows[step]
            gantt(listing, row)
            registers(scenario, text, row)
    if listing is not None and listing.rows:
        rows(listing)


show()
