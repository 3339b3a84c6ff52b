"""A family of designs as tables: each piece of the model as the numbers it comes to, over the axes they depend on.

A piece is worked out for all designs at once, its sizes and numbers of specs being columns. Where it decides something
on such a number (an ``if`` that falls out both ways, a figure that is no arithmetic), its designs are taken apart along
an axis until each part is decided alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from engine.cost.assemble import Numbers, demands, layout_of, pieces
from engine.cost.best_plan import alike
from engine.devices import family
from engine.devices.common.column import NotAlike, arrays_of
from engine.devices.common.counts import SIZES
from engine.plan.schemes import Plan
from engine.resolve.bind import check
from engine.sweep.pricing.choice import Choice
from engine.sweep.pricing.design import OPTIONS, DesignFamily, Designs, Part, Refused, Structural
from engine.sweep.pricing.program import Assembly, Program, assemble
from engine.sweep.pricing.runs import CompiledRun

Piece = Callable[[Designs], Numbers]


@dataclass
class Tabulated:
    """Numbers of some designs: a double each, or an array with a dimension an axis, of length 1 where it does not
    matter."""

    values: list[Any] | None  # None: all designs are refused
    bad: np.ndarray  # designs that the model refuses
    mark: Any = None
    sentences: dict[str, None] = field(default_factory=dict)


def tabulate(fam: DesignFamily, piece: Piece) -> Tabulated:
    """A piece of the model over all designs of a family; Refused where it refuses every one."""
    tabulated = _found(fam, piece, fam.whole)
    if tabulated.values is None:
        raise Refused(next(iter(tabulated.sentences)))
    tabulated.values = [value if type(value) is float else _least(value) for value in tabulated.values]
    for at, (size, digits) in enumerate(zip(fam.radix, fam.allowed, strict=True)):
        if len(digits) < size:  # values that are refused take the place of some other: nobody reads them
            place = np.searchsorted(digits, np.arange(size)).clip(max=len(digits) - 1)
            tabulated.values = [
                v.take(place, at) if type(v) is not float and v.shape[at] > 1 else v for v in tabulated.values
            ]
            tabulated.bad = tabulated.bad.take(place, at) if tabulated.bad.shape[at] > 1 else tabulated.bad
    return tabulated


def _found(fam: DesignFamily, piece: Piece, of: Part) -> Tabulated:
    none = np.zeros((1,) * len(of), dtype=bool)
    try:
        numbers, mark = piece(fam.part(of))
        return Tabulated(arrays_of(numbers), none, mark)
    except NotAlike as both:
        if both.many:
            raise Structural({fam.numeric[max(both.axes, key=lambda a: of[a][1] - of[a][0])]}) from None
        axes, wholly = [a for a in both.axes if of[a][1] - of[a][0] > 1], both.wholly
    except ValueError as refusal:
        return Tabulated(None, ~none, None, {str(refusal): None})
    except Structural:
        raise
    except Exception:  # what takes numbers only was given a column
        axes, wholly = _culprits(fam, piece, of), False
        if not axes:
            raise
    return _apart(fam, piece, of, axes or [a for a, (lo, hi) in enumerate(of) if hi - lo > 1], wholly)


def _culprits(fam: DesignFamily, piece: Piece, of: Part) -> list[int]:
    """Axes of a part along which alone a piece fails that takes numbers only."""
    culprits = []
    for a, (lo, hi) in enumerate(of):
        if hi - lo == 1:
            continue
        try:
            piece(fam.part(tuple((l, h) if a == b else (l, l + 1) for b, (l, h) in enumerate(of))))
        except (
            Exception
        ):  # whatever such a piece raises of a column: `_found` raises it again where no axis is to blame
            culprits.append(a)
    return culprits or [a for a, (lo, hi) in enumerate(of) if hi - lo > 1]


def _apart(fam: DesignFamily, piece: Piece, of: Part, axes: Sequence[int], wholly: bool) -> Tabulated:
    """A part taken apart along one of those axes: in two, or value by value."""
    at, none = max(axes, key=lambda a: of[a][1] - of[a][0]), (1,) * len(of)
    lo, hi = of[at]
    edges = range(lo, hi + 1) if wholly else (lo, (lo + hi) // 2, hi)
    priced, sizes = [], []
    for start, end in pairwise(edges):
        fam.beat(start, hi)
        priced.append(_found(fam, piece, (*of[:at], (start, end), *of[at + 1 :])))
        sizes.append(end - start)
    for one in priced:
        one.values = one.values and [np.full(none, v) if type(v) is float else v for v in one.values]
    good = [one for one in priced if one.values is not None]
    sentences = {text: None for one in priced for text in one.sentences}
    bad = _joined([one.bad for one in priced], sizes, at)
    if not good:
        return Tabulated(None, bad, None, sentences)
    if any(one.mark != good[0].mark for one in good):
        raise Structural({fam.numeric[at]})
    if any(len(one.values or ()) != len(good[0].values or ()) for one in good):
        raise Structural({fam.numeric[at]})
    rows = [one.values if one.values is not None else _stand_in(good[0].values, at) for one in priced]
    return Tabulated([_joined(values, sizes, at) for values in zip(*rows, strict=True)], bad, good[0].mark, sentences)


def _stand_in(values: Sequence[np.ndarray] | None, at: int) -> list[np.ndarray]:
    """Numbers for designs that are refused: nobody reads them."""
    return [value.take([0], at) for value in values or ()]


def _joined(values: Sequence[np.ndarray], sizes: Sequence[int], at: int) -> np.ndarray:
    """Arrays of parts, one after the other along an axis; as one where that makes no difference."""
    first = values[0]
    if all(one.shape == first.shape and one.shape[at] == 1 and _same(one, first) for one in values[1:]):
        return first if first.shape[at] == 1 else np.concatenate(values, at)
    shape = np.broadcast_shapes(*(tuple(1 if a == at else n for a, n in enumerate(one.shape)) for one in values))
    spread = [
        np.broadcast_to(one, [size if a == at else n for a, n in enumerate(shape)])
        for one, size in zip(values, sizes, strict=True)
    ]
    return np.concatenate(spread, at)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a == b) | (np.isnan(a) & np.isnan(b))).all())


def _least(value: np.ndarray) -> Any:
    """The same without the axes along which nothing changes: a double where there is none left."""
    for a, size in enumerate(value.shape):
        one = value.take([0], a)
        if size > 1 and _same(value.take([-1], a), one) and _same(value, one):  # the last tells most of them apart
            value = one
    return value if value.size > 1 else float(value.flat[0])


def _signature(plan: Plan) -> tuple[Any, ...]:
    """What a plan is apart from its numbers."""
    stages = tuple(
        (*(v for k, v in vars(s).items() if k not in ("device", "wire")), s.device.id, s.wire and s.wire.role)
        for s in plan.stages
    )
    numbers = ("wire", "messages", "bytes_per_message", "pieces", "command_s", "hidden")
    hops = tuple((*(v for k, v in vars(h).items() if k not in numbers), h.wire.role) for h in plan.hops)
    return stages, hops, plan.replicas, plan.devices_used, plan.pipelined, tuple(map(_signature, plan.options))


def _check(design: Designs) -> Numbers:
    b = design.bound
    check(b.scenario, b.system, b.device, design.family.base.graph)
    return (), None


def _planned(design: Designs) -> Numbers:
    """Passes of every phase, and the signature of the plan."""
    return [design.passes(p) for p in range(len(design.bound.graph.phases))], _signature(design.open_plan())


@np.errstate(all="ignore")
def compile_family(fam: DesignFamily) -> Program | Choice:
    """The program of a family of designs; Structural or Refused where there is none."""
    checked = tabulate(fam, _check)
    fam.part(fam.whole).lower()
    planned = tabulate(fam, _planned)
    options = fam.part(_some(fam, planned)).open_plan().options

    def program(first: int, upto: int) -> Program:
        fam.choose(first, upto)
        return _program(fam, checked, planned)

    if not options:
        return program(0, 1)
    programs: list[Program] = []
    for _, some in groupby(range(len(options)), key=lambda at: alike(options[at])):
        several = list(some)
        try:
            programs.append(program(several[0], several[-1] + 1))
        except Structural as found:
            if OPTIONS not in found.axes:
                raise
            programs += [program(at, at + 1) for at in several]
    return Choice(tuple(programs))


def _program(fam: DesignFamily, checked: Tabulated, planned: Tabulated) -> Program:
    """Everything of one option as a program."""
    sample = fam.part(_some(fam, planned))
    stages, phases = range(len(sample.plan.stages)), range(len(fam.graph.phases))
    runs = [(s, p) for s in stages for p in phases if np.any((planned.values or [])[p] > 0) and sample.job(s, p).ops]
    layout = layout_of(sample, runs)
    put = Assembly(layout, fam.radix)
    put.refusals([checked, planned])
    for piece in pieces(sample, layout, runs):
        found = tabulate(fam, piece.of)
        put.found(found, piece.rows)
        if piece.run is not None:
            stage, job = sample.plan.stages[runs[piece.run][0]], sample.job(*runs[piece.run])
            given = (found.values or [])[len(piece.rows) :]
            numbers = found.mark.arrays, given[:SIZES], given[SIZES:]
            put.runs.append(CompiledRun.of(piece.run, family(stage.device.kind), job, *numbers))
    needs = tabulate(fam, lambda design: demands(design, runs))
    put.refusals([needs])
    put.fits(needs.values or [])
    put.refused(fam.numeric, fam.refused)
    return assemble(fam.numeric, fam.radix, put, fam.beat)


def _some(fam: DesignFamily, planned: Tabulated) -> Part:
    """A design that the plan does not refuse."""
    where = np.unravel_index(int(np.argmin(planned.bad)), planned.bad.shape)
    at = [digits.index(d) if d in digits else 0 for d, digits in zip(map(int, where), fam.allowed, strict=True)]
    return tuple((d, d + 1) for d in at)
