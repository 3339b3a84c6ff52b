"""The headless face: ``python -m engine list | evaluate | validate | ...``. Errors: one sentence on stderr, exit 2."""

import argparse
import csv
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from engine.cli import edge, machine, measure, node, traffic
from engine.cli.bench import bench
from engine.cli.choose import choose
from engine.cli.command import Answer, Parser, add_commands
from engine.cli.compare_measured import compare_measured
from engine.cli.imports import import_config
from engine.cli.op import op
from engine.cli.output import emit
from engine.cli.plan import plan
from engine.cli.scenario import changed
from engine.cli.sweep import sweep
from engine.scenario.files import beside, writable
from entries.schema import InputError
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

_PROBLEMS = 10  # of a user's files that are told before every answer
_NAMED = {"id": "id", "name": "name"}
_KINDS = {  # that can be listed: what is said of an entry, and where it has it
    "systems": _NAMED | {"document": "document"},
    "devices": _NAMED | {"kind": "kind"},
    "links": _NAMED,
    "nics": _NAMED,
    "workloads": _NAMED | {"family": "family", "document": "document"},
    "presets": {"id": "id", "name": "title"} | {name: name for name in ("document", "headline", "system", "workload")},
    "families": {"id": "kind", "name": "title"},
}


def _list(args: argparse.Namespace) -> Answer:
    from engine.devices import FAMILIES, family
    from engine.resolve.presets import PRESETS

    catalog, zoo = default_catalog(), default_zoo()
    if args.what == "presets":
        entries: Iterable[Any] = PRESETS.values()
    elif args.what == "families":
        entries = map(family, FAMILIES)
    elif args.what == "workloads":
        entries = map(zoo.workload, zoo.ids())
    else:
        entries = map(getattr(catalog, args.what.removesuffix("s")), catalog.ids(args.what))
    data = [{name: getattr(entry, at) for name, at in _KINDS[args.what].items()} for entry in entries]
    return data, (f"{row['id']:36} {row['name']}" for row in data)


def _evaluate(args: argparse.Namespace) -> Answer | None:
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
        return None
    return data_of(report), _lines(report)


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


def _lines(report: Any) -> Iterator[str]:
    from engine.cost.error_bands import told
    from engine.published.nearest import nearest
    from engine.scenario.sentences import amount, percent

    evidence = nearest(report.scenario)
    yield f"{report.system_name} · {report.workload_name}"
    yield report.verdict.replace("**", "")
    yield f"latency     {amount(report.latency_s, 's')}"
    yield f"throughput  {amount(report.throughput_per_s, report.unit + '/s')}"
    yield f"power       {amount(report.power_w, 'W') if report.power_w is not None else 'not published'}"
    yield from _tokens(report)
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


def _validate(args: argparse.Namespace) -> Answer:
    from engine.published import summary, validate
    from engine.published.other_sources import compare

    rows, elsewhere = validate(), compare()
    return elsewhere if args.elsewhere else rows, summary(rows, elsewhere)


_ANSWERS = {
    "list": _list,
    "evaluate": _evaluate,
    "simulate": traffic.simulate,
    "capacity": traffic.capacity,
    "sweep": sweep,
    "choose": choose,
    "measure": measure.measure,
    "calibrate": measure.calibrate,
    "op": op,
    "import": import_config,
    "compare-measured": compare_measured,
    "plan": plan,
    "validate": _validate,
    "bench": bench,
}
_ANALYSES = {
    "machine": machine.machine,
    "microservice": machine.microservice,
    "program": machine.program,
    "kinds": node.kinds,
    "tile": node.tile,
    "split": edge.split,
    "camera": edge.camera,
    "forward": edge.forward,
    "host-nic": edge.host,
    "fuse": edge.fuse,
}


def build_parser() -> argparse.ArgumentParser:
    """The argument parser with every command; an analysis is asked by ``ask``, and for one version more by its name."""
    parser = Parser(prog="python -m engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add_commands(commands, "commands", _ANSWERS)
    ask = commands.add_parser("ask", help=f"one analysis: {', '.join(_ANALYSES)}")
    add_commands(ask.add_subparsers(dest="analysis", required=True, metavar="ANALYSIS"), "analyses", _ANALYSES)
    add_commands(commands, "analyses", _ANALYSES, listed=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    try:
        args = build_parser().parse_args(argv)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
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
        answer = args.answer(args)
        if answer is not None:
            emit(*answer, args.json, args.spelled)
        sys.stdout.flush()
        return 0
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except BrokenPipeError:  # the reader has seen enough; what is left in the buffer must not be tried again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        sys.stderr.write(f"{error.filename or 'stdout'} can't be used: {error.strerror or error}\n")
        return 2
