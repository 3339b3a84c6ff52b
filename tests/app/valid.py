"""A chart as plotly checks it: every property of every trace and of the layout passes its validators."""

import plotly.graph_objects as go


def valid(figure) -> go.Figure:
    return go.Figure(figure.to_dict())
