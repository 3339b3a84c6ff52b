"""Embedding tables on many cores: how long each table's lists are, who looks them up, and who waits for whom.

Requests bring lists of different lengths to each table. A table belongs to one core of one card; all wait for the
core with the most work, and for the card with the most rows. Without the expected lengths, tables are dealt out in
turn; with them, the longest go first to the card that has least so far, and there, where operators are placed on
cores, to such a core (Graham's longest-processing-time rule, twice). Estimates, deterministic.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from engine.devices.card.placement import line_bytes
from engine.devices.common.column import larger
from engine.devices.common.setting import PricedField
from engine.kernels.jit import kernel
from engine.scenario import Scenario
from hardware_specs.schema import MemoryLevel
from model_zoo.ops import LOOKUPS, Graph, Op

ALIGNED = 4.0  # bytes: rows of a table start at multiples


@lru_cache(maxsize=256)
def list_lengths(tables: int, mean: float, spread: float, single: float) -> np.ndarray:
    """Expected lookups of an item in each table, shape (tables,), in an order that says nothing about length. [-]

    A share `single` of the tables takes exactly one lookup; the others are log-normal with sigma `spread`, at its
    quantiles, scaled so that the mean over all tables is `mean`.
    """
    lengths = np.ones(tables)
    singles = min(round(single * tables), tables - 1) if mean > 1 else tables
    longer = tables - singles
    if longer > 0:
        inverse = NormalDist().inv_cdf
        shape = np.exp([spread * inverse((i + 0.5) / longer) for i in range(longer)])
        total = max(tables * mean - singles, float(longer))
        lengths[singles:] = shape * (total / shape.sum())
    stride = max(1, round(tables * 0.6180339887))  # golden-ratio steps visit every table in a scattered order
    while np.gcd(stride, tables) != 1:
        stride += 1
    lengths = lengths[(np.arange(tables) * stride) % tables]
    lengths.setflags(write=False)
    return lengths


def _stays(lengths: np.ndarray, away: int, fewest: bool) -> np.ndarray:
    """Which tables stay where so many go: of the ``fewest`` lookups, or the first, whose order says nothing."""
    stays = np.ones(lengths.shape[0], dtype=bool)
    stays[np.argsort(lengths, kind="stable")[:away] if fewest else slice(away)] = False
    return stays


def lists_of(op: Op, spread: float, single: float) -> np.ndarray:
    """Expected lookups of an item in each table of an operator; of tables that are split, of those that stay. [-]"""
    away = int(op.attribute("away"))
    lengths = list_lengths(op.layers + away, op.attribute("lookups"), spread, single)
    return lengths[_stays(lengths, away, op.attribute("fewest") > 0)] if away else lengths


def split_tables(op: Op, away: int, switches: Mapping[str, bool], model: Mapping[str, float]) -> tuple[Op | None, Op]:
    """The operator with the tables that stay on the cards, and with the ``away`` that lie elsewhere.

    Lookups are conserved: each gets the mean of its own tables' lists.
    """
    fewest, share, stay_share = switches["nvm-locality"], 1.0, 1.0
    if op.kind == "EmbeddingBag":
        lengths = list_lengths(op.layers, op.attribute("lookups"), model["list_spread"], model["single_share"])
        stays, mean = _stays(lengths, away, fewest), float(lengths.mean())
        share, stay_share = (float(lengths[group].mean()) / mean if group.any() else 0.0 for group in (~stays, stays))

    def part(tables: int, longer: float, attributes: dict[str, float]) -> Op:
        counts = {name: getattr(op, name) * longer for name in ("flops", "weights", "reads", "gather_rows")}
        return replace(op, layers=tables, attributes=op.attributes + tuple(attributes.items()), **counts)

    marks = {"away": float(away), "fewest": float(fewest)}
    return part(op.layers - away, stay_share, marks) if away < op.layers else None, part(away, share, {})


def _shares(graph: Graph, _: Scenario) -> tuple[str, ...]:
    splits = any(op.kind in LOOKUPS and op.layers > 1 for op in graph.ops)
    return ("by-capacity", *(f"{percent}%" for percent in (5, *range(10, 101, 10)))) if splits else ()


HOST_TABLES = PricedField(
    needs="two embedding tables or more",
    offers=_shares,
    schemes=("tables",),
    assumption="Tables in host memory keep the cards' format; all cores of the host look up in them and pool while the "
    "cards do in theirs, and pooled rows cross PCIe. What network and PCIe take of that memory does not slow them.",
)
"""How much of the embedding tables lies in host memory: what the cards can't hold, or a share of all tables."""


