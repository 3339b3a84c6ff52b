"""From names to things: a scenario's system, devices and graph, with every what-if applied and checked."""

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

from engine.devices import family
from engine.kernels.allowance import beat
from engine.resolve.bound import Bound, Wire, own_model
from engine.resolve.check import check, check_model, lower_graph
from engine.resolve.spec_path import part_of, set_paths
from engine.scenario import NotThereError, Scenario, ScenarioError
from hardware_specs.catalog import Catalog, default_catalog
from hardware_specs.quantity import SpecError, parse
from hardware_specs.schema import Device, LinkUse
from model_zoo.catalog import Zoo, default_zoo
from model_zoo.families.family import NetworkFamily
from model_zoo.schema import WorkloadError


def _override(
    scenario: Scenario, devices: list[Device], host: Device | None, wires: list[Wire]
) -> tuple[list[Device], Device | None, list[Wire], dict[str, float]]:
    """Specs after the scenario's overrides, and its model-parameter overrides."""
    model: dict[str, float] = {}
    changes: dict[tuple[str, int], list[tuple[list[str], str | float, str]]] = {}
    for setting, value in scenario.overrides.items():
        head, *path = setting.removeprefix("system.").split(".")
        if head == "model" and len(path) == 1:
            model[path[0]] = parameter(setting, value, devices[0])
        else:
            part, within = part_of(setting, len(devices), host is not None, [wire.role for wire in wires])
            changes.setdefault(part, []).append((within, value, setting))
    for (head, at), edits in changes.items():
        if head == "devices":
            devices[at] = set_paths(devices[at], edits)
        elif head == "host":
            host = set_paths(host, edits)
        else:
            wires[at] = replace(wires[at], link=set_paths(wires[at].link, edits))
    return devices, host, wires, model


def parameter(path: str, value: str | float, device: Device) -> float:
    """A model parameter's value at a path: a plain number in its unit, or one that carries the unit (`14 us`).

    ScenarioError for a text that is none.
    """
    if not isinstance(value, str):
        return value
    name = path.rpartition(".")[2]
    unit = next((p.unit for p in family(device.kind).parameters if p.name == name), "1")
    number, _, suffix = value.strip().rpartition(" ")
    with suppress(ValueError):
        return float((number if suffix == unit else value).replace(",", ""))
    with suppress(SpecError):
        result, dimension = parse(value)
        if dimension == unit:
            return result
    also = "" if unit == "1" else f", or one in {unit}"
    raise ScenarioError(f"{path} = {value[:40]!r}: a model parameter is a plain number in SI{also}")


def _params(scenario: Scenario, entry: NetworkFamily) -> dict[str, Any]:
    """Workload parameters the scenario turns, checked against what the family lets a user turn."""
    for name, value in scenario.params.items():
        if name not in entry.adjustable:
            names = ", ".join(sorted(entry.adjustable)) or "none"
            raise NotThereError(f"params.{name} = {value}: not adjustable for {scenario.workload}; adjustable: {names}")
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


def bind(scenario: Scenario, catalog: Catalog | None = None, zoo: Zoo | None = None) -> Bound:
    """Everything a scenario names, overrides applied, checked against what its system offers, with the graph as the
    accelerator's compiler runs it.

    ScenarioError or Unsupported in one sentence otherwise.
    """
    return offered(named(scenario, catalog, zoo))


def offered(bound: Bound) -> Bound:
    """What `named` found once it is checked against each other, with the graph as the accelerator's compiler runs it.

    ScenarioError or Unsupported in one sentence otherwise.
    """
    beat()
    check(bound.scenario, bound.system, bound.device, bound.graph)
    check_model(bound)
    graph = lower_graph(bound.scenario, bound.device, bound.graph, own_model(bound.device, bound.model))
    return bound if graph is bound.graph else replace(bound, graph=graph)


def _wire(catalog: Catalog, use: LinkUse, topology: str) -> Wire:
    direct, joins = topology == "all-to-all" and use.role == "peer", use.joins or math.inf
    return Wire(catalog.link(use.link), use.role, use.hops, direct, joins, None, use.compression, use.format or "")
