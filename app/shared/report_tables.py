"""Reports as tables and files: unit in the header, numbers in the cells, token and versions in every exported row."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import pandas as pd

from app.shared import formats as fmt
from app.shared import glossary
from app.shared.figures.style import RESOURCE_LABELS
from engine.cost.report import Report
from engine.cost.rows import OpRow, Other
from engine.cost.timeline import TRACED, trace
from engine.published.nearest import data_of, row_of
from engine.scenario import Scenario, encode

Files = Mapping[str, tuple[str, Callable[[], Any]]]
"""What can be saved: by a label that ends with the kind of file, its stem's first part and what makes its content."""
# columns named as of an operator
_COLUMNS = ("kind", "group", "phase", "device", "count", "time_s", "duration_s", "share", "bound")
_FASTER = glossary.WORDS["faster"]


def columns(
    rows: Sequence[Any], table: Mapping[str, str], scales: Mapping[str, fmt.Scale] = fmt.FIXED
) -> dict[str, list[Any]]:
    """Attributes of rows as columns by their headings, None where a row has none.

    ``table`` has the path of each, and behind it the unit it is told in: one of ``scales``, or an SI unit with the one
    prefix that suits the column, which stands where the heading has braces; the unit of a count is 1.
    """
    result: dict[str, list[Any]] = {}
    for heading, of in table.items():
        path, _, unit = of.partition(" ")
        values, scale = [reduce(lambda row, name: getattr(row, name, None), path.split("."), row) for row in rows], None
        if unit:
            scale = scales.get(unit) or fmt.scale(values, unit.removeprefix("1"))
            values = [None if v is None else scale(v) for v in values]
        result[heading.format(scale and scale.unit).replace(" ()", "")] = values
    return result


def by_time(report: Report) -> list[OpRow | Other]:
    """Operators and what belongs to none (links, launches, input), slowest first: together the whole latency."""
    return sorted((*report.ops, *report.other), key=lambda row: -row.time_s)


def operators(report: Report) -> pd.DataFrame:
    """Rows of `by_time`, one prefix a column; times are of the whole request, a cell is empty where a row has none."""
    rows, phases = by_time(report), len({op.phase for op in report.ops}) > 1
    names = [f"{row.name} · {row.phase}" if phases and isinstance(row, OpRow) else row.name for row in rows]
    shares = [100 * row.time_s / report.latency_s if report.latency_s else 0.0 for row in rows]
    bounds = [RESOURCE_LABELS[row.bound if isinstance(row, OpRow) else row.resource] for row in rows]
    table = {"Count": "count", "Work ({})": f"flops {fmt.work(report.scenario.precision)}"}
    table |= {"Traffic ({})": "offchip_bytes B", "Peak used (%)": "peak_used %"}
    data = {"Operator": names} | columns(rows, {"Time ({})": "time_s s"})
    frame = pd.DataFrame(data | {"Share of time": shares, "Limited by": bounds} | columns(rows, table))
    return frame.astype({name: float for name in frame if name not in ("Operator", "Limited by")})


def identity(scenario: Scenario) -> dict[str, Any]:
    """The first cells of a file's row: what it is about, and its token."""
    return {"id": f"{scenario.system}/{scenario.workload}", "token": encode(scenario)}


def versions(by_name: Mapping[str, str]) -> dict[str, str]:
    """The last cells of a file's row: which engine and catalog made it."""
    return {f"{name}_version": value for name, value in by_name.items()}


