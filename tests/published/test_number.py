"""How a number is made: the page's walk from a link to a figure is run line by line."""

import doctest
from pathlib import Path

TEXT = Path(__file__).parents[2] / "app" / "views" / "published" / "number.md"


def test_every_line_of_the_walk_is_true():
    found = doctest.testfile(str(TEXT), module_relative=False)
    assert found.attempted >= 20
    assert found.failed == 0
