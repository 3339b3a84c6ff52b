"""What a sweep may turn, beside a scenario: lists of a scenario's own choices, ranges of its hardware's numbers. Pure.

An axis of the page is either a choice (`values` picked out of `Candidate.options`) or a range (`AxisRange`) in the
unit the catalog prints. `values_of` turns both into the settings a sweep runs over.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.shared import cached, glossary, specs
from app.shared import formats as fmt
from app.shared.glossary import LEVERS
from app.shared.specs import SpecNumber
from engine.devices import family
from engine.resolve.choices import why_not
from engine.scenario import Scenario, encode
from engine.scenario.fields import FIELDS, Field
from engine.sweep.axis import FieldAxis, field_axes
from engine.traffic.engines.operating_space import HEAD
from engine.traffic.engines.scheduler import POLICIES
from engine.traffic.scenario_load import in_turn, is_decoder, usual_policy
from hardware_specs.catalog import default_catalog
from hardware_specs.quantity import SpecError, parse
from model_zoo.catalog import default_zoo

DESIGNS = 524_288  # that a first space stays within where operators are priced apart,
DESIGNS_AT_ONCE = 32_768  # where a compiled call schedules them, and
DESIGNS_WHOLE = 16_384  # where a program is run for each distinct job
MOST_STEPS = 4096
SEARCH_FROM = 100_000_000  # designs from which a search is offered instead
EVALUATIONS = 10_000  # designs that one tries: a minute
_REACH = 4.0  # a range begins at a quarter of the catalog's value and ends at four times it
_REACH_CLOCK = 2.0  # a clock's at half and twice: what the same circuit may be run at
_FIRST_STEPS = 9
_FIRST_STREAMS = 4  # batches at once that one starts with, where larger batches gain nothing
_FIRST_PAIRS = 4  # systems or networks that an axis starts with
_ON_OFF = (False, True)


@dataclass(frozen=True)
class AxisRange:
    """A range: ends as printed, how many values, and whether their ratio or their difference is constant."""

    low: str
    high: str
    steps: int
    log: bool = True

    def __len__(self) -> int:
        return self.steps


Values = tuple[Any, ...] | AxisRange


@dataclass(frozen=True)
class Candidate:
    """One thing that may become an axis."""

    path: str
    label: str
    group: str  # request, mapping, switch, hardware, model, serving
    options: tuple[Any, ...] = ()  # empty: a range
    first: Values = ()  # what an axis starts with
    now: Any = None  # the scenario's own
    text: Callable[[Any], str] = field(default=str, compare=False)
    help: str = ""
    row: SpecNumber | None = None  # of a range: the number that it turns
    initial: bool = False  # an axis of the first space


def _whole(low: int, high: int) -> tuple[int, ...]:
    """Powers of two between two counts."""
    return tuple(2**i for i in range(low.bit_length() - 1, high.bit_length()) if low <= 2**i <= high)


_CLIENTS = _whole(1, 4096)


def _of_field(axis: FieldAxis) -> Candidate:
    text = fmt.count if axis.field.path == "params" else glossary.value_label
    group, values, of = _GROUP[axis.field.group], axis.values, axis.field
    return Candidate(axis.path, axis.label, group, values, values, axis.now, text, axis.help, initial=of.first)


_GROUP = {"workload": "request", "batching": "request", "precision": "mapping", "tiling": "mapping"}
_GROUP |= {"partition": "mapping", "hardware": "hardware", "optimisations": "switch", "costs": "model"}


def _pair(of: Field, scenario: Scenario) -> Candidate | None:
    """Systems that run the network, or networks of its family that the system runs; the scenario's own first."""
    catalog, zoo = default_catalog(), default_zoo()
    now = getattr(scenario, of.path)
    if of.path == "system":
        ids = [id for id in catalog.ids("systems") if why_not(id, scenario.workload) is None]
        names = {id: catalog.system(id).name for id in ids}
    else:
        kind = zoo.workload(now).family
        ids = [id for id in zoo.ids() if zoo.workload(id).family == kind and why_not(scenario.system, id) is None]
        names = {id: zoo.workload(id).name for id in ids}
    options = (now, *(id for id in ids if id != now))
    if len(options) < 2:
        return None
    first, text = options[:_FIRST_PAIRS], lambda id: names.get(id, id)
    return Candidate(of.path, of.label, _GROUP[of.group], options, first, now, text, of.help)


