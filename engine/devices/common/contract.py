"""What every device family offers: the contract between a family's physics and the rest of the engine.

A family is one module of this package that exports ``FAMILY: DeviceFamily``; `engine.devices` lists them. Adding one
is a YAML, a module and a line there. Times are estimates; places in memory are exact counts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from engine.devices.common.cached import remembered
from engine.devices.common.column import exceeds
from engine.devices.common.counts import Group, groups_of
from engine.devices.common.job import Job
from engine.devices.common.offer import CollectiveWire, Governor, PacketPath, TableMemory
from engine.devices.common.setting import Knob, Parameter, PricedField, Rule, Switch, traits
from engine.scenario import Scenario, ScenarioError
from entries.schema import InputError
from hardware_specs.schema import Device
from model_zoo.ops import Graph, Op

RESOURCES: tuple[str, ...] = ("compute", "offchip", "onchip", "links", "host", "overhead")
"""Columns of every time breakdown: the resource that an op's time is spent on, after overlap."""
COMPUTE, OFFCHIP, ONCHIP, LINKS, HOST, OVERHEAD = range(len(RESOURCES))

WIDTH = 256
"""Design points that are priced together: a row of them is 2 KiB, so the rows of a plan stay in the nearest cache."""


class Unsupported(InputError):
    """This device can't run that workload: one sentence that says why."""


@dataclass(frozen=True)
class Span:
    """One bar of a timeline: a unit busy with something. Times in seconds from the start of the shown piece."""

    unit: str
    name: str
    start_s: float
    duration_s: float
    resource: str


@dataclass(frozen=True)
class PhaseCost:
    """What one pass of a job costs; layers and steps are already multiplied in.

    Attributes
    ----------
    seconds : (n_ops, 6) array
        Time of each op by resource, after overlap, so that everything sums to the pass. [s]
    durations : (n_ops,) array
        Time from an op's start to its end, where others run beside it and its `seconds` are less. [s]
    flops, peak : (n_ops,) arrays
        Work done by *this* device, and the dense peak it is held against. [FLOP], [FLOP/s]
    offchip, onchip : (n_ops,) arrays
        Bytes this device moved at that level. [B]
    overheads : tuple of (name, resource, seconds)
        Time of a pass that belongs to no op: pipeline fill, synchronisation between devices.
    link_bytes : float
        Bytes this device sent to its peers in a pass. [B]
    beyond_bytes : float
        Those of them that went to peers in other nodes, over a link of their own. [B]
    levels : mapping of a memory level's name to an (n_ops,) array
        Bytes that pass it, where a family tells its levels apart. [B]
    joules : mapping of a part's name to the energy of the pass, leakage apart, where a family counts it [J]
    op_joules : (n_ops,) array
        Energy of each operator beside what the device draws anyway, where its power follows from that. [J]
    link_j : float
        The same of what it sent to its peers. [J]
    limits : tuple of (n_ops,) names
        The unit or memory level that sets each op's time, where a family says.
    counters : mapping of a counter's name, its unit in it, to an (n_ops,) array
        What counters of a processor would show of each op, where a family has such; rates and shares are of its time.
    """

    seconds: np.ndarray
    flops: np.ndarray = field(default_factory=partial(np.zeros, 0))
    peak: np.ndarray = field(default_factory=partial(np.zeros, 0))
    offchip: np.ndarray = field(default_factory=partial(np.zeros, 0))
    onchip: np.ndarray = field(default_factory=partial(np.zeros, 0))
    overheads: tuple[tuple[str, str, float], ...] = ()
    link_bytes: float = 0.0
    beyond_bytes: float = 0.0
    timeline: tuple[Span, ...] = ()
    timeline_of: str = ""
    notes: tuple[str, ...] = ()
    levels: Mapping[str, np.ndarray] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    counters: Mapping[str, np.ndarray] = field(default_factory=dict)
    durations: np.ndarray | None = None
    joules: Mapping[str, float] = field(default_factory=dict)
    op_joules: np.ndarray | None = None
    link_j: float = 0.0

    @property
    def total_s(self) -> float:
        """Time of the pass. [s]"""
        return float(self.seconds.sum()) + sum(seconds for _, _, seconds in self.overheads)


@dataclass(frozen=True)
class Fit:
    """Demand on one memory level of one device against its capacity."""

    level: str
    role: str  # offchip, onchip
    need_bytes: float
    capacity_bytes: float
    holds: str  # what lies there, in words
    required: bool = True  # False: a cache, which may be smaller than what passes through it
    state_bytes: float = 0.0  # of the need: what stays from pass to pass (KV cache)
    rest: str = ""  # level from which a pass streams what does not fit

    @property
    def fits(self) -> bool:
        """Whether the level holds what must lie there."""
        return not self.required or exceeds(self.need_bytes, self.capacity_bytes) == 0.0


