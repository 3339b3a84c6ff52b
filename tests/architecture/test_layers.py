"""Does the order of the rooms hold anything: would import-linter name an import, were a room moved?"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.map import ROOT, imported, rooms

ROOMS = [room for room in rooms() if room.startswith("engine/")]
HEAD = "[importlinter]\nroot_packages =\n    app\n    engine\n    entries\n    hardware_specs\n    model_zoo\n"


def reordered(room: str) -> list[list[str]]:
    """Rooms in layers, highest first, with one moved: below what it imports, or above all that import it."""
    rest = [other for other in ROOMS if other != room]
    uses = [other for other in imported(room, ROOMS) if other != room]
    at = rest.index(uses[-1]) + 1 if uses else 0
    return [[other] for other in (*rest[:at], room, *rest[at:])]


def contract(room: str) -> str:
    """The contract of the rooms, with one of them moved."""
    layers = "\n".join("    " + " | ".join(one.removeprefix("engine/") for one in layer) for layer in reordered(room))
    name = room.removeprefix("engine/")
    head = f"[importlinter:contract:{name}]\nname = moved {name}\ntype = layers\n"
    return f"{head}containers =\n    engine\nlayers =\n{layers}\n"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What import-linter prints of all those contracts."""
    config = tmp_path_factory.mktemp("layers") / "moved.ini"
    config.write_text("\n".join([HEAD, *map(contract, ROOMS)]))
    command = [Path(sys.executable).with_name("lint-imports"), "--config", config, "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment).stdout


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_that_is_moved_makes_an_import_climb(room: str, told: str) -> None:
    """Every layer is held by an import that import-linter names: file, line and what it reads."""
    name = room.removeprefix("engine/")
    assert f"moved {name} BROKEN" in told
    section = re.split(r"\n-{3,}\n", told.split(f"\nmoved {name}\n-", 1)[1])[0]
    lines = [line for line in section.splitlines() if re.search(rf"engine\.{name}\b", line)]
    assert any(re.search(r"->.*\(l\.\d+", line) for line in lines), section[:400]
