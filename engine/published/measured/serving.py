"""Times to the first token and between tokens of a serving engine under a closed load, by its calendar of passes."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from engine.devices.common.contract import Unsupported
from engine.kernels.events.passes import Times
from engine.scenario import Scenario
from engine.traffic.engines.calendar import ClosedLoop, serve
from engine.traffic.engines.pass_times import acceptance_of, device_times
from engine.traffic.engines.pools import Network, Pool, Pools, serve_pools
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.scenario_load import cache_blocks, token_bytes
from engine.traffic.sizes import Uniform
from hardware_specs.catalog import Catalog

LEAST_REQUEST: dict[str, int] = {"batch": 1, "inputs": 16, "outputs": 2}  # request, whatever a deployment's load
SHARED = 16_384, 256, 16_384
"""Tokens of a pass, sequences and tokens of a request that every table covers: rows of a deployment share one."""


@dataclass(frozen=True)
class BenchmarkRun:
    """A serving engine, and how a benchmark's clients kept it busy.

    Attributes
    ----------
    scheduler : how it forms its passes.
    name : its own, and its release.
    shortest : a request's lengths are drawn evenly from this share of the longest on; 1: all are alike. [-]
    streamed : tokens sent at once: the first arrives with as many. [-]
    turnaround_s : mean time from a client's answer to its next request, exponential. [s]
    requests : of each client. [-]
    request_s, token_s : from a client to the queue, of a request and of each token of its prompt. [s]
    prefill, workers : where prefill runs apart, a worker of it, and how many prefill and decode. [-]
    port_b_per_s : network port of such a worker. [B/s]
    """

    scheduler: Scheduler
    name: str = ""
    shortest: float = 1.0
    streamed: int = 1
    turnaround_s: float = 0.0
    requests: int = 10
    request_s: float = 0.0
    token_s: float = 0.0
    prefill: Scenario | None = None
    workers: tuple[int, int] = (1, 1)
    port_b_per_s: float = 0.0


def _power(minimum: int) -> int:
    """The smallest power of two that is no less. [-]"""
    return 1 << max(0, minimum - 1).bit_length()


@lru_cache(maxsize=64)
def _tables(scenario: str, budget: int, rows: int, longest: int, catalog: Catalog) -> Times:
    return device_times(Scenario.model_validate_json(scenario), budget, rows, longest, catalog)


def shared_tables(scenario: Scenario, scheduler: Scheduler, longest: int, requests: int, catalog: Catalog) -> Times:
    """Times of the passes of a deployment, whatever its load. Estimates. [s]"""
    sizes = scheduler.budget, min(scheduler.max_seqs, requests), longest
    budget, rows, context = (max(minimum, _power(size)) for minimum, size in zip(SHARED, sizes, strict=True))
    return _tables(scenario.with_(**LEAST_REQUEST).model_dump_json(), budget, rows, context, catalog)


def under_load(scenario: Scenario, concurrency: int, engine: BenchmarkRun, catalog: Catalog) -> dict[str, float]:
    """Mean time to first token and between output tokens, ``concurrency`` requests in flight: `ttft_s`, `tpot_s`. [s]

    Simulated, on estimates of the passes: so many clients start at once and send the next request after each answer,
    until all have sent what the ``engine`` says; lengths are those of the scenario in the mean. Means are over
    requests, the first ones of all clients included. Where ranks attend apart the clients are spread evenly and one
    rank is simulated, or all of them where they balance prompts or prefill runs apart. A prompt comes as text, which is
    read before it waits. Tokens sent together arrive with the last of them, and shorten what is left between tokens.

    Unsupported for answers of one token; TrafficError where a request finds no room in the memory.
    """
    if scenario.outputs < 2:
        raise Unsupported("outputs is 1: a request of one token has no time between tokens")
    ranks = scenario.attention_dp or 1
    rules = engine.scheduler
    all_ranks = engine.prefill is not None or rules.balance_timeout > 0 or rules.serial
    together = ranks if all_ranks else 1
    clients = concurrency if engine.prefill is not None else together * math.ceil(concurrency / ranks)
    inputs, outputs = (_lengths(mean, engine.shortest) for mean in (scenario.inputs, scenario.outputs))
    longest = inputs.largest + outputs.largest
    decodes = _worker(scenario, engine, together, longest, clients, catalog)
    load, count = ClosedLoop(clients, engine.turnaround_s, exponential=True), clients * engine.requests
    if engine.prefill is None:
        report = serve(decodes.times, decodes.scheduler, load, inputs, outputs, count)
    else:
        first = _worker(engine.prefill, engine, engine.prefill.attention_dp or 1, longest, clients, catalog)
        network = Network(token_bytes(scenario.with_(**LEAST_REQUEST), longest), engine.port_b_per_s)
        report = serve_pools(*Pools(first, decodes, network).at(engine.workers), load, inputs, outputs, count)
    assert report.tpot is not None
    tpot, late = report.tpot.mean.value, min(engine.streamed, scenario.outputs) - 1
    return {
        "ttft_s": engine.request_s + engine.token_s * scenario.inputs + report.ttft.mean.value + late * tpot,
        "tpot_s": tpot * (scenario.outputs - 1 - late) / (scenario.outputs - 1),
    }


def _worker(scenario: Scenario, engine: BenchmarkRun, ranks: int, longest: int, clients: int, catalog: Catalog) -> Pool:
    """An engine of a scenario with the cache that its memory has room for. TrafficError where there is none."""
    scheduler = replace(engine.scheduler, acceptance=acceptance_of(scenario, catalog), ranks=ranks)
    times = shared_tables(scenario, scheduler, longest, clients, catalog)
    blocks = scheduler.kv_blocks or cache_blocks(scenario.with_(**LEAST_REQUEST), scheduler, longest, catalog)
    return Pool(times, replace(scheduler, kv_blocks=blocks))


def _lengths(mean: int, shortest: float) -> Uniform:
    """Lengths of that mean, drawn evenly from ``shortest`` of the longest on. [tokens]"""
    longest = max(1, round(2 * mean / (1 + shortest)))
    return Uniform(max(1, 2 * mean - longest), longest)
