"""Scenarios that differ in batch and lengths alone, priced as columns of one design. Estimates, as `evaluate`'s are."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from engine.cost.assemble import Figures, add_up, lacks_room, rows_of
from engine.cost.best_plan import make_plan
from engine.cost.layout import CLOCKED, DRAWN, N
from engine.cost.pieces import Design, Tables, runs_of
from engine.devices import family
from engine.devices.common.cached import remembered
from engine.devices.common.column import Column, NotAlike, arrays_of
from engine.devices.common.job import Job
from engine.plan.schemes import open_plan
from engine.resolve.bind import named, offered
from engine.resolve.bound import Bound
from engine.scenario import Scenario
from entries.schema import InputError
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo
from model_zoo.ops import Op

T = TypeVar("T")


class Sizes(NamedTuple):
    """Batch, and length of what a request gives and takes. [-]"""

    batch: int
    inputs: int
    outputs: int


@dataclass(frozen=True, eq=False)
class Alike:
    """Sizes of a scenario whose plans are alike, as one design with a column of each; priced once it is asked for."""

    places: Sequence[int]  # of the sizes among all that were asked for
    design: Design

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """Stages and phases that have operators and passes, by number."""
        return runs_of(self.design)

    @cached_property
    def figures(self) -> Figures:
        """Figures whose rows have a column of each size."""
        return Figures(*rows_of(self.design, len(self.places), self.runs))

    def fits(self) -> np.ndarray:
        """Whether every memory has room for what it must hold, at each of the sizes."""
        return ~lacks_room(self.design, self.runs, len(self.places))

    def alone(self, at: int) -> Figures:
        """Figures at one of the sizes."""
        return Figures(self.figures.layout, self.figures.rows[:, at : at + 1])

    def pass_seconds(self, run: int, of: Sequence[Callable[[Op], bool]]) -> np.ndarray:
        """Of a pass of a run, at its clock: all of it, then of operators of each kind, (1 + kinds, n). [s]

        NotAlike where a family prices operators together, and there are several sizes.
        """
        n, job = len(self.places), self.design.job(*self.runs[run])
        fam, parts = family(job.device.kind), np.zeros((1 + len(of), N + 1, n))
        if fam.compiled is not None and fam.compiled.apart[fam.compiled.company(job)]:
            numbers, tables = arrays_of([*job.sizes, *fam.compiled.record(job)]), Tables(fam.compiled.tables(job))
            for part, kind in zip(parts[1:], of, strict=True):
                if ops := _of_kind((job, kind)):
                    add_up(replace(job, ops=ops), numbers, tables, part)
        elif n > 1:
            raise NotAlike(wholly=True)
        else:
            seconds = fam.price(job).seconds
            for part, kind in zip(parts[1:], of, strict=True):
                part[:N, 0] = seconds[[kind(op) for op in job.ops]].sum(axis=0)
        layout, rows = self.figures.layout, self.figures.rows
        parts[0] = rows[layout.of_run(0, run)] + rows[layout.of_run(layout.where.extra, run)]
        if layout.governed[layout.stage_of[run]]:
            parts[:, list(CLOCKED)] /= rows[layout.where.draws + DRAWN.index("clock")]
        return parts[:, :N].sum(axis=1)


@remembered(lambda part: (id(part[0].phase), id(part[0].ops), part[1]))
def _of_kind(part: tuple[Job, Callable[[Op], bool]]) -> tuple[Op, ...]:
    """A job's operators of a kind: always the same tuple, so that what is known of it is found."""
    return tuple(op for op in part[0].ops if part[1](op))


def in_columns(
    scenario: Scenario,
    sizes: Sequence[Sizes],
    read: Callable[[Alike], Iterable[T]],
    catalog: Catalog | None = None,
    zoo: Zoo | None = None,
    refused: Callable[[InputError], T] | None = None,
) -> list[T]:
    """What ``read`` finds of a scenario at each of many sizes, those whose plans are alike at once.

    ``read`` gives a value for each size of an `Alike`, and may raise NotAlike where it must have fewer. Every figure is
    `evaluate`'s to the bit. A size that is not allowed is what ``refused`` makes of it, else ScenarioError or
    Unsupported.
    """
    result: dict[int, T] = {}
    base = named(scenario, catalog, zoo)
    for end in (min, max) if len(sizes) > 1 else ():  # what a size may be is a range, so all between are allowed
        scenario.with_(**dict(zip(Sizes._fields, map(end, zip(*sizes, strict=True)), strict=True)))

    @np.errstate(all="ignore")
    def price(places: Sequence[int]) -> None:
        try:
            alike = Alike(places, _design(base, [sizes[place] for place in places]))
            result.update(zip(places, read(alike), strict=True))
        except (NotAlike, InputError) as error:
            if len(places) > 1:
                for part in _parts(places, error):
                    price(part)
            elif refused is not None and isinstance(error, InputError):
                result[places[0]] = refused(error)
            else:
                raise

    price(range(len(sizes)))
    return [result[place] for place in range(len(sizes))]


def _design(base: Bound, sizes: Sequence[Sizes]) -> Design:
    """The design of one size, or of several as columns; NotAlike where those must be taken apart."""
    changes: dict[str, Any] = {
        name: Column(values) if len({*values}) > 1 else values[0]
        for name, values in zip(Sizes._fields, zip(*sizes, strict=True), strict=True)
    }
    if len(sizes) == 1:
        bound = offered(replace(base, scenario=base.scenario.with_(**changes)))
        return Design(bound, make_plan(bound))
    scenario = Scenario.model_construct(**(dict(base.scenario.__dict__) | changes))
    plan = open_plan(bound := offered(replace(base, scenario=scenario)))
    if plan.options:  # each size has a best one of its own
        raise NotAlike(wholly=True)
    return Design(bound, plan)


def _parts(places: Sequence[int], error: Exception) -> Iterator[Sequence[int]]:
    """Places taken apart as an error says: those that went one way and the other, one by one, or in halves."""
    answers = getattr(error, "answers", None)
    if answers is not None and answers.shape == (len(places),):
        for way in (True, False):
            yield [place for place, answer in zip(places, answers.tolist(), strict=True) if answer is way]
    elif getattr(error, "wholly", False):
        yield from ([place] for place in places)
    else:
        middle = len(places) // 2
        yield from (places[:middle], places[middle:])
