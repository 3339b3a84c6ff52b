"""Where to cut a network over the two or three executors of a system: every cut as `evaluate` prices it, and the best.

What may follow a first cut is found from parts that add up, by dynamic programming over executors and positions: each
is what the assembly of `evaluate` prices, so the best of all cuts is the best of every one put together. Estimates.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.cost.assemble import Figures, figures_of, price_stage, wire_busy, wire_time
from engine.cost.changes import band_of
from engine.cost.error_bands import ErrorBand
from engine.cost.pieces import Design
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.plan.plan import Plan, Stage, second_format_of
from engine.plan.schemes import cut_hops, executors, part_of, split_plan, split_wires
from engine.resolve.bind import bind
from engine.resolve.bound import Bound
from engine.scenario import Scenario, ScenarioError
from hardware_specs.schema import Device
from model_zoo.ops import Op

Goal = Literal["latency", "throughput", "energy", "first", "second"]
"""Least latency, least time between requests, least energy, or least time on the first or second executor."""
Times = Sequence[NDArray[np.float64]]


def check_format(name: str, device: Device, format: str) -> None:
    """ScenarioError where the device of a part or a tier does not run its format."""
    options = family(device.kind).formats(device)
    if format not in options:
        raise ScenarioError(f"precision of the {name} is {format[:20]!r}; {device.name} offers {', '.join(options)}")


def price_cuts(bound: Bound, formats: Sequence[str], cuts: Sequence[int], batch: int | None = None) -> "PricedCut":
    """A way to cut, put together as `evaluate` does; ScenarioError or Unsupported where a part can't run."""
    changes = {"split": cuts[0], "second_split": cuts[1] if len(cuts) > 1 else None}
    changes |= {} if batch is None else {"batch": batch}
    cut = replace(bound, scenario=bound.scenario.model_copy(update=changes))
    plan = split_plan(cut, formats, cuts)
    return PricedCut(cut, tuple(cuts), plan, figures_of(cut, plan))


@dataclass(frozen=True)
class PricedCut:
    """A way to cut with its price."""

    bound: Bound
    cuts: tuple[int, ...]  # operators before each link
    plan: Plan
    figures: Figures

    @cached_property
    def stage_s(self) -> tuple[float, ...]:
        """Time of each executor's part; 0 where it has none. [s]"""
        return self._of_parts("stage_s")

    @cached_property
    def stage_j(self) -> tuple[float, ...]:
        """What each executor draws for its part beside what it draws anyway; 0 where it has none. [J]"""
        return self._of_parts("stage_j")

    def _of_parts(self, name: str) -> tuple[float, ...]:
        """Numbers of the plan's stages by executor; 0 where it has none."""
        by_name = dict(zip((stage.name for stage in self.plan.stages), self.figures.part(name), strict=True))
        return tuple(by_name.get(f"part {at + 1}", 0.0) for at in range(len(self.cuts) + 1))

    @property
    def error_band(self) -> ErrorBand:
        """That of the report of such a scenario. [-]"""
        return band_of(self.bound, self.plan, self.figures)


@dataclass(frozen=True)
class SplitPoint:
    """One way to cut: the first `at` operators on the first executor. Times of one request. [s]"""

    at: int
    rest: int  # operators on the others
    second_at: int | None  # operators before the third executor, where there are three
    after: str  # last operator of the first part; empty where it has none
    then_after: str  # last operator before the third executor; empty where there is none
    latency_s: float  # end to end
    interval_s: float  # between two requests of a stream when executors and wires work on different ones
    first_s: float
    start_s: float  # serialising, and reading back at the other end
    flight_s: float  # latency of the wires
    transfer_s: float  # bytes over their usable rate
    handover_s: float  # what arrived, drawn into the caches of who goes on
    second_s: float  # of the part on the second executor, and on the third
    third_s: float
    outside_s: float  # input and output of the whole network
    crossing_bytes: float
    energy_j: float | None  # of a request at the full rate; None where a power is not published
    error_band: ErrorBand  # of its times

    @property
    def place(self) -> str:
        """Where the cuts are, in words."""
        last = self.at + self.rest
        count, end = (2, last) if self.second_at is None else (3, self.second_at)
        sizes = {"first": self.at, "second": end - self.at, "third": last - end}
        busy = [name for name, size in sizes.items() if size]
        if len(busy) == 1:
            return f"all on the {busy[0]} device"
        cuts = (f"after {name}" for name in dict.fromkeys((self.after, self.then_after)) if name)
        idle = [f"none on the {name} device" for name in list(sizes)[:count] if name not in busy]
        return ", ".join([", then ".join(cuts), *idle])

    @property
    def link_s(self) -> float:
        """Everything the wires between the parts add. [s]"""
        return self.start_s + self.flight_s + self.transfer_s


