"""Where a network processor keeps what a binary layer reads and writes, and what each access costs its threads.

An access takes the latency of its memory and moves at most its width; a thread waits for it while others of its engine
run. Weights lie in the DRAM-backed memory, whose cache holds what it can, unless they are asked nearer: then in the
smallest memory that holds them, those of an island each with its own executors' neurons. Estimates, in cycles.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.devices.common.column import exceeds, larger, smaller
from hardware_specs.schema import Device, NicMemory, SmartNic

NEAR = ("cls", "ctm", "imem")
"""Memories on the chip that packets use, smallest first."""


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


def read_cycles(device: Device, name: str, size: float, foreign: float = 0.0) -> float:
    """One thread's wait for so many bytes [B] of a memory, an access after the other. [cycle]

    A memory of the own island or engine answers at its nearest, one of a `foreign` island (1.0) at its farthest, one of
    the chip in between. Nothing where the part lists no such memory.
    """
    memory = nic_of(device).memory(name)
    if memory is None:
        return 0.0
    near, far = memory.nearest.si, memory.farthest.si
    latency = (near + far) / 2.0 if memory.per == "chip" else near + foreign * (far - near)
    return accesses(memory, size) * latency


def islands_of(device: Device) -> float:
    """Groups of engines that share fast memories. [-]"""
    islands = nic_of(device).islands
    return islands.si if islands is not None else 1.0


def capacity_of(memory: NicMemory, islands: float) -> float:
    """What memories of a kind hold together in so many islands. [B]"""
    return memory.capacity.si * (islands if memory.per == "island" else 1.0)


def accesses_per_s(device: Device, memory: NicMemory, islands: float) -> float:
    """Accesses that the ports of a memory take, in so many islands together. [1/s]"""
    ports = memory.ports.si if memory.ports is not None else 1.0
    return ports * nic_of(device).clock.si * (islands if memory.per == "island" else 1.0)


def accesses(memory: NicMemory, size: float) -> float:
    """Accesses that so many bytes [B] take. [-]"""
    return np.ceil(size / memory.width.si) if memory.width is not None else 1.0


def home_of(device: Device, size: float, near: bool = False, islands: float = 1.0) -> WeightPlacement:
    """Where so many bytes of weights [B] lie, those of an inference over the memories of so many islands.

    The cache before the DRAM holds all of what fits; what is read in turn and is larger leaves less, and nothing from
    twice its size on. `near` takes the island memories and the one all islands share first, smallest first.
    """
    nic = nic_of(device)
    if near:
        for name in NEAR:
            memory = nic.memory(name)
            if memory is not None and size <= capacity_of(memory, islands):
                return WeightPlacement({name: 1.0})
    cache = nic.memory("emem-cache")
    hit = smaller(1.0, larger(0.0, 2.0 - size / cache.capacity.si)) if cache is not None else 0.0
    return WeightPlacement({name: share for name, share in (("emem-cache", hit), ("emem", 1.0 - hit)) if share > 0.0})


def input_cycles(device: Device, inputs: float, threads: float, islands: float) -> tuple[float, float]:
    """A thread's wait for a layer's input bits: (once a layer, again for each neuron). [cycle]

    The input waits in the island its packet came to; other islands that work on it read it across. A thread keeps
    it in its share of the engine's registers where it fits, else reads it again for every neuron.
    """
    read = read_cycles(device, "ctm", inputs / 8.0, foreign=exceeds(islands, 1.0))
    registers = nic_of(device).memory("registers")
    lacks = 0.0 if registers is None else exceeds(inputs / 8.0, registers.capacity.si / threads)
    return read * (1.0 - lacks), read * lacks


def answer_cycles(device: Device, neurons: float) -> float:
    """A layer's result, a bit a neuron: an executor writes its part to the shared memory, the dispatcher reads all.
    [cycle]"""
    return read_cycles(device, "imem", 1.0) + read_cycles(device, "imem", neurons / 8.0)
