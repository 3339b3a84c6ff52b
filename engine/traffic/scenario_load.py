"""From a scenario to the queue it would be: service times of the one cost model, never constants of their own.

Estimates.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from engine.cost.assemble import Schedule, assemble
from engine.cost.best_plan import make_plan
from engine.cost.pieces import batches_of
from engine.cost.power_and_price import waiting
from engine.cost.report import Report, report_of
from engine.cost.rows import crossings
from engine.devices.common.contract import Fit
from engine.evaluate import evaluate
from engine.plan.schemes import Plan
from engine.resolve.bind import bind
from engine.resolve.bound import Bound
from engine.scenario import Scenario
from engine.scenario.overrides import apply
from engine.traffic.engines.scheduler import NO_BATCHING, Scheduler
from engine.traffic.plan import CapacityPlan, NodeFacts
from engine.traffic.policies import Policy, TandemQueue, single
from engine.traffic.service import Service, TrafficError, whole
from hardware_specs.catalog import Catalog

SIZES = {"inputs": "inputs", "items": "batch", "lookups": "params.lookups"}
"""What the size of a request may be, and the scenario's setting it stands for."""


@lru_cache(maxsize=512)
def _priced_token(token: str, catalog: Catalog | None) -> tuple[Bound, Plan, Schedule]:
    bound = bind(Scenario.model_validate_json(token), catalog)
    plan = make_plan(bound)
    return bound, plan, assemble(bound, plan)


def priced(scenario: Scenario, catalog: Catalog | None = None) -> tuple[Bound, Plan, Schedule]:
    """The main path up to times: `evaluate` without money and prose."""
    return _priced_token(scenario.model_dump_json(), catalog)


def is_decoder(scenario: Scenario) -> bool:
    """Whether the workload makes tokens one after the other."""
    return priced(scenario)[0].graph.causal


def in_turn(scenario: Scenario) -> str:
    """Why requests follow one another on the scenario's machine, a clause; empty where they need not."""
    return priced(scenario)[0].family.in_turn


def usual_policy(scenario: Scenario | None, max_seqs: int | None = None) -> str:
    """Name of the policy that serves a decoder, or given passes, where none is asked for.

    vLLM's; no batching where the machine has none in its document and no more sequences at once are asked for.
    """
    return NO_BATCHING if scenario is not None and in_turn(scenario) and (max_seqs or 1) == 1 else "vllm"


def inferences_of(scenario: Scenario, request: str = "batch") -> int:
    """Inferences that a request holds: one where it is an item or a decoder's sequence, else the scenario's batch. [-]

    Of a network whose requests hold items more than its batch, those.
    """
    if request == "item" or is_decoder(scenario):
        return 1
    return max(scenario.batch, scenario.inputs if priced(scenario)[0].graph.items else 1)


def answer_unit(report: Report) -> str:
    """What a plan counts money and energy by: a decoder's request, else the unit of the report."""
    return "request" if is_decoder(report.scenario) else report.unit


def ladder(high: int, low: int = 1, factor: int = 2) -> list[int]:
    """``low``, ``factor`` times as many, ... and ``high``. [-]"""
    steps = [low]
    while steps[-1] * factor < high:
        steps.append(steps[-1] * factor)
    return steps if high <= low else [*steps, high]


def checked(scenario: Scenario) -> Report:
    """The scenario's report; a system that can't hold it carries no load.

    TrafficError where the scenario does not fit its system.
    """
    report = report_of(priced(scenario)[2])
    if not report.fits:
        raise TrafficError(report.problems[0] if report.problems else "The workload does not fit the system")
    return report


def _links(times: Schedule) -> dict[str, float]:
    """Seconds one launch keeps each wire busy: bytes at the usable rate, latencies left out. [s]

    Links alike take turns, so each carries its share; of a link's two directions the busier one counts.
    """
    busy: dict[str, dict[str, float]] = {}
    for link, _, way, size, alike, _ in crossings(times):
        ways = busy.setdefault(link.name, {})
        ways[way] = ways.get(way, 0.0) + size / alike / link.usable
    return {name: max(ways.values()) for name, ways in busy.items()}


def sizes_of(sizes_are: str, sizes: Sequence[int] | None) -> tuple[int | None, ...]:
    """Sizes to table: those given, or the scenario's own (None). TrafficError for another way of giving sizes."""
    if sizes_are not in SIZES:
        raise TrafficError(f"sizes_are is {sizes_are!r}; it must be one of {', '.join(SIZES)}")
    return (None,) if sizes is None else tuple(sizes)


def sized(scenario: Scenario, sizes_are: str, size: int | None, requests: int = 1) -> Scenario:
    """The scenario of so many requests of a size in one launch; None: the size it has."""
    result = scenario
    if size is not None:
        items = sizes_are == "items" and batches_of(bind(scenario)) > 1.0
        result = apply(scenario, "inputs" if items else SIZES[sizes_are], size)
    if batches_of(bind(result)) > 1.0:  # of a size of their own: more requests are more of them
        return result.with_(inputs=requests * result.inputs)
    return result.with_(batch=requests * result.batch)


