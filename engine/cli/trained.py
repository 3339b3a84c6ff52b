"""``python -m engine measure wide-deep | binary-mlp``: networks trained here, in fewer bits."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from engine.numerics.formats import NumericsError
from engine.scenario import ScenarioError
from engine.scenario.sentences import amount

__all__ = ["STUDIES", "study"]

STUDIES = {
    "wide-deep": "Wide & Deep trained on synthetic clicks, FP32 against INT8",
    "binary-mlp": "a perceptron on handwritten digits, FP32 against one bit",
}


def study(args: argparse.Namespace) -> tuple[Any, list[str]]:
    """Run one by name: data and lines."""
    try:
        return _wide_deep(args) if args.kernel == "wide-deep" else _binary()
    except NumericsError as error:
        raise ScenarioError(str(error)) from None


def _wide_deep(args: argparse.Namespace) -> tuple[Any, list[str]]:
    from engine.numerics.trained import wide_deep_study

    batch = args.batch if args.batch is not None else 512
    found = wide_deep_study(batches=(batch,), threads=args.threads)
    lines = [
        f"Wide & Deep trained on {found.rows:,} synthetic rows; {found.held_out:,} held out, {found.base:.2%} no click"
    ]
    for q, s in zip(found.quality, found.speed, strict=True):
        lines.append(
            f"{q.precision:18} AUC {q.auc:.5f}  accuracy {q.accuracy:.3%}  log loss {q.log_loss:.5f}  "
            f"{amount(s.time.median, 's'):>9} a batch of {batch}, {amount(s.rate, '/s')}"
        )
    lines.append(f"INT8 over FP32: {found.gain(batch):.2f} x; accuracy lost {100 * found.accuracy_lost:.3f} %")
    lines.append("The rows are synthetic: this is no evidence about Criteo's data.")
    data = {
        "rows": found.rows,
        "held_out": found.held_out,
        "base_accuracy": found.base,
        "gain": found.gain(batch),
        "quality": [asdict(q) for q in found.quality],
        "speed": [
            {
                "precision": s.precision,
                "batch": s.batch,
                "threads": s.threads,
                "time_s": s.time.median,
                "samples_per_s": s.rate,
            }
            for s in found.speed
        ],
    }
    return data, lines


def _binary() -> tuple[Any, list[str]]:
    from engine.numerics.trained import digits_study

    found = digits_study()
    wide = " x ".join(map(str, found.hidden))
    lines = [f"Perceptron with hidden layers {wide} on handwritten digits, {found.held_out} held out"]
    for q, size, time in zip(found.quality, found.weight_bytes, found.image_s, strict=True):
        lines.append(
            f"{q.precision:8} accuracy {q.accuracy:.2%}  weights {amount(size, 'B')}  {amount(time, 's')} an image"
        )
    return asdict(found), lines
