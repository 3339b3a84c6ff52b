"""Renews what `validate` reads and what the README says of it.

python -m tests.tools.published                # error bands, recorded figures and the README's table
python -m tests.tools.published --dependence   # which constants move which predictions; six minutes
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.cost import error_bands
from engine.published import nearest, predictions, validate
from engine.published.headline import by_document, other_kinds, sentence
from engine.published.kinds import DEPENDENCE
from engine.published.other_sources import compare
from tests.tools.conformal import bands
from tests.tools.dependence import dependence
from tests.tools.evidence import figures, residuals

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN = "<!-- headline table: written by `python -m tests.tools.published`, kept true by a test -->"
END = "<!-- end -->"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: the sentence, a row a document, and the other kinds folded."""
    lines = [sentence(rows), ""]
    lines += ["| document | predictions | median error | 90th percentile | missed |", "|---|--:|--:|--:|---|"]
    for name, one in by_document(rows):
        errors = ["-" if e is None else f"{e:.1%}" for e in (one.median, one.p90)]
        lines.append(f"| {name} | {one.count} | {errors[0]} | {errors[1]} | {', '.join(one.missed)} |")
    lines += ["", "<details><summary>Other compared figures, no evidence for predicted times</summary>", ""]
    lines += [f"- {count} {words}: {met} met." for words, count, met in other_kinds(rows)]
    lines += [f"- {sum(row['predicted'] is None for row in rows)} figures are not predicted, each with its reason."]
    return "\n".join([*lines, "", "</details>"])


def into(text: str, rows: Sequence[dict[str, Any]]) -> str:
    """A document's text with its headline table renewed."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.split(END, 1)[1]}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dependence", action="store_true", help="change everything and see what moves")
    if parser.parse_args(arguments).dependence:
        DEPENDENCE.write_text(json.dumps(dependence(predictions()), indent=1) + "\n")
        return
    rows, elsewhere = validate(), compare()
    error_bands.FILE.write_text(json.dumps(bands(residuals(rows, elsewhere)), indent=1) + "\n")
    error_bands._bands.cache_clear()
    nearest.FILE.write_text("[\n" + ",\n".join(map(json.dumps, figures(rows, elsewhere))) + "\n]\n")
    README.write_text(into(README.read_text(), rows))


if __name__ == "__main__":
    main()