def _point(cut: PricedCut) -> SplitPoint:
    """A priced cut by its parts."""
    plan, figures, ops = cut.plan, cut.figures, cut.bound.graph.phases[0].ops
    at, *second = cut.cuts
    first_s, second_s, third_s = (*cut.stage_s, 0.0)[:3]
    names = ("cut after", "input to the next")
    between = [number for number, hop in enumerate(plan.hops) if hop.name.startswith(names)]
    hop_s = figures.part("hop_s")
    hops, link_s = [plan.hops[number] for number in between], sum(hop_s[number] for number in between)
    start = sum(hop.messages * hop.wire.link.per_transfer.si for hop in hops if hop.wire.link.per_transfer)
    flight = sum(hop.messages * hop.wire.hops * hop.wire.link.latency.si for hop in hops)
    handovers = [0.0, 0.0, 0.0]  # by each executor
    for stage, seconds in zip(figures.layout.stage_of, figures.other_s, strict=True):
        handovers[plan.stages[stage].place] += seconds if stage else 0.0
    energy = figures.figure("energy_per_unit_j")
    return SplitPoint(
        at=at,
        rest=len(ops) - at,
        second_at=second[0] if second else None,
        after=ops[at - 1].name if at else "",
        then_after=ops[second[0] - 1].name if second and 0 < second[0] < len(ops) else "",
        latency_s=figures.latency_s,
        interval_s=figures.interval_s,
        first_s=first_s,
        start_s=start,
        flight_s=flight,
        transfer_s=link_s - start - flight,
        handover_s=sum(handovers),
        second_s=second_s - handovers[1],
        third_s=third_s - handovers[2],
        outside_s=sum(hop_s) - link_s,
        crossing_bytes=sum(hop.bytes_per_message for hop in hops),
        energy_j=None if energy is None else energy * figures.units,
        error_band=cut.error_band,
    )


def split_points(scenario: Scenario, first_format: str | None = None, goal: Goal = "latency") -> tuple[SplitPoint, ...]:
    """Every way to cut a scenario's network between the executors of its system, 0 .. n operators on the first.

    Parameters
    ----------
    scenario : its system must offer to split; its own scheme and cuts don't matter.
    first_format : of the first part, where it differs (a quantised part at the edge); what crosses then is in it.
    goal : of three executors, what the second cut behind each first one serves best: throughput, else latency. Of
        energy it is the best of a few: what serves either of these, and what leaves the second or third one idle.

    Points whose parts an executor can't run are left out; Unsupported where none is left.
    """
    bound = bind(scenario.with_(scheme="split", split=0, second_split=None))
    devices = executors(bound)
    formats = first_format or scenario.precision, *(second_format_of(bound, device) for device in devices[1:])
    for part, device, format in zip(("first part", "second part", "third part"), devices, formats, strict=False):
        check_format(part, device, format)
    if len(devices) == 2:
        ways: Iterable[tuple[int, ...]] = ((at,) for at in range(len(bound.graph.phases[0].ops) + 1))
    else:
        parts = CutParts(bound, formats)
        ways = parts.after_each(parts.busy if goal == "throughput" else None)
        if goal == "energy":  # of parts it does not add up: those also that pace best, or leave an executor idle
            idle = ((at, end) for at in range(parts.last + 1) for end in (at, parts.last))
            ways = sorted({*ways, *parts.after_each(parts.busy), *idle})
    points = []
    for cuts in ways:
        with suppress(Unsupported):
            points.append(_point(price_cuts(bound, formats, cuts)))
    if not points:
        names = " and ".join(device.name for device in devices)
        raise Unsupported(
            f"{bound.workload.name} can't be cut between {names}: no point leaves each of them only operators it runs."
        )
    return tuple(min(ties, key=lambda p: p.energy_j or 0.0) for _, ties in groupby(points, key=lambda p: p.at))


def executor_names(scenario: Scenario) -> tuple[str, ...]:
    """Names of the executors that a split network runs on, in order."""
    return tuple(device.name for device in executors(bind(scenario)))


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
    lowest = min(measure(p) for p in points)
    return next(p for p in points if measure(p) <= lowest * (1 + 1e-12))  # sums of the same parts differ in last bits


