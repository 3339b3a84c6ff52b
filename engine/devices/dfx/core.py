"""A DFX core as a record, and its programs timed: one decoder layer, the LM head or the embedding of one token.

Every distinct configuration is run once (`scoreboard`) and remembered; a sweep reads the same memory. Estimates.
Source: Hong et al., MICRO 2022.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from engine.devices.common.column import (
    Column,
    NotAlike,
    columns_as,
    columns_of,
    exceeds,
    larger,
    largest,
    smaller,
    together,
)
from engine.devices.common.contract import RESOURCES
from engine.devices.common.setting import PricedField
from engine.devices.dfx import program as isa
from engine.devices.dfx.decoder import program_of
from engine.devices.dfx.program import LayerSizes
from engine.devices.dfx.scoreboard import book, book_many
from engine.scenario.formats import BITS
from entries.files import load_yaml
from hardware_specs.schema import Device, Dfx, Link, MemoryLevel

BYTES = 2.0
DEPTHS: dict[str, float] = load_yaml(Path(__file__).with_name("depths.yaml").read_bytes())
"""Operator latencies a core may name, with those of the U280 core for one that leaves them out. [cycle]"""

STORED: dict[str, tuple[float, float]] = {
    "fp16": (BYTES, BYTES),
    "w8a16": (BITS["w8a16"] / 8, BYTES),
    "int8": (1.0, 1.0 + 4.0 / 64),
}
"""Bytes of a weight, and of an element of the cache. [B]

W8A16: groups of 32 inputs of a column share a 16-bit scale, and weights are FP16 again before they are multiplied.
INT8: a column of weights, a vector on its way into a product, and a token's key or value of a head (64 elements) have
an FP32 scale each; products and their sums are integers, all else is FP16. Neither is in the document: assumed, and
measured by nobody.
"""

KV_FORMAT = PricedField(
    needs="KV cache",
    offers=lambda graph, s: ("int8" if s.precision == "int8" else "fp16",) if graph.state_elements.c else (),
    assumption="The cache is in the format that the matrix unit multiplies, which is what it is in by itself.",
)
"""Keys and values go to the multipliers as weights do, which a core widens from no other format."""

PORT, BANDWIDTH, LATENCY, ROWS = (
    "the core's port to its memory",
    "bandwidth of off-chip memory",
    "latency of off-chip memory",
    "rows of the memory's banks",
)
"""What may set the pace of a stream of weights."""

_TIMING = (isa.OCCUPY, isa.LATENCY, isa.BEATS, isa.WAIT)  # what of an instruction a core's numbers change


@dataclass(frozen=True)
class Timed:
    """A program that was run: cycles by role and unit, and what it moved. Cycles and bytes of one core."""

    cycles: float
    by_role: np.ndarray  # (roles, 6) by resource
    hbm: np.ndarray  # (roles,) bytes
    bytes_out: float
    code: np.ndarray
    start: np.ndarray
    valid: np.ndarray


def core_of(device: Device) -> Dfx:
    """The spec's transformer core."""
    assert device.dfx is not None, device.id
    return device.dfx


def vector_lanes(dfx: Dfx) -> float:
    """Elements a vector instruction takes a cycle: the core's own, whatever its tile. [-]"""
    return dfx.vector_lanes.si if dfx.vector_lanes else dfx.d.si


def _port(device: Device, tile: tuple[int, ...]) -> tuple[float, float, Any, Any]:
    """Tile dimension and lanes; bytes a cycle of the channels that such a tile fills, and words of theirs in a beat."""
    dfx = core_of(device)
    d, lanes = tile or (dfx.d.si, dfx.l.si)
    word = dfx.channel_bits.si / 8
    port = smaller(dfx.channels.si, math.ceil(d * lanes * BYTES / word)) * word
    return d, lanes, port, math.ceil(d * lanes * BYTES / port)  # all channels answer in step


def paces(device: Device, tile: tuple[int, ...], model: Mapping[str, float]) -> dict[str, Any]:
    """Cycles of a beat of tiles as each thing that it may wait for would have it: the slowest sets it. [cycle]

    A channel reads a tile as one burst of `burst_beats` beats; so many of them are under way at once, each from its
    request to its last word. The controller interleaves: consecutive bursts lie in rows of banks in turn, each of
    which opens one no sooner than a row cycle after the last. Refreshes take their share of all time. An estimate.
    """
    dfx, hbm = core_of(device), weight_memory(device)
    clock, burst = dfx.clock.si, model["burst_beats"]
    _, _, port, words = _port(device, tile)
    word = port * clock / hbm.bandwidth.si if hbm.bandwidth else 1.0
    cycles = {
        PORT: 1.0,
        BANDWIDTH: word,
        LATENCY: (model["hbm_access"] * clock + burst * word) / (burst * model["reads_in_flight"]),
        ROWS: model["row_cycle"] * clock / (burst * model["interleaved_banks"]),
    }
    return {name: words * cycle / (1.0 - model["refresh"]) for name, cycle in cycles.items()}


def weight_memory(device: Device) -> MemoryLevel:
    """The off-chip level that holds the weights."""
    return next(m for m in device.memory if m.role == "offchip" and "weights" in m.holds)


