"""The answer: every system at its best under the limits, ranked by money, with why the others lose."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any

from engine.choose.arrangements import Arrangements
from engine.choose.candidates import HOST_USD, Layout, Row, candidates
from engine.choose.plan import plan_of
from engine.choose.question import Question, question_of
from engine.choose.serving import Served
from engine.evaluate import evaluate
from engine.resolve.check import fixed_lengths
from engine.scenario import ScenarioError, encode
from engine.scenario.configuration import configuration
from engine.scenario.sentences import amount, cost_unit, usd
from engine.traffic.service import TrafficError
from hardware_specs.catalog import Catalog, default_catalog
from model_zoo.catalog import Zoo, default_zoo


@dataclass(frozen=True)
class Answer:
    """Rows in order: priced by money, then unpriced by throughput a device, then refused; what-ifs apart."""

    question: Question
    workload: str
    unit: str  # of work; of a decoder's an output token
    rows: tuple[Row, ...]
    what_ifs: tuple[Row, ...]
    sentence: str
    designs: int
    seconds: float

    @property
    def by(self) -> str:
        """What money is ranked by: ``usd_per_hour`` for a demand, else ``usd_per_million``."""
        return "usd_per_hour" if self.question.demands else "usd_per_million"

    @property
    def host_usd(self) -> float:
        """A whole host, where the catalog prices none. [USD]"""
        asked = self.question.costs.host_usd
        return HOST_USD if asked is None else asked

    @property
    def cost_unit(self) -> str:
        """What a cost per million is of."""
        return cost_unit(self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Plain data with SI units in the key names; the JSON of the command line."""
        return {
            "question": self.question.model_dump(mode="json"),
            "token": self.question.token,
            "workload": self.workload,
            "unit": self.unit,
            "usd_per_million_of": self.cost_unit,
            "answer": self.sentence,
            "ranked_by": self.by,
            "rows": [_plain(row) for row in self.rows],
            "what_ifs": [_plain(row) for row in self.what_ifs],
            "tried": self.designs,
            "seconds": self.seconds,
        }


def choose(question: Any, catalog: Catalog | None = None, zoo: Zoo | None = None) -> Answer:
    """What should carry a workload: every system tried in every count, partition, precision and batch under the limits.

    Parameters
    ----------
    question : `Question`, a mapping of its fields, or its token.
    catalog, zoo : where names are looked up; the shipped ones when left out. With others a language model's limits hold
        in closed form: no load is simulated.

    Returns
    -------
    answer : estimates, with the error band of each system's best arrangement.

    Raises
    ------
    ScenarioError
        A field that names nothing or is out of range: one sentence.
    """
    began = time.perf_counter()
    question = question_of(question)
    catalog, zoo = catalog or default_catalog(), zoo or default_zoo()
    starts = list(candidates(question, catalog, zoo))  # all are looked up before the first is priced
    _check(question, zoo)
    rows, designs = [], 0
    for start, layouts in starts:
        row, count = _try_system(question, start, layouts, catalog, zoo)
        rows.append(row)
        designs += count
    money = "total_usd_per_hour" if question.demands else "usd_per_million"
    workload = zoo.workload(question.workload)
    unit = zoo.graph(question.workload).unit
    real = _order([row for row in rows if not row.what_if], money)
    what_ifs = _order([row for row in rows if row.what_if], money)
    sentence = _sentence(question, real, workload.name, unit, money)
    return Answer(question, workload.name, unit, real, what_ifs, sentence, designs, time.perf_counter() - began)


def _check(question: Question, zoo: Zoo) -> None:
    """ScenarioError for a limit or a length that the workload has nothing for."""
    workload, causal = zoo.workload(question.workload).name, zoo.graph(question.workload).causal
    if question.sla and not causal:
        raise ScenarioError(f"sla has {next(iter(question.sla))}: that means nothing for {workload}, so leave it out")
    limits = {} if causal else dict.fromkeys(("ttft_s", "tpot_s"))
    for name, usual in (limits | fixed_lengths(zoo, question.workload)).items():
        if (value := getattr(question, name)) not in (None, usual):
            raise ScenarioError(f"{name} is {value:g}: that means nothing for {workload}, so leave it out")


def _try_system(question: Question, row: Row, layouts: Sequence[Layout], catalog: Catalog, zoo: Zoo) -> tuple[Row, int]:
    """A system's row once its arrangements are tried, and how many designs were priced."""
    tried = Arrangements(question, catalog, zoo)
    for layout in layouts:
        tried.add(layout)
    best = tried.cheapest()
    if best is None:
        refusal = min(tried.refusals, key=lambda r: r.distance, default=None)
        return replace(row, refusal=refusal), tried.designs
    report, load = evaluate(best.scenario, catalog, zoo), tried.loads.get(best)
    if catalog is default_catalog() and zoo is default_zoo():
        try:
            row = replace(row, plan=plan_of(question, best))
        except TrafficError as why:
            row = replace(row, plan_problem=str(why))
    return replace(row, best=best, report=report, load=load, front=_front(tried.served)), tried.designs


