"""Multicore CPUs: cores shared by streams, SIMD by format, a cache hierarchy, and a framework that issues operators.

A stream owns ``cores / streams`` cores. A product of matrices first streams its weights (one row is multiplied on the
way, so a matrix-vector product costs what its weights cost) and then works from cache at a share of the SIMD peak.
What an operator reads and writes comes from L2, the last-level cache or DRAM by how much of it fits. Lookups pay
latency over the misses a core keeps in flight. A framework adds a cost per operator and per sample. All estimates.
"""

from collections.abc import Mapping

import numpy as np

from engine.devices.common.cached import remembered
from engine.devices.common.column import smaller
from engine.devices.common.contract import COMPUTE, OVERHEAD, Compiled, DeviceFamily, Fit, PhaseCost
from engine.devices.common.counts import records
from engine.devices.common.fabric import what_if_ratio
from engine.devices.common.footprint import footprint
from engine.devices.common.host_work import ON_CORES, raw_features
from engine.devices.common.job import Job
from engine.devices.common.kv_cache import kv_format
from engine.devices.common.model_file import model_file
from engine.devices.common.offer import CollectiveWire
from engine.devices.common.setting import Knob
from engine.devices.cpu import streams as C
from engine.devices.cpu.fields import HYPER_THREADS, INTER_OP, NUMA, RUNTIME, TURBO
from engine.devices.cpu.flags import flags_of, sources_of
from engine.devices.cpu.model import price_points
from engine.devices.cpu.record import (
    call_seconds,
    clock_in_use,
    code_seconds,
    cores_of,
    cpu_of,
    in_company,
    levels_of,
    other_calls,
    peak,
    record,
    sizes_of,
    threads_of,
    wide_format,
)
from engine.devices.cpu.share import LINE, R
from engine.scenario import Scenario
from engine.scenario.formats import BITS, WEIGHT_ONLY
from hardware_specs.schema import Device
from model_zoo import table as T
from model_zoo.ops import Graph


def formats(device: Device) -> tuple[str, ...]:
    """Formats its cores have arithmetic for, fastest first; then weights alone narrower, which any core unpacks.

    Binary where the spec gives a population-count rate.
    """
    cpu = cpu_of(device)
    result = sorted((f for f in cpu.flop_per_cycle if f != "binary"), key=lambda f: -cpu.flop_per_cycle[f].si)
    return (*result, *sorted(WEIGHT_ONLY), *(["binary"] if cpu.popcount_bits_per_cycle is not None else []))


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this CPU can't run the graph in that format, or None."""
    kinds = {op.kind for op in graph.ops}
    binary = "BinaryGemm" in kinds or kinds == {"Sign"}  # the last part of a cut binary network may only compare
    if "BinaryGemm" in kinds and cpu_of(device).popcount_bits_per_cycle is None:
        return f"{device.name} has no figure for xor-and-count (cpu.popcount_bits_per_cycle), which binary layers need."
    if format == "binary" and not binary:
        return f"{device.name} computes in binary only for networks with binary layers; choose another precision."
    if "fp32" not in cpu_of(device).flop_per_cycle:
        return f"{device.name} lists no FP32 rate (cpu.flop_per_cycle.fp32), which element-wise operators need."
    return None


def place(job: Job) -> tuple[Fit, ...]:
    """DRAM must hold everything; the caches hold what they can."""
    levels = levels_of(job.device)
    wide = wide_format(job.device, job.format)
    need = footprint(job, wide=wide, table_bits=BITS[wide])
    beside = ", ".join(["weights", *(["tables"] if need.tables else []), *(["state"] if need.state else [])])
    dram, holds = levels.dram, f"{beside} and activations"
    fits = [Fit(dram.name, dram.role, need.total, dram.capacity.si, holds, state_bytes=need.state)]
    if levels.last:
        working_set = sum(sizes_of(job)) + need.activations
        fits.append(Fit(levels.last.name, "onchip", working_set, levels.shared, holds, False))
    if levels.inner:
        per_core, holds = need.activations / job.streams / cores_of(job), "one core's share of the activations"
        fits.append(Fit(levels.inner.name, "onchip", per_core, levels.private, holds, False))
    return tuple(fits)


@remembered(lambda job: (id(job.phase), job.model["inter_op"] > 1.0))
def tables(job: Job) -> tuple[np.ndarray, np.ndarray]:
    """Counts of the operators of a job's phase, and what its edges say of them. [-]"""
    flags = flags_of(job.phase)
    if job.model["inter_op"] > 1.0:
        flags = np.concatenate([flags, sources_of(job.phase)], axis=1)
    return np.array(T.lower(job.phase)), flags  # writable, as a part of it is: one compiled version serves both


