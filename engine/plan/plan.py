"""Plan: how a workload lies on a system, as stages on devices and messages on wires."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from engine.devices import family
from engine.devices.common.column import exceeds, larger, smaller
from engine.devices.common.contract import DeviceFamily
from engine.devices.common.host_work import hashes
from engine.resolve.bound import Bound, Wire, own_model
from engine.scenario.formats import BITS, activation_bytes
from hardware_specs.quantity import Quantity
from hardware_specs.schema import Device, Link
from model_zoo.ops import Graph, Op

INDEX = 4.0  # bytes of an index of a table's row and of a token's id: INT32


@dataclass(frozen=True)
class ExpertGroup:
    """How tokens come to ranks that hold whole experts of their own, and back.

    `devices` hold them; the tokens lie on `attention` ranks or groups of those, or on every device where there is one.
    A token picks so many experts; the busiest rank has `load` times the mean. Where others add the results up with
    their own and exchange that (`added`), nothing is left to do.
    """

    ranks: int
    devices: int
    attention: int
    picks: float
    load: float
    added: bool


@dataclass(frozen=True)
class Stage:
    """A share of the network on one kind of device. `ways` devices split every op of it between them.

    `ranks` groups of such devices do so beside each other, each for its part of a batch, or with experts of its own.
    """

    name: str
    device: Device
    ways: int
    ops: frozenset[str]  # names of the ops it runs
    format: str
    wire: Wire | None = None  # to the peers that share its ops
    copies: int = 1  # stages like this that serve different batches at once
    tile: tuple[int, ...] = ()  # knobs of its device; empty: the scenario's
    layers: int = 0  # it has of those its network repeats; 0: all
    turns: bool = False  # it and the others like it take turns on the same cores, a request after the other
    ranks: int = 1
    experts: ExpertGroup | None = None  # set where ranks have experts of their own; else each has a part of the batch
    context: int = 1  # groups of a rank's devices that have a part of every request's tokens: of `engine.plan.context`
    attends: bool = False  # it is attention of such a group
    place: int = 0  # which of the system's devices it lies on, where stages lie on several
    under_way: int = 1  # batches whose state its devices keep
    sends: Link | None = None  # what each of its devices hands a pass's results on over, to the next place
    graph: Graph | None = None  # of operators that several stages divide, its own share; None: the whole network
    beside: bool = False  # it goes on at the same time as the stage before it
    streams: str = ""  # the same, once the first piece of the message of that hop is there

    @property
    def devices(self) -> int:
        """Devices that run it at once, its copies apart. [-]"""
        return self.ways * self.ranks


@dataclass(frozen=True)
class Hop:
    """A message over a wire, once a request or once a pass.

    `alike` wires of that kind take turns over requests, or share one's messages (`shares`). A `hidden` hop passes while
    the hop before or after it does: it loads its wire and adds nothing to the latency. `way` is seen from the host:
    ``in`` to the devices. `after` is how many stages of a request are done when it crosses.
    """

    name: str
    wire: Wire
    bytes_per_message: float
    messages: float  # a request
    pieces: float = 1.0  # parts it comes in while the devices work; only the first must be waited for
    alike: int = 1
    hidden: float = 0.0
    way: str = "in"
    command_s: float = 0.0  # of the host, for each message
    way_s: float = 0.0  # beside the wire's latency, and likewise occupying nothing
    after: int = 0
    shares: bool = False


@dataclass(frozen=True)
class Plan:
    """How the workload lies on the system.

    A request visits the stages in order. When `pipelined`, a stage starts the next batch while later stages still
    work on this one; the slowest stage then sets the throughput.
    """

    stages: tuple[Stage, ...]
    hops: tuple[Hop, ...]
    replicas: int
    devices_used: tuple[int, ...]  # of each group of the system
    pipelined: bool
    notes: tuple[str, ...] = ()
    shared: bool = False  # stages on devices of one kind lie on the same ones
    options: "tuple[Plan, ...]" = ()  # whole plans to choose from where the scenario leaves something open; this is one

    @property
    def batches(self) -> int:
        """Batches that are worked on at once, streams apart: of replicas, copies of the stages, and places. [-]"""
        places = len({stage.place for stage in self.stages}) if self.pipelined else 1
        return self.replicas * places * min(stage.copies for stage in self.stages)


def with_tiles(bound: Bound, plan: Plan) -> Plan:
    """A plan that leaves the one knob of its stages' devices open, unless the scenario sets it."""
    knobs = bound.family.knobs(bound.device, bound.graph, bound.scenario)
    if len(knobs) != 1 or bound.scenario.tile:
        return plan
    tiled = (tuple(replace(stage, tile=(value,)) for stage in plan.stages) for value in knobs[0].values)
    return replace(plan, options=tuple(replace(plan, stages=stages) for stages in tiled))


