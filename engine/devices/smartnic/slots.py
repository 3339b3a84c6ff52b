"""Engines of a network processor: where executors lie on them, and what they leave to the packet path.

Threads of an engine take turns at its one issue slot. Packets are forwarded by engines without executors first, then by
the threads and slots that executors leave. No slot is counted for both. Estimates, in cycles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.devices.common.column import Column, larger, smaller
from engine.devices.common.contract import Unsupported
from engine.devices.common.job import Job
from engine.devices.smartnic.memory import accesses, accesses_per_s, capacity_of, islands_of, nic_of
from hardware_specs.schema import Device

PREAMBLE = 20.0  # bytes of preamble and gap around every Ethernet frame
PACKET = 512.0  # bytes, where none is chosen
SMALLEST, JUMBO = 64, 9000  # bytes of an Ethernet frame, at least and at most


@dataclass(frozen=True)
class EnginePlacement:
    """Where executors lie.

    Attributes
    ----------
    executors : that an inference is divided over. [-]
    engines, islands : that any executor lies on. [-]
    per_engine, per_inference : executors of the fullest engine, and those of one inference among them. [-]
    packets : share of the slots of an engine with executors that its other threads are sure of. [-]
    free : slots a second of the engines that forward only. [1/s]
    opens : islands whose packet memory takes packets. [-]
    """

    executors: float
    engines: float
    islands: float
    per_engine: float
    per_inference: float
    packets: float
    free: float
    opens: float

    @property
    def spans(self) -> float:
        """Islands that one inference lies on. [-]"""
        return smaller(self.islands, self.executors)


def executors_of(job: Job) -> float:
    """Threads that an inference is divided over: the tile's first number, else the spec's, as many as there are. [-]

    Inferences in flight have executors of their own, but in a pipeline they share them.
    """
    nic = nic_of(job.device)
    count = float(job.tile[0]) if job.tile else nic.executors.si
    return larger(1.0, smaller(count, nic.engines.si * nic.threads_per_engine.si // _groups(job)))


def _groups(job: Job) -> float:
    """Inferences in flight that have executors of their own. [-]"""
    return 1.0 if job.switches["pipeline"] else 1.0 * job.streams


def infer_of(job: Job) -> float:
    """Threads that are executors of any inference in flight. [-]"""
    return executors_of(job) * _groups(job)


def threads_of(job: Job) -> EnginePlacement:
    """Where the executors of a job lie."""
    placement = _spread(job.device, executors_of(job), infer_of(job), job.model, job.switches["whole-islands"])
    return EnginePlacement(executors_of(job), *placement)


def _spread(
    device: Device, executors: float, threads: float, model: Mapping[str, float], whole: bool = False
) -> tuple[float, ...]:
    """`EnginePlacement` of so many in all, from its engines on: over all islands, or island after island.

    Each engine takes as many as are set aside for inference, more only where all engines have theirs; in whole islands
    it takes as many as it has. Unsupported where an engine has not so many threads.
    """
    nic, reserve = nic_of(device), model["threads_for_inference"]
    limit, islands = nic.threads_per_engine.si, islands_of(device)
    if reserve > limit:
        raise Unsupported(
            f"model.threads_for_inference is {reserve:g}: an engine of {device.name} has {limit:g} threads "
            "(smartnic.slots_per_engine), so at most those are allowed"
        )
    engines = larger(1.0, smaller(nic.engines.si, np.ceil(threads / (limit if whole else reserve))))
    full = np.ceil(threads / engines)
    part = np.ceil(executors / engines)
    if not whole:
        free = (nic.engines.si - engines) * nic.clock.si
        return engines, smaller(islands, engines), full, part, (limit - full) / limit, free, islands
    span = smaller(islands, np.ceil(engines / nic.engines.si * islands))
    return engines, span, full, part, 0.0, nic.engines.si * (1.0 - span / islands) * nic.clock.si, islands - span


def line_rate(device: Device) -> float:
    """Traffic of all ports. [B/s]"""
    nic = nic_of(device)
    return nic.ports.si * nic.port_rate.si


def arriving(device: Device, packet: float, model: Mapping[str, float]) -> float:
    """Packets of a size [B] that come beside inference. [1/s]"""
    return smaller(model["offered_traffic"], line_rate(device)) / (packet + PREAMBLE)


def packet_share(job: Job, threads: EnginePlacement) -> float:
    """Share of the slots of engines with executors that packets take, beyond what engines without them forward. [-]"""
    need = arriving(job.device, packet_of(job), job.model) * job.model["packet_cycles"] - threads.free
    return smaller(threads.packets, larger(0.0, need) / (threads.engines * nic_of(job.device).clock.si))


def packet_accesses(device: Device, packet: float) -> float:
    """Accesses of a packet to the memory of its island: it is written there and read again. [-]"""
    ctm = nic_of(device).memory("ctm")
    return 2.0 * accesses(ctm, packet) if ctm is not None else 0.0


def forward_rate(
    device: Device,
    packet: float,
    threads: EnginePlacement,
    model: Mapping[str, float],
    busy: float,
    weights: float = 0.0,
) -> float:
    """Packets of a size [B] that the NIC passes on, whatever comes, while executors issue in a share `busy`. [1/s]

    The least of what the ports bring, what slots and threads are left for, and what the packet memory takes: its ports,
    and its room beside so many bytes of `weights` for packets while their threads take turns on them.
    """
    nic = nic_of(device)
    slots = slots_left(device, threads, busy)
    packets = smaller(line_rate(device) / (packet + PREAMBLE), slots / model["packet_cycles"])
    ctm = nic.memory("ctm")
    if ctm is None:
        return packets
    stays = nic.threads_per_engine.si * model["packet_cycles"] / nic.clock.si
    room = larger(0.0, capacity_of(ctm, threads.opens) - weights) / packet / stays
    ports = accesses_per_s(device, ctm, threads.opens) / packet_accesses(device, packet)
    return smaller(packets, smaller(room, ports))


def slots_left(device: Device, threads: EnginePlacement, busy: float) -> float:
    """Issue slots a second left to packets while executors issue in a share `busy` of those of their engines. [1/s]

    Nothing of an engine all of whose threads are executors: a slot wants a thread.
    """
    return threads.free + threads.engines * nic_of(device).clock.si * larger(
        threads.packets, smaller(1.0, threads.packets * nic_of(device).threads_per_engine.si) * (1.0 - busy)
    )


def packet_of(job: Job) -> float:
    """Size of the packets beside a job. [B]"""
    return float(job.tile[1]) if len(job.tile) > 1 else PACKET


def infers(device: Device, executors: float, model: Mapping[str, float]) -> EnginePlacement:
    """Where so many executors [-] of one inference lie; none of an idle NIC."""
    if executors > 0:
        return EnginePlacement(executors, *_spread(device, executors, executors, model))
    nic = nic_of(device)
    return EnginePlacement(0.0, 0.0, 0.0, 0.0, 0.0, 1.0, nic.engines.si * nic.clock.si, islands_of(device))


def beside(
    device: Device,
    sizes: Sequence[float],
    threads: EnginePlacement,
    weights: float,
    busy: float,
    model: Mapping[str, float],
) -> tuple[float | None, tuple[float, ...]]:
    """What the NIC forwards while executors issue in a share `busy` of their engines' slots, as `forward_rate` has it.

    Returns the packet from which on all are forwarded at line rate [B], None where no size is, and the traffic at each
    size, preamble and gap counted as line use [B/s].
    """
    packets: Any = Column(np.array([*sizes, *range(SMALLEST, JUMBO + 1)], dtype=np.float64))
    passed = (forward_rate(device, packets, threads, model, busy, weights) * (packets + PREAMBLE)).values
    slower = np.flatnonzero(passed[len(sizes) :] < line_rate(device) * (1.0 - 1e-12))
    first = SMALLEST + 1.0 + float(slower.max(initial=-1))
    return None if first > JUMBO else first, tuple(passed[: len(sizes)].tolist())
