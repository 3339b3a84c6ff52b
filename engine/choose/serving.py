"""An arrangement priced along its batch, and what each batch serves under load. Estimates, as their parts are.

The main path without its last step: a report's tables are made only for what is opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from engine.choose.question import LOAD, Price, Question
from engine.cost.assemble import Schedule, assemble
from engine.cost.best_plan import make_plan
from engine.devices.common.contract import Unsupported
from engine.resolve.bind import bind
from engine.scenario import Scenario, ScenarioError
from engine.scenario.sentences import amount, level_name
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo

_YEAR_H = 365.25 * 24.0
_BATCHES = tuple(2**i for i in range(13))
_TAIL = math.log(100.0)  # of an exponential tail, where 1% is left
_WORTH = 1.02  # growth of the rate below which a larger batch only waits longer


@dataclass(frozen=True)
class Refusal:
    """Why an arrangement serves nothing: it does not run, does not fit, or is too slow at any batch.

    `kind` is ``runs``, ``fits`` or ``limit``; `over` is how far it is from being served, as a ratio.
    """

    scenario: Scenario
    kind: str
    sentence: str
    over: float = math.inf


@dataclass(frozen=True)
class Served:
    """One instance of an arrangement at one batch.

    Attributes
    ----------
    latency_s : of 99% of requests where a limit or a demand says how they come, else of a batch alone [s]
    ttft_s, tpot_s : of a decoder at a concurrency of its batch, the prefills of the others included [s]
    rate : units of work a second inside the limits [1/s]
    full_rate : the same when it is busy all the time [1/s]
    devices : in use [-]
    power_w, capex_usd : of the instance at full load; None where one is not published [W], [USD]
    usd_per_hour : None where there is no price [USD/h]
    usd_per_million : units of work; None where there is no price [USD]
    input_usd, output_usd : the same apart for a decoder's input and output tokens; None elsewhere [USD]
    instances : how many the demand takes; 1 where there is none [-]
    """

    scenario: Scenario
    latency_s: float
    ttft_s: float | None
    tpot_s: float | None
    rate: float
    full_rate: float
    devices: int
    power_w: float | None
    capex_usd: float | None
    usd_per_hour: float | None
    usd_per_million: float | None
    input_usd: float | None
    output_usd: float | None
    instances: int

    @property
    def rate_per_device(self) -> float:
        """Units of work a second of one device inside the limits. [1/s]"""
        return self.rate / self.devices

    @property
    def speed(self) -> float:
        """What one user sees: tokens a second of a decoder, else answers a second. [1/s]"""
        return 1.0 / (self.latency_s if self.tpot_s is None else self.tpot_s)

    @property
    def total_usd_per_hour(self) -> float | None:
        """Of all instances. [USD/h]"""
        return None if self.usd_per_hour is None else self.usd_per_hour * self.instances


def served(
    question: Question, start: Scenario, price: Price | None, catalog: Catalog, zoo: Zoo
) -> Iterator[Served | Refusal]:
    """What an arrangement serves along its batch, until it does not fit, is too slow or gains nothing."""
    alone: Schedule | None = None
    last = 0.0
    for batch in (question.batch,) if question.batch else _BATCHES:
        scenario = start.with_(batch=batch) if batch != start.batch else start
        try:
            bound = bind(scenario, catalog, zoo)
            plan = make_plan(bound)
            times = assemble(bound, plan)
        except (ScenarioError, Unsupported) as error:
            yield Refusal(scenario, "runs", str(error))
            return
        if (unfit := _unfit(scenario, times)) is not None:
            yield unfit
            return
        if alone is None:
            alone = times if batch == 1 else _alone(start, catalog, zoo)
        units = bound.graph.units_per_request.at(scenario.inputs, scenario.outputs)
        load = _Load.of(question, scenario, times, alone, units)
        if isinstance(load, Refusal):
            yield load
            return
        power = times.figure("power_w")
        if question.power_w is not None and power is not None and power > question.power_w:
            said = f"{power:.0f} W > {question.power_w:.0f} W"
            yield Refusal(scenario, "limit", said, power / question.power_w)
            return
        copies = plan.replicas * (len(plan.stages) if plan.pipelined else 1)
        yield load.paid(question, price, power, times.account.price_usd, sum(plan.devices_used), copies)
        if load.rate < _WORTH * last or (question.users is not None and batch >= question.users):
            return
        last = load.rate


def _alone(start: Scenario, catalog: Catalog, zoo: Zoo) -> Schedule:
    """The same arrangement with one request alone."""
    bound = bind(start.with_(batch=1), catalog, zoo)
    return assemble(bound, make_plan(bound))


def _unfit(scenario: Scenario, times: Schedule) -> Refusal | None:
    """The first memory that is short, in a few words."""
    short = [(p, fit) for p in times.priced for fit in p.fits if not fit.fits]
    if not short:
        return None
    _, fit = max(short, key=lambda item: item[1].need_bytes / item[1].capacity_bytes)
    need, held = amount(fit.need_bytes, "B"), amount(fit.capacity_bytes, "B")
    said = f"{fit.holds} need {need} per device of {held} {level_name(fit.level)}"
    return Refusal(scenario, "fits", said, fit.need_bytes / fit.capacity_bytes)


@dataclass(frozen=True)
class _Load:
    """What one instance does under load, before money."""

    scenario: Scenario
    latency_s: float
    ttft_s: float | None
    tpot_s: float | None
    prefill: float  # share of a request's time that its prompt takes; 0 where there is none
    units: float  # of work a request
    rate: float
    full_rate: float
    energy_j: float | None  # a unit at full load

    @classmethod
    def of(
        cls, question: Question, scenario: Scenario, times: Schedule, alone: Schedule, units: float
    ) -> _Load | Refusal:
        """Times and rates at this batch; a refusal where a limit is missed."""
        rate = times.units_per_s
        energy = times.figure("energy_per_unit_j")
        tpot = times.figure("tpot_s")
        if tpot is not None and units > 1:
            return cls._decoder(question, scenario, times, alone, units, energy)
        batch, servers = scenario.batch, max(1, times.layout.replicas) * scenario.streams
        interval = times.interval_s / servers
        waits = (1.0 - 1.0 / batch) * times.interval_s if question.latency_s is not None else 0.0
        latency = times.latency_s + waits
        if (missed := _missed(scenario, "latency", latency, question.latency_s)) is not None:
            return missed
        share = 1.0
        if question.users is None and (question.latency_s is not None or question.qps is not None):
            share = LOAD
            if question.latency_s is not None:
                room = 2.0 * batch * (question.latency_s - latency) / (_TAIL * interval)
                share = min(LOAD, room / (1.0 + room))
            latency += _TAIL * interval * share / (2.0 * batch * (1.0 - share))
        if share <= 0.0:
            return Refusal(scenario, "limit", "no load leaves room to wait inside the latency limit", 1.0)
        return cls(scenario, latency, None, None, 0.0, units, share * rate, rate, energy)

    @classmethod
    def _decoder(
        cls, question: Question, scenario: Scenario, times: Schedule, alone: Schedule, units: float,
        energy: float | None,
    ) -> _Load | Refusal:  # fmt: skip
        """Continuous batching in its steady state: every step shares the device with the prompts of newcomers."""
        one, step = alone.figure("ttft_s") or 0.0, times.figure("tpot_s") or 0.0
        after = units - 1.0
        ttft = one + (step if scenario.batch > 1 else 0.0)
        tpot = step + (scenario.batch - 1) * one / after
        latency = ttft + after * tpot
        for name, value, limit in (
            ("TTFT", ttft, question.ttft_s),
            ("TPOT", tpot, question.tpot_s),
            ("latency", latency, question.latency_s),
        ):
            if (missed := _missed(scenario, name, value, limit)) is not None:
                return missed
        full = times.units_per_s * times.latency_s / latency
        share = LOAD if question.qps is not None else 1.0
        prompt = scenario.batch * one / (scenario.batch * one + after * step)
        return cls(scenario, latency, ttft, tpot, prompt, units, share * full, full, energy)

    def paid(
        self,
        question: Question,
        price: Price | None,
        power: float | None,
        capex: float | None,
        devices: int,
        copies: int,
    ) -> Served:
        """The same with what it costs; `copies` batches are under way in an instance that is busy."""
        costs, instances, busy = question.costs, 1, question.costs.utilisation
        if question.qps is not None:
            need = question.qps * self.units
            instances = max(1, math.ceil(need / self.rate * (1 - 1e-12)))
            busy = need / (instances * self.full_rate)
        elif question.users is not None:
            at_once = self.scenario.batch * self.scenario.streams * copies
            instances = math.ceil(question.users / at_once)
            busy = question.users / (instances * at_once)
        if price is not None and price.usd is not None:
            capex = price.usd * devices
        energy = None if power is None else power * costs.pue * costs.energy_usd_per_kwh / 1000.0 * busy
        hourly = None if capex is None or energy is None else capex / (costs.years * _YEAR_H) + energy
        if price is not None and price.usd_per_hour is not None:
            hourly = price.usd_per_hour * devices
        million = None if hourly is None else 1e6 * hourly / (3600.0 * self.full_rate * busy)
        apart: tuple[float | None, float | None] = (None, None)
        if million is not None and self.tpot_s is not None:
            request = million * self.units
            apart = (
                self.prefill * request / self.scenario.inputs,
                (1.0 - self.prefill) * request / self.scenario.outputs,
            )
        return Served(
            self.scenario, self.latency_s, self.ttft_s, self.tpot_s, self.rate, self.full_rate, devices, power,
            capex, hourly, million, *apart, instances,
        )  # fmt: skip


def _missed(scenario: Scenario, name: str, value: float, limit: float | None) -> Refusal | None:
    if limit is None or value <= limit:
        return None
    return Refusal(scenario, "limit", f"{name} {amount(value, 's')} > {amount(limit, 's')}", value / limit)
