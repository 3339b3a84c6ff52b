"""Is every name that a reader meets first made of plain words, or of words that docs/GLOSSARY.md explains?"""

import ast

import pytest

from tests.architecture.names import PLAIN, known, unknown, words
from tests.architecture.sources import FILES, ROOT, tree
from tests.each import each

RETIRED = {"heed", "turns", "apart", "asides", "habits", "words", "settle", "moved", "shaped", "crew", "gang", "drawn"}
"""Words of our own that once named files and classes: the field, or English, has a better one for each."""
PRONOUNS = frozenset(
    [
        "all",
        "another",
        "any",
        "both",
        "each",
        "every",
        "few",
        "it",
        "its",
        "least",
        "less",
        "many",
        "mine",
        "more",
        "most",
        "much",
        "one",
        "ones",
        "other",
        "others",
        "own",
        "rest",
        "same",
        "several",
        "some",
        "such",
        "that",
        "them",
        "these",
        "they",
        "this",
        "those",
        "what",
        "which",
        "who",
        "whom",
        "whose",
    ]
)
"""What says nothing of what a thing is. `other` beside `self` is Python's own."""
OUTSIDE = {
    ("engine/traffic/simulate.py", "most"),  # `simulate` is called from outside
    ("engine/analyses/cuts.py", "rest"),
    ("engine/cost/report.py", "other"),
    ("engine/cost/rows.py", "Other"),
    ("engine/cost/rows.py", "rest"),
    ("engine/devices/common/contract.py", "rest"),
    ("model_zoo/table.py", "OTHER"),
}
"""Each file and name that leaves Python as a key of a report, of JSON or of a table."""


def bound(root: ast.AST) -> set[str]:
    """Names that a source binds: variables, parameters, functions, classes, fields, attributes of ``self``."""
    found = set()
    for node in ast.walk(root):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
            found |= {arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)}
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


@each("file", FILES, ids=lambda f: f.relative_to(ROOT).as_posix())
def test_no_pronoun_is_a_name(file):
    path = file.relative_to(ROOT).as_posix()
    pronouns = {
        name
        for name in bound(tree(file))
        if name.strip("_").lower() in PRONOUNS and name not in ("__all__", "ONE", "_ONE")
    }
    assert pronouns == {name for where, name in OUTSIDE if where == path}


def test_a_pronoun_has_been_seen():
    source = (
        "def f(most, own=1):\n    for each in x: pass\n"
        "class A:\n    rest: int = 0\n    def __eq__(self, other): self._one = 1"
    )
    assert {name.strip("_") for name in bound(ast.parse(source))} & PRONOUNS == {"most", "own", "each", "rest", "one"}


def test_every_class_and_module_is_named_in_plain_words_or_the_glossarys():
    assert unknown() == [], "say it in the field's term, or explain the noun in docs/GLOSSARY.md"


def test_no_retired_word_names_a_class_or_a_module_again():
    assert not RETIRED & known()


def test_the_list_of_plain_words_is_sorted_and_holds_none_twice_or_unused():
    listed = PLAIN.read_text().split()
    assert listed == sorted(set(listed))
    used = {
        word
        for file in FILES
        for name in (file.stem, *(n.name for n in tree(file).body if isinstance(n, ast.ClassDef)))
        for word in words(name)
    }
    assert set(listed) <= used


@pytest.mark.parametrize(
    ("name", "parts"),
    [("KernelRun", ["kernel", "run"]), ("kernel_run", ["kernel", "run"]), ("NPUTable", ["npu", "table"])],
)
def test_a_name_is_cut_into_its_words(name, parts):
    assert words(name) == parts


def test_every_word_of_ours_stands_once():
    rows = [
        line.split("|")[1].strip()
        for line in (ROOT / "docs" / "GLOSSARY.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    assert len(rows) == len({row.lower() for row in rows} - {"noun", "term"}) + 2
