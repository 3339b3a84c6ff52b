"""Does a device family stand in its own room and nowhere else?"""

import ast
from pathlib import Path

import pytest

from engine.devices import FAMILIES, family
from tests.architecture.sources import ROOT, nodes

OWN = {
    "engine/lab/host/calibrate.py",  # writes the spec of a CPU
    "engine/traffic/plan.py",  # a card is what fails
}
"""Files that name a family, or a thing of the same name: a list that only shrinks."""


def named(path: Path) -> set[str]:
    """Kinds of families that a file has as a text of their own."""
    found = nodes(path)
    return {n.value for n in found if isinstance(n, ast.Constant) and isinstance(n.value, str)} & FAMILIES.keys()


@pytest.mark.parametrize("package", ["app", "engine"])
def test_no_other_room_names_a_family(package):
    """A new family is a schema, a module, a file and a line: nothing else may ask which family it is."""
    places = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / package).rglob("*.py")}
    rooms = ("engine/devices/", "engine/published/")
    naming = {name for name, path in places.items() if not name.startswith(rooms) and named(path)}
    assert naming == {name for name in OWN if name.startswith(package)}


READS = {
    "engine/analyses/node/tilings.py",  # every tiling of a card's products
    "engine/cli/op.py",  # operators as measured on GPUs
    "engine/lab/host/measure/fused.py",  # this host is a CPU
    "engine/lab/host/measure/operators.py",
    "engine/lab/host/measure/jobs.py",
}
"""Files that import a family's module, or read the block of its devices: a list that only shrinks."""


def read(path: Path) -> set[str]:
    """Families of which a file imports a module, or takes the block of a device that is of one kind alone."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom | ast.Import):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            modules += [f"{node.module}.{name.name}" for name in node.names] if isinstance(node, ast.ImportFrom) else []
            found |= {m.split(".")[2] for m in modules if m.startswith("engine.devices.") and m.count(".") > 1}
        elif isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            found |= {node.attr} if owner == "device" else set()
    return found & FAMILIES.keys()


@pytest.mark.parametrize("package", ["app", "engine"])
def test_no_other_room_reads_a_family(package):
    """What a room wants of a device its family says by the contract, or the device by a property of any kind."""
    places = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / package).rglob("*.py")}
    rooms = ("engine/devices/", "engine/published/")
    reading = {name for name, path in places.items() if not name.startswith(rooms) and read(path)}
    assert reading == {name for name in READS if name.startswith(package)}


def test_every_family_has_a_label_of_its_own():
    labels = [family(kind).label for kind in FAMILIES]
    assert len(set(labels)) == len(labels)
    assert all(label and " " not in label for label in labels)
