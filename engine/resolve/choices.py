"""What a user may pick: for a scenario, the values every knob may take, and why others are missing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from engine.devices import family
from engine.devices.common.contract import DeviceFamily, Unsupported
from engine.devices.common.setting import Knob, Switch
from engine.resolve.check import own_values, second_cuts
from engine.resolve.draft import guessing
from engine.scenario import Scenario, ScenarioError, make
from engine.scenario.fields import BY_FAMILY, Field
from engine.scenario.formats import BITS
from engine.scenario.overrides import apply
from engine.scenario.token import brief
from hardware_specs.catalog import Catalog, default_catalog
from hardware_specs.quantity import SpecError
from model_zoo.catalog import Zoo, default_zoo
from model_zoo.ops import LOOKUPS, Graph
from model_zoo.schema import WorkloadError

BATCHES: tuple[int, ...] = tuple(2**i for i in range(13))


@dataclass(frozen=True)
class Adjustable:
    """A workload parameter a scenario may turn."""

    name: str
    label: str
    low: float
    high: float
    default: float


@dataclass(frozen=True)
class Choices:
    """Values that are valid together with the rest of a scenario."""

    formats: tuple[str, ...]
    schemes: tuple[str, ...]
    device_counts: tuple[int, ...]
    knobs: tuple[Knob, ...]
    switches: tuple[Switch, ...]
    params: tuple[Adjustable, ...]
    input_label: str | None
    output_label: str | None
    max_streams: int
    by_family: Mapping[str, tuple[str, ...]]  # values of the fields that only some families price, by path
    cuts: tuple[int, ...]  # where the scenario's network may be cut; empty: its scheme does not cut it
    second_cuts: tuple[int, ...]  # where it may be cut a second time, likewise
    graph: Graph = field(repr=False)
    within: tuple[str, Catalog, Zoo] = field(repr=False, compare=False)  # the system, and where names are looked up
    batches: tuple[int, ...] = field(default=BATCHES)

    @property
    def splits(self) -> tuple[str, ...]:
        """Operator names; cut i lies before operator i."""
        return tuple(op.name for op in self.graph.phases[0].ops)

    @cached_property
    def workloads(self) -> dict[str, str | None]:
        """Id of each workload -> None, or why the system can't run it."""
        system, catalog, zoo = self.within
        return {id: why_not(system, id, catalog, zoo) for id in zoo.ids()}

    @property
    def stream_counts(self) -> tuple[int, ...]:
        """Powers of two up to the most streams of the device, and that."""
        powers = (2**i for i in range(self.max_streams.bit_length()))
        return tuple(dict.fromkeys((*powers, self.max_streams)))

    def of(self, field: Field) -> tuple[Any, ...]:
        """Values of a field that may be picked, first what it is called when nothing is set.

        Empty where it can't be turned, or where any value that the schema allows may be typed.
        """
        values = getattr(self, field.offered) if field.offered else ()
        values = tuple(values.get(field.path, ()) if isinstance(values, Mapping) else values)
        return (field.none, *values) if values and field.none is not None else values

    def takes(self, field: Field, value: Any) -> bool:
        """Whether a field that only some families price may have a value, or None."""
        return value is None or value in self.of(field)


@lru_cache(maxsize=4096)
def _reasons(system: str, workload: str, catalog: Catalog, zoo: Zoo) -> dict[str, str | None]:
    """Why a system can't run a workload in each of its formats; None where it can."""
    device = catalog.device(catalog.system(system).devices[0].device)
    fam, graph = family(device.kind), zoo.graph(workload)
    reasons = {format: fam.supports(device, graph, format) for format in fam.formats(device)}
    return reasons or {"": f"{device.name} lists no format with a peak."}


def why_not(system: str, workload: str, catalog: Catalog | None = None, zoo: Zoo | None = None) -> str | None:
    """None where the system runs the workload in some format, else the reason in one sentence."""
    try:
        reasons = _reasons(system, workload, catalog or default_catalog(), zoo or default_zoo()).values()
    except (SpecError, WorkloadError) as error:
        raise ScenarioError(str(error)) from None
    return None if None in reasons else next(iter(reasons))


