"""The best way to cut a network over tiers, from parts that add up: dynamic programming over tiers and positions.

Each number is what the assembly of `evaluate` prices, so the best of all cuts is the best of every one put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from engine.cost.assemble import price_stage, wire_busy, wire_time
from engine.cost.pieces import Design
from engine.devices import family
from engine.plan.plan import Plan, Stage, leaving_bytes
from engine.plan.schemes import cut_bytes, part_of, split_wires
from engine.scenario import ScenarioError
from hardware_specs.schema import Device
from model_zoo.ops import Op

if TYPE_CHECKING:
    from engine.analyses.camera import CameraNetwork

Goal = Literal["latency", "throughput"]
"""Least time of a frame, or most cameras."""


class Parts:
    """Times that cuts of a network are added up from: of each tier for operators c to d, of each link at a cut."""

    def __init__(self, network: CameraNetwork) -> None:
        self.network = network
        ops = network.bound.graph.phases[0].ops
        self.last = len(ops)
        self.tiers = [self._tier(at, ops) for at in range(len(network.tiers))]
        wires, formats = split_wires(network.bound), [tier.precision for tier in network.tiers]
        answer = leaving_bytes(network.bound)
        self.links, self.busy = [], []  # latency with the answer's way back; time that the link is taken. [s]
        for wire, own in zip(wires, formats, strict=False):
            format = wire.format or network.bound.family.streamed_io or own
            sizes = [network.camera.frame_bytes]
            sizes += [cut_bytes(network.bound, ops, at, format) / wire.compression for at in range(1, self.last)]
            there = np.array([wire_time(wire, size) for size in sizes] + [-wire_time(wire, answer)])
            self.links.append(there + wire_time(wire, answer))
            self.busy.append(np.array([wire_busy(wire, size) for size in sizes] + [0.0]))

    def _tier(self, at: int, ops: Sequence[Op]) -> NDArray[np.float64]:
        """Seconds of operators c to d, shape (n + 1, n + 1): infinite where the tier can't run them. [s]"""
        bound, n = self.network.bound, len(ops)
        result = np.full((n + 1, n + 1), inf)
        np.fill_diagonal(result, 0.0)
        try:
            device, format = self.network.tier_of(at)
        except ScenarioError:
            return result
        able = [family(device.kind).supports(device, part_of(bound.graph, (op,)), format) is None for op in ops]
        low = 0
        while low < n:
            if not able[low]:
                low += 1
                continue
            high = next((i for i in range(low, n) if not able[i]), n)
            runs = [self._alone(device, format, ops[start:high]) for start in range(low, high)]
            added = np.concatenate(([0.0], np.cumsum(runs[0][0])))
            for c, (_, once, drawn) in zip(range(low, high), runs, strict=True):
                share = _read_share(ops, c)[c + 1 : high + 1]
                result[c, c + 1 : high + 1] = added[c + 1 - low :] - added[c - low] + once + drawn * share
            low = high
        return result

    def _alone(self, device: Device, format: str, ops: Sequence[Op]) -> tuple[NDArray[np.float64], float, float]:
        """Seconds of each operator, once a frame, and for what came from before them. [s]"""
        bound = self.network.bound
        plan = Plan((Stage("part", device, 1, frozenset(op.name for op in ops), format),), (), 1, (1,), False)
        design = Design(bound, plan)
        priced = price_stage(design, 0, [0])
        (run,) = priced.runs
        other = sum(seconds for _, _, seconds in run.cost.other) * run.passes
        return run.cost.seconds.sum(axis=1) * run.passes, sum(seconds for _, _, seconds in priced.fixed), other

    def best(self, used: Sequence[int], goal: Goal) -> tuple[int, ...] | None:
        """Cuts that serve a goal best where those tiers share the network and no other has any; None: there are none.

        Bellman's recurrence from the last tier to the first: the best of what is left behind each position.
        """
        join, (ways, times) = (np.add, (self.links, self.tiers)) if goal == "latency" else (np.maximum, self._loads())
        behind = np.full(self.last + 1, inf)
        behind[self.last] = 0.0
        picks: list[NDArray[np.int64]] = []
        for at in reversed(range(len(self.tiers))):
            own = times[at].copy()
            own[np.eye(self.last + 1, dtype=bool) if at in used else ~np.eye(self.last + 1, dtype=bool)] = inf
            far = join(behind, ways[at]) if at < len(ways) else behind
            whole = join(own, far[None, :])
            picks.insert(0, whole.argmin(axis=1))
            behind = whole.min(axis=1)
        if not np.isfinite(behind[0]):
            return None
        cuts, position = [], 0
        for pick in picks[:-1]:
            position = int(pick[position])
            cuts.append(position)
        return tuple(cuts)

    def _loads(self) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
        """The same as the time that a frame takes of a link, and of all machines of a tier together. [s]

        Machines of which each camera has one set no pace, but can't take longer than until its next frame.
        """
        network, loads = self.network, []
        for at, (tier, seconds) in enumerate(zip(network.tiers, self.tiers, strict=True)):
            load = seconds * network.passed + (network.filter_s if not at else 0.0)
            own = np.where(load * network.camera.frames_per_s <= 1.0, 0.0, inf)
            loads.append(own if tier.machines is None else load / tier.machines)
        return [busy * network.passed for busy in self.busy], loads


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
