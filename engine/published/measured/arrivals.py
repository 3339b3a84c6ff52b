"""Runs of language models at a stated rate of arrivals, as MLPerf's logs have them: rows, and percentiles predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.published.measured.serving import SHARED, cache_room, shared_tables
from engine.published.measured.table import Figure, Header, known
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from engine.scenario.overrides import apply
from engine.traffic.arrivals import Poisson
from engine.traffic.engines.calendar import serve
from engine.traffic.engines.scheduler import POLICIES, Scheduler
from engine.traffic.sizes import LogNormal
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo

_METRICS, _MEASURES = ("ttft", "tpot"), ("mean", "p50", "p90", "p99")
_REQUESTS = 2000  # of a replica that are simulated
_DEVICES = (1, 2, 4, 8)
_FEWEST = 8  # mean requests that a replica's cache must hold at least


@dataclass(frozen=True)
class ReplicaLoad:
    """Poisson arrivals at one of a node's replicas, of log-normal lengths.

    ``per_s``: requests a second of a replica [1/s]. ``inputs``, ``outputs``: tokens in and out. ``scheduler``: with the
    blocks that a replica's memory holds.
    """

    per_s: float
    inputs: LogNormal
    outputs: LogNormal
    scheduler: Scheduler


def has_rates(header: list[str]) -> bool:
    """Whether a table's rows are runs at a stated rate."""
    return {"accelerator", "n_accel", "scenario", "target_qps"} <= set(header)


def columns_of(header: list[str]) -> Header:
    """A table's columns of times over the requests of a run."""
    figures = (Figure(f"{m}_{q}_ms", f"{m}_{q}_s", 1e-3) for m in _METRICS for q in _MEASURES)
    return Header({}, tuple(figure for figure in figures if figure.column in header), (), ())


def run_of(cells: Mapping[str, str], catalog: Catalog, zoo: Zoo) -> tuple[Scenario, ReplicaLoad]:
    """A row's replica and what arrives at it.

    A replica has the fewest devices that hold the network and eight mean requests; arrivals are split among as many as
    the accelerators make up. Lengths are log-normal about the data set's means, clipped at its longest: an assumption.
    ScenarioError says why a row has no prediction.
    """
    names = known()["under_rate"]
    if cells["scenario"].lower() not in ("server", "interactive"):
        raise ScenarioError(f"scenario is {cells['scenario'][:40]}: only runs at a rate are predicted")
    workload = cells["model"].removesuffix("-99.9").removesuffix("-99")
    system = names["accelerators"].get(cells["accelerator"])
    if workload not in names["tokens"] or workload not in zoo.ids():
        raise ScenarioError(f"model is {cells['model'][:40]}: the tokens of its requests are not known")
    if system is None:
        raise ScenarioError(f"accelerator is {cells['accelerator'][:60]!r}: it is none of ours, or several")
    base = default_scenario(system, workload, catalog, zoo)
    precision = cells["weights"].lower()
    if precision not in ("fp8", "fp4"):
        raise ScenarioError(f"weights is {cells['weights'][:40]!r}: fp8 or fp4 is modelled")
    tokens = names["tokens"][workload]
    engine = "vllm" if "vllm" in cells["software"].lower() else "trtllm"  # every token is sent by itself: no host hides
    late = engine == "trtllm"
    host = {"host_s": known()["host"]["pass_s"], "sequence_s": known()["host"]["sequence_s"]}
    scheduler = replace(POLICIES[engine], asynchronous=late, hidden=False, **host, **names["scheduler"])
    count = int(float(cells["n_accel"]))
    for devices in (d for d in _DEVICES if d <= count):
        replica = apply(base.with_(devices=devices), "precision", precision)
        replica = replica.with_(batch=1, inputs=int(tokens["inputs"]), outputs=int(tokens["outputs"]))
        room = cache_room(replica, SHARED[2], names["memory"], 1, catalog)
        if room is None or room >= _FEWEST * (tokens["inputs"] + tokens["outputs"]):
            break
    else:
        raise ScenarioError(f"n_accel is {count}: no replica of {workload} fits so many")
    rate = float(cells["target_qps"] or cells["scheduled_sps"]) / (count // devices)
    lengths = (LogNormal(tokens[name], names["cv"], tokens[f"most_{name}"]) for name in ("inputs", "outputs"))
    blocks = None if room is None else room // scheduler.block
    return replica, ReplicaLoad(rate, *lengths, replace(scheduler, kv_blocks=blocks))


def predicted_at(scenario: Scenario, rate: ReplicaLoad, catalog: Catalog) -> dict[str, float]:
    """Mean, p50, p90 and p99 of TTFT and TPOT at one replica, as `columns_of` names them. [s]

    Simulated from an empty engine to the last token of 2,000 requests, on estimates of the passes.
    """
    times = shared_tables(scenario, rate.scheduler, rate.inputs.largest + rate.outputs.largest, _REQUESTS, 1, catalog)
    report = serve(times, rate.scheduler, Poisson(rate.per_s), rate.inputs, rate.outputs, _REQUESTS)
    return {
        f"{metric}_{measure}_s": getattr(figures, measure).value
        for metric, figures in (("ttft", report.ttft), ("tpot", report.tpot))
        if figures is not None
        for measure in _MEASURES
    }
