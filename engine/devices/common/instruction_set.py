"""What a machine with an instruction set tells of itself: its fabric, its tiles, its arithmetic and its programs.

A family of such machines names a module that exports ``INSTRUCTIONS: InstructionSet``. Nothing is priced here.
The text of a program is lines of words, comments and loops; what is wrong is said with its line and column.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine.devices.common.fabric import Demand
from engine.devices.common.job import Job
from engine.scenario import ScenarioError
from hardware_specs.schema import Device

MOST_INSTRUCTIONS = 100_000
"""Instructions a program may have once its loops are written out."""
MOST_TURNS = 65_536


class ProgramError(ScenarioError):
    """One sentence about a place of a program."""

    def __init__(self, line: int, column: int, sentence: str) -> None:
        super().__init__(f"line {line}, column {column}: {sentence}")
        self.line, self.column, self.sentence = line, column, sentence


@dataclass(frozen=True)
class Word:
    """A word and where it stands."""

    text: str
    line: int
    column: int

    def wrong(self, sentence: str) -> ProgramError:
        """The error of this place."""
        return ProgramError(self.line, self.column, sentence)


@dataclass(frozen=True)
class Line:
    """The words of a line, the first of which says what it does."""

    words: tuple[Word, ...]

    @property
    def head(self) -> Word:
        """Its first word."""
        return self.words[0]

    def take(self, low: int, high: int, operands: str) -> tuple[Word, ...]:
        """The words behind the first; ProgramError where there are too few or too many."""
        words = self.words[1:]
        if len(words) < low:
            last = self.words[-1]
            missing = f"{self.head.text} takes {operands}, but the line ends here"
            raise ProgramError(last.line, last.column + len(last.text), missing)
        if len(words) > high:
            raise words[high].wrong(f"{words[high].text[:40]!r} is one too many: {self.head.text} takes {operands}")
        return words


def unknown(word: Word, kind: str, options: Iterable[str]) -> ProgramError:
    """The error of a name that is none of those known; at most a few are listed."""
    names = list(options)
    text = ", ".join(names[:32]) + (", ..." if len(names) > 32 else "")
    return word.wrong(f"{kind} {word.text[:40]!r} is not known; allowed: {text}")


def whole(word: Word, text: str, subject: str, low: int, high: int) -> int:
    """A whole number from low to high. [-] ProgramError otherwise."""
    if not re.fullmatch(r"\d{1,12}", text) or not low <= int(text) <= high:
        raise word.wrong(f"{subject} is {text[:40]!r}: a whole number from {low:,} to {high:,} is allowed")
    return int(text)


def _read(text: str) -> Iterator[Line]:
    """Lines that say something, their commas and comments left out."""
    if len(text) > 4_000_000:
        raise ProgramError(1, 1, f"the program has {len(text):,} characters; 4,000,000 are allowed")
    for number, line in enumerate(text.splitlines(), 1):
        body = re.sub(r"[;#].*", "", line)
        words = tuple(Word(m.group(), number, m.start() + 1) for m in re.finditer(r"[^\s,]+", body))
        if words:
            yield Line(words)


def lines_of(text: str) -> list[Line]:
    """All lines of a text with its loops (``loop N`` to ``end``) written out. ProgramError where one never ends."""
    open_loops: list[tuple[Word, int, list[Line]]] = []
    body: list[Line] = []
    for line in _read(text):
        if line.head.text == "loop":
            if len(line.words) < 2:
                raise line.head.wrong(
                    f"loop has no count, so it never ends; a count from 1 to {MOST_TURNS:,} is needed"
                )
            (count,) = line.take(1, 1, "a count")
            open_loops.append((line.head, whole(count, count.text, "the count of a loop", 1, MOST_TURNS), body))
            body = []
        elif line.head.text == "end":
            line.take(0, 0, "nothing")
            if not open_loops:
                raise line.head.wrong("end closes no loop")
            head, turns, before = open_loops.pop()
            if len(before) + turns * len(body) > MOST_INSTRUCTIONS:
                limit = f"the loop makes {turns * len(body):,} instructions; {MOST_INSTRUCTIONS:,} are allowed"
                raise head.wrong(limit)
            body = before + turns * body
        else:
            body.append(line)
    if open_loops:
        raise open_loops[-1][0].wrong("this loop never ends: its end is missing")
    return body


PARTS = ("layer", "head", "token", "layer-send", "head-send")
"""Programs of a decoder that can be shown, as the last of a card of a pipeline too; other machines have one, of a step
or of the whole network."""


@dataclass(frozen=True)
class Row:
    """An instruction, when it works, and what it waited for. Cycles from the start of the program."""

    number: int
    line: int
    text: str
    unit: str
    start: float
    end: float
    valid: float  # its result may be read
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    waits_for: int | None  # number of the instruction that let it go last
    hazard: str  # "", "read after write", "write after read", "write after write"


@dataclass(frozen=True)
class Listing:
    """A program as text, timed: all cycles, a row an instruction, busy cycles by unit. An estimate."""

    text: str
    cycles: float
    clock: float
    rows: tuple[Row, ...]
    bars: tuple[tuple[str, int, float, float], ...]  # unit, number, start, duration [cycle]
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Time of the program. [s] An estimate."""
        return self.cycles / self.clock

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"seconds": self.seconds, **asdict(self)}


