"""What a number moves, as a tornado. Pure: SI in."""

from collections.abc import Sequence

from app.shared import formats as fmt
from app.shared.figures.drawing import Bar, hover, rows
from app.shared.figures.style import INK, NEUTRAL, Figure, span, two_lines


def tornado(swings: Sequence[tuple[str, float, float]], percent: float, metric: str, dark: bool) -> Figure:
    """Change of a metric as each value goes down and up: solid for up, hatched for down.

    `swings` are (name, relative change with the value lowered, with it raised); largest first.
    """
    shown = []
    for at, (name, down, up) in enumerate(swings):
        for change, word, colour, hatch in ((down, "−", NEUTRAL, "/"), (up, "+", INK[dark], "")):
            says = hover(f"{name} {word}{percent:.0%}", f"{metric} {fmt.signed(change)}")
            shown.append(Bar(at, 100 * change, colour, says, hatch=hatch))
    labels = [two_lines(name, f"{fmt.signed(down)} | {fmt.signed(up)}") for name, down, up in swings]
    most = max((abs(bar.length) for bar in shown), default=1.0) * 1.08 or 1.0
    x = span(f"Change of {metric} (%)", -most, most, grid=True, zeroline=True, zerolinecolor=NEUTRAL)
    return rows(labels, shown, x, dark, least=180)
