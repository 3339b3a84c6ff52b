"""A pass of a card at many designs or one: scheduled together where they are cut up alike. Estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.devices.card import demand as D
from engine.devices.card.demand import F
from engine.devices.card.energy import spend
from engine.devices.card.schedule import BEGIN, END, FAR, HELD, PIECE, RANK, ROOM, SHARE, START, supply_block
from engine.devices.card.supply import S
from engine.devices.card.tiling import SIDES
from engine.devices.common.contract import RESOURCES
from engine.devices.common.counts import SIZES, records, side_by_side
from engine.kernels.ir.doubles import LANES
from engine.kernels.jit import body_of, kernel

_FEW = 32  # designs up to which what only many need is not compiled


@kernel
def _alike(matrix, rows, one, other):
    """Whether the first rows of a matrix hold the same in two columns."""
    r = 0
    while r < rows and matrix[r, one] == matrix[r, other]:
        r += 1
    return r == rows


@kernel
def _cut_alike(one, other):
    """Whether two demands are of operators in as many pieces, on the same units."""
    for j in range(one.shape[0]):
        if one[j, D.PIECES] != other[j, D.PIECES] or (one[j, D.HOST_OPS] > 0.0) != (other[j, D.HOST_OPS] > 0.0):
            return False
        if (one[j, D.PIXELS] > 0.0) != (other[j, D.PIXELS] > 0.0):
            return False
    return True


@kernel
def _ask_on(start, most, count, tables, sizes, each, rec, asked, sides, search):
    """Puts what designs from ``start`` on ask into ``asked``, ``most`` at most, where ``count`` are: how many then are.

    The last one may be cut up otherwise than those before it.
    """
    table, traits, _, _, lookups, lists = tables
    size = np.empty(SIZES)
    while count < most and (count == 0 or _cut_alike(asked[0], asked[count - 1])):
        at = start + count
        if each[F.cores, at] != each[F.cores, start] or each[F.ranked, at] != each[F.ranked, start]:
            break
        for f in range(rec.shape[0]):
            rec[f] = each[f, at]
        for s in range(SIZES):
            size[s] = sizes[s, at]
        D.ask(table, traits, lookups, lists, size, rec, asked[count], sides, search)
        count += 1
    return count


@kernel
def _add_joules(start, end, count, each, rec, asked, spent, totals):
    """Adds what the designs start..end spend to ``totals``; from the first ``count`` of them on all ask the same."""
    for at in range(start, end):
        if at < start + count:
            for f in range(rec.shape[0]):
                rec[f] = each[f, at]
            spend(asked[at - start], rec, spent)
        for j in range(spent.shape[0]):
            totals[6, at] += spent[j]


@kernel
def _fill(lo, hi, tables, sizes, record, totals, rooms, out, search):
    """Adds the times of a pass at the designs lo..hi to ``totals``; ``search`` is that of `demand.ask`.

    Designs in a row that ask the same of the card are scheduled together, and so are those that ask for other amounts.
    """
    each, (asked, sides, room) = side_by_side(record, hi), rooms
    mapping = each.shape[0] - len(S)
    rec, spent = np.empty(mapping), room[SHARE, : asked.shape[1]]
    start, known = lo, 0
    while start < hi:
        end = start + 1
        while end < hi and _alike(sizes, SIZES, start, end) and _alike(each, mapping, start, end):
            end += 1
        most = 1 if end > start + 1 else min(LANES, hi - start)
        count = _ask_on(start, most, known, tables, sizes, each, rec, asked, sides, search)
        known = 0 if _cut_alike(asked[0], asked[count - 1]) else 1
        count -= known
        if count > 1:
            end = start + count
        if totals.shape[0] > 6:
            _add_joules(start, end, count, each, rec, asked, spent, totals)
        cores, ranked, supply = int(each[F.cores, start]), each[F.ranked, start] > 0.0, each[mapping:]
        supply_block(start, end, asked[:count], tables[2], tables[3], cores, ranked, supply, totals, room, out)
        if known > 0:  # asked already, and cut up otherwise
            for j in range(asked.shape[1]):
                for c in range(D.DEMANDS):
                    asked[0, j, c] = asked[count, j, c]
        start = end


def price_points(
    lo: int,
    hi: int,
    rows: np.ndarray,
    times: np.ndarray,
    *given: Any,
) -> None:
    """Times of a pass at the designs lo..hi: see `engine.devices.common.contract.Compiled`. [s]"""
    *tables, _, sizes, record, totals = given
    rooms, out, search = _rooms(len(tables[0])), np.zeros((0, 6)), _search(record)
    if hi - lo > _FEW:
        _fill(lo, hi, tuple(tables), sizes, record, totals, rooms, out, search)
    else:
        for at in range(lo, hi):
            _alone(at, tables, sizes, record, totals, rooms, out, search)


def _search(record: tuple[np.ndarray, np.ndarray, np.ndarray]) -> bool | None:
    """Whether a design of a record has its tilings searched; None where none has."""
    return True if record[0][F.search] > 0.0 or F.search in record[1] else None


def _alone(
    at: int,
    tables: Sequence[np.ndarray],
    sizes: np.ndarray,
    record: tuple[np.ndarray, np.ndarray, np.ndarray],
    totals: np.ndarray,
    rooms: tuple[np.ndarray, np.ndarray, np.ndarray],
    out: np.ndarray,
    search: bool | None,
) -> None:
    """`_fill` of one design: what puts many together is not compiled."""
    (table, traits, first, needs, *lists), (start, fields, values), (asked, sides, room) = tables, record, rooms
    every, size = start.copy(), sizes[:, at].copy()
    every[fields] = values[:, at]
    rec, supply = every[: -len(S)], every[-len(S) :, None]
    body_of(D.ask)(table, traits, *lists, size, rec, asked[0], sides, search)
    cores, ranked, own = int(rec[F.cores]), bool(rec[F.ranked] > 0.0), totals[:, at : at + 1].copy()
    supply_block(0, 1, asked[:1], first, needs, cores, ranked, supply, own, room, out)
    if len(own) > len(RESOURCES):
        spent, total = np.empty(len(table)), float(own[-1, 0])
        spend(asked[0], rec, spent)
        for joules in spent.tolist():  # one after the other, as `_fill` adds them
            total += joules
        own[-1] = total
    totals[:, at] = own[:, 0]


def _rooms(ops: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What designs ask for, `LANES` at most, sides of products for a search of tilings, and room for a schedule."""
    return np.zeros((LANES, ops, D.DEMANDS)), np.zeros((ops, SIDES)), np.empty((ROOM, ops * LANES))


