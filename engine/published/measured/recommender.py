"""Runs of recommenders, as MLPerf's logs have them: the rate of all queries at once, and times of queries at a rate."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.evaluate import evaluate
from engine.published.measured.table import amount, format_of, part_columns, system_of, terms
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from engine.traffic.arrivals import Poisson
from engine.traffic.limits import capacity
from engine.traffic.policies import DynamicBatching, TandemQueue, single
from engine.traffic.service import Service, TrafficError
from engine.traffic.simulate import LoadReport, simulate
from engine.traffic.sizes import Fixed, LogNormal
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo

_REQUESTS = 1_000_000  # a valid run's last ten minutes; queues near capacity take long to build up
_APART = 20  # items, of sizes whose time is told apart
_FULL = 0.98  # share of its capacity that a valid run's node was busy at most


@dataclass(frozen=True)
class RecommenderLoad:
    """Poisson arrivals of queries at a node of ``devices`` [-], ``per_s`` [1/s]; 0: all of them are there at once.

    ``servers`` [-] take one query each, or up to ``together`` of those that wait.
    """

    per_s: float
    devices: int
    servers: int
    together: int


def run_of(cells: Mapping[str, str], catalog: Catalog, zoo: Zoo) -> tuple[Scenario, RecommenderLoad]:
    """A row's device, and what arrives at all: a GPU's launch takes many queries, some cores of a CPU take one.

    ScenarioError says why a row has no prediction.
    """
    names = terms()["under_rate"]
    scenario = cells["scenario"].lower()
    if scenario not in ("server", "offline"):
        raise ScenarioError(f"scenario is {cells['scenario'][:40]}: queries at a rate or all at once are predicted")
    at_cpu = not cells["accelerator"]
    column, count = part_columns(cells)
    part = system_of(cells, column, catalog)
    query_cores = names["cores_together"].get(part, names["cores_together"]["other"])
    devices = int(amount(cells, count) * amount(cells, "nodes", 1.0))
    queries = names["queries"]
    device = catalog.device(catalog.system(part).devices[0].device)
    cores = device.cpu
    streams = 1 if cores is None else int(cores.cores.si) // query_cores
    together = 1 if at_cpu else queries["together"]
    workload, exact = cells["model"].removesuffix("-99"), cells["model"].endswith("-99.9") and not at_cpu
    base = default_scenario(part, workload.removesuffix("-99.9"), catalog, zoo)
    format = queries["exact"] if exact else format_of(cells["weights"], device)
    base = base.with_(precision=format, streams=streams, batch=queries["items"] * together)
    if at_cpu:
        base = base.with_(runtime="onednn-graph")  # PyTorch with its extension
    per_s = amount(cells, "target_qps") if scenario == "server" else 0.0
    return base, RecommenderLoad(per_s, devices, devices * streams, together)


def predicted_at(scenario: Scenario, load: RecommenderLoad, catalog: Catalog) -> dict[str, float]:
    """Queries a second of all at once (`samples_per_s`), or mean, p50 and p99 of a query's time [s].

    An estimate: sizes are log-normal within the benchmark's, a query's time is linear in its items. Where the rate is
    more than the devices carry by it, as a valid run can't have been, their times are what carries it. TrafficError
    where they would be more than a quarter off.
    """
    if load.per_s == 0.0:
        apart = load.devices if load.together > 1 else 1
        return {"samples_per_s": apart * capacity(*_queue(scenario, load, 1.0, catalog)).qps}
    report = _load_report(scenario, load, 1.0, catalog)
    if report.latency is None:
        carried, doubt = load.per_s / report.rho, terms()["under_rate"]["doubt"]["measured"]
        faster = max(1.0 / doubt, _FULL / report.rho)
        report = _load_report(scenario, load, faster, catalog)
        if report.latency is None:
            raise TrafficError(
                f"target_qps is {load.per_s:g}; the devices carry {carried:.4g} by their estimated times, and "
                f"{load.per_s / report.rho:.4g} if those are {faster:.2g} of it"
            )
    return {f"latency_{name}_s": getattr(report.latency, name).value for name in ("mean", "p50", "p99")}


def _load_report(scenario: Scenario, load: RecommenderLoad, slower: float, catalog: Catalog) -> LoadReport:
    """Queries at all cores, or a device's share of them at one."""
    system, sizes = _queue(scenario, load, slower, catalog)
    arrivals = Poisson(load.per_s / (load.devices if load.together > 1 else 1))
    return simulate(system, arrivals, sizes=sizes, requests=_REQUESTS)


def _queue(
    scenario: Scenario, load: RecommenderLoad, slower: float, catalog: Catalog
) -> tuple[TandemQueue, LogNormal | Fixed]:
    """Some cores take a query each; one of the devices launches when enough are there or one has waited."""
    queries = terms()["under_rate"]["queries"]

    def seconds(items: int) -> tuple[float, float]:
        report = evaluate(scenario.with_(batch=items), catalog)
        return slower * items / report.throughput_per_s, slower * report.latency_s

    if load.together > 1:
        counts = [1, 10, load.together]
        holds, latencies = zip(*(seconds(count * queries["items"]) for count in counts))
        service = Service.from_points(counts, holds, latencies)
        return single(service, DynamicBatching(load.together, queries["wait_s"])), Fixed()
    low, mean, high = (queries[name] for name in ("least", "items", "most"))
    sizes = range(low, high + 1, _APART)
    holds = np.interp(sizes, (low, mean, high), [seconds(items)[1] for items in (low, mean, high)])
    service = Service.from_points((1,), holds[None], servers=load.servers, sizes=sizes)
    return single(service), LogNormal(mean, queries["cv"], high, low)
