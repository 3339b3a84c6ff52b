"""This machine as a device: probed, written as a spec of basis `measured`, and priced like any other CPU.

The probe gives the roofs (`engine.lab.probe`); a few small operators give what the CPU model otherwise assumes or
calibrates on published figures: the share of the peak a product reaches, what a convolution loses, what a call costs.
No network of the zoo is looked at, so comparing the model with networks measured here is a validation.
"""

import os
import platform
import re
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median
from string import Template
from time import thread_time
from typing import Any

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.host.measure.cases import Case, noise, product
from engine.lab.host.measure.operators import (
    binary,
    convolve,
    hash_fields,
    lookup,
    normalise,
    pointwise,
    pool,
    recurrent,
    soft,
)
from engine.lab.ir.microkernel import MR, NC
from engine.lab.ir.probe import IDLE, idle_ir
from engine.lab.operators.gemm import Packed, gemm_f32
from engine.lab.probe import MeasuredRoofline, Prober, compute_peak, stream_read
from engine.lab.timing import sample
from engine.scenario.files import beside, writable
from entries.files import load_yaml
from hardware_specs.catalog import spec_text, user_root
from hardware_specs.schema import Device

_SPIN_STEPS = 200_000
_STRAND = 0.012  # seconds spent on each small operator


@kernel
def _spin(steps, x, flips, addend):
    """``steps`` times two dependent pairs of an exclusive or and an addition, in place: four cycles.

    Where an operand has to be copied first, the copy takes a cycle on some cores and none on others.
    """
    for _ in range(steps):
        x ^= flips
        x += addend
        x ^= flips
        x += addend
    return x


_idle = idle_ir()


@kernel
def _nothing(turns):
    _idle(turns)


def _cycle() -> float:
    """Shortest time of a cycle. [s]"""
    return sample(lambda: _spin(_SPIN_STEPS, 1, 0x55555555, 12345), thread_time, 9, _STRAND).best / (4.0 * _SPIN_STEPS)


def _issue_width() -> float:
    """Instructions that a core issues in a cycle; both are taken in the same moments. [1/cycle]"""
    turns = _SPIN_STEPS // 10
    ratios = (_cycle() / sample(lambda: _nothing(turns), thread_time, 9, _STRAND).best for _ in range(3))
    return max(1.0, round(IDLE * turns * median(ratios)))


