"""What is tried: every count, partition, precision and number of streams of a system that differ in what they do."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from engine.choose.question import Price, Question
from engine.choose.serving import Refusal, Served
from engine.choose.simulation import LoadFigures
from engine.cost.error_bands import NO_BAND, ErrorBand
from engine.cost.figures import YEAR_S
from engine.cost.report import Report
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.devices.common.parallel import experts_of
from engine.resolve.bind import bind
from engine.resolve.check import own_values
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from engine.scenario.configuration import configuration
from engine.scenario.formats import BITS, WEIGHT_ONLY
from engine.traffic.plan import CapacityPlan
from entries.schema import LISTED, hint
from hardware_specs.catalog import Catalog
from hardware_specs.schema import Device, System
from model_zoo.catalog import Zoo

HOST_USD = 5000.0
"""Price of a host that carries up to eight devices, where neither the catalog nor the question says one: rivals are
compared as nodes. Assumed, 2,000 to 20,000: one or two sockets with memory, board, supply and network port. [USD]"""
_SPREAD = ("tensor", "clusters", "pipelined", "tables", "pinned", "on-path")
"""Schemes that do on several devices what one can't; whole copies on one each are instances, and a network cut in two
is the Split page's question."""


@dataclass(frozen=True)
class Row:
    """One system: its best arrangement under the limits, or why it has none.

    `rank` counts from 1 among real systems that have a price; None for one that has none, is a what-if or is refused.
    """

    system: str
    name: str
    kind: str
    what_if: bool
    rank: int | None = None
    best: Served | None = None
    refusal: Refusal | None = None
    reason: str = ""  # its price and throughput against the winner; empty for the best
    tied: bool = False  # its cost and the winner's differ by less than their error bands
    report: Report | None = None  # of the best arrangement: what opens elsewhere
    load: LoadFigures | None = None  # of a language model: one instance with its clients or rate
    plan: CapacityPlan | None = None  # of a demand, its instances as nodes
    plan_problem: str = ""  # why there is none: no power is known, or a rack feeds no instance
    front: tuple[Served, ...] = ()  # speed of a user against throughput a device, slowest user first

    @property
    def configuration(self) -> str:
        """`8x, FP8, TP8, batch 128`; empty where nothing of it was priced."""
        result = self.best or self.refusal
        return configuration(result.scenario) if result is not None else ""

    @property
    def band(self) -> ErrorBand:
        """Error band of the best arrangement."""
        return NO_BAND if self.report is None else self.report.error_band

    @property
    def label(self) -> str:
        """Its name, and that it is a what-if."""
        return f"{self.name} (what-if)" if self.what_if else self.name


@dataclass(frozen=True)
class Layout:
    """Arrangements of as many devices of a system, at batch 1.

    Attributes
    ----------
    starts : of every format and number of streams, experts cut over all devices or whole on their own
    ways : what else shares the network between them: pipeline stages, and attention ranks and ranks of experts of every
        number that divides the devices; tried in the format and the number of streams that come nearest
    """

    devices: int
    starts: tuple[Scenario, ...]
    ways: tuple[dict[str, int | None], ...] = ()


def candidates(question: Question, catalog: Catalog, zoo: Zoo) -> Iterator[tuple[Row, tuple[Layout, ...]]]:
    """Every real system asked for, then the what-ifs, each with its layouts, the fewest devices first.

    ScenarioError for a system or a workload that is not known.
    """
    ids = catalog.ids("systems")
    for id in (*question.systems, *question.prices, *(what_if.system for what_if in question.what_ifs)):
        if id not in ids:
            advice = hint(id, ids, LISTED.format("systems"))
            raise ScenarioError(f"system {id[:60]!r} is not in the catalog{advice}")
    for id in dict.fromkeys(question.systems) or catalog.ids("systems"):
        yield _candidate(question, id, {}, catalog, zoo)
    for what_if in question.what_ifs:
        yield _candidate(question, what_if.system, what_if.overrides, catalog, zoo)


def _candidate(
    question: Question, id: str, overrides: Mapping[str, Any], catalog: Catalog, zoo: Zoo
) -> tuple[Row, tuple[Layout, ...]]:
    system = catalog.system(id)
    device = catalog.device(system.devices[0].device)
    row = Row(id, system.name, family(device.kind).label, bool(overrides))
    try:
        base = default_scenario(id, question.workload, catalog, zoo, batch=question.batch or 1)
    except Unsupported as error:
        return replace(row, reason=str(error)), ()
    price, costs = question.prices.get(id, Price()), question.costs
    costs = costs if costs.host_usd is not None else costs.model_copy(update={"host_usd": HOST_USD})
    usd = price.usd
    if price.usd_per_hour is not None:
        usd = price.usd_per_hour * costs.years * (YEAR_S / 3600.0)
        costs = costs.model_copy(update={"energy_usd_per_kwh": 0.0, "host_usd": 0.0})
    price_set = {} if usd is None else {"devices.0.price": usd}
    lengths = {name: value for name in ("inputs", "outputs") if (value := getattr(question, name)) is not None}
    base = base.with_(overrides={**overrides, **price_set}, costs=costs, **lengths)
    bind(base, catalog, zoo)  # a what-if that names nothing, or can't be, is a sentence and no row
    layouts = tuple(_layouts(question, base, system, device, zoo))
    reason = "" if layouts else "it is there to cut one network in two, which the Split page answers"
    return replace(row, reason=reason), layouts


