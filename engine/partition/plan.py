"""Plan: how a workload lies on a system, as stages on devices and messages on wires."""

from __future__ import annotations

from dataclasses import dataclass

from engine.bind import Bound, Wire
from engine.formats import BITS, activation_bytes
from hardware_specs.schema import Device
from model_zoo.ops import Graph

__all__ = ["LOOKUPS", "Hop", "Plan", "Stage", "every_op", "host_hops", "wire_bytes"]

LOOKUPS = ("EmbeddingBag", "Gather")


@dataclass(frozen=True)
class Stage:
    """A share of the network on one kind of device. `ways` devices split every op of it between them."""

    name: str
    device: Device
    ways: int
    ops: frozenset[str]  # names of the ops it runs
    format: str
    wire: Wire | None = None  # to the peers that share its ops
    copies: int = 1  # stages like this that serve different batches at once
    tile: tuple[int, ...] = ()  # knobs of its device; empty: the scenario's


@dataclass(frozen=True)
class Hop:
    """A message over a wire, once a request or once a pass.

    `alike` wires of that kind take turns over requests or share one's messages. A `hidden` hop passes while a slower
    one does: it loads its wire and adds nothing to the latency. `way` is seen from the host: ``in`` to the devices.
    """

    name: str
    wire: Wire
    bytes_per_message: float
    messages: float  # a request
    pieces: float = 1.0  # parts it comes in while the devices work; only the first must be waited for
    alike: int = 1
    hidden: bool = False
    way: str = "in"
    command_s: float = 0.0  # of the host, for each message


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
    tiles: tuple[tuple[int, ...], ...] = ()  # knobs to choose from where the scenario leaves them open


def every_op(graph: Graph) -> frozenset[str]:
    """Names of all operators."""
    return frozenset(op.name for phase in graph.phases for op in phase.ops)


def wire_bytes(format: str) -> float:
    """Bytes of an element on a wire: whole bytes, but single bits travel packed. [B]"""
    return BITS[format] / 8 if format == "binary" else activation_bytes(format)


def host_hops(bound: Bound) -> tuple[Hop, ...]:
    """What enters and leaves over the host's wire, once a request."""
    wire = bound.wire("host") or bound.wire("network")
    if wire is None:
        return ()
    s, graph, fam = bound.scenario, bound.graph, bound.family
    element = wire_bytes(fam.io_format or s.precision)
    into = graph.input_elements.at(s.batch, s.inputs, s.inputs) * element
    out = graph.output_elements.at(s.batch, s.outputs, s.outputs) * element
    parts = (float(s.inputs if graph.input_elements.s else 1), float(s.outputs if graph.output_elements.s else 1))
    first, last = parts if fam.streams_io else (1.0, 1.0)
    return (Hop("input", wire, into, 1.0, first), Hop("output", wire, out, 1.0, last, way="out"))
