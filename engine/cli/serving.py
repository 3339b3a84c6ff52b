"""``python -m engine simulate`` of a serving engine: closed loops or arrivals through a calendar of passes."""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from engine.cli.command import Answer, refuse
from engine.cost.error_bands import told
from engine.evaluate import evaluate
from engine.scenario import Scenario, ScenarioError
from engine.scenario.fields import FIELDS
from engine.scenario.overrides import apply_all
from engine.scenario.sentences import amount, counted, percent
from engine.scenario.token import boundary, brief
from engine.traffic.closed_loop import LoopReport, closed_loop
from engine.traffic.engines.calendar import ClosedLoop, Figures, PriorityReport, ServingReport, usual_requests
from engine.traffic.engines.operating_points import Engine, OperatingPoint, devices_of
from engine.traffic.engines.pass_times import engine_of, given_times
from engine.traffic.engines.pools import Network, Pool, Pools, ratios_of
from engine.traffic.engines.priority import parse
from engine.traffic.engines.scheduler import NO_BATCHING, Scheduler, policy_of
from engine.traffic.estimates import Estimate
from engine.traffic.policies import DecoderServer
from engine.traffic.scenario_load import in_turn, is_decoder, token_bytes, usual_policy
from engine.traffic.serving import Serving
from engine.traffic.sizes import Fixed
from engine.traffic.traces.requests import RequestFile, read_requests

_OF_SCENARIO = (*(f.path for f in FIELDS if f.flag and f.path not in ("inputs", "outputs")), "set")
OF_POOLS = ("port", "token_bytes", "prefill_set")
OF_QUEUES = ("arrangement", "buckets", "places", "request", "timeout_s", "services", "share", "sizes_are")


def serves(args: argparse.Namespace) -> bool:
    """Whether the arguments mean a serving engine."""
    options = (args.clients, args.passes, args.policy, args.trace, args.pools)
    options += (args.limit_ttft, args.limit_tpot, args.limit_e2e)
    return bool(_engine(args)) or any(value is not None for value in options)


def needs_engine(args: argparse.Namespace, scenario: Scenario) -> bool:
    """Whether a capacity is a serving engine's: a language model's, or by several limits, a policy, pools or levers."""
    by_option = "," in args.sla or args.policy is not None or bool(args.vary) or args.pools is not None
    return by_option or (is_decoder(scenario) and args.arrangement in (None, "whole"))


def engine_answer(policy: str, scenario: Scenario | None, rules: Scheduler) -> tuple[dict[str, Any], list[str]]:
    """The engine that serves a language model, as data and in words: its policy, sequences at once, and memory."""
    how = f"at most {rules.max_seqs:,} sequences at once" if rules.max_seqs > 1 else "one request at a time"
    data: dict[str, Any] = {"policy": policy, "max_seqs": rules.max_seqs}
    if scenario is None:
        return {"engine": data}, [f"serving engine {policy}: {how}"]
    if policy == NO_BATCHING and (why := in_turn(scenario)):
        how += f", as {why}"
    memory = f"memory share: {percent(rules.memory_share)} of the devices' memory for weights, passes and the KV cache"
    if rules.free_share < 1.0:
        memory += f", which takes {percent(rules.free_share)} of what the others leave free"
    data |= {"memory_share": rules.memory_share, "free_share": rules.free_share}
    return {"engine": data}, [f"serving engine {policy}: {how}", memory]


