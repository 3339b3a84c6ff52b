"""A sweep as tables, files and sentences. Pure but for the candidates' labels."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from app.shared import formats as fmt
from app.shared import specs
from app.shared.glossary import Metric, in_text
from app.shared.report_tables import identity
from app.views.sweep import spaces, texts
from app.views.sweep.axes import Candidate
from app.views.sweep.columns import settings_along, settings_of
from app.views.sweep.outcome import Outcome, SweptDesign
from engine.cost.report import Report
from engine.cost.rows import RESOURCE_NAMES
from engine.sweep.result import origin
from engine.traffic.engines.serving_sweep import HOW

_FIGURES = ("power_w", "throughput_per_w", "capex_usd")  # figures of a selected design beside its objectives


def setting(candidate: Candidate, value: Any) -> str:
    """A value of an axis as people write it: `INT8`, `64`, `920 GB/s`."""
    return candidate.text(value) if candidate.row is None else specs.value_text(candidate.row, float(value))


def frame(outcome: Outcome, designs: Sequence[SweptDesign]) -> pd.DataFrame:
    """Designs as rows: objectives first, then every axis that tells them apart; one prefix a column."""
    data: dict[str, Any] = {}
    for name in dict.fromkeys((*outcome.objectives, *(n for n in outcome.metrics if n in designs[0].figures))):
        m, values = outcome.metrics[name], [d.figures[name] for d in designs]
        scale = spaces.scale(m, values)
        data[f"{m.label} ({scale.unit})"] = [scale(v) for v in values]
    if outcome.serving:
        data[texts.FOUND_BY] = [HOW[d.figures["simulated"] > 0] for d in designs]
    for path, values in _settings(outcome, designs):
        candidate = outcome.candidates[path]
        if len(designs) > 1 and len(set(values)) == 1:
            continue
        if candidate.row is not None:
            scale = fmt.scale([float(v) for v in values], candidate.row.unit)
            unit = f" ({scale.unit})" if scale.unit else ""
            data[candidate.label[:1].upper() + candidate.label[1:] + unit] = [scale(float(v)) for v in values]
        elif all(isinstance(v, int | float) and not isinstance(v, bool) for v in candidate.options):
            data[candidate.label] = values
        else:
            data[candidate.label] = [candidate.text(v) for v in values]
    return pd.DataFrame(data)


def _settings(outcome: Outcome, designs: Sequence[SweptDesign]) -> Iterator[tuple[str, list[Any]]]:
    """Every axis with its value in each design."""
    for path, options, stride in settings_along(outcome.space):
        yield path, [options[d.number // stride % len(options)] for d in designs]


def alike(outcome: Outcome, designs: Sequence[SweptDesign]) -> str:
    """Axes on which several designs are one, which take no column: `Precision INT8, Devices 6`; else empty."""
    if len(designs) < 2:
        return ""
    common = [
        (outcome.candidates[path], values[0]) for path, values in _settings(outcome, designs) if len(set(values)) == 1
    ]
    return ", ".join(f"{c.label[:1].upper()}{c.label[1:]} {setting(c, value)}" for c, value in common)


def pair(outcome: Outcome, design: SweptDesign, choice: Report | None) -> list[tuple[str, str, str]]:
    """Current and selected design side by side, as (name, current, selected): settings, then figures.

    An operating point has no ``choice`` report.
    """
    report, groups, rows = outcome.report, outcome.candidates, []
    for path, value in settings_of(outcome.space, design.number).items():
        candidate = groups[path]
        now = candidate.now
        if candidate.row is not None:
            text = setting(candidate, specs.at_present(report.scenario, path))
        else:
            text = "auto" if now is None else candidate.text(now)
        rows.append((candidate.label[:1].upper() + candidate.label[1:], text, setting(candidate, value)))
    if choice is None:
        rows += [(m.label, fmt.UNKNOWN, m.text(design.figures[name])) for name, m in outcome.metrics.items()]
        return [*rows, (texts.FOUND_BY, fmt.UNKNOWN, HOW[design.figures["simulated"] > 0])]
    for name in dict.fromkeys((*outcome.objectives, *_FIGURES)):
        m = outcome.metrics.get(name)
        if m is not None:
            now_text = m.text(getattr(report, name)) if report.fits else fmt.UNKNOWN
            rows.append((m.label, now_text, m.text(getattr(choice, name))))
    if choice.unlisted and "capex_usd" not in outcome.metrics:
        rows.append(("Capital cost", fmt.usd(report.capex_usd), str(choice.unpriced)))
    now_limit, limit = (_limit(of) if of.fits else fmt.UNKNOWN for of in (report, choice))
    return [*rows, ("Limited by", now_limit, limit)]


def _limit(report: Report) -> str:
    """What the verdict names, with its share where most of the time goes to it: `off-chip memory 55%`."""
    largest = RESOURCE_NAMES[report.bound]
    share = f" {fmt.percent(report.breakdown[report.bound] / report.latency_s)}" if report.limited_by == largest else ""
    return report.limited_by + share


def summary(outcome: Outcome) -> str:
    """The result in words: how many, how fast, how many stand, which limits the rest miss."""
    result, counts = outcome.result, outcome.result.counts
    head = f"**{fmt.count(counts.done)} {spaces.noun(outcome.serving)} in {fmt.seconds(result.seconds)}**"
    if counts.done < counts.size and not outcome.partial:
        head += f" of {fmt.count(counts.size)}, searched"
    pace = texts.PACE.format(setup=fmt.seconds(result.setup_s), done=fmt.si(result.pricing_per_s))
    rate = pace if result.seconds > result.setup_s else ""
    if outcome.serving:
        simulations = int(result.cloud[-1].sum())
        pace_s = (counts.done - counts.refused) / max(result.seconds - result.setup_s, 1e-9)
        rate = texts.POINTS_PACE.format(done=fmt.si(pace_s), simulated=f"{simulations:,}")
    if not outcome.front:
        return f"{head}{rate}."
    share = fmt.percent(counts.kept / counts.done)
    best = []
    for name in outcome.objectives[:2]:
        m = outcome.metrics[name]
        values = [d.figures[name] for d in outcome.front]
        best.append(
            f"{in_text(m.label)} {'up to' if m.rising else 'from'} "
            f"**{fmt.plain(m.text(max(values) if m.rising else min(values)))}**"
        )
    text = texts.RESULT.format(done=head, rate=rate, share=share, count=len(outcome.front), best=", ".join(best))
    failures = _failures(outcome)
    return f"{text} Not feasible: {failures}." if failures else text


def _failures(outcome: Outcome) -> str:
    return ", ".join(f"{_limit_name(outcome, name)} {fmt.percent(share)}" for share, name in outcome.failures)


def _limit_name(outcome: Outcome, name: str) -> str:
    """What a design fails, in words."""
    return texts.MISSED.get(name) or outcome.metrics[name].label


def unmet(outcome: Outcome) -> str:
    """What to say where no design meets all limits: the closest one and the limit that binds."""
    text = texts.NO_DESIGN.format(noun=spaces.noun(outcome.serving))
    limits = {limit.figure: limit.value for limit in outcome.space.limits}
    closest = over(outcome.closest.figures, limits, outcome.metrics) if outcome.closest is not None else ""
    if closest:
        text += f" Closest: {closest}."
    for share, name in outcome.failures[:1]:
        text += texts.BINDING_LIMIT.format(failed=_limit_name(outcome, name), share=fmt.percent(share))
    return text


def over(figures: Mapping[str, float], limits: Mapping[str, float], metrics: Mapping[str, Metric]) -> str:
    """Figures that lie above their limits: `21.3 ms (limit 20.0 ms) at 58 W (limit 50 W)`."""
    names = [name for name, limit in limits.items() if figures.get(name, 0.0) > limit]
    above = ((metrics.get(name) or Metric.of(name), limits[name]) for name in names)
    return " at ".join(f"{m.text(figures[m.name])} (limit {m.text(limit)})" for m, limit in above)


def rows(outcome: Outcome) -> list[dict[str, Any]]:
    """The front as rows of a file: token first, settings, then figures in SI, then error band and versions."""
    rows = []
    for d in outcome.front:
        scenario = outcome.space.scenario(d.number)
        row = identity(scenario) | {"design": d.number} | settings_of(outcome.space, d.number) | dict(d.figures)
        if "simulated" in row:
            row["how"] = HOW[row.pop("simulated") > 0]
        rows.append(row | origin(outcome.space, scenario, d.figures))
    return rows
