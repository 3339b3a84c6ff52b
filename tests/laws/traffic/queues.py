"""Systems that several tests send requests through, and laws of queues with exponential service to hold them to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.kernels.events.passes import GIVEN, Times
from engine.traffic import (
    DecoderServer,
    Mixed,
    NoBatching,
    Resource,
    Service,
    Station,
    TandemQueue,
)
from engine.traffic.closed_forms import Law, erlang_c
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.policies import PLAIN, Policy

_POISSON_REACH = 40.0  # standard deviations beyond which a Poisson number has no share that a double shows


def affine(fixed_s: float, per_item_s: float, max_batch: int, servers: int = 1) -> Service:
    """A launch of b requests takes ``fixed_s + b * per_item_s``. [s]"""
    batches = np.arange(1, max_batch + 1)
    seconds = np.asarray(fixed_s + batches * per_item_s, np.float64)
    return Service(seconds[:, None], servers=servers)


def decoder(
    contexts: Sequence[int], prefill_s: np.ndarray, step_s: np.ndarray, replicas: int = 1, cache: int | None = None
) -> DecoderServer:
    """Continuous batching where passes of so many tokens take ``prefill_s``, and steps of b+1 sequences ``step_s``.

    ``prefill_s`` (points,), ``step_s`` (batches, points), both at ``contexts`` [tokens]; in a mixed pass they add up.
    ``cache``: of a replica [tokens].
    """
    grid, rows = np.array(contexts, float), np.arange(1.0, 1.0 + len(step_s))
    nothing = np.zeros(len(rows))
    times = Times(
        np.zeros(len(GIVEN)),
        grid,
        np.array(prefill_s, float),
        rows,
        nothing,
        nothing,
        grid,
        np.zeros(grid.size),
        np.array(step_s, float),
    )
    return DecoderServer(times, whole_prompts(len(rows), contexts[-1], replicas, cache), contexts[-1])


def whole_prompts(seats: int, longest: int, replicas: int, cache: int | None) -> Scheduler:
    """Prompts enter whole, of requests no longer than ``longest`` [tokens], where the cache has room for all output."""
    budget = min(max(Scheduler.budget, longest + seats), longest * seats + seats)
    return Scheduler(budget, chunked=False, reserve=1.0, kv_blocks=cache, block=1, max_seqs=seats, replicas=replicas)


def sparse_dense(
    sparse: Service, dense: Service, sparse_policy: Policy, dense_policy: Policy, hop_s: float = 0.0
) -> TandemQueue:
    """A two-stage pipeline: embedding look-ups on their cards, then the dense part on its own, ``hop_s`` away. [s]"""
    return TandemQueue((Station(sparse, sparse_policy, name="sparse"), Station(dense, dense_policy, hop_s, "dense")))


def pool_behind_network(
    service: Service, policy: Policy, hop_s: float, link_s: float | None = None, nics: int = 1
) -> TandemQueue:
    """Accelerators shared by clients: ``hop_s`` each way, ``link_s`` of wire time a request on ``nics`` [s]."""
    pool = Station(service, policy, hop_s, "pool")
    if link_s is None:
        return TandemQueue((pool,), hop_s)
    wire = Service.constant(link_s, nics)
    wire = replace(wire, resources={"NIC": Resource(wire.hold_s, nics)})
    return TandemQueue((Station(wire, PLAIN, name="NIC", wire=True), pool), hop_s)


def on_path_nic(
    forward_s: float, inference_s: float, share: float, executors: int, places: int
) -> tuple[TandemQueue, Mixed]:
    """A NIC that forwards every packet and runs an inference on a ``share`` of them, on the same executors.

    A packet holds one of ``executors`` for ``forward_s``, or ``forward_s + inference_s`` [s]; packets wait in a
    buffer of ``places`` and are dropped when it is full. Returns the system and the sizes of its packets: 1 is
    forwarded only, 2 is also classified.
    """
    table = np.array([[forward_s, forward_s + inference_s]])
    service = Service(table, servers=executors, sizes=(1, 2), resources={"executors": Resource(table, executors)})
    return TandemQueue((Station(service, NoBatching(places), name="NIC"),)), Mixed((1, 2), (1.0 - share, share))


def mm1(rate: float, service_s: float) -> Law:
    """Exponential service, one server: the stay is exponential. Kleinrock I, 3.2 and 5.119. [1/s], [s]"""
    rho = rate * service_s
    mean = service_s / (1.0 - rho)
    return Law("M/M/1", mean, rho * mean, lambda t: math.exp(-t / mean), rho)


def mmc(rate: float, service_s: float, servers: int) -> Law:
    """Exponential service, c servers. Wait: P(W > t) = C exp(-(c mu - lambda) t). Kleinrock I, 3.5. [1/s], [s]"""
    rho = rate * service_s / servers
    c = erlang_c(rate * service_s, servers)
    mu = 1.0 / service_s
    drain = servers * mu - rate
    wait = c / drain

    def tail(t: float) -> float:
        alone = math.exp(-mu * t)
        if abs(drain - mu) < 1e-9 * mu:  # the two exponentials of wait + service coincide: Erlang of order 2
            both = alone * (1.0 + mu * t)
        else:
            both = (drain * alone - mu * math.exp(-drain * t)) / (drain - mu)
        return (1.0 - c) * alone + c * both

    return Law(f"M/M/{servers}", wait + service_s, wait, tail, rho)


@dataclass(frozen=True)
class LossLaw(Law):
    """A law of a queue that turns a share ``blocked`` of its arrivals away. [-]"""

    blocked: float = 0.0


def mm1n(rate: float, service_s: float, n: int) -> LossLaw:
    """Exponential service, one server, at most ``n`` in the system; any load. Kleinrock I, 3.6.

    An accepted arrival that finds k stays for k + 1 exponential services (Erlang): longer than t where a Poisson number
    of mean t / service is at most k. Rate in [1/s], service in [s].
    """
    rho = rate * service_s
    k = np.arange(n + 1)
    weights = rho ** (k - (n if rho > 1.0 else 0.0))  # unnormalised, scaled so that the largest is 1
    shares = weights[:n] / weights[:n].sum()
    mean = service_s * float((k[1:] * shares).sum())
    beyond = np.cumsum(shares[::-1])[::-1]  # share that finds at least k
    logs = np.concatenate(([0.0], np.cumsum(np.log(k[1:n]))))  # of k!

    def tail(t: float) -> float:
        x = t / service_s
        if x <= 0.0:
            return 1.0
        reach = _POISSON_REACH * (1.0 + math.sqrt(x))
        near = slice(max(0, int(x - reach)), min(n, int(x + reach) + 1))
        return float(np.exp(k[near] * math.log(x) - x - logs[near]) @ beyond[near])

    return LossLaw(f"M/M/1/{n}", mean, mean - service_s, tail, rho, blocked=float(weights[n] / weights.sum()))
