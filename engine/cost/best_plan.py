"""(workload, system, mapping) -> Plan: laid out as its scheme says, and what the scheme leaves open chosen by price."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from engine.cost.assemble import Figures, Schedule, assemble, figures_where_it_fits, plan_keys
from engine.devices.common.cached import remembered
from engine.devices.common.contract import Unsupported
from engine.plan.parallel import shared_otherwise
from engine.plan.plan import Plan
from engine.plan.schemes import open_plan
from engine.resolve.bound import Bound
from engine.scenario import ScenarioError


def make_plan(bound: Bound) -> Plan:
    """Plan of a bound scenario; ScenarioError or Unsupported says in one sentence why there is none."""
    plan = open_plan(bound)
    return _fastest(bound, plan) if plan.options else plan


def alike(plan: Plan) -> tuple[int, ...]:
    """What plans have in common that differ in their tiles alone, by the `id` of its parts."""
    return id(plan.hops), *(x for stage in plan.stages for x in (id(stage.ops), id(stage.device), stage.ways))


def _fastest(bound: Bound, plan: Plan) -> Plan:
    """The option of a plan that fits, if any does, with the shortest interval between requests, then least latency."""
    identity = bound.scenario.model_dump_json(exclude={"devices"}), bound.catalog.digest, bound.zoo.digest
    candidates: list[tuple[bool, float, float]] = []
    for _, group in groupby(plan.options, key=alike):
        first, *tail = group
        candidates += plan_keys(bound, [first, *tail]) if tail else [_plan_key((identity, bound, first))]
    return plan.options[candidates.index(min(candidates))]


def _parts(plan: Plan) -> tuple[Any, ...]:
    """All of a plan but notes and specs: what its price depends on beside a scenario, whose specs are its own."""
    specs, parts = ("device", "wire", "sends"), (*plan.stages, *plan.hops)
    fields = ((name, value) for part in parts for name, value in vars(part).items() if name not in specs)
    return plan.replicas, plan.devices_used, plan.pipelined, plan.shared, *fields


@remembered(lambda option: (option[0], _parts(option[2])))
def _plan_key(option: tuple[Any, Bound, Plan]) -> tuple[bool, float, float]:
    """`plan_keys` of a scenario's plan. More devices leave the same plans open as fewer, and some beside."""
    return plan_keys(option[1], [option[2]])[0]


def enough_devices(bound: Bound, latency_s: float) -> str | None:
    """A sentence on the fewest devices of the system that hold on chip what the scenario's stream; None: none do.

    The latency in [s].
    """
    s, schemes = bound.scenario, bound.system.schemes
    pinned = "pinned" in schemes and bound.family.pins is not None
    for count in sorted(n for n in bound.system.devices[0].counts if pinned and n > s.devices):
        wider = replace(bound, scenario=s.with_(devices=count, scheme="pinned"))
        times = assemble(wider, make_plan(wider))
        over = any(fit.rest and fit.need_bytes > fit.capacity_bytes for stage in times.priced for fit in stage.fits)
        if not over and times.latency_s < latency_s:
            return f"{count} devices would hold it and answer {latency_s / times.latency_s:.3g} times as fast."
    return None


def fewer_devices(bound: Bound, latency_s: float) -> str | None:
    """A sentence where fewer devices that share every operator answer sooner than the scenario's; None: they don't.

    Tried are the powers of two below the scenario's count on which the network fits. The latency in [s].
    """
    s = bound.scenario
    if s.scheme != "tensor" or shared_otherwise(s):
        return None
    best, count = latency_s, 0
    for power in range((s.devices - 1).bit_length()):
        fewer = replace(bound, scenario=s.with_(devices=2**power, scheme="tensor" if power else "single"))
        figures = figures_where_it_fits(fewer, make_plan(fewer))
        if figures is not None and figures.latency_s < best:
            best, count = figures.latency_s, 2**power
    if not count:
        return None
    alone = "One device alone" if count == 1 else f"{count} devices alone"
    return (
        f"{alone} would answer in {best / latency_s:.0%} of the time of {s.devices}: what these exchange takes longer "
        "than sharing the work saves."
    )


_WORTH = 1.05  # times the rate from which another count of streams is offered
_NEARER = 1.01  # times the rate from which one further off is
_AS_MUCH = 0.999  # times the rate from which what answers sooner is no less
_SOONER = 0.8  # of the time up to which it is offered, and what takes longer is told


def better_streams(bound: Bound, times: Schedule, limit: str, names: Mapping[str, str]) -> str | None:
    """A sentence where another count of streams answers more a second, or as much sooner, with what the present one
    waits for: its ``limit`` where that is none of the resources of those ``names``.

    Tried are the powers of two, and the shares of the most streams that leave none of a device idle.
    """
    s = bound.scenario
    max_streams = bound.family.max_streams(bound.device, s)
    counts = {2**power for power in range(max_streams.bit_length())} | {max_streams // share for share in range(1, 7)}
    best: Figures = times
    count = 0
    for streams in sorted(counts - {0, s.streams}, key=lambda n: abs(n - s.streams)):
        candidate = replace(bound, scenario=s.with_(streams=streams))
        try:
            figures = figures_where_it_fits(candidate, make_plan(candidate))
        except (ScenarioError, Unsupported):
            continue
        if figures is None:
            continue
        gain, sooner = figures.units_per_s / best.units_per_s, figures.latency_s / best.latency_s
        if gain > (_WORTH if best is times else _NEARER) or (gain > _AS_MUCH and sooner < _SOONER):
            best, count = figures, streams
    if not count:
        return None
    gain, sooner = best.units_per_s / times.units_per_s, best.latency_s / times.latency_s
    proposal, now = (f"{n} stream{'s' if n > 1 else ''}" for n in (count, s.streams))
    rate = "the same throughput" if gain < 2.0 - _AS_MUCH else f"{gain:.3g}× the throughput"
    offer = f"{proposal}: {rate} at {sooner:.3g}× the latency"
    extra_s = {name: times.breakdown[name] - seconds for name, seconds in best.breakdown.items()}
    slower = max(extra_s, key=lambda r: extra_s[r])
    if sooner > _SOONER:
        return f"{offer}; with {now}, cores of the device or of its host stay idle."
    if limit not in names.values():
        return f"{offer}; {now} wait for {limit}."
    part = extra_s[slower] / (times.latency_s - best.latency_s)
    return f"{offer}; of what {now} wait longer, {min(part, 1.0):.0%} is {names[slower]}."
