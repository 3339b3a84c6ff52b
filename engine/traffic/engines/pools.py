"""Disaggregated serving: a pool of engines that prefills, one that decodes, and the network between them. Simulated.

A request is prefilled in the first pool, which gives its first token; its keys and values then cross the network, and
the second pool decodes the rest. Transfers share the ports fairly (max-min: every port alike, one port at most each).
"""

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.kernels.events.calendar import count_gaps
from engine.kernels.events.passes import Requests, Times
from engine.scenario.token import brief
from engine.traffic.arrivals import Arrivals
from engine.traffic.engines.calendar import GROUPS, LOG_ROWS, ClosedLoop, ServingReport, report_of, requests_under
from engine.traffic.engines.pass_run import PassRun, requests_of, run_passes
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.policies import DecoderServer
from engine.traffic.runs import full_rate
from engine.traffic.service import TrafficError, positive, whole
from engine.traffic.sizes import Fixed, Sizes

MOST_REQUESTS = 100_000
_ADDED = ("passes", "preemptions", "blocks", "peak", "busy_s")  # of both pools
_AUTO_MOST = 64  # engines that are dealt to two pools in every way
_ROUNDS, _WORK = 400, 5_000_000  # of a closed loop, whose rounds each settle a wave of its clients; their requests


@dataclass(frozen=True, eq=False)
class Pool:
    """Engines alike, the seconds of their passes, and what each is: ``scheduler.replicas`` copies or stages.

    ``devices`` of each engine [-], ``engines`` with a network port each [-].
    """

    times: Times
    scheduler: Scheduler
    devices: int = 1
    engines: int = 1

    @property
    def rules(self) -> Scheduler:
        """The scheduler with the copies or stages of all engines."""
        return replace(self.scheduler, replicas=self.engines * self.scheduler.replicas)


@dataclass(frozen=True)
class Network:
    """What carries keys and values: ``token_bytes`` of each token [B], ``port_b_per_s`` of each engine's port [B/s] and
    a latency [s]."""

    token_bytes: float
    port_b_per_s: float
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        positive("token_bytes", self.token_bytes, zero=True)
        positive("port_b_per_s", self.port_b_per_s)
        positive("latency_s", self.latency_s, zero=True)


class Pools(NamedTuple):
    """What prefills, what decodes, and what is between them."""

    prefill: Pool
    decode: Pool
    network: Network

    def at(self, ratio: tuple[int, int]) -> "Pools":
        """The same of so many engines that prefill and that decode."""
        first, second = ratio
        return Pools(replace(self.prefill, engines=first), replace(self.decode, engines=second), self.network)

    @property
    def devices(self) -> int:
        """Of all engines. [-]"""
        return sum(pool.engines * pool.devices for pool in (self.prefill, self.decode))


def ratios_of(text: str) -> list[tuple[int, int]]:
    """Engines that prefill and engines that decode, of ``2:3``; every way to deal so many, of ``auto:5``; of a list.

    TrafficError for another text.
    """
    if "," in text:
        return [ratio for part in text.split(",") for ratio in ratios_of(part)]
    first, _, second = text.partition(":")
    if not (second.isdecimal() and int(second) and (first == "auto" or (first.isdecimal() and int(first)))):
        raise TrafficError(
            f"pools is {brief(text)}; write engines that prefill and engines that decode, as 2:3, or auto:5"
        )
    if first != "auto":
        return [(int(first), int(second))]
    if not 2 <= int(second) <= _AUTO_MOST:
        raise TrafficError(f"pools is {brief(text)}; 2 to {_AUTO_MOST} engines can be shared out between two pools")
    return [(count, int(second) - count) for count in range(1, int(second))]


def shared_flows(begin: NDArray[np.float64], sizes: NDArray[np.float64], port: float, total: float) -> NDArray:
    """When flows of ``sizes`` [B] from ``begin`` [s] on end: all share ``total`` alike, each ``port`` at most [B/s].

    All flows progress at one rate, so the order of their ends is that of the work they end at.
    """
    ends = np.empty(begin.size)
    order, upcoming = np.argsort(begin, kind="stable"), 0
    active: list[tuple[float, int]] = []  # work at which a flow ends
    now = work = 0.0
    while active or upcoming < begin.size:
        coming = begin[order[upcoming]] if upcoming < begin.size else math.inf
        rate = min(port, total / len(active)) if active else 0.0
        end = now + (active[0][0] - work) / rate if active else math.inf
        if coming <= end:
            work += rate * (coming - now)
            now = coming
            heapq.heappush(active, (work + sizes[order[upcoming]], int(order[upcoming])))
            upcoming += 1
        else:
            work, flow = heapq.heappop(active)
            now = ends[flow] = end
    return ends


