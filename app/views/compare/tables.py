"""A comparison as rows, sentences and files. Pure: reports in, text and plain data out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from app.shared import formats as fmt
from app.shared import glossary, report_tables
from app.shared.comparison import LETTERS
from app.shared.glossary import Metric
from app.views.compare import texts
from engine.cost.report import Report
from engine.cost.rows import totals
from engine.scenario import Scenario


@dataclass(frozen=True)
class ComparedScenario:
    """One scenario of the comparison: its report where it can run and fits, else why it has no numbers."""

    at: int
    name: str
    scenario: Scenario
    note: str
    knobs: tuple[str, ...]
    report: Report | None
    reason: str = ""

    @property
    def letter(self) -> str:
        """A to H: how it is called everywhere on the page."""
        return LETTERS[self.at]


_FIGURES = {"latency": "latency_s", "ttft": "ttft_s", "tpot": "tpot_s", "throughput": "throughput_per_s",
            "per_watt": "throughput_per_w", "power": "power_w", "capex": "capex_usd",
            "million": "usd_per_million"}  # fmt: skip
METRICS = {key: Metric.of(name) for key, name in _FIGURES.items()}
"""Rows of the table by their names in the address and in files."""
MONEY_AND_POWER = ("power_w", "capex_usd")  # the same quantity whatever work is done
_REQUEST = ("system", "workload", "batch", "streams", "inputs", "outputs", "precision", "scheme", "devices")
HEADLINE = ("latency", "ttft", "throughput", "per_watt", "capex")


def value(column: ComparedScenario, metric: Metric) -> float | None:
    """The metric of a column; None where it has no report or the report no such number. [SI]"""
    report = column.report
    missing = report is None or (metric.name == "ttft_s" and report.tpot_s is None)  # no tokens one by one
    return None if missing else getattr(report, metric.name)


def in_common_unit(metric: Metric, columns: Sequence[ComparedScenario]) -> Metric:
    """The metric in what all columns count, where they count alike."""
    units = {c.report.unit for c in columns if c.report}
    return Metric.of(metric.name, units.pop()) if len(units) == 1 else metric


def alike(columns: Sequence[ComparedScenario]) -> bool:
    """Whether all that run count the same thing, so that their rates may be divided."""
    return len({c.report.unit for c in columns if c.report}) <= 1


def comparable(columns: Sequence[ComparedScenario], metric: Metric) -> bool:
    """Whether a metric of them may be divided: rates and times of alike work, money and power of any."""
    return alike(columns) or metric.name in MONEY_AND_POWER


def delta(column: ComparedScenario, base: ComparedScenario, metric: Metric) -> tuple[str, str] | None:
    """A value against the baseline's in words, and the colour that says whether it is better."""
    if column.at == base.at or not comparable((column, base), metric):
        return None
    return glossary.against(value(column, metric), value(base, metric), metric.rising, metric.unit == "s")


def _best(columns: Sequence[ComparedScenario], metric: Metric) -> tuple[int, ...]:
    """Places of the columns with the best value, which several may share; none where all do or can't be ranked."""
    values = {c.at: v for c in columns if (v := value(c, metric)) is not None}
    if not values or not comparable(columns, metric):
        return ()
    best = (max if metric.rising else min)(values.values())
    places = tuple(at for at, v in values.items() if fmt.ratio_text(v, best, "", "") == "same")
    return places if len(places) < len(values) else ()


def common_knobs(columns: Sequence[ComparedScenario]) -> list[str]:
    """Knobs that every scenario has alike."""
    first, *tail = columns
    return [k for k in first.knobs if all(k in c.knobs for c in tail)]


def differences_of(columns: Sequence[ComparedScenario]) -> list[str]:
    """Of each scenario, the knobs that not all have alike. Markdown."""
    common = set(common_knobs(columns))
    return [" · ".join(fmt.plain(k) for k in c.knobs if k not in common) or "nothing" for c in columns]


def frame(columns: Sequence[ComparedScenario], base: ComparedScenario) -> pd.DataFrame:
    """Rows metrics, columns scenarios; cells are Markdown, the best of a row is bold, deltas stand beneath."""
    rows = dict[str, list[str]]()
    for metric in METRICS.values():
        values = [value(c, metric) for c in columns]
        if all(v is None for v in values) and not (metric.name == "capex_usd" and any(_no_price(c) for c in columns)):
            continue
        units = {in_common_unit(metric, [c]).unit for c in columns if c.report}
        best = _best(columns, metric)
        unit = next(iter(units)) if len(units) == 1 else None
        scale = fmt.scale(values, unit) if unit else None
        label = in_common_unit(metric, columns).label + (f" ({scale.unit})".replace("$", "\\$") if scale else "")
        cells = []
        for column, v in zip(columns, values, strict=True):
            text = scale.text(v) if scale else in_common_unit(metric, [column]).text(v)
            if metric.unit == "$" and column.report is not None and _no_price(column):
                text = str(column.report.unpriced)
            text = f"**{text}**" if column.at in best else text
            against = delta(column, base, metric)
            cells.append(f"{text}  \n:{against[1]}[{against[0]}]" if against else text)
        rows[label] = cells
    rows["Price contains"] = [c.report.price_of if c.report else "" for c in columns]
    rows["Limited by"] = [c.report.limited_by if c.report else fmt.UNKNOWN for c in columns]
    rows["Error band"] = [fmt.band(c.report.error_band.relative) if c.report else fmt.UNKNOWN for c in columns]
    if len(columns) > 1:
        rows["Differs in"] = differences_of(columns)
    if any(c.note for c in columns):
        rows["Note"] = [fmt.plain(c.note) for c in columns]
    heads = [f"{c.letter} · {fmt.plain(c.name)}{' (baseline)' if c.at == base.at else ''}" for c in columns]
    return pd.DataFrame.from_dict(rows, "index", columns=heads).rename_axis("")


