"""Questions about the edge, answered from a scenario: forwarding beside inference, depth-first execution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.analyses.depth_first import EAGER, DepthFirstComparison, compare
from engine.cost.report import Report
from engine.devices import FAMILIES, family
from engine.devices.common.job import Job
from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.resolve.bound import Bound, own_model
from engine.resolve.choices import BATCHES
from engine.scenario import Scenario, ScenarioError, make
from hardware_specs.catalog import default_catalog
from hardware_specs.schema import Device, DeviceGroup, System

PACKETS: tuple[int, ...] = (64, 96, 128, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 1280, 1518)
"""Ethernet frames at which forwarding is asked. [B]"""


@dataclass(frozen=True)
class Forwarding:
    """Traffic a SmartNIC passes on while so many of its threads infer. Estimates."""

    executors: int
    busy: float  # share of their engines' issue slots that they take
    line_bytes_per_s: float  # of all ports
    drop_bytes: float | None  # packet from which on all are forwarded at line rate; None where no size is
    sizes: tuple[int, ...]  # of packets. [B]
    bytes_per_s: tuple[float, ...]


def nic_of(scenario: Scenario) -> Device | None:
    """The network processor among the scenario's devices."""
    return next((d for d in bind(scenario).devices if family(d.kind).packets is not None), None)


def inference_on(report: Report, device: Device) -> Job | int:
    """What a network processor infers in a report: its job, or on 0 threads where no part of the network is on it."""
    jobs = (run.job for stage in report.times.priced for run in stage.runs)
    return next((job for job in jobs if job.device == device), 0)


def forwarding(
    device: Device,
    infers: int | Job,
    sizes: Sequence[int] = PACKETS,
    model: Mapping[str, float] | None = None,
    busy: float = 1.0,
) -> Forwarding:
    """What a network processor forwards at each packet size while it runs a job, or infers on so many executors.

    ``model`` are parameters that a scenario sets, of this device's family or of others. ``busy`` is how much executors
    have to do: the share of their engines' issue slots that they take. [-]
    """
    path = family(device.kind).packets
    if path is None:
        labels = " or ".join(family(kind).label for kind in FAMILIES if family(kind).packets is not None)
        raise ScenarioError(f"{device.name} is a {device.kind}; forwarding is answered for a {labels}")
    limit, executors = path.max_threads(device), int(path.infer(infers)) if isinstance(infers, Job) else infers
    if not 0 <= executors <= limit:
        raise ScenarioError(f"executors is {executors}; allowed: 0 to {limit}")
    if not 0.0 <= busy <= 1.0:
        raise ScenarioError(f"busy is {busy:g}; allowed: 0 to 1")
    smallest, rates = path.beside(device, sizes, infers, busy, own_model(device, model or {}))
    return Forwarding(executors, busy, path.line(device), smallest, tuple(sizes), rates)


@dataclass(frozen=True)
class NodeShare:
    """What an executor of a node adds to it, or all of them together, beside a machine that waits. Estimates."""

    name: str
    throughput_per_s: float
    above_idle_w: float | None
    wall_w: float | None  # with the machine that waits
    capex_usd: float | None
    batch: int
    latency_s: float

    @property
    def per_watt(self) -> float | None:
        """Work a joule, at the wall. [1/J]"""
        return self.throughput_per_s / self.wall_w if self.wall_w else None


