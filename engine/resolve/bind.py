"""From names to things: a scenario's system, devices and graph, with every what-if applied and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from engine.devices import family
from engine.devices.common.contract import DeviceFamily, Unsupported
from engine.kernels.allowance import beat
from engine.resolve.spec_path import part_of, set_paths
from engine.scenario import NotThereError, Scenario, ScenarioError
from engine.scenario.fields import BY_FAMILY
from hardware_specs.catalog import Catalog, default_catalog
from hardware_specs.quantity import SpecError, parse
from hardware_specs.schema import Device, Link, LinkUse, System
from model_zoo.catalog import Zoo, default_zoo
from model_zoo.families.family import NetworkFamily
from model_zoo.ops import Graph
from model_zoo.schema import Workload, WorkloadError

MOST = 1024
"""Devices of whole nodes that a system with links between nodes may be."""


@dataclass(frozen=True)
class Wire:
    """A link of a system in its role, with the number of hops a message takes."""

    link: Link
    role: str
    placed: int  # hops of the system's own layout
    direct: bool = False  # every pair of devices has a way of its own, so a collective needs no ring
    joins: float = math.inf  # devices that it joins: a node
    beyond: Link | None = None  # each device's link to those of other nodes
    compression: float = 1.0  # bytes of a cut network's results over those that cross
    format: str = ""  # that those results cross in; empty: as they are computed

    @property
    def hops(self) -> float:
        """Switches or cards a message passes: the link's own number where placement decides it. [-]"""
        return self.link.hops.si if self.link.hops else self.placed


@dataclass(frozen=True)
class Bound:
    """A scenario with everything it names at hand."""

    scenario: Scenario
    system: System
    devices: tuple[Device, ...]  # one for each group of the system
    host: Device | None
    wires: tuple[Wire, ...]
    workload: Workload
    graph: Graph
    model: Mapping[str, float]  # scenario's overrides of model parameters
    catalog: Catalog = field(repr=False)  # where its names were looked up
    zoo: Zoo = field(repr=False)

    @property
    def device(self) -> Device:
        """The first group's device: the accelerator the scenario is about."""
        return self.devices[0]

    @property
    def family(self) -> DeviceFamily:
        """Family of that device."""
        return family(self.device.kind)

    def wire(self, role: str) -> Wire | None:
        """The link in that role, or None."""
        return next((w for w in self.wires if w.role == role), None)


def _override(
    scenario: Scenario, devices: list[Device], host: Device | None, wires: list[Wire]
) -> tuple[list[Device], Device | None, list[Wire], dict[str, float]]:
    """Specs after the scenario's overrides, and its model-parameter overrides."""
    model: dict[str, float] = {}
    changes: dict[tuple[str, int], list[tuple[list[str], str | float, str]]] = {}
    for shown, value in scenario.overrides.items():
        head, *path = shown.removeprefix("system.").split(".")
        if head == "model" and len(path) == 1:
            model[path[0]] = parameter(shown, value, devices[0])
        else:
            part, within = part_of(shown, len(devices), host is not None, [wire.role for wire in wires])
            changes.setdefault(part, []).append((within, value, shown))
    for (head, at), listed in changes.items():
        if head == "devices":
            devices[at] = set_paths(devices[at], listed)
        elif head == "host":
            host = set_paths(host, listed)
        else:
            wires[at] = replace(wires[at], link=set_paths(wires[at].link, listed))
    return devices, host, wires, model


def parameter(shown: str, value: str | float, device: Device) -> float:
    """A model parameter's value at a path: a plain number in its unit, or one that carries the unit (`14 us`).

    ScenarioError for a text that is none.
    """
    if not isinstance(value, str):
        return value
    name = shown.rpartition(".")[2]
    unit = next((p.unit for p in family(device.kind).parameters if p.name == name), "1")
    number, _, suffix = value.strip().rpartition(" ")
    with suppress(ValueError):
        return float((number if suffix == unit else value).replace(",", ""))
    with suppress(SpecError):
        result, dimension = parse(value)
        if dimension == unit:
            return result
    also = "" if unit == "1" else f", or one in {unit}"
    raise ScenarioError(f"{shown} = {value[:40]!r}: a model parameter is a plain number in SI{also}")


def _params(scenario: Scenario, entry: NetworkFamily) -> dict[str, Any]:
    """Workload parameters the scenario turns, checked against what the family lets a user turn."""
    for name, value in scenario.params.items():
        if name not in entry.adjustable:
            allowed = ", ".join(sorted(entry.adjustable)) or "none"
            raise NotThereError(
                f"params.{name} = {value}: not adjustable for {scenario.workload}; adjustable: {allowed}"
            )
        label, low, high = entry.adjustable[name]
        if not low <= value <= high:
            raise ScenarioError(f"params.{name} ({label}) = {value:g}: {low:g} to {high:g} is allowed")
    return {name: int(value) if float(value).is_integer() else value for name, value in scenario.params.items()}


