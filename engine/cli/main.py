"""The headless face: ``python -m engine list | evaluate | validate | ...``. Errors: one sentence on stderr, exit 2."""

import argparse
import io
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pkgutil import resolve_name
from typing import Any

from engine.cli.command import TABLE, Answer, Parser, add_commands
from engine.cli.output import emit
from entries.schema import InputError
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

_PROBLEMS = 10  # of a user's files that are told before every answer
_NAMES = {"id": "id", "name": "name"}
_KINDS = {  # that can be listed: what is said of an entry, and where it has it
    "systems": _NAMES | {"document": "document"},
    "devices": _NAMES | {"kind": "kind"},
    "links": _NAMES,
    "nics": _NAMES,
    "workloads": _NAMES | {"family": "family", "document": "document"},
    "presets": {"id": "id", "name": "title"} | {name: name for name in ("document", "headline", "system", "workload")},
    "families": {"id": "kind", "name": "title"},
}


def entries_of(args: argparse.Namespace) -> Answer:
    """Entries of a catalog by id and name."""
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


@cache
def build_parser() -> argparse.ArgumentParser:
    """The argument parser with every command; an analysis is asked by ``ask``, and for one version more by its name."""
    parser = Parser(prog="python -m engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add_commands(commands, "commands")
    ask = commands.add_parser("ask", help=f"one analysis: {', '.join(TABLE['analyses'])}")
    add_commands(ask.add_subparsers(dest="analysis", required=True, metavar="ANALYSIS"), "analyses")
    add_commands(commands, "analyses", with_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    try:
        args = build_parser().parse_args(argv)
        if sys.stdout is None:
            raise InputError("stdout is closed: there is nowhere to answer")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a letter shows another instead of nothing
        problems = (*default_catalog().problems, *default_zoo().problems)
        for problem in problems[:_PROBLEMS]:
            sys.stderr.write(f"{problem}\n")
        if len(problems) > _PROBLEMS:
            sys.stderr.write(f"and {len(problems) - _PROBLEMS:,} more files that can't be used\n")
        answer = resolve_name(f"engine.cli.{args.answer}")(args)
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
