"""Nouns of a bound scenario: its wires, and everything that it names at hand."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.devices import family
from engine.devices.common.contract import DeviceFamily
from engine.scenario import Scenario
from hardware_specs.catalog import Catalog
from hardware_specs.schema import Device, Link, System
from model_zoo.catalog import Zoo
from model_zoo.ops import Graph
from model_zoo.schema import Workload


@dataclass(frozen=True)
class Wire:
    """A link of a system in its role, with the number of hops a message takes."""

    link: Link
    role: str
    layout_hops: int  # hops of the system's own layout
    direct: bool = False  # every pair of devices has a way of its own, so a collective needs no ring
    joins: float = math.inf  # devices that it joins: a node
    beyond: Link | None = None  # each device's link to those of other nodes
    compression: float = 1.0  # bytes of a cut network's results over those that cross
    format: str = ""  # that those results cross in; empty: as they are computed

    @property
    def hops(self) -> float:
        """Switches or cards a message passes: the link's own number where placement decides it. [-]"""
        return self.link.hops.si if self.link.hops else self.layout_hops


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


def own_model(device: Device, model: Mapping[str, float]) -> dict[str, float]:
    """Model parameters of a device's family, of which `model` overrides some."""
    fam = family(device.kind)
    return fam.model(device, {k: v for k, v in model.items() if any(p.name == k for p in fam.parameters)})
