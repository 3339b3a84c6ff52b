"""Every tiling of every product a card computes: how many there are, the best, the front, and what a given one costs.

The machine is two levels of memory under the multiplier arrays: each core's own, and what is on the chip together, with
LPDDR behind. `engine.kernels.search.tilings` searches, `engine.devices.card.tiling` says what of. Estimates; counts of
bytes are exact for the tiling, and the lower bounds are bounds.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.cost.best_plan import make_plan
from engine.devices import family
from engine.devices.card import tiling as C
from engine.devices.card.family import schedule
from engine.devices.common.job import Job
from engine.kernels.search.pareto import front_mask
from engine.kernels.search.tilings import AIMS, MAPPING, count, fewest_k, figures, fits, read, search, weigh
from engine.plan.jobs import job_of
from engine.resolve.bind import bind
from engine.scenario import Scenario, ScenarioError
from model_zoo.ops import Op

SWITCH = "search-tilings"
COUNTED = 1e9  # tilings after which nobody counts on
_LETTERS = "mnk"
_SIDES = ("rows", "columns", "depth")
_STAYS = ("B", "A", "C")  # the operand that blocks along rows, columns and depth pass by
_ROWS = 4096  # candidates of a front, at first


@dataclass(frozen=True)
class Tiling:
    """One way to cut a product, and what it costs once. An estimate.

    `cores` are columns and rows of cores side by side, `held` which of A, B and C the chip holds, `outer` and `inner`
    blocks in rows, columns and depth of the product (of an inner one: a core's). A last loop is the dimension (0 rows,
    1 columns, 2 depth) whose blocks follow each other while what it does not index stays; -1: there is one block.
    """

    seconds: float
    joules: float
    far_bytes: float
    near_bytes: float
    cores: tuple[int, int]
    held: tuple[bool, ...]
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    outer_blocks: tuple[int, ...]
    inner_blocks: tuple[int, ...]
    outer_last: int
    inner_last: int

    def words(self) -> str:
        """The loop nest in words."""
        across, down = self.cores
        lines = [f"{down} x {across} cores share rows x columns" if across * down > 1 else "every core takes its own"]
        for name, blocks, size, last in (
            ("on the chip", self.outer_blocks, self.outer, self.outer_last),
            ("in a core", self.inner_blocks, self.inner, self.inner_last),
        ):
            shape = " x ".join(f"{v:,}" for v in size)
            if last < 0:
                lines.append(f"all of it {name} at once ({shape})")
                continue
            order = [x for x in range(3) if x != last and blocks[x] > 1] + [last]
            loops = ", ".join(f"{blocks[x]:,} of {_SIDES[x]}" for x in order)
            lines.append(f"{name} blocks of {shape}, loops over {loops}: {_STAYS[last]} stays")
        return "; ".join(lines)


@dataclass(frozen=True)
class Tiled:
    """A product of a network, the best of its tilings by each aim, and what none can go below.

    Bytes are those of one execution: `near` into and out of cores' memories, `far` to and from LPDDR. `legal` counts
    every order of loops by itself, infinite where there are more than `COUNTED`; `evaluations`: how many were priced.
    """

    name: str
    kind: str
    runs: float
    shape: tuple[float, float, float, float]  # groups, rows, columns, depth
    legal: float
    evaluations: int
    best: dict[str, Tiling]  # by aim
    by_size: tuple[float, float]  # bytes near and far without a search
    bounds: tuple[float, float]  # lower bounds of bytes near and far
    front: tuple[Tiling, ...]  # by seconds, joules and bytes far

    def count_text(self) -> str:
        """How many legal tilings there are, in words."""
        return f"{self.legal:,.0f} tilings" if math.isfinite(self.legal) else f"more than {COUNTED:,.0f} tilings"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: SI units in the keys."""
        return {
            "name": self.name,
            "kind": self.kind,
            "runs": self.runs,
            "groups_m_n_k": list(self.shape),
            "legal": self.legal if math.isfinite(self.legal) else None,
            "tried": self.evaluations,
            "best": {aim: vars(t) | {"words": t.words()} for aim, t in self.best.items()},
            "near_bytes_by_size": self.by_size[0],
            "far_bytes_by_size": self.by_size[1],
            "near_bytes_least": self.bounds[0],
            "far_bytes_least": self.bounds[1],
            "front": [vars(t) for t in self.front],
        }