def _front(offers: Sequence[Served]) -> tuple[Served, ...]:
    """Arrangements that no other beats in both the speed of a user and throughput a device."""
    front: list[Served] = []
    highest = 0.0
    for point in sorted(offers, key=lambda point: (-point.speed, -point.rate_per_device)):
        if point.rate_per_device > highest:
            front.append(point)
            highest = point.rate_per_device
    return tuple(reversed(front))


def _order(rows: Sequence[Row], money: str) -> tuple[Row, ...]:
    """Ranked, with why each loses."""

    def cost(row: Row) -> float:
        value = getattr(row.best, money) if row.best is not None else None
        return inf if value is None else float(value)

    able = [row for row in rows if row.best is not None]
    ranking = sorted((r for r in able if cost(r) < inf), key=lambda r: (cost(r), r.system))
    unpriced = [row for row in able if cost(row) == inf]
    without_price = sorted(unpriced, key=lambda r: (-r.best.rate_per_device if r.best else 0.0, r.system))
    unable = [row for row in rows if row.best is None]
    refusals = sorted(unable, key=lambda r: (*(r.refusal.distance if r.refusal else (4, 0.0)), r.system))
    first = ranking[0] if ranking else None
    out = [
        replace(row, rank=None if row.what_if else at, reason=_loses(row, first, money), tied=_ties(row, first, money))
        for at, row in enumerate(ranking, 1)
    ]
    out += [replace(row, reason=_no_price(row)) for row in without_price]
    out += [replace(row, reason=_refusal(row)) for row in refusals]
    return tuple(out)


def _loses(row: Row, first: Row | None, money: str) -> str:
    """Why a priced system is not the first: price and throughput of one of its devices against one of the first's."""
    if first is None or row is first or row.best is None or first.best is None:
        return ""
    loser, best = row.best, first.best
    demand = money == "total_usd_per_hour"
    if demand and loser.need <= 1.0 and loser.rate > 2.0 * best.rate * best.instances:
        return "one instance does far more than is asked"
    hour = (loser.usd_per_hour or 0.0) / loser.devices / max((best.usd_per_hour or 0.0) / best.devices, 1e-300)
    pace = loser.rate_per_device / best.rate_per_device
    return f"{_times(hour)} price for {_times(pace)} throughput"


def _ties(row: Row, first: Row | None, money: str) -> bool:
    """Whether a priced system may cost as little as the first: their costs, each with its error band, overlap."""
    if first is None or row is first:
        return False
    low, high = row.band.around(getattr(row.best, money))[0], first.band.around(getattr(first.best, money))[1]
    return low is not None and high is not None and low <= high


def _no_price(row: Row) -> str:
    """Why a system that serves is not ranked."""
    if row.report is not None and row.report.capex_usd is not None:
        return "no published power: give its price an hour"
    return "a what-if has no price: give yours" if row.what_if else "no published price: give yours"


def _refusal(row: Row) -> str:
    if row.refusal is None:
        return row.reason.rstrip(".")
    sentence = row.refusal.sentence.rstrip(".")
    return {
        "fits": f"does not fit on {row.refusal.scenario.devices}: {sentence}",
        "limit": f"too slow at best: {sentence}" if "W >" not in sentence else f"too much power: {sentence}",
    }.get(row.refusal.kind, sentence)


def _times(ratio: float) -> str:
    """`2.1×`, `1.0×`, `0.48×`, `1,200×`."""
    if ratio >= 9.95:
        return f"{ratio:,.0f}×"
    return f"{ratio:#.2g}×" if ratio >= 0.01 else f"1/{1 / ratio:,.0f}"


