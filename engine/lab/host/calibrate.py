"""This machine as a device: probed, written as a spec of basis `measured`, and priced like any other CPU.

The probe gives the roofs (`engine.lab.probe`); a few small operators give what the CPU model otherwise assumes or
calibrates on published figures: the share of the peak a product reaches, what a convolution loses, what a call costs.
No network of the zoo is looked at, so comparing the model with networks measured here is a validation.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from engine.lab.host.measure.cases import MeasureError
from engine.lab.host.profile import HostProfile, probe_profile
from engine.lab.ir.microkernel import MR, NC
from engine.lab.probe import MeasuredRoofline, Prober
from engine.scenario.files import beside
from engine.scenario.token import ScenarioError
from hardware_specs.catalog import spec_text, user_root
from hardware_specs.schema import Device

HOST = "this-host"
_MISSES = 10.0  # line-fill buffers of a core, the family's own figure: only its ratio to the latency matters


def _cpu_name() -> str:
    """Name of the processor, without what a spec's name may not hold."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1] for line in lines if line.startswith("model name")), name)
    except OSError:
        pass  # not Linux: the platform's word stays
    name = re.sub(r"\((R|TM)\)", "", name).replace("@", "at")
    return " ".join(re.sub(r"[^\w .,+-]", " ", name).split())[:80] or "CPU"


def _memory_bytes() -> float:
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def device_of(roofline: MeasuredRoofline, profile: HostProfile) -> Device:
    """The host as a spec: every figure measured by the probe, or said to be an assumption."""
    cores = roofline.threads

    def fact(value: float, unit: str, where: str) -> dict[str, Any]:
        return {"value": f"{value:.6g} {unit}".strip(), "basis": "measured", "source": "probe", "where": where}

    def guess(value: float, unit: str, note: str) -> dict[str, Any]:
        return {"value": f"{value:.6g} {unit}".strip(), "basis": "assumed", "note": note}

    rates = {"fp32": roofline.fp32, "int8": roofline.int8}
    if roofline.bf16 is not None:
        rates["bf16"] = roofline.bf16
    unit = {"fp32": "FLOP", "bf16": "FLOP", "int8": "OP"}
    caches = roofline.caches
    stream = max(roofline.dram, roofline.dram_all)
    data = {
        "schema_version": 1,
        "id": HOST,
        "name": f"This host, {_cpu_name()}"[:120],
        "vendor": "this host",
        "kind": "cpu",
        "summary": f"{cores} cores of this machine as the probe saw them, {roofline.isa} path.",
        "sources": {
            "probe": {
                "title": "python -m engine calibrate",
                "publisher": "measured on this machine",
                "dated": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
                "note": f"{platform.system()} {platform.machine()}, kernels {roofline.isa}"[:200],
            }
        },
        "peak": {
            name: fact(cores * rate, f"{unit[name]}/s", f"products in registers, one thread, times {cores} cores")
            for name, rate in rates.items()
        },
        "memory": [
            {
                "name": "dram",
                "role": "offchip",
                "capacity": fact(_memory_bytes(), "B", "physical pages of the operating system"),
                "bandwidth": fact(stream, "B/s", f"reading 8 x the last-level cache, 1 and {cores} threads, the best"),
                "latency": fact(_MISSES / roofline.gather, "s", "random lines a second, 10 of them under way at once"),
            },
            {
                "name": "l3",
                "role": "onchip",
                "capacity": fact(
                    profile.resident, "B", f"read again and again; the system lists {caches.l3 / 2**20:.1f} MiB"
                ),
                "bandwidth": fact(cores * roofline.l3, "B/s", f"reading a part of it, one thread, times {cores} cores"),
            },
            {
                "name": "l2",
                "role": "onchip",
                "per": "core",
                "capacity": fact(caches.l2, "B", "operating system's list of caches"),
            },
        ],
        "power": {},
        "cpu": {
            "cores": fact(cores, "", "threads this process may use"),
            "clock": fact(profile.clock, "Hz", "dependent shifts and exclusive ors, a cycle each"),
            "flop_per_cycle": {
                name: fact(rate / profile.clock, f"{unit[name]}/cycle", "peak over clock")
                for name, rate in rates.items()
            },
            "popcount_bits_per_cycle": fact(
                profile.popcount / 2 / profile.clock, "", "binary product of 16 x 4096 x 4096"
            ),
            "core_bandwidth": fact(profile.far_stream, "B/s", "matrix of 8 x the last-level cache times a vector"),
        },
        "model": {
            "gemm_efficiency": fact(profile.gemm, "", "FP32 product of 512 x 512 x 512 over the peak"),
            "conv_efficiency": fact(profile.gemm, "", "as gemm_efficiency: one kernel runs both"),
            "requantise_cycles": guess(0.0, "cycle", "within the measured shares of convolutions"),
            "efficiency_ceiling": guess(1.0, "", "the efficiency is measured here, so no ceiling is put on it"),
            "width_exponent": guess(0.0, "", "the efficiency is measured at this width, so it is not carried over"),
            "binary_efficiency": guess(1.0, "", "the rate above is a measured product, so nothing is left to take off"),
            "feature_overhead": guess(0.0, "s", "operators are called directly: no framework parses records"),
            "op_overhead": fact(profile.call, "s", "median of six operators on a handful of numbers"),
            "barrier": fact(roofline.dispatch, "s", "an empty operator over the thread pool"),
            "dram_efficiency": guess(1.0, "", "the bandwidth above is a measured stream"),
            "private_bytes_per_cycle": fact(
                roofline.l2 / profile.clock, "", "B a cycle: reading half of L2, one thread"
            ),
            "shared_bytes_per_cycle": fact(
                roofline.l3 / profile.clock, "", "B a cycle: reading a part of L3, one thread"
            ),
            "window_overhead": fact(
                profile.window_call, "s", "convolutions and a pool of a few pixels, less the above"
            ),
            "step_overhead": fact(profile.step_call, "s", "LSTM and GRU steps of 16 units, less op_overhead"),
            "tile_rows": guess(float(MR), "", "pixels of a register tile of our convolution"),
            "tile_columns": guess(float(NC), "", "columns of a packed panel of our matrix product"),
            "lone_vector": fact(
                profile.lone_vector, "", "3 x 3 convolution to one vector of channels over one to four"
            ),
            "exposed": fact(profile.exposed, "", "pointwise convolution of 112 x 112 x 16 against one of 28 x 28"),
            "weight_stream": fact(
                profile.near_stream, "", "a matrix and an LSTM cell of 10 MB past one vector, over reading"
            ),
            "pool_cycles": fact(profile.pool, "cycle", "3 x 3 pool of 56 x 56 x 64"),
            "hash_cycles": fact(profile.hash, "cycle", "26 fields of 512 samples"),
            "special_cycles": fact(profile.special, "cycle", "sigmoid of 65,536 values"),
            "row_cycles": fact(
                profile.row, "cycle", "embedding bags and lookups of 2,048 rows, which lie in the caches"
            ),
            "short_row": fact(profile.short_row, "", "3 x 3 convolutions of 14, 28 and 56 pixels a side, the median"),
            "thin_input": fact(profile.thin_input, "", "7 x 7 convolution of 3 channels"),
        },
        "notes": [
            "Measured while whatever else ran on this machine ran; probe again when it is quiet.",
            "No power and no price: the probe sees neither.",
        ],
    }
    return Device.model_validate(data)


