"""The three execution points of a city network: far edge, metro edge and core, and a camera whose frames they analyse.

For each point, and for the best cut between the far edge and each of the others: what a frame takes from shutter to
answer, what it asks of the uplink, and how many cameras one executor serves. Estimates; machines, links and distances
are assumptions of the catalog, as the document names the points only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from types import MappingProxyType

from engine.analyses.split import Goal, best_split, split_points
from engine.cost.assemble import wire_time
from engine.cost.report import ErrorBand
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.plan.schemes import split_wire
from engine.resolve.bind import Wire, bind
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import Catalog, default_catalog
from model_zoo.catalog import default_zoo
from model_zoo.schema import WorkloadError

ANSWER_BYTES = 256.0  # what goes back to the camera's owner: labels and boxes
FIBRE_S_PER_M = 5e-9  # light in glass, one way


@dataclass(frozen=True)
class Tier:
    """An execution point: the system that stands there, and the system that cuts a network between the far edge and it,
    whose link between the two is a frame's way from the camera."""

    name: str
    system: str
    cut: str | None


TIERS: tuple[Tier, ...] = (
    Tier("far edge", "arm-edge", None),
    Tier("metro edge", "xeon-e5-2650", "edge-tiers"),
    Tier("core", "v100-appliance", "edge-core"),
)


@dataclass(frozen=True)
class Camera:
    """A stream of frames: how many a second and how large one is after its encoder."""

    frames_per_s: float = 5.0
    frame_bytes: float = 200e3  # a 1080p JPEG of street scenery


@dataclass(frozen=True)
class Placement:
    """One way to serve the cameras. Times of a frame. [s]"""

    name: str
    after: str  # last operator at the far edge where the network is cut, else empty
    travel_s: float  # frame or intermediate out, answer back
    answer_s: float  # of it, the answer's way back, which a split scenario ends before
    compute_s: float
    uplink_bytes_per_s: float  # of one camera
    cameras: int  # one chain of executors, and the uplink they share, keeps up with
    meets_limit: bool
    error_band: ErrorBand  # of the executors' times

    @property
    def latency_s(self) -> float:
        """From a frame to its answer. [s]"""
        return self.travel_s + self.compute_s


def sees(workload: str) -> bool:
    """Whether a network takes one image at a time, so that a camera's frame is a request of it."""
    try:
        graph = default_zoo().graph(workload)
    except WorkloadError as error:
        raise ScenarioError(str(error)) from None
    first = graph.phases[0].ops[0].kind == "Conv" and graph.unit in ("inference", "sample")  # of a user's own file
    return graph.unit == "image" or first


def _way(wire: Wire, size: float, metres: float) -> float:
    """Time of a message over a wire with extra fibre. [s]"""
    return wire_time(wire, size) + metres * FIBRE_S_PER_M


def placements(
    workload: str,
    camera: Camera = Camera(),
    limit_s: float | None = None,
    precision: str = "fp32",
    extra_m: float = 0.0,
    goal: Goal = "latency",
    catalog: Catalog | None = None,
    params: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Placement, ...]:
    """Whole networks at each tier and the best cut from the far edge to each other one.

    A cut takes what `engine.analyses.split` says of it, and the answer's way back. A whole network away from the camera
    is its cut before the first operator, but that the encoded frame crosses where `split` sends the decoded input.

    Parameters
    ----------
    limit_s : largest time from frame to answer; None for no limit. [s]
    extra_m : fibre on top of what the links' latencies hold. [m]
    goal : what the best cut is best at, see `engine.analyses.split.Goal`. A cut has a part on both sides.
    params : of the network, as a scenario's.

    Points that can't run the network are left out, see `refusals`; Unsupported, with the first reason, where all are.
    """
    catalog = catalog or default_catalog()
    refused = dict(refusals(workload, precision, catalog, params))
    if len(refused) == len(TIERS):
        raise Unsupported(next(iter(refused.values())))
    whole, parted = [], []
    for tier in TIERS:
        if tier.name in refused:
            continue
        alone = evaluate(_at(tier.system, workload, precision, params), catalog)
        if tier.cut is None:
            rate = alone.throughput_per_s
            whole.append(
                _placement(tier.name, "", 0.0, 0.0, alone.latency_s, 0.0, rate, camera, limit_s, alone.error_band)
            )
            continue
        scenario = default_scenario(tier.cut, workload, scheme="split", params=dict(params))
        wire = split_wire(bind(scenario, catalog))
        points = split_points(scenario, (scenario.precision, precision), catalog)
        compute = next(p.second_s for p in points if not p.at)
        back = _way(wire, ANSWER_BYTES, extra_m)
        travel = _way(wire, camera.frame_bytes, extra_m) + back
        uplink = camera.frame_bytes * camera.frames_per_s
        rate = min(1 / compute, wire.link.usable / camera.frame_bytes)
        whole.append(_placement(tier.name, "", travel, back, compute, uplink, rate, camera, limit_s, alone.error_band))
        if TIERS[0].name in refused:
            continue
        scenario = scenario.with_(precision=precision)
        inner = [p for p in split_points(scenario, catalog=catalog) if p.at and p.rest]
        if not inner:
            continue
        best = best_split(inner, goal)
        travel = best.link_s + back + extra_m * FIBRE_S_PER_M
        uplink = best.crossing_bytes * camera.frames_per_s
        name, rate, compute = f"far edge and {tier.name}", 1 / best.interval_s, best.latency_s - best.link_s
        band = evaluate(scenario.with_(split=best.at), catalog).error_band
        parted.append(_placement(name, best.after, travel, back, compute, uplink, rate, camera, limit_s, band))
    return (*whole, *parted)


def _at(system: str, workload: str, precision: str, params: Mapping[str, float]) -> Scenario:
    return default_scenario(system, workload, precision=precision, scheme="single", params=dict(params))


def refusals(
    workload: str,
    precision: str = "fp32",
    catalog: Catalog | None = None,
    params: Mapping[str, float] = MappingProxyType({}),
) -> tuple[tuple[str, str], ...]:
    """Execution points that can't run a network in a precision, each with the reason; ScenarioError where none can."""
    cuts, last = [], None
    if not sees(workload):
        name = default_zoo().workload(workload).name
        return tuple((tier.name, f"{name} takes no image: a camera's frame is no request of it.") for tier in TIERS)
    for tier in TIERS:
        try:
            evaluate(_at(tier.system, workload, precision, params), catalog)
        except (Unsupported, ScenarioError) as why:
            cuts.append((tier.name, str(why)))
            last = why
    if len(cuts) == len(TIERS) and isinstance(last, ScenarioError):
        raise last  # the question is wrong everywhere, as with a network that does not exist
    return tuple(cuts)


def _placement(
    name: str,
    after: str,
    travel: float,
    back: float,
    compute: float,
    uplink: float,
    rate: float,
    camera: Camera,
    limit: float | None,
    band: ErrorBand,
) -> Placement:
    cameras = floor(rate / camera.frames_per_s * (1 + 1e-12))
    late = limit is not None and travel + compute > limit
    return Placement(name, after, travel, back, compute, uplink, cameras, not late, band)
