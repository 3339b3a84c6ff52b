"""Cameras and the machines behind them, as a chain of tiers that a network may be laid on.

A tier is any device of the catalog, behind any link. A frame is computed by consecutive pieces of the network on the
tiers in order, a tier may have none. Machines, links and distances are assumptions of the catalog, as document 003
names the points only.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from engine.analyses.cuts import check_format, price_cuts
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.plan.plan import second_format_of
from engine.plan.schemes import executors, split_wires
from engine.resolve.bind import bind
from engine.resolve.bound import Bound
from engine.scenario import Scenario, ScenarioError, make
from engine.scenario.formats import BITS
from hardware_specs.catalog import Catalog, default_catalog
from hardware_specs.quantity import Quantity
from hardware_specs.schema import DeviceGroup, LinkUse, System

FIBRE_S_PER_M = 5e-9  # light in glass, one way
_MOST_CAMERAS = 1_000_000


@dataclass(frozen=True)
class Tier:
    """A machine on a frame's way, and the link to it from the tier before.

    Attributes
    ----------
    device, link : ids of the catalog; the first tier, where frames arise, has no link.
    precision : that it computes in.
    machines : at this tier; None: one for each camera.
    batch : frames taken together there under load, at most.
    format, compression : of a cut network's results on the link: None, as they are computed; bytes over those sent.
    metres : fibre on top of what the link's latency holds. [m]
    """

    name: str
    device: str
    link: str | None = None
    precision: str = "fp32"
    machines: int | None = 1
    batch: int = 1
    format: str | None = None
    compression: float = 1.0
    metres: float = 0.0


def row_of(scenario: Scenario) -> Scenario:
    """The scenario cut before its first operator, a frame at a time, on its own row of machines.

    Where its system is no row, on the three machines that document 003 names; what was set for its system is left out.
    """
    catalog = default_catalog()
    if catalog.system(scenario.system).topology in ("pair", "chain"):
        return scenario.with_(scheme="split", split=0, second_split=None, batch=1, streams=1)
    first = catalog.device(catalog.system("edge-metro-core").devices[0].device)
    options = family(first.kind).formats(first)
    return Scenario(
        system="edge-metro-core",
        workload=scenario.workload,
        precision=scenario.precision if scenario.precision in options else options[0],
        scheme="split",
        params=scenario.params,
        costs=scenario.costs,
    )


def tiers_of(scenario: Scenario) -> tuple[Tier, ...]:
    """The machines and links of `row_of`, in its precision where they have it, frames as many as the scenario's batch.

    Before a camera's frame the first machine is one of each camera; ScenarioError or Unsupported as `bind` has it.
    """
    bound = bind(row_of(scenario))
    devices, batch = executors(bound), scenario.batch
    places = [group.tier for group in bound.system.devices for _ in range(group.count)]
    names = [place or f"{nth} machine" for nth, place in zip(("first", "second", "third"), places, strict=False)]
    machines = None if bound.system.frame is not None else 1
    result = [Tier(names[0], devices[0].id, None, bound.scenario.precision, machines, batch)]
    for name, device, wire in zip(names[1:], devices[1:], split_wires(bound), strict=True):
        format, crosses = second_format_of(bound, device), wire.format or None
        result.append(Tier(name, device.id, wire.link.id, format, 1, batch, crosses, wire.compression))
    return tuple(result)


@dataclass(frozen=True)
class Camera:
    """Streams of frames: how many cameras, frames a second of each, and bytes of a frame after its encoder."""

    frames_per_s: float = 5.0
    frame_bytes: float | None = None  # None: the system's own, or an image as the network takes it
    cameras: int = 1


@dataclass(frozen=True)
class Cascade:
    """A small network that sees every frame on the first tier, and the share of frames that it passes on."""

    workload: str
    pass_rate: float


def _check(tier: Tier) -> None:
    """ScenarioError for a tier that no network can be laid on."""
    machines = 1 if tier.machines is None else tier.machines
    counts = ("machines", machines, 1), ("batch", tier.batch, 1)
    for name, value, floor in (*counts, ("compression", tier.compression, 1.0), ("metres", tier.metres, 0.0)):
        if not floor <= value < inf:
            raise ScenarioError(f"{name} of the {tier.name} is {value:g}; allowed: {floor:g} or more")
    if tier.format is not None and tier.format not in BITS:
        raise ScenarioError(
            f"format of the link to the {tier.name} is {tier.format[:20]!r}; allowed: {', '.join(BITS)}"
        )


def _check_row(tiers: tuple[Tier, ...]) -> None:
    """ScenarioError for tiers that make no row."""
    if len(tiers) not in (2, 3):
        raise ScenarioError(f"tiers are {len(tiers)}; allowed: 2 or 3")
    for tier in tiers:
        _check(tier)
    first, names = tiers[0], [tier.name for tier in tiers]
    usual = Tier(first.name, first.device)
    for name in ("link", "format", "compression", "metres"):
        if (value := getattr(first, name)) != getattr(usual, name):
            raise ScenarioError(f"{name} of the {first.name} is {value}: frames arise there, no link leads to it")
    if len(set(names)) < len(names):
        raise ScenarioError(f"tiers are named {', '.join(names)}; allowed: a name of its own for each")


@dataclass(frozen=True)
class CameraNetwork:
    """A scenario's network on a row of machines behind cameras, checked; ScenarioError in one sentence.

    Attributes
    ----------
    scenario : as of `row_of`; all of it counts, what-ifs too, while the machines and links are its own.
    tiers : those machines and links, or any of the catalog.
    """

    scenario: Scenario
    tiers: tuple[Tier, ...]
    camera: Camera = Camera()
    cascade: Cascade | None = None

    def __post_init__(self) -> None:
        for name, value in (("frames_per_s", self.camera.frames_per_s), ("frame_bytes", self.camera.frame_bytes)):
            if value is not None and not 0 < value < inf:
                raise ScenarioError(f"{name} is {value:g}; allowed: above 0")
        _check_row(self.tiers)
        if not 1 <= self.camera.cameras <= _MOST_CAMERAS:
            raise ScenarioError(f"cameras is {self.camera.cameras}; allowed: 1 to {_MOST_CAMERAS:,}")
        if self.cascade is not None and not 0.0 < self.cascade.pass_rate <= 1.0:
            raise ScenarioError(f"pass rate is {self.cascade.pass_rate:g}; allowed: above 0, at most 1")
        if not self.bound.graph.seen:
            raise Unsupported(f"{self.bound.workload.name} takes no image: a camera's frame is no request of it.")

    @cached_property
    def matches_system(self) -> bool:
        """Whether machines and links are those of the scenario's system."""
        here, there = (
            [(tier.device, tier.link, tier.format, tier.compression, tier.metres) for tier in tiers]
            for tiers in (self.tiers, tiers_of(self.scenario))
        )
        return here == there

    def _system(self) -> tuple[System, Catalog]:
        """The tiers as a system, in a catalog that has it."""
        links, catalog, places = [], default_catalog(), ["0"]
        for at, tier in enumerate(self.tiers[1:]):
            if tier.link is None:
                raise ScenarioError(f"link of the {tier.name} is not set; a link from the tier before it is needed")
            link = catalog.link(tier.link)
            within = catalog.device(tier.device).host_link == tier.link  # on the bus of the machine before it
            places.append(places[-1] if within else str(at + 1))
            latency = link.latency.si + tier.metres * FIBRE_S_PER_M
            far = Quantity(value=f"{latency!r} s", basis="assumed", note="with fibre that the user adds")
            links.append(
                link.model_copy(update={"id": f"tier-{at + 1}", "latency": far if tier.metres else link.latency})
            )
        system = System(
            schema_version=1,
            id="camera-tiers",
            name=" to ".join(tier.name for tier in self.tiers),
            summary="Tiers behind cameras.",
            topology="chain",
            devices=tuple(DeviceGroup(device=t.device, count=1, tier=at) for t, at in zip(self.tiers, places)),
            links=tuple(
                LinkUse(link=link.id, role=role, compression=tier.compression, format=tier.format)
                for link, tier, role in zip(links, self.tiers[1:], ("peer", "backhaul"), strict=False)
            ),
            frame=catalog.system(self.scenario.system).frame,
            schemes=("split",),
        )
        return system, catalog.with_system(system, tuple(links))

    @cached_property
    def bound(self) -> Bound:
        """The network on them, cut before its first operator, with everything it names."""
        first = self.tiers[0].precision
        if self.matches_system:
            bound = bind(self.scenario.with_(precision=first))
        else:
            system, catalog = self._system()
            fields = {"system": system.id, "workload": self.scenario.workload, "precision": first, "scheme": "split"}
            bound = bind(make(fields | self.scenario.model_dump(include={"params", "costs"})), catalog)
        if self.camera.frame_bytes is None:
            return bound
        frame = Quantity(value=f"{self.camera.frame_bytes!r} B", basis="assumed", note="as the user says")
        return replace(bound, system=bound.system.model_copy(update={"frame": frame}))

    @property
    def formats(self) -> tuple[str, ...]:
        """That each tier computes in."""
        return tuple(tier.precision for tier in self.tiers)

    @cached_property
    def refusals(self) -> dict[str, str]:
        """Tiers that can't run the whole network, each with the reason."""
        reasons: dict[str, str] = {}
        for at, tier in enumerate(self.tiers):
            try:
                device = executors(self.bound)[at]
                check_format(tier.name, device, tier.precision)
                reason = family(device.kind).supports(device, self.bound.graph, tier.precision)
            except ScenarioError as error:
                reason = str(error)
            if reason:
                reasons[tier.name] = reason
        return reasons

    @property
    def filter_s(self) -> float:
        """Time of a cascade's small network on a machine of the first tier. [s]"""
        return self._filter[0]

    @cached_property
    def _filter(self) -> tuple[float, float]:
        """What a cascade's small network takes of a machine of the first tier, and draws beside its floor. [s], [J]"""
        if self.cascade is None:
            return 0.0, 0.0
        small = self.scenario.with_(workload=self.cascade.workload, params={}, layers={}, tile=())
        first = replace(self, scenario=small, cascade=None)
        cuts = [len(first.bound.graph.phases[0].ops)] * (len(self.tiers) - 1)
        cost = price_cuts(first.bound, first.formats, cuts)
        return cost.stage_s[0], cost.stage_j[0]

    def of_frame(self, at: int, seconds: float, joules: float) -> tuple[float, float]:
        """Time and energy that a camera's frame takes of a tier, of those of a frame that the network sees. [s], [J]"""
        filter_s, filter_j = (0.0, 0.0) if at else self._filter
        return seconds * self.pass_rate + filter_s, joules * self.pass_rate + filter_j

    @property
    def pass_rate(self) -> float:
        """Share of frames that the network sees. [-]"""
        return 1.0 if self.cascade is None else self.cascade.pass_rate
