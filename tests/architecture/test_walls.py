"""Are the walls kept, and would we notice if one fell?"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.sources import FILES, PACKAGES, ROOT, nodes
from tests.each import each


def imports(nodes: Iterable[ast.AST]) -> set[str]:
    """Top-level module names that nodes of a source import."""
    result: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            result |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            result.add(node.module.split(".")[0])
    return result


def breaches(package: str, path: str, nodes: Iterable[ast.AST]) -> list[str]:
    """Walls a source file breaks, in words."""
    seen = imports(nodes)
    result = []
    if package != "app" and seen & {"streamlit", "plotly", "pandas", "app"}:
        result.append("page library or app below app")
    if package in ("hardware_specs", "model_zoo", "entries") and seen & ({*PACKAGES} - {package, "entries"}):
        result.append("a data package imports another of ours")
    if "numba" in seen and path != "engine/kernels/jit.py":
        result.append("numba outside engine/kernels/jit.py")
    if "yaml" in seen and package == "app":
        result.append("YAML in app")
    return result


@each("file", FILES, ids=lambda f: f.relative_to(ROOT).as_posix())
def test_every_file_keeps_the_walls(file: Path) -> None:
    path = file.relative_to(ROOT).as_posix()
    assert breaches(path.split("/")[0], path, nodes(file)) == []


@pytest.mark.parametrize(
    ("path", "source", "word"),
    [
        ("engine/x.py", "import streamlit as st", "below app"),
        ("engine/x.py", "def f():\n    import pandas", "below app"),
        ("engine/x.py", "from numba import njit", "numba"),
        ("model_zoo/x.py", "from engine.scenario import Scenario", "data package"),
        ("hardware_specs/x.py", "import model_zoo.ops", "data package"),
        ("app/x.py", "import yaml", "YAML"),
    ],
)
def test_each_wall_has_been_seen_to_fall(path: str, source: str, word: str) -> None:
    assert any(word in text for text in breaches(path.split("/", maxsplit=1)[0], path, ast.walk(ast.parse(source))))


def test_import_contracts_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [tool], cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_import_engine_is_light() -> None:
    code = (
        "import sys, engine, engine.evaluate, engine.resolve.presets; "
        "bad = {'streamlit', 'plotly', 'pandas', 'torch'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})


def test_no_parallel_true_and_no_fastmath() -> None:
    for file in FILES:
        for node in nodes(file):
            if isinstance(node, ast.keyword) and node.arg == "parallel" and "kernels" in file.as_posix():
                assert not (isinstance(node.value, ast.Constant) and node.value.value is True), file


def test_main_path_stays_short() -> None:
    assert len((ROOT / "engine" / "evaluate.py").read_text().splitlines()) <= 60


def test_tables_are_drawn_by_one_function() -> None:
    """`parts.table` gives each its digits, its height and the dash for what is unknown."""
    own = [f.relative_to(ROOT).as_posix() for f in FILES if "st.dataframe(" in f.read_text()]
    assert own == ["app/shared/parts.py"]


def circles(files: Mapping[str, Iterable[ast.AST]]) -> list[str]:
    """Modules that import each other in a loop, imports for types among them: the first loop, in order."""
    above = {name: modules(nodes) & files.keys() - {name} for name, nodes in files.items()}
    try:
        TopologicalSorter(above).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def modules(nodes: Iterable[ast.AST]) -> set[str]:
    """Full names that nodes of a source import, at its top or for types: modules, and names within them."""
    found = [(node.module, node.names) for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name for module, names in found for name in (module, *(f"{module}.{alias.name}" for alias in names))}


def test_no_files_import_each_other() -> None:
    assert circles({".".join(file.relative_to(ROOT).with_suffix("").parts): nodes(file) for file in FILES}) == []


def test_a_circle_has_been_seen() -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from b import y"
    sources = {"a": typed, "b": "from a import x", "c": "from b import y"}
    loop = circles({name: list(ast.walk(ast.parse(text))) for name, text in sources.items()})
    assert {*loop} == {"a", "b"}
