"""Where a network processor keeps what a binary layer reads and writes, and what each access costs its threads.

An access takes the latency of its memory and moves at most its width; a thread waits for it while others of its engine
run. Weights lie in the DRAM-backed memory, whose cache holds what it can, unless they are asked nearer: then in the
smallest memory that holds them, those of an island each with its own executors' neurons. Estimates, in cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.devices.common.column import exceeds, larger, smaller
from hardware_specs.schema import Device, NicMemory, SmartNic


def nic_of(device: Device) -> SmartNic:
    """The spec's network processor."""
    assert device.smartnic is not None, device.id
    return device.smartnic


@dataclass(frozen=True)
class WeightPlacement:
    """Memories that weights are read from, and the share that comes from each."""

    shares: Mapping[str, float]

    def cycles(self, device: Device, size: float) -> float:
        """One thread's wait for so many bytes [B] of weights. [cycle]"""
        return sum(share * read_cycles(device, name, size) for name, share in self.shares.items())

    @property
    def dram(self) -> float:
        """Share that comes from DRAM. [-]"""
        return self.shares.get("emem", 0.0)


def read_cycles(device: Device, name: str, size: float, foreign: bool = False) -> float:
    """One thread's wait for so many bytes [B] of a memory, an access after the other. [cycle]

    A memory of the own island or engine answers at its nearest, one of a foreign island at its farthest, one of the
    chip in between. Nothing where the part lists no such memory.
    """
    memory = nic_of(device).memory(name)
    if memory is None:
        return 0.0
    accesses = np.ceil(size / memory.width.si) if memory.width is not None else 1.0
    near, far = memory.nearest.si, memory.farthest.si
    latency = (near + far) / 2.0 if memory.per == "chip" else far if foreign else near
    return accesses * latency


def capacity_of(device: Device, memory: NicMemory) -> float:
    """All memories of a kind together. [B]"""
    islands = nic_of(device).islands
    return memory.capacity.si * (islands.si if memory.per == "island" and islands is not None else 1.0)


def home_of(device: Device, size: float, near: bool = False) -> WeightPlacement:
    """Where so many bytes of weights [B] lie.

    The cache before the DRAM holds all of what fits; what is read in turn and is larger leaves less, and nothing from
    twice its size on. `near` takes the island memories and the one all islands share first, smallest first.
    """
    nic = nic_of(device)
    if near:
        for name in ("cls", "ctm", "imem"):
            memory = nic.memory(name)
            if memory is not None and size <= capacity_of(device, memory):
                return WeightPlacement({name: 1.0})
    cache = nic.memory("emem-cache")
    hit = smaller(1.0, larger(0.0, 2.0 - size / cache.capacity.si)) if cache is not None else 0.0
    return WeightPlacement({name: share for name, share in (("emem-cache", hit), ("emem", 1.0 - hit)) if share > 0.0})


def input_cycles(device: Device, inputs: float, threads: float) -> tuple[float, float]:
    """A thread's wait for a layer's input bits: (once a layer, again for each neuron). [cycle]

    The input waits in the island its packet came to; other islands, if there are any, read it across. A thread keeps
    it in its share of the engine's registers where it fits, else reads it again for every neuron.
    """
    islands = nic_of(device).islands
    read = read_cycles(device, "ctm", inputs / 8.0, foreign=islands is None or islands.si > 1.0)
    registers = nic_of(device).memory("registers")
    lacks = 0.0 if registers is None else exceeds(inputs / 8.0, registers.capacity.si / threads)
    return read * (1.0 - lacks), read * lacks


def answer_cycles(device: Device, neurons: float) -> float:
    """A layer's result, a bit a neuron: an executor writes its part to the shared memory, the dispatcher reads all.
    [cycle]"""
    return read_cycles(device, "imem", 1.0) + read_cycles(device, "imem", neurons / 8.0)