@dataclass(frozen=True)
class Compiled:
    """A family's operators priced by one compiled function, at one design as at millions.

    Attributes
    ----------
    record : job -> every number of the device, the model, the format and the switches that the price reads, one after
        the other. Plain arithmetic; reads neither batch nor lengths.
    tables : job -> arrays of the network, the first one with a row an operator. They read no number that may vary.
    points : compiled (lo, hi, rows, times, *tables, ways, sizes, record, totals): adds the seconds of the operators
        ``rows``, each so many ``times``, in that order, at the designs lo..hi to ``totals`` (6, n) by resource.
        ``sizes`` (4, n) are batch, pass length, context and span of each design; ``record`` is (that of any, places of
        the fields that may vary, their values of each design (k, n)). Bit-equal to the sums of `DeviceFamily.price`.
        Where ``totals`` has a seventh row, a family adds the joules of `PhaseCost.op_joules` to it.
    apart : whether an operator's seconds follow from its own counts and the record alone, for one that runs alone or
        beside others; else all of a phase are priced at once.
    company : job -> whether its operators run beside others, of other streams or of its own.
    overheads : job -> `PhaseCost.overheads` of `DeviceFamily.price`.
    """

    record: Callable[[Job], Sequence[float]]
    tables: Callable[[Job], tuple[np.ndarray, ...]]
    points: Callable[..., Any]
    apart: tuple[bool, bool] = (True, True)
    company: Callable[[Job], bool] = lambda job: job.streams > 1
    overheads: Callable[[Job], tuple[tuple[str, str, float], ...]] | None = None


