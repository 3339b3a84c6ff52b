"""Figures of the Program page. Pure: cycles in."""

from app.shared.figures.drawing import Bar, bars, hover, rule
from app.shared.figures.style import PALETTE, PICK, Figure, rows_axis, span, style
from engine.analyses.programs import Listing

_MOST = 1500  # bars: of a longer program the longest are drawn


def units(listing: Listing, picked: int, dark: bool) -> Figure:
    """A row a unit, a bar an instruction; the picked one stands out, and a line says when its result is valid."""
    names = list(dict.fromkeys(unit for unit, *_ in listing.bars))
    text = {row.number: row.text.split("  ")[0] for row in listing.rows}
    least = listing.cycles / 250  # a bar of a cycle is still seen
    longest = sorted(sorted(listing.bars, key=lambda bar: -bar[3])[:_MOST], key=lambda bar: bar[2])
    shown = []
    for unit, number, start, cycles in (*longest, *(bar for bar in listing.bars if bar[1] == picked)):
        colour = PICK[dark] if number == picked else PALETTE["compute"][dark]
        says = hover(f"{number}: {text.get(number, '')}", f"{unit}: {cycles:,.0f} cycles from {start:,.0f}")
        shown.append(Bar(names.index(unit), max(cycles, least), colour, says, start))
    valid = next((row.valid for row in listing.rows if row.number == picked), None)
    line = [rule([valid, valid], [-0.5, len(names) - 0.5], PICK[dark], 1, "dot")] if valid is not None else []
    x = span("Cycle", 0, listing.cycles * 1.02)
    data = [*bars(shown, dark, outline=0.3), *line]
    return style(data, x, rows_axis(names, least=1), 72 + 38 * max(len(names), 2), dark)