def _sentence(question: Question, rows: Sequence[Row], workload: str, unit: str, money: str) -> str:
    """The answer in one sentence."""
    able = [row for row in rows if row.best is not None]
    if not able:
        near = next((row for row in rows if row.refusal is not None), None)
        why = f"; nearest is {near.name} ({near.configuration}), {near.reason}" if near is not None else ""
        system = "system" if question.evidence == "any" else "system with evidence"
        return f"No {system} meets this for {workload}{why}."
    row = next((r for r in able if r.rank == 1), able[0])
    best = row.best
    assert best is not None
    prefix = f"{best.instances:,} instances of " if best.instances > 1 else ""
    if row.load is not None:
        times = f"under load TTFT p99 {amount(row.load.ttft_s, 's')}, TPOT p50 {amount(row.load.tpot_s, 's')}"
    else:
        p99 = question.users is None and (question.latency_s is not None or question.qps is not None)
        times = f"{'p99 ' if p99 else ''}latency {amount(best.loaded_latency_s, 's')}"
    head = f"{row.name}, {prefix}{configuration(best.scenario)}"
    if row.rank is None:
        pace = f"{amount(best.rate_per_device, '').strip()} {unit}s/s per device"
        claim = "the only system that meets your limits, and it has no price"
        if len(able) > 1:
            claim = f"fastest per device of the {len(able)} systems that meet your limits, none with a price"
        return f"{head}: {claim}; {times}, {pace}."
    cost = usd(getattr(best, money)) + (
        " per hour" if money == "total_usd_per_hour" else f" per million {cost_unit(unit)}s"
    )
    ranking = [r for r in able if r.rank is not None]
    then = _certainty(ranking, money)
    if len(ranking) > 1 and f" {ranking[1].name} is cheapest" not in then:
        then = f" Next: {ranking[1].name} at {_ratio(ranking[1], row, money)} the cost.{then}"
    remaining = len(able) - len(ranking)
    verbs = "meets them and has" if remaining == 1 else "meet them and have"
    suffix = f" {remaining} more {verbs} no price." if remaining else ""
    among = "the only priced system that meets"
    if len(ranking) > 1:
        among = f"cheapest of the {len(ranking)} priced systems that meet"
    return f"{head}: {cost}, {among} your limits; {times}.{then}{suffix}"


def _certainty(ranking: Sequence[Row], money: str) -> str:
    """What error bands say of the cheapest: with how many it ties, or which one leads of those with evidence."""
    first, *rivals = ranking
    if first.band.relative is None:
        rival = next((row for row in rivals if row.band.relative is not None), None)
        if rival is None:
            return f" No measurement supports the cost of {first.name}."
        leader = f"of systems with evidence {rival.name} is cheapest, at {_ratio(rival, first, money)} the cost"
        return f" No measurement supports the cost of {first.name}; {leader}."
    count = sum(row.tied for row in rivals)
    return f" {first.name} ties with {count} more: their error bands overlap." if count else ""


def _ratio(row: Row, first: Row, money: str) -> str:
    """What a system costs over what the first one does."""
    return _times(getattr(row.best, money) / getattr(first.best, money))


_FIGURES = (
    "latency_s", "ttft_s", "tpot_s", "throughput_per_s", "power_w", "energy_per_unit_j", "capex_usd",
    "price_contains", "price_lacks", "usd_per_million", "usd_per_million_input", "usd_per_million_output",
)  # fmt: skip
"""Figures of a row that are its report's."""
_PLAN = (
    "nodes", "spare_nodes", "racks", "nodes_per_rack", "survives", "carried_qps", "degraded_qps", "peak_use", "mean_w",
    "energy_usd_per_year", "message",
)  # fmt: skip
"""What of a plan a row has beside its own money; the demand is steady, so its mean power is its peak."""


def _plain(row: Row) -> dict[str, Any]:
    """A row as plain data."""
    best = row.best
    names: tuple[str, ...] = ("system", "name", "kind", "rank", "configuration", "reason", "tied")
    data: dict[str, Any] = {name: getattr(row, name) for name in names}
    data |= {"meets": best is not None, "error_band": row.band.relative, "evidence": row.band.label}
    if best is None:
        return data
    assert row.report is not None
    figures = {name: row.report.figure(name) for name in _FIGURES}
    data |= row.band.ends({name: figures[name] for name in ("latency_s", "ttft_s", "tpot_s")}) | figures
    data |= {"limits": row.report.scenario.limits.model_dump(exclude_none=True)} | row.report.further()
    data |= {"loaded_latency_s": best.loaded_latency_s, "rate_per_s": best.rate}
    names = ("full_rate", "rate_per_device", "devices", "instances", "usd_per_hour", "total_usd_per_hour", "host_usd")
    data |= {name: getattr(best, name) for name in names}
    if row.load is not None:
        found = asdict(row.load)
        found |= {f"{name.replace(':', '_')}_s": value for name, value in found.pop("tails")}
        data |= {f"loaded_{name}": value for name, value in found.items()} | {"clients": best.clients}
    data["plan"] = None if row.plan is None else {name: getattr(row.plan, name) for name in _PLAN}
    data["plan_problem"] = row.plan_problem
    data["token"] = encode(best.scenario)
    data["front"] = [
        {"configuration": configuration(p.scenario), "speed_per_s": p.speed, "rate_per_device": p.rate_per_device}
        | {"token": encode(p.scenario)}
        for p in row.front
    ]
    return data
