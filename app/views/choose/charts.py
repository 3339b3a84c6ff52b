"""Throughput per device against what one user sees, one curve per system. Pure: SI in."""

from collections.abc import Sequence

from app.shared import formats as fmt
from app.shared.figures.drawing import line
from app.shared.figures.labels import BESIDE, Plot
from app.shared.figures.style import CLOUD, INK, PICK, Figure, log_axis, style
from app.views.choose import texts
from engine.choose import Row
from engine.scenario.configuration import configuration

_LABELS = 3  # systems beside the picked one whose curves are named
_HEIGHT = 380  # px
_WIDTH = (500.0, 260.0)  # px of the plot area that labels are laid out for, at a desk and on a phone


def front(
    rows: Sequence[Row], pick: str, unit: str, user: str, limit_s: float | None, dark: bool, phone: bool = False
) -> Figure:
    """Curves of the systems that meet the limits; the picked one, the best ranked and the fastest are named.

    `limit_s`: of the time per token, or per answer, that a user waits: a rule up, left of which it is missed. [s]
    """
    curves = {row.system: ([p.speed for p in row.front], [p.rate_per_device for p in row.front]) for row in rows}
    visible = [row for row in rows if row.front]
    xs, ys = ([v for row in visible for v in curves[row.system][axis]] for axis in (0, 1))
    slowest = min(xs) if limit_s is None else min(*xs, 1.0 / limit_s)
    plot = Plot((slowest / 1.3, max(xs) * 1.5), (min(ys) / 1.5, max(ys) * 2.0), _WIDTH[phone], _HEIGHT - 60.0)
    if limit_s is not None:
        plot.line([1.0 / limit_s] * 2, plot.y, solid=False)
        text = texts.LIMIT.format(limit=fmt.seconds(limit_s))
        plot.label(1.0 / limit_s, plot.y[0] * 1.2, text, BESIDE)
    fast = max(visible, key=lambda row: max(curves[row.system][0]), default=None)
    picks = {row.system for row in visible if row is fast or (row.rank is not None and row.rank <= _LABELS)} | {pick}
    order = sorted(visible, key=lambda row: (row.system == pick, row.system in picks))
    for row in order:
        is_pick = row.system == pick
        colour = PICK[dark] if is_pick else INK[dark] if row.system in picks else CLOUD[dark]
        says = [
            texts.FRONT_HOVER.format(
                label=row.label,
                configuration=configuration(p.scenario),
                rate=fmt.si(p.rate_per_device, f"{unit}/s"),
                speed=fmt.si(p.speed, f"{user}/s"),
            )
            for p in row.front
        ]
        (width, size), symbol = (2.4, 8) if is_pick else (1.4, 5), "circle" if row.rank else "circle-open"
        plot.data.append(line(*curves[row.system], colour, says, width=width, size=size, symbol=symbol))
        if row.system in picks:
            plot.keep_off(*curves[row.system])
    for row in reversed(order):
        if row.system in picks:
            look = {"font": {"size": 12, "color": PICK[dark]}} if row.system == pick else {}
            any(plot.label(x, y, row.label, BESIDE, **look) for x, y in zip(*curves[row.system]))
    x, y = log_axis(*plot.x, f"{user.capitalize()}/s per user"), log_axis(*plot.y, f"Throughput per device ({unit}/s)")
    return style(plot.data, x, y, _HEIGHT, dark, notes=plot.notes)
