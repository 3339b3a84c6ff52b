"""An arrangement priced along its batch, and what each batch serves under load. Estimates, as their parts are.

The main path without its last step: a report's tables are made only for what is opened.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from engine.choose.question import LOAD, Question
from engine.cost.assemble import Figures
from engine.cost.best_plan import make_plan
from engine.cost.columns import Alike, Sizes, in_columns
from engine.cost.continuous import Continuous, PassTimes, first_alone, rank_sizes, running
from engine.cost.passes import passes_of
from engine.cost.pieces import Design, fits_of, runs_of
from engine.cost.power_and_price import PER_HOST, hosts_of
from engine.devices import family
from engine.resolve.bound import Bound
from engine.resolve.choices import BATCHES
from engine.scenario import Scenario
from engine.scenario.sentences import amount, level_name
from engine.traffic.engines.operating_points import tightest
from engine.traffic.plan import failing
from engine.traffic.scenario_load import switched
from entries.schema import InputError
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo

_TAIL = math.log(100.0)  # of an exponential tail, where 1% is left
_WORTH = 1.02  # growth of the rate below which a larger batch only waits longer


@dataclass(frozen=True)
class Refusal:
    """Why an arrangement is no answer: it does not run, does not fit, is too slow at any batch, or lacks evidence.

    `kind` is ``runs``, ``fits``, ``limit`` or ``evidence``; `over` is how far it is from being served, as a ratio.
    """

    scenario: Scenario
    kind: str
    sentence: str
    over: float = math.inf

    @property
    def distance(self) -> tuple[int, float]:
        """How far from serving: no evidence, then a missed limit, a memory that is short, what never ran."""
        return ("evidence", "limit", "fits", "runs").index(self.kind), self.over


@dataclass(frozen=True, eq=False)
class Served:
    """One instance of an arrangement at one batch: what it serves under load.

    Attributes
    ----------
    start, batch : the arrangement with the question's limits and prices, at the batch that it serves here
    utilisation : its share of time busy, as the demand makes it [-]
    host_usd : what it pays for its host where other instances share that; None: as its start has it [USD]
    throughput_per_s : as the report of its scenario has it [1/s]
    usd_per_million : units of work at that share of time busy, output tokens of a decoder; None without a price [USD]
    loaded_latency_s : of 99% of requests where a limit or a demand says how they come, else of one in a busy instance
        [s]
    joined : of a decoder a sequence under continuous batching, `engine.cost.continuous`
    rate : units of work a second inside the limits [1/s]
    full_rate : the same when it is busy all the time [1/s]
    devices : in use [-]
    instances : how many the demand takes; 1 where there is none [-]
    clients : requests in flight in each: its part of the users, else as many as its batches have places for [-]
    need : instances that the demand would keep full; 0 where there is none [-]
    down : instances of those that may fail: limits hold and loads are shared without them [-]
    """

    start: Scenario
    batch: int
    utilisation: float
    throughput_per_s: float
    usd_per_million: float | None
    loaded_latency_s: float
    joined: Continuous | None
    rate: float
    full_rate: float
    devices: int
    instances: int = 1
    clients: int = 1
    host_usd: float | None = None
    need: float = 0.0
    down: float = 0.0

    @cached_property
    def scenario(self) -> Scenario:
        """What opens elsewhere."""
        costs = self.start.costs.model_copy(update={"utilisation": self.utilisation})
        if self.host_usd is not None:
            costs = costs.model_copy(update={"host_usd": self.host_usd})
        return self.start.with_(batch=self.batch, costs=costs)

    @property
    def working(self) -> float:
        """Instances that share the demand while the failure lasts. [-]"""
        return self.instances - self.down

    @property
    def rate_per_device(self) -> float:
        """Units of work a second of one device inside the limits. [1/s]"""
        return self.rate / self.devices

    @property
    def speed(self) -> float:
        """What one user sees under load: tokens a second of a decoder, else answers a second. [1/s]"""
        return 1.0 / (self.loaded_latency_s if self.joined is None else self.joined.tpot_s)

    @property
    def usd_per_hour(self) -> float | None:
        """Of an instance; None where there is no price. [USD/h]"""
        if self.usd_per_million is None:
            return None
        return self.usd_per_million * 3600.0e-6 * self.throughput_per_s * self.utilisation

    @property
    def total_usd_per_hour(self) -> float | None:
        """Of all instances. [USD/h]"""
        return None if self.usd_per_hour is None else self.usd_per_hour * self.instances


def offers(question: Question, start: Scenario, catalog: Catalog, zoo: Zoo) -> Iterator[Served | Refusal]:
    """What an arrangement serves along its batch, until it does not fit, is too slow or gains nothing."""
    alone: Figures | None = None
    last = 0.0
    start = start.with_(limits=question.limits)
    for batch, priced in _along(question, start, catalog, zoo):
        if isinstance(priced, InputError):
            yield Refusal(start.with_(batch=batch), "runs", str(priced))
            return
        design, times, ranks = priced
        if times is None:
            yield _unfit(replace(design.bound, scenario=start.with_(batch=batch)))
            return
        if alone is None:
            alone = times if batch == 1 else first_alone(replace(design.bound, scenario=start.with_(batch=batch)))
        power = times.figure("power_w")
        decoder = running(design.bound, batch, times, alone, ranks)
        result = _under_load(question, start, batch, times, decoder, sum(design.plan.devices_used))
        if isinstance(result, Served) and question.power_w is not None:
            if power is None:
                result = Refusal(result.scenario, "runs", "no power is known of it, so no limit on power holds")
            elif power > question.power_w:
                result = _miss(result.scenario, "power", power, question.power_w, "W")
        if isinstance(result, Refusal):
            yield result
            return
        yield _with_demand(question, design.bound, times, result, batch * start.streams * design.plan.batches)
        if result.rate < _WORTH * last:
            return
        last = result.rate


Priced = tuple[Design, Figures | None, PassTimes | None]
"""A design, of this batch or of several, the figures at this one, None where it does not fit, and of its ranks."""


def _along(
    question: Question, start: Scenario, catalog: Catalog, zoo: Zoo
) -> Iterator[tuple[int, Priced | InputError]]:
    """Every batch that may be worth it with its figures, or why it can't be.

    All at once; the first alone where a limit on power may end them there; one by one on a machine that runs a program
    for each.
    """
    further = rank_sizes(start)

    def read(alike: Alike) -> list[tuple[Design, Figures | None, np.ndarray | None]]:
        fits, passes = alike.fits().tolist(), passes_of(alike) if further else [None] * len(alike.places)
        return [(alike.design, alike.alone(at) if fit else None, passes[at]) for at, fit in enumerate(fits)]

    batches = (question.batch,) if question.batch else BATCHES
    if question.users is not None:
        batches = tuple(b for b, before in zip(batches, (0, *batches), strict=False) if before < question.users)
    device = catalog.device(catalog.system(start.system).devices[0].device)
    together = len(batches) if question.power_w is None else 1
    parts = [batches[:together], batches[together:]] if family(device.kind).compiled else [(b,) for b in batches]
    for part in filter(None, parts):
        sizes = [Sizes(batch, start.inputs, start.outputs) for batch in (*further, *part)]
        first = in_columns(start, sizes, read, catalog, zoo, lambda error: error)
        prompts = [of[2][0, 0] for of in first[: len(further)] if not isinstance(of, InputError) and of[2] is not None]
        for batch, of in zip(part, first[len(further) :], strict=True):
            if isinstance(of, InputError):
                yield batch, of
                continue
            design, figures, passes = of
            waits = passes is not None and batch > 1 and len(prompts) == len(further)
            yield batch, (design, figures, PassTimes(*prompts, passes[1, 1]) if waits else None)


def _unfit(bound: Bound) -> Refusal:
    """The memory that lacks most of its room, in a few words."""
    design = Design(bound, make_plan(bound))
    fits = [fit for stage in fits_of(design, runs_of(design)) for fit in stage if not fit.fits]
    fit = max(fits, key=lambda fit: fit.need_bytes / fit.capacity_bytes)
    need, room = amount(fit.need_bytes, "B"), amount(fit.capacity_bytes, "B")
    sentence = f"{fit.holds} need {need} per device of {room} {level_name(fit.level)}"
    return Refusal(bound.scenario, "fits", sentence, fit.need_bytes / fit.capacity_bytes)


def _under_load(
    question: Question, start: Scenario, batch: int, times: Figures, decoder: Continuous | None, devices: int
) -> Served | Refusal:
    """Times and rates at this batch, before a demand; a refusal where a limit is missed."""
    share, full = 1.0, times.units_per_s
    if decoder is not None:
        latency, full, limits = decoder.latency_s, decoder.throughput_per_s, tightest(question.serving_limits)
        for name, time, value in (
            ("TTFT", "ttft", decoder.ttft_s),
            ("TPOT", "tpot", decoder.tpot_s),
            ("latency", "e2e", max(latency, times.latency_s)),
        ):
            if value > limits.get(time, math.inf):
                return _miss(start.with_(batch=batch), name, value, limits[time])
        share = LOAD if question.qps is not None else 1.0
    else:
        servers = max(1, times.layout.replicas) * start.streams
        interval = times.interval_s / servers
        waits = (1.0 - 1.0 / batch) * times.interval_s if question.latency_s is not None else 0.0
        latency = times.latency_s + waits
        if question.latency_s is not None and latency > question.latency_s:
            return _miss(start.with_(batch=batch), "latency", latency, question.latency_s)
        if question.users is None and (question.latency_s is not None or question.qps is not None):
            share = LOAD
            if question.latency_s is not None:
                room = 2.0 * batch * (question.latency_s - latency) / (_TAIL * interval)
                share = min(LOAD, room / (1.0 + room))
            latency += _TAIL * interval * share / (2.0 * batch * (1.0 - share))
        if share <= 0.0:
            why = "no load leaves room to wait inside the latency limit"
            return Refusal(start.with_(batch=batch), "limit", why, 1.0)
    usd, busy, rate = times.figure("usd_per_million"), start.costs.utilisation, times.units_per_s
    return Served(start, batch, busy, rate, usd, latency, decoder, share * full, full, devices)


def _with_demand(question: Question, bound: Bound, times: Figures, point: Served, under_way: int) -> Served:
    """As many instances as the demand takes with what fails down, and their share of time busy; ``under_way`` requests
    fill one.
    """
    clients, busy, need = under_way, point.utilisation, 0.0
    if question.qps is not None:
        need = question.qps * units_of(bound) / point.rate
    elif question.users is not None:
        need = question.users / under_way
    down = _failing(question, bound, times, point.devices)
    instances = max(1, math.ceil((need + down) * (1 - 1e-12)))
    if question.qps is not None:
        busy = need * point.rate / instances / point.throughput_per_s
    elif question.users is not None:
        clients = math.ceil(question.users / (instances - down))
        busy = need / instances * point.full_rate / point.throughput_per_s
    whole = point.start.costs.host_usd or 0.0
    within = per_host(bound, point.devices)
    host_usd = whole * (math.ceil(instances / within) / instances if question.demands else 1.0 / within)
    if question.demands or host_usd < whole:
        busy = min(1.0, busy)
        usd = times.usd_per_million_at(busy, whole - host_usd)
        point = replace(point, utilisation=busy, usd_per_million=usd, host_usd=host_usd)
    return replace(point, instances=instances, clients=clients, need=need, down=down)


def units_of(bound: Bound) -> float:
    """Units of work of a request: its items, tokens of a decoder, or one. [-]"""
    s, graph = bound.scenario, bound.graph
    return float(s.inputs) if graph.items else graph.units_per_request.at(s.inputs, s.outputs)


def _failing(question: Question, bound: Bound, times: Figures, devices: int) -> float:
    """Instances that the question's failure takes, as a plan counts them. [-]"""
    if not question.demands or question.survives == "none":
        return 0.0
    drawn, within = times.figure("power_w") or 0.0, per_host(bound, devices)
    slots = question.rack_slots * within
    per_rack = max(1, min(slots, int(question.rack_w // drawn) if drawn > 0.0 else slots))
    return failing(question.survives, devices, within, switched(bound, devices), per_rack)


def per_host(bound: Bound, devices: int) -> int:
    """Instances that stand in one host: as many as it has room for and a system is sold with. [-]"""
    within = int(min(PER_HOST, max(bound.system.devices[0].counts, default=1))) // devices
    return within if within > 1 and hosts_of(bound, (devices,)) else 1


def _miss(scenario: Scenario, name: str, value: float, limit: float, unit: str = "s") -> Refusal:
    return Refusal(scenario, "limit", f"{name} {amount(value, unit)} > {amount(limit, unit)}", value / limit)
