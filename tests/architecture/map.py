"""docs/MAP.md from the imports: ``python -m tests.architecture.map`` writes it; a test holds it true."""

import ast
import re
from pathlib import Path

from tests.architecture.sources import ROOT, nodes, tree

TARGET = ROOT / "docs" / "MAP.md"
WALK = (
    "engine/scenario/scenario.py",
    "engine/evaluate.py",
    "engine/resolve/bind.py",
    "engine/cost/best_plan.py",
    "engine/plan/schemes.py",
    "engine/cost/assemble.py",
    "engine/devices/gpu/family.py",
    "engine/cost/power_and_price.py",
    "engine/cost/report.py",
)
"""A scenario's token on its way to a report, for a scenario on a GPU: the files a reader opens, in order."""


def rooms() -> list[str]:
    """Rooms of the engine as `.importlinter` orders them, highest first; then its data packages."""
    text = (ROOT / ".importlinter").read_text()
    inner = re.search(r"containers =\n    engine\nlayers =\n((?:    .+\n)+)", text)
    assert inner is not None
    names = [name.strip() for line in inner[1].splitlines() for name in line.split("|")]
    return ["app", *(f"engine/{name}" for name in names), "hardware_specs", "model_zoo", "entries"]


def said(path: Path) -> str:
    """First line of the docstring of a file or a folder."""
    file = path / "__init__.py" if path.is_dir() else path
    return (ast.get_docstring(tree(file)) or "").split("\n")[0]


def room_of(module: str, known: list[str]) -> str | None:
    """The room that a dotted name lies in."""
    path = module.replace(".", "/")
    return next((room for room in known if path == room or path.startswith(f"{room}/")), None)


def imported(room: str, known: list[str]) -> list[str]:
    """Rooms that a room's files import, in the order of the rooms."""
    place = ROOT / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    seen: set[str] = set()
    for file in files:
        for node in nodes(file):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                for alias in node.names:
                    found = room_of(f"{node.module}.{alias.name}", known) or room_of(node.module, known)
                    seen |= {found} if found else set()
    return [name for name in known if name in seen and name != room]


def written() -> str:
    """The text of docs/MAP.md."""
    known = rooms()
    lines = [
        "# Map",
        "",
        "Written by `python -m tests.architecture.map` from the imports; a test holds it true.",
        "A room imports only rooms below it.",
        "",
        "## Rooms, highest first",
        "",
        "| room | what it is | imports |",
        "|---|---|---|",
    ]
    for room in known:
        place = ROOT / room
        text = said(place if place.is_dir() else place.with_suffix(".py"))
        below = ", ".join(name.removeprefix("engine/") for name in imported(room, known))
        lines.append(f"| `{room}` | {text} | {below} |")
    lines += ["", "## From a scenario's token to its report", ""]
    lines += [f"{i}. `{path}`: {said(ROOT / path)}" for i, path in enumerate(WALK, 1)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(written())