def _last_level(roofline: MeasuredRoofline, prober: Prober) -> float:
    """Largest eighth of the last-level cache that reads nearer its rate than DRAM's. [B]"""
    middle = (roofline.l3 * roofline.dram) ** 0.5
    for eighths in (8, 6, 4, 3, 2):
        size = roofline.caches.l3 * eighths // 8
        if stream_read(prober.words[: size // 4], 0.005, rounds=3) >= middle:
            return float(size)
    return float(max(roofline.caches.l3 // 8, roofline.caches.l2))


def _time(case: Case) -> float:
    """Shortest CPU time of a call. [s]"""
    return sample(case.run, thread_time, 9, _STRAND).best


def _share(case: Case, call_s: float = 0.0) -> float:
    """Part of the FP32 peak once ``call_s`` seconds of a call are taken off. [-]

    Both are taken in the same moments: the clock of a shared machine drifts.
    """
    return median(case.flops / (_time(case) - call_s) / compute_peak("f32", 0.003, 2) for _ in range(3))


def _square(side: int, channels: int, filters: int, window: int, stride: int = 1) -> Case:
    return convolve((side, side), channels, filters, window, stride, 1)


def _calls() -> tuple[float, float, float]:
    """An operator on a handful of numbers, and what sliding a window or a step of a recurrence adds to it. [s]"""
    small = [
        product(1, 16, 16, "fp32", 1),
        product(8, 16, 16, "fp32", 1),
        pointwise("relu", 64, 1),
        pointwise("tanh", 64, 1),
        soft(1, 16, 1),
        normalise(1, 64, 1),
    ]
    call = median(_time(case) for case in small)
    sliding = [_square(3, 16, 16, 3), _square(4, 16, 16, 1, 2), pool(4, 16, 2, 2, 1)]
    steps = [recurrent(cell, 1, 16, 16, 1) for cell in ("lstm", "gru")]
    window, step = (max(0.0, median(_time(case) for case in cases) - call) for cases in (sliding, steps))
    return call, window, step


def _streams(roofline: MeasuredRoofline, prober: Prober) -> tuple[float, float]:
    """Weights past one vector: their rate from the last-level cache over that of reading [-], and from DRAM [B/s]."""
    near = (product(1, 2048, 1024, "fp32", 1), recurrent("lstm", 1, 400, 600, 1))
    x, far = noise(1, 4096), prober.words.view(np.float32)
    columns = far.size // x.size // NC * NC
    weights = Packed("f32", x.size, columns, far[: x.size * columns])
    far_s = sample(lambda: gemm_f32(x, weights, threads=1), thread_time, 5, _STRAND).best
    rate = sum(case.bytes for case in near) / sum(_time(case) for case in near)
    return min(1.0, rate / prober.near("l3", 3)), min(weights.words.nbytes / far_s, roofline.dram)


def _exposure(call_s: float, roofline: MeasuredRoofline) -> float:
    """Time a convolution waits for rows from the last-level cache, over the time they take to be read. [-]

    Sixteen times the pixels of one that lies in L2 take more than sixteen times as long, but for ``call_s``, a call.
    """
    near, far = _time(_square(28, 16, 32, 1)) - call_s, _time(_square(112, 16, 32, 1)) - call_s
    traffic = 4.0 * 112 * 112 * (16 + 2 * 32)  # read, and twice for a store
    return min(2.0, max(0.0, (far - 16.0 * near) * roofline.l3 / traffic))


def probe_profile(roofline: MeasuredRoofline, prober: Prober) -> dict[str, float]:
    """A few small operators timed on one thread, as `device.yaml` names and explains them: about a second once they are
    compiled. A measurement, SI; of vectors, rows and hashed ids in cycles."""
    clock = 1.0 / _cycle()
    gemm = min(1.0, max(_share(product(m, 512, 512, "fp32", 1)) for m in (256, 512)))
    call, window_call, step_call = _calls()
    sliding = call + window_call
    sides = {14: _square(14, 256, 256, 3), 28: _square(28, 128, 128, 3), 56: _square(56, 64, 64, 3)}
    rows = {side: _share(case, sliding) for side, case in sides.items()}
    short = max(0.0, median(side * (gemm / value - 1.0) for side, value in rows.items()))

    def at(side: float) -> float:
        return gemm * side / (side + short)

    thin = _share(_square(224, 3, 64, 7, 2), sliding) / at(112)
    lone = _share(_square(28, 64, 16, 3), sliding) / at(28)
    vectors_s = roofline.fp32 / 4.0
    elements = 65536
    special = max(0.5, (_time(pointwise("sigmoid", elements, 1)) - call) * vectors_s / elements)
    pools = [pool(side, 64, 3, 2, 1) for side in (56, 14)]  # two sizes: a call costs alike
    extra = pools[0].flops - pools[1].flops
    pool_s = min((_time(pools[0]) - _time(pools[1])) / extra for _ in range(3))
    bags, single, ids = (
        lookup(64, 40, 2048, 64, "fp32", 1),
        lookup(2560, 1, 2048, 64, "fp32", 1),
        hash_fields(512, 26, 1),
    )
    bits = binary(16, 4096, 4096, 1)
    near, far = _streams(roofline, prober)
    return {
        "clock": clock,
        "issue_width": _issue_width(),
        "gemm": gemm,
        "short_row": short,
        "thin_input": min(1.0, thin),
        "lone_vector": min(1.0, lone),
        "exposed": _exposure(sliding, roofline),
        "call": call,
        "window_call": window_call,
        "step_call": step_call,
        "special": special,
        "pool": max(1.0, pool_s * vectors_s),
        "row": max(1.0, (_time(bags) + _time(single) - 2.0 * call) / 2.0 * clock / 2560),
        "hash": max(0.1, (_time(ids) - call) * clock / (512 * 26)),
        "popcount": bits.flops / _time(bits),
        "resident": _last_level(roofline, prober),
        "near_stream": near,
        "far_stream": far,
    }


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


def device_of(roofline: MeasuredRoofline, profile: dict[str, float]) -> Device:
    """The host as `device.yaml` has it: every figure measured by the probe, or said to be an assumption."""
    cores, clock, caches = roofline.threads, profile["clock"], roofline.caches
    rates = {"fp32": roofline.fp32, "int8": roofline.int8, "bf16": roofline.bf16 or 0.0}
    figures = profile | {
        **{name: cores * rate for name, rate in rates.items()},
        **{f"{name}_cycle": rate / clock for name, rate in rates.items()},
        "cores": cores,
        "memory": float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        "stream": max(roofline.dram, roofline.dram_all),
        "latency": _MISSES / roofline.gather,
        "l3": cores * roofline.l3,
        "l2": caches.l2,
        "popcount_cycle": profile["popcount"] / 2 / clock,
        "dispatch": roofline.dispatch,
        "l2_cycle": roofline.l2 / clock,
        "l3_cycle": roofline.l3 / clock,
        "tile_rows": MR,
        "tile_columns": NC,
    }
    words = {
        "name": f"This host, {_cpu_name()}"[:120],
        "isa": roofline.isa,
        "dated": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.system()} {platform.machine()}, kernels {roofline.isa}"[:200],
        "listed": f"{caches.l3 / 2**20:.1f}",
    }
    text = Template(Path(__file__).with_name("device.yaml").read_text())
    data = load_yaml(text.substitute(words, **{name: f"{value:.6g}" for name, value in figures.items()}).encode())
    if roofline.bf16 is None:
        del data["peak"]["bf16"], data["cpu"]["flop_per_cycle"]["bf16"]
    return Device.model_validate(_with_sources(data))


def _with_sources(node: Any) -> Any:
    """The same with the source of each value: the probe where it says how it was measured, else an assumption."""
    if isinstance(node, list):
        return [_with_sources(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    if "value" in node:
        return node | ({"basis": "measured", "source": "probe"} if "where" in node else {"basis": "assumed"})
    return {name: _with_sources(entry) for name, entry in node.items()}


def _file(root: Path | None) -> Path:
    """Where the spec lies: under ``root``, or the user's catalog folder."""
    return (root or user_root()) / "devices" / f"{HOST}.yaml"


def write_spec(device: Device, root: Path | None = None) -> Path:
    """Write the spec under ``root`` (the user's catalog folder when left out); returns the file."""
    with beside(_file(root), folder=True) as fresh:
        fresh.write_text(spec_text(device))
    return _file(root)


@cache
def host() -> tuple[MeasuredRoofline, dict[str, float]]:
    """Roofs and profile of this host, taken once a process, about two seconds once compiled. A measurement.

    Nothing is written. Roofs are the better of two, before and after: what slows one moment has often passed by then.
    """
    prober = Prober()
    first = prober.roofline(3)
    profile = probe_profile(first, prober)
    return _better(first, prober.roofline(2)), profile


def calibrate(root: Path | None = None) -> tuple[Device, Path, MeasuredRoofline, dict[str, float]]:
    """Probe the host and write it into a catalog folder. A measurement."""
    writable(_file(root), force=True, folder=True)
    roofline, profile = host()
    device = device_of(roofline, profile)
    return device, write_spec(device, root), roofline, profile


def _better(a: MeasuredRoofline, b: MeasuredRoofline) -> MeasuredRoofline:
    """Higher rates and shorter times of two probes."""
    better: dict[str, Any] = {}
    for field in fields(a):
        first, second = getattr(a, field.name), getattr(b, field.name)
        if isinstance(first, float) and isinstance(second, float):
            better[field.name] = (min if field.name in ("launch", "dispatch") else max)(first, second)
    return replace(a, **better)
