"""Words that public classes and modules are named with: ``python -m tests.architecture.names`` lists the unknown."""

import ast
import re
from pathlib import Path

from tests.architecture.sources import FILES, ROOT, tree

PLAIN = Path(__file__).with_name("plain-words.txt")


def words(name: str) -> list[str]:
    """``KernelRun`` and ``kernel_run`` as kernel, run; an abbreviation in capitals is one word."""
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z]|\b|_|\d)|[A-Z]?[a-z]+|[A-Z]+", name)
    return [part.lower() for part in parts]


def names() -> dict[str, str]:
    """Public classes and modules, with the file each is in."""
    result: dict[str, str] = {}
    for file in FILES:
        path = file.relative_to(ROOT).as_posix()
        if file.stem not in ("__init__", "__main__"):
            result[file.stem] = path
        for node in tree(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                result[node.name] = path
    return result


def known() -> set[str]:
    """Plain words, and every word of the glossary's first columns."""
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "GLOSSARY.md").read_text(), re.MULTILINE)
    terms = {word.lower() for row in rows for word in re.findall(r"[A-Za-z]\w*", row)}
    return terms | set(PLAIN.read_text().split())


def unknown() -> list[str]:
    """Words that are neither plain nor in the glossary, each with a name it stands in and the file."""
    allowed = known()
    return sorted(
        f"{word}: {name} in {path}" for name, path in names().items() for word in words(name) if word not in allowed
    )


if __name__ == "__main__":
    print(*unknown(), sep="\n")
