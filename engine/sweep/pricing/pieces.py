"""Pieces of the model as functions of a design: each is tabulated against the axes that it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine.cost.figures import N, column_sums
from engine.cost.schedule import (
    by_resource,
    collectives,
    exchange,
    exchange_issue,
    exchange_latency,
    exchange_rate,
    exchange_start,
    exchange_wire,
)
from engine.devices.common.column import largest
from engine.devices.common.contract import DeviceFamily, Halves, Job
from engine.resolve.bind import Wire
from engine.sweep.pricing.design import Design

__all__ = [
    "collectives_of",
    "demand_of",
    "known",
    "once_a_request",
    "others_apart",
    "places",
    "prices",
    "rate_of",
    "whole_runs",
    "wire_rates",
]


def whole_runs(stage: int, phase: int, fam: DeviceFamily) -> Callable[[Design], np.ndarray]:
    """Seconds by resource of a pass: operators, then everything else."""

    def piece(design: Design) -> np.ndarray:
        if design.passes(phase) <= 0:
            return np.zeros(2 * N)
        job = design.job(stage, phase)
        seconds, other = fam.times(job)
        columns = seconds.dtype == object
        totals = sum(seconds, np.zeros(N)) if columns else column_sums(seconds)
        return np.concatenate([totals, _others(design, stage, fam, job, other)])

    return piece


def _others(design: Design, stage: int, fam: DeviceFamily, job: Job, own: Sequence[Any]) -> np.ndarray:
    """Seconds by resource of a pass that belong to no operator: the family's own, then exchanges between devices."""
    wire = exchange_wire(design.plan.stages[stage], fam)
    return by_resource([*own, *(exchange(job, wire)[0] if wire is not None else ())])


def others_apart(stage: int, phase: int, fam: DeviceFamily, halves: Halves) -> Callable[[Design], np.ndarray]:
    """Seconds by resource of a pass that belong to no operator, of a family whose operators come in halves."""

    def piece(design: Design) -> np.ndarray:
        if design.passes(phase) <= 0:
            return np.zeros(N)
        job = design.job(stage, phase)
        return _others(design, stage, fam, job, halves.other(job) if halves.other else ())

    return piece


def demand_of(stage: int, phase: int, halves: Halves) -> Callable[[Design], tuple[Any, ...] | None]:
    """What a pass asks of the device; None where there is none."""

    def piece(design: Design) -> tuple[Any, ...] | None:
        return halves.demand(design.job(stage, phase)) if design.passes(phase) > 0 else None

    return piece


def collectives_of(stage: int, phase: int) -> Callable[[Design], tuple[np.ndarray] | None]:
    """Collectives of a pass as `engine.cost.figures.exchange_points` takes them; None where there is no pass."""

    def piece(design: Design) -> tuple[np.ndarray] | None:
        wire = design.plan.stages[stage].wire
        if design.passes(phase) <= 0 or wire is None:
            return None
        found = [each.row for each in collectives(design.job(stage, phase), wire)]
        return (np.array(found, dtype=np.float64).reshape(-1, 5),)

    return piece


def wire_rates(stage: int) -> tuple[Callable[[Design, Job], float], ...]:
    """Rates of `engine.cost.figures.exchange_points`, of a design and its job. [B/s] and [s]."""

    def of(rate: Callable[[Job, Wire], float]) -> Callable[[Design, Job], float]:
        def found(design: Design, job: Job) -> float:
            wire = design.plan.stages[stage].wire
            assert wire is not None
            return rate(job, wire)

        return found

    return tuple(of(rate) for rate in (exchange_rate, exchange_latency, exchange_start, exchange_issue))


def _first(design: Design, stage: int) -> int | None:
    """The first phase that a stage runs."""
    for phase in range(len(design.bound.graph.phases)):
        if design.passes(phase) > 0 and design.job(stage, phase).ops:
            return phase
    return None


def once_a_request(stage: int, fam: DeviceFamily) -> Callable[[Design], np.ndarray]:
    """What a stage pays once a request, by resource. [s]"""

    def piece(design: Design) -> np.ndarray:
        phase = _first(design, stage)
        if phase is None:
            return by_resource(())
        return by_resource(fam.request(design.job(stage, phase)) if fam.request else ())

    return piece


def places(stage: int, fam: DeviceFamily) -> Callable[[Design], tuple[float, ...]]:
    """Above 0 where something that a stage must hold does not fit. [-]"""

    def piece(design: Design) -> tuple[float, ...]:
        phase = _first(design, stage)
        return (0.0 if phase is None else largest([0.0, *(f.lacks for f in fam.place(design.job(stage, phase)))]),)

    return piece


def known(value: float | None) -> tuple[float]:
    """A figure that may not be published; NaN stands for None. In the figure's own unit, as [USD] or [W]."""
    return (float("nan") if value is None else value,)


def prices(design: Design) -> tuple[float, ...]:
    """Amortisation [a], utilisation [-], PUE [-] and price of energy [USD/kWh], as `engine.cost.figures.GLOBALS` has
    them."""
    c = design.bound.scenario.costs
    return c.years, c.utilisation, c.pue, c.energy_usd_per_kwh


def rate_of(stage: int, phase: int, rate: Callable[[Design, Job], float]) -> Callable[[Design], tuple[float]]:
    """One of a family's rates, of a stage's job in a phase. In the rate's own unit, as [B/s]."""
    return lambda design: (rate(design, design.job(stage, phase)),)
