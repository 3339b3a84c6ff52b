"""Brainwave-like soft vector processors: weights pinned in on-chip memory, one request at a time.

Matrix work is counted in native tiles over the tile engines. A recurrent step takes the longer of the work it gives
to the engines and the depth of the chain from its state to the next one (`npu_isa.chains`): inputs are multiplied
ahead while the chain of the state is under way, so the two overlap and do not add. Sources: Chung et al., IEEE Micro
2018; tiling and chains recalled from Fowers et al., ISCA 2018. Estimates.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from engine.devices.common.column import as_doubles
from engine.devices.common.contract import DeviceFamily, PhaseCost
from engine.devices.common.fabric import POWER, idle_power, scaled_power, what_if_ratio
from engine.devices.common.host_work import PARSING, parsed_on_host
from engine.devices.common.job import Job
from engine.devices.common.model_file import model_file
from engine.devices.npu.chains import CELLS, DEPTHS
from engine.devices.npu.density import device_for, overfull
from engine.devices.npu.instance import Engine
from engine.devices.npu.pinning import formats, levels, npu_of, pinned_memory, pins, place
from engine.devices.npu.price import PassCost, cell_of, pass_cost, peak, work
from hardware_specs.quantity import Quantity
from hardware_specs.schema import Device
from model_zoo.ops import Graph, recurrence


def _what_if(device: Device) -> tuple[Any, Quantity]:
    """By how much what-ifs move its multipliers, [-], and its clock."""
    npu = npu_of(device)
    return what_if_ratio((npu.native_dim, npu.lanes, npu.tiles, npu.cores, npu.batch_lanes)), npu.clock


def draws(device: Device, model: Mapping[str, float]) -> float:
    """Power of an instance over that of the catalog's. [-] Its multipliers, clock and on-chip bandwidth are its own."""
    return scaled_power(*_what_if(device), pinned_memory(device).bandwidth, model)


def idles(device: Device, model: Mapping[str, float]) -> float | None:
    """What an instance draws while no unit works. [W] An estimate."""
    return idle_power(device, *_what_if(device), model)


def activity(job: Job, watts: float) -> list[float]:
    """What its work draws beside `idles`, as `DeviceFamily.activity` has it. [W], [J] An estimate.

    The printed power is a virus's, which fills every multiplier in every cycle: a multiply-add takes its part of that.
    """
    memory_w = watts * job.model["memory_share"]
    return [0.0, memory_w, 0.0, 0.0, 0.0, 0.0, watts * sum(work(job)) / peak(job.device, job.format)]


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this processor can't run the graph, or None."""
    for phase in graph.phases:
        for op in phase.ops:
            if op.kind == "BinaryGemm":
                return f"{device.name} multiplies small floats; it has no instruction for the binary layer {op.name}."
        at = 0
        while at < len(phase.ops):
            count = recurrence(phase.ops, at)
            if count and cell_of(phase.ops[at : at + count]) not in CELLS:
                return f"{device.name} has programs for RNN, GRU and LSTM steps; {phase.ops[at].name} is none of these."
            at += count or 1
    return overfull(device_for(device, format), format)


def helps(job: Job) -> tuple[tuple[str, float], ...]:
    """What 10% less work of a kind, depth of the units or traffic brings. [-] Found by pricing the pass again."""
    engine = Engine.of(job.device, job.format)
    depths = {f.name: 0.9 * getattr(engine.pipe, f.name) for f in fields(engine.pipe) if f.name != "mfus"}
    near = {"host_visit": 0.9 * job.model["host_visit"], "host_rate": job.model["host_rate"] / 0.9}
    cases = {
        "matrix work": (job, replace(engine, beats=0.9 * engine.beats), 1.0),
        "on-chip memory": (job, replace(engine, fetch=0.9 * engine.fetch), 1.0),
        "vector work": (job, replace(engine, vector_beats=0.9 * engine.vector_beats), 1.0),
        "the dependence of steps": (job, replace(engine, pipe=replace(engine.pipe, **depths)), 1.0),
        "off-chip memory": (job, engine, 0.9),
        "host": (replace(job, model={**job.model, **near}), engine, 1.0),
    }

    def total(sheet: PassCost) -> float:
        return float(sheet.seconds.sum()) + sum(seconds for _, _, seconds in sheet.overheads)

    now = total(pass_cost(job, engine))
    return tuple((name, 10.0 * (1.0 - total(pass_cost(*case)) / now)) for name, case in cases.items())


def price(job: Job, detail: bool = True) -> PhaseCost:
    """Cost of one pass on one processor; requests of a batch run one after the other."""
    sheet = pass_cost(job)
    seconds, overheads = as_doubles(sheet.seconds), tuple(sheet.overheads)
    if not detail:
        return PhaseCost(seconds, overheads=overheads)
    spilled_bytes, dram_name, spans = sheet.offchip.astype(np.float64), levels(job.device)[4], sheet.step_spans()
    notes = []
    defaults = [name for name in DEPTHS if name not in npu_of(job.device).depths]
    if defaults:
        notes.append(f"Pipeline depths taken from the Stratix 10 instance: {', '.join(defaults)}.")
    tiles = [npu_of(device).tiles.si for device in (device_for(job.device, job.format), job.device)]
    if tiles[0] < tiles[1]:
        notes.append(f"In {job.format} the part holds {tiles[0]:.0f} of the instance's {tiles[1]:.0f} tile engines.")
    if sheet.host_ops:
        notes.append(f"Left to the host's CPU, for want of an instruction: {', '.join(sheet.host_ops[:6])}.")
    if spilled_bytes.any():
        notes.append(
            f"{spilled_bytes.sum() / 1e6:.1f} MB of weights a pass come from {dram_name}: they are not pinned."
        )
    return PhaseCost(
        seconds,
        work(job),
        np.full(len(job.ops), peak(job.device, job.format)),
        spilled_bytes,
        sheet.onchip.astype(np.float64),
        overheads=overheads,
        link_bytes=sheet.bytes_out,
        timeline=spans,
        timeline_of="one step of a recurrent layer" if spans else "",
        notes=tuple(notes),
    )


FAMILY = DeviceFamily(
    instructions="engine.devices.npu.answers",
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    helps=helps,
    pins=pins,
    idles=idles,
    draws=draws,
    activity=activity,
    request=parsed_on_host,
    **model_file(__file__, before=PARSING, after=POWER),
)
