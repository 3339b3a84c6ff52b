"""Where to cut a network between two executors: every split point with the parts of its latency, and the best one.

A part's operators cost the same wherever the cut lies, so each executor is priced once and prefix sums give every
point; an executor whose cost is not a sum over operators is priced part by part. Estimates, equal to `evaluate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from engine.cost.assemble import price_stage, wire_time
from engine.cost.power_and_price import device_power
from engine.devices import family
from engine.devices.common.contract import Job, Unsupported
from engine.plan.plan import crossing_bytes
from engine.plan.schemes import Stage, host_hops, input_hops, second_executor, second_format_of, split_wire
from engine.resolve.bind import Bound, bind
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import Catalog
from hardware_specs.schema import Device
from model_zoo.catalog import Zoo
from model_zoo.ops import Op

Goal = Literal["latency", "throughput", "energy", "first", "second"]
"""Least latency, least time of the busier executor, least energy, or least time on the first or second executor."""


@dataclass(frozen=True)
class SplitPoint:
    """One way to cut: the first `at` operators on the first executor. Times of one request. [s]"""

    at: int
    rest: int  # operators on the second executor
    after: str  # last operator of the first part; empty where everything is on the second
    first_s: float
    start_s: float  # serialising, and reading back at the other end
    flight_s: float  # latency of the wire
    transfer_s: float  # bytes over its usable rate
    handover_s: float  # what arrived, drawn into the second executor's caches
    second_s: float
    outside_s: float  # input and output of the whole network
    crossing_bytes: float
    energy_j: float | None  # of both executors while busy; None where a power is not published
    first_parameters: float  # stored on the first executor

    @property
    def place(self) -> str:
        """Where the cut is, in words."""
        if not self.at:
            return "all on the second device"
        return f"after {self.after}" if self.rest else "all on the first device"

    @property
    def latency_s(self) -> float:
        """End to end. [s]"""
        return self.first_s + self.link_s + self.handover_s + self.second_s + self.outside_s

    @property
    def link_s(self) -> float:
        """Everything the wire between the parts adds. [s]"""
        return self.start_s + self.flight_s + self.transfer_s

    @property
    def interval_s(self) -> float:
        """Between two requests when both executors and the wire work on different ones. [s]"""
        return max(self.first_s, self.second_s + self.handover_s, self.link_s, self.outside_s)


def crossing(ops: Sequence[Op], batch: float, length: float, format: str = "") -> tuple[np.ndarray, np.ndarray]:
    """What crosses each cut 0..n, and the elements of it a later operator reads; two (n + 1,) arrays. [elements]

    The first is in bytes where a format is given. [B]

    A tensor is sent once however many later operators read it. Where nothing is read, the last output is sent.
    """
    at = {op.name: i for i, op in enumerate(ops)}
    last = np.arange(len(ops))
    for i, op in enumerate(ops):
        for name in op.inputs:
            if name in at:
                last[at[name]] = max(last[at[name]], i)
    read, count = np.zeros(len(ops) + 2), np.zeros(len(ops) + 2)
    sizes = np.array([op.writes.at(batch, length, length) for op in ops])
    for i in range(len(ops)):  # alive at cuts i + 1 .. last[i]
        read[i + 1] += sizes[i]
        read[last[i] + 1] -= sizes[i]
        count[i + 1] += 1
        count[last[i] + 1] -= 1
    read, count = np.cumsum(read)[: len(ops) + 1], np.cumsum(count)[: len(ops) + 1]
    bytes_ = np.array([crossing_bytes(op, format, batch, length) for op in ops]) if format else sizes
    sent = np.zeros(len(ops) + 2)
    for i in range(len(ops)):
        sent[i + 1] += bytes_[i]
        sent[last[i] + 1] -= bytes_[i]
    sent = np.cumsum(sent)[: len(ops) + 1]
    for k in range(1, len(ops)):
        if count[k] < 0.5:
            sent[k] = bytes_[k - 1]
    return sent, np.where(count > 0.5, read, 0.0)


@dataclass(frozen=True)
class _Executor:
    """One executor with the cost of every operator of a request on it."""

    device: Device
    format: str
    seconds: np.ndarray  # (n_ops,), all phases
    other_s: float  # belongs to no operator
    fixed_s: float  # once a request
    jobs: tuple[tuple[Job, float], ...]  # of each phase, with its passes
    additive: bool


def _executor(bound: Bound, device: Device, format: str, ops: Sequence[Op]) -> _Executor:
    names = frozenset(op.name for phase in bound.graph.phases for op in phase.ops)
    priced = price_stage(bound, Stage("whole", device, 1, names, format))
    at = {op.name: i for i, op in enumerate(ops)}
    seconds = np.zeros(len(ops))
    for run in priced.runs:
        for i, op in enumerate(run.job.ops):
            seconds[at[op.name]] += float(run.cost.seconds[i].sum()) * run.passes
    other = sum(t for run in priced.runs for _, _, t in run.cost.other) + 0.0
    fixed = sum(t for _, _, t in priced.fixed)
    jobs = tuple((run.job, run.passes) for run in priced.runs)
    result = _Executor(device, format, seconds, other, fixed, jobs, False)
    return replace(result, additive=other == 0.0 and _adds_up(result, ops))


def _adds_up(executor: _Executor, ops: Sequence[Op]) -> bool:
    """Whether two parts cost what the whole does, apart from what one hands the other; probed at four cuts."""
    whole = executor.seconds.sum()
    for cut in {len(ops) // 4, len(ops) // 2, 3 * len(ops) // 4, len(ops) - 1}:
        parts = _priced(executor, ops[:cut]) + _priced(executor, ops[cut:], handed=False)
        if not np.isclose(parts, whole, rtol=1e-9):
            return False
    return True


def _priced(executor: _Executor, part: Sequence[Op], handed: bool = True) -> float:
    """Cost of a part priced by itself, in all phases; optionally without time that belongs to no operator. [s]"""
    names = {op.name for op in part}
    total = 0.0
    price = family(executor.device.kind).price
    for job, passes in executor.jobs:
        mine = tuple(op for op in job.ops if op.name in names)
        if mine:
            cost = price(replace(job, ops=mine))
            total += passes * (cost.total_s if handed else float(cost.seconds.sum()))
    return total


def _fixed(executor: _Executor, ops: Sequence[Op]) -> tuple[np.ndarray, np.ndarray]:
    """What a part pays once a request, of the first 0 .. n operators and of those behind them; (n + 1,) arrays. [s]"""
    request, cuts = family(executor.device.kind).request, range(len(ops) + 1)

    def of(part: Sequence[Op]) -> float:
        if not part or request is None:
            return 0.0
        names = {op.name for op in part}
        job = next(job for job, _ in executor.jobs if any(op.name in names for op in job.ops))
        return sum(t for _, _, t in request(replace(job, ops=tuple(op for op in job.ops if op.name in names))))

    if all(of(part) == executor.fixed_s for part in (ops[:1], ops[-1:])):  # no matter which operators
        some = np.full(len(ops) + 1, executor.fixed_s)
        return np.where(np.arange(len(some)) > 0, some, 0.0), np.where(np.arange(len(some)) < len(ops), some, 0.0)
    return np.array([of(ops[:k]) for k in cuts]), np.array([of(ops[k:]) for k in cuts])


def _handover(executor: _Executor, ops: Sequence[Op], read: np.ndarray) -> np.ndarray:
    """What drawing a cut's input into the second executor's caches costs, for every cut. [s]

    It is proportional to the elements read; the factor comes from pricing one part.
    """
    out = np.zeros(len(read))
    cut = int(read.argmax())
    if read[cut] <= 0:
        return out
    extra = _priced(executor, ops[cut:]) - _priced(executor, ops[cut:], handed=False)
    return read * (extra / read[cut])


def _supported(device: Device, ops: Sequence[Op], bound: Bound, format: str) -> np.ndarray:
    """Whether a device can run each operator by itself. (n_ops,) booleans"""
    supports = family(device.kind).supports
    if supports(device, bound.graph, format) is None:
        return np.ones(len(ops), dtype=bool)
    phase = bound.graph.phases[0]
    alone = [replace(bound.graph, phases=(replace(phase, ops=(op,)),)) for op in ops]
    return np.array([supports(device, graph, format) is None for graph in alone])


def split_points(
    scenario: Scenario,
    formats: tuple[str, str] | None = None,
    catalog: Catalog | None = None,
    zoo: Zoo | None = None,
) -> tuple[SplitPoint, ...]:
    """Every way to cut a scenario's network between the two executors of its system, 0 .. n operators on the first.

    Parameters
    ----------
    scenario : its scheme must be one its system offers; its own `split` doesn't matter.
    formats : of the first and the second part, where they differ (a quantised part at the edge); what crosses is in the
        first one's.

    Points whose parts an executor can't run are left out; Unsupported where none is left. Equals `evaluate` at every
    point when both parts have the scenario's format.
    """
    bound = bind(scenario.with_(scheme="split", split=0), catalog, zoo)
    ops = bound.graph.phases[0].ops
    first_device, second_device = bound.device, second_executor(bound)
    first_format, second_format = formats or (scenario.precision, second_format_of(bound, second_device))
    for part, device, format in (("first", first_device, first_format), ("second", second_device, second_format)):
        offered = family(device.kind).formats(device)
        if format not in offered:
            raise ScenarioError(
                f"precision of the {part} part is {format[:20]!r}; {device.name} offers {', '.join(offered)}"
            )
    s, wire = bound.scenario, split_wire(bound)
    runs_first = _supported(first_device, ops, bound, first_format)
    runs_second = _supported(second_device, ops, bound, second_format)
    first = _executor(bound, first_device, first_format, ops)
    second = _executor(bound, second_device, second_format, ops)
    sent, read = crossing(ops, s.batch, float(s.inputs), bound.family.io_format or first_format)
    given = input_hops(bound, wire)
    passes = sum(p.repeat.at(s.inputs, s.outputs) for p in bound.graph.phases)
    sent[0] = sum(hop.bytes_per_message for hop in given)
    before = np.concatenate(([0.0], np.cumsum(first.seconds)))
    behind = np.concatenate((np.cumsum(second.seconds[::-1])[::-1], [0.0]))
    handover = _handover(second, ops, read) if second.additive else np.zeros(len(ops) + 1)
    stored = np.concatenate(([0.0], np.cumsum([op.stored * op.layers for op in ops])))
    outside = sum(hop.messages * wire_time(hop.wire, hop.bytes_per_message) for hop in host_hops(bound))
    start = wire.link.per_transfer.si if wire.link.per_transfer else 0.0
    flight = wire.hops * wire.link.latency.si
    powers = tuple(device_power(device, bound.workload.family)[0] for device in (first_device, second_device))
    head_runs = np.concatenate(([True], np.logical_and.accumulate(runs_first)))
    tail_runs = np.concatenate((np.logical_and.accumulate(runs_second[::-1])[::-1], [True]))
    last = len(ops)
    once, again = _fixed(first, ops)[0], _fixed(second, ops)[1]
    points = []
    for k in range(last + 1):
        if not (head_runs[k] and tail_runs[k]):
            continue
        cut = 0 < k < last
        count = passes if cut else float(len(given)) if not k else 0.0
        one = (before[k] if first.additive else _priced(first, ops[:k])) + once[k]
        two = (behind[k] if second.additive else _priced(second, ops[k:])) + again[k]
        transfer = wire_time(wire, float(sent[k])) - start - flight
        energy = None
        if powers[0] is not None and powers[1] is not None:
            energy = powers[0] * one + powers[1] * (two + handover[k])
        points.append(
            SplitPoint(
                at=k,
                rest=last - k,
                after=ops[k - 1].name if k else "",
                first_s=float(one),
                start_s=count * start,
                flight_s=count * flight,
                transfer_s=count * transfer,
                handover_s=float(handover[k]) if cut else 0.0,
                second_s=float(two),
                outside_s=outside,
                crossing_bytes=float(sent[k]) if count else 0.0,
                energy_j=None if energy is None else float(energy),
                first_parameters=float(stored[k]),
            )
        )
    if not points:
        raise Unsupported(
            f"{bound.workload.name} can't be cut between {first_device.name} and {second_device.name}: "
            f"no point leaves each of them only operators it runs."
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
