"""The headless face: ``python -m engine list | evaluate | validate | ...``. Errors: one sentence on stderr, exit 2."""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.cli.ask import add_ask
from engine.cli.choose import add_choose
from engine.cli.compare_measured import add_compare_measured
from engine.cli.imports import add_import
from engine.cli.measure import add_measure
from engine.cli.op import add_op
from engine.cli.output import emit
from engine.cli.plan import add_plan
from engine.cli.scenario import add_scenario, changed
from engine.cli.sweep import add_sweep
from engine.cli.traffic import add_traffic
from engine.scenario.files import beside, writable
from entries.schema import InputError
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

_PROBLEMS = 10  # of a user's files that are told before every answer
_KINDS = ("systems", "devices", "links", "nics", "workloads", "presets", "families")


def _list(args: argparse.Namespace) -> int:
    from engine.devices import FAMILIES, family
    from engine.resolve.presets import PRESETS

    catalog, zoo = default_catalog(), default_zoo()
    data: list[dict[str, Any]]
    if args.what == "presets":
        data = [
            {
                "id": p.id,
                "name": p.title,
                "document": p.document,
                "headline": p.headline,
                "system": p.system,
                "workload": p.workload,
            }
            for p in PRESETS.values()
        ]
    elif args.what == "workloads":
        workloads = [zoo.workload(id) for id in zoo.ids()]
        data = [{"id": w.id, "name": w.name, "family": w.family, "document": w.document} for w in workloads]
    elif args.what == "families":
        data = [{"id": kind, "name": family(kind).title} for kind in FAMILIES]
    else:
        get = {"systems": catalog.system, "devices": catalog.device, "links": catalog.link, "nics": catalog.nic}[
            args.what
        ]
        specs = [get(id) for id in catalog.ids(args.what)]
        data = [
            {"id": s.id, "name": s.name}
            | ({"document": getattr(s, "document", None)} if args.what == "systems" else {})
            | ({"kind": getattr(s, "kind", None)} if args.what == "devices" else {})
            for s in specs
        ]
    emit(data, args.json, (f"{row['id']:36} {row['name']}" for row in data))
    return 0


def _evaluate(args: argparse.Namespace) -> int:
    from engine.cost.timeline import TRACED
    from engine.cost.trace import trace
    from engine.evaluate import evaluate
    from engine.published.nearest import data_of, row_of

    report = evaluate(changed(args))
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
        return 0
    emit(data_of(report), args.json, () if args.json else _lines(report))
    return 0


def _tokens(report: Any) -> list[str]:
    """What a token read and one written take, of a decoder whose power is published."""
    from engine.scenario.sentences import amount

    tokens = []
    for name in ("input", "output"):
        joules, usd = getattr(report, f"energy_per_{name}_token_j"), getattr(report, f"usd_per_million_{name}")
        if joules is not None:
            tokens.append(
                f"{name:6} token {amount(joules, 'J')}" + ("" if usd is None else f", ${usd:,.3g} per million")
            )
    return tokens


def _lines(report: Any) -> list[str]:
    from engine.cost.error_bands import told
    from engine.published.nearest import nearest
    from engine.scenario.sentences import amount, percent

    evidence = nearest(report.scenario)
    lines = [
        f"{report.system_name} · {report.workload_name}",
        report.verdict.replace("**", ""),
        f"latency     {amount(report.latency_s, 's')}",
        f"throughput  {amount(report.throughput_per_s, report.unit + '/s')}",
        f"power       {amount(report.power_w, 'W') if report.power_w is not None else 'not published'}",
        *_tokens(report),
        f"capex       {f'${report.capex_usd:,.0f}' if report.capex_usd is not None else report.unpriced}",
        *([f"contains    {report.price_of}"] if report.price_of else []),
        f"error band  {told(report.error_band)}",
        *([] if evidence is None else [f"nearest     {evidence.sentence}"]),
        *report.without_effect,
        *report.better,
    ]
    for op in sorted(report.ops, key=lambda o: -o.time_s)[:12]:
        lines.append(f"  {op.name[:34]:34} {amount(op.time_s, 's'):>10} {percent(op.share):>5}  {op.bound}")
    for row in sorted(report.other, key=lambda o: -o.time_s)[:6]:
        share = percent(row.time_s / report.latency_s)
        lines.append(f"  {row.name[:34]:34} {amount(row.time_s, 's'):>10} {share:>5}  {row.resource}")
    return [*lines, f"token       {report.token}"]


def _validate(args: argparse.Namespace) -> int:
    from engine.published import summary, validate
    from engine.published.other_sources import compare

    rows, elsewhere = validate(), compare()
    emit(elsewhere if args.elsewhere else rows, args.json, () if args.json else summary(rows, elsewhere))
    return 0


def _bench(args: argparse.Namespace) -> int:
    from engine.cli.bench import collect, markdown

    if args.markdown:
        writable(Path(args.markdown), True)
    rows = collect(args.only)
    if args.markdown:
        with beside(Path(args.markdown)) as fresh:
            fresh.write_text(markdown(rows))
    emit(rows, args.json, markdown(rows).splitlines())
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The argument parser with every subcommand."""
    parser = argparse.ArgumentParser(prog="python -m engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("list", help="ids of systems, devices, links, nics, workloads, presets or families")
    p.add_argument("what", choices=_KINDS)
    p.set_defaults(run=_list)
    p = commands.add_parser("evaluate", help="one scenario: latency, throughput, power, cost, and why")
    add_scenario(p)
    p.add_argument("--csv", action="store_true")
    p.add_argument("--trace", metavar="FILE", help="also write the timeline there, for Perfetto or chrome://tracing")
    p.add_argument("--force", action="store_true", help="replace a file that is there")
    p.set_defaults(run=_evaluate)
    analyses = add_ask(commands)
    add_traffic(commands)
    add_sweep(commands)
    add_choose(commands)
    add_measure(commands)
    add_op(commands)
    add_import(commands)
    add_compare_measured(commands)
    add_plan(commands)
    p = commands.add_parser("validate", help="every published figure beside its prediction")
    p.add_argument("--elsewhere", action="store_true", help="with --json: results printed elsewhere, not the claims")
    p.set_defaults(run=_validate)
    p = commands.add_parser("bench", help="ratios against libraries and limits, measured side by side")
    p.add_argument("--only", help="benchmark files whose name holds this")
    p.add_argument("--markdown", metavar="FILE", help="also write the table there")
    p.set_defaults(run=_bench)
    for sub in {*commands.choices.values(), *analyses.choices.values()}:
        sub.add_argument("--json", action="store_true", help="machine-readable, SI units in the keys")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    args = build_parser().parse_args(argv)
    if sys.stdout is None:
        sys.stderr.write("stdout is closed: there is nowhere to answer\n")
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a letter shows another instead of nothing
    problems = (*default_catalog().problems, *default_zoo().problems)
    for problem in problems[:_PROBLEMS]:
        sys.stderr.write(f"{problem}\n")
    if len(problems) > _PROBLEMS:
        sys.stderr.write(f"and {len(problems) - _PROBLEMS:,} more files that can't be used\n")
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except BrokenPipeError:  # the reader has seen enough; what is left in the buffer must not be tried again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        sys.stderr.write(f"{error.filename or 'stdout'} can't be used: {error.strerror or error}\n")
        return 2
