"""What a machine with an instruction set is made of and what its arithmetic costs: for its page and the command line.

Fabric beside the part's limits, the time of a request over the tiles, and a functional run of small inputs in the
scenario's format. Nothing is priced here: times are `evaluate`'s, programs are the families' own.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.devices.dfx import accuracy as dfx_accuracy
from engine.devices.dfx.core import core_record, vector_lanes
from engine.devices.dfx.tiling import chosen, dsp_slices
from engine.devices.npu import accuracy as npu_accuracy
from engine.devices.npu.density import Density, densities
from engine.evaluate import evaluate
from engine.resolve.bind import Bound, bind
from engine.scenario import Scenario, ScenarioError, decode, encode
from hardware_specs.catalog import default_catalog
from hardware_specs.schema import Device

__all__ = [
    "Error",
    "Generation",
    "LatencyPart",
    "MachineReport",
    "TileLatencies",
    "Unit",
    "Use",
    "errors",
    "generations",
    "has_machine",
    "machine",
    "parts",
    "tile_map",
    "units",
    "uses",
]

KINDS = ("dfx", "npu")


@dataclass(frozen=True)
class Use:
    """A resource of the fabric: what is used of what is there."""

    name: str
    used: float
    available: float | None
    basis: str

    @property
    def share(self) -> float | None:
        """Of what is there. [-]"""
        return self.used / self.available if self.available else None


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

    `best` takes the fewest slices of those as fast as the fastest within a percent.
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
    held: tuple[Density, ...]
    printed: tuple[str, float]


@dataclass(frozen=True)
class Error:
    """A functional run of a small drawn network beside a wide reference. A measurement, of that network only."""

    name: str
    relative: float  # [-]
    note: str


@dataclass(frozen=True)
class MachineReport:
    """Everything this module finds about a scenario's device."""

    device: str
    timeline_of: str
    units: tuple[Unit, ...]
    parts: tuple[LatencyPart, ...]
    uses: tuple[Use, ...]
    errors: tuple[Error, ...]
    tiles: TileLatencies | None
    densities: tuple[Density, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, SI units in the keys."""
        return asdict(self)


def has_machine(scenario: Scenario) -> bool:
    """Whether the scenario's device runs programs of an instruction set."""
    return bind(scenario).device.kind in KINDS


def _known(scenario: Scenario) -> Bound:
    bound = bind(scenario)
    if bound.device.kind not in KINDS:
        raise ScenarioError(
            f"{bound.device.name} is a {bound.family.title}: it runs no program of its own instructions"
        )
    return bound


def _tile(scenario: Scenario, bound: Bound) -> tuple[int, int]:
    dfx = bound.device.dfx
    assert dfx is not None
    return (scenario.tile[0], scenario.tile[1]) if scenario.tile else (round(dfx.d.si), round(dfx.l.si))


def units(scenario: Scenario) -> tuple[Unit, ...]:
    """How long each unit of the timeline is busy; a dependence is no unit. [s]"""
    _known(scenario)
    bars = evaluate(scenario).timeline
    end = max((bar.start_s + bar.duration_s for bar in bars), default=0.0)
    busy: dict[str, float] = {}
    for bar in bars:
        if bar.unit != "dependence":
            busy[bar.unit] = busy.get(bar.unit, 0.0) + bar.duration_s
    return tuple(Unit(name, time, end - time) for name, time in busy.items())


def parts(scenario: Scenario) -> tuple[LatencyPart, ...]:
    """Where a request's latency goes by group of operators, largest first; it adds up to all of it. [s]"""
    _known(scenario)
    report = evaluate(scenario)
    times: dict[str, float] = {}
    for op in report.ops:
        times[op.group] = times.get(op.group, 0.0) + op.time_s
    for row in report.other:
        name = "synchronisation" if row.name.startswith("ring sync") else row.name
        times[name] = times.get(name, 0.0) + row.time_s
    ranked = sorted(times.items(), key=lambda item: -item[1])
    return tuple(LatencyPart(name, time, time / report.latency_s) for name, time in ranked)


def uses(scenario: Scenario) -> tuple[Use, ...]:
    """Fabric the scenario's machine takes: derived where the document gives a rule, else as printed. [-]"""
    bound = _known(scenario)
    device, fabric = bound.device, bound.device.fpga
    if device.dfx is None:
        npu = device.npu
        assert npu is not None
        units = npu.native_dim.si * npu.lanes.si * npu.tiles.si
        held = next((d for d in densities(device) if d.format == scenario.precision), None)
        most = held.hard + held.soft if held else None
        basis = "fitted to the 80,000 units printed for a Stratix 10 280"
        found = [Use(f"multiply-accumulators, {scenario.precision}", units, most, basis)]
        if fabric is not None:
            found += [
                Use(f"{name}, there", value.si, None, value.basis)
                for name, value in (("ALM", fabric.alm), ("DSP blocks", fabric.dsp), ("M20K", fabric.m20k))
                if value is not None
            ]
        return tuple(found)
    tile = _tile(scenario, bound)
    slices = dsp_slices(*tile, vector_lanes(device.dfx))
    there = fabric.dsp.si if fabric and fabric.dsp else None
    rows = [Use(f"DSP, {name}", number, there, "derived") for name, number in slices.items()]
    rows.append(Use("DSP, whole core", sum(slices.values()), there, "derived"))
    for name, label in (("lut", "LUT"), ("ff", "FF"), ("bram36", "BRAM"), ("uram", "URAM")):
        total = getattr(fabric, name) if fabric else None
        if fabric and total is not None and name in fabric.used:
            printed = "printed" if not scenario.tile else "printed for the core's own tile"
            rows.append(Use(label, fabric.used[name].si * total.si, total.si, printed))
    return tuple(rows)


@lru_cache(maxsize=64)
def _tiles(token: str) -> TileLatencies:
    scenario = decode(token)
    bound = bind(scenario)
    knobs = bound.family.knobs(bound.device) if bound.family.knobs else ()
    found: dict[tuple[int, int], float] = {}
    rows, columns = (knob.values for knob in knobs)
    for tile in itertools.product(rows, columns):
        try:
            found[tile] = evaluate(scenario.with_(tile=tile)).latency_s
        except Unsupported:
            continue  # more slices than the part has
    best, slices = _best_of(bound, found)
    table = tuple(tuple(found.get((r, c)) for c in columns) for r in rows)
    return TileLatencies(tuple(k.name for k in knobs), rows, columns, table, best, slices, _tile(scenario, bound))


def _best_of(bound: Bound, costs: Mapping[tuple[int, int], float]) -> tuple[tuple[int, int], float]:
    dfx = bound.device.dfx
    assert dfx is not None
    slices = {tile: sum(dsp_slices(*tile, vector_lanes(dfx)).values()) for tile in costs}
    best = chosen(costs, slices)
    return best, slices[best]


def best_tile(scenario: Scenario, costs: Mapping[tuple[int, int], float]) -> tuple[tuple[int, int], float] | None:
    """Of tiles with a cost each (less is better), the one to take, and its DSP slices. [-]

    Of those within `tiling.SAME` of the least cost it takes the fewest slices. None where slices don't decide.
    """
    bound = _known(scenario)
    return _best_of(bound, costs) if bound.device.dfx is not None and costs else None


def tile_map(scenario: Scenario) -> TileLatencies | None:
    """Latency over the two knobs of the tile; None where the machine has none."""
    bound = _known(scenario)
    return _tiles(encode(scenario)) if bound.device.dfx is not None else None


def errors(scenario: Scenario) -> tuple[Error, ...]:
    """A small drawn network run in the machine's arithmetic: a GPT-2 of two layers, or a recurrent cell of 16 steps."""
    bound = _known(scenario)
    device = bound.device
    if device.dfx is not None:
        link = bound.wire("peer")
        model = bound.family.model(device)
        record = core_record(device, link.link if link else None, 1, scenario.devices, _tile(scenario, bound), model)
        found = dfx_accuracy.accuracy(record)
        said = (
            f"{found.agreed} of {len(found.tokens)} tokens equal those of float32; the least lead is {found.lead:.1%}"
        )
        return (Error("Logits of a 2-layer GPT-2", found.deviation, said),)
    npu = device.npu
    assert npu is not None
    cell = next((k for k in ("lstm", "gru") if k in scenario.workload), "gru")
    native = round((npu.block or npu.native_dim).si)
    rows = []
    for format in bound.family.formats(device):
        for block, said in ((0, "an exponent a value"), (native, f"an exponent for {native} values")):
            if block and not format.startswith("ms-fp"):
                continue
            error = npu_accuracy.accuracy(cell, format, block)[-1]
            rows.append(Error(f"{cell.upper()} state after 16 steps, {format}", error, said))
    return tuple(rows)


def generations(device: Device) -> tuple[Generation, ...]:
    """The device and the catalog's other soft processors on other parts, by precision; empty for other kinds."""
    if not densities(device):
        return ()
    catalog = default_catalog()
    others = [d for d in (catalog.device(id) for id in catalog.ids("devices")) if densities(d)]
    found: dict[float, Device] = {_logic(device): device}
    for other in others:
        found.setdefault(_logic(other), other)
    rows = []
    for part in found.values():
        format = next(iter(part.peak))
        rows.append(
            Generation(part.name.rpartition(" on ")[2], densities(part), (format, family("npu").peak(part, format)))
        )
    return tuple(rows)


def _logic(device: Device) -> float:
    """Which part it is: its logic modules. [ALM]"""
    assert device.fpga is not None
    assert device.fpga.alm is not None
    return device.fpga.alm.si


def machine(scenario: Scenario) -> MachineReport:
    """All of it."""
    device = _known(scenario).device
    shown = evaluate(scenario).timeline_of
    return MachineReport(
        device.name,
        shown,
        units(scenario),
        parts(scenario),
        uses(scenario),
        errors(scenario),
        tile_map(scenario),
        densities(device),
    )
