"""A serving engine of language models under load: a calendar of passes, run to the last token of every request.

Times of passes are a device's (`engine.traffic.engines.pass_times`) or given. Latencies are simulated, each with an
interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.kernels.events.passes import Requests, Times
from engine.kernels.events.rng import fill_exponential, stream_key
from engine.scenario.sentences import amount, counted
from engine.traffic.arrivals import Arrivals, Diurnal, Trace
from engine.traffic.engines.pass_run import PassRun, requests_of, run_passes
from engine.traffic.engines.priority import MAX_CLASSES, draw
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.estimates import Estimate, student_t
from engine.traffic.runs import OUTPUT_STREAM, SIZE_STREAM
from engine.traffic.service import TrafficError, positive, whole
from engine.traffic.sizes import Sizes

LEVEL = 0.99  # confidence of every interval
_SHARES = (0.5, 0.9, 0.95, 0.99)  # of requests or gaps, whose quantiles are told
_TICK, _EXACT = 2.0**-52, 1e-3  # of a clock that shows 1; largest rounding of a pass [-]
GROUPS = 16  # consecutive batches of requests
_THINK_STREAM = 5
_FILLS = 2.0  # times the mean of requests under way, before an engine is as full as a rate fills it: assumed
MOST_REQUESTS = 5_000_000
_MOST_TOKENS = 20_000_000_000  # tokens of all requests together
LOG_ROWS = 200_000
_REQUESTS_PER_CLIENT, _LEAST_REQUESTS, _OPEN_REQUESTS = 12, 64, 2000
_CLIENTS_MOST = 1_000_000
_SOMETIMES = ("classes", "swapped_blocks", "peak_host_blocks", "pool_busy")  # of a report, where the scheduler asks


@dataclass(frozen=True)
class ClosedLoop:
    """``clients`` with one request in flight each; the next comes a think time of mean ``think_s`` after the answer.

    ``exponential``: think times are drawn from that distribution, else all alike. The first requests come together, or
    one after another over ``ramp_s``. [s]
    """

    clients: int
    think_s: float = 0.0
    ramp_s: float = 0.0
    exponential: bool = False

    def __post_init__(self) -> None:
        whole("clients", self.clients, 1, _CLIENTS_MOST)
        positive("think_s", self.think_s, zero=True)
        positive("ramp_s", self.ramp_s, zero=True)

    def at(self, clients: float) -> "ClosedLoop":
        """The same of so many clients. [-]"""
        return replace(self, clients=round(clients))

    def begin(self, arrive: NDArray[np.float64], think: NDArray[np.float64], seed: int) -> int:
        """Fills in when each client's first request comes and all think times [s]; returns the number of clients."""
        clients = min(self.clients, arrive.size)
        arrive[:clients] = np.arange(clients) * (self.ramp_s / clients)
        think[:] = self.think_s
        if self.exponential:
            fill_exponential(stream_key(seed, _THINK_STREAM), 0, think)
            think *= self.think_s
        return clients


@dataclass(frozen=True)
class Figures:
    """Mean and quantiles of a time, with their intervals. [s]"""

    mean: Estimate
    p50: Estimate
    p90: Estimate
    p95: Estimate
    p99: Estimate

    def as_dict(self) -> dict[str, float | None]:
        """The mean, ``p50`` to ``p99``, and the ends of each one's interval as ``*_low`` and ``*_high``. [s]"""
        values = {}
        for name, figure in vars(self).items():
            values |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
        return {name: value if math.isfinite(value) else None for name, value in values.items()}


@dataclass(frozen=True)
class PriorityReport:
    """Requests of one ``priority`` number of a run: how many, and their times as a `ServingReport` has them. [s]"""

    priority: int
    requests: int
    ttft: Figures
    itl: Figures | None
    tpot: Figures | None
    e2e: Figures