@dataclass(frozen=True)
class Mapped:
    """A product's tilings, and bytes into and out of cores by `rows` and `columns` of a core's block, None: no room."""

    product: Tiled
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    bytes: tuple[tuple[float | None, ...], ...]


def products(scenario: Scenario) -> tuple[tuple[Job, Op, np.ndarray], ...]:
    """Every product that runs on the scenario's cards: its job, its operator and a row of `SIDES`.

    ScenarioError where the scenario's device is no card of cores.
    """
    if all(switch.name != SWITCH for switch in bind(scenario).family.switches):
        raise ScenarioError(
            f"system is {scenario.system!r}: tilings are searched on many-core cards, such as fb-node or fb-card"
        )
    bound = bind(scenario.with_(switches={**scenario.switches, SWITCH: True}))
    result = []
    for stage in make_plan(bound).stages:
        for phase in bound.graph.phases:
            job = job_of(bound, stage, family(stage.device.kind), phase)
            if job.ops and phase.repeat.at(scenario.inputs, scenario.outputs) > 0:
                rows = schedule(job).sides
                result += [(job, op, row) for op, row in zip(job.ops, rows, strict=True) if row[C.PIECES] > 0]
    return tuple(result)


def _unit(x: int, side: np.ndarray) -> float:
    return float(side[C.DEEP]) if x == 2 else C.TILE


def _tiling(row: np.ndarray, side: np.ndarray) -> Tiling:
    """A row of `MAPPING` with blocks in rows, columns and depth."""
    at = dict(zip(MAPPING, row.tolist(), strict=True))
    whole = [side[C.ROWS], side[C.COLUMNS], side[C.DEPTH]]
    outer_blocks = tuple(int(at[f"outer_{x}"]) for x in _LETTERS)
    inner_blocks = tuple(int(at[f"inner_{x}"]) for x in _LETTERS)
    outer, inner = [], []
    for x, cut in enumerate((at["down"], at["across"], 1.0)):
        block = math.ceil(math.ceil(whole[x] / _unit(x, side)) / outer_blocks[x])
        part = math.ceil(math.ceil(block / cut) / inner_blocks[x])
        outer.append(int(min(whole[x], block * _unit(x, side))))
        inner.append(int(min(whole[x], part * _unit(x, side))))
    return Tiling(
        at["seconds"], at["joules"], at["far_bytes"], at["near_bytes"], (int(at["across"]), int(at["down"])),
        tuple(bool(int(at["held"]) >> o & 1) for o in range(3)), tuple(outer), tuple(inner), outer_blocks, inner_blocks,
        int(at["outer_last"]), int(at["inner_last"]),
    )  # fmt: skip


def _bounds(op: Op, side: np.ndarray) -> tuple[float, float]:
    """Bytes that pass into and out of cores, and to and from LPDDR, at least. A bound. [B], [B]

    Every operand once, by each core that has a part of it, with all pixels of that part's windows; and what Hong and
    Kung's argument gives with Loomis and Whitney's constant (Smith et al., arXiv 1702.02017): while a memory of S
    elements moves 2 S more, no more than S sqrt(S) multiply-adds can be done with them, or S sqrt(R S) where an element
    stands in R rows of A. So 2 X / sqrt(R S) - 2 S elements move for X multiply-adds, and P memories that share them
    leave 2 S each.
    """
    groups, m, n, k = side[C.GROUPS], side[C.ROWS], side[C.COLUMNS], side[C.DEPTH]
    element = min(side[C.B] / (groups * n * k), side[C.C] / (groups * m * n))
    window, deep = op.attribute("kernel", math.inf), max(1.0, op.attribute("kernel_t"))
    reuse = min(window * window * deep if op.kind == "Conv" else 1.0, k)  # products that an element of A can enter

    def bytes_through(memory: float, memories: float) -> float:
        size = memory / element
        return (2.0 * groups * m * n * k / math.sqrt(reuse * size) - 2.0 * size * memories) * element

    halo, share = C.tile_space(side)[1], side[C.PIECES] / groups
    a, b = side[C.A], side[C.B] * side[C.COMES]
    highest = int(min(math.ceil(share), math.ceil(m / C.TILE)))
    once = min(a * max(1.0, share / down) * read(halo, float(down)) + b * down for down in range(1, highest + 1))
    near = max(once + side[C.C], bytes_through(side[C.SRAM], side[C.PIECES]))
    return near, max(side[C.SPILLED] + side[C.WEIGHTS], bytes_through(side[C.SPACE], 1.0))