@dataclass(frozen=True)
class CoreSchedule:
    """One pass on the cores of a card: an entry an operator, (n_ops,) or (n_ops, columns).

    Attributes
    ----------
    asked : `engine.devices.card.demand`, for one execution. [FLOP], [B] and counts
    sides : what a search of tilings reads of each product.
    seconds : (n_ops, 6) by resource, executions multiplied in. [s]
    piece, far, start : of a piece on its core, of the operator on the slowest shared memory, of a piece's starts. [s]
    begin, end, held : from the start of the operator's segment; core-seconds. [s]
    rank : longest path to the end, where operators are placed by it. [s]
    """

    asked: np.ndarray
    sides: np.ndarray
    seconds: np.ndarray
    piece: np.ndarray
    far: np.ndarray
    start: np.ndarray
    rank: np.ndarray
    held: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def placed(tables: tuple[np.ndarray, ...], sizes: tuple[float, ...], record: Sequence[float]) -> CoreSchedule:
    """The pass of one design, of `Compiled.tables` and `Compiled.record`. An estimate."""
    seconds, (asked, sides, room) = np.zeros((len(tables[0]), 6)), _rooms(len(tables[0]))
    at = np.array(sizes, dtype=np.float64).reshape(-1, 1)
    design = records([record])
    _alone(0, tables, at, design, np.zeros((6, 1)), (asked, sides, room), seconds, _search(design))
    own = room[:, LANES - 1 :: LANES]
    return CoreSchedule(asked[0], sides, seconds, *own[[PIECE, FAR, START, RANK, HELD, BEGIN, END]])
