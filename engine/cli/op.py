"""``python -m engine op``: one operator on one device, or a table of them, predicted with a bound and a band."""

import argparse
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from engine.cli.command import Answer, refuse
from engine.devices.gpu.operators.kinds import expert_kernel
from engine.devices.gpu.operators.predict import named_part, predict
from engine.devices.gpu.operators.rows import RowsError, kind_named, parse_columns, read_rows, write_rows
from engine.scenario.files import beside, writable
from engine.scenario.overrides import parse_setting
from engine.scenario.sentences import amount, percent


def op(args: argparse.Namespace) -> Answer:
    """One operator on one device, or a table of them. Estimates."""
    return _table(args) if args.source is not None else _operator(args)


def holds_operators(path: Path) -> bool:
    """Whether the rows of a table are measured operators of a device."""
    return {"time_us", "device"} <= set(read_rows(path).header)


def _operator(args: argparse.Namespace) -> Answer:
    if args.operator is None or args.device is None or args.shape is None:
        raise RowsError("an operator, --device and --shape are needed, or a table with --from")
    refuse(args, ("kind", "out"), "one operator; a table of --from has it")
    kind = kind_named(args.operator)
    extents = args.shape.lower().split("x")
    if len(extents) != len(kind.shape):
        raise RowsError(f"shape is {args.shape[:60]!r}: {kind.name} needs {'x'.join(kind.shape)}")
    row = {"device": args.device, "framework": args.runtime, kind.format: args.precision or "bfloat16"}
    row |= dict(zip(kind.shape, extents, strict=True))
    row |= dict(map(parse_setting, args.extra))
    texts, numbers = parse_columns(kind, {name: [value] for name, value in row.items()})
    answers = predict(kind, texts, numbers, args.cold)
    if answers.why[0]:
        raise RowsError(answers.reasons[answers.why[0]])
    seconds, bound, low, high = (
        float(column[0]) for column in (answers.seconds, answers.bound, answers.low, answers.high)
    )
    cells = {name: column[0] for name, column in texts.items()}
    kernel = {"expert_kernel": expert_kernel(named_part(args.device), cells)} if kind.name == "moe" else {}
    data = {
        "kind": kind.name,
        **row,
        **kernel,
        "predicted_us": seconds * 1e6,
        "bound_us": bound * 1e6,
        "bound_by": str(answers.bound_by[0]),
        "band_low_us": low * 1e6 if isfinite(low) else None,  # no evidence
        "band_high_us": high * 1e6 if isfinite(high) else None,
    }
    lines = [
        f"{kind.title} on {args.device}: {args.shape}, {row[kind.format]}",
        *(f"kernel      {name}" for name in kernel.values()),
        f"predicted   {amount(seconds, 's')}",
        f"bound       {amount(bound, 's')} by {answers.bound_by[0]}",
        f"90% band    {amount(low, 's')} to {amount(high, 's')}" if isfinite(low) else "90% band    no evidence",
    ]
    return data, lines


def _table(args: argparse.Namespace) -> Answer:
    refuse(args, ["operator", "shape", "precision"], "--from, whose rows say it: give one of the two")
    if args.out is not None:
        writable(args.out, args.force)
    kind = kind_named(args.kind or args.source.name.split(".")[0])
    table = read_rows(args.source)
    if "device" in table.columns:
        refuse(args, ["device"], "a device column: give one of the two")
    texts, numbers = parse_columns(kind, table.columns, args.device)
    answers = predict(kind, texts, numbers, args.cold)
    if args.out is not None:
        with beside(args.out) as fresh:
            write_rows(fresh, table, answers)
    valid = answers.why == 0
    data: dict[str, Any] = {"kind": kind.name, "rows": len(table.lines), "predicted": int(valid.sum())}
    data["skipped"] = {why: int((answers.why == i).sum()) for i, why in enumerate(answers.reasons) if i}
    lines = [f"{kind.name}: {data['predicted']} of {data['rows']} rows predicted"]
    lines += [f"  {count} skipped: {why}" for why, count in data["skipped"].items()]
    if "time_us" in table.columns and valid.any():
        data |= _errors(answers, np.array(table.columns["time_us"], dtype=np.float64) * 1e-6, valid)
        lines += [
            f"  error       half within {percent(data['error_median'])}, 90% within {percent(data['error_p90'])}",
            f"  bias        {data['bias']:+.1%}; {percent(data['in_band'])} of the measurements lie in the band",
        ]
    return data, lines


def _errors(answers: Any, reference_s: np.ndarray, valid: np.ndarray) -> dict[str, float]:
    """How far predictions are from figures measured above zero: |predicted / measured - 1|."""
    use = valid & (reference_s > 0.0)
    if not use.any():
        return {"error_median": 0.0, "error_p90": 0.0, "bias": 0.0, "in_band": 0.0}
    error = answers.seconds[use] / reference_s[use] - 1.0
    inside = (answers.low[use] <= reference_s[use]) & (reference_s[use] <= answers.high[use])
    return {
        "error_median": float(np.median(np.abs(error))),
        "error_p90": float(np.quantile(np.abs(error), 0.9)),
        "bias": float(np.median(error)),
        "in_band": float(inside.mean()),
    }
