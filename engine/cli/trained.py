"""``python -m engine measure wide-deep | binary-mlp``: networks trained here, in fewer bits."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from engine.cli.output import lines_of
from engine.numerics.formats import NumericsError
from engine.scenario import ScenarioError

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
    from engine.lab.numerics.trained import wide_deep_study

    batch = args.batch if args.batch is not None else 512
    study = wide_deep_study(batches=(batch,), threads=args.threads)
    data = {
        "rows": study.rows,
        "held_out": study.held_out,
        "base_accuracy": study.base,
        "gain": study.gain(batch),
        "quality": [asdict(q) for q in study.quality],
        "speed": [
            {
                "precision": s.precision,
                "batch": s.batch,
                "threads": s.threads,
                "time_s": s.time.median,
                "samples_per_s": s.rate,
            }
            for s in study.speed
        ],
    }
    return data, ["Wide & Deep; the rows are synthetic: this is no evidence about Criteo's data.", *lines_of(data)]


def _binary() -> tuple[Any, list[str]]:
    from engine.lab.numerics.trained import digits_study

    data = asdict(digits_study())
    return data, [
        "A perceptron on handwritten digits in FP32 and one bit; time of an image, one thread",
        *lines_of(data),
    ]
