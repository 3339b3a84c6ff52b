"""``python -m engine evaluate | validate``: one scenario in full, and others' published figures."""

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.cli.command import Answer, refuse
from engine.cli.scenario import scenario_in
from engine.cost.error_bands import told
from engine.cost.timeline import TRACED, trace
from engine.evaluate import evaluate
from engine.published import summary, validate
from engine.published.nearest import data_of, nearest, row_of
from engine.published.other_sources import compare
from engine.scenario.files import beside, writable
from engine.scenario.sentences import amount, percent, usd


def report_of(args: argparse.Namespace) -> Answer | None:
    """A scenario's report. Estimates."""
    refuse(args, ("json",), "--csv, a row for a table: give one of the two", args.csv)
    report = evaluate(scenario_in(args))
    if args.trace:
        text = trace(report.in_order(TRACED), "one request", token=report.token, **report.versions)
        writable(Path(args.trace), args.force)
        with beside(Path(args.trace)) as fresh:
            fresh.write_text(text)
    if args.csv:
        row = row_of(report)
        writer = csv.DictWriter(sys.stdout, list(row))
        writer.writeheader()
        writer.writerow(row)
        return None
    return data_of(report), _lines(report)


def _lines(report: Any) -> Iterator[str]:
    evidence = nearest(report.scenario)
    yield f"{report.system_name} · {report.workload_name}"
    yield report.verdict.replace("**", "")
    yield f"latency     {amount(report.latency_s, 's')}"
    yield f"throughput  {amount(report.throughput_per_s, '').strip()} {report.unit}/s"
    yield f"power       {amount(report.power_w, 'W') if report.power_w is not None else 'not published'}"
    for name in ("input", "output"):  # of a decoder whose power is published
        joules, price = getattr(report, f"energy_per_{name}_token_j"), getattr(report, f"usd_per_million_{name}")
        if joules is not None:
            yield f"{name:6} token {amount(joules, 'J')}" + ("" if price is None else f", {usd(price)} per million")
    yield f"capex       {f'${report.capex_usd:,.0f}' if report.capex_usd is not None else report.unpriced}"
    yield from [f"contains    {report.price_of}"] if report.price_of else []
    yield f"error band  {told(report.error_band)}"
    yield from [] if evidence is None else [f"nearest     {evidence.sentence}"]
    yield from (*report.without_effect, *report.better)
    rows = [(op, op.bound) for op in sorted(report.ops, key=lambda op: -op.time_s)[:12]]
    rows += [(row, row.resource) for row in sorted(report.other, key=lambda row: -row.time_s)[:6]]
    for row, bound in rows:
        share = percent(row.time_s / report.latency_s)
        yield f"  {row.name[:34]:34} {amount(row.time_s, 's'):>10} {share:>5}  {bound}"
    yield f"token       {report.token}"


def validation(args: argparse.Namespace) -> Answer:
    """Every published figure beside its prediction."""
    rows, elsewhere = validate(), compare()
    return elsewhere if args.elsewhere else rows, summary(rows, elsewhere)
