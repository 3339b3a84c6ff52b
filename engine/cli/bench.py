"""Ratios measured side by side in one run: gathers the rows of every ``tests/bench/bench_*.py``."""

import argparse
import platform
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

from engine.cli.command import Answer
from engine.kernels.jit import host_features, pool_size
from engine.scenario import ScenarioError
from engine.scenario.files import beside, writable

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "bench"


def bench(args: argparse.Namespace) -> Answer:
    """Rows of the benchmarks, and the same as a table. Measurements."""
    if args.markdown:
        writable(Path(args.markdown), True)
    rows = collect(args.only)
    if args.markdown:
        with beside(Path(args.markdown)) as fresh:
            fresh.write_text(markdown(rows))
    return rows, markdown(rows).splitlines()


def collect(only: str | None = None) -> list[dict[str, Any]]:
    """Rows ``{name, value, unit, against, ratio, goal, met}`` of all benchmark files, or of those whose name holds
    ``only``. Measurements; noisy, so each row is a ratio taken against its rival in the same process. A benchmark that
    fails is a row that says so, and what was measured before and after it stays.
    """
    files = [f for f in sorted(FOLDER.glob("bench_*.py")) if only is None or only in f.stem]
    if not files:
        names = ", ".join(f.stem.removeprefix("bench_") for f in sorted(FOLDER.glob("bench_*.py"))) or "none here"
        raise ScenarioError(f"no benchmark matches {only!r}; known: {names}")
    rows: list[dict[str, Any]] = []
    for file in files:
        sys.stderr.write(f"{file.stem} ...\n")
        try:
            rows.extend(run_path(str(file))["rows"]())  # those before an error stay
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
