"""The short table on the first page of the project: a few figures of each document beside their predictions."""

from __future__ import annotations

from typing import Any

__all__ = ["BEGIN", "END", "HEADLINES", "into", "table"]

HEADLINES: dict[str, str] = {
    "DFX-058": "DFX: GPT-2 1.5B on four FPGAs, 64 in, 64 out",
    "DFX-055": "DFX: GPT-2 345M on four FPGAs",
    "DFX-005": "DFX: 1.5B at 32 in, 256 out against four V100",
    "BW-001": "Brainwave: a large GRU at batch 1",
    "WD-011": "Wide & Deep in INT8 on a Xeon 8280L, TensorFlow",
    "WD-013": "Wide & Deep in INT8, MXNet",
    "5G-058": "toNIC: binary layer of 4,096 neurons on a SmartNIC",
    "5G-019": "AlexNet's fully connected layers on one core",
    "FB-009": "Six-card node: power",
    "FB-086": "XLM-R: INT8 against FP16 on a card",
}
BEGIN = "<!-- headline table: written by `python -m engine validate --write`, kept true by a test -->"
END = "<!-- end -->"


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of the headline claims, in their printed units."""
    found = {row["id"]: row for row in rows}
    lines = ["| what | published | predicted | error | role |", "|---|---:|---:|---:|---|"]
    for id, words in HEADLINES.items():
        row = found[id]
        error = "-" if row["error"] is None else f"{row['error']:+.1%}"
        shown = "-" if row["predicted"] is None else f"{_number(row['predicted'])} {row['unit']}"
        lines.append(f"| {words} | {_number(row['published'])} {row['unit']} | {shown} | {error} | {row['role']} |")
    predicted = [r for r in rows if r["predicted"] is not None]
    valid = [r for r in predicted if r["role"] == "validation"]
    met = sum(bool(r["within"]) for r in valid)
    lines += [
        "",
        f"{len(predicted)} of {len(rows)} published figures are predicted; of the {len(valid)} that nothing was fitted "
        f"on, {met} fall within their tolerance. The other {len(rows) - len(predicted)} are listed with a reason.",
    ]
    return "\n".join(lines)


def into(text: str, rows: list[dict[str, Any]]) -> str:
    """A document's text with its headline table renewed."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.split(END, 1)[1]}"