def _columns(job: Job, **changes: float) -> np.ndarray:
    """Columns of `engine.devices.cpu.streams`, a row an operator of the job; fields of its record may be changed."""
    sizes, once = np.array([job.sizes], dtype=np.float64).T.copy(), np.ones(len(job.rows))
    fields = [changes.get(name, value) for name, value in zip(R._fields, record(job), strict=True)]
    design = *tables(job), float(job.ways), sizes, records([fields])
    return price_points(0, 1, job.rows, once, *design, np.zeros((6, 1)))[job.rows]


def _intake(job: Job) -> tuple[tuple[str, str, float], ...]:
    """Time until a part of a network has in its caches what another made, as (name, resource, seconds).

    Each core of the stream draws its share of the lines one by one, at the latency of the part's memory. An estimate.
    """
    names, by_name = {op.name for op in job.ops}, {op.name: op for op in job.phase.ops}
    inputs = {name for op in job.ops for name in op.inputs if name in by_name and name not in names}
    bits = 1.0 if job.format == "binary" else BITS[wide_format(job.device, job.format)]
    size = sum(by_name[name].writes.at(job.batch, job.length, job.context) * bits / 8 for name in inputs)
    if not size:
        return ()
    latency, usual = levels_of(job.device).dram.latency, job.model["dram_latency"]
    line_s = job.model["handover_line"] * (1.0 if latency is None else latency.si / usual)
    return (("input of this part drawn into its caches", "offchip", size / LINE * line_s / cores_of(job)),)


def price(job: Job) -> PhaseCost:
    """Cost of one pass of one stream, the other streams busy alike. An estimate."""
    out = lasting = _columns(job)
    if job.model["inter_op"] > 1.0:  # beside others an operator lasts longer than the pass takes longer with it
        lasting = np.maximum(out, _columns(job, inter_op=1.0))
    use, where = instructions_per_cycle(job, lasting), f"{job.device.name}, {job.phase.name}"
    notes = (f"{where}: about {use:.1f} instructions a cycle on a busy core",) if use is not None else ()
    if _waits_for_calls(job, out):
        ways = "faster operators don't shorten it, processes of their own do (model.shared_interpreter = 0)"
        notes += (f"{where}: a batch waits for the calls of all other streams; {ways}",)
    columns = (out[:, at] for at in (C.WORK, C.ROOF, C.MOVED, C.NEAR))
    counters, durations = top_down(job, lasting), lasting[:, :6].sum(axis=1)
    return PhaseCost(out[:, :6], *columns, overheads=_intake(job), notes=notes, counters=counters, durations=durations)


def _waits_for_calls(job: Job, out: np.ndarray) -> bool:
    """Whether the calls of all other streams take as long as a pass, whose columns hold its waits for them."""
    calls_s = other_calls(job)
    return bool(calls_s and out[:, :6].sum() <= calls_s * (1.0 + 1e-9))


def helps(job: Job) -> tuple[tuple[str, float], ...]:
    """Where calls that take turns set the rate, shorter ones alone shorten a pass, in proportion. [-] An estimate."""
    waits = other_calls(job) and _waits_for_calls(job, _columns(job))
    return (("calls of the interpreter, which take turns", 1.0),) if waits else ()


def top_down(job: Job, out: np.ndarray) -> dict[str, np.ndarray]:
    """Where issue slots of each op's cores go, and the cache lines that DRAM sends in one execution. [-], [1/cycle]

    Slots retire instructions while arithmetic runs, as `instructions_per_cycle` has it; those left of its time wait for
    the core's own units, of the waits for caches and DRAM for memory, of operators issued and threads joined for the
    runtime: shares of the op's time that add up to 1. Estimates; nothing where the spec lists no issue width.
    """
    width = cpu_of(job.device).issue_width
    if width is None:
        return {}
    total = out[:, :6].sum(axis=1)
    time = np.where(total > 0.0, total, 1.0)
    compute, runtime = out[:, COMPUTE], out[:, OVERHEAD]
    retiring = job.model["issue_share"] * np.minimum(1.0 - runtime / time, out[:, C.BUSY] / time)
    waiting = 1.0 - retiring - runtime / time
    core = np.maximum(0.0, compute / time - retiring)
    runs = np.array([op.layers * op.steps.at(job.batch, job.length, job.context) for op in job.ops])
    counters = {
        "instructions_per_cycle": width.si * retiring,
        "dram_lines": out[:, C.MOVED] / LINE / np.maximum(runs, 1.0),
        "retiring_share": retiring,
        "core_share": core,
        "memory_share": np.maximum(0.0, waiting - core),  # which may differ in the last bit
        "runtime_share": runtime / time,
    }
    return {name: np.where(total > 0.0, value, 0.0) for name, value in counters.items()}


