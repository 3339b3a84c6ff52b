"""Where to cut a network between two executors: every split point with the parts of its latency, and the best one.

Every point is the scenario with that cut, put together as `evaluate` does. Estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from engine.cost.assemble import Figures, figures_of
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.plan.plan import Plan
from engine.plan.schemes import executors, second_format_of, split_plan
from engine.resolve.bind import Bound, bind
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo

Goal = Literal["latency", "throughput", "energy", "first", "second"]
"""Least latency, least time between requests, least energy, or least time on the first or second executor."""


@dataclass(frozen=True)
class SplitPoint:
    """One way to cut: the first `at` operators on the first executor. Times of one request. [s]"""

    at: int
    rest: int  # operators on the second executor
    after: str  # last operator of the first part; empty where everything is on the second
    latency_s: float  # end to end
    interval_s: float  # between two requests of a stream when executors and wires work on different ones
    first_s: float
    start_s: float  # serialising, and reading back at the other end
    flight_s: float  # latency of the wire
    transfer_s: float  # bytes over its usable rate
    handover_s: float  # what arrived, drawn into the second executor's caches
    second_s: float
    outside_s: float  # input and output of the whole network
    crossing_bytes: float
    energy_j: float | None  # of a request at the full rate; None where a power is not published
    first_parameters: float  # stored on the first executor

    @property
    def place(self) -> str:
        """Where the cut is, in words."""
        if not self.at:
            return "all on the second device"
        return f"after {self.after}" if self.rest else "all on the first device"

    @property
    def link_s(self) -> float:
        """Everything the wire between the parts adds. [s]"""
        return self.start_s + self.flight_s + self.transfer_s


def _point(bound: Bound, plan: Plan, priced: Figures) -> SplitPoint:
    """A priced cut by its parts."""
    s, ops = bound.scenario, bound.graph.phases[0].ops
    at, last = s.split, len(ops)
    seconds = dict(zip((part.name for part in plan.stages), priced.stage_s, strict=True))
    first_s, second_s = seconds.get("part 1", 0.0), seconds.get("part 2", 0.0)
    names = ("cut after", "input to the next")
    between = [number for number, hop in enumerate(plan.hops) if hop.name.startswith(names)]
    hops, link_s = [plan.hops[number] for number in between], sum(priced.hop_s[number] for number in between)
    start = sum(hop.messages * hop.wire.link.per_transfer.si for hop in hops if hop.wire.link.per_transfer)
    flight = sum(hop.messages * hop.wire.hops * hop.wire.link.latency.si for hop in hops)
    handover = priced.other_s[-1] if 0 < at < last else 0.0
    energy = priced.figure("energy_per_unit_j")
    return SplitPoint(
        at=at,
        rest=last - at,
        after=ops[at - 1].name if at else "",
        latency_s=priced.latency_s,
        interval_s=priced.interval_s,
        first_s=first_s,
        start_s=start,
        flight_s=flight,
        transfer_s=link_s - start - flight,
        handover_s=handover,
        second_s=second_s - handover,
        outside_s=sum(priced.hop_s) - link_s,
        crossing_bytes=sum(hop.bytes_per_message for hop in hops),
        energy_j=None if energy is None else energy * priced.units,
        first_parameters=float(sum(op.stored * op.layers for op in ops[:at])),
    )


def split_points(
    scenario: Scenario,
    formats: tuple[str, str] | None = None,
    catalog: Catalog | None = None,
    zoo: Zoo | None = None,
    last: int | None = None,
) -> tuple[SplitPoint, ...]:
    """Every way to cut a scenario's network between the two executors of its system, 0 .. n operators on the first.

    Parameters
    ----------
    scenario : its scheme must be one its system offers; its own `split` doesn't matter.
    formats : of the first and the second part, where they differ (a quantised part at the edge); what crosses is in the
        first one's.
    last : most operators on the first executor; None: up to all.

    Points whose parts an executor can't run are left out; Unsupported where none is left.
    """
    bound = bind(scenario.with_(scheme="split", split=0), catalog, zoo)
    first, second = executors(bound)
    formats = formats or (scenario.precision, second_format_of(bound, second))
    for part, device, format in zip(("first", "second"), (first, second), formats, strict=True):
        offered = family(device.kind).formats(device)
        if format not in offered:
            raise ScenarioError(
                f"precision of the {part} part is {format[:20]!r}; {device.name} offers {', '.join(offered)}"
            )
    points = []
    for at in range((len(bound.graph.phases[0].ops) if last is None else last) + 1):
        cut = replace(bound, scenario=bound.scenario.model_copy(update={"split": at}))
        try:
            plan = split_plan(cut, formats, (at,))
        except Unsupported:
            continue
        points.append(_point(cut, plan, figures_of(cut, plan)))
    if not points:
        raise Unsupported(
            f"{bound.workload.name} can't be cut between {first.name} and {second.name}: no point leaves each of them "
            "only operators it runs."
        )
    return tuple(points)


def best_split(points: Sequence[SplitPoint], goal: Goal = "latency") -> SplitPoint:
    """The point that serves a goal best; of equals the one with the fewest operators on the first executor."""
    if goal == "energy" and any(p.energy_j is None for p in points):
        raise ScenarioError("goal is 'energy': no power is published for one of the executors")
    measure = {
        "latency": lambda p: p.latency_s,
        "throughput": lambda p: p.interval_s,
        "energy": lambda p: p.energy_j,
        "first": lambda p: p.first_s,
        "second": lambda p: p.second_s + p.handover_s,
    }[goal]
    least = min(measure(p) for p in points)
    return next(p for p in points if measure(p) <= least * (1 + 1e-12))  # sums of the same parts differ in last bits