def named(scenario: Scenario, catalog: Catalog | None = None, zoo: Zoo | None = None) -> Bound:
    """Everything a scenario names, overrides applied, the graph as written; not yet checked against each other."""
    catalog, zoo = catalog or default_catalog(), zoo or default_zoo()
    try:
        system = catalog.system(scenario.system)
        devices = [catalog.device(group.device) for group in system.devices]
        host = catalog.device(system.host.device) if system.host else None
        wires = [_wire(catalog, use, system.topology) for use in system.links]
        workload = zoo.workload(scenario.workload)
        model: dict[str, float] = {}
        if scenario.overrides:
            devices, host, wires, model = _override(scenario, devices, host, wires)
        graph = zoo.graph(scenario.workload, _params(scenario, zoo.family(scenario.workload)))
    except (SpecError, WorkloadError) as error:
        raise ScenarioError(str(error)) from None
    parts = tuple(devices), host, tuple(wires)
    return Bound(scenario, system, *parts, workload, graph, model, catalog, zoo)


def checked(bound: Bound) -> Bound:
    """The same, checked against what the system offers, with the graph as the accelerator's compiler runs it."""
    check(bound.scenario, bound.system, bound.device, bound.graph)
    check_model(bound)
    graph = lowered(bound.scenario, bound.device, bound.graph, own_model(bound.device, bound.model))
    return bound if graph is bound.graph else replace(bound, graph=graph)


def check_model(bound: Bound) -> None:
    """ScenarioError unless each overridden parameter is of a family of a device or the host, and in its limits."""
    if not bound.model:
        return
    known: set[str] = set()
    for device in (*bound.devices, *([bound.host] if bound.host else [])):
        own_model(device, bound.model)
        known |= {p.name for p in family(device.kind).parameters}
    for name in bound.model.keys() - known:
        raise NotThereError(f"model.{name}: no such parameter; {bound.system.name} has {', '.join(sorted(known))}")


def bind(scenario: Scenario, catalog: Catalog | None = None, zoo: Zoo | None = None) -> Bound:
    """Everything a scenario names, overrides applied; ScenarioError or Unsupported in one sentence otherwise."""
    beat()
    return checked(named(scenario, catalog, zoo))


def own_model(device: Device, model: Mapping[str, float]) -> dict[str, float]:
    """Model parameters of a device's family, of which `model` overrides some."""
    fam = family(device.kind)
    return fam.model(device, {k: v for k, v in model.items() if any(p.name == k for p in fam.parameters)})


def lowered(scenario: Scenario, device: Device, graph: Graph, model: Mapping[str, float]) -> Graph:
    """The graph as the accelerator's compiler runs it, where its family says how; `model` as of `own_model`."""
    fam = family(device.kind)
    if scenario.layers:
        graph = _raised(scenario, device, graph)
    for path, priced in fam.fields.items():
        if priced.lower and (value := getattr(scenario, path)) is not None:
            graph = priced.lower(device, graph, scenario.precision, value)
    if fam.lower is None:
        return graph
    switches = {s.name: scenario.switches.get(s.name, s.default) for s in fam.switches}
    return fam.lower(device, graph, scenario.precision, switches, model)


def _raised(scenario: Scenario, device: Device, graph: Graph) -> Graph:
    """The graph with the operators of the scenario's per-layer plan kept wide; ScenarioError where one can't be."""
    fam = family(device.kind)
    if fam.mixed is None:
        raise ScenarioError(
            f"layers is set: {fam.title} is priced in one format for the whole network, so it must be empty"
        )
    wide = fam.mixed(device, scenario.precision)
    names = {op.name for op in graph.ops if op.contraction and op.stored}
    for name, format in scenario.layers.items():
        if name not in names:
            examples = ", ".join(sorted(names)[:8])
            raise ScenarioError(f"layers.{name}: no layer with weights has that name; there are {examples} and so on")
        if format not in (wide, scenario.precision):
            allowed = " or ".join(dict.fromkeys((scenario.precision, wide)))
            raise ScenarioError(f"layers.{name} is {format!r}: {allowed} is allowed beside {scenario.precision}")
    wider = frozenset(name for name, format in scenario.layers.items() if format != scenario.precision)
    return _widened(graph, wider)


@lru_cache(maxsize=256)
def _widened(graph: Graph, names: frozenset[str]) -> Graph:
    """The graph with those operators kept in the device's wide format."""
    return graph.changed(lambda op: replace(op, quantisable=False) if op.name in names else op)


def _wire(catalog: Catalog, use: LinkUse, topology: str) -> Wire:
    direct, joins = topology == "all-to-all" and use.role == "peer", use.joins or math.inf
    return Wire(catalog.link(use.link), use.role, use.hops, direct, joins, None, use.compression, use.format or "")


