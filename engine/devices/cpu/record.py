"""What one stream of a job sees of a CPU: its share of cores, caches and memory, as the record that is priced.

Rates are a data sheet's; shares of them are parameters with a basis each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.devices.common.cached import remembered
from engine.devices.common.column import larger, one_by_one, smaller
from engine.devices.common.contract import Job
from engine.devices.cpu import model as M
from engine.scenario.formats import BITS, WEIGHT_ONLY
from hardware_specs.schema import Cpu, Device, MemoryLevel

_LOOKUPS = ("Gather", "EmbeddingBag")
REFERENCE_WIDTH = 64.0  # FLOP a cycle of the AVX-512 core on which `gemm_efficiency` was fitted
PAGE = 4096.0  # bytes
MATRIX = 8.0  # times the FP32 rate: above it a format runs on matrix units (AMX)


def peak(device: Device, format: str) -> float:
    """Cores x clock on the widest units x operations a cycle. [FLOP/s] A bound; an xor-and-count is two operations."""
    cpu = cpu_of(device)
    if format == "binary":
        if cpu.popcount_bits_per_cycle is None:
            return 0.0
        return cpu.cores.si * cpu.clock.si * 2.0 * cpu.popcount_bits_per_cycle.si
    if format in WEIGHT_ONLY:  # products unpack the weights and multiply in the wide format
        format = wide_format(device, format)
    return cpu.cores.si * clock_of(device, format) * cpu.flop_per_cycle[format].si


def clock_of(device: Device, format: str) -> float:
    """Clock of the widest units; a what-if of the clock alone moves it in proportion. [1/s]"""
    cpu = cpu_of(device)
    listed = cpu.vector_clock.get(format)
    if listed is None:
        return cpu.clock.si
    return listed.si if listed.before is not None else listed.si * cpu.clock.si / cpu.clock.catalog_si


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
    own: MemoryLevel | None  # the largest of one core

    @property
    def shared(self) -> float:
        """Capacity of the shared cache. [B]"""
        return self.last.capacity.si if self.last else 0.0

    @property
    def private(self) -> float:
        """Capacity of one core's cache. [B]"""
        return self.own.capacity.si if self.own else 0.0


def _largest(levels: list[MemoryLevel]) -> MemoryLevel | None:
    """The largest of some levels; what is alone is not asked for its capacity."""
    return levels[0] if len(levels) == 1 else max(levels, key=lambda m: m.capacity.si, default=None)


def levels_of(device: Device) -> Levels:
    """DRAM (or the only memory), the largest cache of the device and the largest of a core."""
    dram = _largest([m for m in device.memory if m.role == "offchip"] or list(device.memory))
    assert dram is not None, device.id
    caches = [m for m in device.memory if m.role == "onchip"]
    return Levels(
        dram, _largest([m for m in caches if m.per == "device"]), _largest([m for m in caches if m.per == "core"])
    )


def _printed(level: MemoryLevel | None, name: str) -> float | None:
    """A figure of a level, where there is the level and its spec prints it. [SI]"""
    quantity = getattr(level, name) if level is not None else None
    return quantity.si if quantity is not None else None


