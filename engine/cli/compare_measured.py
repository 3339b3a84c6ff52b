"""``python -m engine compare-measured``: a table of measurements beside our predictions, and a part fitted to it."""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engine.cli.command import TABLE, Answer, Parser, add_arguments, refuse
from engine.cli.op import holds_operators, op
from engine.cli.output import lines_of
from engine.published.measured.compare import (
    Row,
    coverage,
    groups,
    predict,
    read_measured,
    reasons,
    write_back,
)
from engine.published.measured.cpu_tables import parts_of
from engine.published.measured.fit import enough, files_of, fit, write_fit
from engine.published.measured.table import spread
from engine.scenario import ScenarioError
from engine.scenario.files import beside, writable
from engine.scenario.sentences import amount, percent
from hardware_specs.catalog import default_catalog, user_root


def compare_measured(args: argparse.Namespace) -> Answer:
    """Every row's error, what groups of them show, and with --fit what moved."""
    if holds_operators(args.file):
        return _as_op(args)
    if args.out is not None:
        writable(args.out, args.force)
    table = predict(read_measured(args.file, args.set))
    if args.out is not None:
        with beside(args.out) as fresh:
            write_back(fresh, table)
    forecasts = [row for row in table.rows if row.predicted]
    why = reasons(table.rows)
    if not forecasts:
        reason, count = why.most_common(1)[0]
        raise ScenarioError(f"{table.name}: none of {len(table.rows)} rows could be predicted; of {count}: {reason}")
    errors = [error for row in forecasts for error in row.errors.values()]
    inside, overall = coverage(forecasts), spread(errors)
    without = Counter(name for row in forecasts for name in row.missing)
    data: dict[str, Any] = {
        "file": table.name,
        "rows": len(table.rows),
        "predicted": len(forecasts),
        "skipped": dict(why),
        "figures_without_prediction": dict(without),
        "given_limits": sum(bool(getattr(row.rate, "limits", ())) for row in forecasts),
        "summary": overall,
        "groups": groups(forecasts),
        "workloads": groups(forecasts, "workload"),
        "engines": groups([row for row in forecasts if row.engine is not None], "engine"),
        "parts": parts_of([row for row in forecasts if row.column]),
        "band": inside,
        "errors": [
            {"row": row.number, "measured": dict(row.measured), "predicted": dict(row.predicted), "errors": row.errors}
            for row in forecasts
        ],
    }
    lines = [f"{table.name}: {len(forecasts)} of {len(table.rows)} rows predicted"]
    lines += [f"  {count} skipped: {reason}" for reason, count in why.most_common()]
    lines += [f"  {count} {name} beside those without a prediction" for name, count in without.items()]
    if data["given_limits"]:
        lines.append(f"  {data['given_limits']} of them given that their run kept its benchmark's limits at its rate")
    records = [
        {"row": row.number, "system": row.scenario.system, "workload": row.scenario.workload}
        | {"errors": ", ".join(f"{name.rpartition('_')[0]} {error:+.0%}" for name, error in row.errors.items())}
        for row in forecasts
        if row.scenario is not None
    ]
    for rows in (
        records,
        *([_percents(group) for group in data[by]] for by in ("groups", "workloads", "engines", "parts")),
    ):
        lines += ["", *lines_of(rows)] if rows else []
    lines += ["", *_summary(forecasts, inside)]
    if args.fit:
        data["fit"], fits = _fit_parts(args, forecasts, default_catalog())
        lines += fits
    return data, lines


def _summary(rows: Sequence[Row], inside: Mapping[str, int]) -> Iterator[str]:
    """How far off each figure is over all rows, what the bands held, and what a row under load is."""
    for name in sorted({name for row in rows for name in row.errors}):
        of = spread([row.errors[name] for row in rows if name in row.errors])
        yield f"all {name}: half within {percent(of['median'])}, 90% within {percent(of['p90'])}"
    yield (
        f"error band: held {inside['held']} of the {inside['banded']} figures that have one; "
        f"{inside['no_evidence']} have no evidence for any"
    )
    if any(row.engine is not None for row in rows):
        yield "under load: means of a closed loop simulated from its start, by the calendar of each engine's passes"


def _percents(group: dict[str, Any]) -> dict[str, Any]:
    """A group of rows with its errors as people write them."""
    return group | {
        name: f"{group[name]:+.1%}" if name == "bias" else f"{group[name]:.1%}" for name in ("median", "p90", "bias")
    }


def _as_op(args: argparse.Namespace) -> Answer:
    """The same answer from `op`, whose tables these are."""
    refuse(args, ["fit", "set"], f"{args.file.name}, a table of operators: only --out is allowed")
    parser = Parser()
    add_arguments(parser, TABLE["commands"]["op"])
    out = ["--out", str(args.out)] if args.out is not None else []
    return op(parser.parse_args(["--from", str(args.file), *out, *(["--force"] if args.force else [])]))


def _fit_parts(args: argparse.Namespace, forecasts: list[Any], catalog: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Every part with enough rows fitted, and written where that helps on rows left out."""
    parts = enough(forecasts, catalog)
    for system, device, _ in parts:
        for path in files_of(system, device.id, user_root()):
            if path.exists():
                writable(path, args.force)
    data, lines = [], []
    for system, device, rows in parts:
        part = fit(system, device, rows, catalog)
        entry: dict[str, Any] = {
            "system": system,
            "device": device.id,
            "rows": part.rows,
            "error_before": part.before,
            "error_after": part.after,
            "error_left_out": part.left_out,
            "gain_left_out": part.gain,
            "gain_standard_error": part.doubt,
            "moved": [asdict(constant) for constant in part.constants],
        }
        lines += ["", f"fit of {device.name} to {part.rows} rows of {system}:"]
        lines += [
            f"  {m.name:24} {_value(m.before, m.unit)} -> {_value(m.after, m.unit)} ({m.factor - 1:+.0%}; {m.basis})"
            + (f"; these rows can't tell it from {', '.join(m.alike)}" if m.alike else "")
            for m in part.constants
        ]
        lines.append(
            f"  half within {percent(part.before)} before, {percent(part.after)} after, "
            f"{percent(part.left_out)} on rows left out"
        )
        if part.helps:
            entry["new_system"], files = write_fit(part, args.file.name, catalog, user_root(), args.force)
            entry["files"] = [str(path) for path in files]
            lines += [f"  written to {path}" for path in files]
            lines.append(f"  to use it: --system {entry['new_system']}, or here --set system={entry['new_system']}")
        else:
            lines.append(
                f"  nothing is written: a row left out gains {part.gain:+.1%} on average, with a standard error of "
                f"{part.doubt:.1%}"
            )
        data.append(entry)
    return data, lines


def _value(value: float, unit: str) -> str:
    return f"{value:.4g}" if unit == "1" else amount(value, unit)