@dataclass(frozen=True)
class DeviceFamily:
    """The functions and lists a family provides.

    Attributes
    ----------
    kind : name of the spec's `kind`, and of the block that only this family's specs have.
    title, label : what it is called, and what it is called in a list: a word.
    formats : device -> formats its units run, best first; these are what a user may pick.
    peak : (device, format) -> dense peak of one device, derived from the block a user may override. [FLOP/s]
    supports : (device, graph, format) -> None, or a sentence why it can't run.
    place : job -> demand on each memory level, for capacity and for where weights are read from.
    price : (job, detail=True) -> cost of one pass. A machine that runs programs gives its `PhaseCost.seconds` and
        `PhaseCost.overheads` alone where the detail is not asked for.
    compiled : its operators priced in compiled code, in a sweep as alone; None: by `price`, once for each distinct job.
    tile : job -> values of `knobs` it runs with where the scenario leaves them open; None: they don't apply.
    request : job -> fixed costs a request pays once on a device, as (name, resource, seconds).
    path : (switches, model) -> name and seconds of a request's way to a device and back, which occupies nothing; None:
        none is counted.
    knobs : (device, graph, scenario) -> tiling knobs that matter for a network, in the order of `Scenario.tile`.
    max_streams : (device, scenario) -> batches that may be in flight at once. [-]
    parameters, switches, assumptions : what the model rests on.
    lower : (device, graph, format, switches, model) -> the graph as its compiler runs it; None: as it is.
    padded : switches -> (model, inputs, batch) -> mean length its compiled networks run; None: the request's own.
    unit_of : (op, switches) -> "device", or the unit beside it that runs an op: "host", "decoder".
    mixed : (device, format) -> the wider format in which single operators may stay; None: one format for all.
    rules : what was read off published figures without being a number.
    sharded : whether several of its devices divide every matrix unless a scenario says otherwise.
    generation : device -> parameters that a part takes from its generation rather than from the family; None: none.
    layerwise : whether its operators run one after another through memory, so that their order is worth asking about.
    helps : job -> for each thing that can be improved its name and what it brings: the share of the pass's time that is
        saved, over the share it is improved by. Found by trying; a verdict names the first.
    activity : (job, W at full work beside `idles`) -> what one device draws beside `idles` while each resource takes
        the time [W], and joules of a pass beside that; None: `PhaseCost.op_joules` alone.
    governs : how its clock gives way to its power limit; None: its peaks hold at its limit.
    fields : fields of a scenario that not every family prices, by path: rows of the table offered ``by_family``.
    packets : the path of packets through its devices; None: they forward none.
    tables : how its devices keep embedding tables; None: they leave none elsewhere.
    instructions : module that exports an `InstructionSet`, read when first asked for; None: its devices have none.
    """

    kind: str
    title: str
    label: str
    formats: Callable[[Device], tuple[str, ...]]
    peak: Callable[[Device, str], float]
    supports: Callable[[Device, Graph, str], str | None]
    place: Callable[[Job], tuple[Fit, ...]]
    price: Callable[..., PhaseCost]
    parameters: tuple[Parameter, ...]
    assumptions: tuple[str, ...]
    tile: Callable[[Job], tuple[int, ...]] | None = None
    request: Callable[[Job], tuple[tuple[str, str, float], ...]] | None = None
    path: Callable[[Mapping[str, bool], Mapping[str, float]], tuple[str, float] | None] | None = None
    knobs: Callable[[Device, Graph, Scenario], tuple[Knob, ...]] = lambda device, graph, scenario: ()
    switches: tuple[Switch, ...] = ()
    compiled: Compiled | None = None  # None: a sweep prices each distinct job once
    idles: Callable[[Device, Mapping[str, float]], float | None] | None = None  # W drawn at any work; None: all of it
    draws: Callable[[Device, Mapping[str, float]], float] | None = None  # of a what-if over the catalog's part [-]
    activity: Callable[[Job, float], Sequence[float]] | None = None
    governs: Callable[[Device, Mapping[str, float]], Governor] | None = None
    collective: CollectiveWire | None = None  # how `evaluate` adds them to sharded layers; None: the family times them
    max_streams: Callable[[Device, Scenario], int] = lambda device, scenario: 1
    in_turn: str = ""  # why its requests follow one another, a clause; empty: they need not
    streamed_io: str | None = None  # format of inputs and outputs that cross the wire token by token; None: they wait
    lower: Callable[[Device, Graph, str, Mapping[str, bool], Mapping[str, float]], Graph] | None = None
    pins: Callable[[Device, str], tuple[float, float]] | None = None  # on-chip room [B], stored bits of a weight
    padding: Callable[[Mapping[str, bool]], Callable[[Mapping[str, float], float, float], float] | None] | None = None
    unit_of: Callable[[Op, Mapping[str, bool]], str] | None = None
    mixed: Callable[[Device, str], str] | None = None
    helps: Callable[[Job], tuple[tuple[str, float], ...]] | None = None
    rules: tuple[Rule, ...] = ()
    generation: Callable[[Device], Mapping[str, float]] | None = None
    sharded: bool = False
    layerwise: bool = False
    fields: Mapping[str, PricedField] = field(default_factory=dict)
    packets: PacketPath | None = None
    instructions: str | None = None
    tables: TableMemory | None = None

    def switches_for(self, graph: Graph) -> tuple[Switch, ...]:
        """Switches that can matter for a network."""
        has = traits(graph)
        return tuple(
            s for s in self.switches if not s.applies or any(has.issuperset(text.split()) for text in s.applies)
        )

    def groups(self, job: Job) -> tuple[Group, ...]:
        """Groups in which the seconds of a job's operators are added up."""
        if self.compiled is None or not self.compiled.apart[self.compiled.company(job)]:
            return (Group((0, 1, 2), job.rows, np.ones(len(job.rows))),)
        return groups_of((self.compiled.tables(job), job.rows))

    def exchange_format(self, device: Device, format: str) -> str:
        """Format in which results of a device go to others."""
        return self.collective.format(device, format) if self.collective else format

    def model(self, device: Device, overrides: Mapping[str, float] | None = None) -> dict[str, float]:
        """Model parameters for a device: the family's, its generation's, the part's own, then the scenario's.

        SI, each in its parameter's [unit]. ScenarioError where the scenario or the part's file names one that is not,
        is out of range, or (a file) in another unit.
        """
        values = dict(_model_of((self, device)))
        for name, value in (overrides or {}).items():
            self._parameter(f"model.{name}", name, value)
            values[name] = value
        return values

    def _parameter(self, label: str, name: str, value: float) -> Parameter:
        """The parameter of that name, if it may have the value; ScenarioError otherwise."""
        limits = next((p for p in self.parameters if p.name == name), None)
        if limits is None:
            names = ", ".join(sorted(p.name for p in self.parameters))
            raise ScenarioError(f"{label}: {self.kind} has no such parameter; it has {names}")
        if not limits.low <= value <= limits.high:
            upper = "" if math.isinf(limits.high) else f" to {limits.high:g}"
            raise ScenarioError(f"{label} is {value:g}: {limits.low:g}{upper or ' or more'} is allowed")
        return limits


@remembered(lambda of: (id(of[0]), id(of[1])))
def _model_of(of: tuple[DeviceFamily, Device]) -> dict[str, float]:
    """Model parameters of a family for a device that no scenario overrides."""
    fam, device = of
    values = {p.name: p.value for p in fam.parameters} | dict(fam.generation(device) if fam.generation else {})
    for name, quantity in device.model.items():
        unit = fam._parameter(f"{device.id}: model.{name}", name, quantity.si).unit
        needs = unit if unit in ("s", "J", "W", "B", "B/s") else "1"
        if quantity.dimension not in (needs, unit):
            raise ScenarioError(
                f"{device.id}: model.{name} is '{quantity.value}': it needs {needs.replace('1', 'no unit')}"
            )
        values[name] = quantity.si
    return values