def _formats(system: str, workload: str, catalog: Catalog, zoo: Zoo) -> tuple[str, ...]:
    reasons = _reasons(system, workload, catalog, zoo)
    return tuple(f for f in BITS if f in reasons and not reasons[f])


def default_scenario(
    system: str, workload: str, catalog: Catalog | None = None, zoo: Zoo | None = None, **changes: Any
) -> Scenario:
    """A full scenario for a pair: the workload's own request and precision where the system runs it, every switch set.

    ``changes``: fields of it, of `switches` those that differ. What a scheme or a number of devices leaves open follows
    from it: the devices of a scheme, the scheme of so many devices, a cut. Raises ScenarioError or Unsupported in one
    sentence.
    """
    catalog, zoo = catalog or default_catalog(), zoo or default_zoo()
    return _default(system, workload, catalog, zoo, **changes) if changes else _usual(system, workload, catalog, zoo)


def scenario_from(
    data: Mapping[Any, Any], where: str, catalog: Catalog | None = None, zoo: Zoo | None = None
) -> Scenario:
    """The scenario of a `system` and a `workload`, with fields that differ from the pair's, others by path in `set`.

    ScenarioError, which says ``where``, for a field that is none.
    """
    strange = sorted(map(str, data.keys() - Scenario.model_fields.keys() - {"set"}))
    if strange:
        fields = ", ".join(Scenario.model_fields)
        raise ScenarioError(f"{where}: {brief(strange[0])} is not a field; fields: {fields}; set has others by path")
    changes = dict(data)
    settings = changes.pop("set", {})
    if not isinstance(settings, Mapping):
        raise ScenarioError(f"{where}: set is {brief(settings)}: a mapping of paths to values is needed")
    scenario = default_scenario(str(changes.pop("system")), str(changes.pop("workload")), catalog, zoo, **changes)
    for path, value in settings.items():
        scenario = apply(scenario, str(path), value)
    return scenario


def _default(system: str, workload: str, catalog: Catalog, zoo: Zoo, **changes: Any) -> Scenario:
    try:
        entry, load = catalog.system(system), zoo.workload(workload)
        device = catalog.device(entry.devices[0].device)
        reason = why_not(system, workload, catalog, zoo)
    except (SpecError, WorkloadError) as error:
        raise ScenarioError(str(error)) from None
    if reason:
        raise Unsupported(reason)
    fam = family(device.kind)
    formats = _formats(system, workload, catalog, zoo)
    prefer = load.precision, _WITHOUT_UNITS.get(load.precision or ""), *_PREFERRED
    precision = next((f for f in prefer if f in formats), formats[0])
    try:
        count = int(float(changes.get("devices", entry.devices[0].count)))
    except (TypeError, ValueError, OverflowError):
        count = 1  # refused below
    scheme = changes.get("scheme") or _default_scheme(entry.schemes, count, zoo, workload, fam)
    fields = {
        "system": system,
        "workload": workload,
        "batch": load.request.batch,
        "inputs": load.request.inputs,
        "outputs": load.request.outputs,
        "precision": precision,
        "scheme": scheme,
        "devices": entry.devices[0].count,
        "switches": {s.name: s.default for s in fam.switches_for(zoo.graph(workload))},
    }
    if scheme in ("single", "split", "on-path") and "devices" not in changes:
        counts = entry.devices[0].counts or (entry.devices[0].count,)
        fields["devices"] = 1 if 1 in counts else counts[0]
    if scheme == "split":
        fields["split"] = len(zoo.graph(workload).phases[0].ops) // 2
    if isinstance(changes.get("switches"), dict):
        changes["switches"] = fields["switches"] | changes["switches"]
    return make(fields | changes)


_usual = lru_cache(maxsize=4096)(_default)
_PREFERRED = ("bf16", "fp16", "ms-fp8", "ms-fp9", "int8", "fp32")  # where a workload names none that runs
_WITHOUT_UNITS = {"fp4": "w4a16"}
"""What a checkpoint's format is run in where a device can't compute in it: its weights stay narrow."""


