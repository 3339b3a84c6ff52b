"""What the cost model reads of a soft vector processor's instance, and the cycles of a product on its tile engines."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.devices.npu.chains import DEPTHS, Pipeline
from hardware_specs.schema import Device

__all__ = ["Engine"]


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

    @classmethod
    def of(cls, device: Device) -> Engine:
        """Read off the `npu` block."""
        npu = device.npu
        assert npu is not None
        depths = {name: npu.depths[name].si if name in npu.depths else deep for name, deep in DEPTHS.items()}
        native, lanes = npu.native_dim.si, npu.lanes.si
        beats = math.ceil(native / lanes)
        vector = math.ceil(native / npu.mfu_lanes.si) if npu.mfu_lanes else beats
        pipe = Pipeline.of(depths, native, lanes, npu.tiles.si, npu.mfus.si)
        return cls(native, lanes, npu.tiles.si, npu.clock.si, beats, vector, pipe)

    def vectors(self, elements: float) -> float:
        """Native vectors that hold so many elements. [-]"""
        return math.ceil(elements / self.native)

    def product(self, rows: float, n: float, k: float) -> float:
        """Cycles of `rows` matrix-vector products by one n x k matrix. [cycle]

        Its native tiles are dealt to the engines; a matrix of fewer tiles than engines is copied where several rows
        can use the copies.
        """
        tiles = self.vectors(n) * self.vectors(k)
        if rows > 1:
            return math.ceil(rows * tiles / self.tiles) * self.beats
        return rows * math.ceil(tiles / self.tiles) * self.beats
