"""A test over all rows of a table at once, with a list of the rows that fail."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

MOST = 10
"""Failing rows that are printed; the first one's error is the cause that is shown with its stack."""


def _values(row: Any, count: int) -> tuple[Any, ...]:
    """Values of a row; of ``pytest.param`` those it holds."""
    if isinstance(row, ParameterSet):
        return tuple(row.values)
    return (row,) if count == 1 else tuple(row)


def each(
    names: str | tuple[str, ...], rows: Iterable[Any] | Callable[[], Iterable[Any]], ids: Callable[[Any], str] = str
) -> Callable[[Any], Any]:
    """As ``pytest.mark.parametrize``, but one test: it runs every row and fails with those that do.

    For rows of data, whose number grows with the data: a test for each costs more than what most of them check. What
    takes seconds to list is a function, which the test asks and not whoever collects it.
    """
    titles = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    given = rows if callable(rows) else tuple(rows)

    def over(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            table = [_values(row, len(titles)) for row in (given() if callable(given) else given)]
            assert table, "there is no row to test"
            failures: list[tuple[str, BaseException]] = []
            skipped = 0
            for values in table:
                try:
                    test(**fixtures, **dict(zip(titles, values, strict=True)))
                except pytest.skip.Exception:  # a row that this machine can't run is no failure
                    skipped += 1
                except (Exception, pytest.fail.Exception) as error:  # every row is tried, whatever another does
                    failures.append((", ".join(ids(value)[:60] for value in values), error))
            if failures:
                said = [f"{row}: {type(error).__name__}: {str(error)[:300]}" for row, error in failures[:MOST]]
                said += [f"and {len(failures) - MOST} more"] if len(failures) > MOST else []
                said.insert(0, f"{len(failures)} of {len(table)} rows fail")
                raise AssertionError("\n".join(said)) from failures[0][1]
            if skipped == len(table):
                pytest.skip("every row is skipped")

        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in titles]
        # pytest asks for fixtures by the signature; a function has no such attribute for a type checker
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run

    return over
