"""What a machine with an instruction set tells of itself: its fabric, its tiles, its arithmetic and its programs.

A family of such machines names a module that exports ``INSTRUCTIONS: InstructionSet``. Nothing is priced here.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine.devices.common.contract import Job
from engine.devices.common.fabric import Demand
from hardware_specs.schema import Device

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


SAME = 0.002
"""Relative difference in the time of a request below which a tile's slices decide: what whole cycles of instructions
make."""


@dataclass(frozen=True)
class TileChoice:
    """The choice of a tile: `own`, what a machine runs with; `best`, of tiles with a cost each the one to take.

    `best` of a device, a format and those costs answers the tile and the slices of the fabric that it takes. [-]
    """

    own: Callable[[Job], tuple[int, int]]
    best: Callable[[Device, str, Mapping[tuple[int, int], float]], tuple[tuple[int, int], float]]


@dataclass(frozen=True)
class InstructionSet:
    """What a family's machines answer of themselves, each asked by the job that it is given of a network's first phase.

    Attributes
    ----------
    mnemonics : those of its programs.
    shipped : (job, part) -> text of the program that the price rests on: a part of a decoder, a step, a network.
    listing : (job, text) -> a program timed. An estimate; ProgramError names the line and column of what is wrong.
    values : (job, text, seed, most) -> registers after so many instructions on drawn numbers. A measurement.
    demand : job -> fabric that it takes, by resource and unit. [-] An estimate.
    uses : job -> the same beside what the part has, with units of its own. [-]
    errors : job -> a small drawn network run in the machine's arithmetic. [-]
    tiles : the choice of a tile; None: there is none.
    densities : device -> for each format how many multiply-accumulators the part holds; None: it is not known.
    """

    mnemonics: tuple[str, ...]
    shipped: Callable[[Job, str], str]
    listing: Callable[[Job, str], Listing]
    values: Callable[[Job, str, int, int | None], tuple[Values, ...]]
    demand: Callable[[Job], Demand]
    uses: Callable[[Job], tuple[Use, ...]]
    errors: Callable[[Job], tuple[Error, ...]]
    tiles: TileChoice | None = None
    densities: Callable[[Device], tuple[Density, ...]] | None = None


def relative_error(got: np.ndarray, wanted: np.ndarray) -> float:
    """Root mean square of the difference over that of the reference. [-] A measurement."""
    wanted = np.asarray(wanted, np.float64)
    return float(np.sqrt(np.mean((got - wanted) ** 2) / np.mean(wanted**2)))


def register(name: str, before: np.ndarray | None, after: np.ndarray, wanted: np.ndarray) -> Values:
    """A register as it is shown: its first elements, and its error where there is one."""
    error = relative_error(after.astype(np.float64), wanted) if wanted.any() else None
    first = tuple(map(float, before[:4])) if before is not None else ()
    result = error if error is not None and math.isfinite(error) else None
    return Values(name, len(after), first, tuple(map(float, after[:4])), result)