@dataclass(frozen=True)
class Values:
    """A register before and after a run: its length, some of it, and how far it is from float64. [-]"""

    register: str
    elements: int
    before: tuple[float, ...]
    after: tuple[float, ...]
    error: float | None


@dataclass(frozen=True)
class Use:
    """A resource of the fabric: what is used of what is there."""

    name: str
    used: float
    available: float | None
    basis: str

    @property
    def share(self) -> float | None:
        """Of what is there. [-] An estimate."""
        return self.used / self.available if self.available else None


@dataclass(frozen=True)
class Error:
    """A functional run of a small drawn network beside a wide reference. A measurement, of that network only."""

    name: str
    relative: float  # [-]
    note: str


@dataclass(frozen=True)
class Density:
    """Multiply-accumulators of one format that a part holds, and their peak."""

    format: str
    hard: float  # in packed multipliers
    soft: float  # in logic
    flops_per_s: float


TIE = 0.002
"""Relative difference in the time of a request below which a tile's slices decide: what whole cycles of instructions
make."""


@dataclass(frozen=True)
class TileChoice:
    """The choice of a tile: `current`, what a machine runs with; `best`, of tiles with a cost each the one to take.

    `best` of a device, a format and those costs answers the tile and the slices of the fabric that it takes. [-]
    """

    current: Callable[[Job], tuple[int, int]]
    best: Callable[[Device, str, Mapping[tuple[int, int], float]], tuple[tuple[int, int], float]]


@dataclass(frozen=True)
class InstructionSet:
    """What a family's machines answer of themselves, each asked by the job that it is given of a network's first phase.

    Attributes
    ----------
    mnemonics : those of its programs.
    program_text : (job, part) -> text of the program that the price rests on: a part of a decoder, a step, a network.
    listing : (job, text) -> a program timed. An estimate; ProgramError names the line and column of what is wrong.
    values : (job, text, seed, most) -> registers after so many instructions on drawn numbers. A measurement.
    demand : job -> fabric that it takes, by resource and unit. [-] An estimate.
    uses : job -> the same beside what the part has, with units of its own. [-]
    errors : job -> a small drawn network run in the machine's arithmetic. [-]
    tiles : the choice of a tile; None: there is none.
    densities : device -> for each format how many multiply-accumulators the part holds; None: it is not known.
    """

    mnemonics: tuple[str, ...]
    program_text: Callable[[Job, str], str]
    listing: Callable[[Job, str], Listing]
    values: Callable[[Job, str, int, int | None], tuple[Values, ...]]
    demand: Callable[[Job], Demand]
    uses: Callable[[Job], tuple[Use, ...]]
    errors: Callable[[Job], tuple[Error, ...]]
    tiles: TileChoice | None = None
    densities: Callable[[Device], tuple[Density, ...]] | None = None


def relative_error(got: np.ndarray, reference: np.ndarray) -> float:
    """Root mean square of the difference over that of the reference. [-] A measurement."""
    reference = np.asarray(reference, np.float64)
    return float(np.sqrt(np.mean((got - reference) ** 2) / np.mean(reference**2)))


def register(name: str, before: np.ndarray | None, after: np.ndarray, reference: np.ndarray) -> Values:
    """A register as it is shown: its first elements, and its error where there is one."""
    error = relative_error(after.astype(np.float64), reference) if reference.any() else None
    first = tuple(map(float, before[:4])) if before is not None else ()
    result = error if error is not None and math.isfinite(error) else None
    return Values(name, len(after), first, tuple(map(float, after[:4])), result)
