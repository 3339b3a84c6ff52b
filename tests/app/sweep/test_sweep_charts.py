"""Figures of the Sweep page that Plotly draws: the map of tiles and the tornado."""

import numpy as np
import pytest

from app.shared import formats as fmt
from app.shared.figures.heat import heat
from app.shared.glossary import Metric
from app.views.sweep import front
from app.views.sweep.columns import Column
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


def test_an_axis_of_values_that_only_rounding_parts_has_a_number():
    """All designs of Wide & Deep take 12.32 ms, and the axis between 12.32 and 12.32 had no tick at all."""
    times = np.array([0.012320000000000001, 0.012319999999999998])
    column = Column("latency_s", "Latency", "s", times, figure=Metric.of("latency_s"))
    axis = column.axis(column.place(column.values).tolist())
    assert axis["ticktext"] == ["12.3"]
    assert axis["range"][0] < axis["tickvals"][0] < axis["range"][1]