def _refuse_idle(args: argparse.Namespace, scenario: Scenario | None, ranks: int = 1) -> None:
    """InputError for an option of a serving engine that the rest of them leaves nothing to act on."""
    for dead, names, beside in (
        (True, (*OF_QUEUES, "max_batch", "most"), "a serving engine, which has max-seqs and a policy"),
        (args.clients is None, ("think", "think_law", "ramp"), "arrivals at a rate; only clients have one"),
        (args.think == 0.0, ("think_law",), "no think time"),
        (args.clients is not None, ("arrivals", "speed"), f"clients {args.clients}: each asks when it is answered"),
        (args.trace is not None, ("sizes", "output_sizes", "arrivals"), "a trace, which has its own"),
        (args.pools is None, OF_POOLS, "one pool; give pools"),
        (scenario is None and args.token_bytes is None, ["port"], "keys and values of 0 B; give token-bytes"),
        (args.preempt != "swap", ("swap_blocks", "swap_s"), "preemption that recomputes; give preempt swap"),
        (not args.asynchronous, ("overlap",), "passes that do not overlap; give asynchronous"),
        (ranks == 1, ("balance_timeout",), "one attention rank, which waits for no other"),
        (scenario is None and args.trace is not None, ("inputs", "outputs"), "a trace, which has its own lengths"),
        (scenario is None, ["memory_share", "free_share"], "given passes, which have no memory; give kv-blocks"),
        (scenario is None, _OF_SCENARIO, "given passes, which are of no scenario"),
        (True, ["batch"], "a serving engine, whose passes have what runs; max-seqs is its most"),
    ):
        refuse(args, names, beside, dead)


