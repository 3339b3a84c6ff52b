"""A serving engine under load as sentences, tables and files. Pure."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from app.shared import formats as fmt
from app.shared.load import ServingLoad
from app.shared.report_tables import stamp
from app.views.traffic.serving import texts
from engine.cost.report import Report
from engine.traffic.engines.calendar import ClosedLoop, Figures
from engine.traffic.engines.operating_points import LABELS, Carried, OperatingPoint

_METRICS = ("mean", "p50", "p90", "p99")


def level(load: ServingLoad, value: float) -> str:
    """A load in words: `64 clients`, `3.20 requests/s`."""
    if load.loop is None:
        return fmt.si(value, "requests/s")
    return fmt.counted(value, "client")


def limits(load: ServingLoad) -> str:
    """`TTFT p99 ≤ 500 ms, TPOT p50 ≤ 50.0 ms`."""
    return ", ".join(f"{LABELS[name]} ≤ {fmt.seconds(seconds)}" for name, seconds in load.limits) or texts.NO_LIMITS


def verdict(load: ServingLoad, max_load: Carried) -> str:
    """The highest load that keeps all limits, and what most of its time goes to. Markdown."""
    if max_load.point is None or max_load.level is None:
        reason = max_load.message.partition(": ")[2]
        return texts.NONE.format(limits=limits(load), said=fmt.plain(reason))
    binds = max_load.point.binds
    return texts.MOST.format(
        level=level(load, max_load.level),
        limits=limits(load),
        rate=fmt.si(max_load.qps, "requests/s"),
        tokens=fmt.si(max_load.point.report.output_tokens_per_s, "tok/s"),
        binds=texts.HELD_UP[binds].format(share=fmt.percent(max_load.point.shares[binds])),
    )


def here(load: ServingLoad, point: OperatingPoint) -> str:
    """Which limits this load keeps. Markdown."""
    limit_s = dict(load.limits)
    at = level(load, point.level)
    misses = [
        texts.ABOVE.format(
            figure=LABELS[name], seconds=fmt.seconds(figure), times=fmt.times((figure or 0.0) / limit_s[name])
        )
        for name in point.missed(limit_s)
        if (figure := point.figure(name)) is not None
    ]
    return (
        texts.HERE_OUTSIDE.format(level=at, missed=", ".join(misses)) if misses else texts.HERE_INSIDE.format(level=at)
    )


def numbers(point: OperatingPoint, phone: bool = False) -> list[tuple[str, str, str, str | None]]:
    """The answer in six numbers: label, value, what stands below (a phone has room for less of it), help."""
    report, inside = point.report, point.report.goodput_per_s
    user, device = fmt.si(point.tokens_per_s_per_user), fmt.si(point.tokens_per_s_per_device)
    output = f"{user} per user" if phone else texts.OUTPUT_PER.format(device=device, user=user)
    gap, gap_name = point.times("itl"), "Inter-token"
    if gap and gap.p50.value == 0.0:  # a pass makes several tokens
        gap, gap_name = point.times("tpot"), "TPOT"
    goodput = texts.NO_LIMITS if inside is None else f"{fmt.percent(inside / report.requests_per_s)} inside the limits"
    blocks = f"{report.peak_kv_blocks:,} of {report.kv_blocks:,} blocks"
    full = fmt.percent(report.peak_kv_blocks / report.kv_blocks)

    def tail(figures: Figures | None) -> tuple[str, str]:
        ends = (None, None) if figures is None else (figures.p50.value, figures.p99.value)
        return fmt.seconds(ends[0]), f"p99 {fmt.seconds(ends[1])}"

    return [
        ("Requests", fmt.si(report.requests_per_s, "QPS"), f"{fmt.count(report.requests)} simulated", None),
        ("Output", fmt.si(report.output_tokens_per_s, "tok/s"), output, texts.OUTPUT_HELP),
        ("TTFT p50", *tail(point.times("ttft")), texts.SECONDS_HELP),
        (f"{gap_name} p50", *tail(gap), texts.GAP_HELP),
        ("Goodput", fmt.si(inside, "QPS"), goodput, texts.GOODPUT_HELP),
        ("KV cache, peak", full, blocks, texts.KV_HELP),
    ]


def latencies(point: OperatingPoint) -> tuple[pd.DataFrame, str]:
    """Every time of the requests, TTFT of the first wave and the steady state apart, and their comparison in words."""
    report = point.report
    rows = {
        "TTFT, first wave": report.first_wave_ttft,
        "TTFT, steady state": report.steady_ttft if report.first_wave_ttft else None,
        "TTFT": point.times("ttft"),
        "Inter-token": point.times("itl"),
        "TPOT": point.times("tpot"),
        "End to end": point.times("e2e"),
    }
    for group in report.classes:
        tails = {"TTFT": group.ttft, "Inter-token": group.itl, "End to end": group.e2e}
        rows |= {f"{name}, priority {group.priority}": figures for name, figures in tails.items()}
    times: dict[str, Figures] = {name: figures for name, figures in rows.items() if figures is not None}
    unit = fmt.MILLISECOND
    columns = {m: [unit(getattr(figures, m).value) for figures in times.values()] for m in _METRICS}
    frame = pd.DataFrame({f"Time ({unit.unit})": list(times)} | columns)
    first, steady = report.first_wave_ttft, report.steady_ttft
    if first is None or steady is None:
        return frame, f"end to end p99 {fmt.seconds(point.figure('e2e:p99'))}"
    return frame, texts.FIRST_WAVE.format(first=fmt.seconds(first.p99.value), steady=fmt.seconds(steady.p99.value))


def _settings(load: ServingLoad) -> dict[str, Any]:
    loop, rules = load.loop or ClosedLoop(1), vars(load.scheduler)
    settings: dict[str, Any] = {"load": "closed" if load.loop else load.load.process}
    if load.loop:
        settings |= {"think_s": loop.think_s, "ramp_s": loop.ramp_s}
    scheduler = {name: value for name, value in rules.items() if not isinstance(value, tuple)}
    return settings | scheduler | {f"limit_{name}": value for name, value in load.limits}


def curve_rows(report: Report, load: ServingLoad, points: Sequence[OperatingPoint]) -> list[dict[str, Any]]:
    """One flat row a load, SI units in the keys."""
    rows = []
    for point in points:
        row: dict[str, Any] = {"clients" if load.loop else "offered_per_s": point.level}
        for name, value in point.report.as_dict().items():
            if isinstance(value, dict):
                row |= {f"{name.removesuffix('_s')}_{metric}_s": seconds for metric, seconds in value.items()}
            elif name not in ("message", "classes"):
                row[name] = value
        for group in point.report.classes:
            row |= {f"ttft_{m}_s_priority_{group.priority}": getattr(group.ttft, m).value for m in _METRICS}
            row |= {f"e2e_{m}_s_priority_{group.priority}": getattr(group.e2e, m).value for m in _METRICS}
        row |= {"output_tokens_per_s_per_device": point.tokens_per_s_per_device, "binds": point.binds}
        row |= {"tokens_per_s_per_user": point.tokens_per_s_per_user}
        row |= {f"share_{name.replace(' ', '_')}": share for name, share in point.shares.items()}
        rows.append(row | _settings(load))
    return stamp(report, rows)
