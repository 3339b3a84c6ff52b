"""What a machine with an instruction set is made of, what its arithmetic costs, and its programs, shipped or a user's.

Fabric beside the part's limits, the time of a request over the tiles, and a functional run of small inputs in the
scenario's format. A program is text in its machine's mnemonics, timed by the family's own scoreboard and run on its
functional machine beside float64. Nothing is priced here: times are `evaluate`'s.
"""

import itertools
from contextlib import suppress
from dataclasses import dataclass, replace

from engine.cost.report import Report
from engine.cost.rows import busy_of, totals
from engine.devices import family, instructions_of
from engine.devices.common.contract import Unsupported
from engine.devices.common.fabric import LABELS, Demand, shortage
from engine.devices.common.instruction_set import Density, Error, InstructionSet, Listing, Use, Values
from engine.devices.common.job import Job
from engine.evaluate import evaluate
from engine.plan.jobs import job_of
from engine.plan.schemes import open_plan
from engine.resolve.bind import bind
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import default_catalog
from hardware_specs.schema import Device, Fpga


def machine_of(scenario: Scenario) -> tuple[Job, InstructionSet]:
    """The job of a scenario's machine, with its wire to peers it may not ask, and what the machine answers.

    ScenarioError where it runs no programs.
    """
    bound = bind(scenario)
    answers = instructions_of(bound.device.kind)
    if answers is None:
        raise ScenarioError(
            f"{bound.device.name} is a {bound.family.title}: it runs no program of its own instructions"
        )
    job = job_of(bound, open_plan(bound).stages[0], bound.family, bound.graph.phases[0])
    wire = bound.wire("peer")
    return (replace(job, link=wire.link, link_hops=wire.hops) if wire else job), answers


def mnemonics(scenario: Scenario) -> tuple[str, ...]:
    """Mnemonics of the scenario's machine."""
    return machine_of(scenario)[1].mnemonics


def program_text(scenario: Scenario, part: str = "layer") -> str:
    """Text of the program that the scenario's price rests on: of a decoder's `part`, of a step, of a network."""
    machine, answers = machine_of(scenario)
    return answers.program_text(machine, part)


def listing(scenario: Scenario, text: str) -> Listing:
    """A program timed on the scenario's machine. ProgramError names the line and column of what is wrong."""
    machine, answers = machine_of(scenario)
    return answers.listing(machine, text)


def execute(scenario: Scenario, text: str, seed: int = 0, limit: int | None = None) -> tuple[Values, ...]:
    """A program run on drawn numbers in the machine's arithmetic, each register beside float64. A measurement.

    With `limit`, so many of its instructions are.
    """
    machine, answers = machine_of(scenario)
    try:
        return answers.values(machine, text, seed, limit)
    except MemoryError:
        raise ScenarioError("the program takes more memory than there is") from None


@dataclass(frozen=True)
class Unit:
    """A unit over the piece that the timeline shows: busy and stalled time make the whole. [s]"""

    name: str
    busy_s: float
    stall_s: float


@dataclass(frozen=True)
class LatencyPart:
    """A part of a request's latency: a group of operators, synchronisation, or wires and starts. [s]"""

    name: str
    time_s: float
    share: float  # of the latency [-]


@dataclass(frozen=True)
class TileLatencies:
    """Latency of the scenario's request at every tile; None where a tile does not fit the part. [s]

    `best` takes the fewest slices of those as fast as the fastest, but for `instruction_set.TIE`.
    """

    knobs: tuple[str, ...]
    rows: tuple[int, ...]  # values of the first knob
    columns: tuple[int, ...]
    seconds: tuple[tuple[float | None, ...], ...]
    best: tuple[int, int]
    best_slices: float
    now: tuple[int, int]


@dataclass(frozen=True)
class Generation:
    """A part of the soft processor's generations: what it holds by format, and its instance's own format and peak."""

    name: str
    densities: tuple[Density, ...]
    printed: tuple[str, float]


@dataclass(frozen=True)
class MachineReport:
    """Everything this module finds about a scenario's device."""

    device: str
    timeline_of: str
    units: tuple[Unit, ...]
    parts: tuple[LatencyPart, ...]
    uses: tuple[Use, ...]
    part_fits: "tuple[PartFit, ...]"
    errors: tuple[Error, ...]
    tiles: TileLatencies | None
    densities: tuple[Density, ...]


def units(report: Report) -> tuple[Unit, ...]:
    """How long each unit of the timeline is busy; a dependence is no unit. [s]"""
    bars = report.timeline
    end = max((bar.start_s + bar.duration_s for bar in bars), default=0.0)
    return tuple(Unit(name, time, end - time) for name, time in busy_of(bars).items())


