"""What one stream of a job sees of a CPU: its share of cores, caches and memory, as the record that is priced.

Rates are a data sheet's; shares of them are parameters with a basis each.
"""

import math
from dataclasses import dataclass

import numpy as np

from engine.devices.common.cached import remembered
from engine.devices.common.column import NotAlike, larger, one_by_one, smaller
from engine.devices.common.host_work import hashes
from engine.devices.common.job import Job
from engine.devices.cpu.share import LINE, R
from engine.scenario.formats import BITS, WEIGHT_ONLY
from hardware_specs.schema import Cpu, Device, MemoryLevel
from model_zoo.ops import LOOKUPS

REFERENCE_WIDTH = 64.0  # FLOP a cycle of the AVX-512 core on which `gemm_efficiency` was fitted
CODE_WIDTH = 4.0  # instructions a cycle of the core whose cycles `runtimes.yaml` counts: a unit, not a measurement
PAGE = 4096.0  # bytes
MATRIX = 8.0  # times the FP32 rate: above it a format runs on matrix units (AMX)


def peak(device: Device, format: str) -> float:
    """Cores x clock on the widest units x operations a cycle. [FLOP/s] A bound; an xor-and-count is two operations."""
    cpu = cpu_of(device)
    if format == "binary":
        bits = cpu.popcount_bits_per_cycle
        return 0.0 if bits is None else cpu.cores.si * cpu.clock.si * 2.0 * bits.si
    if format in WEIGHT_ONLY:  # products unpack the weights and multiply in the wide format
        format = wide_format(device, format)
    return cpu.cores.si * clock_of(device, format) * cpu.flop_per_cycle[format].si


def clock_of(device: Device, format: str) -> float:
    """Clock of the widest units; a what-if of the clock alone moves it in proportion. [1/s]"""
    cpu = cpu_of(device)
    clock = cpu.vector_clock.get(format)
    if clock is None:
        return cpu.clock.si
    return clock.si if clock.before is not None else clock.si * cpu.clock.si / cpu.clock.catalog_si


def cpu_of(device: Device) -> Cpu:
    """The spec's processor."""
    assert device.cpu is not None, device.id
    return device.cpu


def wide_format(device: Device, format: str) -> str:
    """Format of what may not run in the scenario's one: itself from 16 bits up, else BF16 or FP32."""
    if BITS[format] >= 16:
        return format
    return "bf16" if "bf16" in cpu_of(device).flop_per_cycle and format != "binary" else "fp32"


@dataclass(frozen=True)
class Levels:
    """The hierarchy as the model sees it; bandwidths in B/s, capacities in B."""

    dram: MemoryLevel
    last: MemoryLevel | None  # the cache all cores share
    inner: MemoryLevel | None  # the largest of one core, or one before the last that cores share
    sharers: float = 1.0  # cores that share `inner`

    @property
    def shared(self) -> float:
        """Capacity of the shared cache. [B]"""
        return self.last.capacity.si if self.last else 0.0

    @property
    def private(self) -> float:
        """Capacity of one core's cache, or of its part of one that cores share before the last. [B]"""
        return self.inner.capacity.si / self.sharers if self.inner else 0.0


def _largest(levels: list[MemoryLevel]) -> MemoryLevel | None:
    """The largest of some levels; what is alone is not asked for its capacity."""
    return levels[0] if len(levels) == 1 else max(levels, key=lambda m: m.capacity.si, default=None)


def levels_of(device: Device) -> Levels:
    """DRAM (or the only memory), the largest cache of the device and the largest of a core.

    Where no cache is a core's, one that cores share before the last is divided among them.
    """
    dram = _largest([m for m in device.memory if m.role == "offchip"] or list(device.memory))
    assert dram is not None, device.id
    caches = [m for m in device.memory if m.role == "onchip"]
    per_core, common = ([m for m in caches if m.per == per] for per in ("core", "device"))
    last = _largest(common)
    if per_core:
        return Levels(dram, last, _largest(per_core))
    return Levels(dram, last, _largest([m for m in common if m is not last]), cpu_of(device).cores.si)


def _figure_of(level: MemoryLevel | None, name: str) -> float | None:
    """A figure of a level, where there is the level and its spec prints it. [SI]"""
    quantity = getattr(level, name) if level is not None else None
    return quantity.si if quantity is not None else None