@kernel
def _by_work(work, falling):
    """Places of tables by their work, most first, of equal ones the first, from an order that is nearly right."""
    order = np.empty(work.shape[0], np.int64)
    for i in range(work.shape[0]):
        table, at = int(falling[i]), i
        while at > 0:
            before = order[at - 1]
            if work[before] > work[table] or (work[before] == work[table] and before < table):
                break
            order[at] = before
            at -= 1
        order[at] = table
    return order


@kernel
def _lightest(load, tables, limit):
    """The first place of the least of some loads, of those that hold fewer tables than `limit`; 0 where none does."""
    best, at = 1e300, 0
    for c in range(load.shape[0]):
        if tables[c] < limit and load[c] < best:
            best, at = load[c], c
    return at


@kernel
def busiest(lists, order_kind, cards, cores, limit, row, bag, single_row, single_kernel, start, items, out):
    """Load of the busiest card and core; fills ``out`` (3,): cycles of that core, its kernel starts, rows of the card.

    ``lists`` (2, tables) holds lengths of lists, and which are the longest, next and so on. `order_kind` is who goes by
    them: 0 nobody, 1 cards, 2 their cores as well; else tables go to each in turn. `row` and `bag` are cycles of a
    looked-up row and of an item's list; a table of single lookups costs `single_row` an item where `single_kernel` is
    set. `start` is the cycles of a kernel start, `limit` tables fit a card.
    """
    lengths, n = lists[0], lists.shape[1]
    work = np.empty(n)
    for i in range(n):
        if lengths[i] <= 1.0 and single_kernel:
            work[i] = items * single_row
        else:
            work[i] = items * (lengths[i] * row + bag)
    order = _by_work(work, lists[1]) if order_kind else np.arange(n)
    load, starts = np.zeros((cards, cores)), np.zeros((cards, cores))
    whole, rows, tables = np.zeros(cards), np.zeros(cards), np.zeros(cards)
    of = np.empty(n, np.int64)
    for at in range(n):
        i = order[at]
        card = _lightest(whole, tables, limit) if order_kind else at % cards
        of[i] = card
        whole[card] += work[i] + start
        rows[card] += lengths[i] * items
        tables[card] += 1.0
    turn = np.zeros(cards, np.int64)
    for at in range(n):
        i = order[at] if order_kind == 2 else at
        card = of[i]
        core = _lightest(load[card], starts[card], 1e300) if order_kind == 2 else turn[card] % cores
        turn[card] += 1
        load[card, core] += work[i] + start
        starts[card, core] += 1.0
    worst = load.argmax()
    out[1], out[2] = starts.ravel()[worst], rows.max()
    out[0] = load.ravel()[worst] - out[1] * start


def overflow(lengths: np.ndarray, beyond: int, locality: bool) -> float:
    """Share of all lookups that go to the `beyond` tables which lie outside LPDDR. [-]

    With `locality` those are the tables of the fewest lookups; otherwise any, which take their share of the tables.
    """
    beyond = min(beyond, lengths.shape[0])
    if not locality:
        return beyond / lengths.shape[0]
    return float(np.sort(lengths)[:beyond].sum() / lengths.sum())


def lines_of(row: float, memory: MemoryLevel) -> float:
    """Lines of a memory that a row of so many bytes touches, on average: rows lie one after another. [-]

    Rows start at any multiple of `ALIGNED` bytes with equal chance, so one of 52 B touches 1.75 lines of 64 B. Exact.
    """
    return 1.0 + (larger(row, ALIGNED) - ALIGNED) / line_bytes(memory)


def hot_share(rows: float, hot_rows: float, skew: float) -> float:
    """Share of lookups that find their row among the `hot_rows` most read of a table's `rows`. [-]

    Reads follow Zipf's law, the n-th row as 1 / n^skew, whose sums are taken as integrals. `skew` 0: all alike.
    """
    hot_rows = min(hot_rows, rows)
    if hot_rows < 1.0:
        return 0.0

    def total(upto: float) -> float:
        return 1.0 + (math.log(upto) if skew == 1.0 else (upto ** (1.0 - skew) - 1.0) / (1.0 - skew))

    return total(hot_rows) / total(rows)
