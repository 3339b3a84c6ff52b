"""What a DFX core takes of its part's fabric, by tile and lanes: DSP, LUT, FF, BRAM and URAM.

The document takes l = 1024 / d, because d x l fp16 weights are what 32 channels of 512 bit deliver in a cycle: a
narrower tile leaves channels idle, a wider one waits. Of those, tiles wider than a head (64) in d or l leave
multipliers idle in attention. The vector unit keeps its 64 lanes whatever the tile.

Operators, buffers and ports are counted from the document (sections V-B to V-E); what one of them takes is assumed
within a range. What the printed totals leave at the core's own tile (platform, controller, scheduler, interconnect) is
added as it is, whatever the tile. Estimates; the slices are a derivation. Source: Hong et al., MICRO 2022.
"""

from math import ceil
from pathlib import Path
from typing import Any

from engine.devices.common.column import smaller
from engine.devices.common.fabric import Demand
from engine.devices.dfx.core import BYTES, core_of, vector_lanes
from entries.files import load_yaml
from hardware_specs.schema import Device


def dsp_slices(d: float, lanes: float, vector: float, format: str = "fp16") -> dict[str, float]:
    """DSP slices of a core by unit. [-] A derivation from the printed operators.

    Matrix unit: d x l multipliers at one slice, (d - 1) x l tree adders and l accumulators at two. Vector unit: for
    each of its elements an adder, a subtractor and a multiplier at one slice and an exponential at two. Behind the
    matrix unit each lane scales (one multiplier) and interpolates its GELU table (a multiplier and an adder of two).
    Behind the vector unit a tree of vector - 1 adders at one slice, and a scalar adder, multiplier, reciprocal and
    reciprocal root. The counts of the two special units are our reading of section V-C, not printed.

    Of weights in W8A16 each has a multiplier with its scale at one slice. Of INT8 a slice multiplies two, which share
    their input; adders are logic then, a lane scales its sum to FP16 by two slices, an FP32 multiplier's, and each
    element of a vector has one that makes it INT8. Assumed: the document has neither.
    """
    matrix = d * lanes + 2.0 * (d - 1) * lanes + 2.0 * lanes
    narrow = {"w8a16": {"dequantiser": d * lanes}, "int8": {"quantiser": vector, "dequantiser": 2.0 * lanes}}
    return {
        "matrix function unit": d * lanes / 2 if format == "int8" else matrix,
        "vector function unit": 5.0 * vector,
        "matrix special function unit": 4.0 * lanes,
        "vector special function unit": (vector - 1) + 4.0,
    } | narrow.get(format, {})


PLATFORM = "platform and control, as printed"
LEFT = {"lut": 196_149.0, "ff": 478_763.0, "bram36": 378.0, "uram": 14.0}
"""What is left of the printed shares of a U280 (39.93, 42.52, 59.13, 10.83%) once the core's units are counted. [-]"""
_BLOCK = 72.0  # bits that a block of BRAM or URAM gives a cycle
_FILES = 6.0  # banks of the vector registers: two operands, a result, DMA, network, input of the matrix unit
_DOUBLE = 2.0  # the double buffer of every operand


COSTS: dict[str, dict[str, Any]] = load_yaml(Path(__file__).with_name("operators.yaml").read_bytes())
"""What an operator or a port takes. [LUT], [FF]"""


def fabric(device: Device, tile: tuple[float, float], format: str = "fp16") -> Demand:
    """Count of each resource by unit for a core with that tile. [-] An estimate, DSP slices a derivation."""
    dfx = core_of(device)
    (d, lanes), vector, bits = tile, vector_lanes(dfx), dfx.channel_bits.si
    mac = ("int-mul", "int-add") if format == "int8" else ("mul", "add")
    ports = smaller(dfx.channels.si, ceil(d * lanes * BYTES * 8 / bits))
    here = {
        "matrix function unit": tuple((unit, d * lanes) for unit in mac),  # (d - 1) x l of the trees, l accumulators
        "vector function unit": (("alu", vector),),
        "matrix special function unit": (("lane", lanes),),
        "vector special function unit": (("sum", vector - 1.0), ("mul", 2.0), ("add", 2.0)),
        "DMA": (("channel", ports),),
        "router": (("link", 2.0),),
        "dequantiser": (("widen", {"w8a16": d * lanes, "int8": lanes}.get(format, 0.0)),),
        "quantiser": (("narrow", vector * (format == "int8")),),
    }
    result: dict[str, dict[str, float]] = {"dsp": dsp_slices(d, lanes, vector, format)}
    for name in ("lut", "ff"):
        units = {unit: sum(COSTS[c][name] * n for c, n in of) for unit, of in here.items()}
        result[name] = {unit: count for unit, count in units.items() if count}
    result["ff"]["operand buffers"] = _DOUBLE * (d * lanes + d) * BYTES * 8  # a beat of weights and its inputs
    word = ceil(bits / _BLOCK)  # blocks side by side that make a channel's word
    result["bram36"] = {
        "DMA": ports * word * (_DOUBLE + 1.0),  # weights twice, what is written back once
        "matrix special function unit": 1.0 * lanes,  # 2,048 samples of the GELU of a lane
        "bias buffers": _DOUBLE * ceil(vector * BYTES * 8 / _BLOCK),
    }
    result["uram"] = {"vector registers": _FILES * ceil(vector * BYTES * 8 / _BLOCK)}
    return {name: units | ({PLATFORM: LEFT[name]} if name in LEFT else {}) for name, units in result.items()}
