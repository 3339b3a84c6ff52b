"""Reports as tables and files: unit in the header, numbers in the cells, token and versions in every exported row."""

from collections.abc import Callable, Iterable, Mapping
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


def by_time(report: Report) -> list[OpRow | Other]:
    """Operators and what belongs to none (links, launches, input), slowest first: together the whole latency."""
    return sorted((*report.ops, *report.other), key=lambda row: -row.time_s)


def operators(report: Report) -> pd.DataFrame:
    """Rows of `by_time`, one prefix a column; times are of the whole request, a cell is empty where a row has none."""
    rows = by_time(report)
    ops = [row if isinstance(row, OpRow) else None for row in rows]
    time = fmt.scale([row.time_s for row in rows], "s")
    work = fmt.scale([op.flops for op in report.ops], fmt.work(report.scenario.precision))
    traffic = fmt.scale([op.offchip_bytes for op in report.ops], "B")
    phases = len({op.phase for op in report.ops}) > 1
    frame = pd.DataFrame(
        {
            "Operator": [f"{row.name} · {op.phase}" if op and phases else row.name for row, op in zip(rows, ops)],
            f"Time ({time.unit})": [time(row.time_s) for row in rows],
            "Share of time": [100 * row.time_s / report.latency_s if report.latency_s else 0.0 for row in rows],
            "Limited by": [RESOURCE_LABELS[row.bound if isinstance(row, OpRow) else row.resource] for row in rows],
            "Count": [op and op.count for op in ops],
            f"Work ({work.unit})": [op and work(op.flops) for op in ops],
            f"Traffic ({traffic.unit})": [op and traffic(op.offchip_bytes) for op in ops],
            "Peak used (%)": [op and 100 * op.peak_used for op in ops],
        }
    )
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
    if isinstance(op, Other):
        share = fmt.percent(op.time_s / report.latency_s) if report.latency_s else fmt.UNKNOWN
        return [f"{fmt.seconds(op.time_s)}, {share} of the request, belongs to no operator.", _FASTER[op.resource]]
    unit = fmt.work(report.scenario.precision)
    executions = f"{fmt.count(op.count)} execution{'' if op.count == 1 else 's'}"
    if op.time_s <= 0:
        hidden = "Takes no time of its own: it is fused with its neighbour, or runs while another operator does."
        onchip, offchip = fmt.si(op.onchip_bytes, "B"), fmt.si(op.offchip_bytes, "B")
        work = f"{fmt.si(op.flops, unit)}; {offchip} off chip, {onchip} on chip."
        return [f"{executions} per request.", hidden, work, "Faster only with fewer of them."]
    execution_s = op.duration_s / op.count if op.count else op.duration_s
    made = "makes" if op.count == 1 else "make"
    lines = [f"{executions} of {fmt.seconds(execution_s)} {made} {fmt.seconds(op.duration_s)}, "]
    if op.duration_s > op.time_s:
        lines[0] += f"beside other operators; the request takes {fmt.seconds(op.time_s)} longer with it, "
    lines[0] += f"{fmt.percent(op.share)} of the request."
    resources = sorted(((n, s) for n, s in op.resources.items() if s > 0), key=lambda item: -item[1])
    lines.append("Spent on " + ", ".join(f"{RESOURCE_LABELS[n].lower()} {fmt.seconds(s)}" for n, s in resources) + ".")
    if op.flops > 0:
        lines.append(
            f"{fmt.si(op.flops, unit)} at {fmt.si(op.rate, f'{unit}/s')}: {fmt.percent(op.peak_used)} of "
            f"the {fmt.si(op.peak_flops_per_s, f'{unit}/s')} {glossary.format_label(report.scenario.precision)} peak."
        )
    if op.intensity is not None:
        lines.append(
            f"{fmt.si(op.offchip_bytes, 'B')} off chip, {fmt.si(op.intensity, f'{unit}/B')}; "
            f"{fmt.si(op.onchip_bytes, 'B')} on chip."
        )
    if op.counters:
        share = {name: fmt.percent(op.counters[f"{name}_share"]) for name in ("retiring", "core", "memory", "runtime")}
        lines.append(
            f"About {op.counters['instructions_per_cycle']:.1f} instructions per cycle: issue slots retire "
            f"{share['retiring']}, wait for units {share['core']}, for memory {share['memory']}, "
            f"for the runtime {share['runtime']}; "
            f"{fmt.count(round(op.counters['dram_lines']))} cache lines from DRAM per execution."
        )
    lines.append(_FASTER["batch" if op.bound == "offchip" and larger else op.bound])
    return lines
