"""Ratios measured side by side in one run: gathers the rows of every ``bench_*.py`` here.

`python -m tests.bench [--only NAME] [--markdown FILE]`; `make bench` writes BENCHMARKS.md with it.
"""

import argparse
import platform
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

from engine.kernels.jit import host_features, pool_size

FOLDER = Path(__file__).resolve().parent


def collect(only: str | None = None) -> list[dict[str, Any]]:
    """Rows ``{name, value, unit, against, ratio, goal, met}`` of all benchmark files, or of those whose name holds
    ``only``. Measurements; noisy, so each row is a ratio taken against its rival in the same process. A benchmark that
    fails is a row that says so, and what was measured before and after it stays.
    """
    files = [f for f in sorted(FOLDER.glob("bench_*.py")) if only is None or only in f.stem]
    if not files:
        names = ", ".join(f.stem.removeprefix("bench_") for f in sorted(FOLDER.glob("bench_*.py"))) or "none here"
        raise SystemExit(f"no benchmark matches {only!r}; known: {names}")
    rows: list[dict[str, Any]] = []
    for file in files:
        sys.stderr.write(f"{file.stem} ...\n")
        try:
            for row in run_path(str(file))["rows"]():
                rows.append(row)  # one by one: those before an error stay
        except Exception as error:  # whatever it is, hours of other rows must not go with it
            why = {"value": None, "unit": "", "against": f"failed, {type(error).__name__}: {error}"}
            rows.append({"name": file.stem, **why, "ratio": None, "goal": None, "met": False})
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """The rows as a table under a line that names the machine."""
    flags = ", ".join(sorted(f for f in host_features() if f.startswith(("avx", "amx", "fma", "neon", "sve"))))
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`: every ratio is measured side by side in one process.",
        "",
        f"Machine: {platform.machine()}, {pool_size()} threads; {flags}.",
        "",
        "| what | value | against | ratio | goal | met |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        value = f"{row['value']:.4g} {row['unit']}" if row["value"] is not None else "-"
        ratio = f"{row['ratio']:.3g}" if row["ratio"] is not None else "-"
        goal = f"{row['goal']:.3g}" if isinstance(row["goal"], int | float) else str(row["goal"] or "-")
        verdict = {True: "yes", False: "**no**", None: "-"}[row["met"]]
        lines.append(f"| {row['name']} | {value} | {row['against']} | {ratio} | {goal} | {verdict} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the rows as a table, and write it where that is asked. Measurements."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", help="benchmark files whose name holds this")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="also write the table there")
    args = parser.parse_args()
    if args.markdown:
        args.markdown.touch()  # what can't be written fails before hours of measuring
    table = markdown(collect(args.only))
    sys.stdout.write(table)
    if args.markdown:
        args.markdown.write_text(table)


if __name__ == "__main__":
    main()