@dataclass(frozen=True, eq=False)
class ServingReport:
    """A serving engine under a load, from the first arrival to the last token. Simulated.

    ``ttft``: arrival to first token; ``itl``: between two tokens of one sequence, over all of them; ``tpot``: (end to
    end - TTFT) / (tokens - 1) of each request; ``e2e``: arrival to last token [s]. ``first_wave_ttft`` is that of the
    requests that find the engine empty together (of a closed loop, the first of every client), ``steady_*`` those of
    all others; of arrivals at a mean rate of those that come after twice, and before the last once, as many as are
    under way in the mean: the engine fills before and empties after. Of a trace or a day all are.
    ``goodput_per_s``: requests a second within the limits asked for. ``prefix_hit``: share of prompt tokens in the
    cache [-]. ``log``: passes in order, columns `engine.kernels.events.passes.PASS`, the first 200,000 of each replica.
    ``identity_s``: of a closed loop clients / rate - (tokens - 1) TPOT - think time, which mean TTFT equals in steady
    state [s]. ``classes``: the same of each priority, the most urgent first; none where all requests are alike.
    ``swapped_blocks`` crossed the host's link, ``peak_host_blocks`` were in its memory at once; None where preempted
    sequences are prefilled again. ``pool_busy``: share of the time that the engines of a pool that prefills and of one
    that decodes are busy [-]; empty without them.
    """

    requests: int
    duration_s: float
    ttft: Figures
    itl: Figures | None
    tpot: Figures | None
    e2e: Figures
    first_wave_ttft: Figures | None
    steady_ttft: Figures | None
    steady_tpot: Figures | None
    steady_itl: Figures | None
    steady_e2e: Figures | None
    requests_per_s: float
    output_tokens_per_s: float
    input_tokens_per_s: float
    goodput_per_s: float | None
    passes: int
    preemptions: int
    kv_blocks: int
    peak_kv_blocks: int
    busy: float
    prefix_hit: float
    identity_s: float | None
    message: str
    log: NDArray[np.float64]
    arrive: NDArray[np.float64]
    first: NDArray[np.float64]
    finish: NDArray[np.float64]
    classes: tuple[PriorityReport, ...] = ()
    swapped_blocks: int | None = None
    peak_host_blocks: int | None = None
    pool_busy: tuple[float, ...] = ()

    @property
    def output_tokens_per_s_per_user(self) -> float | None:
        """Tokens a sequence receives per second once it began, 1 / median TPOT; None of a single one. [tokens/s]"""
        return None if self.tpot is None or self.tpot.p50.value <= 0 else 1.0 / self.tpot.p50.value

    def as_dict(self) -> dict[str, object]:
        """Plain numbers, text and None; times carry their unit in the key."""
        plain = as_plain(self) | {"classes": [as_plain(report) for report in self.classes]}
        return {name: value for name, value in plain.items() if name not in _SOMETIMES or value not in ([], (), None)}


def as_plain(report: object) -> dict[str, object]:
    """Fields of a report but its arrays; figures of times as their own plain data, under ``*_s``. [s]"""
    fields = {name: value for name, value in vars(report).items() if not isinstance(value, np.ndarray)}
    return {
        f"{k}_s" if isinstance(v, Figures) else k: v.as_dict() if isinstance(v, Figures) else v
        for k, v in fields.items()
    }


