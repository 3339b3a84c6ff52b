"""Error bands: what residuals of a family on a kind of network allow one to say. Written by `validate --write`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from engine.cost.report import ErrorBand

__all__ = ["FILE", "LEAST", "error_band"]

FILE = Path(__file__).resolve().parent / "residuals.json"
LEAST = 3  # residuals below which there is no band


@cache
def _residuals() -> dict[str, dict[str, dict[str, float]]]:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


@cache
def _one(family: str, kind: str) -> ErrorBand:
    found = _residuals().get(family, {}).get(kind)
    if not found or found["count"] < LEAST:
        return ErrorBand(None, "no evidence", int(found["count"]) if found else 0)
    label = "recalled" if found["recalled"] else "validated"
    return ErrorBand(found["p90"], label, int(found["count"]), int(found["recalled"]))


def error_band(families: Iterable[str], kind: str) -> ErrorBand:
    """Band of the device families of a plan on a kind of network (a family of `model_zoo`): the widest of theirs.

    Each is the 90th percentile of the family's absolute relative residuals on that kind: validation claims, and results
    printed elsewhere. With fewer than `LEAST` for any of the families there is no evidence and no band.
    """
    found = [_one(family, kind) for family in sorted(set(families))]
    lacking = [band for band in found if band.relative is None]
    return lacking[0] if lacking else max(found, key=lambda band: band.relative or 0.0)
