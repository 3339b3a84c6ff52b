"""A part and a format as the flat records the compiled operator models take: data sheet times constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from engine.devices.common.collective import ALONE
from engine.devices.common.column import one_by_one, smaller
from engine.devices.gpu.operators import attention, moe
from engine.devices.gpu.operators.slots import MACHINE
from entries.files import load_yaml
from hardware_specs.catalog import Catalog, default_catalog
from hardware_specs.schema import Device

_HERE = Path(__file__).parent

LEAST_VOLTAGE = 0.4
"""Share of the printed clock at which a part's voltage stops falling with it. Assumed, 0.3 to 0.7: a low-power part's
base clock is 0.39 of its boost clock (795 of 2,040 MHz on an L4), and a base clock is what it holds at that voltage.
Chosen after MLPerf's BERT on an L4 had been seen (-61% without it): that row is marked so in the evidence."""


class NoModel(ValueError):
    """Why an operator on a part can't be predicted, in one sentence."""


@cache
def facts() -> dict[str, Any]:
    """What the models take as given: formats, runtimes, names, meanings of constants."""
    return load_yaml((_HERE / "facts.yaml").read_bytes())


@cache
def fitted() -> dict[str, Any]:
    """Constants of every generation, each fitted on measured operators of the parts named beside it."""
    return load_yaml((_HERE / "fitted.yaml").read_bytes())


@dataclass(frozen=True)
class Part:
    """What a data sheet says of a part, and the generation whose constants it takes."""

    id: str
    generation: str
    constants: Mapping[str, Any] = field(repr=False)  # as `fitted` has those of its generation
    units: float
    bandwidth: float  # B/s
    l2: float  # B
    power: float  # W
    peak: dict[str, float]  # FLOP/s by format
    wire: float = 0.0  # B/s one way to all peers together; 0: none in the catalog
    link: str = ""  # its name in the catalog
    beyond: tuple[float, float, float] = ALONE  # parts it joins, and each one's way to others: B/s, s a step
    kin: bool = False  # whether the generation is not its own: nothing like it was measured

    @property
    def is_measured(self) -> bool:
        """Whether the generation's constants were fitted on this very part."""
        return self.id in self.constants["parts"]


def part_of(device: Device, catalog: Catalog) -> Part:
    """The part a catalog entry describes, with the wire to its peers where a system is made of it.

    Raises
    ------
    NoModel
        Where its generation has no constants, or its data sheet lacks what the models need.
    """
    gpu = device.gpu
    generation = gpu.generation if gpu is not None else None
    if gpu is None or generation is None:
        raise NoModel(f"{device.name} names no generation of GPUs, whose constants it would take")
    origin, generation = generation, facts()["kin"].get(generation, generation)
    if generation not in fitted():
        raise NoModel(
            f"{device.name}: no operators of generation {generation} were measured, only {', '.join(fitted())}"
        )
    bandwidths = {m.capacity.si: m.bandwidth for m in device.memory if m.role == "offchip" and m.bandwidth is not None}
    caches = [m.capacity.si for m in device.memory if m.role == "onchip" and m.per == "device"]
    if gpu.units is None or device.power is None or device.power.max is None or not bandwidths or not caches:
        raise NoModel(f"{device.name}: the catalog lacks its units, DRAM bandwidth, L2 or power limit")
    bandwidth = bandwidths[max(bandwidths)].si
    peaks = {name: quantity.si for name, quantity in device.peak.items()}
    if "bf16" not in peaks and "fp16" in peaks:
        peaks["bf16"] = peaks["fp16"]
    wire, name, beyond = _wires(device, catalog)
    watts, kin, constants = device.power.max.si, origin != generation, fitted()[generation]
    sheet = gpu.units.si, bandwidth, max(caches), watts, peaks
    return Part(device.id, generation, constants, *sheet, wire, name, beyond, kin)


def _wires(device: Device, catalog: Catalog) -> tuple[float, str, tuple[float, float, float]]:
    """Rate and name of the wire to a part's peers [B/s], and what lies beyond, of the first system made of it."""
    wire, name, (joins, *far) = 0.0, "", ALONE
    systems = (s for s in map(catalog.system, catalog.ids("systems")) if s.devices[0].device == device.id)
    system = catalog.system(device.id) if device.id in catalog.ids("systems") else next(systems, None)
    for use in system.links if system is not None else ():
        link = catalog.link(use.link)
        if use.role == "peer":
            wire, name, joins = link.bandwidth.si, link.id, use.joins or joins
        elif use.role == "scale-out":
            far = [link.usable, link.latency.si]
    return wire, name, (joins, far[0], far[1])


def nearest(kernels: Mapping[str, Any], *runtimes: str) -> str:
    """The runtime whose constants stand in for those of some that may not have been measured: the first, else any."""
    return next(name for name in (*runtimes, *kernels) if name in kernels)


def machine_record(units: Any, bandwidth: Any, l2: Any, constants: Mapping[str, Any]) -> list[Any]:
    """A part as `slots.MACHINE` names it: its data sheet's rates and room, then its generation's ``constants``. [SI]"""
    return [units, bandwidth, l2, *(constants[name] for name in MACHINE[3:])]


