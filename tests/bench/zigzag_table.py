"""Our tilings beside ZigZag's on its own example accelerator `gemm_l1_l3`: prints the table of docs/zigzag.md.

`python -m tests.bench.zigzag_table`; what ZigZag answered lies in zigzag.json, written by `zigzag_answers.py` under an
environment of its own, as ZigZag is no requirement of ours.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine.kernels.search.tilings import MAPPING, figures, search, weigh

ANSWERS = json.loads((Path(__file__).parent / "zigzag.json").read_text())
# gemm_l1_l3.yaml: 8 x 8 x 8 multipliers, a register of 32 bits for each sum, 943,718 bits of L1, held twice
SIDE, L1, DMA = 8, 943718 / 8, 64.0  # multipliers along a side; bytes; bytes a cycle between L1 and L3
READ_1, WRITE_1, READ_3, WRITE_3 = 118 / 64, 141.6 / 64, 16000 / 64, 24000 / 64  # pJ a byte
OUT_1, IN_1 = 118 / 256, 141.6 / 256  # sums cross a port of 2,048 bits
REGISTER, MULTIPLY = 3.0 + 4.0, 0.04  # read and write of a sum; a multiply-add [pJ]
DIMENSIONS = ("B", "K", "C")  # ZigZag's rows, columns and depth


class Price(NamedTuple):
    """Cycles, the first blocks' and the last one's way included, and energy."""

    cycles: float
    picojoules: float


def problem(m: int, n: int, k: int) -> tuple[np.ndarray, ...]:
    """A product on that machine, as `search` asks for it: sums stay in registers, nothing else does; L1 holds all."""
    tiles = np.array([math.ceil(v / SIDE) for v in (m, n, k)], dtype=np.float64)
    area = float(SIDE * SIDE)
    size = [m * k, n * k, m * n, 4.0 * m * n]
    sums = SIDE * area * tiles.prod() / SIDE  # each column of multipliers adds up to one
    fixed = m * n * k * MULTIPLY + sums * REGISTER + m * n * 3.0
    return (
        tiles,
        np.ones(1),
        np.array([[area, area, 1.0], [area, area, 4.0 * area]]),
        np.array([[-1, -1, 0], [0, 0, 0]]),
        np.array([[1.0], [L1]]),
        np.array([1.0, 2.0]),
        np.array([7]),
        np.ones((1, 2)),
        np.array([size, size], dtype=np.float64),
        np.array([m * k, n * k, m * n], dtype=np.float64),
        np.array([tiles.prod(), 0.0, 0.0, fixed]),
        np.array([READ_1, READ_1, OUT_1, IN_1, READ_3 + WRITE_1, READ_3 + WRITE_1, READ_3 + WRITE_1, WRITE_3 + READ_1]),
        np.array([0.0, 0.0, 0.0, 0.0, *[1 / DMA] * 4]),
    )


def _price(args: tuple[np.ndarray, ...], row: np.ndarray) -> Price:
    """A row of `MAPPING` with the first blocks' way in, the last one's way out, and the stops for sums that come back.

    A sum has one register, so the array stands still while the tile of sums is exchanged.
    """
    tiles, (a, b, c, _) = args[0], args[8][0]
    block = np.ceil(tiles / row[7:10]) * SIDE
    ends = block[0] * block[2] + block[1] * block[2] + block[0] * block[1]
    back = (row[3] - a * tiles[1] - b * tiles[0] - c) / 2  # bytes of sums that come in; as many more go out
    return Price(float(row[0] + ends / DMA + back / 256), float(row[1]))


def ours(answer: dict[str, Any]) -> Price:
    """The best tiling by the answer's aim, of those whose sums come back and of those whose do not."""
    args, result = problem(answer["m"], answer["n"], answer["k"]), []
    for registers in (args[4], np.array([[0.0], [L1]])):
        rows = np.zeros((1, len(MAPPING)))
        if search(*args[:4], registers, *args[5:], 0 if answer["aim"] == "latency" else 1, rows, 0)[0]:
            result.append(_price(args, rows[0]))
    return min(result, key=lambda price: price if answer["aim"] == "latency" else price[::-1])


def same(answer: dict[str, Any]) -> Price:
    """ZigZag's own mapping at our price: its loops above L1 are our outer ones, those above the registers our inner."""
    args, loops = problem(answer["m"], answer["n"], answer["k"]), answer["loops"]
    outer, inner = np.ones(3), np.ones(3)
    above = {"B": loops["I"][1], "K": loops["W"][1], "C": loops["I"][1]}  # of an operand that the dimension indexes
    for x, name in enumerate(DIMENSIONS):
        outer[x] = math.prod(count for dimension, count in above[name] if dimension == name)
    longest = max((loops["I"][1], loops["W"][1]), key=len)
    order = [DIMENSIONS.index(d) for d, _ in longest if outer[DIMENSIONS.index(d)] > 1]
    last_inner = -1
    if outer[2] > 1:  # sums are not complete in one turn: every tile of them leaves its register
        inner[:2] = args[0][:2] / outer[:2]
        inside = [DIMENSIONS.index(d) for d, _ in loops["O"][1] if inner[DIMENSIONS.index(d)] > 1]
        last_inner = inside[0] if inside else -1
    weights, row = np.empty((6, 7)), np.zeros(len(MAPPING))
    weigh(args[7][0], 7, args[0], args[3], *args[8:], weights)
    figures(weights, args[1], 1.0, outer, order[0] if order else -1, inner, last_inner, row)
    row[7:10] = outer
    return _price(args, row)


def table() -> str:
    """The comparison, a row for an answer of ZigZag."""
    lines = [
        "| product | M x N x K | aim | ZigZag, cycles | ours, same mapping | ours, best "
        "| ZigZag, µJ | ours, same mapping | ours, best |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for one in ANSWERS:
        kept, best = (same(one) if one["boundaries"] == "even" else None), ours(one)
        shape = f"{one['m']:,} x {one['n']:,} x {one['k']:,}"
        lines.append(
            f"| {one['layer']} | {shape} | {one['aim']}, {one['boundaries']} | {one['cycles']:,.0f} | "
            f"{f'{kept.cycles:,.0f}' if kept else ''} | {best.cycles:,.0f} | {one['picojoules'] / 1e6:,.1f} | "
            f"{f'{kept.picojoules / 1e6:,.1f}' if kept else ''} | {best.picojoules / 1e6:,.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