def threads_of(job: Job) -> float:
    """Cores one stream runs on: the tile's first number, at most its share of the cores. [-]"""
    share = larger(1.0, cpu_of(job.device).cores.si // job.streams)
    return smaller(share, float(job.tile[0])) if job.tile else share


def reach_of(cpu: Cpu, threads: float) -> tuple[float, float]:
    """Sockets a stream's threads lie on, and sockets there are. A stream stays on one socket if it fits there. [-]"""
    sockets = cpu.sockets.si if cpu.sockets is not None else 1.0
    return smaller(sockets, 1.0 * math.ceil(threads * sockets / cpu.cores.si)), sockets


@remembered(lambda job: (id(job.graph), wide_format(job.device, job.format), job.format, job.ways))
def sizes_of(job: Job) -> tuple[float, float]:
    """Bytes of the network's weights and of its lookup tables. [B]"""
    low, wide = BITS[job.format] / 8, BITS[wide_format(job.device, job.format)] / 8
    weights = tables = 0.0
    seen: set[str] = set()
    for phase in job.graph.phases:
        for op in phase.ops:
            if op.stored == 0 or op.name in seen:
                continue
            seen.add(op.name)
            size = op.stored * op.layers / (1 if op.shard == "none" else job.ways)
            if op.kind in _LOOKUPS:
                tables += size * wide
            elif op.kind == "BinaryGemm":
                weights += size / 8
            else:
                weights += size * (low if op.quantisable and job.format != "binary" else wide)
    return weights, tables


class StreamView:
    """What a stream sees, each quantity worked out when first asked for. SI."""

    def __init__(self, job: Job) -> None:
        self.job, self.model, self.device, self.cpu = job, job.model, job.device, cpu_of(job.device)

    @cached_property
    def levels(self) -> Levels:
        """The memory hierarchy."""
        return levels_of(self.device)

    @cached_property
    def threads(self) -> float:
        """Cores of the stream. [-]"""
        return threads_of(self.job)

    @cached_property
    def cores(self) -> float:
        """Cores of the device. [-]"""
        return self.cpu.cores.si

    def turbo(self, clock: float) -> float:
        """Clock of as many cores as all streams use, in proportion between one core's and that of all. [1/s]

        Few cores on their widest units have power to spare: their clock ends at the same turbo as any code's.
        """
        if self.cpu.turbo is None:
            return clock
        rest = 1.0 - smaller(1.0, (self.threads * self.job.streams - 1.0) / larger(1.0, self.cores - 1.0))
        return clock + rest * larger(0.0, self.cpu.turbo.si - clock)

    @cached_property
    def clock(self) -> float:
        """Clock outside the widest units. [1/s]"""
        return self.turbo(self.cpu.clock.si)

    @cached_property
    def wide(self) -> str:
        """Format of what may not run in the scenario's one."""
        return wide_format(self.device, self.job.format)

    @cached_property
    def low(self) -> str:
        """The format that products multiply in."""
        return self.wide if self.job.format in ("binary", *WEIGHT_ONLY) else self.job.format

    @property
    def packed(self) -> bool:
        """Whether weights alone are narrow."""
        return self.job.format in WEIGHT_ONLY

    def share_of_peak(self, format: str) -> float:
        """The stream's share of a peak. [FLOP/s]"""
        usual = clock_of(self.device, format)
        return self.threads / self.cores * peak(self.device, format) * (self.turbo(usual) / usual)

    @cached_property
    def width(self) -> float:
        """FP32 operations a core does in a cycle. [FLOP]"""
        return self.cpu.flop_per_cycle["fp32"].si

    @property
    def vector_rate(self) -> float:
        """A vector a cycle: its loads and its store take the ports; never above the units' own peak. [FLOP/s]"""
        return smaller(self.threads * self.clock * self.width / 4.0, self.share_of_peak(self.wide))

    def width_of(self, format: str) -> float:
        """FP32 operations a cycle of units as wide as those of a format. [FLOP]

        As the catalog lists both: a what-if of one format leaves the units of the others as they are.
        """
        single, listed = self.cpu.flop_per_cycle["fp32"], self.cpu.flop_per_cycle[format]
        return listed.si * (single.catalog_si / listed.catalog_si)

    def efficiency(self, name: str, format: str) -> float:
        """Share of a format's peak that products, or convolutions, reach at this part's width. [-]"""
        wider = one_by_one(pow, REFERENCE_WIDTH / self.width_of(format), self.model["width_exponent"])
        share = self.model["low_share"] if BITS[format] < BITS[self.wide] else 1.0
        if self.cpu.flop_per_cycle[format].catalog_si > MATRIX * self.cpu.flop_per_cycle["fp32"].catalog_si:
            share = share * self.model["matrix_share"]
        return share * smaller(self.model["efficiency_ceiling"], self.model[name] * wider)

    @cached_property
    def reach(self) -> tuple[float, float]:
        """Sockets the stream lies on, and sockets there are. [-]"""
        return reach_of(self.cpu, self.threads)

    @property
    def sharing(self) -> float:
        """Streams on the sockets this one uses. [-]"""
        reach, sockets = self.reach
        return larger(1.0, self.job.streams * reach / sockets)

    @property
    def core_dram(self) -> float:
        """Rate at which DRAM streams to one core, its lines in flight over their latency where none is given. [B/s]"""
        model, listed, lines = self.model, self.cpu.core_bandwidth, self.cpu.misses_in_flight
        if listed is not None:
            rate = listed.si
        else:
            rate = model["core_bandwidth"] if lines is None else lines.si * M.LINE / self.dram_latency
        if self.job.switches["cold"]:  # each page first costs a walk and the accesses before the prefetcher follows
            rate = PAGE / (PAGE / rate + model["cold_page_misses"] * model["dram_latency"])
        return rate

    @property
    def dram(self) -> float:
        """What DRAM has for this stream, however many cores draw it. [B/s]"""
        bandwidth = self.levels.dram.bandwidth
        reach, sockets = self.reach
        all_of_it = bandwidth.si * self.model["dram_efficiency"] if bandwidth is not None else np.inf
        all_of_it *= reach / sockets / (1.0 + (1.0 - 1.0 / reach) * (1.0 / self.model["remote_share"] - 1.0))
        return all_of_it / self.sharing

    @property
    def shared(self) -> float:
        """Last-level cache of the sockets it lies on. [B]"""
        reach, sockets = self.reach
        return self.levels.shared * reach / sockets

    @property
    def shared_rate(self) -> float:
        """Its share of what that cache delivers. [B/s]"""
        every = _printed(self.levels.last, "bandwidth")
        every = every or self.cores * self.model["shared_bytes_per_cycle"] * self.clock
        return self.threads * every / self.cores

    @property
    def private_rate(self) -> float:
        """What the caches of its cores deliver. [B/s]"""
        each = _printed(self.levels.own, "bandwidth")
        return self.threads * (each or self.model["private_bytes_per_cycle"] * self.clock)

    @property
    def dram_latency(self) -> float:
        """Of a miss. [s]"""
        latency = self.levels.dram.latency
        return latency.si if latency is not None else self.model["dram_latency"]

    @property
    def framework(self) -> bool:
        """Whether a framework issues the operators."""
        return self.job.switches["framework"] and self.job.format != "binary"

    def parameters(self, which: int) -> float:
        """Bytes of weights (0) or tables (1) that compete for the caches; none stays there in a cold run. [B]"""
        return np.inf if self.job.switches["cold"] else sizes_of(self.job)[which]


@remembered(lambda job: job.key)
def record(job: Job) -> list[float]:
    """Flat record of a stream's share of the device, in the order of `cpu.model.R`. [B], [B/s], [FLOP/s], [s]"""
    view, model = StreamView(job), job.model
    own = {
        "threads": view.threads,
        "low_peak": view.share_of_peak(view.low),
        "wide_peak": view.share_of_peak(view.wide),
        "binary_peak": view.share_of_peak("binary"),
        "vector_rate": view.vector_rate,
        "lanes_rate": view.vector_rate,
        "clock": view.clock,
        "low_gemm": view.efficiency("gemm_efficiency", view.low),
        "low_conv": view.efficiency("conv_efficiency", view.low),
        "wide_gemm": view.efficiency("gemm_efficiency", view.wide),
        "wide_conv": view.efficiency("conv_efficiency", view.wide),
        "lanes": view.width / 4.0,
        "low_lanes": view.width_of(view.low) / 4.0,
        "wide_lanes": view.width_of(view.wide) / 4.0,
        "dram": view.dram,
        "core_dram": view.core_dram,
        "shared_rate": view.shared_rate,
        "private_rate": view.private_rate,
        "private": view.threads * view.levels.private,
        "shared_share": view.shared / view.sharing,
        "shared": view.shared,
        "weights_total": view.parameters(0),
        "tables_total": view.parameters(1),
        "weight_bytes": BITS[view.job.format if view.packed else view.low] / 8,
        "unpack_cycles": model["unpack_cycles"] if view.packed else 0.0,
        "wide_bytes": BITS[view.wide] / 8,
        "quantised": float(BITS[view.low] < BITS[view.wide]),
        "private_latency": _printed(view.levels.own, "latency") or model["private_latency"],
        "shared_latency": _printed(view.levels.last, "latency") or model["shared_latency"],
        "dram_latency": view.dram_latency,
        "misses": model["misses_in_flight"],
        "op_overhead": model["op_overhead"] if view.framework else 0.0,
        "op_issue": model["op_cycles"] / view.clock if view.framework else 0.0,
        "window_overhead": model["window_overhead"] if view.framework else 0.0,
        "step_overhead": model["step_overhead"] if view.framework else 0.0,
        "fit_threads": float(view.job.switches["fit-threads"]),
        "fuse": float(view.job.switches["fuse"]),
        "fuse_requantise": float(view.job.switches["fuse-requantise"]),
        "fuse_gathers": float(view.job.switches["fuse-gathers"]),
        "prune": float(view.job.switches["prune"]),
        "preprocess_apart": float(view.job.switches["preprocess-apart"]),
    }
    values = {**model, **own}  # the rest are parameters
    return [values[name] for name in M.R._fields]