def _default_scheme(schemes: tuple[str, ...], count: int, zoo: Zoo, workload: str, fam: DeviceFamily) -> str:
    """The natural scheme: tables where there are tables, tensor for several devices, else the system's first."""
    graph = zoo.graph(workload)
    lookups = any(op.kind == "EmbeddingBag" for op in graph.ops)
    if "tables" in schemes and lookups:
        return "tables"
    if count > 1 and "tensor" in schemes and fam.sharded:
        return "tensor"
    if count > 1 and "pinned" in schemes:
        return "pinned"
    return "single" if "single" in schemes else schemes[0]


def choices(scenario: Scenario, catalog: Catalog | None = None, zoo: Zoo | None = None) -> Choices:
    """What may be picked next to the scenario's system and workload; ScenarioError where a name is unknown."""
    catalog, zoo = catalog or default_catalog(), zoo or default_zoo()
    try:
        entry, load = catalog.system(scenario.system), zoo.workload(scenario.workload)
        kind = zoo.family(scenario.workload)
        device = catalog.device(entry.devices[0].device)
        graph = zoo.graph(scenario.workload)
        formats = _formats(scenario.system, scenario.workload, catalog, zoo)
    except (SpecError, WorkloadError) as error:
        raise ScenarioError(str(error)) from None
    fam = family(device.kind)
    lookups = "tables" in entry.schemes and any(op.kind in LOOKUPS for op in graph.ops)
    schemes = tuple(s for s in entry.schemes if s != "tables" or lookups)
    values = {**kind.defaults, **{k: n.value for k, n in load.params.items()}, **guessing(scenario)}
    group = entry.devices[0]
    return Choices(
        formats=formats,
        schemes=schemes,
        device_counts=group.counts or (group.count,),
        knobs=fam.knobs(device, graph, scenario),
        switches=fam.switches_for(graph),
        params=tuple(
            Adjustable(name, label, low, high, float(value))
            for name, (label, low, high) in kind.adjustable.items()
            if isinstance(value := values.get(name), int | float)
        ),
        input_label=kind.input_label,
        output_label=kind.output_label,
        max_streams=fam.max_streams(device, scenario),
        by_family={path: own_values(path, fam, (device, entry), graph, scenario)[0] for path in fam.fields},
        cuts=tuple(range(len(graph.phases[0].ops) + 1)) if scenario.scheme == "split" else (),
        second_cuts=second_cuts(scenario, entry, graph),
        graph=graph,
        within=(scenario.system, catalog, zoo),
    )


def fit_to_pair(
    wanted: Scenario, *others: Scenario, catalog: Catalog | None = None, zoo: Zoo | None = None
) -> Scenario:
    """A scenario with what its system and its network do not offer taken from others, the first that has what they do.

    Where none has, it takes the pair's default; streams are at most those of the device. ScenarioError or Unsupported
    where the pair runs in no way.
    """
    start = default_scenario(wanted.system, wanted.workload, catalog, zoo)
    options = choices(start, catalog, zoo)
    owners = (wanted, *others, start)

    def pick(field: str, accepts: Callable[[Any], bool]) -> Any:
        return next((v for s in owners if accepts(v := getattr(s, field))), getattr(start, field))

    def tile_fits(tile: tuple[int, ...]) -> bool:
        return len(tile) in (0, len(options.knobs)) and all(k.takes(v) for v, k in zip(tile, options.knobs))

    precision = pick("precision", lambda v: v in options.formats)
    changes = {
        "precision": precision,
        "tile": pick("tile", tile_fits),
        "streams": min(wanted.streams, options.max_streams),
        "switches": {s.name: wanted.switches.get(s.name, s.default) for s in options.switches},
        "params": wanted.params if wanted.params.keys() <= {p.name for p in options.params} else start.params,
        "layers": wanted.layers if precision == wanted.precision else {},
    }
    changes |= {of.path: pick(of.path, lambda v, of=of: options.takes(of, v)) for of in BY_FAMILY}
    schemes, counts, cuts = options.schemes, options.device_counts, len(options.splits)
    s = next((s for s in owners if s.scheme in schemes and s.devices in counts and s.split <= cuts), start)
    partition = {"scheme": s.scheme, "devices": s.devices, "split": s.split}
    second_cuts = choices(start.with_(**partition), catalog, zoo).second_cuts
    return wanted.with_(**changes, **partition, second_split=s.second_split if s.second_split in second_cuts else None)