def at_once(scenario: Scenario, request: str, together: int | None) -> Scenario:
    """The scenario of so many requests ``together`` in a launch, or sequences under way; None: as it is.

    A request is a sequence of a decoder, an item of a batch where ``request`` says so, else the scenario's batch.
    """
    if together is None:
        return scenario
    if is_decoder(scenario) or request == "item":
        return scenario.with_(batch=together)
    return sized(scenario, "inputs", None, together)


def service_table(
    scenario: Scenario, max_batch: int = 1, sizes: Sequence[int] | None = None, sizes_are: str = "inputs"
) -> Service:
    """Service times of a scenario whose request is one launch of it, by requests batched and by size.

    A request is what `evaluate` prices: ``scenario.batch`` items of length ``scenario.inputs``. ``b`` requests in one
    launch are priced as a batch of ``b * scenario.batch``, at powers of two of b and linear between, all as large as
    the largest of them. Servers are the
    replicas times the streams of the scenario, held for the interval at which a stream can start; the answer takes
    the whole latency. For a pipeline of single stages that is exact: constant stages in a row wait as the slowest alone
    (Friedman, Oper. Res. 13(1), 1965); with copies of its slowest stage it is a little pessimistic. An estimate, as
    good as the cost model.

    Parameters
    ----------
    max_batch
        Most requests in one launch.
    sizes, sizes_are
        Sizes to table and what they are: ``inputs`` (length of a request), ``items`` (its batch) or ``lookups`` (of a
        table and item). Default: the scenario's own.
    """
    whole("max_batch", max_batch)
    grid = sizes_of(sizes_are, sizes)
    batches = ladder(max_batch)
    hold, latency = np.empty((2, len(batches), len(grid)))
    wires: dict[str, np.ndarray] = {}
    plan = None
    for i, b in enumerate(batches):
        for k, size in enumerate(grid):
            _, plan, times = priced(sized(scenario, sizes_are, size, b))
            hold[i, k], latency[i, k] = times.interval_s, times.latency_s
            for name, seconds in _links(times).items():
                wires.setdefault(name, np.zeros(hold.shape))[i, k] = seconds
    assert plan is not None
    report = checked(sized(scenario, sizes_are, grid[-1], max_batch))
    usual = {"inputs": scenario.inputs, "items": scenario.batch}.get(sizes_are, 1)
    table = Service.from_points(
        batches,
        hold,
        latency,
        servers=plan.replicas * scenario.streams,
        sizes=tuple(usual if size is None else size for size in grid),
        resources={name: (busy, plan.replicas) for name, busy in wires.items()},
    )
    return replace(table, bound=report.limited_by)


def _token_fits(
    scenario: Scenario, longest: int, prompts: int = 1, catalog: Catalog | None = None
) -> list[tuple[float, Fit, float, int]]:
    """Of each stage bytes of a cached token on a device, its memory with so many of the longest prompts, bytes that a
    pass over those takes there beside weights and cache, and devices. [B], [-]

    Both lengths lie as the plan of the longest has them: a shorter prompt may take fewer devices.
    """
    longest, base = max(2, longest), scenario.with_(batch=prompts * (scenario.attention_dp or 1))
    _, plan, far = priced(base.with_(inputs=longest), catalog)
    short = assemble(bind(base.with_(inputs=1), catalog), plan)
    return [
        (
            (b.state_bytes - a.state_bytes) / (longest - 1) / prompts,
            b,
            max(0.0, (b.need_bytes - b.state_bytes) - (a.need_bytes - a.state_bytes)),
            part.stage.ways * part.stage.context,
        )
        for before, part in zip(short.priced, far.priced, strict=True)
        for a, b in zip(before.fits, part.fits, strict=True)
        if b.required
    ]


def token_bytes(scenario: Scenario, longest: int) -> float:
    """Bytes of keys and values of a token on all devices of a replica. [B]"""
    return sum(token_b * devices for token_b, _, _, devices in _token_fits(scenario, longest))


def device_token_bytes(scenario: Scenario, longest: int) -> float:
    """Bytes of keys and values of a token on the device that keeps most of them. [B]"""
    return max((token_b for token_b, *_ in _token_fits(scenario, longest)), default=0.0)