def _fields(scenario: Scenario) -> list[Candidate]:
    """The scenario's own fields, a pair's in front, in the order of the table."""
    pairs = (_pair(of, scenario) for of in FIELDS if of.kind == "id")
    axes = field_axes(scenario, cached.options(encode(scenario)))
    return [*filter(None, pairs), *map(_of_field, axes.values())]


def _levers(scenario: Scenario) -> list[Candidate]:
    """Levers of a language model's serving engine, which stand on the Load page too."""
    if not is_decoder(scenario):
        return []
    policy = usual_policy(scenario)
    usual = {"clients": min(scenario.batch, _CLIENTS[-1]), "policy": policy} | vars(POLICIES[policy])
    values: dict[str, tuple[Any, ...]] = dict.fromkeys(LEVERS, _ON_OFF) | {
        "clients": _CLIENTS,
        "policy": tuple(POLICIES),
        "budget": _whole(256, 65_536),
        "max_seqs": _CLIENTS,
        "block": _whole(1, 256),
        "memory_share": (0.8, 0.85, 0.9, 0.95, 1.0),
        "prefix_hit": (0.0, 0.25, 0.5, 0.75, 0.9),
    }
    return [
        Candidate(HEAD + name, LEVERS[name][0], "serving", options, options, usual[name], lever_text)
        for name, options in values.items()
    ]


def _ways(scenario: Scenario) -> list[Candidate]:
    """Ways to share a decoder over all devices of a system, whatever the scenario has of them."""
    choices = cached.options(encode(scenario))
    if not is_decoder(scenario) or "tensor" not in choices.schemes:
        return []
    wide = scenario.with_(scheme="tensor", devices=max(choices.device_counts))
    axes = field_axes(wide, cached.options(encode(wide)))
    paths = ("pipeline_parallel", "attention_dp", "context_parallel", "expert_parallel")
    return [_of_field(axes[path]) for path in paths if path in axes]


def lever_text(value: Any) -> str:
    """A lever's value as the Load page and its address have it."""
    if isinstance(value, bool):
        return glossary.value_label(value)
    return f"{100 * value:g}" if isinstance(value, float) else glossary.WORDS["policies"].get(value, str(value))


def usual_levers(scenario: Scenario) -> dict[str, Values]:
    """The first space of a language model's serving engine: how many devices serve how many clients, in what passes."""
    by_path = candidates(scenario)
    devices = [count for count in by_path["devices"].options if count.bit_count() == 1] if "devices" in by_path else []
    tensor = ("tensor",) if "scheme" in by_path and "tensor" in by_path["scheme"].options else ()
    space: dict[str, tuple[Any, ...]] = {"scheme": tensor, "devices": tuple(devices) if tensor else ()}
    space |= {f"{HEAD}clients": _CLIENTS[:9], f"{HEAD}budget": (512, 2048, 8192)}
    space[f"{HEAD}max_seqs"] = () if in_turn(scenario) else (32, 128, 512)
    return {path: values for path, values in space.items() if values}


def _around(row: SpecNumber, reach: float) -> AxisRange | None:
    """A range about a value, in its printed unit where the catalog reads that; None where it is not positive."""
    if not row.si > 0:
        return None
    number, gap, unit = row.text.partition(" ")
    try:
        readable = math.isclose(parse(row.text)[0], row.si, rel_tol=1e-3)
    except SpecError:
        readable = False
    middle = float(number.replace(",", "").rstrip("%")) if readable else row.si
    tail = ("%" if number.endswith("%") else gap + unit) if readable else ""
    low, high = (fmt.decimal(float(f"{v:.4g}" if v < 1e4 else f"{v:.0f}")) for v in (middle / reach, middle * reach))
    return AxisRange(low + tail, high + tail, _FIRST_STEPS)


def _hardware(scenario: Scenario) -> list[Candidate]:
    result = []
    for row in specs.overridable(scenario):
        span = _around(row, _REACH_CLOCK if "clock" in row.path else _REACH)
        if span is None:
            continue
        group = "model" if row.path.startswith("model.") else "hardware"
        help = f"{row.basis}. {row.where}"
        result.append(Candidate(row.path, glossary.tidy(row.label), group, (), span, row.text, str, help, row))
    return result


def candidates(scenario: Scenario) -> dict[str, Candidate]:
    """Everything that may be an axis beside this scenario, the request first and the model's constants last."""
    rows = [*_levers(scenario), *_ways(scenario), *_fields(scenario), *_hardware(scenario)]
    return {c.path: c for c in rows}


