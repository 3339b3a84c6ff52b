"""The arguments of every command from commands.yaml, and what a command answers, which `output` writes."""

import argparse
import math
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from engine.cli.scenario import add_scenario
from engine.scenario.token import brief
from entries.files import read_plain
from entries.schema import InputError

Answer = tuple[Any, Iterable[str]]
"""Plain data with SI units in its keys, and the lines that say the same to people, written where no JSON is asked."""
TABLE = read_plain(Path(__file__).with_name("commands.yaml"))
"""`commands` and `analyses` by name, and `groups` of arguments by title."""
_LONGEST = 600  # characters of a complaint, which repeats what was typed
_TYPES: dict[str, type] = {"int": int, "float": float, "path": Path}
_MEANS: dict[str, dict[str, Any]] = {
    "flag": {"action": "store_true"},
    "switch": {"action": argparse.BooleanOptionalAction, "default": None},
    "repeat": {"action": "append", "default": []},
    "optional": {"nargs": "?"},
}


class Parser(argparse.ArgumentParser):
    """A parser that complains in the one sentence that every other mistake gets."""

    def error(self, message: str) -> NoReturn:
        """InputError instead of the usage and an exit."""
        raise InputError(f"{self.prog}: {message[:_LONGEST]}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse an empty value, as of a variable that is not set, and ``--``, of which argparse makes a list."""
        for before, text in pairwise(("", *(args or ()))):
            flag, sign, value = text.partition("=") if text else (before, "=", "")
            if sign and flag.startswith("--") and value in ("", "--"):
                self.error(f"argument {flag}: {value!r} is not allowed: a value is")
        return super().parse_known_args(args, namespace)


def _number(kind: type, limits: Mapping[str, float], text: str) -> float:
    """A number of the text within ``from`` or ``above`` and ``to``; without limits, as whoever reads it takes it."""
    try:
        value = kind(text)
        float(value)  # a whole number of hundreds of digits is beyond every reader
        if not limits:
            return value
    except (ValueError, OverflowError):
        value = math.nan
    above, low, high = limits.get("above", -math.inf), limits.get("from", -math.inf), limits.get("to", math.inf)
    if not limits or not (above < value and low <= value <= high):
        words = {"to": "to" if "from" in limits else "and up to"}
        range_text = " ".join(f"{words.get(word, word)} {limit:,.10g}" for word, limit in limits.items())
        whole = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"{brief(text)} is not allowed: {f'{whole} {range_text}'.rstrip()} is")
    return value


def add_argument(parser: Any, name: str, entry: Mapping[str, Any]) -> None:
    """An argument as its entry has it: a ``type`` with its limits, what it ``means``, and argparse's own words.

    ``flag`` is on or off, ``switch`` has a --no- as well, ``repeat`` may be given several times, ``optional`` left out.
    """
    limits = {word: entry[word] for word in ("from", "above", "to") if word in entry}
    options = {key: value for key, value in entry.items() if key not in (*limits, *_MEANS, "type")}
    for word in _MEANS.keys() & entry.keys():
        options |= _MEANS[word]
    if "type" in entry:
        kind = _TYPES[entry["type"]]
        options["type"] = kind if kind is Path else partial(_number, kind, limits)
    parser.add_argument(name, **options)


def add_arguments(parser: argparse.ArgumentParser, entry: Mapping[str, Any]) -> None:
    """The arguments of a command: its own, those of a scenario where they are among them, and shared groups."""
    for name, argument in entry["arguments"].items():
        if name == "scenario":
            add_scenario(parser)
        else:
            add_argument(parser, name, argument)
    for title in entry.get("groups", ()):
        group = parser.add_argument_group(title)
        for name, argument in TABLE["groups"][title].items():
            add_argument(group, name, argument)
    parser.add_argument("--json", action="store_true", help="machine-readable, SI units in the keys")
    parser.set_defaults(usual=parser.get_default)


def refuse(args: argparse.Namespace, names: Iterable[str], beside: str, dead: bool = True) -> None:
    """InputError for the first of some arguments that is given ``beside`` what leaves it no meaning."""
    for name in names if dead else ():
        if (value := getattr(args, name)) != args.usual(name):
            item = value[0] if isinstance(value, list) else value
            text = f"{item:.10g}" if isinstance(item, int | float) else brief(item, 60)
            raise InputError(f"{name.replace('_', '-')} is {'on' if item is True else text} beside {beside}")


def add_commands(group: Any, section: str, with_help: bool = True) -> None:
    """A parser for each command of a section, with the function that answers it, by its module of this package; without
    ``with_help`` no help names it.
    """
    for name, entry in TABLE[section].items():
        options: dict[str, Any] = {"help": entry["help"]} if with_help else {}
        if "epilog" in entry:
            options |= {"epilog": entry["epilog"], "formatter_class": argparse.RawDescriptionHelpFormatter}
        parser = group.add_parser(name, description=entry["help"], **options)
        add_arguments(parser, entry)
        parser.set_defaults(answer=entry["answer"], spelled=entry.get("spelled", section == "analyses"))
