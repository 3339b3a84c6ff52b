"""Tests that passed, and for which nothing has changed since: `make check` leaves them out, every other run has them.

What a test may follow from is its file with all of ours that it imports, wherever the import stands, every file that is
no Python, and the settings of the run. One that starts processes, opens pages or reads sources follows from everything.
"""

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "build" / "green.json"
PACKAGES = ("app", "engine", "entries", "hardware_specs", "model_zoo", "tests")
_NAME = rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)*"
_MODULE = re.compile(rf"^\s*import\s+({_NAME})|[\"'](?:f\")?({_NAME})[\"'.]", re.MULTILINE)
_FROM = re.compile(rf"^\s*from\s+({_NAME})\s+import\s+(\([^)]*\)|[^\n#]*)", re.MULTILINE)
_EVERYTHING = re.compile(r"subprocess|sys\.executable|multiprocessing|\bROOT\b|__file__")


def _digest(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


@cache
def _bytes(file: Path) -> bytes:
    """Digest of a file."""
    return hashlib.sha256(file.read_bytes()).digest()


@cache
def _setting(python: bool) -> str:
    """Digest of the settings of a run and of all files that are no Python, or of those that are too."""
    settings = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("INFERSCAPE_")]
    files = [file for name in (*PACKAGES, "docs") for file in sorted((ROOT / name).rglob("*")) if file.is_file()]
    files = [file for file in files if not {"node_modules", "__pycache__"}.intersection(file.parts)]
    files += sorted(file for file in ROOT.iterdir() if file.is_file())
    digests = [_bytes(file) for file in files if python or file.suffix != ".py"]
    return _digest([text.encode() for text in (sys.version, platform.processor(), *settings)] + digests)


@cache
def _module(name: str) -> frozenset[Path]:
    """Files of a dotted name: of the packages it lies in, and its own if it is a module."""
    parts = name.split(".")
    paths = (ROOT.joinpath(*parts[:count]) for count in range(1, len(parts) + 1))
    files = (file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py"))
    return frozenset(file for file in files if file.is_file())


@cache
def _imported(file: Path) -> frozenset[Path]:
    """Files of ours that one imports or calls by their modules' names; of a package that it puts names to, all."""
    text, found = file.read_text(), set()
    named = _MODULE.findall(text) if file != ROOT / "engine" / "__init__.py" else ()  # that names what others import
    for imported, quoted in named:
        found |= _module(imported or quoted)
        if f'f"{quoted}.{{' in text:
            found |= set(ROOT.joinpath(*quoted.split(".")).glob("*.py"))
    for package, names in _FROM.findall(text):
        for name in re.findall(r"\w+", names):
            found |= _module(f"{package}.{name}")
            found |= _module(_offered().get(name, "engine")) if package == "engine" else frozenset()
    return frozenset(found)


@cache
def _offered() -> dict[str, str]:
    """Modules of what ``from engine import`` offers, by its name."""
    return dict(re.findall(r'"(\w+)": "([\w.]+)"', (ROOT / "engine" / "__init__.py").read_text()))


@cache
def digest_of(file: str) -> str:
    """Digest of what the tests of a file, by its path from the root, may follow from. [-]"""
    source = ROOT / file
    if file.startswith(("tests/app/", "tests/architecture/")) or _EVERYTHING.search(source.read_text()):
        return _setting(python=True)
    seen: set[Path] = set()
    waiting = {source, *(at for folder in source.parents if (at := folder / "conftest.py").is_file())}
    while waiting:
        seen |= waiting
        waiting = set().union(*map(_imported, waiting)) - seen
    return _digest([_setting(python=False).encode(), *map(_bytes, sorted(seen))])


def _record() -> dict[str, str]:
    try:
        return json.loads(RECORD.read_text())
    except (OSError, ValueError):
        return {}


def green() -> set[str]:
    """Node ids of tests that passed with all they follow from as it is."""
    found = ((test, test.split("::", maxsplit=1)[0], digest) for test, digest in _record().items())
    return {test for test, file, digest in found if (ROOT / file).is_file() and digest == digest_of(file)}


def keep(outcomes: dict[str, bool]) -> None:
    """Writes down which tests of a run passed, beside what earlier runs found of others."""
    record = {test: digest for test, digest in _record().items() if test not in outcomes}
    record |= {test: digest_of(test.split("::", maxsplit=1)[0]) for test, passed in outcomes.items() if passed}
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=0))
