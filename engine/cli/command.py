"""What every command is: what it says of itself, its arguments, and its answer, which `output` writes."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from engine.scenario.token import brief
from entries.schema import InputError

Arguments = Callable[[argparse.ArgumentParser], None]
Answer = tuple[Any, Iterable[str]]
"""Plain data with SI units in its keys, and the lines that say the same to people, written where no JSON is asked."""
_LONGEST = 600  # characters of a complaint, which repeats what was typed


class Command(NamedTuple):
    """A command of the table in `engine.cli.main` or an analysis of `engine.cli.ask`.

    `answer` is None where a command has written what it has to say itself. With `spelled` its data follow the lines,
    as `output.lines_of` has them.
    """

    help: str
    arguments: Arguments
    answer: Callable[[argparse.Namespace], Answer | None]
    spelled: bool = False
    epilog: str = ""


class Parser(argparse.ArgumentParser):
    """A parser that complains in the one sentence that every other mistake gets."""

    def error(self, message: str) -> NoReturn:
        """InputError instead of the usage and an exit."""
        raise InputError(f"{self.prog}: {message[:_LONGEST]}")


def number(least: float, most: float, kind: type[float] = float, above: bool = False) -> Callable[[str], float]:
    """Type of an argument that is a number from ``least`` to ``most``, or more than ``least`` where it is ``above``."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most or (above and value == least):
            said = f"{'a whole' if kind is int else 'a'} number {'above' if above else 'from'} {least:g}"
            end = "" if most == math.inf else f" and up to {most:,.10g}" if above else f" to {most:,.10g}"
            raise argparse.ArgumentTypeError(f"{brief(text)} is not allowed: {said}{end} is")
        return value

    return read


def positive(most: float) -> Callable[[str], float]:
    """Type of an argument that is a number above 0 and up to ``most``."""
    return number(0, most, above=True)


def add_commands(group: Any, commands: Mapping[str, Command], listed: bool = True) -> None:
    """A parser for each command in a group of subparsers; without ``listed`` no help names it."""
    for name, command in commands.items():
        shown = {"help": command.help} if listed else {}
        layout = {"epilog": command.epilog, "formatter_class": argparse.RawDescriptionHelpFormatter}
        parser = group.add_parser(name, description=command.help, **shown, **(layout if command.epilog else {}))
        command.arguments(parser)
        parser.add_argument("--json", action="store_true", help="machine-readable, SI units in the keys")
        parser.set_defaults(run=command)
