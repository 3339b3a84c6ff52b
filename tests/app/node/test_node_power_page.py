"""The Node page's chart of power and clock: a figure of the node's own numbers."""

from __future__ import annotations

import pytest

from app.views.node import charts
from engine.analyses.node.power import against_load
from engine.resolve.presets import PRESETS
from tests.app.valid import valid


@pytest.mark.parametrize("dark", [False, True])
def test_power_and_clock_are_drawn_along_the_load(dark):
    points = against_load(PRESETS["node-dlrm"].scenario, (0.0, 0.5, 1.0))
    fig = valid(charts.power(points, dark))
    assert [trace.name for trace in fig.data] == ["cards and switch", "host", "clock"]
    assert list(fig.data[0].y) == [p.cards_w for p in points]
    assert list(fig.data[0].x) == [0.0, 50.0, 100.0]