def token_record(
    flop_s: Any, element_bytes: float, kernel: Mapping[str, Any], per_head: Mapping[str, Any], way: Mapping[str, float]
) -> list[Any]:
    """Kernels of a token's attention as `attention.FORMAT` names them. [SI]

    ``per_head``: constants of the kernel with a block for every query head, ``way``: how both read a cache.
    """
    constants = (of[name] for of in (kernel, per_head) for name in ("start", "block", "flow"))
    return [flop_s, element_bytes, *constants, *(way[name] for name in attention.FORMAT[8:])]


def prompt_record(flop_s: Any, element_bytes: float, kernel: Mapping[str, Any], generation: str | None) -> list[Any]:
    """The kernel of a prompt's attention as `attention.PROMPT` names it. [SI]"""
    tile = float(facts()["prefill_tiles"].get(generation, 128))
    return [flop_s, element_bytes, *(kernel[name] for name in ("start", "share", "passes")), tile]


def expert_record(flop_s: Any, in_bytes: float, weight_bytes: float, kernel: Mapping[str, Any]) -> list[Any]:
    """Kernels of experts as `moe.FORMAT` names them. [SI]"""
    return [flop_s, in_bytes, weight_bytes, *(kernel[name] for name in moe.FORMAT[3:])]


def format_named(name: str) -> str:
    """The format others write so; NoModel where there is none."""
    formats = facts()["formats"]
    low = name.strip().lower()
    result = low if low in formats else facts()["format_aliases"].get(low)
    if result is None:
        raise NoModel(f"format {name[:40]!r} has no operators: {', '.join(formats)} are known")
    return result


@cache
def reference(id: str) -> Part:
    """The part on which a generation's constants were fitted."""
    catalog = default_catalog()
    return part_of(catalog.device(id), catalog)


def draw_s(energy: float, power: Any, peak: Any, anchor: tuple[float, float]) -> Any:
    """Seconds a FLOP takes at a part's power limit. [s] An estimate.

    ``energy`` [J/FLOP] is what the ``anchor`` part (its power limit [W] and dense peak [FLOP/s]) draws at the clock
    it holds there, a share u0 of the clock that its peak is printed at. Dynamic power goes by the clock times the
    square of the voltage, and the voltage falls with the clock: a part with peak P then holds u with
    u^3 P energy / u0^2 = power, down to the least voltage, below which power is the clock's alone.
    """
    watts, nominal = anchor
    ratio = watts / energy / nominal  # above 1 where the largest products meet no limit
    room = power * ratio**2 / (energy * peak)
    clock = smaller(one_by_one(lambda value: value ** (1 / 3), room), room / LEAST_VOLTAGE**2)
    return 1.0 / (clock * peak)


def peak_of(part: Part, format: str) -> float:
    """Peak of the arithmetic that a format computes in on a part. [FLOP/s] NoModel where the part lacks it."""
    name = facts()["formats"][format]["peak"]
    if name not in part.peak:
        raise NoModel(f"{part.id} has no {name} arithmetic, in which {format} computes")
    return part.peak[name]


def quantising(kernel: Mapping[str, Any], units: Any, widens: bool) -> tuple[Any, Any, Any]:
    """Seconds of starting the kernels that quantise an input, of each of its bytes, and of each element of weights.

    ``quantise_rate`` is that of a unit: bytes of an input [B/s], or elements of weights alone that it ``widens`` [1/s].
    """
    rate = kernel["quantise_rate"]
    return kernel["quantise_s"], 0.0 if widens else 1.0 / (rate * units), 1.0 / rate if widens else 0.0


def format_record(part: Part, format: str, kernel: Mapping[str, float]) -> np.ndarray:
    """A format on a part as `gemm.FORMAT` names it, of a ``kernel`` with the constants that `facts` lists for a gemm.

    NoModel where the part lacks the arithmetic.
    """
    shape, peak = facts()["formats"][format], peak_of(part, format)
    widens = 1.5 * shape["weight"] < shape["in"]  # weights are widened in a unit on their way to its arithmetic
    of = reference(part.constants["parts"][0])
    limited_s = draw_s(kernel["energy"], part.power, peak, (of.power, of.peak[shape["peak"]]))
    start_s, byte_s, widen_s = quantising(kernel, part.units, widens)
    sizes = shape["in"], shape["weight"], shape["out"]
    return np.array([1.0 / peak, limited_s, *sizes, start_s, byte_s, shape["splits"], widen_s, 16.0])


def layers(weights: np.ndarray, l2: float, runtime: str, version: str, format: str) -> np.ndarray:
    """Layers of ``weights`` bytes each that one replayed graph of a runtime holds when it is measured. [-]"""
    if format in facts()["one_layer"]:
        return np.ones_like(weights)
    rule = facts()["runtimes"].get(runtime, {"layers": 5})
    limit = float(rule["layers"])
    if version in facts()["always_all_layers"]:
        return np.full_like(weights, limit)
    return np.clip(np.floor(l2 / weights) + 1.0 if rule.get("over") else np.ceil(l2 / weights), 1.0, limit)
