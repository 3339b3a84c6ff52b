"""Runs of language models at a stated rate of arrivals, as MLPerf's logs have them: rows, and percentiles predicted.

Such a run counts only where it kept its benchmark's limits, and its rate is about the highest that did. Both are used:
within the doubt there is about a part's pass times, they are taken to be what makes them true.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from engine.devices.gpu.operators.record import fitted
from engine.kernels.events.passes import PARTS, Times, pass_seconds
from engine.published.measured.serving import LEAST_REQUEST, shared_tables
from engine.published.measured.table import Figure, Header, amount, format_of, part_columns, system_of, terms
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from engine.scenario.overrides import apply
from engine.traffic.arrivals import Gamma
from engine.traffic.engines.pass_run import requests_of, rules_of, run_passes
from engine.traffic.engines.scheduler import POLICIES, Scheduler
from engine.traffic.runs import OUTPUT_STREAM, SIZE_STREAM
from engine.traffic.scenario_load import cache_blocks
from engine.traffic.service import TrafficError
from engine.traffic.sizes import LogNormal
from hardware_specs.catalog import Catalog
from hardware_specs.schema import Device
from model_zoo.catalog import Zoo

_METRICS = "ttft", "tpot"
_MEASURES = {"mean": np.mean} | {f"p{q}": partial(np.quantile, q=q / 100) for q in (50, 90, 99)}
_REQUESTS = 4000  # of a replica that are simulated
_SETTLED = 0.05  # share of them that come before figures are taken
_ROUNDS = 100  # of finding how many sequences a steady state has
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)  # its multiples are spread evenly
_DEVICES = (1, 2, 4, 8)
_FEWEST = 8  # mean requests that a replica's cache must hold at least
_CARRIED = 0.75  # least share of its rate at which an engine answers: chance in lengths explains no less
_STEPS = 8  # of a search
_GAIN = 1.03  # of pass times, assumed: less is no reason to give an engine another budget than its own
_SPARE = 1.01  # of pass times: at their slowest first tokens wait for an overloaded engine, in most of their range not


@dataclass(frozen=True)
class ReplicaLoad:
    """Poisson arrivals at a node, dealt to its replicas in turn or at random, of log-normal lengths.

    ``per_s``: requests per second of a replica [1/s], ``cv``: of the time between two of them [-]. ``inputs``,
    ``outputs``: tokens in and out. ``scheduler``: with the blocks that a replica's memory holds. ``limits``: what the
    run kept at its 99th percentile of TTFT and TPOT [s]; none where that is not known. ``doubt``: of pass times, a
    factor [-].
    """

    per_s: float
    cv: float
    inputs: LogNormal
    outputs: LogNormal
    scheduler: Scheduler
    limits: tuple[float, ...] = ()
    doubt: float = 1.0


def columns_of(header: list[str]) -> Header:
    """A table's columns of times over the requests of a run."""
    figures = [Figure(f"{m}_{q}_ms", f"{m}_{q}_s", 1e-3) for m in _METRICS for q in _MEASURES]
    figures += [Figure(f"{q}_ms", f"latency_{q}_s", 1e-3) for q in _MEASURES]
    figures.append(Figure("samples_s", "samples_per_s", 1.0))
    return Header({}, tuple(figure for figure in figures if figure.column in header), (), ())


def run_of(cells: Mapping[str, str], catalog: Catalog, zoo: Zoo) -> tuple[Scenario, ReplicaLoad]:
    """A row's replica and what arrives at it.

    A replica has the fewest devices that hold the network and eight mean requests and that keep the run's limits, if
    their passes are as fast as they may be; arrivals are dealt to as many as the accelerators of all nodes make up.
    Lengths are log-normal about the data set's means, clipped at its longest: an assumption. ScenarioError says why a
    row has no prediction.
    """
    names = terms()["under_rate"]
    if cells["scenario"].lower() not in ("server", "interactive"):
        raise ScenarioError(f"scenario is {cells['scenario'][:40]!r}: only runs at a rate are predicted")
    workload = zoo.resolve(cells["model"].replace("_", ".").removesuffix("-99.9").removesuffix("-99"))
    tokens = names["tokens"].get(workload) or _stated(cells)
    if not tokens or workload not in zoo.ids():
        raise ScenarioError(f"model is {cells['model'][:40]!r}: the tokens of its requests are not known")
    part, count = part_columns(cells)
    system = system_of(cells, part, catalog)
    fitting = list(_replicas(cells, system, workload, {"cv_inputs": names["cv_inputs"]} | tokens, catalog, zoo))
    if not fitting:
        raise ScenarioError(f"{count} is {cells[count]}: no replica of {workload} fits so many")

    def slowest(run: tuple[Scenario, ReplicaLoad]) -> float:
        return _slowest(run[0].model_dump_json(), run[1], catalog)

    run = next((run for run in fitting if slowest(run) >= run[1].doubt), None) or max(fitting, key=slowest)
    return run[0], _tuned(run[0].model_dump_json(), run[1], catalog)


