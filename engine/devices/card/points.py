"""A pass of a card at many designs or one: scheduled together where they are cut up alike; as bars. Estimates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.devices.card import demand as D
from engine.devices.card.demand import F
from engine.devices.card.energy import spend
from engine.devices.card.schedule import BEGIN, END, PIECE, ROOM, SHARE, START, WORK, supply_block
from engine.devices.card.supply import S
from engine.devices.card.tiling import SIDES
from engine.devices.common.contract import RESOURCES, Span
from engine.devices.common.counts import SIZES, records
from engine.devices.common.job import Job
from engine.kernels.ir.doubles import LANES
from engine.kernels.jit import for_points, kernel


@kernel
def _cut_alike(design, peer):
    """Whether two demands are of operators in as many pieces, on the same units."""
    for j in range(design.shape[0]):
        if design[j, D.PIECES] != peer[j, D.PIECES] or (design[j, D.HOST_OPS] > 0.0) != (peer[j, D.HOST_OPS] > 0.0):
            return False
        if (design[j, D.PIXELS] > 0.0) != (peer[j, D.PIXELS] > 0.0):
            return False
    return True


@kernel
def _ask_on(start, limit, count, tables, sizes, designs, rec, demand, sides, search):
    """Puts what designs from ``start`` on ask into ``demand``, ``limit`` at most, where ``count`` are.

    Returns how many then are cut up alike, and how many behind them otherwise: one or none.
    """
    table, traits, _, _, lookups, lists = tables
    size = np.empty(SIZES)
    while count < limit and (count == 0 or _cut_alike(demand[0], demand[count - 1])):
        at = start + count
        if designs[F.cores, at] != designs[F.cores, start] or designs[F.ranked, at] != designs[F.ranked, start]:
            break
        for f in range(rec.shape[0]):
            rec[f] = designs[f, at]
        for s in range(SIZES):
            size[s] = sizes[s, at]
        D.ask(table, traits, lookups, lists, size, rec, demand[count], sides, search)
        count += 1
    pending = 0 if _cut_alike(demand[0], demand[count - 1]) else 1
    return count - pending, pending


@kernel
def _add_joules(start, end, count, designs, rec, demand, op_joules, totals):
    """Adds what the designs start..end spend to ``totals``; from the first ``count`` of them on all ask the same."""
    for at in range(start, end):
        if at < start + count:
            for f in range(rec.shape[0]):
                rec[f] = designs[f, at]
            spend(demand[at - start], rec, op_joules)
        for j in range(op_joules.shape[0]):
            totals[6, at] += op_joules[j]


def price_points(lo: int, hi: int, rows: np.ndarray, times: np.ndarray, *inputs: Any) -> None:
    """Times of a pass at the designs lo..hi: see `engine.devices.common.contract.Compiled`. [s]"""
    *tables, _, sizes, (first, fields, values), totals = inputs
    sums = totals[:, lo:hi].copy()
    _fill(tuple(tables), sizes[:, lo:hi].copy(), (first, fields, values[:, lo:hi]), sums, np.zeros((0, 6)))
    totals[:, lo:hi] = sums


def _fill(
    tables: tuple[np.ndarray, ...],
    sizes: np.ndarray,
    record: tuple[np.ndarray, np.ndarray, np.ndarray],
    totals: np.ndarray,
    out: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adds the times of a pass at designs to ``totals``. Returns what the last ask for, sides of products, and marks.

    Designs in a row that ask the same of the card are scheduled together, and so are those that ask for other amounts.
    """
    (table, _, waits, needs, *_), n = tables, sizes.shape[1]
    ops = len(table)
    demand, sides, room = np.zeros((LANES, ops, D.DEMANDS)), np.zeros((ops, SIDES)), np.empty((ROOM, ops * LANES))
    designs = np.repeat(record[0][:, None], n, axis=1)
    designs[record[1]] = record[2]
    mapping = len(designs) - len(S)
    search = True if (designs[F.search] > 0.0).any() else None  # else not compiled
    ask = _ask_on if search else for_points(_ask_on, n)  # Python would search for minutes
    read = np.concatenate([sizes, designs[:mapping]])
    ends = np.append(np.flatnonzero((read[:, 1:] != read[:, :-1]).any(axis=0)) + 1, n)
    op_joules = room[SHARE, :ops]
    rec, start, pending = np.empty(mapping), 0, 0
    while start < n:
        end = int(ends[np.searchsorted(ends, start, side="right")])
        limit = 1 if end > start + 1 else min(LANES, n - start)
        count, pending = ask(start, limit, pending, tables, sizes, designs, rec, demand, sides, search)
        end = max(end, start + count)
        if len(totals) > len(RESOURCES):
            for_points(_add_joules, n)(start, end, count, designs, rec, demand, op_joules, totals)
        cores, by_rank = int(designs[F.cores, start]), bool(designs[F.ranked, start] > 0.0)
        put = for_points(supply_block, n)
        put(start, end, demand[:count], waits, needs, cores, by_rank, designs[mapping:], totals, room, out)
        if pending:  # asked already, and cut up otherwise
            demand[0] = demand[count]
        start = end
    return demand, sides, room


