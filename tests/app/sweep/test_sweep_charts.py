"""Figures of the Sweep page that Plotly draws: the map of tiles and the tornado."""

import pytest

from app.shared import formats as fmt
from app.shared.figures.heat import heat
from app.views.sweep import front
from tests.app.valid import valid

FIGURES = {
    "heat": lambda dark: valid(
        heat(
            ["8", "16"],
            ["8", "16", "32"],
            [[1e-3, 2e-3], [None, 4e-3], [3e-3, 2e-3]],
            (0, 0),
            (1, 1),
            ("l", "d"),
            "Latency per token",
            fmt.MILLISECOND,
            dark,
        )
    ),
    "tornado": lambda dark: valid(
        front.tornado([("HBM bandwidth", 0.4, -0.2), ("Clock", 0.1, -0.05)], 0.2, "latency", dark)
    ),
}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_valid_and_readable(name, dark):
    fig = FIGURES[name](dark)
    for axis in (fig.layout.xaxis, fig.layout.yaxis):
        assert axis.tickfont.size >= 12
    for note in fig.layout.annotations:
        assert note.font.size >= 12
        if note.xref != "paper":
            assert fig.layout.xaxis.range[0] <= note.x <= fig.layout.xaxis.range[1]
            assert fig.layout.yaxis.range[0] <= note.y <= fig.layout.yaxis.range[1]
