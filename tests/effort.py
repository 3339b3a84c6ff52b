"""How much of a grid, and how many random examples, a test takes: a fifth in an ordinary run, more in `make soak`."""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
EFFORT = float(os.environ.get("INFERSCAPE_EFFORT", "1"))
"""Times the examples of an ordinary run. [-]"""
LEAST = 4


def examples(most: int) -> int:
    """Examples of a test that is thorough with ``most`` of them: a fifth, times the effort asked for. [-]"""
    return max(min(LEAST, most), round(most * EFFORT / 5))


def share(grid: Sequence[T], first: int = 0) -> Sequence[T]:
    """Every fifth point of a grid, from ``first`` on (another one for each row, so that columns are met as often).

    All of them from an effort of 5 on; never none of a grid that has points.
    """
    step = max(1, round(5 / EFFORT))
    return grid[first % min(step, len(grid)) :: step] if grid else grid
