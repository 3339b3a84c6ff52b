"""The product's sources, each parsed once for all tests that read them."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("app", "engine", "entries", "hardware_specs", "model_zoo")
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))


@cache
def tree(file: Path) -> ast.Module:
    """What a file says."""
    return ast.parse(file.read_text())


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Every node of it, in no order."""
    return tuple(ast.walk(tree(file)))