def threads_of(job: Job) -> float:
    """Threads of an operator: the tile's first number, at most its share of those of all cores. [-]"""
    threads = cpu_of(job.device).cores.si * job.model["threads_per_core"]
    share = larger(1.0, threads // (job.streams * job.model["inter_op"]))
    return smaller(share, float(job.tile[0])) if job.tile else share


def cores_of(job: Job) -> float:
    """Cores that a stream's threads fill, a part of one where hyper-threads of another stream have the rest. [-]"""
    threads = threads_of(job) * job.model["inter_op"]
    if job.model["threads_per_core"] == 1.0:
        return threads
    return smaller(threads, cpu_of(job.device).cores.si / job.streams)


def in_company(job: Job) -> bool:
    """Whether operators run beside others, of their stream or of another one: all of a phase is priced at once."""
    return _beside_others(job) or bool(job.model["inter_op"] > 1.0)


def _beside_others(job: Job) -> bool:
    """Whether a stream runs beside others: all of a phase is priced at once then, so designs that differ in it differ
    in structure."""
    try:
        return bool(job.streams > 1)
    except NotAlike as error:
        raise NotAlike(error.axes, overflow=True) from None


@remembered(lambda job: (id(job.graph), wide_format(job.device, job.format), job.format, job.ways))
def sizes_of(job: Job) -> tuple[float, float]:
    """Bytes of the network's weights and of its lookup tables. [B]"""
    low, wide = BITS[job.format] / 8, BITS[wide_format(job.device, job.format)] / 8
    weights = tables = 0.0
    seen: set[str] = set()
    for op in job.graph.ops:
        if op.stored == 0 or op.name in seen:
            continue
        seen.add(op.name)
        size = op.stored * op.layers / (1 if op.shard == "none" else job.ways)
        if op.kind in LOOKUPS:
            tables += size * wide
        elif op.kind == "BinaryGemm":
            weights += size / 8
        else:
            weights += size * (low if op.quantisable and job.format != "binary" else wide)
    return weights, tables


def clock_in_use(job: Job, clock: float) -> float:
    """Clock of as many cores as all streams use, in proportion between one core's and that of all. [1/s]

    Few cores on their widest units have power to spare: their clock ends at the same turbo as any code's. Without turbo
    all keep to the base clock, or to the share of it that a licence leaves.
    """
    cpu = cpu_of(job.device)
    if job.model["turbo"] == 0.0 and cpu.base_clock is not None:
        return clock * smaller(1.0, cpu.base_clock.si / cpu.clock.si)
    if cpu.turbo is None:
        return clock
    spare = 1.0 - smaller(1.0, (cores_of(job) * job.streams - 1.0) / larger(1.0, cpu.cores.si - 1.0))
    return clock + spare * larger(0.0, cpu.turbo.si - clock)


def code_seconds(job: Job, cycles: float) -> float:
    """Time of a runtime's own code, counted in cycles of a core that issues `CODE_WIDTH` instructions. [s]

    As many instructions in as many cycles the more as a core is narrower. An estimate.
    """
    cpu = cpu_of(job.device)
    narrower = CODE_WIDTH / cpu.issue_width.si if cpu.issue_width is not None else 1.0
    return cycles / clock_in_use(job, cpu.clock.si) * narrower


def call_seconds(job: Job) -> float:
    """What a call takes of an interpreter that feeds raw features, whose lock lets one at a time. [s] An estimate."""
    return job.model["call_time"] if job.switches["framework"] and hashes(job.ops) else 0.0


def other_calls(job: Job) -> float:
    """What the calls of all other streams take, where streams are threads of an interpreter. [s] An estimate."""
    return (job.streams - 1.0) * call_seconds(job) * job.model["shared_interpreter"]


def _arithmetic(job: Job, low: str, wide: str) -> dict[str, float]:
    """What a stream's cores compute in the formats of products and of the rest. [-], [FLOP/s], [FLOP]"""
    device, model, cpu = job.device, job.model, cpu_of(job.device)
    cores, clock = cores_of(job) / model["inter_op"], clock_in_use(job, cpu.clock.si)
    single, alone = cpu.flop_per_cycle["fp32"], job.format in WEIGHT_ONLY

    issue = cpu.issue_width.si if cpu.issue_width is not None else CODE_WIDTH
    narrow = one_by_one(pow, smaller(1.0, issue / CODE_WIDTH), model["issue_exponent"])

    def share_of_peak(format: str) -> float:
        usual = clock_of(device, format)
        return cores / cpu.cores.si * peak(device, format) * (clock_in_use(job, usual) / usual)

    def width(format: str) -> float:
        """As the catalog lists both: a what-if of one format leaves the units of the others as they are. [FLOP]"""
        flop = cpu.flop_per_cycle[format]
        return flop.si * (single.catalog_si / flop.catalog_si)

    def efficiency(name: str, format: str) -> float:
        """Share of a format's peak that products, or convolutions, reach at this part's width: 1 at most. [-]"""
        wider = one_by_one(pow, REFERENCE_WIDTH / width(format), model["width_exponent"]) * narrow
        share = model["low_share"] if BITS[format] < BITS[wide] else 1.0
        if cpu.flop_per_cycle[format].catalog_si > MATRIX * single.catalog_si:
            share = share * model["matrix_share"]
        return smaller(1.0, share * smaller(model["efficiency_ceiling"], model[name] * wider))

    # a vector a cycle: its loads and its store take the ports; never above the units' own peak
    vector_rate = smaller(cores * clock * single.si / 4.0, share_of_peak(wide))
    return {
        "threads": threads_of(job),
        "cores": cores,
        "low_peak": share_of_peak(low),
        "wide_peak": share_of_peak(wide),
        "binary_peak": share_of_peak("binary"),
        "vector_rate": vector_rate,
        "clock": clock,
        "low_gemm": efficiency("gemm_efficiency", low),
        "low_conv": efficiency("conv_efficiency", low),
        "wide_gemm": efficiency("gemm_efficiency", wide),
        "wide_conv": efficiency("conv_efficiency", wide),
        "low_tiles": cpu.int16_per_cycle.si / cpu.flop_per_cycle[low].si if cpu.int16_per_cycle is not None else 0.5,
        "lanes": single.si / 4.0,
        "low_lanes": width(low) / 4.0,
        "wide_lanes": width(wide) / 4.0,
        "weight_bytes": BITS[job.format if alone else low] / 8,
        "unpack_cycles": model["unpack_cycles"] if alone else 0.0,
        "wide_bytes": BITS[wide] / 8,
        "quantised": float(BITS[low] < BITS[wide]),
    }


def _memory(job: Job) -> dict[str, float]:
    """What caches and DRAM have for a stream. [B], [B/s], [s]"""
    model, cpu, levels = job.model, cpu_of(job.device), levels_of(job.device)
    cores, clock = cores_of(job) / model["inter_op"], clock_in_use(job, cpu.clock.si)
    sockets = cpu.sockets.si if cpu.sockets is not None else 1.0
    reach = smaller(sockets, 1.0 * math.ceil(cores_of(job) * sockets / cpu.cores.si))  # it stays on one if it fits
    sharing = larger(1.0, job.streams * reach / sockets)  # streams on the sockets this one uses
    bandwidth, latency = levels.dram.bandwidth, levels.dram.latency
    latency_s = latency.si if latency is not None else model["dram_latency"]
    efficiency = model["dram_efficiency"] if cpu.dram_share is None else cpu.dram_share.si
    all_of_it = bandwidth.si * efficiency if bandwidth is not None else np.inf
    all_of_it *= reach / sockets / (1.0 + (1.0 - 1.0 / reach) * (1.0 / model["remote_share"] - 1.0))
    away, local_s = model["remote_pages"] if job.link is not None else 0.0, latency_s
    if job.link is not None and away:  # lines of that share of the pages cross the link between sockets
        latency_s = latency_s + away * job.link.latency.si
        all_of_it = smaller(all_of_it, job.link.usable / away)
    core_rate, lines, cold = cpu.core_bandwidth, cpu.misses_in_flight, job.switches["cold"]
    rate = model["core_bandwidth"] if lines is None else lines.si * LINE / local_s  # those in flight over latency
    if core_rate is not None:
        rate = core_rate.si
    rate = rate * (local_s / latency_s) if away else rate
    if cold:  # each page first costs a walk and the accesses before the prefetcher follows
        rate = PAGE / (PAGE / rate + model["cold_page_misses"] * model["dram_latency"])
    shared = levels.shared * reach / sockets
    shared_rate = _figure_of(levels.last, "bandwidth") or cpu.cores.si * model["shared_bytes_per_cycle"] * clock
    private_rate = _figure_of(levels.inner, "bandwidth") or model["private_bytes_per_cycle"] * clock
    weights, tables = (np.inf, np.inf) if cold else sizes_of(job)  # that compete for the caches
    return {
        "dram": all_of_it,
        "dram_streams": sharing if _beside_others(job) else 1.0,
        "core_dram": rate,
        "shared_rate": cores * shared_rate / cpu.cores.si,
        "private_rate": cores * private_rate,
        "private": cores * levels.private,
        "shared_share": shared / sharing,
        "shared": shared,
        "weights_total": weights,
        "tables_total": tables,
        "private_latency": _figure_of(levels.inner, "latency") or model["private_latency"],
        "shared_latency": _figure_of(levels.last, "latency") or model["shared_latency"],
        "dram_latency": latency_s,
        "misses": model["misses_in_flight"],
    }


def _calls(job: Job) -> dict[str, float]:
    """What a framework takes for an operator, and what it fuses. [s], [-]"""
    model, framework = job.model, job.switches["framework"] and job.format != "binary"
    names = ("fit-threads", "fuse", "fuse-requantise", "fuse-gathers", "prune", "preprocess-apart")
    return {
        "op_overhead": model["op_overhead"] if framework else 0.0,
        "op_issue": code_seconds(job, model["op_cycles"]) if framework else 0.0,
        "window_overhead": model["window_overhead"] if framework else 0.0,
        "step_overhead": model["step_overhead"] if framework else 0.0,
        "other_calls": other_calls(job),
        **{name.replace("-", "_"): float(job.switches[name]) for name in names},
    }


@remembered(lambda job: job.key)
def record(job: Job) -> list[float]:
    """Flat record of a stream's share of the device, in the order of `cpu.model.R`. [B], [B/s], [FLOP/s], [s]"""
    wide = wide_format(job.device, job.format)
    low = wide if job.format in ("binary", *WEIGHT_ONLY) else job.format  # that products multiply in
    values = {**job.model, **_arithmetic(job, low, wide), **_memory(job), **_calls(job)}  # the rest are parameters
    return [values[name] for name in R._fields]