def tilings_of(job: Job, op: Op, side: np.ndarray, limit: float = COUNTED) -> Tiled:
    """The tilings of one product: counted as far as `limit`, searched by every aim, and their front."""
    problem, evaluations, seeds = C.tile_space(side), 0, np.zeros((len(AIMS), 1, len(MAPPING)))
    for aim, rows in enumerate(seeds):
        length, steps = search(*problem, aim, rows, 0)
        evaluations += int(steps)
    best = {name: _tiling(rows[0], side) for name, rows in zip(AIMS, seeds, strict=True)} if length else {}
    rows, at = np.zeros((_ROWS, len(MAPPING))), _ROWS * length
    while at == len(rows):  # no room for all of them
        rows = np.zeros((2 * len(rows), len(MAPPING)))
        rows[: len(AIMS)] = seeds[:, 0]
        at, _ = search(*problem, 0, rows, len(AIMS))
    length = at
    _, first = np.unique(rows[:length, :3], axis=0, return_index=True)
    rows = rows[np.sort(first)]
    front = rows[front_mask(rows[:, :3].T)]
    near, again = C.by_size(side)
    legal = float(count(*problem[:8], limit)) if limit > 0 else math.inf
    legal = legal if legal <= limit else math.inf
    return Tiled(
        op.name, op.kind, float(op.layers * op.steps.at(job.batch, job.length, job.context)),
        (side[C.GROUPS], side[C.ROWS], side[C.COLUMNS], side[C.DEPTH]), legal, evaluations, best,
        (near, side[C.SPILLED] + side[C.WEIGHTS] + again), _bounds(op, side),
        tuple(_tiling(row, side) for row in front[np.argsort(front[:, 0], kind="stable")]),
    )  # fmt: skip


