"""Designs of a structure as tables: each piece of the model as the numbers it comes to, over the axes they depend on.

A piece is worked out for all designs at once, its sizes and numbers of specs being columns. Where it decides something
on such a number (an ``if`` that falls out both ways, a figure that is no arithmetic), its designs are taken apart along
an axis until each part is decided alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from engine.cost.best_plan import alike
from engine.cost.pieces import Numbers, demands, layout_of, pieces
from engine.devices import family
from engine.devices.common.column import NotAlike, arrays_of
from engine.devices.common.counts import SIZES
from engine.plan.schemes import Plan
from engine.resolve.check import check
from engine.scenario import ScenarioError
from engine.sweep.pricing.flat_table import Table, table_of
from engine.sweep.pricing.operators import Operators
from engine.sweep.pricing.structure import OPTIONS, Designs, Part, Structural, Structure

Work = Callable[[Designs], Numbers]


@dataclass
class Tabulated:
    """Numbers of some designs: a double each, or an array with a dimension an axis, of length 1 where it does not
    matter."""

    values: list[Any]  # none where all designs are refused
    bad: np.ndarray  # designs that the model refuses
    mark: Any = None
    sentences: tuple[str, ...] = ()


def tabulate(structure: Structure, piece: Work) -> Tabulated:
    """A piece of the model over all designs of a structure; ScenarioError where it refuses every one."""
    table = _tabulate_part(structure, piece, structure.whole)
    if table.bad.all():
        raise ScenarioError(table.sentences[0])
    for axis in range(table.bad.ndim):
        table.values = [value if type(value) is float else _collapse(value, axis) for value in table.values]
    for axis, (size, digits) in enumerate(zip(structure.radix, structure.allowed, strict=True)):
        if len(digits) < size:  # values that are refused take the place of some other: nobody reads them
            place = np.searchsorted(digits, np.arange(size)).clip(max=len(digits) - 1)
            table.values = [v if type(v) is float or v.shape[axis] == 1 else v.take(place, axis) for v in table.values]
            table.bad = table.bad if table.bad.shape[axis] == 1 else table.bad.take(place, axis)
    table.values = [float(v.item()) if type(v) is not float and v.size == 1 else v for v in table.values]
    return table


def _tabulate_part(structure: Structure, piece: Work, of: Part) -> Tabulated:
    none, wide = np.zeros((1,) * len(of), dtype=bool), [a for a, (lo, hi) in enumerate(of) if hi - lo > 1]
    try:
        numbers, mark = piece(structure.part(of))
        return Tabulated(arrays_of(numbers), none, mark)
    except NotAlike as error:
        axes = [a for a in wide if a in error.axes] or wide
        if not axes:
            raise
        axis = max(axes, key=lambda a: of[a][1] - of[a][0])
        if error.overflow:
            raise Structural({structure.numeric[axis]}) from None
        return _apart(structure, piece, of, axis, error.wholly)
    except ValueError as refusal:
        return Tabulated([], ~none, sentences=(str(refusal),))


def _apart(structure: Structure, piece: Work, of: Part, axis: int, wholly: bool) -> Tabulated:
    """A part taken apart along an axis: in two, or value by value."""
    lo, hi = of[axis]
    parts, sizes = [], []
    for start, end in pairwise(range(lo, hi + 1) if wholly else (lo, (lo + hi) // 2, hi)):
        structure.beat(start, hi)
        parts.append(_tabulate_part(structure, piece, (*of[:axis], (start, end), *of[axis + 1 :])))
        sizes.append(end - start)
    sentences = tuple(dict.fromkeys(text for part in parts for text in part.sentences))
    bad = _join([part.bad for part in parts], sizes, axis)
    able = [part for part in parts if not part.bad.all()]
    if not able:
        return Tabulated([], bad, sentences=sentences)
    if any(part.mark != able[0].mark or len(part.values) != len(able[0].values) for part in able):
        raise Structural({structure.numeric[axis]})
    columns = []
    for at, first in enumerate(able[0].values):  # nobody reads the numbers of designs that are refused
        arrays = (np.ravel(first)[0] if part.bad.all() else part.values[at] for part in parts)
        columns.append(_join([np.reshape(v, np.shape(v) or (1,) * len(of)) for v in arrays], sizes, axis))
    return Tabulated(columns, bad, able[0].mark, sentences)


def _join(values: Sequence[np.ndarray], sizes: Sequence[int], axis: int) -> np.ndarray:
    """Arrays of parts, one after the other along an axis; as one where that makes no difference."""
    shape = np.broadcast_shapes(*((*value.shape[:axis], 1, *value.shape[axis + 1 :]) for value in values))
    spread = [
        np.broadcast_to(value, (*shape[:axis], size, *shape[axis + 1 :]))
        for value, size in zip(values, sizes, strict=True)
    ]
    return _collapse(np.concatenate(spread, axis), axis)


def _collapse(value: np.ndarray, axis: int) -> np.ndarray:
    """The same without an axis along which nothing changes."""
    first = value.take([0], axis)
    alike = value.shape[axis] > 1 and _equal(value.take([-1], axis), first)  # tells most of those that change apart
    return first if alike and _equal(value, first) else value


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a == b) | (np.isnan(a) & np.isnan(b))).all())


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
    check(b.scenario, b.system, b.device, design.structure.base.graph)
    return (), None


@np.errstate(all="ignore")
def tables_of(structure: Structure) -> tuple[list[Table], tuple[str, ...]]:
    """Tables of the designs of a structure, options of their plans in the order in which they are tried; why designs
    are refused. Structural or ScenarioError where there are none.
    """
    checks = tabulate(structure, _check)
    structure.lower()
    phases = range(len(structure.graph.phases))
    plans = tabulate(structure, lambda design: (map(design.passes, phases), _signature(design.open_plan)))
    where = np.unravel_index(int(np.argmin(plans.bad)), plans.bad.shape)
    able = [digits.index(d) if d in digits else 0 for d, digits in zip(map(int, where), structure.allowed, strict=True)]
    sample = tuple((d, d + 1) for d in able)  # a design that the plan does not refuse
    options, tables, sentences = structure.part(sample).open_plan.options, list[Table](), dict[str, None]()

    def add(first: int, upto: int) -> None:
        structure.choose(first, upto)
        table, refusals = _table(structure, sample, (checks, plans), tables[0].order if tables else None)
        tables.append(table)
        sentences.update(dict.fromkeys(refusals))

    for _, run in groupby(range(len(options) or 1), key=lambda at: alike(options[at]) if options else ()):
        places = list(run)
        try:
            add(places[0], places[-1] + 1)
        except Structural as error:
            if OPTIONS not in error.axes:
                raise
            for option in places:
                add(option, option + 1)
    return tables, tuple(sentences)


def _table(
    structure: Structure, sample: Part, common: tuple[Tabulated, Tabulated], order: tuple[int, ...] | None
) -> tuple[Table, list[str]]:
    """The designs with the options that are chosen; sentences of those that are refused. ``common``: of all options."""
    design, passes = structure.part(sample), common[1].values
    stages, phases = range(len(design.plan.stages)), range(len(structure.graph.phases))
    runs = [(s, p) for s in stages for p in phases if np.any(passes[p] > 0) and design.job(s, p).ops]
    layout, rows, operators, tables = layout_of(design, runs), list[tuple[int, Any]](), [], list(common)
    for piece in pieces(design, layout, runs):
        table = tabulate(structure, piece.of)
        tables.append(table)
        rows += zip(piece.rows, table.values, strict=False)
        if piece.run is not None:
            stage, job = design.plan.stages[runs[piece.run][0]], design.job(*runs[piece.run])
            fam, inputs = family(stage.device.kind), table.values[len(piece.rows) :]
            assert fam.compiled is not None
            ways, parts = float(job.ways), (tuple(inputs[:SIZES]), tuple(inputs[SIZES:]))
            operators.append(
                Operators(piece.run, fam.compiled.points, table.mark.arrays, ways, fam.groups(job), *parts)
            )
    needs = tabulate(structure, lambda design: demands(design, runs))
    tables.append(needs)
    masks = [*structure.bad, *(table.bad for table in tables if table.bad.any())]
    marks = [bad.astype(np.float64) if bad.size > 1 else float(bad.item()) for bad in masks]
    rows += enumerate([*needs.values, *marks], layout.where.rows + 1)
    sizes = len(needs.values), len(masks)
    sentences = [*(text for table in tables for text in table.sentences), *structure.refused.values()]
    return table_of(layout, structure.radix, rows, *sizes, operators, order, structure.beat), sentences
