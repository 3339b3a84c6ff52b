"""Latency along the load of a node's model, with the limit its document sets, and of the host's CPU alone beside it.

The queue and its latencies are `engine.traffic`'s, its service times `evaluate`'s; requests come independently of each
other. Estimates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.devices.common.contract import Unsupported
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from engine.traffic import NoBatching, Poisson, TandemQueue, TrafficError, capacity, instant, latency_curve
from engine.traffic.scenario_load import load_of
from hardware_specs.catalog import Catalog, default_catalog
from model_zoo.catalog import Zoo, default_zoo

_POINTS = 16
_LOWEST, _HIGHEST = 0.05, 0.97  # of capacity
_REQUESTS = 20_000


@dataclass(frozen=True)
class LoadCurve:
    """Latency of requests at rising loads; empty, with a sentence, where the system can't run them at all."""

    qps: tuple[float, ...]  # requests a second
    p50_s: tuple[float, ...]
    p99_s: tuple[float, ...]
    idle_s: float  # latency of a request that meets no other
    capacity_qps: float
    held_qps: float  # highest load drawn whose 99th percentile is inside the limit; 0: none
    streams: int
    problem: str = ""


def limit_of(workload: str, zoo: Zoo | None = None) -> float | None:
    """Latency that the workload's document allows a request. [s]"""
    limit = (zoo or default_zoo()).workload(workload).limit_s
    return float(limit.value) if limit is not None and isinstance(limit.value, int | float) else None


def limited(zoo: Zoo | None = None) -> tuple[str, ...]:
    """Workloads whose document states a limit, by its number and their name."""
    zoo = zoo or default_zoo()
    workloads = [zoo.workload(id) for id in zoo.ids()]
    return tuple(w.id for w in sorted(workloads, key=lambda w: (w.document or "", w.name)) if w.limit_s is not None)


def curve(scenario: Scenario, limit_s: float | None = None) -> LoadCurve:
    """Latency at sixteen loads up to almost all that the scenario can carry; a request is one batch of it."""
    try:
        system = load_of(scenario, NoBatching())
    except (TrafficError, ScenarioError, Unsupported) as error:
        return LoadCurve((), (), (), 0.0, 0.0, 0.0, scenario.streams, str(error))
    top = capacity(system).qps
    loads = np.linspace(_LOWEST, _HIGHEST, _POINTS) * top
    qps, p50, p99 = [], [], []
    if instant(system, Poisson(float(loads[0]))) is not None:
        for load in loads.tolist():
            law = instant(system, Poisson(load))
            assert law is not None
            qps.append(load)
            p50.append(law.quantile(0.5))
            p99.append(law.quantile(0.99))
    else:
        reports = latency_curve(system, Poisson(1.0), points=_POINTS, low=_LOWEST, high=_HIGHEST, requests=_REQUESTS)
        for report in reports:
            if report.latency is not None:
                qps.append(report.qps)
                p50.append(report.latency.p50.value)
                p99.append(report.latency.p99.value)
    assert isinstance(system, TandemQueue)  # whole requests, not tokens
    alone = system.stations[0].service.latency_s
    assert alone is not None
    idle = float(alone[0, 0])
    inside = max((q for q, t in zip(qps, p99, strict=True) if limit_s is None or t <= limit_s), default=0.0)
    return LoadCurve(tuple(qps), tuple(p50), tuple(p99), idle, top, inside, scenario.streams)


def on_host(scenario: Scenario, limit_s: float | None = None, catalog: Catalog | None = None) -> LoadCurve:
    """The same requests on the system's host alone: a core each, or all cores for each, whichever carries more."""
    catalog = catalog or default_catalog()
    bound = bind(scenario, catalog)
    if bound.host is None:
        return LoadCurve((), (), (), 0.0, 0.0, 0.0, 1, f"{bound.system.name} names no host.")
    alone = next(
        (
            id
            for id in catalog.ids("systems")
            if (system := catalog.system(id)).topology == "single" and system.devices[0].device == bound.host.id
        ),
        None,
    )
    if alone is None:
        return LoadCurve((), (), (), 0.0, 0.0, 0.0, 1, f"{bound.host.name} is no system of its own in the catalog.")
    cores = int(bound.host.cores)
    points = []
    for streams in dict.fromkeys((1, cores)):
        try:
            single = default_scenario(
                alone,
                scenario.workload,
                catalog,
                batch=scenario.batch,
                inputs=scenario.inputs,
                outputs=scenario.outputs,
                params=scenario.params,
                streams=streams,
            )
        except (ScenarioError, Unsupported) as error:
            return LoadCurve((), (), (), 0.0, 0.0, 0.0, streams, str(error))
        points.append(curve(single, limit_s))
    return max(points, key=lambda c: (c.held_qps, c.capacity_qps))
