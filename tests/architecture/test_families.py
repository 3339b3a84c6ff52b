"""Does a device family stand in its own room and nowhere else?"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from engine.devices import FAMILIES, family
from tests.architecture.map import ROOT

OWN = {
    "engine/lab/host/calibrate.py",  # writes the spec of a CPU
    "engine/traffic/plan.py",  # a card is what fails
    "app/shared/claims.py",  # systems of the documents, as their claims name them
    "app/views/node/page.py",  # a card is a panel
    "app/views/node/charts.py",
}
"""Files that name a family, or a thing of the same name: a list that only shrinks."""


def named(path: Path) -> set[str]:
    """Kinds of families that a file has as a text of their own."""
    found = ast.walk(ast.parse(path.read_text()))
    return {n.value for n in found if isinstance(n, ast.Constant) and isinstance(n.value, str)} & FAMILIES.keys()


@pytest.mark.parametrize("package", ["app", "engine"])
def test_no_other_room_names_a_family(package):
    """A new family is a schema, a module, a file and a line: nothing else may ask which family it is."""
    places = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / package).rglob("*.py")}
    rooms = ("engine/devices/", "engine/published/")
    naming = {name for name, path in places.items() if not name.startswith(rooms) and named(path)}
    assert naming == {name for name in OWN if name.startswith(package)}


def test_every_family_has_a_label_of_its_own():
    labels = [family(kind).label for kind in FAMILIES]
    assert len(set(labels)) == len(labels)
    assert all(label and " " not in label for label in labels)
