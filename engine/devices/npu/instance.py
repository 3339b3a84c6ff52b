"""What the cost model reads of a soft vector processor's instance, and the cycles of a product on its tile engines.

Estimates.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

from engine.devices.common.cached import remembered
from engine.devices.common.column import larger, largest, smaller
from engine.devices.npu.chains import DEPTHS, Pipeline
from engine.devices.npu.density import device_for
from engine.devices.npu.pinning import formats, npu_of, pinned_memory, stored_bits
from hardware_specs.schema import Device


@dataclass(frozen=True)
class Engine:
    """What the cost model reads of an instance."""

    native: float
    lanes: float
    tiles: float
    clock: float
    beats: float  # cycles a native tile, or a native vector, takes
    vector_beats: float  # cycles a native vector takes in an MFU
    pipe: Pipeline
    in_order: bool = False  # chains issue one after the other, and wait for whole vectors
    side: float = 1.0  # requests that share a pass of the weights: batch lanes of all cores
    lanes_in: float = 1.0  # vectors that enter one after the other for each native vector of a pass
    fetch: float = 0.0  # cycles in which on-chip memory gives the weights of a native tile
    peak: float = 0.0  # native dimension x lanes x tile engines multiply-adds a cycle, for each of `side` [FLOP/s]

    @classmethod
    def of(cls, device: Device, format: str = "") -> "Engine":
        """Read off the `npu` block; in a format it was not built for, of the tile engines that then fit the part.

        These are larger: sums cross as much of the part from one to the next, whatever the format. The peak counts as
        often as vectors share a pass of the weights; a format whose printed peak is lower than the best one keeps that
        ratio.
        """
        engines = _engines(device)
        if format not in engines:
            engines[format] = cls._read(device, format)
        return engines[format]

    @classmethod
    def _read(cls, device: Device, format: str) -> "Engine":
        npu, base = npu_of(device_for(device, format)), npu_of(device)
        depths = {name: npu.depths[name].si if name in npu.depths else deep for name, deep in DEPTHS.items()}
        native, lanes = npu.native_dim.si, npu.lanes.si
        in_order = npu.issue == "in-order"
        beats = 1 if in_order else math.ceil(native / lanes)  # in order, a pass is native x lanes of every engine
        vector = math.ceil(native / npu.mfu_lanes.si) if npu.mfu_lanes else beats
        pipe = Pipeline.of(depths, native, lanes, base.tiles.si, npu.mfus.si)
        batch, cores = (size.si if size else 1.0 for size in (npu.batch_lanes, npu.cores))
        side, gives = (batch * cores, batch), pinned_memory(device).bandwidth
        bits = stored_bits(device, format or formats(device)[0])
        fetch = native * native * cores * bits / 8 * npu.clock.si / gives.si if gives else 0.0
        best = largest(p.si for p in device.peak.values())
        share = device.peak[format].si / best if format in device.peak else 1.0
        peak = 2.0 * native * lanes * npu.tiles.si * npu.clock.si * (batch * cores) * share
        return cls(native, lanes, npu.tiles.si, npu.clock.si, beats, vector, pipe, in_order, *side, fetch, peak)

    @cached_property
    def without_fetch(self) -> "Engine":
        """The same instance with on-chip memory that never keeps a tile engine waiting."""
        return replace(self, fetch=0.0)

    def for_batch(self, batch: float) -> "Engine":
        """The same instance as a batch [requests] occupies it: cores without a request read no weights."""
        cores = self.side / self.lanes_in
        return replace(self, fetch=self.fetch * (smaller(cores, math.ceil(batch / self.lanes_in)) / cores))

    def crossing(self, entering: float, leaving: float) -> float:
        """Cycles in which inputs are loaded and outputs stored. [cycle]

        Lanes load one after the other, a native vector a cycle; they store side by side.
        """
        return self.lanes_in * self.vectors(entering) + self.vectors(leaving) if self.in_order else 0.0

    def vectors(self, elements: float) -> float:
        """Native vectors that hold so many elements. [-]"""
        return math.ceil(elements / self.native)

    def product(self, rows: float, n: float, k: float) -> float:
        """Cycles of `rows` matrix-vector products by one n x k matrix. [cycle]

        Its native tiles are dealt to the engines; a matrix of fewer tiles than engines is copied where several rows
        can use the copies. On an instance that issues in order all engines work on the same rows, each on its own
        columns, `lanes` at a time. No product is faster than on-chip memory gives its weights, row by row.
        """
        tiles = self.vectors(n) * self.vectors(k)
        if self.in_order:
            passes = rows * self.vectors(n) * math.ceil(k / (self.tiles * self.lanes))
        else:
            passes = math.ceil(rows * tiles / self.tiles) if rows > 1 else rows * math.ceil(tiles / self.tiles)
        return larger(passes * self.beats, rows * tiles * self.fetch)


@remembered(id)
def _engines(_: Device) -> dict[str, Engine]:
    """Those of a device that were asked for, by format."""
    return {}
