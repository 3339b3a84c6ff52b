"""Published figures as counters, rows and words. Pure: it reads what `engine.published.validate` returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from app.shared import formats as fmt

__all__ = ["drawable", "export", "frame", "metric", "shown", "tolerance", "worst"]

Row = dict[str, Any]


def shown(value: Any) -> str:
    """A published or predicted value as text: numbers with four digits, ranges with a dash, words as they are."""
    if value is None:
        return fmt.UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return fmt.digits4(value)
    if isinstance(value, dict) and {"min", "max"} <= value.keys():
        return f"{fmt.digits4(value['min'])} – {fmt.digits4(value['max'])}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {shown(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return " – ".join(shown(v) for v in value)
    return str(value)


_TOKENS = {
    "pct": "", "ipc": "instructions per cycle", "sls": "embedding-bag", "fc": "fully connected layers", "kv": "KV",
    "util": "utilization of", "pcie": "PCIe", "dma": "DMA", "dsp": "DSP slices", "macs": "multiply-accumulates",
    "ops": "operations", "params": "parameters", "gflops": "GFLOPS", "int8": "INT8", "fp16": "FP16",
    "perf": "performance", "eval": "evaluation", "op": "operator", "max": "largest",
}  # fmt: skip
_SAID = {
    "sls_latency_reduction_pct": "latency saved in embedding bags",
    "fc_per_watt_gain_pct": "gain in inferences per watt",
    "throughput_gain_pct": "gain in throughput",
    "power_gain_pct": "gain in power",
    "improvement_pct": "improvement",
    "tile_ties": "tiles that tie",
    "tile_d_l": "tile, depth and lanes",
    "efficiency_vs_idle": "efficiency against an idle one",
    "network_vs_compute": "network against compute",
    "weights_in_sram_gain": "gain of weights in SRAM",
    "bytes": "size",
    "dsp": "DSP slices",
    "sls_core_fraction": "share of cores for embedding bags",
}


def metric(name: str) -> str:
    """A claim's metric in the field's words: `share of time, Softmax`."""
    if name in _SAID:
        return _SAID[name]
    for stem in ("time_share_", "time_fraction_"):
        if name.startswith(stem):
            return f"share of time, {name.removeprefix(stem)}".replace("_", " + ")
    return " ".join(filter(None, (_TOKENS.get(word, word) for word in name.split("_")))).replace("fraction", "share")


def tolerance(value: Any) -> str:
    """What the claim allows, in words."""
    if isinstance(value, int | float):
        return f"±{value:.0%}"
    if isinstance(value, dict):
        return shown(value)
    return str(value).replace("_", " ")


def worst(rows: Sequence[Row], most: int = 5) -> list[Row]:
    """Predicted claims that miss by most, those outside their tolerance first."""
    off = [row for row in rows if row["predicted"] is not None and row["error"] is not None]
    return sorted(off, key=lambda row: (bool(row["within"]), -abs(row["error"])))[:most]


def drawable(rows: Sequence[Row]) -> list[Row]:
    """Claims that have a place on log axes: both numbers there and positive."""

    def positive(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0

    return [row for row in rows if positive(row["published"]) and positive(row["predicted"])]


def status(row: Row) -> str:
    """`met`, `missed` or `not predicted`."""
    if row["predicted"] is None:
        return "not predicted"
    return "met" if row["within"] else "missed"


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Claims as a table for the eye."""
    return pd.DataFrame(
        {
            "Claim": [row["id"] for row in rows],
            "Metric": [metric(row["metric"]) for row in rows],
            "Published": [shown(row["published"]) for row in rows],
            "Predicted": [shown(row["predicted"]) for row in rows],
            "Unit": [row["unit"] or "" for row in rows],
            "Error (%)": [None if row["error"] is None else round(100 * row["error"], 1) + 0.0 for row in rows],
            "Allowed": [tolerance(row["tolerance"]) for row in rows],
            "Status": [status(row) for row in rows],
            "Kind": [row["kind"] or "" for row in rows],
            "Role": [row["role"] for row in rows],
            "Of": [
                fmt.prose(" · ".join(str(row[k]) for k in ("system", "workload", "config") if row[k])) for row in rows
            ],
            "Where": [f"{row['document']}, {row['where']}" for row in rows],
            "Reason or note": [fmt.prose(row["reason"] or row["note"] or "") for row in rows],
        }
    )


def export(rows: Sequence[Row], versions: dict[str, str]) -> list[dict[str, Any]]:
    """Claims as flat rows of a file, id and token first, versions last."""
    order = ("id", "token", "document", "where", "kind", "role", "system", "workload", "config", "metric", "unit")
    tail = {f"{name}_version": value for name, value in versions.items()}
    return [
        {key: row[key] for key in order}
        | {
            "published": row["published"] if isinstance(row["published"], int | float) else shown(row["published"]),
            "predicted": row["predicted"] if isinstance(row["predicted"], int | float) else shown(row["predicted"]),
            "error_relative": row["error"],
            "tolerance": tolerance(row["tolerance"]),
            "within": row["within"],
            "reason": row["reason"],
            "note": row["note"],
        }
        | tail
        for row in rows
    ]
