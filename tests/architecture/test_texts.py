"""A page's sentences stand in its `texts.yaml`, to be read and mended together; each is used, with its values."""

import ast
import re
import string
from pathlib import Path
from typing import Any

import pytest

from entries.files import read_plain

VIEWS = Path(__file__).parents[2] / "app" / "views"
PAGES = sorted(str(file.parent.relative_to(VIEWS)) for file in VIEWS.rglob("texts.yaml"))
_CHARTS = re.compile(r"%\{[^}]*\}")  # a value that a chart puts there
_PRONOUN = r"\bones?\b(?! (?!of\b|that\b|in\b|is\b|are\b|and\b|or\b|with\b|for\b|from\b|reads?\b)[\w{-])"
_RATE = r"\b(?!select\b|or\b)\w+ an? (?:second|user|row)\b(?! time)"  # `per second` is meant
_VAGUE = re.compile(rf"\b(?:held(?![ -]out)|kept|told|mine)\b|{_PRONOUN}|{_RATE}", re.I)
"""Words that stand for a thing or an act which the sentence can name, and `a second` for `per second`."""
WORDS = 4  # as many make a sentence; a label may stand beside its control


def parsed(page: str) -> dict[str, ast.Module]:
    return {path.name: ast.parse(path.read_text()) for path in sorted((VIEWS / page).glob("*.py"))}


def texts_of_page(page: str) -> dict[str, Any]:
    return read_plain(VIEWS / page / "texts.yaml")


def documentation(tree: ast.Module) -> set[int]:
    """Literals that stand by themselves: docstrings."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def said(node: ast.expr) -> str:
    """The text of a literal, values left out."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return " # ".join(p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str))


def words(text: str) -> list[str]:
    """Its words: no markup, no style sheet, no path and no name with an underscore."""
    plain = re.sub(r"<style>.*</style>|<[^>]*>|%\{[^}]*\}|:\w+:", " ", text)
    return [] if "\n" in plain else re.findall(r"(?<![^\s(*>\"'\[;])[A-Za-z][A-Za-z'’-]*(?![\w/_]|\.\w)", plain)


def sentences(tree: ast.Module) -> list[str]:
    """Literals of as many words as make a sentence."""
    skipped = documentation(tree)
    skipped |= {id(part) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for part in n.values}
    literals = [n for n in ast.walk(tree) if isinstance(n, (ast.Constant, ast.JoinedStr)) and id(n) not in skipped]
    return [f"{n.lineno}: {said(n)}" for n in literals if len(words(said(n))) >= WORDS]


def values(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_s_sentences_stand_in_its_texts(page):
    assert {name: found for name, tree in parsed(page).items() if (found := sentences(tree))} == {}


@pytest.mark.parametrize("page", PAGES)
def test_every_text_is_used_with_the_values_it_names(page):
    trees, texts = parsed(page), texts_of_page(page)
    used, wrong = set(), []
    for name, tree in trees.items():
        formatted = {id(c.func.value): c for c in ast.walk(tree) if isinstance(c, ast.Call) and _is_format(c.func)}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Attribute) and ast.unparse(node.value) == "texts"):
                continue
            used.add(node.attr)
            if node.attr not in texts:
                continue
            call = formatted.get(id(node))
            given = {keyword.arg for keyword in call.keywords} if call else set()
            text = texts[node.attr] if isinstance(texts[node.attr], str) else ""
            if given != values(text if call else _CHARTS.sub("", text)):
                wrong.append(f"{name}:{node.lineno} gives {node.attr} {given}")
    assert (wrong, texts.keys() ^ used) == ([], set())


@pytest.mark.parametrize("page", PAGES)
def test_a_text_names_what_it_speaks_of(page):
    texts = map(str, texts_of_page(page).values())
    assert [(found.group(), text) for text in texts if (found := _VAGUE.search(text))] == []


@pytest.mark.parametrize(
    ("text", "vague"),
    [
        ("{count} rows; select one for its card", True),
        ("the fastest one. Blocks", True),
        ("the error band held {held} of {banded}", True),
        ("Nothing is kept.", True),
        ("Requests a second", True),
        ("Requests per second, one client per instance", False),
        ("figures held out from calibration", False),
        ("One queue for everything; one {unit} each", False),
    ],
)
def test_the_law_of_names_knows_pronouns_from_numbers(text, vague):
    assert bool(_VAGUE.search(text)) == vague


def _is_format(func: ast.expr) -> bool:
    return isinstance(func, ast.Attribute) and func.attr == "format"