def _best_hardware(candidates: Mapping[str, Candidate], scenario: Scenario) -> list[str]:
    """The numbers a first space turns: bandwidth of the first memory that has one, a clock or else the peak, a wire."""
    paths = [p for p in candidates if p.startswith("devices.0.")]
    bandwidth = [p for p in paths if ".memory." in p and p.endswith(".bandwidth")]
    clock = [p for p in paths if ".clock" in p and not p.endswith(".min")]
    peak = [p for p in paths if p == f"devices.0.peak.{scenario.precision}"]
    wire = [p for p in candidates if p == "links.peer.bandwidth" and scenario.devices > 1]
    return [*bandwidth[:1], *(clock or peak)[:1], *wire]


def room(scenario: Scenario) -> int:
    """Designs that a sweep prices while somebody waits, by how the first device's family is priced."""
    catalog = default_catalog()
    kernel = family(catalog.device(catalog.system(scenario.system).devices[0].device).kind).compiled
    if kernel is None:
        return DESIGNS_WHOLE
    beside = scenario.streams > 1 or scenario.inter_op_threads is not None
    return DESIGNS if kernel.apart[beside] else DESIGNS_AT_ONCE


def usual(scenario: Scenario) -> dict[str, Values]:
    """The first space of a scenario: its mapping, hardware, and its request's batch where there is room."""
    by_path = candidates(scenario)
    budget = room(scenario)
    fast = budget > DESIGNS_WHOLE
    space: dict[str, Values] = {}
    for path, c in by_path.items():
        values = _batches(c, 8) if path == "batch" else c.options
        if path == "devices" and not fast:  # else counts take the room of what is turned beside them
            values = [count for count in values if count.bit_count() == 1]
        initial = c.initial and (fast or path != "batch")
        if path == "streams" and not fast and not _gains_by_batch(scenario):
            values, initial = sorted({*c.options[:_FIRST_STREAMS], c.now}), True
        if initial and 2 <= len(values) <= budget:
            space[path] = tuple(values)
            budget //= len(values)
    ranges = _best_hardware(by_path, scenario)[: 3 if fast else 2]
    for at, path in enumerate(ranges):
        span = by_path[path].first
        assert isinstance(span, AxisRange)
        steps = int(budget ** (1 / (len(ranges) - at)) + 1e-9)
        steps = min(64, 2 ** max(0, steps.bit_length() - 1)) - 1  # odd: a value's own is in the middle
        if steps > 1:
            space[path] = AxisRange(span.low, span.high, steps, span.log)
            budget //= steps
    if "batch" not in space and budget >= 2:
        space = {"batch": _batches(by_path["batch"], min(8, budget))} | space
    return space


def _gains_by_batch(scenario: Scenario) -> bool:
    """Whether a batch of twice the size has a higher rate; where it has not, a rate is paid for in other ways alone."""
    now, twice = (cached.try_report(scenario, batch=scenario.batch * times) for times in (1, 2))
    return now is None or twice is None or twice.throughput_per_s > now.throughput_per_s * (1 + 1e-9)


def _batches(batch: Candidate, count: int) -> tuple[int, ...]:
    """So many batches, the smallest that reach up to the scenario's own."""
    end = max(count, batch.options.index(batch.now) + 1)
    return batch.options[end - count : end]


def values_of(values: Values) -> tuple[Any, ...]:
    """Values of an axis as settings: a list as it is, a range in SI; SpecError where an end can't be read."""
    if not isinstance(values, AxisRange):
        return values
    low, high = parse(_number(values.low))[0], parse(_number(values.high))[0]
    spread = np.geomspace if values.log and low > 0 and high > 0 else np.linspace
    return tuple(spread(low, high, values.steps).tolist())


def _number(text: str) -> str | float:
    """A bare number as one, so that it is read as a plain count."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def axis_words(candidate: Candidate, values: Values) -> str:
    """An axis in a few words: `1 … 128 (8)`, `FP16, INT8`, `115 … 1840 GB/s, 8 steps`."""
    if isinstance(values, AxisRange):
        low_unit, high_unit = values.low.partition(" ")[2], values.high.partition(" ")[2]
        low = values.low.partition(" ")[0] if low_unit == high_unit else values.low
        word = f" {candidate.row.unit}" if candidate.row and candidate.row.unit and not high_unit else ""
        return f"{low} … {values.high}{word}, {values.steps} steps"
    labels = [candidate.text(v) for v in values]
    if len(labels) <= 3:
        return ", ".join(labels)
    return f"{labels[0]} … {labels[-1]} ({len(labels)})"
