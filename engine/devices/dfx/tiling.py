"""The choice of the tile (d, l): what each costs in DSP slices, and which of several that are as fast is taken.

The document takes l = 1024 / d, because d x l fp16 weights are what 32 channels of 512 bit deliver in a cycle: a
narrower tile leaves channels idle, a wider one waits. Of those, tiles wider than a head (64) in d or l leave
multipliers idle in attention. The vector unit keeps its 64 lanes whatever the tile. Source: Hong et al., MICRO 2022,
sections V-B and V-C; DSP counts follow the document's operators.
"""

from collections.abc import Mapping

from engine.devices.common.instruction_set import SAME


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


def chosen(seconds: Mapping[tuple[int, int], float], slices: Mapping[tuple[int, int], float]) -> tuple[int, int]:
    """Of the tiles within `SAME` of the fastest, the one that takes the fewest slices."""
    least = min(seconds.values())
    return min((t for t, s in seconds.items() if s <= least * (1 + SAME)), key=lambda t: (slices[t], seconds[t]))
