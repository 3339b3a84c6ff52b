"""What a person may set of a family's model: its parameters, its switches, its tiling knobs, and fields it prices."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from engine.scenario import Scenario
from hardware_specs.schema import Device, System
from model_zoo.ops import Graph


@dataclass(frozen=True)
class Parameter:
    """A constant of a cost model that no data sheet prints.

    `basis` is ``calibrated`` (then `claims` names the published figures it was fitted on), ``published`` (then
    `source` says where), ``assumed`` (then `note` says why) or ``derived`` (then `note` says from what). A scenario may
    override it within `low` .. `high`. One `of_host` is a time [s] or a rate [../s] of a core of the host at the clock
    that the catalog lists.
    """

    name: str
    value: float
    unit: str
    basis: str
    note: str
    claims: tuple[str, ...] = ()
    source: str = ""
    low: float = 0.0  # a scenario may set it from here ...
    high: float = math.inf  # ... to here
    of_host: bool = False

    def __post_init__(self) -> None:
        if self.basis not in ("calibrated", "published", "assumed", "derived"):
            raise ValueError(f"parameter {self.name!r}: basis {self.basis!r} is not known")
        if self.basis == "calibrated" and not self.claims:
            raise ValueError(f"parameter {self.name!r} is calibrated: it names no claims")


@dataclass(frozen=True)
class Rule:
    """A rule of a model that was read off published figures, which then validate nothing."""

    text: str
    claims: tuple[str, ...]


@lru_cache(maxsize=512)
def traits(graph: Graph) -> frozenset[str]:
    """What a network is made of: kinds of its operators, its unit, and ``text`` where requests of varying length are
    looked up in a vocabulary and answered in one pass."""
    kinds = {op.kind for op in graph.ops}
    text = not graph.causal and graph.phases[0].length.i > 0 and "Gather" in kinds
    return frozenset(kinds | {graph.unit} | ({"text"} if text else set()))


@dataclass(frozen=True)
class Switch:
    """An optimisation a user may turn on or off; it can matter for networks that have all `traits` of one of the texts
    that it `applies` to (none: for all)."""

    name: str
    label: str
    help: str
    default: bool = True
    applies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Knob:
    """A tiling choice: its name, its label, the values it may take or those listed of all between `limits`."""

    name: str
    label: str
    values: tuple[int, ...]
    limits: tuple[int, int] | None = None

    def takes(self, value: int) -> bool:
        """Whether it may have that value."""
        return value in self.values or (self.limits is not None and self.limits[0] <= value <= self.limits[1])

    @property
    def range_text(self) -> str:
        """What it may be, in words."""
        first, last = self.limits or (self.values[0], self.values[-1])
        is_range = self.limits is not None or len(self.values) == last - first + 1 > 2
        return f"{first} to {last}" if is_range else ", ".join(map(str, self.values))


@dataclass(frozen=True)
class Setting:
    """Switches and parameters of a family's model that a value of a field sets; a scenario's own parameters win.

    `engine` is whose kernels run, empty where the value does not say. `prompts` stands for it in passes that make no
    output one by one; None: it holds for all.
    """

    switches: Mapping[str, bool] = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)
    prompts: "Setting | None" = None
    engine: str = ""


@dataclass(frozen=True)
class PricedField:
    """A field of a scenario that only some families price: a choice of the network's, not of one operator's.

    Attributes
    ----------
    needs : what a network, or a part, must have for it, in words.
    assumption : what the price rests on while it is set.
    settings : what each value sets of the family's model, where it is that which prices it.
    offers : (graph, scenario) -> values it may take there, empty without what it needs; None: those of `settings`.
    available : whether a part of a system has what it is about; None: any has.
    lower : (device, graph, precision, value) -> the graph with it, from which everything is priced; None: as it is.
    schemes : partitions it can be set beside; empty: all that one executor runs.
    """

    needs: str
    assumption: str
    settings: Mapping[Any, Setting] = field(default_factory=dict)
    offers: Callable[[Graph, Scenario], tuple[Any, ...]] | None = None
    lower: Callable[[Device, Graph, str, Any], Graph] | None = None
    schemes: tuple[str, ...] = ()
    available: Callable[[Device, System], bool] | None = None

    def values(self, graph: Graph, scenario: Scenario) -> tuple[Any, ...]:
        """Values it may take beside the rest of a scenario."""
        return tuple(self.settings) if self.offers is None else self.offers(graph, scenario)
