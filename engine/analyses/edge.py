"""Questions about the edge, answered from a scenario: cuts, forwarding beside inference, depth-first execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.analyses.depth_first import EAGER, DepthFirstComparison, compare
from engine.analyses.split import SplitPoint, split_points
from engine.cost.error_bands import widest
from engine.cost.report import ErrorBand
from engine.devices import FAMILIES, family
from engine.evaluate import evaluate
from engine.plan.schemes import second_executor
from engine.resolve.bind import bind, own_model
from engine.scenario import Scenario, ScenarioError
from hardware_specs.schema import Device

PACKETS: tuple[int, ...] = (64, 96, 128, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 1280, 1518)
"""Ethernet frames at which forwarding is asked. [B]"""


def cuts(scenario: Scenario, first_format: str | None = None) -> tuple[Scenario, tuple[SplitPoint, ...]]:
    """The scenario as a split one, and every way to cut it; `first_format` of the first part where it differs.

    Raises ScenarioError where the system has not two executors, Unsupported where no cut leaves each what it runs.
    """
    scenario = scenario.with_(scheme="split")
    if first_format is None:
        return scenario, split_points(scenario)
    return scenario, split_points(scenario, (first_format, scenario.precision))


def bands_of_cuts(scenario: Scenario, points: Sequence[SplitPoint], best: SplitPoint) -> dict[int, ErrorBand]:
    """Error band of every cut, by its position: of one executor alone, or of both as at the best cut. [-]"""
    ends = {p.at: evaluate(scenario.with_(split=p.at)).error_band for p in points if not (p.at and p.rest) or p == best}
    inner = ends[best.at] if best.at and best.rest else widest(ends.values())
    return {p.at: ends.get(p.at, inner) for p in points}


def executors(scenario: Scenario) -> tuple[str, str]:
    """Names of the two executors a split network runs on."""
    bound = bind(scenario)
    return bound.device.name, second_executor(bound).name


@dataclass(frozen=True)
class Forwarding:
    """Traffic a SmartNIC passes on while so many of its threads infer. Estimates."""

    executors: int
    busy: float  # share of their engines' issue slots that they take
    line_bytes_per_s: float  # of all ports
    cycles_per_s: float  # left to packets
    drop_bytes: float  # smallest packet forwarded at line rate
    sizes: tuple[int, ...]  # of packets. [B]
    bytes_per_s: tuple[float, ...]


def nic_of(scenario: Scenario) -> Device | None:
    """The network processor among the scenario's devices."""
    return next((d for d in bind(scenario).devices if family(d.kind).packets is not None), None)


def forwarding(
    device: Device,
    executors: int,
    sizes: Sequence[int] = PACKETS,
    model: Mapping[str, float] | None = None,
    busy: float = 1.0,
) -> Forwarding:
    """What a network processor forwards at each packet size while it infers on so many executors.

    ``model`` are parameters that a scenario sets, of this device's family or of others. ``busy`` is how much executors
    have to do: the share of their engines' issue slots that they take. [-]
    """
    path = family(device.kind).packets
    if path is None:
        labels = " or ".join(family(kind).label for kind in FAMILIES if family(kind).packets is not None)
        raise ScenarioError(f"{device.name} is a {device.kind}; forwarding is answered for a {labels}")
    most = path.most(device)
    if not 0 <= executors <= most:
        raise ScenarioError(f"executors is {executors}; allowed: 0 to {most}")
    if not 0.0 <= busy <= 1.0:
        raise ScenarioError(f"busy is {busy:g}; allowed: 0 to 1")
    cycles, least, rates = path.beside(device, sizes, executors, busy, own_model(device, model or {}))
    return Forwarding(executors, busy, path.line(device), cycles, least, tuple(sizes), rates)


def depth_first_of(scenario: Scenario) -> DepthFirstComparison:
    """The scenario's network on one device, breadth first under an eager framework against depth first.

    ScenarioError in one sentence for what the comparison has no answer for: other families, several phases or devices,
    and switches that it sets itself.
    """
    bound = bind(scenario)
    answered = "depth-first execution is answered for"
    if not bound.family.layerwise:
        kinds = ", ".join(kind for kind in FAMILIES if family(kind).layerwise)
        raise ScenarioError(f"{bound.device.name} is a {bound.device.kind}; {answered} {kinds}")
    if len(bound.graph.phases) > 1:
        raise ScenarioError(f"{bound.workload.name} has several phases; {answered} one")
    if scenario.scheme in ("tensor", "pipelined", "clusters") and scenario.devices > 1:
        raise ScenarioError(f"scheme is {scenario.scheme!r} on {scenario.devices} devices; {answered} one device")
    usual = {switch.name: switch.default for switch in bound.family.switches}
    for name in EAGER.keys() & scenario.switches.keys():
        if scenario.switches[name] != usual[name]:
            raise ScenarioError(
                f"switches.{name} is {str(scenario.switches[name]).lower()}: breadth first has it off, so only its "
                "default is allowed here"
            )
    settings = {**scenario.switches, **bound.model}
    device, format = bound.device, scenario.precision
    comparison = compare(device, bound.graph, scenario.batch, format, scenario.tile, scenario.streams, settings)
    if not comparison.chains:
        raise ScenarioError(f"{bound.workload.name} has no chain of operators without a dense product between them")
    return comparison
