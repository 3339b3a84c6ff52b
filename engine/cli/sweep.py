"""``python -m engine sweep SPACE.yaml``: the front of a space of designs, each row with the token of its scenario."""

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import engine.sweep
from engine.cli.command import Answer, refuse
from engine.kernels.jit import pool_size
from engine.scenario import ScenarioError
from engine.scenario.files import beside, writable
from engine.scenario.sentences import counted
from engine.sweep import objectives_of, search, space_of, table_rows, write_rows
from engine.traffic.engines.operating_space import MEANS, has_serving_axes
from engine.traffic.engines.serving_sweep import serving_sweep
from entries.files import read_plain

_MAX_SPACE = 1 << 20  # bytes of a file


@contextmanager
def _executor(kind: str) -> Iterator[Executor | None]:
    """Where chunks run; None is the pool of this process. Dask joins the cluster of DASK_SCHEDULER_ADDRESS, or
    starts one on this machine."""
    if kind == "serial":
        with ThreadPoolExecutor(1) as pool:
            yield pool
    elif kind == "processes":
        with ProcessPoolExecutor(pool_size(), mp_context=get_context("spawn")) as processes:
            yield processes
    elif kind == "dask":
        try:
            client = import_module("distributed").Client
        except ImportError:
            raise ScenarioError("--executor dask needs the package distributed, which is not installed") from None
        with client(dashboard_address=None) as cluster:
            yield cluster.get_executor()
    else:
        yield None


def sweep(args: argparse.Namespace) -> Answer:
    """Every design of a space, or those that a search tries: the front, and what was refused."""
    for path in filter(None, (args.out, args.table, args.top_out)):
        if Path(path).suffix not in (".csv", ".parquet"):
            raise ScenarioError(f"{Path(path).name[:60]}: .csv and .parquet can be written")
        writable(Path(path), args.force)
    data = read_plain(Path(args.space), _MAX_SPACE) if args.space.endswith((".yaml", ".yml", ".json")) else None
    if has_serving_axes(data):
        return _serving(args, data)
    space = space_of(args.space)
    if args.pareto:
        space = replace(space, objectives=objectives_of(args.pareto))

    def progress(count: int, size: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{100 * count // max(size, 1)}% of {size:,} designs")

    if args.search is not None:
        refuse(args, ("executor",), "a search, which runs in this process; leave it out")
        result = search(space, args.search, seed=args.seed, progress=progress, top=args.top)
    else:
        refuse(args, ("seed",), "a sweep of every design; only a search draws")
        with _executor(args.executor) as executor:
            result = engine.sweep.sweep(space, executor=executor, progress=progress, top=args.top)
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    tables = ((args.out, result.front.rows), (args.table, lambda: table_rows(space)), (args.top_out, result.top.rows))
    for path, rows in tables:
        if path:
            with beside(Path(path)) as fresh:
                write_rows(rows(), fresh)
    document: dict[str, Any] = result.to_dict() | {"free": space.without_power}
    counts = result.counts
    lines = [
        f"{counted(counts.done, 'design')} in {result.seconds:.2f} s: set up in {result.setup_s:.2f} s, priced at "
        f"{result.pricing_per_s:,.0f} per second" + (f", of {counts.size:,}" if counts.done < counts.size else ""),
        f"refused     {counts.refused:,}",
        *(f"            {text[:200]}" for text in list(counts.sentences)[:3]),
        *([f"skipped     {counts.skipped:,}, as their system or network has no such setting"] * bool(counts.skipped)),
        *(f"free        {path}: power does not follow it in this model" for path in space.without_power),
        f"do not fit  {counts.unfit:,}",
        *(f"miss {limit}  {n:,}" for limit, n in document["missed"].items()),
        f"front       {len(result.front):,} of {counts.kept:,}{f', written to {args.out}' if args.out else ''}",
    ]
    for row in document["front"][: 0 if args.out else 20]:
        main = {k: v for k, v in row.items() if k != "error_band" and not k.endswith("_version")}
        lines.append("  " + "  ".join(f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={v}" for k, v in main.items()))
    return {k: v for k, v in document.items() if k != "front" or not args.out}, lines


def _serving(args: argparse.Namespace, data: Any) -> Answer:
    """Operating points of a serving engine: the front of tokens a second of a device and of a user."""
    refuse(args, ["search", "pareto", "top", "top_out", "executor"], "axes of serving; leave it out")
    result = serving_sweep(data, args.seed)
    for path, places in ((args.out, result.front.tolist()), (args.table, None)):
        if path:
            with beside(Path(path)) as fresh:
                write_rows(result.rows(places), fresh)
    points, rows = len(result.numbers), list(result.rows(result.front.tolist()))
    document = {
        "points": points,
        "simulated": sum(result.simulated),
        "seconds": result.seconds,
        "closed_form_per_s": points / max(result.pricing_s, 1e-9),
        "refused": dict(result.refused),
        "statistic": dict.fromkeys(MEANS, "mean"),
        "front": rows,
    }
    lines = [
        f"{points:,} operating points in {result.seconds:.2f} s, in closed form {document['closed_form_per_s']:,.0f} "
        f"per second; {document['simulated']} of them simulated pass by pass",
        f"{' and '.join(MEANS)} are means over requests; a limit at a percentile, as tpot:p99=25ms, adds its figure",
        *(f"refused {count:,}: {why[:160]}" for why, count in result.refused.items()),
        *("  ".join(f"{k}={v:.5g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()) for row in rows),
    ]
    return document, lines