def stamp(report: Report, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a file about a report, with what each belongs to."""
    return [identity(report.scenario) | row | versions(report.versions) for row in rows]


def operator_rows(report: Report) -> list[dict[str, Any]]:
    """A row for each operator and for each time that belongs to none, SI units in the keys."""
    rows: list[dict[str, Any]] = [
        {"operator": op.name}
        | {name: getattr(op, name) for name in _COLUMNS}
        | {"work_flop": op.flops, "offchip_b": op.offchip_bytes, "onchip_b": op.onchip_bytes}
        | {"intensity_flop_per_b": op.intensity, "peak_flop_per_s": op.peak_flops_per_s, "peak_used": op.peak_used}
        | {f"{name}_s": value for name, value in op.resources.items()}
        | op.counters
        for op in report.ops
    ]
    for row in report.other:
        share = row.time_s / report.latency_s if report.latency_s else None
        rows.append(
            {"operator": row.name, "kind": "other", "time_s": row.time_s, "bound": row.resource, "share": share}
        )
    return stamp(report, rows)


def files(report: Report, page: str) -> dict[str, tuple[str, Callable[[], Any]]]:
    """What of a report can be saved."""
    result: dict[str, tuple[str, Callable[[], Any]]] = {
        "Scenario, CSV": (page, lambda: [row_of(report)]),
        "Operators, CSV": (f"{page}-operators", lambda: operator_rows(report)),
        "Whole report, JSON": (page, lambda: data_of(report)),
    }
    if report.timeline:
        of = {"token": report.token} | report.versions
        result["Timeline, Perfetto JSON"] = (f"{page}-trace", lambda: trace(report.timeline, report.timeline_of, **of))
        result["Whole request, Perfetto JSON"] = (
            f"{page}-request-trace",
            lambda: trace(report.in_order(TRACED), "one request", **of),
        )
    return result


def names(report: Report) -> list[str]:
    """System and workload as parts of a file name."""
    return [report.scenario.system, report.scenario.workload]


def detail(op: OpRow | Other, report: Report, larger: bool) -> list[str]:
    """Sentences about one operator: where its time goes, how far its roofs are, what would make it faster.

    `larger`: a larger batch gives more.
    """
    words, unit = glossary.WORDS["operator"], fmt.work(report.scenario.precision)
    if isinstance(op, Other):
        share = fmt.percent(op.time_s / report.latency_s) if report.latency_s else fmt.UNKNOWN
        return [words["other"].format(time=fmt.seconds(op.time_s), share=share), _FASTER[op.resource]]
    count = f"{fmt.count(op.count)} execution{'' if op.count == 1 else 's'}"
    sizes = {"work": fmt.si(op.flops, unit), "offchip": fmt.si(op.offchip_bytes, "B")}
    sizes |= {"onchip": fmt.si(op.onchip_bytes, "B")}
    if op.time_s <= 0:
        return [f"{count} per request.", words["hidden"], words["no_time"].format(**sizes), words["fewer"]]
    beside = words["beside"].format(time=fmt.seconds(op.time_s)) if op.duration_s > op.time_s else ""
    mean, whole = fmt.seconds(op.duration_s / (op.count or 1)), fmt.seconds(op.duration_s)
    make, share = "makes" if op.count == 1 else "make", fmt.percent(op.share)
    lines = [words["time"].format(count=count, mean=mean, make=make, whole=whole, beside=beside, share=share)]
    resources = sorted(((n, s) for n, s in op.resources.items() if s > 0), key=lambda item: -item[1])
    lines.append("Spent on " + ", ".join(f"{RESOURCE_LABELS[n].lower()} {fmt.seconds(s)}" for n, s in resources) + ".")
    if op.flops > 0:
        rate, peak = (fmt.si(value, f"{unit}/s") for value in (op.rate, op.peak_flops_per_s))
        peak = f"{peak} {glossary.format_label(report.scenario.precision)} peak"
        lines.append(words["rate"].format(**sizes, rate=rate, used=fmt.percent(op.peak_used), peak=peak))
    if op.intensity is not None:
        lines.append(words["traffic"].format(**sizes, intensity=fmt.si(op.intensity, f"{unit}/B")))
    if op.counters:
        shares = {name: fmt.percent(value) for name, value in op.counters.items() if name.endswith("_share")}
        dram = fmt.count(round(op.counters["dram_lines"]))
        lines.append(words["counters"].format(**op.counters | shares | {"dram_lines": dram}))
    lines.append(_FASTER["batch" if op.bound == "offchip" and larger else op.bound])
    return lines
