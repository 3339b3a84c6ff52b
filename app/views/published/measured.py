"""A reader's own measurements beside our predictions: the table that `compare-measured` takes, as an upload."""

import math
import tempfile
from pathlib import Path
from typing import Any

import streamlit as st

from app.shared import cached, glossary, parts
from app.shared import formats as fmt
from app.shared.boundary import callback
from app.shared.figures import report as charts
from app.shared.glossary import Metric
from app.views.published import texts
from engine.published.measured.compare import Measured, Row, coverage, groups, predict, read_measured, reasons
from engine.published.measured.table import spread
from engine.scenario import ScenarioError
from entries.schema import InputError

_LARGEST = 1  # MiB of a table
_ROWS = 2000  # of one: a reader's share of a server that others use too
_TABLE = "measured.table"  # in the session: the widget's own file ends with a switch of pages


@callback
def _take() -> None:
    """Keep the file that was just given, or none where it was taken away (a callback)."""
    file = st.session_state.get("measured")
    st.session_state[_TABLE] = (file.name, file.getvalue()) if file else None


def section() -> None:
    """The upload, and what it shows."""
    with parts.card("Your measurements", "predicted against measured", stretch=False):
        args: dict[str, Any] = {"max_upload_size": _LARGEST, "on_change": _take, "help": texts.UPLOAD_HELP}
        file = st.file_uploader("Measurements, CSV", type="csv", key="measured", **args)
        table = st.session_state.get(_TABLE)
        if table is None:
            st.caption(texts.UPLOAD_EXAMPLE)
            return
        name, text = table
        if file is None:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.caption(fmt.plain(texts.GIVEN_BEFORE.format(name=name)), width="content")
                st.button(texts.REMOVE, on_click=_take, type="tertiary", key="measured.remove")
        try:
            with st.skeleton(height=380):
                comparison = cached.answer(_compare, text)
        except InputError as error:
            parts.refusal(error)
            return
        _show(comparison)


def _compare(text: bytes) -> Measured:
    """A reader's table, each row priced; ScenarioError where it can't be used at all."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measured.csv"
        path.write_bytes(text)
        data = read_measured(path)
    if len(data.rows) > _ROWS:
        raise ScenarioError(texts.TOO_MANY_ROWS.format(count=len(data.rows), most=_ROWS))
    return predict(data)


def _show(comparison: Measured) -> None:
    rows = [row for row in comparison.rows if row.predicted]
    if why := reasons(comparison.rows):
        lines = [f"{count}: {reason.rstrip('.')}." for reason, count in why.most_common(8)]
        lines += [texts.OTHER_REASONS] if len(why) > len(lines) else []
        listing = "  \n".join(map(fmt.plain, lines))
        st.warning(f"{why.total()} of {len(comparison.rows)} rows skipped  \n{listing}", icon=":material/edit_off:")
    if not rows:
        return
    cov, size = coverage(rows), spread([error for row in rows for error in row.errors.values()])
    band = (texts.BAND_HELD.format(inside=cov["held"], banded=cov["banded"]) if cov["banded"] else texts.NO_BANDS) + (
        texts.WITHOUT_EVIDENCE.format(no_evidence=cov["no_evidence"]) if cov["banded"] and cov["no_evidence"] else ""
    )
    text = texts.PREDICTED_ROWS.format(
        done=len(rows),
        rows=len(comparison.rows),
        median=fmt.percent(size["median"]),
        p90=fmt.percent(size["p90"]),
        band=band,
    )
    st.markdown(f"{text}.")
    spots = [spot for row in rows for spot in _spots(row)]
    figures = sorted({spot["metric"] for spot in spots})
    figure = figures[0]
    if len(figures) > 1:
        figure = st.segmented_control("Figure", figures, default=figure, required=True, key="measured.figure") or figure
    points = [spot for spot in spots if spot["metric"] == figure]
    fig = charts.prediction_errors(
        points, parts.dark(), [], 280 if parts.mobile() else 560, f"Measured {figure} ({points[0]['unit']})"
    )
    parts.figure(fig, texts.MEASURED_ALT.format(shown=figure, count=len(points), said=text), "v.measured")
    st.caption(texts.MEASURED_CAPTION)
    parts.table(_cells(row, name) for row in rows for name in row.errors)
    with st.expander(texts.GROUPS, key="open.groups"):
        parts.table(_group_table(rows), tall=None)


def _figure_text(name: str) -> str:
    """A figure within a sentence."""
    return glossary.in_text(Metric.of(name).label)


def _spots(row: Row) -> list[dict[str, Any]]:
    """Points of a row, as the chart of claims takes them."""
    assert row.scenario is not None
    has = row.band is not None and row.band.relative is not None
    return [
        {
            "id": f"row {row.number}, {row.scenario.system}, {row.scenario.workload}",
            "metric": _figure_text(name),
            "unit": "1/s" if "per_s" in name else {"w": "W", "j": "J"}.get(name.rpartition("_")[2], "s"),
            "published": row.measured[name],
            "predicted": row.predicted[name],
            "error": error,
            "role": "validation" if has else "calibration",
            "evidence": "" if has else texts.BAND_UNKNOWN,
            "within": not has or bool(row.band and row.band.holds(error)),
        }
        for name, error in row.errors.items()
        if math.isfinite(error)
    ]


def _cells(row: Row, name: str) -> dict[str, Any]:
    """A figure of a row as the table has it."""
    assert row.scenario is not None
    low, high = row.band.around(row.predicted[name]) if row.band else (None, None)
    unit = "s" if name.endswith("_s") and "per_s" not in name else {"power_w": "W"}.get(name, "")
    between = "no evidence" if low is None or high is None else f"{fmt.si(low, unit)} – {fmt.si(high, unit)}"
    return {
        "Row": row.number,
        "System": row.scenario.system,
        "Workload": row.scenario.workload,
        "Format": glossary.format_label(row.scenario.precision),
        "Batch": row.scenario.batch,
        "Figure": _figure_text(name),
        "Measured": fmt.si(row.measured[name], unit),
        "Predicted": fmt.si(row.predicted[name], unit),
        "Error (%)": round(100 * row.errors[name], 1),
        "Error band": between,
    }


def _group_table(rows: list[Row]) -> list[dict[str, Any]]:
    return [
        {
            "System": group["system"],
            "Network": group["family"],
            "Format": glossary.format_label(group["precision"]),
            "Figure": _figure_text(group["figure"]),
            "Rows": group["n"],
            "Median (%)": round(100 * group["median"], 1),
            "90% within (%)": round(100 * group["p90"], 1),
            "Bias (%)": round(100 * group["bias"], 1),
        }
        for group in groups(rows)
    ]
