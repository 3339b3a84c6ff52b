"""What a scenario asks for against what its system, its devices' families and its network offer."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from engine.devices import family
from engine.devices.common.contract import DeviceFamily, Unsupported
from engine.resolve.bound import Bound, own_model
from engine.scenario import NotThereError, Scenario, ScenarioError
from engine.scenario.fields import BY_FAMILY, FIELDS
from hardware_specs.schema import Device, System
from model_zoo.catalog import Zoo
from model_zoo.ops import Graph

MAX_DEVICES = 1024
"""Devices of whole nodes that a system with links between nodes may be."""


def check(scenario: Scenario, system: System, device: Device, graph: Graph) -> None:
    """A scenario against what its system and its first device's family offer a network as it is written.

    ScenarioError names the field, its value and what is allowed; Unsupported says why the device can't run it.
    """
    fam = family(device.kind)
    _check_count(scenario, system)
    _check_cuts(scenario, system, graph)
    _check_format(scenario, fam, device, graph)
    _check_tile(scenario, fam, device, graph)
    names = {s.name for s in fam.switches}
    for name in scenario.switches:
        if name not in names:
            raise NotThereError(f"switches.{name}: {device.name} has {', '.join(sorted(names)) or 'no switches'}")
    _check_own(scenario, fam, device, system, graph)
    limit = fam.max_streams(device, scenario)
    if scenario.streams > limit:
        why = f", as {fam.in_turn}" if fam.in_turn and limit == 1 else ""
        raise ScenarioError(f"streams is {scenario.streams}: {device.name} runs at most {limit} at once{why}")


def _check_count(scenario: Scenario, system: System) -> None:
    """Scheme and number of devices."""
    group = system.devices[0]
    counts = group.counts or (group.count,)
    if scenario.scheme not in system.schemes:
        raise ScenarioError(f"scheme is {scenario.scheme!r}: {system.name} offers {', '.join(system.schemes)}")
    node = next((use.joins for use in system.links if use.joins), None)
    scalable = bool(node) and any(use.role == "scale-out" for use in system.links)
    if scenario.devices not in counts and not (
        scalable and scenario.devices % (node or 1) == 0 and scenario.devices <= MAX_DEVICES
    ):
        also = f" or a multiple of {node} up to {MAX_DEVICES:,}" if scalable else ""
        raise ScenarioError(f"devices is {scenario.devices}: {system.name} offers {', '.join(map(str, counts))}{also}")


def _check_format(scenario: Scenario, fam: DeviceFamily, device: Device, graph: Graph) -> None:
    reason = fam.supports(device, graph, scenario.precision)
    if reason and scenario.scheme != "split":  # each executor of a cut network is asked for its own part
        raise Unsupported(reason)
    formats = fam.formats(device)
    if scenario.precision not in formats:
        why = "it multiplies no other format and widens no weights stored in another"
        raise ScenarioError(f"precision is {scenario.precision!r}: {device.name} runs {', '.join(formats)}; {why}")


def _check_tile(scenario: Scenario, fam: DeviceFamily, device: Device, graph: Graph) -> None:
    if not scenario.tile:
        return
    knobs = fam.knobs(device, graph, scenario)
    if len(scenario.tile) != len(knobs):
        names = ", ".join(k.name for k in knobs) or "no tiling knob for this network"
        error = ScenarioError if knobs else NotThereError
        raise error(f"tile is {'x'.join(map(str, scenario.tile))}: {device.name} has {names}")
    for value, knob in zip(scenario.tile, knobs, strict=True):
        if not knob.takes(value):
            said = knob.range_text
            raise ScenarioError(f"tile.{knob.name} is {value}: {said} {'is' if said.isdigit() else 'are'} allowed")


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
        text, error = f"allowed: none, {scenario.split} to {len(graph.phases[0].ops)}", ScenarioError
        if not cuts:
            why = f"{system.name} has no third executor" if scenario.scheme == "split" else "the scheme cuts no network"
            text, error = f"allowed here: none, as {why}", NotThereError
        raise error(f"second_split is {scenario.second_split}; {text}")


def own_values(
    path: str, fam: DeviceFamily, part: tuple[Device, System], graph: Graph, scenario: Scenario
) -> tuple[tuple[Any, ...], str]:
    """Values of a field that a family prices for a part and a network, and where there are none why."""
    field = fam.fields.get(path)
    if field is None:
        return (), f"{part[0].name} has no price for another one"
    if field.schemes and scenario.scheme not in field.schemes:
        return (), f"the scheme is {scenario.scheme!r}, not {' or '.join(field.schemes)}"
    if not field.schemes and scenario.scheme == "split":
        return (), "the network is cut between two executors"
    if field.available and not field.available(*part):
        return (), f"{part[0].name} has no {field.needs}"
    return field.values(graph, scenario), f"the network has no {field.needs}"


def _check_own(scenario: Scenario, fam: DeviceFamily, device: Device, system: System, graph: Graph) -> None:
    """Fields that only some families price: each one set has one of its values; ScenarioError says what it may be."""
    for of in BY_FAMILY:
        if (value := getattr(scenario, of.path)) is None or f"{value}" == of.none:
            continue
        values, why = own_values(of.path, fam, (device, system), graph, scenario)
        if value in values:
            continue
        if values:
            options = ", ".join(map(str, (of.none, *values)))
            raise ScenarioError(f"{of.path} is {value!r}; allowed: {options}")
        raise NotThereError(f"{of.path} is {value!r}; allowed here: {of.none}, as {why}")


def check_model(bound: Bound) -> None:
    """ScenarioError unless each overridden parameter is of a family of a device or the host, and in its limits."""
    if not bound.model:
        return
    names: set[str] = set()
    for device in (*bound.devices, *([bound.host] if bound.host else [])):
        own_model(device, bound.model)
        names |= {p.name for p in family(device.kind).parameters}
    for name in bound.model.keys() - names:
        raise NotThereError(f"model.{name}: no such parameter; {bound.system.name} has {', '.join(sorted(names))}")


def fixed_lengths(zoo: Zoo, workload: str) -> dict[str, int]:
    """Lengths of a request that a network has none of to set, each as the workload has it."""
    kind, request = zoo.family(workload), zoo.workload(workload).request
    return {f.path: getattr(request, f.path) for f in FIELDS if f.called and getattr(kind, f.called) is None}


def lower_graph(scenario: Scenario, device: Device, graph: Graph, model: Mapping[str, float]) -> Graph:
    """The graph as the accelerator's compiler runs it, where its family says how; `model` as of `own_model`."""
    fam = family(device.kind)
    if scenario.layers:
        graph = _wide_layers(scenario, fam, device, graph)
    for path, field in fam.fields.items():
        if field.lower and (value := getattr(scenario, path)) is not None:
            graph = field.lower(device, graph, scenario.precision, value)
    if fam.lower is None:
        return graph
    switches = {s.name: scenario.switches.get(s.name, s.default) for s in fam.switches}
    return fam.lower(device, graph, scenario.precision, switches, model)


def _wide_layers(scenario: Scenario, fam: DeviceFamily, device: Device, graph: Graph) -> Graph:
    """The graph with the operators of the scenario's per-layer plan kept wide; ScenarioError where one can't be."""
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
            formats = " or ".join(dict.fromkeys((scenario.precision, wide)))
            raise ScenarioError(f"layers.{name} is {format!r}: {formats} is allowed beside {scenario.precision}")
    wider = frozenset(name for name, format in scenario.layers.items() if format != scenario.precision)
    return _keep_wide(graph, wider)


@lru_cache(maxsize=256)
def _keep_wide(graph: Graph, names: frozenset[str]) -> Graph:
    """The graph with those operators kept in the device's wide format."""
    return graph.map_ops(lambda op: replace(op, quantisable=False) if op.name in names else op)
