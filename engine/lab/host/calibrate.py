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
from string import Template
from typing import Any

from engine.lab.host.profile import probe_profile
from engine.lab.ir.microkernel import MR, NC
from engine.lab.probe import MeasuredRoofline, Prober
from engine.scenario.files import beside, writable
from entries.files import load_yaml
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
    return Device.model_validate(_sourced(data))


def _sourced(node: Any) -> Any:
    """The same with the source of each value: the probe where it says how it was measured, else an assumption."""
    if isinstance(node, list):
        return [_sourced(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    if "value" in node:
        return node | ({"basis": "measured", "source": "probe"} if "where" in node else {"basis": "assumed"})
    return {name: _sourced(entry) for name, entry in node.items()}


def _file(root: Path | None) -> Path:
    """Where the spec lies: under ``root``, or the user's catalog folder."""
    return (root or user_root()) / "devices" / f"{HOST}.yaml"


def write_spec(device: Device, root: Path | None = None) -> Path:
    """Write the spec under ``root`` (the user's catalog folder when left out); returns the file."""
    with beside(_file(root), folder=True) as fresh:
        fresh.write_text(spec_text(device))
    return _file(root)


def probe_host() -> tuple[MeasuredRoofline, dict[str, float]]:
    """Roofs and profile of this host, about two seconds once compiled. A measurement.

    The roofs are taken before and after the profile and of the two each figure keeps the better one: others share the
    machine, and what slows one moment has often passed by the next.
    """
    prober = Prober()
    first = prober.roofline(3)
    profile = probe_profile(first, prober)
    return _better(first, prober.roofline(2)), profile


def calibrate(root: Path | None = None) -> tuple[Device, Path, MeasuredRoofline, dict[str, float]]:
    """Probe the host and write it into a catalog folder. A measurement."""
    writable(_file(root), replaced=True, folder=True)
    roofline, profile = probe_host()
    device = device_of(roofline, profile)
    return device, write_spec(device, root), roofline, profile


@cache
def host() -> tuple[MeasuredRoofline, dict[str, float]]:
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