@lru_cache(maxsize=512)
def every_op(graph: Graph) -> frozenset[str]:
    """Names of all operators."""
    return frozenset(op.name for op in graph.ops)


def wire_bytes(format: str) -> float:
    """Bytes of an element on a wire: whole bytes, but single bits travel packed. [B]"""
    return BITS[format] / 8 if format == "binary" else activation_bytes(format)


def entering_bytes(bound: Bound, length: float) -> float:
    """What enters with a request of that length: values in the format the family takes, integers as such. [B]"""
    s, graph = bound.scenario, bound.graph
    count, indices = (d.at(s.batch, length, length) for d in (graph.input_elements, graph.input_indices))
    return (count - indices) * wire_bytes(bound.family.streamed_io or s.precision) + indices * INDEX


def arriving_bytes(bound: Bound, length: float) -> float:
    """What a request brings over the network of a node: records of raw features where its host hashes them. [B]"""
    feature_bytes = model_of(bound).get("feature_bytes")
    if feature_bytes is None or not hashes(bound.graph.phases[0].ops):
        return entering_bytes(bound, length)
    return bound.graph.input_elements.at(bound.scenario.batch) * feature_bytes


def leaving_bytes(bound: Bound) -> float:
    """What leaves with a request, likewise. [B]"""
    s, graph = bound.scenario, bound.graph
    count, indices = (d.at(s.batch, s.outputs, s.outputs) for d in (graph.output_elements, graph.output_indices))
    return (count - indices) * wire_bytes(bound.family.streamed_io or s.precision) + indices * INDEX


def switches_of(bound: Bound) -> dict[str, bool]:
    """Every switch of the first family as the scenario has it."""
    return {s.name: bound.scenario.switches.get(s.name, s.default) for s in bound.family.switches}


def second_format_of(bound: Bound, second: Device) -> str:
    """The scenario's precision where the second executor has it, else its own first one."""
    formats = family(second.kind).formats(second)
    return bound.scenario.precision if bound.scenario.precision in formats else formats[0]


def overlaps(bound: Bound) -> bool:
    """Whether a request crosses the host's wires while the one before it is computed; a family may let one choose."""
    return switches_of(bound).get("overlap", True)


def model_of(bound: Bound) -> dict[str, float]:
    """Model parameters of the first family, the scenario's overrides applied."""
    return on_host(bound, bound.family, own_model(bound.device, bound.model))


def on_host(bound: Bound, fam: DeviceFamily, model: dict[str, float]) -> dict[str, float]:
    """The same, as the host allows: no more cores parse than it has, and each as fast as a what-if of its clock."""
    if bound.host is not None and "parsing_cores" in model:
        model = model | {"parsing_cores": smaller(model["parsing_cores"], 1.0 * bound.host.cores)}
    clock = bound.host.cpu.clock if bound.host is not None and bound.host.cpu is not None else None
    if clock is None or clock.before is None:
        return model
    faster = clock.si / clock.catalog_si
    rates = {p.name: p.unit.endswith("/s") for p in fam.parameters if p.of_host}
    return model | {name: model[name] * faster if rate else model[name] / faster for name, rate in rates.items()}


def compiled_length(bound: Bound) -> float:
    """Length of a request as the device runs it: its own, or the mean it is padded to. [tokens]"""
    s, padding = bound.scenario, bound.family.padding
    length = padding(switches_of(bound)) if padding is not None else None
    return 1.0 * s.inputs if length is None else length(model_of(bound), 1.0 * s.inputs, 1.0 * s.batch)


def terms(wire: Wire) -> tuple[float, float]:
    """What a message over a wire takes before its bytes, and the rate of those: (start [s], rate [B/s])."""
    start = wire.link.per_transfer.si if wire.link.per_transfer else 0.0
    return start + wire.hops * wire.link.latency.si, wire.link.usable


_NOTHING = Quantity(value="0 s", basis="assumed", note="its bandwidth is all that is counted")


def _wire(id: str, name: str, summary: str, bandwidth: Quantity) -> Wire:
    """What stands for a wire that no file describes: its bandwidth is all that is counted."""
    fields: dict[str, Any] = {"sources": {}, "payload": None, "per_transfer": None, "latency": _NOTHING}
    return Wire(Link.model_construct(id=id, name=name, summary=summary, bandwidth=bandwidth, **fields), id, 1)