def cache_blocks(scenario: Scenario, rules: Scheduler, longest: int, catalog: Catalog | None = None) -> int | None:
    """Blocks of cache that fit a replica's memory beside the weights and the largest pass. [-]

    ``rules``: with the budget of a pass and the shares of the devices' off-chip memory that may be used. None where
    nothing is kept. An estimate. TrafficError where the ``longest`` request [tokens] has no room, with the share that
    would have some.
    """
    need, prompt = rules.block * -(-longest // rules.block), min(rules.budget, max(1, longest - 1))
    prompts = max(1, min(rules.max_seqs, rules.budget // prompt))
    tokens, share_from, fits = math.inf, 0.0, True
    for token_b, fit, pass_b, _ in _token_fits(scenario, prompt, prompts, catalog):
        if token_b > 0:
            share = rules.memory_share if fit.role == "offchip" else 1.0
            taken = fit.need_bytes - fit.state_bytes
            within = taken - pass_b if rules.passes_apart else taken
            free = min(share * fit.capacity_bytes - within, fit.capacity_bytes - taken)
            tokens = min(tokens, max(0, int(rules.free_share * free / token_b)))
            cache_b = need * token_b / rules.free_share
            share_from = max(share_from, (within + cache_b) / fit.capacity_bytes)
            fits = fits and taken + cache_b <= fit.capacity_bytes
    if tokens >= need:
        return None if tokens == math.inf else int(tokens) // rules.block
    beside = f"weights and a pass over {prompts * prompt:,} tokens"
    if tokens >= longest:
        why = f"block is {rules.block} tokens; beside the {beside} the devices have room for {int(tokens):,} of cache"
        raise TrafficError(why)
    beside += f" with the cache of a request of {longest:,}"
    if fits:
        lowest = math.ceil(1000 * share_from) / 1000
        raise TrafficError(
            f"memory_share is {rules.memory_share:g}; {beside} take {lowest:.1%} of the devices' memory: it must be a "
            f"number from {lowest:g} to 1"
        )
    raise TrafficError(
        f"{beside} take more than the devices' memory: there is room for {int(tokens):,} tokens of cache"
    )


def load_of(
    scenario: Scenario, policy: Policy, sizes: Sequence[int] | None = None, sizes_are: str = "inputs"
) -> TandemQueue:
    """The scenario as one station under ``policy``. TrafficError for one that the network can't be served by."""
    if is_decoder(scenario) and policy.max_batch > 1:
        raise TrafficError("policy is one for whole requests; a decoder that batches does so continuously")
    return single(service_table(scenario, policy.max_batch, sizes, sizes_are), policy)


class _Carries(Protocol):
    """A load inside an agreement and the most at all [1/s]; the message says why there is none."""

    @property
    def qps(self) -> float: ...
    @property
    def capacity_qps(self) -> float: ...
    @property
    def message(self) -> str: ...


def node_facts(
    scenario: Scenario,
    carried: _Carries,
    idle_w: float | None = None,
    capex_usd: float | None = None,
    request: str = "batch",
    together: int | None = None,
) -> tuple[NodeFacts, tuple[str, ...]]:
    """What a plan needs to know of the scenario's system as one node, and the assumptions behind it.

    Power and price are `evaluate`'s, of so many requests ``together`` in a launch or, of sequences, under way: as the
    scenario has them where None. A price that is not published stays open. Idle power is that of the devices in
    use plus what the system draws at any load; a device whose idle power is not published is taken to draw what it does
    at any work, or where that is not told apart its full power, an upper bound. Given power in [W], price in [USD].
    TrafficError where a plan can't be made: no load inside the agreement, no published power.
    """
    if carried.qps <= 0:
        raise TrafficError(carried.message)
    launched = at_once(scenario, request, together)
    report = evaluate(launched)
    bound, plan, _ = priced(launched)
    notes: list[str] = []
    busy = report.power_w
    if busy is None:
        raise TrafficError(f"{report.system_name} has no published power; a plan needs one")
    price = capex_usd if capex_usd is not None else report.capex_usd
    if price is None:
        reason = str(report.unpriced)
        notes.append(f"{reason[:1].upper()}{reason[1:]} ({report.system_name}): there is no money until one is given.")
    if idle_w is None:
        drawn, extra = waiting(bound, plan, busy)
        idle_w = min(busy, drawn)
        notes += extra
    cards = max(1, plan.devices_used[0])
    full = max(carried.qps, carried.capacity_qps)
    count = inferences_of(scenario, request)
    return NodeFacts(carried.qps, full, idle_w, busy, price, cards, count, switched(bound, cards)), tuple(notes)


def switched(bound: Bound, cards: int) -> int:
    """Nodes of so many cards whose devices one switch joins (an NVLink domain). [-]"""
    joined = max((wire.joins for wire in bound.wires if math.isfinite(wire.joins)), default=0)
    return max(1, int(joined // cards))


def token_prices(
    plan: CapacityPlan, scenario: Scenario, running: float, prefills: float | None = None
) -> dict[str, float]:
    """Cost of a million tokens in a plan: of all, of those that are read, and of those that are written. [USD]

    A request's share of the plan goes to its prompt and its answer as `evaluate` shares a batch of ``running`` [-] out,
    or to its prompt what ``prefills`` alone, a share of the plan [-]. Empty without a price. An estimate.
    """
    report = evaluate(scenario.with_(batch=max(1, round(running))))
    usd, read, written = plan.usd_per_million, report.usd_per_million_input, report.usd_per_million_output
    if usd is None or read is None or written is None:
        return {}
    prompt, answer = read * scenario.inputs, written * scenario.outputs
    share = prompt / (prompt + answer) if prefills is None else prefills
    return {
        "usd_per_million_tokens": usd / (scenario.inputs + scenario.outputs),
        "usd_per_million_input_tokens": usd * share / scenario.inputs,
        "usd_per_million_output_tokens": usd * (1.0 - share) / scenario.outputs,
    }
