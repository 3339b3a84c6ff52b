"""Peak rate of a soft processor against precision: how many multiply-accumulators a part's multipliers and logic hold.

Narrow mantissas are packed: several products leave one hard multiplier side by side, so a part holds more of them.
Every product needs a place in an adder tree made of soft logic; logic that is left over makes further multipliers.
An estimate of what the part holds, not of an instance. The share of the logic a matrix unit takes is the one that
gives the printed 80,000 units of ms-fp8 on a Stratix 10 280; areas of soft multipliers and adders are assumed. The
largest instance known has 96,000 on that part; a design that is further above the estimate is refused, as is one whose
blocks of memory or logic the part does not have. Source of the formats and of a port of 40 bits for every group of
multipliers: Chung et al., IEEE Micro 2018.
"""

import math

from engine.devices.common.cached import remembered
from engine.devices.common.column import larger, smaller
from engine.devices.common.fabric import Demand, shortage
from engine.devices.common.instruction_set import Density
from hardware_specs.schema import Device

FORMATS: dict[str, int] = {"int16": 15, "int8": 7, "ms-fp11": 5, "ms-fp10": 4, "ms-fp9": 3, "ms-fp8": 2}
"""Formats with the bits of their magnitudes; the sign is handled apart, the exponent is shared."""

SIDE = 18  # bits of either operand of a hard multiplier; a DSP block of these parts has two
PER_BLOCK = 2.0
GUARD = 5  # bits that sums in a tree grow by
LOGIC_SHARE = 0.386  # of the part's logic, for products and trees: 80,000 units of ms-fp8 on a Stratix 10 280
MAX_OVER = 1.2  # times the estimate, as far as anybody has gone: 96,000 units on that part
PORT = 40.0  # bits a block of memory gives a cycle: 512 x 40, printed
CONTROL = {"alm": 70_000.0, "m20k": 600.0}
"""Control processor, network, PCIe and DRAM; of the memory also register files and queues. [ALM], [M20K]

Assumed: 40,000 to 100,000 and 300 to 900.
"""
VECTOR = 450.0
"""Logic an element of a native vector takes in converters and multifunction units. [ALM] Assumed: 300 to 600.

With it and `CONTROL`, chosen with them in view, the three instances of Fowers et al., ISCA 2018 (149,641, 216,602 and
845,719 ALM; 1,192, 2,171 and 8,192 M20K, recalled) come out 1% below, 9% above and 18% below; blocks within 3%.
"""


def packing(bits: int) -> int:
    """Products of two magnitudes of `bits` that one multiplier of `SIDE` bits gives side by side. [-] A bound.

    With r values `2 bits` apart in one operand, the other holds values `2 r bits` apart, so that no products overlap.
    """
    highest = 0
    for r in range(1, SIDE + 1):
        if 2 * bits * (r - 1) + bits > SIDE:
            break
        values = (SIDE - bits) // (2 * bits * r) + 1
        highest = max(highest, r * values)
    return highest


def _tree(bits: int) -> float:
    """Logic modules an accumulated product takes: its sum of 2 bits + guard, two bits a module. [ALM]"""
    return (2 * bits + GUARD) / 2


def _product(bits: int) -> float:
    """Logic modules of a soft multiplier: an array of bits x bits partial products, two a module. [ALM]"""
    return bits * bits / 2


@remembered(id)
def densities(device: Device) -> tuple[Density, ...]:
    """For each format what the part holds, and its peak at the instance's clock. [-], [FLOP/s] An estimate."""
    npu, fabric = device.npu, device.fpga
    if npu is None or fabric is None or fabric.alm is None or fabric.dsp is None:
        return ()
    result = []
    for name, bits in FORMATS.items():
        logic = LOGIC_SHARE * fabric.alm.si
        hard = min(fabric.dsp.si * PER_BLOCK * packing(bits), math.floor(logic / _tree(bits)))
        soft = math.floor((logic - hard * _tree(bits)) / (_tree(bits) + _product(bits)))
        result.append(Density(name, hard, soft, 2.0 * (hard + soft) * npu.clock.si))
    return tuple(result)


def device_for(device: Device, format: str) -> Device:
    """The instance as its part holds it in a format it was not built for: with as many of its tile engines as fit.

    One at least, which `overfull` then refuses. A format of its `peak` leaves it as it is. An estimate.
    """
    npu = device.npu
    if npu is None or format in device.peak:
        return device
    density = next((d for d in densities(device) if d.format == format), None)
    if density is None:
        return device
    fit = max(1.0, math.floor((density.hard + density.soft) / (npu.native_dim.si * npu.lanes.si)))
    if fit >= npu.tiles.si:
        return device
    tiles = npu.tiles.model_copy(update={"value": f"{fit:.0f}", "si": fit, "basis": "derived"})
    return device.model_copy(update={"npu": npu.model_copy(update={"tiles": tiles})})


def fabric(device: Device, format: str) -> Demand:
    """Count of each resource by unit for the instance with dot products in that format. [-] An estimate.

    Empty where the format or what the part has is not known.
    """
    npu, has, bits = device.npu, device.fpga, FORMATS.get(format)
    if npu is None or has is None or bits is None:
        return {}
    cores = npu.cores.si if npu.cores else 1.0
    weights = npu.native_dim.si * npu.lanes.si * npu.tiles.si * cores  # read every cycle, each by its own multipliers
    ports = math.ceil(weights / math.floor(PORT / (bits + 1)))
    result = {"m20k": {"ports of the weights": ports, "register files, control and network": CONTROL["m20k"]}}
    if has.alm is None or has.dsp is None:
        return result
    side = PER_BLOCK * packing(bits)  # products of one block
    units = weights * (npu.batch_lanes.si if npu.batch_lanes else 1.0)
    hard = smaller(units, has.dsp.si * side)
    logic = units * _tree(bits) + larger(units - hard, 0.0) * _product(bits)
    result["dsp"] = {"matrix-vector unit": math.ceil(hard / side)}
    result["alm"] = {
        "matrix-vector unit": logic,
        "converters and multifunction units": VECTOR * npu.native_dim.si * cores,
        "control and network": CONTROL["alm"],
    }
    return result


def overfull(device: Device, format: str) -> str | None:
    """Why the part can't hold the instance with dot products in that format, or None; also where it is not known."""
    npu, density = device.npu, next((d for d in densities(device) if d.format == format), None)
    if npu is None or density is None:
        return None
    units, limit = npu.native_dim.si * npu.lanes.si * npu.tiles.si, MAX_OVER * (density.hard + density.soft)
    if units <= limit:
        engines = f"{npu.tiles.si:.0f} tile engines of {npu.native_dim.si:.0f} x {npu.lanes.si:.0f} in {format}"
        return shortage(engines, fabric(device, format), device.fpga, device.name)
    return (
        f"{npu.tiles.si:.0f} tile engines of {npu.native_dim.si:.0f} x {npu.lanes.si:.0f} take {units:,.0f} "
        f"multipliers of {format}; the part of {device.name} holds at most about {limit:,.0f}."
    )
