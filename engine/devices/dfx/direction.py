"""In which order a matrix's tiles come from memory (figure 9), and what that costs the core.

Horizontally, inputs stay while all columns pass, whose sums wait in buffers; vertically a column is summed up before
the next, and every beat reads other inputs; the zigzag over d x d lies between. Estimates.
Source: Hong et al., MICRO 2022, section V-B, which prints no number for it.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil

from engine.devices.common.setting import PricedField, Setting
from engine.devices.dfx import program as isa
from engine.devices.dfx.decoder import program_of
from engine.devices.dfx.program import LayerSizes

_DEPTH = 2048.0  # words of 18 bit in a block of 36 Kbit, a shape that UltraScale+'s memory guide names
_BEATS = {"horizontal": 1e6, "vertical": 1.0}
"""Beats that inputs stay for at most: more than any matrix has columns, and one."""

DIRECTION = PricedField(
    needs="matrix products",
    settings={way: Setting(parameters={"kept_beats": beats}) for way, beats in _BEATS.items()},
    assumption="The load direction changes how often the matrix unit reads its inputs, how many partial sums it keeps "
    "and in which order it adds; weights lie in memory in the order in which they are read, whatever it is.",
)


@lru_cache(maxsize=4096)
def costs(part: str, rec: tuple[float, ...], layer: LayerSizes, context: float) -> tuple[float, float]:
    """Words of vector registers that a program's products read, and the most partial sums a lane keeps. [-]

    The context in [tokens].
    """
    products = [i for i in program_of(part, rec, layer, context) if i.op in isa.MATRIX]
    word = rec[isa.D] / rec[isa.VECTOR]
    reads = sum(isa.tile_beats(rec, i.rows, i.columns) / isa.kept_beats(rec, i.columns) for i in products)
    return reads * word, max((isa.kept_beats(rec, i.columns) for i in products), default=0.0)


def blocks(rec: Sequence[float], sums: float) -> float:
    """Blocks of BRAM in which the lanes keep so many partial sums each. [-]"""
    return rec[isa.L] * ceil(sums / _DEPTH)
