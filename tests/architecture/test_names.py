"""Is every name that a reader meets first made of plain words, or of words that docs/GLOSSARY.md explains?"""

import ast

import pytest

from tests.architecture.names import PLAIN, known, unknown, words
from tests.architecture.sources import FILES, ROOT, tree

RETIRED = {"heed", "turns", "apart", "asides", "habits", "words", "settle", "moved", "shaped", "crew", "gang", "drawn"}
"""Words of our own that once named files and classes: the field, or English, has a better one for each."""


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