def _no_price(column: ComparedScenario) -> bool:
    return column.report is not None and column.report.unlisted and column.report.capex_usd is None


def _name(column: ComparedScenario) -> str:
    return f"**{column.letter}, {fmt.plain(column.name)}**"


def verdict(columns: Sequence[ComparedScenario], base: ComparedScenario) -> str:
    """Who is best at what, against the baseline; and where the error bands leave it open. Markdown."""
    running = [c for c in columns if c.report is not None]
    if not running:
        return texts.NONE_RUNS
    if len(running) == 1:
        return texts.ALONE.format(name=_name(running[0]))
    wins: dict[tuple[int, ...], list[str]] = {}
    for key in HEADLINE:
        metric = METRICS[key]
        places = _best(running, metric)
        if not places:
            continue
        best = columns[places[0]]
        against = None if base.at in places else delta(best, base, metric)
        text = fmt.plain(in_common_unit(metric, [best]).text(value(best, metric)))
        wins.setdefault(places, []).append(
            f"{glossary.in_text(metric.label)} ({text}{f', {against[0]} than {base.letter}' if against else ''})"
        )
    if not wins:
        return texts.SAME_WORK if alike(running) else texts.DIFFERENT_SCENARIOS.format(difference=_different(running))
    order = sorted(wins, key=lambda places: -len(wins[places]))
    names = {places: _join([_name(columns[at]) for at in places]) for places in order}
    parts = [f"{names[places]} {'are' if places[1:] else 'is'} best on {_join(wins[places])}" for places in order]
    text = "; ".join(parts) + "."
    return f"{text} {_open(base, columns[order[0][0]])} {_different(running)}".strip()


def _different(running: Sequence[ComparedScenario]) -> str:
    """Whether they do different work, which no ratio of theirs may hide."""
    units = list(dict.fromkeys(c.report.unit for c in running if c.report))
    if len(units) > 1:
        return texts.UNITS_DIFFER.format(units=_join([f"{u}s" for u in units]))
    if len({c.scenario.workload for c in running}) > 1:
        return texts.NETWORKS_DIFFER
    return ""


def _join(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _open(base: ComparedScenario, best: ComparedScenario) -> str:
    """Whether the error bands of the winner and the baseline leave their order open."""
    if best.at == base.at or best.report is None or base.report is None or best.report.unit != base.report.unit:
        return ""
    bands = (best.report.error_band.relative, base.report.error_band.relative)
    if lacking := sorted(c.letter for c, b in zip((best, base), bands, strict=True) if b is None):
        return f":gray[{' and '.join(lacking)} {'have' if len(lacking) > 1 else 'has'} no error band.]"
    fast, slow = sorted((best.report, base.report), key=lambda report: report.latency_s)
    high, low = fast.interval()["latency_high_s"], slow.interval()["latency_low_s"]
    if high is not None and low is not None and high >= low:
        return texts.BANDS_OVERLAP.format(pair=" and ".join(sorted((best.letter, base.letter))))
    return ""


def differences(base: Report, rival: Report) -> pd.DataFrame:
    """Operators and what belongs to none, matched by name and phase, those that move most first.

    Times of a whole request: of `base` and `other`, NaN where one does not execute it, and what the other `gained`. [s]
    """

    def times(report: Report) -> dict[str, float]:
        phases = len({op.phase for op in report.ops}) > 1
        names = ((f"{row.name} · {row.phase}" if phases else row.name, row.time_s) for row in report.ops)
        return totals([*names, *((row.name, row.time_s) for row in report.other)])

    frame = pd.DataFrame({"base": times(base), "other": times(rival)})
    frame["gained"] = frame["base"].fillna(0.0) - frame["other"].fillna(0.0)
    return frame.sort_values("gained", key=lambda gains: -gains.abs(), kind="stable")


def operators(rows: pd.DataFrame, base: str, rival: str) -> pd.DataFrame:
    """Operators of two scenarios beside each other, one prefix for all times."""
    scale = fmt.scale(rows[["base", "other"]].to_numpy().ravel(), "s")
    heads = {"base": base, "other": rival, "gained": f"Saved by {rival}"}
    titles = {name: f"{head} ({scale.unit})" for name, head in heads.items()}
    return (rows * scale.factor).rename(columns=titles).rename_axis("Operator").reset_index()


def rows(columns: Sequence[ComparedScenario], base: ComparedScenario, versions: dict[str, str]) -> list[dict[str, Any]]:
    """One flat row a scenario: identity and token first, SI units in the keys, versions last."""
    rows = []
    tail = report_tables.versions(versions)
    for column in columns:
        s = column.scenario
        row = report_tables.identity(s) | {"letter": column.letter}
        row |= {"name": column.name, "baseline": column.at == base.at, "runs": column.report is not None}
        if column.report is not None:
            row |= {k: v for k, v in column.report.csv_row().items() if k not in tail}
        else:
            row |= {name: getattr(s, name) for name in _REQUEST}
        for key, metric in METRICS.items():
            now, then = value(column, metric), value(base, metric)
            ratio = now / then if now is not None and then and comparable((column, base), metric) else None
            row[f"{key}_over_baseline"] = ratio
        rows.append(row | {"reason": column.reason, "note": column.note} | tail)
    return rows