def core_record(
    device: Device,
    link: Link | None,
    hops: float,
    cards: int,
    tile: tuple[int, ...],
    model: Mapping[str, float],
    prefetch: bool = False,
    format: str = "fp16",
) -> tuple[float, ...]:
    """Flat record of a core for the compiled program generator: cycles, elements and bytes a cycle.

    In [cycle], [elements/cycle] and [B/cycle]. The port is that of FP16 whatever the format: its words hold more
    narrow weights, and bursts are as long.
    """
    dfx = core_of(device)
    clock = dfx.clock.si
    d, lanes, port, words = _port(device, tile)
    ddr = [m for m in device.memory if m.role == "offchip" and m is not weight_memory(device)]
    depth = {name: dfx.depths[name].si if name in dfx.depths else cycles for name, cycles in DEPTHS.items()}
    integers, (weight, kv_bytes) = format == "int8", STORED[format]
    scaling = 0.0 if format == "fp16" else depth["fp-mul"] + (not integers)  # times the scale; a conversion before it
    rate = link.usable / clock if link else 1.0
    values = {
        isa.D: d,
        isa.L: lanes,
        isa.VECTOR: vector_lanes(dfx),
        isa.ADD: depth["fp-add"],
        isa.MUL: depth["fp-mul"],
        isa.EXP: depth["fp-exp"],
        isa.COMPARE: depth["compare"],
        isa.ROOT: depth["fp-rsqrt"],
        isa.RECIPROCAL: depth["fp-recip"],
        isa.TABLE: depth["gelu-table"],
        isa.BEAT: largest(paces(device, tile, model).values()),
        isa.WRITE_LATENCY: depth["hbm-write"],
        isa.DDR_RATE: ddr[0].bandwidth.si / clock if ddr and ddr[0].bandwidth else port,
        isa.DDR_LATENCY: depth["ddr-read"],
        isa.HOP: link.latency.si * hops * clock if link else 0.0,
        isa.LINK_RATE: rate,
        isa.ISSUE: model["issue"],
        isa.ACCESS: model["hbm_access"] * clock,
        isa.SET_UP: model["unexplained"],
        isa.CARDS: float(cards),
        isa.BYTES: BYTES,
        isa.FILL: d * lanes * BYTES / (words * larger(port, dfx.channels.si * dfx.channel_bits.si / 8)),
        isa.PREFETCH: float(prefetch),
        isa.KEPT_BEATS: larger(1.0, larger(model["kept_beats"], d / lanes * (1.0 - exceeds(model["kept_beats"], 0.0)))),
        isa.READ: model["register_read"],
        isa.WEIGHT: weight,
        isa.CACHED: kv_bytes,
        isa.PRODUCT: depth["int8-mul" if integers else "fp-mul"],
        isa.TREE: depth["int8-add" if integers else "fp-add"],
        isa.SCALE: scaling,
        isa.QUANTISE: integers,
    }
    return tuple(1.0 * values[i] for i in range(isa.RECORD))


def run_code(code: np.ndarray, chaining: bool, fill: float) -> Timed:
    """Run any program and book its cycles; `fill` is the share of the memory port that a beat uses. [cycle]

    An estimate.
    """
    start, valid, push = np.zeros(len(code)), np.zeros(len(code)), np.zeros(len(code))
    roles = np.zeros((len(isa.ROLES), len(RESOURCES)))
    cycles = book(code, chaining, fill, start, valid, push, roles)
    hbm = np.bincount(code[:, isa.ROLE].astype(int), code[:, isa.HBM], len(isa.ROLES))
    return Timed(cycles, roles, hbm, float(code[:, isa.SENT].sum()), code, start, valid)


@lru_cache(maxsize=4096)
def time_program(part: str, record: tuple[float, ...], layer: LayerSizes, context: float, chaining: bool) -> Timed:
    """Cycles of one layer, of the LM head or of the embedding of one token on one core. An estimate.

    [cycle]; the context in [tokens].
    """
    return run_code(isa.encode(program_of(part, record, layer, context), record), chaining, record[isa.FILL])


def role_cycles(part: str, record: tuple[Any, ...], layer: LayerSizes, context: Any, chaining: bool) -> np.ndarray:
    """`Timed.by_role` of a program; of a record or a context with columns in it, an array of columns. [cycle]

    One program is written for all cores, its numbers columns, and run for each.
    """
    with suppress(NotAlike):  # no column has a hash to be found by
        return time_program(part, record, layer, context, chaining).by_role
    if isinstance(context, Column) and not any(isinstance(value, Column) for value in record):
        values, index = np.unique(context.values, return_inverse=True)
        if len(values) < index.size:  # contexts that occur are fewer than the designs that have them
            varying = role_cycles(part, record, layer, Column(values), chaining)
            index = index.reshape(context.values.shape)
            spread = [Column(value.values[index]) if isinstance(value, Column) else value for value in varying.flat]
            return columns_as(varying, spread)
    code, fill = isa.encode(program_of(part, record, layer, context), record), record[isa.FILL]
    varying = [at for at in np.ndindex(code.shape) if at[1] in _TIMING and isinstance(code[at], Column)]
    if not varying and not isinstance(fill, Column):
        return run_code(code.astype(np.float64), chaining, fill).by_role
    columns = {id(code[at]): code[at] for at in varying}  # instructions of one kind share theirs
    fills, *values = together(fill, *columns.values())
    index = {number: i for i, number in enumerate(columns)}
    out = np.zeros((len(isa.ROLES), len(RESOURCES), fills.size))
    book_many(
        np.array([[0.0 if isinstance(value, Column) else float(value) for value in row] for row in code]),
        *(np.array([at[side] for at in varying], dtype=np.int64) for side in (0, 1)),
        np.array([index[id(code[at])] for at in varying], dtype=np.int64),
        np.array([value.ravel() for value in values]).reshape(len(values), fills.size),
        fills.ravel(),
        chaining,
        out,
    )
    return columns_of(out, fills.shape)
