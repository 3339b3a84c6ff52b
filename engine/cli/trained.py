"""``python -m engine measure wide-deep | binary-mlp | narrow-floats``: networks trained here, in fewer bits."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from engine.numerics.formats import NumericsError
from engine.scenario import ScenarioError
from engine.scenario.sentences import amount

STUDIES = {
    "wide-deep": "Wide & Deep trained on synthetic clicks, FP32 against INT8",
    "binary-mlp": "a perceptron on handwritten digits, FP32 against one bit",
    "narrow-floats": "a perceptron on handwritten digits, converted to soft processors' formats and trained on in them",
}


def study(args: argparse.Namespace) -> tuple[Any, list[str]]:
    """Run one by name: data and lines."""
    try:
        return {"wide-deep": lambda: _wide_deep(args), "binary-mlp": _binary, "narrow-floats": _narrow}[args.kernel]()
    except NumericsError as error:
        raise ScenarioError(str(error)) from None


def _wide_deep(args: argparse.Namespace) -> tuple[Any, list[str]]:
    from engine.lab.numerics.trained import wide_deep_study

    batch = args.batch if args.batch is not None else 512
    study = wide_deep_study(batches=(batch,), threads=args.threads)
    lines = [
        f"Wide & Deep trained on {study.rows:,} synthetic rows; {study.held_out:,} held out, {study.base:.2%} no click"
    ]
    for q, s in zip(study.quality, study.speed, strict=True):
        lines.append(
            f"{q.precision:18} AUC {q.auc:.5f}  accuracy {q.accuracy:.3%}  log loss {q.log_loss:.5f}  "
            f"{amount(s.time.median, 's'):>9} a batch of {batch}, {amount(s.rate, '/s')}"
        )
    lines.append(f"INT8 over FP32: {study.gain(batch):.2f} x; accuracy lost {100 * study.accuracy_lost:.3f} %")
    lines.append("The rows are synthetic: this is no evidence about Criteo's data.")
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
    return data, lines


def _binary() -> tuple[Any, list[str]]:
    from engine.lab.numerics.trained import digits_study

    study = digits_study()
    wide = " x ".join(map(str, study.hidden))
    lines = [f"Perceptron with hidden layers {wide} on handwritten digits, {study.held_out} held out"]
    for q, size, time in zip(study.quality, study.weight_bytes, study.image_s, strict=True):
        lines.append(
            f"{q.precision:8} accuracy {q.accuracy:.2%}  weights {amount(size, 'B')}  {amount(time, 's')} an image"
        )
    return asdict(study), lines


def _narrow() -> tuple[Any, list[str]]:
    from engine.lab.numerics.format_costs import format_costs

    costs = format_costs()
    lines = [f"A perceptron on handwritten digits, {costs[0].accuracy.trained:.2%} right in FP32 before anything else"]
    lines.append(
        f"{'machine and format':51} {'bits':>5} {'weights':>8} {'peak':>13} {'error':>6}  converted, epochs after"
    )
    for one in costs:
        after = ", ".join(f"{share:.2%}" for share in one.accuracy.epochs)
        lines.append(
            f"{one.machine:43} {one.format:7} {one.accuracy.bits:5.2f} {amount(one.accuracy.weight_bytes, 'B'):>8} "
            f"{amount(one.peak, 'FLOP/s'):>13} {one.error:6.1%}  {one.accuracy.converted:.2%}, {after}"
        )
    lines.append(
        "Error: state of a drawn GRU after 16 steps, or logits of a drawn GPT-2, run on the machine's arithmetic."
    )
    return [asdict(one) for one in costs], lines
