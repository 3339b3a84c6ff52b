"""Names that others use: each means one entry, and none is another entry's id."""

from functools import cache

import pytest

from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo


@cache
def named(kind: str) -> dict[str, tuple[str, ...]]:
    """Other names of all systems or workloads, by id."""
    if kind == "systems":
        return {id: default_catalog().system(id).aliases for id in default_catalog().ids("systems")}
    return {id: default_zoo().workload(id).aliases for id in default_zoo().ids()}


@pytest.mark.parametrize("kind", ["systems", "workloads"])
def test_an_alias_means_one_entry(kind: str):
    entries = named(kind)
    given = [alias.lower() for aliases in entries.values() for alias in aliases]
    assert given
    assert len(given) == len(set(given))
    assert not set(given) & set(entries)


def test_an_alias_is_found_in_any_case_and_a_strange_name_stays():
    for id, aliases in named("systems").items():
        assert {default_catalog().resolve(name.upper()) for name in aliases} <= {id}
    for id, aliases in named("workloads").items():
        assert {default_zoo().resolve(name.upper()) for name in aliases} <= {id}
    assert default_catalog().resolve("h9000") == "h9000"
    assert default_zoo().resolve("resnet50") == "resnet50"
