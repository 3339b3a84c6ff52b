"""Files of an answer: none that is there is lost in silence, and none is left half written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from engine.scenario.token import ScenarioError, brief


@contextmanager
def beside(path: Path, folder: bool = False) -> Iterator[Path]:
    """A file to write, beside ``path``, that takes its place once it is whole; a link there is replaced, not followed.

    ``folder``: its folder is made where it is missing. ScenarioError in one sentence where it can't be written to its
    end; then ``path`` is as it was.
    """
    fresh = path.with_name(f".{path.stem[:60]}.{os.getpid()}{path.suffix}")
    try:
        if folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        fresh.open("xb").close()
        try:
            yield fresh
            fresh.replace(path)
        finally:
            with suppress(FileNotFoundError):
                fresh.unlink()
    except OSError as error:
        raise ScenarioError(f"{brief(path, 120)} can't be written: {error.strerror or error}") from None


def writable(path: Path, force: bool, folder: bool = False) -> None:
    """Refuses a file that can't be written before anything is computed for it; leaves what is there as it is."""
    if path.is_dir():
        raise ScenarioError(f"{brief(path, 120)} can't be written: it is a folder")
    if os.path.lexists(path) and not force:
        raise ScenarioError(f"{brief(path, 120)} exists already: give --force to replace it, or another name")
    with suppress(_Enough), beside(path, folder):
        raise _Enough


def inert(cell: Any) -> Any:
    """A cell that no spreadsheet runs: one line of text, with an apostrophe before what would begin a formula."""
    if not isinstance(cell, str):
        return cell
    line = " ".join(cell.split())
    return "'" + line if line.startswith(("=", "+", "-", "@")) else line


class _Enough(Exception):
    """The file could be opened."""