def most_per_s(prefill: Pool, decode: Pool, network: Network, prompt: int, made: int) -> float:
    """Requests a second of so many tokens each that both pools and the ports between them carry: the least of the
    three, each where somebody always waits for it. Simulated. [1/s]
    """

    def rate(pool: Pool, inputs: int, outputs: int, decodes: bool = False) -> float:
        alone = DecoderServer(pool.times, pool.rules, inputs + outputs)
        return full_rate(alone, Fixed(inputs), Fixed(outputs), decodes=decodes)

    rates = [rate(prefill, prompt, 1)]
    if made > 1:
        rates.append(rate(decode, prompt + 1, made - 1, decodes=True))
        if network.token_bytes > 0.0:
            rates.append(min(prefill.engines, decode.engines) * network.port_b_per_s / (network.token_bytes * prompt))
    return min(rates)


def serve_pools(
    prefill: Pool,
    decode: Pool,
    network: Network,
    load: ClosedLoop | Arrivals,
    inputs: Sizes,
    outputs: Sizes,
    requests: int,
    *,
    cached: NDArray[np.int64] | None = None,
    priority: NDArray[np.int64] | None = None,
    limits: Mapping[str, float] | None = None,
    seed: int = 0,
) -> ServingReport:
    """Run ``requests`` through both pools to the last token. Same seed, same bits.

    A closed loop is run again and again with the arrivals that its answers gave, until they stay: each round settles a
    wave of its clients. ``cached`` (of the first pool) and ``priority`` as `serve` has them. Passes, blocks and
    preemptions of the report are both pools' together, its log the second's; ``pool_busy`` is of each. TrafficError for
    a request that a pool can never take.
    """
    whole("requests", requests, 1, MOST_REQUESTS)
    rules = prefill.scheduler
    asked, clients, numbers = requests_under(load, rules, inputs, outputs, requests, seed, cached, priority)
    clients = clients or requests
    asked.arrive[clients:] = asked.arrive[:clients].max()
    rounds = max(_ROUNDS, _WORK // requests)
    for _ in range(rounds if requests <= clients * rounds else 0):
        ran, busy = _through(prefill, decode, network, asked, seed)
        again = asked.arrive.copy()
        again[clients:] = np.sort(asked.finish, kind="stable")[: requests - clients] + asked.think[clients:]
        again[clients:] = np.sort(again[clients:])
        if np.array_equal(again, asked.arrive):
            engines = prefill.rules.replicas, decode.rules.replicas
            report = report_of(load, asked, limits or {}, ran, sum(engines), numbers)
            shares = (s / (report.duration_s * count) for s, count in zip(busy, engines, strict=True))
            return replace(report, pool_busy=tuple(shares))
        asked.arrive[:] = again
    raise TrafficError(
        f"clients is {clients}: {requests:,} requests did not settle in {rounds} rounds; give fewer requests"
    )


def _through(
    prefill: Pool, decode: Pool, network: Network, asked: Requests, seed: int
) -> tuple[PassRun, tuple[float, float]]:
    """Fills in the instants of requests that go through both pools: what passes left, and each pool's work. [s]"""
    arrive, prompt, made, classes = asked.arrive, asked.inputs, asked.outputs, asked.priority
    groups, count = min(GROUPS, arrive.size), arrive.size
    sizes: dict[str, Any] = {"groups": groups, "classes": int(classes.max()) + 1, "log_rows": LOG_ROWS}
    first_pool = requests_of(arrive.copy(), prompt, np.ones(count, np.int64), asked.cached, priority=classes)
    prefills = run_passes(prefill.times, prefill.rules, first_pool, seed=seed, **sizes)
    asked.first[:] = asked.finish[:] = first_pool.first
    longer = np.flatnonzero(made > 1)
    ports = min(prefill.engines, decode.engines)
    sent = network.token_bytes * prompt[longer].astype(float)
    reached = shared_flows(asked.first[longer], sent, network.port_b_per_s, ports * network.port_b_per_s)
    reached += network.latency_s
    order = np.argsort(reached, kind="stable")
    rows = longer[order]
    second = requests_of(reached[order], prompt[rows] + 1, made[rows] - 1, prompt[rows].copy(), priority=classes[rows])
    decodes = run_passes(decode.times, decode.rules, second, seed=seed, decodes=True, **sizes)
    asked.finish[rows] = second.finish
    count_gaps(
        decodes.gaps, decodes.sums, rows * groups // count + groups * classes[rows], second.first - asked.first[rows]
    )
    sums = {name: getattr(prefills, name) + getattr(decodes, name) for name in _ADDED}
    swaps = tuple(a + b for a, b in zip(prefills.swaps, decodes.swaps, strict=True))
    return replace(decodes, **sums, swaps=swaps), (prefills.busy_s, decodes.busy_s)