def _host_memory(bound: Bound) -> Wire | None:
    """The host's DRAM as a wire that everything crosses which comes to it or leaves it; None where it has none."""
    memories = bound.host.memory if bound.host else ()
    bandwidth = next((m.bandwidth for m in memories if m.role == "offchip" and m.bandwidth is not None), None)
    return None if bandwidth is None else _wire("memory", "Host DRAM", "Memory of the host.", bandwidth)


class HostLink:
    """The wires between network, a host's memory and its cards, and what the host takes to command a transfer [s]."""

    def __init__(self, bound: Bound, host: Wire, card: Wire) -> None:
        self.network, self.memory, self.host, self.card = bound.wire("network"), _host_memory(bound), host, card
        self.cards, self.command = bound.scenario.devices, model_of(bound).get("transfer_command", 0.0)

    def over_network(self, name: str, size: float, way: str, after: int) -> tuple[Hop, ...]:
        """`size` bytes over the network, if there is one, which the host's memory takes or gives meanwhile."""
        if self.network is None:
            return ()
        whole = Hop(name, self.network, size, 1.0, way=way, after=after)
        if self.memory is None:
            return (whole,)
        start, rate = terms(self.network)
        slow = exceeds(size / self.memory.link.usable, start + size / rate)
        return replace(whole, hidden=slow), Hop(name, self.memory, size, 1.0, hidden=1.0 - slow, after=after)

    def through(
        self, name: str, size: float, way: str, after: int, *, count: float = 1.0, spread: int = 1
    ) -> tuple[Hop, ...]:
        """`size` bytes in `count` messages between host and `spread` of the cards; the slowest part is waited for.

        The host gives a command for each message, its link and its memory carry all of them; each card's link carries
        its part. What each takes is what it is charged, so that no faster link makes a request wait for a slower one.
        """
        piece, command = size / count, self.command
        (far_s, far), (near_s, near) = terms(self.host), terms(self.card)
        host = count * (command + far_s + piece / far)
        card = count / spread * (command + near_s + piece / near)
        quick, slow = exceeds(card, host), 0.0
        memory: tuple[Hop, ...] = ()
        if self.memory is not None:
            slow = exceeds(size / self.memory.link.usable, larger(host, card))
            memory = (Hop(name, self.memory, size, 1.0, hidden=1.0 - slow, after=after),)
        whole = Hop(name, self.host, piece, count, way=way, command_s=command, after=after)
        return (
            replace(whole, hidden=larger(quick, slow)),
            replace(whole, wire=self.card, alike=self.cards, hidden=larger(1.0 - quick, slow), shares=spread > 1),
            *memory,
        )


def crossing_bytes(op: Op, format: str, batch: float, length: float) -> float:
    """Bytes that an operator hands to another device in a whole pass: of a recurrent one every step's, of all copies.

    Signs travel as packed bits in any format. [B]
    """
    elements = op.writes.at(batch, length, length) * op.steps.at(batch, length, length)
    return elements * (op.layers if op.sequential else 1) * wire_bytes("binary" if op.kind == "Sign" else format)


_RATE = Quantity(value="1 TB/s", basis="assumed", note="nothing but time is counted")
_PATH = _wire("path", "Network path", "A request's way to its device and back.", _RATE)
"""What stands for the wires of a way whose time alone is known."""


def path_hops(bound: Bound) -> tuple[Hop, ...]:
    """A request's way to its device and back, where the family counts one."""
    path = bound.family.path(switches_of(bound), model_of(bound)) if bound.family.path else None
    return () if path is None else (Hop(path[0], _PATH, 0.0, 1.0, way_s=path[1]),)


def host_hops(bound: Bound, stages: int = 1) -> tuple[Hop, ...]:
    """What enters and leaves over the host's wire, once a request; `stages` lie between."""
    wire = bound.wire("host") or bound.wire("network")
    if wire is None:
        return path_hops(bound)
    s, graph, fam = bound.scenario, bound.graph, bound.family
    entering = arriving_bytes if bound.device.own_cpu is not None else entering_bytes
    into = entering(bound, compiled_length(bound) if graph.input_elements.s else s.inputs)
    out = leaving_bytes(bound)
    parts = (1.0 * s.inputs if graph.input_elements.s else 1.0, 1.0 * s.outputs if graph.output_elements.s else 1.0)
    first, last = parts if fam.streamed_io else (1.0, 1.0)
    entry = (*path_hops(bound), Hop("input", wire, into, 1.0, first))
    return (*entry, Hop("output", wire, out, 1.0, last, way="out", after=stages))