def _folder(root: Path | None) -> Path:
    """The folder specs of devices lie in, made where it is missing; MeasureError where it can't be."""
    folder = (root or user_root()) / "devices"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MeasureError(f"out is {str(folder)[:200]!r}: {error.strerror or 'not writable'}") from None
    return folder


def write_spec(device: Device, root: Path | None = None) -> Path:
    """Write the spec under ``root`` (the user's catalog folder when left out); returns the file."""
    folder = _folder(root)
    path = folder / f"{device.id}.yaml"
    try:
        with beside(path) as fresh:
            fresh.write_text(spec_text(device))
    except ScenarioError as error:
        raise MeasureError(f"out: {error}") from None
    return path


def probe_host() -> tuple[MeasuredRoofline, HostProfile]:
    """Roofs and profile of this host, about two seconds once compiled. A measurement.

    The roofs are taken before and after the profile and of the two each figure keeps the better one: others share the
    machine, and what slows one moment has often passed by the next.
    """
    prober = Prober()
    first = prober.roofline(3)
    profile = probe_profile(first, prober)
    return _better(first, prober.roofline(2)), profile


def calibrate(root: Path | None = None) -> tuple[Device, Path, MeasuredRoofline, HostProfile]:
    """Probe the host and write it into a catalog folder. A measurement."""
    _folder(root)
    roofline, profile = probe_host()
    device = device_of(roofline, profile)
    return device, write_spec(device, root), roofline, profile


@cache
def host() -> tuple[MeasuredRoofline, HostProfile]:
    """Roofs and profile of this host, taken once a process; nothing is written. A measurement."""
    return probe_host()


def _better(a: MeasuredRoofline, b: MeasuredRoofline) -> MeasuredRoofline:
    """Higher rates and shorter times of two probes."""
    better: dict[str, Any] = {}
    for field in fields(a):
        first, second = getattr(a, field.name), getattr(b, field.name)
        if isinstance(first, float) and isinstance(second, float):
            better[field.name] = (min if field.name in ("launch", "dispatch") else max)(first, second)
    return replace(a, **better)