def _engine(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of a scheduler that the arguments set."""
    return {f.name: value for f in fields(Scheduler) if (value := getattr(args, f.name, None)) is not None}


def _chances(text: str) -> tuple[float, ...]:
    """Numbers from 0 to 1 between commas."""
    with boundary(f"accept is {brief(text)}; it must be numbers from 0 to 1 separated by commas, as 0.8,0.6"):
        chances = tuple(float(part) for part in text.split(","))
        if not all(0.0 <= chance <= 1.0 for chance in chances):
            raise ValueError
        return chances


def _scheduler(args: argparse.Namespace, scenario: Scenario | None) -> Scheduler:
    """The policy with what the arguments set; given passes (no scenario) have no front end but the one asked for."""
    read = {"acceptance": _chances, "priorities": parse}
    settings = {name: read[name](value) if name in read else value for name, value in _engine(args).items()}
    if scenario is None:
        settings = {"read_s": 0.0, "write_s": 0.0, "repeat_s": 0.0} | settings
    return policy_of(args.policy or usual_policy(scenario, args.max_seqs), **settings)


def _load(args: argparse.Namespace, process: Any) -> Any:
    """The closed loop or the arrivals that the arguments mean."""
    if args.clients is None:
        if process is None:
            raise ScenarioError("clients or qps is needed: a closed loop of so many requests in flight, or a rate")
        return process
    refuse(args, ["qps"], f"clients {args.clients}: a load is open or a closed loop")
    return ClosedLoop(args.clients, args.think, args.ramp, args.think_law == "exponential")


def simulate_serving(args: argparse.Namespace, scenario: Scenario | None, arrivals: Any) -> Answer:
    """Run the clients or the arrivals through the engine and say the latencies.

    ``scenario``: None where the pass times are given. ``arrivals``: of an open load, with sizes and outputs of its
    requests where it names them.
    """
    process, inputs, outputs = arrivals
    file = None if args.trace is None else read_requests(args.trace)
    if file is not None:
        process, inputs, outputs = _trace_arrivals(args, file, process), file.inputs, file.outputs
    elif args.speed is not None:
        raise ScenarioError(f"speed is {args.speed:g} without a trace; it multiplies the arrival rate of a trace")
    _refuse_idle(args, scenario, 1 if scenario is None else scenario.attention_dp or 1)
    scheduler, load, devices = _scheduler(args, scenario), _load(args, process), 1
    if scenario is None:
        inputs = inputs or Fixed(_length("inputs", args.inputs))
        outputs = outputs or Fixed(_length("outputs", args.outputs))
        times = given_times(args.passes)
    else:
        inputs, outputs = inputs or Fixed(scenario.inputs), outputs or Fixed(scenario.outputs)
        longest = inputs.largest + outputs.largest if file is None else file.longest
        times, scheduler = engine_of(scenario, scheduler, longest)
        devices = devices_of(scenario)
    subject = Engine(times, scheduler, devices, inputs, outputs, _limits(args))
    tried, rates = {"": subject}, dict[str, Any]()
    if args.pools is not None:
        decodes, longest = Pool(times, scheduler, devices), inputs.largest + outputs.largest
        pools = pools_of(args, scenario, _scheduler(args, scenario), decodes, longest)
        tried = {"{}:{}".format(*ratio): replace(subject, pools=pools.at(ratio)) for ratio in ratios_of(args.pools)}
    ratio, point = _best(args, tried, file, load)
    policy = args.policy or usual_policy(scenario, args.max_seqs)
    engine_data, engine_lines = engine_answer(policy, scenario, scheduler)
    rates["output_tokens_per_s_per_device"] = point.tokens_per_s_per_device
    rates |= {"output_tokens_per_s_per_user": point.tokens_per_s_per_user, "shares": dict(point.shares)}
    lines = [*report_lines(point.report), *engine_lines, f"most of the time: {point.binds}"]
    if file is not None and file.instants is not None and args.clients is not None:
        lines.append("clients ask for the requests of the trace in turn; when it asked for them is left out")
    if ratio:
        rates["pools"] = ratio
        lines.append(f"pools {ratio}")
    if file is None and not isinstance(load, ClosedLoop):
        rates["capacity_qps"] = full = tried[ratio].saturated_qps
        lines.append(
            f"{load.qps:.4g} requests/s is {percent(load.qps / full)} of the {full:.4g} that can be served"
            + ": the queue grows as long as the load lasts, and times are those of this run" * (load.qps > full)
        )
    if scenario is not None:
        band = evaluate(scenario.with_(batch=point.together)).error_band
        rates["error_band"] = asdict(band)
        lines.append(f"error band of pass times: {told(band)}")
    return point.report.as_dict() | rates | engine_data, lines


def _best(
    args: argparse.Namespace, tried: Mapping[str, Engine], file: RequestFile | None, load: Any
) -> tuple[str, OperatingPoint]:
    """The ratio of pools that does best by the device, and its run; of requests as their file has them."""
    runs: list[tuple[tuple[float, float], str, OperatingPoint]] = []
    for ratio, subject in tried.items():
        rules = subject.scheduler if subject.pools is None else subject.pools.prefill.rules
        count, hits = args.requests, None
        if count is None and (file is not None or args.clients):
            count = usual_requests(args.clients) if file is None else file.requests
        if file is not None and file.hashes is not None and args.prefix_hit is None:
            hits = file.cached(subject.scheduler.kv_blocks, subject.scheduler.block, rules.replicas)[:count]
        point = subject.at(load, count, args.seed, cached=hits, priority=getattr(file, "priority", None))
        report = point.report
        rate = report.requests_per_s if report.goodput_per_s is None else report.goodput_per_s
        runs.append(((rate / point.devices, -report.e2e.mean.value), ratio, point))
    return max(runs, key=lambda run: run[0])[1:]


def pools_of(
    args: argparse.Namespace, scenario: Scenario | None, rules: Scheduler, decodes: Pool, longest: int
) -> Pools:
    """The pools and the network that the arguments mean: the first as the scenario with what is set for it."""
    if scenario is None:
        refuse(args, ["prefill_set"], "given passes: both pools take those")
        return Pools(decodes, decodes, Network(args.token_bytes or 0.0, args.port))
    prefill, token_size = apply_all(scenario, args.prefill_set), args.token_bytes
    first = Pool(*engine_of(prefill, rules, longest), devices_of(prefill))
    token_size = token_bytes(scenario.with_(batch=1, outputs=1), longest) if token_size is None else token_size
    return Pools(first, decodes, Network(token_size, args.port))


def _trace_arrivals(args: argparse.Namespace, file: RequestFile, process: Any) -> Any:
    """The arrivals of a trace: its own, or those asked for where it has none. ScenarioError where they contradict."""
    if args.requests is not None and args.requests > file.requests:
        raise ScenarioError(f"requests is {args.requests}; the trace has {file.requests}")
    replay = file.arrivals(1.0 if args.speed is None else args.speed)
    refuse(args, ["speed"], "a trace without times; it multiplies its arrival rate", replay is None)
    refuse(args, ["qps"], "a trace that has its own arrivals; give speed", replay is not None)
    return process if replay is None or args.clients is not None else replay


def simulate_loop(args: argparse.Namespace, scenario: Scenario, serving: Serving) -> Answer:
    """Run a closed loop of clients through a system that makes no tokens one by one.

    ScenarioError for what only a serving engine of a language model has.
    """
    of_engines = ("policy", "trace", "pools", "limit_ttft", "limit_tpot", *_engine(args))
    refuse(args, of_engines, f"{scenario.workload}, which makes no tokens one by one: no serving engine has it")
    refuse(args, ["limit_e2e"], "arrivals at a rate; goodput is of clients", args.clients is None)
    refuse(args, ("arrivals", "most", "speed", *OF_POOLS), f"clients {args.clients} of {scenario.workload}")
    system, sizes, _ = serving.of(scenario)
    assert not isinstance(system, DecoderServer)
    count = usual_requests(args.clients) if args.requests is None else args.requests
    limits = _limits(args)
    report = closed_loop(system, _load(args, None), sizes, count, limits=limits, seed=args.seed)
    band = evaluate(scenario).error_band
    lines = [report.message, f"error band of service times: {told(band)}"]
    lines += _times(report, ("e2e", "first_wave_e2e", "steady_e2e"))
    lines += [f"use {percent(use):>5}  {name}" for name, use in report.use.items()]
    return report.as_dict() | {"error_band": asdict(band)}, lines


def _limits(args: argparse.Namespace) -> dict[str, float]:
    return {f"{name}_s": value for name in ("ttft", "tpot", "e2e") if (value := getattr(args, f"limit_{name}"))}


def _times(report: ServingReport | LoopReport | PriorityReport, names: Sequence[str]) -> Iterator[str]:
    """A line of every time that a report has, and of its goodput."""
    for name in names:
        figures: Figures | None = getattr(report, name)
        if figures is not None:
            cells = (f"{metric} {_with_interval(value)}" for metric, value in vars(figures).items())
            yield f"{name.replace('_', ' '):16} {'  '.join(cells)}"
    if (goodput := getattr(report, "goodput_per_s", None)) is not None:
        yield f"{'goodput':16} {goodput:.4g} requests/s within the limits"


def _with_interval(figure: Estimate) -> str:
    """A time and half of its interval, where there is one."""
    half = f" ±{amount(figure.high - figure.value, 's')}" if math.isfinite(figure.high) else ""
    return amount(figure.value, "s") + half


def report_lines(report: ServingReport) -> Iterator[str]:
    """A run of a serving engine in words: its times, goodput, passes and cache."""
    yield report.message
    yield from _times(
        report, ("ttft", "itl", "tpot", "e2e", "first_wave_ttft", "steady_ttft", "steady_tpot", "steady_e2e")
    )
    for group in report.classes:
        yield f"priority {group.priority}, {counted(group.requests, 'request')}"
        yield from _times(group, ("ttft", "itl", "tpot", "e2e"))
    share = report.peak_kv_blocks / report.kv_blocks
    counts = f"{counted(report.passes, 'pass')}, {counted(report.preemptions, 'preemption')}"
    yield f"{counts}, KV cache {percent(share)} full at its peak"
    if report.swapped_blocks is not None:
        blocks = counted(report.swapped_blocks, "block")
        yield f"{blocks} swapped, {report.peak_host_blocks:,} in the host's memory at its peak"


def _length(name: str, text: str | None) -> int:
    """Tokens that an option of a run without a scenario gives; ScenarioError where it is none."""
    value = "not given" if text is None else brief(text)
    with boundary(f"{name} is {value}; with given passes it must be a whole number from 1 to 1048576"):
        if not 1 <= (length := int(str(text))) <= 1_048_576:
            raise ValueError
        return length