def host_and_nic(scenario: Scenario, limit_s: float = 7e-3) -> tuple[NodeShare, NodeShare, NodeShare]:
    """A host, its network processor, and both at once on requests of one network, each at the rate of its own.

    The host takes the largest batch (a power of two) on each of its cores that stays under `limit_s` [s], as document
    003 has it in section 5.2; the NIC takes what the scenario says. They share nothing but packets: the host's requests
    cross the NIC, whose threads for packets have to pass them. ScenarioError where a system has no such pair.
    """
    bound = bind(scenario)
    host, nic = bound.host, nic_of(scenario)
    if nic is None or bound.device != nic or host is None or "on-path" not in bound.system.schemes:
        raise ScenarioError(f"{bound.system.name} has no network processor before a host: agilio-cx is one")
    size = max(64, int(bound.graph.input_elements.at(1, scenario.inputs) / 8.0))
    idle = bound.system.extra_power.si if bound.system.extra_power is not None else 0.0
    alone = _largest_batch(bound, host, limit_s)
    shares, on_path = [], evaluate(scenario.with_(scheme="on-path"))
    for report, device in ((alone, host), (on_path, nic)):
        above = None if report.power_w is None else report.power_w - idle
        price, batch = device.price.si if device.price is not None else None, report.scenario.batch
        rate = report.throughput_per_s
        shares.append(NodeShare(device.name, rate, above, report.power_w, price, batch, report.latency_s))
    traffic = forwarding(nic, inference_on(on_path, nic), (size,), bound.model)
    if not traffic.bytes_per_s[0]:
        said = f"{traffic.executors} threads of {nic.name} infer"
        raise ScenarioError(f"{said} and none forwards: no request reaches its host")
    first, second = shares
    first = replace(first, throughput_per_s=min(first.throughput_per_s, traffic.bytes_per_s[0] / size))
    above, price = _sum(first.above_idle_w, second.above_idle_w), _sum(first.capex_usd, second.capex_usd)
    rate, slower = first.throughput_per_s + second.throughput_per_s, max(first.latency_s, second.latency_s)
    name = f"{host.name} and {nic.name}"
    return first, second, NodeShare(name, rate, above, _sum(above, idle), price, first.batch, slower)


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _largest_batch(bound: Bound, host: Device, limit_s: float) -> Report:
    """The scenario's network on all cores of its host, in the largest batch on each that stays under a limit [s]."""
    s = bound.scenario
    system = System(
        schema_version=1,
        id="host-alone",
        name=host.name,
        summary="The host of a network processor.",
        topology="single",
        devices=(DeviceGroup(device=host.id, count=1),),
        extra_power=bound.system.extra_power,
    )
    catalog, best, names = default_catalog().with_system(system), None, {p.name for p in family(host.kind).parameters}
    what_ifs: dict[str, Any] = {f"model.{name}": value for name, value in bound.model.items() if name in names}
    what_ifs |= {path.replace("host", "devices.0", 1): v for path, v in s.overrides.items() if path.startswith("host.")}
    shared = s.model_dump(include={"workload", "precision", "params", "costs"})
    query = make({"system": "host-alone", "overrides": what_ifs, **shared})
    query = query.with_(streams=family(host.kind).max_streams(host, query))
    for batch in BATCHES:
        report = evaluate(query.with_(batch=batch), catalog)
        if best is not None and report.latency_s > limit_s:
            break
        best = report
    assert best is not None
    return best


def depth_first_of(scenario: Scenario) -> DepthFirstComparison:
    """The scenario's network on one device, breadth first under an eager framework against depth first.

    ScenarioError in one sentence for what the comparison has no answer for: other families, several phases or devices,
    and switches that it sets itself.
    """
    bound = bind(scenario)
    scope = "depth-first execution is answered for"
    if not bound.family.layerwise:
        kinds = ", ".join(kind for kind in FAMILIES if family(kind).layerwise)
        raise ScenarioError(f"{bound.device.name} is a {bound.device.kind}; {scope} {kinds}")
    if len(bound.graph.phases) > 1:
        raise ScenarioError(f"{bound.workload.name} has several phases; {scope} one")
    if scenario.scheme in ("tensor", "pipelined", "clusters") and scenario.devices > 1:
        raise ScenarioError(f"scheme is {scenario.scheme!r} on {scenario.devices} devices; {scope} one device")
    usual = {switch.name: switch.default for switch in bound.family.switches}
    for name in EAGER.keys() & scenario.switches.keys():
        if scenario.switches[name] != usual[name]:
            raise ScenarioError(
                f"switches.{name} is {str(scenario.switches[name]).lower()}: breadth first has it off, so only its "
                "default is allowed here"
            )
    settings = {**scenario.switches, **bound.model}
    s, device = scenario, bound.device
    _, *sizes, _ = bound.graph.phases[0].sizes(s.batch, s.inputs, s.outputs)
    layout = {"format": s.precision, "tile": s.tile, "streams": s.streams}
    comparison = compare(device, bound.graph, s.batch, settings, (sizes[0], sizes[1]), **layout)
    if not comparison.chains:
        raise ScenarioError(f"{bound.workload.name} has no chain of operators without a dense product between them")
    return comparison