def _layouts(question: Question, base: Scenario, system: System, device: Device, zoo: Zoo) -> Iterator[Layout]:
    fam = family(device.kind)
    formats, streams = _formats(question, device, zoo), sorted({1, fam.max_streams(device, base)})
    for count, scheme in _schemes(system, base, zoo):
        ways = list(_ways(base.with_(devices=count, scheme=scheme), system, device, zoo))
        ends = [w for w in ways if _is_end(w, count)]
        starts = []
        for end, format, parallel in product(ends, formats, streams):
            with suppress(ScenarioError):
                starts.append(base.with_(devices=count, scheme=scheme, precision=format, streams=parallel, **end))
        yield Layout(count, tuple(starts), tuple(w for w in ways if w not in ends))


def _ways(base: Scenario, system: System, device: Device, zoo: Zoo) -> Iterator[dict[str, int | None]]:
    """Every legal way for its devices to share a network: pipeline stages, of mixtures attention ranks and experts too.

    Without experts attention ranks are left out: servers give each rank the whole network then, which is an instance.
    """
    fam, graph = family(device.kind), zoo.graph(base.workload)

    def offered(path: str, **ways: int | None) -> tuple[int | None, ...]:
        return None, *own_values(path, fam, (device, system), graph, base.with_(**ways))[0]

    for stages in offered("pipeline_parallel") if graph.causal and base.devices > 1 else (None,):
        names = ("expert_parallel", "attention_dp") if experts_of(graph) else ()
        experts, ranks = (offered(name, pipeline_parallel=stages) for name in names) if names else ((None,), (None,))
        for of_experts, of_attention in product(experts, ranks):
            yield {"pipeline_parallel": stages, "expert_parallel": of_experts, "attention_dp": of_attention}


def _is_end(ways: dict[str, int | None], count: int) -> bool:
    """Whether experts are cut over all devices or whole on as many ranks, with an attention rank for each or none."""
    ends = ((None, None), (count, None), (count, count))
    return ways["pipeline_parallel"] is None and (ways["expert_parallel"], ways["attention_dp"]) in ends


def _schemes(system: System, base: Scenario, zoo: Zoo) -> Iterator[tuple[int, str]]:
    """(devices, scheme): one device, then schemes that spread a network over several."""
    group = system.devices[0]
    counts = group.counts or (group.count,)
    if "split" in system.schemes and "on-path" not in system.schemes:
        return
    if "single" in system.schemes:
        yield min(counts), "single"
    lookups = any(op.kind == "EmbeddingBag" for op in zoo.graph(base.workload).ops)
    for count in counts:
        for scheme in _SPREAD:
            copies = system.clusters if scheme == "clusters" else 1
            spread = count > copies or scheme == "on-path" or "single" not in system.schemes
            if scheme in system.schemes and spread and (scheme != "tables" or lookups):
                yield count, scheme
    chassis = system.extra_power or system.extra_price or system.host_power_counted
    if "replicas" in system.schemes and chassis and max(counts) > 1:
        yield max(counts), "replicas"  # a chassis is bought and fed whole


def _formats(question: Question, device: Device, zoo: Zoo) -> tuple[str, ...]:
    """Formats worth trying: of equally many bits the fastest one, none wider than 16 bits where one of 16 runs."""
    fam = family(device.kind)
    graph, native = zoo.graph(question.workload), zoo.workload(question.workload).precision or ""
    options = [f for f in fam.formats(device) if fam.supports(device, graph, f) is None]
    formats = [f for f in options if BITS[f] >= question.bits or f == native] or options[:1]
    best: dict[tuple[float, bool], str] = {}
    for format in formats:
        key = (BITS[format], format in WEIGHT_ONLY)
        if key not in best or _rank(format, native, device) > _rank(best[key], native, device):
            best[key] = format
    narrow = [f for f in best.values() if BITS[f] <= 16.0]
    return tuple(sorted(narrow or best.values(), key=lambda f: -BITS[f]))


def _rank(format: str, native: str, device: Device) -> tuple[float, bool, bool]:
    """Which of several formats of one width is taken: the fastest, then the network's own, then a floating one."""
    peak = device.peak.get(format)
    return (peak.si if peak is not None else 0.0, format == native, not format.startswith("int"))