def figures(values: NDArray[np.float64]) -> Figures | None:
    """Of times in the order of their requests; intervals from consecutive batches of them. [s]"""

    def of(batches: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack([batches.mean(axis=1), *np.quantile(batches, _SHARES, axis=1)])

    if values.size == 0:
        return None
    size, longer = divmod(values.size, GROUPS)  # the first batches have one more
    cut = longer * (size + 1)
    parts = [part.reshape(-1, n) for part, n in ((values[:cut], size + 1), (values[cut:], size)) if part.size]
    return _spread(of(values[None])[0], np.concatenate([of(part) for part in parts]))


def _spread(values: Sequence[float] | NDArray[np.float64], batches: NDArray[np.float64]) -> Figures:
    """Values with an interval each from those of batches: Student's t over them; no ends where there is but one."""
    count = len(batches)
    half = np.full(len(values), math.inf)
    if count > 1:
        half = student_t(LEVEL, count - 1) * batches.std(axis=0, ddof=1) / math.sqrt(count)
    return Figures(*(Estimate(float(v), float(v - h), float(v + h)) for v, h in zip(values, half, strict=True)))


def _gap_figures(counts: NDArray[np.int64], sums: NDArray[np.float64]) -> Figures | None:
    """Of gaps counted in bins, one row per batch; a quantile is its bin's mean, half a per cent off at most. [s]"""

    def of(count: NDArray[np.int64], total: NDArray[np.float64]) -> list[float]:
        reached = np.cumsum(count)
        at = [int(np.searchsorted(reached, math.ceil(share * reached[-1]))) for share in _SHARES]
        return [float(total.sum() / reached[-1]), *(float(total[k] / count[k]) for k in at)]

    filled = [k for k in range(len(counts)) if counts[k].any()]
    if not filled:
        return None
    return _spread(of(counts.sum(axis=0), sums.sum(axis=0)), np.array([of(counts[k], sums[k]) for k in filled]))


def usual_requests(clients: int) -> int:
    """Requests of a run where none are asked for: 12 of each client, at least 64; 2,000 of an open load, 0 clients."""
    return max(_LEAST_REQUESTS, _REQUESTS_PER_CLIENT * clients) if clients else _OPEN_REQUESTS


def serve(
    times: Times,
    scheduler: Scheduler,
    load: ClosedLoop | Arrivals,
    inputs: Sizes,
    outputs: Sizes,
    requests: int,
    *,
    cached: NDArray[np.int64] | None = None,
    priority: NDArray[np.int64] | None = None,
    limits: Mapping[str, float] | None = None,
    seed: int = 0,
) -> ServingReport:
    """Run ``requests`` through the engine to the last token. Same seed, same bits.

    Parameters
    ----------
    times
        Of passes, given or a device's. [s]
    inputs, outputs
        Tokens of each request in and out. [tokens]
    cached
        Tokens of each prompt in the cache already; default ``scheduler.prefix_hit`` of it. [tokens]
    priority
        Number of each request; default those of a trace's, else drawn by ``scheduler.priorities``.
    limits
        ``ttft_s``, ``tpot_s``, ``e2e_s``: what goodput counts as in time. [s]

    TrafficError for a request that the cache or a pass can never take, or for more work than a run may be.
    """
    asked, clients, numbers = requests_under(load, scheduler, inputs, outputs, requests, seed, cached, priority)
    prompt, made, hit = asked.inputs, asked.outputs, asked.cached
    if int(prompt.sum() + made.sum()) > _MOST_TOKENS:
        raise TrafficError(
            f"requests is {requests}: {int(prompt.sum() + made.sum()):,} tokens; at most {_MOST_TOKENS:,} are run"
        )
    longest = int((prompt + made).max())
    need = -(-longest // scheduler.block)
    if scheduler.kv_blocks is not None and need > scheduler.kv_blocks:
        raise TrafficError(
            f"kv_blocks is {scheduler.kv_blocks} of {scheduler.block} tokens; a request of {longest:,} tokens needs "
            f"{need}"
        )
    if scheduler.preempt == "swap" and scheduler.swap_blocks is not None and need > scheduler.swap_blocks:
        raise TrafficError(f"swap_blocks is {scheduler.swap_blocks}; a request of {longest:,} tokens needs {need}")
    entering = int((prompt - hit).max())
    if not scheduler.chunked and entering > scheduler.budget:
        raise TrafficError(
            f"budget is {scheduler.budget}; without chunks it must take the longest prompt, {entering:,} tokens"
        )
    groups = min(GROUPS, requests)
    sizes: dict[str, Any] = {"groups": groups, "classes": len(numbers), "log_rows": LOG_ROWS}
    ran = run_passes(times, scheduler, asked, clients, seed=seed, **sizes)
    return report_of(load, asked, limits or {}, ran, scheduler.replicas, numbers)


def requests_under(
    load: ClosedLoop | Arrivals,
    scheduler: Scheduler,
    inputs: Sizes,
    outputs: Sizes,
    requests: int,
    seed: int,
    cached: NDArray[np.int64] | None = None,
    priority: NDArray[np.int64] | None = None,
) -> tuple[Requests, int, list[int]]:
    """Requests of a run as `serve` takes them, clients of a closed loop (0 of arrivals), and priority numbers, rising.

    A request's class is the place of its number among those. TrafficError for too many numbers, or for a trace's own
    beside others.
    """
    whole("requests", requests, 1, MOST_REQUESTS)
    whole("seed", seed, 0)
    prompt, made = inputs.draw(requests, seed, SIZE_STREAM, 0), outputs.draw(requests, seed, OUTPUT_STREAM, 0)
    hit = scheduler.cached_tokens(prompt) if cached is None else np.clip(cached, 0, prompt - 1)
    clients, arrive, think = 0, *np.zeros((2, requests))
    if isinstance(load, ClosedLoop):
        clients = load.begin(arrive, think, seed)
    else:
        arrive[:] = load.times(requests, seed, 0)
    if priority is None and isinstance(load, Trace):
        priority = load.priority
    if priority is None:
        priority = draw(scheduler.priorities, requests, seed)
    elif scheduler.priorities:
        raise TrafficError("priority is given beside a trace that has its own; leave it out")
    numbers, classes = np.unique(np.resize(priority, requests), return_inverse=True)
    if numbers.size > MAX_CLASSES:
        raise TrafficError(f"priority has {numbers.size:,} different numbers; a run takes at most {MAX_CLASSES}")
    return requests_of(arrive, prompt, made, hit, think, classes), clients, numbers.tolist()


def report_of(
    load: ClosedLoop | Arrivals,
    asked: Requests,
    limits: Mapping[str, float],
    ran: PassRun,
    replicas: int,
    numbers: Sequence[int],
) -> ServingReport:
    """The report of requests that were run under a load by so many engines; ``limits`` [s] as `serve` takes them.

    ``numbers``: priorities of the requests' classes. TrafficError for a run too long for its clock.
    """
    closed = isinstance(load, ClosedLoop)
    order = np.argsort(asked.arrive, kind="stable")
    arrive, made = asked.arrive[order], asked.outputs[order]
    ttft, e2e = asked.first[order] - arrive, asked.finish[order] - arrive
    tpot = (e2e - ttft) / np.maximum(1, made - 1)
    span = float(asked.finish.max() - arrive[0])
    rate = len(arrive) / span
    if (pass_s := ran.busy_s / ran.passes) < span * _TICK / _EXACT:
        raise TrafficError(
            f"the load lasts {amount(span, 's')}, beyond the digits of a clock that tells passes of "
            f"{amount(pass_s, 's')} apart: raise the rate, or shorten the think time"
        )
    place, groups = np.arange(len(arrive)), ran.gaps.shape[0] // len(numbers)
    wave, begin, end = place < (load.clients if closed else 0), 0, groups
    if not isinstance(load, ClosedLoop | Trace | Diurnal):
        under_way = rate * float(e2e.mean()) / len(arrive)
        begin, end = math.ceil(_FILLS * groups * under_way), math.floor(groups * (1.0 - under_way))
        begin, end = (begin, end) if begin < end else (0, groups)
    of_group = place * groups // len(arrive)
    steady = ~wave & (of_group >= begin) & (of_group < end)
    measured = {"ttft_s": ttft, "tpot_s": tpot, "e2e_s": e2e}
    inside = np.all([measured[name] <= limit for name, limit in limits.items()], axis=0) if limits else None
    gaps, sums = (values.reshape(len(numbers), -1, values.shape[1]) for values in (ran.gaps, ran.sums))

    def times_of(rows: NDArray[np.bool_], gaps: NDArray[np.int64], sums: NDArray[np.float64]) -> dict[str, Any]:
        columns = {"ttft": ttft[rows], "tpot": tpot[rows & (made > 1)], "e2e": e2e[rows]}
        return {name: figures(values) for name, values in columns.items()} | {"itl": _gap_figures(gaps, sums)}

    level = asked.priority[order]
    whole = times_of(np.full(level.shape, True), gaps.sum(axis=0), sums.sum(axis=0))
    parts = [times_of(level == k, gaps[k], sums[k]) for k in range(len(numbers))] if len(numbers) > 1 else [whole]
    classes = [PriorityReport(number, int((level == k).sum()), **parts[k]) for k, number in enumerate(numbers)]
    return ServingReport(
        requests=len(arrive),
        duration_s=span,
        **whole,
        first_wave_ttft=figures(ttft[wave]),
        steady_ttft=figures(ttft[steady]),
        steady_tpot=figures(tpot[steady & (made > 1)]),
        steady_itl=None if closed else _gap_figures(gaps[:, begin:end].sum(axis=0), sums[:, begin:end].sum(axis=0)),
        steady_e2e=figures(e2e[steady]),
        requests_per_s=rate,
        output_tokens_per_s=float(made.sum()) / span,
        input_tokens_per_s=float(asked.inputs.sum()) / span,
        goodput_per_s=None if inside is None else float(inside.sum()) / span,
        passes=ran.passes,
        preemptions=ran.preemptions,
        kv_blocks=ran.blocks,
        peak_kv_blocks=ran.peak,
        busy=ran.busy_s / replicas / span,
        prefix_hit=float(asked.cached.sum() / asked.inputs.sum()),
        identity_s=min(load.clients, len(arrive)) / rate - float((e2e - ttft).mean()) - load.think_s
        if closed
        else None,
        message=f"{counted(len(arrive), 'request')} in {amount(span, 's')}: {rate:.4g} requests/s, "
        f"{made.sum() / span:,.4g} output tokens/s",
        log=ran.log,
        arrive=asked.arrive,
        first=asked.first,
        finish=asked.finish,
        classes=tuple(classes) if len(numbers) > 1 else (),
        **dict(zip(("swapped_blocks", "peak_host_blocks"), ran.swaps)),
    )