class CutParts:
    """Times that cuts of a network are added up from: of each executor for operators c to d, of each link at a cut."""

    def __init__(self, bound: Bound, formats: Sequence[str]) -> None:
        self.bound, self.formats = bound, formats
        wires, self.last = split_wires(bound), len(bound.graph.phases[0].ops)
        self.tiers = [self.tier(at, bound.scenario.batch) for at in range(len(formats))]
        self.links = [np.zeros(self.last + 1) for _ in wires]  # time that a link adds, answer included. [s]
        self.link_busy = [np.zeros(self.last + 1) for _ in wires]  # for which what goes outwards takes it. [s]
        for at in range(self.last + 1):
            for hop in cut_hops(bound, formats, (at,) * len(wires)):
                wire = wires.index(hop.wire)
                self.links[wire][at] += hop.messages * wire_time(hop.wire, hop.bytes_per_message)
                if hop.way != "out":
                    self.link_busy[wire][at] += hop.messages * wire_busy(hop.wire, hop.bytes_per_message)

    @property
    def busy(self) -> tuple[Times, Times]:
        """The same as the time for which each link and each executor is taken. [s]"""
        return self.link_busy, self.tiers

    def tier(self, at: int, batch: int) -> NDArray[np.float64]:
        """Seconds of operators c to d on an executor, shape (n + 1, n + 1): infinite where it can't run them. [s]"""
        device, format, ops = executors(self.bound)[at], self.formats[at], self.bound.graph.phases[0].ops
        bound = replace(self.bound, scenario=self.bound.scenario.model_copy(update={"batch": batch}))
        n, fam = len(ops), family(device.kind)
        result = np.full((n + 1, n + 1), inf)
        np.fill_diagonal(result, 0.0)
        if format not in fam.formats(device):
            return result
        able = [fam.supports(device, part_of(self.bound.graph, (op,)), format) is None for op in ops]
        low = 0
        while low < n:
            if not able[low]:
                low += 1
                continue
            high = next((i for i in range(low, n) if not able[i]), n)
            runs = [_alone(bound, device, format, ops[start:high]) for start in range(low, high)]
            sums = np.concatenate(([0.0], np.cumsum(runs[0][0])))
            for c, (_, once, handover) in zip(range(low, high), runs, strict=True):
                share = _read_share(ops, c)[c + 1 : high + 1]
                result[c, c + 1 : high + 1] = sums[c + 1 - low :] - sums[c - low] + once + handover * share
            low = high
        return result

    def best(self, active: Sequence[int], loads: tuple[Times, Times] | None = None) -> tuple[int, ...] | None:
        """Cuts of least time where those executors share the network and no other has any; None: there are none.

        ``loads``: of links and executors, for which the longest of a way counts, not the sum.
        """
        behind, picks = self._behind(active, loads)
        return self._trace(0, picks) if np.isfinite(behind[0]) else None

    def after_each(self, loads: tuple[Times, Times] | None = None) -> list[tuple[int, ...]]:
        """Each first cut with the cuts behind it that are best; likewise."""
        behind, picks = self._behind(None, loads, until=1)
        return [(at, *self._trace(at, picks)) for at in range(self.last + 1) if np.isfinite(behind[at])]

    def _behind(
        self, active: Sequence[int] | None, loads: tuple[Times, Times] | None, until: int = 0
    ) -> tuple[NDArray[np.float64], list[NDArray[np.int64]]]:
        """Least time of what follows each position, and where each executor from ``until`` on then ends.

        Bellman's recurrence from the last executor to the first: the best of what is left behind each position.
        """
        join, (ways, times) = (np.add, (self.links, self.tiers)) if loads is None else (np.maximum, loads)
        none = np.eye(self.last + 1, dtype=bool)
        behind = np.full(self.last + 1, inf)
        behind[self.last] = 0.0
        picks: list[NDArray[np.int64]] = []
        for at in reversed(range(until, len(times))):
            tier_s = times[at].copy()
            if active is not None:
                tier_s[none if at in active else ~none] = inf
            far = join(behind, ways[at]) if at < len(ways) else behind
            whole = join(tier_s, far[None, :])
            picks.insert(0, whole.argmin(axis=1))
            behind = whole.min(axis=1)
        return behind, picks

    def _trace(self, position: int, picks: Sequence[NDArray[np.int64]]) -> tuple[int, ...]:
        """Where the executors end that begin at a position, the last one's end left out."""
        cuts = []
        for pick in picks[:-1]:
            position = int(pick[position])
            cuts.append(position)
        return tuple(cuts)


def _alone(bound: Bound, device: Device, format: str, ops: Sequence[Op]) -> tuple[NDArray[np.float64], float, float]:
    """Seconds of each operator, once a request, and for what came from before them. [s]"""
    plan = Plan((Stage("part", device, 1, frozenset(op.name for op in ops), format),), (), 1, (1,), False)
    cost = price_stage(Design(bound, plan), 0, [0])
    (run,) = cost.runs
    handover = sum(seconds for _, _, seconds in run.cost.overheads) * run.passes
    return run.cost.seconds.sum(axis=1) * run.passes, sum(seconds for _, _, seconds in cost.fixed), handover


def _read_share(ops: Sequence[Op], at: int) -> NDArray[np.float64]:
    """Of what operators from ``at`` on read of those before: the share that those up to each position read. [-]"""
    first: dict[str, int] = {}
    before = {op.name: op.writes.at() for op in ops[:at]}
    for i, op in enumerate(ops[at:], at):
        for name in op.inputs:
            if name in before:
                first.setdefault(name, i)
    read = np.zeros(len(ops) + 1)
    for name, i in first.items():
        read[i + 1] += before[name]
    return np.cumsum(read) / read.sum() if read.any() else np.ones(len(ops) + 1)