def parts(report: Report) -> tuple[LatencyPart, ...]:
    """Where a request's latency goes by group of operators, largest first; it adds up to all of it. [s]"""
    overheads = (
        ("synchronisation" if row.name.startswith("ring sync") else row.name, row.time_s) for row in report.other
    )
    times = totals([*((op.group, op.time_s) for op in report.ops), *overheads])
    order = sorted(times.items(), key=lambda item: -item[1])
    return tuple(LatencyPart(name, time, time / report.latency_s) for name, time in order)


@dataclass(frozen=True)
class PartFit:
    """A part of the catalog, whether the scenario's machine fits its fabric, and what it is short of or fills most."""

    part: str
    fits: bool | None  # None: its fabric is counted in other blocks
    said: str


def part_fits(scenario: Scenario) -> tuple[PartFit, ...]:
    """The scenario's machine on every FPGA of the catalog, each part once. An estimate: no place and route."""
    catalog, (job, answers) = default_catalog(), machine_of(scenario)
    need = answers.demand(job)
    parts: list[tuple[Fpga, str]] = []
    for device in map(catalog.device, catalog.ids("devices")):
        if device.fpga is not None and need:
            parts.append((device.fpga, device.name.rpartition(" on ")[2]))
    parts.sort(key=lambda part: len(part[1]))
    once = [part for i, part in enumerate(parts) if not any(_alike(part[0], rival) for rival, _ in parts[:i])]
    return tuple(_fit(need, fabric, name) for fabric, name in once)


def _alike(entry: Fpga, rival: Fpga) -> bool:
    """Whether two entries describe one part: all that is there of each resource."""
    return all(getattr(getattr(entry, r), "si", None) == getattr(getattr(rival, r), "si", None) for r in LABELS)


def _fit(need: Demand, fabric: Fpga, name: str) -> PartFit:
    there = {r: getattr(fabric, r) for r in need}
    missing = [LABELS[r] for r, amount in there.items() if amount is None]
    if missing:
        return PartFit(name, None, f"its entry counts no {', '.join(missing)}")
    short = shortage("The core", need, fabric, name)
    full = max(need, key=lambda r: sum(need[r].values()) / there[r].si)
    share = sum(need[full].values()) / there[full].si
    return PartFit(name, short is None, short or f"{100 * share:.0f}% of its {LABELS[full]}")


def tile_map(scenario: Scenario) -> TileLatencies | None:
    """Latency over the two knobs of the tile; None where the machine has none."""
    job, answers = machine_of(scenario)
    if (tiles := answers.tiles) is None:
        return None
    knobs = family(job.device.kind).knobs(job.device, job.graph, scenario)
    seconds: dict[tuple[int, int], float] = {}
    rows, columns = (knob.values for knob in knobs)
    for tile in itertools.product(rows, columns):
        with suppress(Unsupported):  # more slices than the part has
            seconds[tile] = evaluate(scenario.with_(tile=tile)).latency_s
    best, slices = tiles.best(job.device, scenario.precision, seconds)
    table = tuple(tuple(seconds.get((r, c)) for c in columns) for r in rows)
    return TileLatencies(tuple(k.name for k in knobs), rows, columns, table, best, slices, tiles.current(job))


def densities(device: Device) -> tuple[Density, ...]:
    """For each format what the part holds; empty where that is not known. [-], [FLOP/s] An estimate."""
    answers = instructions_of(device.kind)
    return answers.densities(device) if answers is not None and answers.densities is not None else ()


def generations(device: Device) -> tuple[Generation, ...]:
    """The device and the catalog's other soft processors on other parts, by precision; empty for other kinds."""
    if not densities(device):
        return ()
    catalog = default_catalog()
    by_logic = {_logic(device): device}
    for processor in map(catalog.device, catalog.ids("devices")):
        if densities(processor):
            by_logic.setdefault(_logic(processor), processor)
    rows = []
    for part in by_logic.values():
        format = next(iter(part.peak))
        printed = format, family(part.kind).peak(part, format)
        rows.append(Generation(part.name.rpartition(" on ")[2], densities(part), printed))
    return tuple(rows)


def _logic(device: Device) -> float:
    """Which part it is: its logic modules. [ALM]"""
    assert device.fpga is not None
    assert device.fpga.alm is not None
    return device.fpga.alm.si


def machine(scenario: Scenario) -> MachineReport:
    """All of it."""
    (job, answers), report = machine_of(scenario), evaluate(scenario)
    return MachineReport(
        job.device.name,
        report.timeline_of,
        units(report),
        parts(report),
        answers.uses(job),
        part_fits(scenario),
        answers.errors(job),
        tile_map(scenario),
        densities(job.device),
    )