def _tuned(scenario: str, load: ReplicaLoad, catalog: Catalog) -> ReplicaLoad:
    """A load with the token budget at which passes may be much slower than at the engine's own: whoever hands in a run
    looks for its highest rate. An assumption."""
    slowest = _slowest(scenario, load, catalog)
    for budget in terms()["under_rate"]["budgets"]:
        rival = replace(load, scheduler=replace(load.scheduler, budget=budget))
        if load.limits and slowest < load.doubt and _keeps(scenario, rival, slowest * _GAIN, catalog):
            load, slowest = rival, _slowest(scenario, rival, catalog)
    return load


def _replicas(
    cells: Mapping[str, str], system: str, workload: str, tokens: Mapping[str, Any], catalog: Catalog, zoo: Zoo
) -> Iterator[tuple[Scenario, ReplicaLoad]]:
    """Replicas that a row's network fits in, of the fewest devices first, and what arrives at each."""
    names = terms()["under_rate"]
    boards = (parts for word, parts in names["boards"].items() if word in cells["accelerator"].lower().split())
    count = int(amount(cells, part_columns(cells)[1])) * next(boards, 1)
    group = catalog.system(system).devices[0]
    part = catalog.device(group.device)
    entry = next(entry for entry in names["engines"] if _runs(entry, cells["software"].lower(), workload))
    settings = {name: value for name, value in entry.items() if name not in ("named", "of", "policy", "in_turn")}
    scheduler = replace(POLICIES[entry["policy"]], **names["scheduler"] | settings)
    inputs, outputs = (
        LogNormal(*(tokens[f"{of}{name}"] for of in ("", "cv_", "most_"))) for name in ("inputs", "outputs")
    )
    limits = tuple(1e-3 * limit for limit in names["limits"].get(workload, {}).get(cells["scenario"].lower(), ()))
    doubt = names["doubt"]["measured" if part.gpu is not None and part.gpu.generation in fitted() else "other"]
    streams = 1 if part.cpu is None else names["numa"].get(system, 1)
    for devices in (d for d in _DEVICES if d <= count and d in (group.counts or (group.count,))):
        layout = {"devices": devices} | ({"scheme": "tensor"} if devices > 1 else {})
        base = default_scenario(system, workload, catalog, zoo, streams=streams, **layout)
        replica = apply(base.with_(batch=1), "precision", _format(cells["weights"], part))
        if names["kv_format"] in part.peak:
            replica = apply(replica, "kv_format", names["kv_format"])
        replica = replica.with_(inputs=int(inputs.mean), outputs=int(outputs.mean))
        fewest = int(_FEWEST * (inputs.mean + outputs.mean))
        try:
            blocks = cache_blocks(replica.with_(**LEAST_REQUEST), scheduler, fewest, catalog)
        except TrafficError:
            continue
        replicas = max(1, int(count * amount(cells, "nodes", 1.0)) // devices) * streams
        per_s = amount(cells, "target_qps" if cells["target_qps"] else "scheduled_sps") / replicas
        cv = replicas**-0.5 if entry.get("in_turn", True) else 1.0
        yield replica, ReplicaLoad(per_s, cv, inputs, outputs, replace(scheduler, kv_blocks=blocks), limits, doubt)


def _stated(cells: Mapping[str, str]) -> dict[str, Any]:
    """Tokens of a network that no rule here is of: outputs as the row's rates have them, inputs assumed; else none."""
    if not cells.get("tokens_s") or not cells.get("completed_sps"):
        return {}
    outputs, assumed = amount(cells, "tokens_s") / amount(cells, "completed_sps"), terms()["under_rate"]["others"]
    return assumed["tokens"] | {"outputs": outputs, "most_outputs": int(assumed["longest"] * outputs)}


def _runs(engine: Mapping[str, Any], software: str, workload: str) -> bool:
    """Whether an entry is of a row's software and network."""
    return any(name in software for name in engine["named"]) and engine.get("of", workload) == workload


def _format(weights: str, part: Device) -> str:
    """A row's format of weights; where none is stated the narrowest that a part computes in, as all state that do."""
    if weights.lower() in ("", "unset"):
        return "fp4" if "fp4" in part.peak else "fp8"
    format = format_of(weights, part)
    return format if part.cpu is None else terms()["under_rate"]["at_cpu"].get(format, format)


def predicted_at(scenario: Scenario, load: ReplicaLoad, catalog: Catalog) -> dict[str, float]:
    """Mean, p50, p90 and p99 of TTFT and TPOT at one replica in steady state, as `columns_of` names them. [s]

    Simulated, on estimates of the passes. Where the load has limits, all passes are as much slower or faster than
    estimated, within its doubt, as makes the rate the highest that keeps them: the figures are given that the run was
    valid, and are no evidence of how good estimates of passes are where the limits decide them. TrafficError for a rate
    that the replica does not carry, however fast its passes may be.
    """
    text = scenario.model_dump_json()
    slowest = _slowest(text, load, catalog)
    kept = load.limits and _keeps(text, load, slowest, catalog)
    if not kept and _percentiles(text, load, slowest, catalog)["carried"] < _CARRIED:
        slowest = 1.0 / load.doubt
        if (carried := _percentiles(text, load, slowest, catalog)["carried"]) < _CARRIED:
            raise TrafficError(
                f"{load.per_s:.4g} requests come a second to a replica (devices: {scenario.devices}); it carries about "
                f"{carried * load.per_s:.4g} if its passes take {slowest:.2g} of what they are estimated to"
            )
    spare = _SPARE if load.limits else 1.0
    early = {
        name: value for name, value in _percentiles(text, load, slowest / spare, catalog).items() if "ttft" in name
    }
    return _percentiles(text, load, slowest, catalog) | early


def _keeps(scenario: str, load: ReplicaLoad, slower: float, catalog: Catalog) -> bool:
    """Whether a run keeps its limits."""
    figures = _percentiles(scenario, load, slower, catalog) if load.limits else {}
    return all(figures[f"{name}_p99_s"] <= limit for name, limit in zip(_METRICS, load.limits))


@lru_cache(maxsize=512)
def _slowest(scenario: str, load: ReplicaLoad, catalog: Catalog) -> float:
    """How much slower than estimated passes may be, within their doubt, for a run to keep its limits. [-]"""
    low, high = 1.0 / load.doubt, load.doubt
    if not load.limits or _keeps(scenario, load, high, catalog):
        return high if load.limits else 1.0
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _keeps(scenario, load, middle, catalog) else (low, middle)
    return low


@lru_cache(maxsize=512)
def _percentiles(scenario: str, load: ReplicaLoad, slower: float, catalog: Catalog) -> dict[str, float]:
    """Figures of an engine whose passes take ``slower`` times as long as estimated [s], and ``carried``: the rate of
    first tokens over that of arrivals, of the second half [-].

    The run begins with as many sequences under way as its steady state has.
    """
    scheduler, longest = load.scheduler, load.inputs.high + load.outputs.high
    tables = shared_tables(Scenario.model_validate_json(scenario), scheduler, longest, _REQUESTS, catalog)
    parts = {name: slower * getattr(tables, name) for name in PARTS}
    times = tables._replace(**parts)
    begun = _under_way(times, load)
    inputs = load.inputs.draw(_REQUESTS, 0, SIZE_STREAM, 0)
    outputs = load.outputs.draw(_REQUESTS, 0, OUTPUT_STREAM, 0)
    whole = replace(load.outputs, mean=min(load.outputs.high, load.outputs.mean * (1 + load.outputs.cv**2)))
    answers = whole.draw(begun, 0, OUTPUT_STREAM, 1)
    progress = np.floor(answers * (np.arange(begun) * _GOLDEN % 1.0)).astype(np.int64)
    context = load.inputs.draw(begun, 0, SIZE_STREAM, 1) + progress
    arrive = np.r_[np.zeros(begun), Gamma(load.per_s, load.cv).times(_REQUESTS, 0, 0)]
    cached = np.r_[context - 1, np.zeros(_REQUESTS, np.int64)]
    requests = requests_of(arrive, np.r_[context, inputs], np.r_[answers - progress, outputs], cached)
    run_passes(times, scheduler, requests)
    steady = slice(begun + int(_SETTLED * _REQUESTS), begun + _REQUESTS - min(2 * begun, _REQUESTS // 2))
    gaps = requests.outputs[steady] - 1
    ttft, decode = (requests.first - requests.arrive)[steady], (requests.finish - requests.first)[steady]
    window = int(_SETTLED * _REQUESTS)
    half, end = (slice(begun + at - window, begun + at) for at in (_REQUESTS // 2, _REQUESTS))
    come, answered = (np.median(instants[end]) - np.median(instants[half]) for instants in (arrive, requests.first))
    values = {"ttft": ttft, "tpot": decode[gaps > 0] / gaps[gaps > 0], "latency": ttft + decode}
    figures = {f"{name}_{m}_s": float(of(seconds)) for name, seconds in values.items() for m, of in _MEASURES.items()}
    return figures | {"carried": float(come / answered)}


def _under_way(times: Times, load: ReplicaLoad) -> int:
    """Sequences of a steady state: as many as come while one is answered, no more than there is room for.

    An estimate, of passes of mean lengths. [-]
    """
    scheduler, inputs, outputs = load.scheduler, load.inputs.mean, load.outputs.mean
    context = inputs + 0.5 * outputs * (1 + load.outputs.cv**2)
    rules = rules_of(scheduler, scheduler.kv_blocks or 0)
    limit = min(scheduler.max_seqs, (scheduler.kv_blocks or 1 << 40) * scheduler.block / context)
    alone = inputs * float(np.interp(inputs, times.contexts, times.prompt))
    rows = 0.0
    for _ in range(_ROUNDS):
        prompts = rows / outputs
        seconds = pass_seconds(times, rules, prompts * inputs, prompts, prompts * alone, rows, context)
        rows = min(limit, max(1.0, load.per_s * outputs * seconds))
    return round(rows)