@dataclass(frozen=True)
class CoreSchedule:
    """One pass on the cores of a card: an entry an operator, (n_ops,) or (n_ops, columns).

    Attributes
    ----------
    demand : `engine.devices.card.demand`, for one execution. [FLOP], [B] and counts
    sides : (n_ops, SIDES), what a search of tilings reads of each product; zeros where an op is none.
    seconds : (n_ops, 6) by resource, executions multiplied in. [s]
    piece, start : of a piece on its core, and of its starts. [s]
    begin, end, core_s : from the start of the operator's segment; core-seconds. [s]
    """

    demand: np.ndarray
    sides: np.ndarray
    seconds: np.ndarray
    piece: np.ndarray
    start: np.ndarray
    core_s: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def core_schedule(tables: tuple[np.ndarray, ...], sizes: tuple[float, ...], record: Sequence[float]) -> CoreSchedule:
    """The pass of one design, of `Compiled.tables` and `Compiled.record`. An estimate."""
    seconds = np.zeros((len(tables[0]), 6))
    at = np.array(sizes, dtype=np.float64).reshape(-1, 1)
    demand, sides, room = _fill(tables, at, records([record]), np.zeros((6, 1)), seconds)
    marks = room[:, LANES - 1 :: LANES]
    return CoreSchedule(demand[0], sides, seconds, *marks[[PIECE, START, WORK, BEGIN, END]])


SHOWN = 400  # bars of a report's timeline


def bars_of(job: Job, cores: int, run: CoreSchedule) -> tuple[tuple[Span, ...], str]:
    """Bars of the segment of the pass that takes longest, the longest ops of it."""
    work, seconds = run.demand, run.seconds
    groups = work[:, D.SEGMENT].astype(int)
    segment = int(np.bincount(groups, seconds.sum(axis=1)).argmax())
    rows = np.flatnonzero((groups == segment) & (run.end > run.begin))
    if len(rows) > SHOWN:
        rows = np.sort(rows[np.argsort(run.begin[rows] - run.end[rows], kind="stable")[:SHOWN]])
    busiest_of = seconds.argmax(axis=1)
    bars = tuple(
        Span(
            "all cores" if pieces >= cores else f"{pieces:.0f} core{'s' * (pieces > 1)}",
            job.ops[j].name,
            begin,
            end - begin,
            RESOURCES[busiest_of[j]],
        )
        for j, pieces, begin, end in zip(
            rows.tolist(), work[rows, D.PIECES].tolist(), run.begin[rows].tolist(), run.end[rows].tolist(), strict=True
        )
    )
    layers = int(work[rows[0], D.RUNS]) if len(rows) else 1
    return bars, f"one of {layers} layers" if layers > 1 else job.phase.name