def instructions_per_cycle(job: Job, out: np.ndarray | None = None) -> float | None:
    """IPC of a busy core: issue slots are `issue_share` full while arithmetic runs, empty while it waits. [1/cycle]

    An estimate; None where the spec lists no issue width. ``out`` is what pricing the job leaves, where that is known.
    """
    out = _columns(job) if out is None else out
    width, total_s = cpu_of(job.device).issue_width, float(out[:, :6].sum())
    if width is None or total_s <= 0:
        return None
    return width.si * job.model["issue_share"] * min(1.0, float(out[:, C.BUSY].sum()) / total_s)


def request(job: Job) -> tuple[tuple[str, str, float], ...]:
    """A call of the framework and what it does with features of a request, as (name, resource, seconds). [s]

    An estimate. A session apart parses them where it hashes them.
    """
    if not job.switches["framework"]:
        return ()
    model, features = job.model, job.batch * raw_features(job) / cores_of(job)
    cycles = features * (model["feature_cycles"] + model["feature_bytes"] * model["byte_cycles"])
    items = {
        "features parsed by the framework": 0.0 if job.switches["preprocess-apart"] else code_seconds(job, cycles),
        "framework called": code_seconds(job, model["pass_cycles"]) + call_seconds(job),
    }
    return tuple((name, "overhead", seconds) for name, seconds in items.items() if seconds)


def draws(device: Device, model: Mapping[str, float]) -> float:
    """Power of a what-if over that of the catalog's part: cores leak alike, and switch with their clock. [-]"""
    cores, clock = what_if_ratio((cpu_of(device).cores,)), what_if_ratio((cpu_of(device).clock,))
    return cores * (model["idle_share"] + (1.0 - model["idle_share"]) * clock)


def idles(device: Device, model: Mapping[str, float]) -> float | None:
    """What a CPU draws while no core works. [W] An estimate, where no idle power is published."""
    power = device.power.loaded or device.power.max
    if power is None:
        return None
    return model["idle_share"] * power.si * (what_if_ratio((cpu_of(device).cores,)) if power.before is None else 1.0)


def activity(job: Job, watts: float) -> list[float]:
    """What the cores of a stream draw beside `idles`, by what takes their time, as `DeviceFamily.activity` has it. [W]

    A limit is met where all cores compute on their widest units; a power measured under load has its waits in it.
    """
    cpu, wide, waits = cpu_of(job.device), 1.0, 1.0
    stream_w = watts * (cores_of(job) / cpu.cores.si) * smaller(1.0, clock_in_use(job, cpu.clock.si) / cpu.clock.si)
    if job.device.power.loaded is None:
        waits = job.model["waiting_share"]
        wide = 1.0 if job.format in cpu.vector_clock else job.model["scalar_share"]
    return [stream_w * wide, *[stream_w * waits] * 5, 0.0]


def path(switches: Mapping[str, bool], model: Mapping[str, float]) -> tuple[str, float] | None:
    """A request's way through the host's network stack and back, where it is counted. [s] Published."""
    return ("through NIC, PCIe and network stack, and back", model["host_path"]) if switches["network"] else None


def most_threads(device: Device, scenario: Scenario) -> int:
    """Threads for operators of their own: of all cores, over the operators that a stream runs side by side. [-]"""
    threads = max(1, int(cpu_of(device).cores.si)) * (scenario.threads_per_core or 1)
    return max(1, threads // (scenario.inter_op_threads or 1))


def knobs(device: Device, graph: Graph, scenario: Scenario) -> tuple[Knob, ...]:
    """Threads of a stream."""
    return (Knob("threads", "Threads of a stream", tuple(range(1, most_threads(device, scenario) + 1))),)


FAMILY = DeviceFamily(
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    compiled=Compiled(record, tables, price_points, (True, False), in_company, _intake),
    request=request,
    path=path,
    idles=idles,
    draws=draws,
    activity=activity,
    helps=helps,
    knobs=knobs,
    tile=lambda job: (int(threads_of(job)),),
    max_streams=most_threads,
    mixed=wide_format,
    collective=CollectiveWire(wide_format),
    fields={
        "kv_format": kv_format(lambda device, format: (bits := BITS[wide_format(device, format)], bits)),
        "runtime": RUNTIME,
        "turbo": TURBO,
        "threads_per_core": HYPER_THREADS,
        "inter_op_threads": INTER_OP,
        "numa": NUMA,
    },
    **model_file(__file__, after=ON_CORES),
)
