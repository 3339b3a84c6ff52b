"""The answer as a table: systems that meet the limits, best first, and those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import pandas as pd

from app.shared import formats as fmt
from app.shared import glossary
from engine.choose import Answer, Row


def money_range(value: float | None, band: float | None) -> str:
    """A cost with its band: as much faster or slower as predictions of the family were off; empty without a price."""
    if value is None:
        return ""
    if band is None:
        return "unvalidated"
    low, high = (fmt.usd(end).removeprefix("$") for end in (value / (1.0 + band), value * (1.0 + band)))
    return f"{low} to {high}"


def meeting(answer: Answer, rows: Sequence[Row]) -> pd.DataFrame:
    """Systems that meet the limits."""
    bests = [row.best for row in rows if row.best is not None]
    unit = glossary.rate_unit(answer.unit)
    pace = fmt.scale([one.rate_per_device for one in bests], f"{unit}/s")
    times = fmt.scale([one.latency_s if one.tpot_s is None else one.tpot_s for one in bests], "s")
    decoder = any(one.tpot_s is not None for one in bests)
    demand = answer.by == "usd_per_hour"
    columns: dict[str, list] = {
        "System": [row.label for row in rows],
        "Configuration": [row.configuration for row in rows],
    }
    if demand:
        columns["$ per hour"] = [one.total_usd_per_hour for one in bests]
        columns["Instances"] = [one.instances for one in bests]
        columns["Error band"] = [fmt.band(row.band.relative) for row in rows]
    else:
        columns[f"$/M {unit}"] = [one.usd_per_million for one in bests]
        columns["Range ($)"] = [money_range(row.best.usd_per_million, row.band.relative) for row in rows if row.best]
    q = answer.question
    p99 = q.users is None and (q.latency_s is not None or q.qps is not None)
    name = "TPOT" if decoder else "p99" if p99 else "Latency"
    columns[f"{name} ({times.unit})"] = [times(one.latency_s if one.tpot_s is None else one.tpot_s) for one in bests]
    if decoder:
        first = fmt.scale([median(one.ttft_s or 0.0 for one in bests)] if bests else [], "s")
        columns[f"TTFT ({first.unit})"] = [first(one.ttft_s or 0.0) for one in bests]
    columns[f"{pace.unit} per device"] = [pace(one.rate_per_device) for one in bests]
    watts = [None if one.power_w is None else one.power_w * one.instances for one in bests]
    power = fmt.scale(watts, "W")
    columns[f"Power ({power.unit})"] = [None if w is None else power(w) for w in watts]
    columns["vs winner"] = [row.reason for row in rows]
    frame = pd.DataFrame(columns)
    return frame.astype(dict.fromkeys((name for name in frame if name[0] == "$" or "Power" in name), float))


def refused(rows: Sequence[Row]) -> pd.DataFrame:
    """Systems that do not meet the limits, nearest first."""
    return pd.DataFrame(
        {
            "System": [row.label for row in rows],
            "Nearest configuration": [row.configuration or fmt.UNKNOWN for row in rows],
            "Why not": [row.reason for row in rows],
        }
    )


def csv(answer: Answer) -> str:
    """Every row, SI units in the headers."""
    plain = answer.to_dict()
    rows = [{k: v for k, v in row.items() if k != "front"} for row in (*plain["rows"], *plain["what_ifs"])]
    return fmt.csv_text([row | {"question": plain["token"]} for row in rows])
