"""Error bands: what the validation residuals of a device family allow one to say. Written by `validate --write`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from engine.report import ErrorBand

__all__ = ["FILE", "error_band"]

FILE = Path(__file__).resolve().parent / "residuals.json"


@cache
def _residuals() -> dict[str, dict[str, float]]:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


@cache
def error_band(kind: str) -> ErrorBand:
    """Band of a device family: 90th percentile of its absolute relative validation residuals; unvalidated below 3."""
    found = _residuals().get(kind)
    if not found or found["count"] < 3:
        return ErrorBand(None, "unvalidated", int(found["count"]) if found else 0)
    return ErrorBand(found["p90"], "validated", int(found["count"]))
