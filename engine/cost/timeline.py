"""A request in the order in which it happens: messages, passes, layers and steps; and as a trace file. Estimates."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from engine.cost.assemble import PhaseRun, Schedule
from engine.cost.rows import RESOURCE_NAMES, following, totals
from engine.devices.common.contract import RESOURCES, Span
from model_zoo.ops import LOOKUPS

SHOWN = 2_000
"""Bars of a page's timeline; a trace file has `TRACED`. Where a request has more, steps are put together."""
TRACED = 200_000
_AFTER = re.compile(r" (?:after|for) ([\w.-]+)")
_Bar = tuple[str, str, float]  # name, resource, seconds


def _pass_bars(run: PhaseRun, charge: float) -> tuple[list[list[_Bar]], int, int]:
    """One pass of a run: bars before what it repeats, of one repetition, and behind; its layers and steps. [s]

    Operators in their order, each exchange behind the operator whose result it carries.
    """
    job, ops = run.job, run.job.ops
    counts = [
        (1 if op.kind in LOOKUPS else op.layers, max(1, round(op.steps.at(job.batch, job.length, job.context))))
        for op in ops
    ]
    layers, steps = max(counts, key=lambda count: count[0] * count[1])
    matches = [at for at, count in enumerate(counts) if count == (layers, steps)]
    first, last = matches[0], matches[-1] + 1
    rows: list[list[_Bar]] = [[] for _ in range(len(ops) + 1)]  # the first: what comes before all operators
    for at, (op, seconds) in enumerate(zip(ops, (run.cost.seconds * charge).tolist(), strict=True)):
        rows[at + 1] += [(op.name, RESOURCES[r], s) for r, s in enumerate(seconds) if s > 0.0]
    places = {op.name: at + 1 for at, op in enumerate(ops)}
    for name, resource, seconds in run.cost.overheads:
        match = _AFTER.search(name)
        if seconds > 0.0:
            rows[places.get(match[1], 0) if match else 0].append((name, resource, float(seconds) * charge))
    parts = [
        [bar for row in rows[a:b] for bar in row] for a, b in ((0, first + 1), (first + 1, last + 1), (last + 1, None))
    ]
    parts[1] = [(n, r, s / (layers * steps)) for n, r, s in parts[1]]
    return parts, layers, steps


def _together(bars: list[_Bar], times: float, name: str = "") -> Iterator[_Bar]:
    """Bars that happen so many times, by their own name, or as one bar for each resource."""
    if not name:
        yield from ((n, r, s * times) for n, r, s in bars)
        return
    total_s = totals((resource, seconds * times) for _, resource, seconds in bars)
    yield from ((name, resource, seconds) for resource, seconds in total_s.items())


def _passes(run: PhaseRun, charge: float, limit: int) -> Iterator[_Bar]:
    """Bars of a run, as fine as they are at most so many."""
    ((before, repetition, behind), layers, steps), count = _pass_bars(run, charge), max(1, round(run.passes))
    times, repeats = run.passes / count, layers * steps
    around, inside = len(before) + len(behind), len(repetition)
    fine = count * (around + repeats * inside) <= limit
    coarse = not fine and count * (around + repeats * len(RESOURCES)) <= limit
    whole = not fine and not coarse and count * (around + inside) <= limit
    if not (fine or coarse or whole):
        bars = [*before, *_together(repetition, repeats), *behind]
        if count * len(RESOURCES) > limit:
            yield from _together(bars, run.passes)
            return
    for at in range(count):
        prefix = f"{run.job.phase.name} {at + 1}" if count > 1 else ""
        if not (fine or coarse or whole):
            yield from _together(bars, times, prefix)
            continue
        yield from _with_prefix(before, times, prefix)
        for r in range(repeats if fine or coarse else 1):
            layer, step = divmod(r, steps)
            labels = [f"layer {layer + 1}"] * (layers > 1) + [f"step {step + 1}"] * (steps > 1)
            here = ", ".join([prefix] * bool(prefix) + labels * (fine or coarse))
            if fine or not coarse:
                yield from _with_prefix(repetition, times if fine else times * repeats, here)
            else:
                yield from _together(repetition, times, here)
        yield from _with_prefix(behind, times, prefix)


def _with_prefix(bars: list[_Bar], times: float, where: str) -> Iterator[_Bar]:
    yield from ((f"{where}, {name}" if where else name, resource, seconds * times) for name, resource, seconds in bars)


def _bars(times: Schedule, limit: int) -> Iterator[_Bar]:
    share = limit // max(1, sum(len(stage.runs) for stage in times.priced))
    for at, stage in enumerate((*times.priced, None)):
        hops = ((hop.name, seconds) for hop, seconds in times.hops if min(hop.after, len(times.priced)) == at)
        yield from ((name, "links", seconds) for name, seconds in hops if seconds > 0.0)
        if stage is None:
            break
        yield from ((name, resource, float(s) * stage.charge) for name, resource, s in stage.fixed if s > 0.0)
        for run in stage.runs:
            yield from _passes(run, stage.charge, share)
    yield from (bar for bar in following(times) if bar[2])


def request(times: Schedule, limit: int = SHOWN) -> tuple[Span, ...]:
    """Bars of one request one after the other, in the unit of their resource; the last ends at the latency. [s]

    Each token step and layer by operator where those are at most so many bars; else layers, steps or the passes of a
    phase are put together. Stages that go on beside each other have the part of their time that a request is charged.
    Steps of a phase are alike: each takes the mean of them.
    """
    bars = list(_bars(times, limit))
    ends = np.cumsum([seconds for _, _, seconds in bars]).tolist()
    begins = [0.0, *ends[:-1]]
    return tuple(
        Span(RESOURCE_NAMES[resource], name, begin, end - begin, resource)
        for (name, resource, _), begin, end in zip(bars, begins, ends, strict=True)
    )


def trace(spans: Sequence[Span], of: str, **facts: str) -> str:
    """JSON of a trace: a process named after what is shown, a thread a unit, a complete event a bar. [us]

    ``facts`` (a token, versions) stand beside the events. Source: Trace Event Format, Google, "Complete Events".
    """
    units = list(dict.fromkeys(span.unit for span in spans))
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": of}}]
    for at, unit in enumerate(units, 1):
        base = {"ph": "M", "pid": 1, "tid": at}
        events.append(base | {"name": "thread_name", "args": {"name": unit}})
        events.append(base | {"name": "thread_sort_index", "args": {"sort_index": at}})
    events += [
        {
            "ph": "X",
            "name": span.name,
            "cat": RESOURCE_NAMES[span.resource],
            "pid": 1,
            "tid": units.index(span.unit) + 1,
            "ts": 1e6 * span.start_s,
            "dur": 1e6 * span.duration_s,
        }
        for span in spans
    ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": facts}, allow_nan=False) + "\n"