def check(scenario: Scenario, system: System, device: Device, graph: Graph) -> None:
    """Scheme, device count, precision and tile against what this system offers."""
    group = system.devices[0]
    counts = group.counts or (group.count,)
    if scenario.scheme not in system.schemes:
        raise ScenarioError(f"scheme is {scenario.scheme!r}: {system.name} offers {', '.join(system.schemes)}")
    node = next((use.joins for use in system.links if use.joins), None)
    many = bool(node) and any(use.role == "scale-out" for use in system.links)
    if scenario.devices not in counts and not (
        many and scenario.devices % (node or 1) == 0 and scenario.devices <= MOST
    ):
        more = f" or a multiple of {node} up to {MOST:,}" if many else ""
        raise ScenarioError(f"devices is {scenario.devices}: {system.name} offers {', '.join(map(str, counts))}{more}")
    _check_cuts(scenario, system, graph)
    fam = family(device.kind)
    reason = fam.supports(device, graph, scenario.precision)
    if reason:
        raise Unsupported(reason)
    formats = fam.formats(device)
    if scenario.precision not in formats:
        why = "no unit of it multiplies another format, or widens stored weights on their way to one that does"
        raise ScenarioError(f"precision is {scenario.precision!r}: {device.name} runs {', '.join(formats)}, as {why}")
    if scenario.tile:
        knobs = fam.knobs(device, graph, scenario)
        if len(scenario.tile) != len(knobs):
            names = ", ".join(k.name for k in knobs) or "no tiling knob for this network"
            refused = ScenarioError if knobs else NotThereError
            raise refused(f"tile is {'x'.join(map(str, scenario.tile))}: {device.name} has {names}")
        for value, knob in zip(scenario.tile, knobs, strict=True):
            if not knob.takes(value):
                raise ScenarioError(f"tile.{knob.name} is {value}: {knob.allowed} are allowed")
    known = {s.name for s in fam.switches}
    for name in scenario.switches:
        if name not in known:
            raise NotThereError(f"switches.{name}: {device.name} has {', '.join(sorted(known)) or 'no switches'}")
    _check_own(scenario, fam, device, system, graph)
    most = fam.max_streams(device, scenario)
    if scenario.streams > most:
        why = f", as {fam.in_turn}" if fam.in_turn and most == 1 else ""
        raise ScenarioError(f"streams is {scenario.streams}: {device.name} runs at most {most} at once{why}")


def second_cuts(scenario: Scenario, system: System, graph: Graph) -> tuple[int, ...]:
    """Where a network may be cut a second time: nowhere unless its scheme cuts it over three executors."""
    three = scenario.scheme == "split" and any(use.role == "backhaul" for use in system.links)
    return tuple(range(scenario.split, len(graph.phases[0].ops) + 1)) if three else ()


def _check_cuts(scenario: Scenario, system: System, graph: Graph) -> None:
    """Both cuts against what the scheme and the system offer; ScenarioError says what each may be."""
    if scenario.split and scenario.scheme != "split":
        raise NotThereError(
            f"split is {scenario.split}: scheme {scenario.scheme!r} cuts no network, so 0 is allowed; 'split' cuts it"
        )
    cuts = second_cuts(scenario, system, graph)
    if scenario.second_split is not None and scenario.second_split not in cuts:
        allowed, refused = f"allowed: none, {scenario.split} to {len(graph.phases[0].ops)}", ScenarioError
        if not cuts:
            why = f"{system.name} has no third executor" if scenario.scheme == "split" else "the scheme cuts no network"
            allowed, refused = f"allowed here: none, as {why}", NotThereError
        raise refused(f"second_split is {scenario.second_split}; {allowed}")


def own_values(
    path: str, fam: DeviceFamily, part: tuple[Device, System], graph: Graph, scenario: Scenario
) -> tuple[tuple[Any, ...], str]:
    """Values of a field that a family prices for a part and a network, and where there are none why."""
    priced = fam.fields.get(path)
    if priced is None:
        return (), f"{part[0].name} has no price for another one"
    if priced.schemes and scenario.scheme not in priced.schemes:
        return (), f"the scheme is {scenario.scheme!r}, not {' or '.join(priced.schemes)}"
    if not priced.schemes and scenario.scheme == "split":
        return (), "the network is cut between two executors"
    if priced.available and not priced.available(*part):
        return (), f"{part[0].name} has no {priced.needs}"
    return priced.values(graph, scenario), f"the network has no {priced.needs}"


def _check_own(scenario: Scenario, fam: DeviceFamily, device: Device, system: System, graph: Graph) -> None:
    """Fields that only some families price: each one set has one of its values; ScenarioError says what it may be."""
    for of in BY_FAMILY:
        if (value := getattr(scenario, of.path)) is None or f"{value}" == of.none:
            continue
        values, why = own_values(of.path, fam, (device, system), graph, scenario)
        if value in values:
            continue
        if values:
            allowed = ", ".join(map(str, (of.none, *values)))
            raise ScenarioError(f"{of.path} is {value!r}; allowed: {allowed}")
        raise NotThereError(f"{of.path} is {value!r}; allowed here: {of.none}, as {why}")


@lru_cache(maxsize=1)
def engine_version() -> str:
    """Digest of the engine's sources, short. [-]"""
    from engine.kernels.sources import source_digest

    return source_digest()[:8]