def _parts(side: np.ndarray, cores: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Tiles of a product along rows, columns and depth, and of a core's part of it. [-]"""
    tiles = C.tile_space(side)[0]
    return tiles, np.ceil(tiles / np.array([cores[1], cores[0], 1.0]))


def _figures_row(problem: tuple, cut: np.ndarray, inner: np.ndarray, last: int) -> np.ndarray:
    """A row of `MAPPING` of blocks in cores, all of the product being on the chip. See `search` for the problem."""
    tiles, halo, _, where, _, _, masks, _, *rates = problem
    weights, row, outer = np.empty((6, 7)), np.zeros(len(MAPPING)), np.ones(3)
    weigh(cut, int(masks[-1]), tiles, where, *rates, weights)
    figures(weights, halo, cut[1], outer, -1, inner, last, row)
    row[4:7] = *cut, masks[-1]
    row[7:11], row[11:14], row[14] = (*outer, -1), inner, last
    return row


def _fastest(problem: tuple, cut: np.ndarray, inner: np.ndarray, lasts: tuple[int, ...]) -> np.ndarray:
    """The same with the innermost loop, of those given, that takes least time, then least energy."""
    loops = [x for x in lasts if inner[x] > 1] or [x for x in range(3) if inner[x] > 1] or [-1]
    return min((_figures_row(problem, cut, inner, x) for x in loops), key=lambda row: tuple(row[:4]))


def pinned(side: np.ndarray, block: tuple[int, ...], cores: tuple[int, int], stays: str = "") -> Tiling:
    """What a product costs in given blocks of rows, columns and depth in a core, cut over columns and rows of cores.

    `stays`: the operand (a, b or c) whose block stays while others pass; empty: the fastest. All of the product is on
    the chip. ScenarioError where that is no legal tiling.
    """
    problem = C.tile_space(side)
    tiles, part = _parts(side, cores)
    share = cores[0] * cores[1] * side[C.GROUPS]
    if min(cores) < 1 or cores[0] > tiles[1] or cores[1] > tiles[0] or share < side[C.PIECES]:
        raise ScenarioError(
            f"cores are {cores[0]} x {cores[1]}: {tiles[1]:.0f} columns and {tiles[0]:.0f} rows of tiles in "
            f"{side[C.GROUPS]:.0f} groups are to be cut into at least {side[C.PIECES]:.0f} parts, none without a tile"
        )
    inner, whole = np.ones(3), (side[C.ROWS], side[C.COLUMNS], side[C.DEPTH])
    for x, name in enumerate(_SIDES):
        unit, largest = _unit(x, side), min(part[x] * _unit(x, side), whole[x])
        if block[x] < 1 or (block[x] % unit and block[x] < largest):
            raise ScenarioError(
                f"{name} of a block are {block[x]}: a multiple of {unit:.0f}, or all {largest:.0f}, is allowed"
            )
        inner[x] = math.ceil(part[x] / min(part[x], math.ceil(block[x] / unit)))
    if stays not in ("", "a", "b", "c"):
        raise ScenarioError(f"stays is {stays!r}: a, b or c is allowed")
    _, halo, onchip, where, room, copies, *_ = problem
    halo_rows, open_k = read(halo, cores[1] * inner[0]), bool(inner[2] > 1)
    if not fits(np.ceil(part / inner), inner, halo_rows, open_k, onchip[0], where[0].copy(), room[0], copies[0]):
        raise ScenarioError(
            f"blocks of {block[0]} x {block[1]} x {block[2]} do not fit a core's {side[C.SRAM]:,.0f} B with the next "
            "ones beside them; take smaller ones"
        )
    lasts = (1, 0, 2)["abc".index(stays) : "abc".index(stays) + 1] if stays else (0, 1, 2)
    return _tiling(_fastest(problem, np.array(cores, dtype=np.float64), inner, lasts), side)


def block_map(side: np.ndarray, cores: tuple[int, int]) -> tuple[list[int], list[int], np.ndarray]:
    """Bytes into and out of cores by rows and columns of a core's block, the deepest that fits: NaN where none does.

    Rows and columns of blocks, rising, and an array (rows, columns). [B]
    """
    problem, (_, part) = C.tile_space(side), _parts(side, cores)
    _, halo, onchip, where, room, copies, *_ = problem
    counts = [sorted({math.ceil(part[x] / b) for b in range(1, int(part[x]) + 1)}, reverse=True) for x in (0, 1)]
    seconds = np.full((len(counts[0]), len(counts[1])), np.nan)
    for i, high in enumerate(counts[0]):
        for j, wide in enumerate(counts[1]):
            inner = np.array([high, wide, 1.0])
            halo_rows = read(halo, cores[1] * high)
            fewest_k(part, inner, np.ones(3), halo_rows, onchip[0], where[0].copy(), room[0], copies[0])
            if inner[2] > 0:
                seconds[i, j] = _fastest(problem, np.array(cores, dtype=np.float64), inner, (0, 1, 2))[3]
    sizes = [[int(math.ceil(part[x] / n) * _unit(x, side)) for n in counts[x]] for x in (0, 1)]
    return sizes[0], sizes[1], seconds


def tiling_map(job: Job, op: Op, side: np.ndarray) -> Mapped:
    """The tilings of a product, and a map of its blocks under the fastest one's cut over cores. [B]"""
    product = tilings_of(job, op, side)
    if not product.best:
        return Mapped(product, (), (), ())
    rows, columns, seconds = block_map(side, product.best["latency"].cores)
    cells = tuple(tuple(None if math.isnan(v) else v for v in row) for row in seconds.tolist())
    return Mapped(product, tuple(rows), tuple(columns), cells)
