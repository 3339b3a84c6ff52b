"""Results printed elsewhere: they are evidence for error bands, and nothing is fitted on them."""

import json

import pytest

from engine.devices import FAMILIES, family
from engine.published import claims
from engine.published.other_sources import FIGURES, results


@pytest.fixture(scope="module")
def rows(elsewhere: list[dict]) -> list[dict]:
    return elsewhere


def test_each_gives_one_figure_and_says_where_it_was_printed(rows):
    ids = [r["id"] for r in results()]
    assert len(ids) == len(set(ids)) == len(rows)
    assert all(sum(m in r for m in FIGURES) == 1 for r in results())
    assert all(r["where"] and r["source"]["title"] and r["source"]["publisher"] for r in results())
    json.dumps(rows, allow_nan=False)


def test_nothing_is_fitted_on_them():
    fitted = {c for kind in FAMILIES for p in family(kind).parameters for c in p.claims}
    taken = {claim["id"] for claim in claims()}
    assert not {r["id"] for r in results()} & (fitted | taken)


def test_predictions_are_within_a_small_factor(rows):
    """No unit slip and no missing factor: three quarters are within 1.5 times, all within 2.5 times."""
    factors = sorted(max(1 + r["error"], 1 / (1 + r["error"])) for r in rows)
    assert factors[3 * len(factors) // 4] < 1.5
    assert factors[-1] < 2.5, [r["id"] for r in rows if not 0.4 < 1 + r["error"] < 2.5]
