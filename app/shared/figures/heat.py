"""One figure over two lists of values, as a heat map. Pure: SI in."""

from collections.abc import Sequence

from app.shared import formats as fmt
from app.shared.figures.drawing import Trace, points
from app.shared.figures.style import PICK, Figure, names_axis, style

_MANY_CELLS = 150  # beyond, numbers in cells would overlap

Cell = tuple[int, int]


def heat(
    columns: Sequence[object],
    rows: Sequence[object],
    values: Sequence[Sequence[float | None]],
    best: Cell | None,
    now: Cell,
    titles: tuple[str, str],
    label: str,
    scale: fmt.Scale,
    dark: bool,
) -> Figure:
    """A figure over two lists of values: the best cell ringed, the selected one starred; empty where nothing fits.

    `values[row][column]` in SI, less of which is better; `best` and `now` are (row, column).
    """
    across, up = ([f"{v:,}" if isinstance(v, int) else str(v) for v in names] for names in (columns, rows))
    numbers = [[None if v is None else scale(v) for v in row] for row in values]
    cells = [["does not fit" if v is None else f"{label} {scale.text(v)} {scale.unit}" for v in row] for row in values]
    says = [
        [f"<b>{titles[0]} {c} × {titles[1]} {r}</b><br>{cell}" for c, cell in zip(across, row)]
        for r, row in zip(up, cells)
    ]
    small = {"size": 12}
    map_: Trace = {
        "type": "heatmap",
        "z": numbers,
        "colorscale": "Cividis",
        "reversescale": True,
        "hovertext": says,
        "hoverinfo": "text",
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"thickness": 10, "outlinewidth": 0, "ticks": "", "tickfont": small}
        | {"title": {"text": scale.unit, "font": small}},
    }
    dense = len(up) * len(across) > _MANY_CELLS
    if not dense:
        text = [["" if v is None else scale.text(v) for v in row] for row in values]
        map_ |= {"text": text, "texttemplate": "%{text}", "textfont": small}
    data = [map_]
    if best is not None:
        data.append(points([best[1]], [best[0]], PICK[dark], symbol="square-open", size=28, edge=2.5))
    data.append(points([now[1]], [now[0] - (0 if dense else 0.32)], PICK[dark], symbol="star", size=9))
    height = max(220, 70 + 44 * len(up))
    return style(data, names_axis(across, 0.5, title=titles[0]), names_axis(up, 0.5, title=titles[1]), height, dark)
