"""A language model's arrangement on the calendar of passes, under the load that a question means. Simulated."""

from dataclasses import dataclass, replace
from functools import lru_cache

from engine.choose.question import Question
from engine.choose.serving import Refusal, Served
from engine.devices.common.contract import Unsupported
from engine.scenario import ScenarioError, decode, encode
from engine.scenario.scenario import Costs, Limits
from engine.scenario.sentences import amount
from engine.traffic.arrivals import Arrivals, Poisson
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import LIMITS, Engine, about, engine, label_of
from engine.traffic.engines.scheduler import POLICIES, Scheduler
from engine.traffic.scenario_load import usual_policy

_REQUESTS, _PER_CLIENT = 2000, 4  # of a run, and of each client where there are many


@dataclass(frozen=True)
class LoadFigures:
    """Times of a language model's requests under its load. [s]

    ``ttft_s`` and ``e2e_s`` of 99% of them, ``tpot_s`` of half. ``rate_per_s``: output tokens of an instance [1/s];
    None where one request is under way at a time and nothing was simulated: then all are its report's.
    ``goodput_per_s``: requests of an instance within every limit [1/s]; ``tails``: what the question's `sla` is on [s].
    """

    ttft_s: float
    tpot_s: float
    e2e_s: float
    rate_per_s: float | None = None
    goodput_per_s: float | None = None
    tails: tuple[tuple[str, float], ...] = ()

    def figure(self, name: str) -> float:
        """What a limit is about. [s]"""
        return float(getattr(self, name) if name in LIMITS else dict(self.tails)[name])


def load_of(question: Question, served: Served) -> ClosedLoop | Arrivals:
    """What comes to each instance, with what fails down: its part of a rate, or clients that send the next request when
    the last is answered.

    Without a demand there are as many clients as the batch has places. They begin one after another over the time of a
    request, so that the first wave is no load of its own.
    """
    if question.qps is not None:
        return Poisson(question.qps / served.working)
    assert served.joined is not None
    return ClosedLoop(served.clients, ramp_s=float(f"{served.joined.latency_s:.3g}"))


def scheduler_of(served: Served) -> Scheduler:
    """The usual policy of the machine, as on the Load page, with a seat for every request of a batch that is one."""
    usual = POLICIES[usual_policy(served.scenario)]
    return replace(usual, max_seqs=max(usual.max_seqs, served.clients)) if usual.max_seqs > 1 else usual


def requests_of(served: Served) -> int:
    """Requests of a run at most: where clients are many, fewer of each than the Load page simulates by itself. [-]"""
    return max(_REQUESTS, _PER_CLIENT * served.clients)


@lru_cache(maxsize=128)
def _engine(token: str, scheduler: Scheduler) -> Engine:
    return engine(decode(token), scheduler, {})


@lru_cache(maxsize=1024)
def _figures(
    token: str, scheduler: Scheduler, load: ClosedLoop | Arrivals, requests: int, limits: tuple[tuple[str, float], ...]
) -> LoadFigures:
    """What a load meets: arrangements that differ in their batch alone may have the same one."""
    subject = replace(_engine(token, scheduler), limits=dict(limits))
    point = subject.at(load, min(subject.requests(load), requests) if isinstance(load, ClosedLoop) else None)
    tails = tuple((name, point.figure(name) or 0.0) for name, _ in limits if name not in LIMITS)
    found = (point.figure(name) or 0.0 for name in LIMITS)
    return LoadFigures(*found, point.report.output_tokens_per_s, point.report.goodput_per_s, tails)


def under_load(question: Question, served: Served) -> LoadFigures | Refusal:
    """One instance under its load, or why it does not serve it: the limit that it misses most, at its percentile."""
    alone, limits = served.joined, question.serving_limits
    if alone is not None and served.clients == 1 and question.qps is None:
        times = {"ttft": alone.ttft_s, "tpot": alone.tpot_s, "itl": alone.tpot_s, "e2e": alone.latency_s}
        tails = tuple((name, times[about(name)[0]]) for name in question.sla)
        return LoadFigures(alone.ttft_s, alone.tpot_s, alone.latency_s, tails=tails)
    try:
        alike = served.scenario.with_(batch=1, costs=Costs(), limits=Limits())  # what moves no pass, for the cache
        load = _figures(
            encode(alike), scheduler_of(served), load_of(question, served), requests_of(served), tuple(limits.items())
        )
    except (ScenarioError, Unsupported) as error:
        return Refusal(served.scenario, "runs", str(error))
    over = {name: load.figure(name) / limit for name, limit in limits.items()}
    name = max(over, key=lambda name: over[name], default="")
    if not name or over[name] <= 1.0:
        return load
    sentence = f"{label_of(name)} {amount(load.figure(name), 's')} > {amount(limits[name], 's')}"
    return Refusal(served.scenario, "limit", sentence, over[name])
