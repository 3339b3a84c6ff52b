"""Do rooms that compute say what each public function gives: units, errors, and what kind of number it is?"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.each import each

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("devices", "cost", "traffic", "sweep", "numerics")
FILES = [file for room in ROOMS for file in sorted((ROOT / "engine" / room).rglob("*.py"))]
UNIT = re.compile(r"\[[^\]]+\]")
NUMBER = re.compile(r"float( \| None)?")
EVIDENCE = re.compile(r"\b(estimate|bound|measure|exact|count|simulat|data sheet)", re.IGNORECASE)
"""What a number is; a module may say it once for all of its functions."""


def public(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Public classes and functions of a file, and the public methods of the former."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, node
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                    yield f"{node.name}.{inner.name}", inner


def wants_unit(node: ast.FunctionDef) -> bool:
    """Whether it returns floats, alone or in something, or takes a bare one."""
    given = (one.annotation for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
    takes = any(one is not None and NUMBER.fullmatch(ast.unparse(one)) for one in given)
    return takes or gives_number(node)


def gives_number(node: ast.FunctionDef) -> bool:
    """Whether it returns floats, alone or in something."""
    return node.returns is not None and "float" in ast.unparse(node.returns)


def raised(node: ast.FunctionDef) -> set[str]:
    """Names of the errors that it raises itself."""
    calls = (one.exc for one in ast.walk(node) if isinstance(one, ast.Raise))
    return {one.func.id for one in calls if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)}


def faults(source: str) -> list[str]:
    """What the docstrings of a file leave unsaid."""
    result = []
    tree = ast.parse(source)
    said = EVIDENCE.search(ast.get_docstring(tree) or "")
    for name, node in public(tree):
        text = ast.get_docstring(node) or ""
        if not text:
            result.append(f"{name} has no docstring")
        elif isinstance(node, ast.FunctionDef):
            if wants_unit(node) and not UNIT.search(text):
                result.append(f"{name} takes or gives numbers and names no [unit]")
            if gives_number(node) and not (said or EVIDENCE.search(text)):
                result.append(f"{name} gives numbers and does not say if they are bounds, estimates or measurements")
            result += [
                f"{name} raises {error} and does not say so" for error in sorted(raised(node)) if error not in text
            ]
    return result


@each("file", FILES, ids=lambda f: f.relative_to(ROOT).as_posix())
def test_public_functions_say_their_units_and_errors(file: Path) -> None:
    assert faults(file.read_text()) == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def f(): return 1", "f has no docstring"),
        ("class C: pass", "C has no docstring"),
        ('def f() -> tuple[str, float]:\n    """An estimate."""', "f takes or gives numbers and names no [unit]"),
        (
            'def f() -> float:\n    """Words. [s]"""',
            "f gives numbers and does not say if they are bounds, estimates or measurements",
        ),
        ('def f(a: float | None) -> str:\n    """Words."""', "f takes or gives numbers and names no [unit]"),
        ('def f():\n    """Words."""\n    raise E("no")', "f raises E and does not say so"),
        ('class C:\n    """C."""\n    def f(self): return 1', "C.f has no docstring"),
    ],
)
def test_each_fault_has_been_seen(source: str, fault: str) -> None:
    assert faults(source) == [fault]
