"""Published figures as counters, rows and words. Pure: it reads what `engine.published.validate` returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from app.shared import formats as fmt
from app.shared import report_tables

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
    "perf": "performance", "eval": "evaluation", "op": "operator", "max": "largest", "ffn": "feed-forward",
}  # fmt: skip
_OPERATORS = {"SLS": "embedding bags", "FC": "fully connected", "avgpool": "average pooling"}
_SAID = {
    "space_time_speedup": "speedup, space and time",
    "matmul_time_fraction": "share of time, matrix products",
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
            operator = name.removeprefix(stem).replace("_", " + ")
            return f"share of time, {_OPERATORS.get(operator, operator)}"
    return " ".join(filter(None, (_TOKENS.get(word, word) for word in name.split("_")))).replace("fraction", "share")


_SYSTEMS = {
    "agilio_cx": "Agilio CX", "arm_cpu": "ARM CPU", "bing_cpu": "Bing's CPU", "bw": "Brainwave",
    "bw_bing": "Brainwave for Bing", "bw_s10_280": "Brainwave, Stratix 10 280",
    "bw_s10_280_pre": "Brainwave, early Stratix 10 280", "bw_s10_280_prod": "Brainwave, production Stratix 10 280",
    "catapult": "Catapult", "dfx": "DFX", "dfx vs gpu": "DFX against GPU", "dfx_1xU280": "DFX, 1 U280",
    "dfx_2xU280": "DFX, 2 U280", "dfx_4xU280": "DFX, 4 U280", "fb_card": "M.2 card", "fb_node": "six-card node",
    "gpgpu": "GPU", "gpu": "GPU", "gpu_4xV100": "4 V100", "haswell_e5_1630v3": "Xeon E5-1630 v3",
    "host+nic": "host and NIC", "intel_cpu": "Intel CPU", "nfp4000": "NFP-4000", "stratix10_280": "Stratix 10 280",
    "tpu": "TPU", "v100": "V100", "xeon_8280L": "Xeon 8280L", "xeon_e5_2650": "Xeon E5-2650",
    "xeon_e5_2650 x2 (QPI)": "2 Xeon E5-2650 (QPI)",
    "xeon_e5_2650 x2 (TCP over NIC loop)": "2 Xeon E5-2650 (TCP over a NIC loop)",
}  # fmt: skip
_UNITS = {"us": "µs", "USD": "$", "x": "×", "-": ""}
_ROLES = {"input": "read back", "derived": "derived", "identity": "identity"}


def of(row: Row, between: str = " · ") -> str:
    """What a claim is about: system, workload and configuration, as people write them."""
    names = (_SYSTEMS.get(row["system"], row["system"]), row["workload"], row["config"])
    return fmt.prose(between.join(str(name) for name in names if name))


def unit(row: Row) -> str:
    """A claim's unit as it is written: `µs`, `$`, `×`."""
    return _UNITS.get(row["unit"], row["unit"] or "")


def role(row: Row) -> str:
    """`validation` or `calibration`; what can't be wrong by itself is neither: `read back`, `derived`, `identity`."""
    return row["role"] if row["role"] == "calibration" else _ROLES.get(row["kind"], row["role"])


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
    """Claims that have a place on log axes, both numbers there and positive, with their role in words."""

    def positive(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0

    return [row | {"role": role(row)} for row in rows if positive(row["published"]) and positive(row["predicted"])]


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
            "Unit": [unit(row) for row in rows],
            "Error (%)": [None if row["error"] is None else round(100 * row["error"], 1) + 0.0 for row in rows],
            "Allowed": [tolerance(row["tolerance"]) for row in rows],
            "Status": [status(row) for row in rows],
            "Kind": [row["kind"] or "" for row in rows],
            "Role": [role(row) for row in rows],
            "Of": [of(row) for row in rows],
            "Where": [f"{row['document']}, {row['where']}" for row in rows],
            "Reason or note": [fmt.prose(row["reason"] or row["note"] or "") for row in rows],
        }
    )


def export(rows: Sequence[Row], versions: dict[str, str]) -> list[dict[str, Any]]:
    """Claims as flat rows of a file, id and token first, versions last."""
    order = ("id", "token", "document", "where", "kind", "role", "system", "workload", "config", "metric", "unit")
    tail = report_tables.versions(versions)
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
