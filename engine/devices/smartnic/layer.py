"""An inference on a network processor: its layers one by one, and what it waits for others in flight. Estimates."""

from dataclasses import dataclass, replace

import numpy as np

from engine.devices.common.column import as_doubles, exceeds, larger, largest, numbers, smaller
from engine.devices.common.contract import COMPUTE, OFFCHIP, ONCHIP, OVERHEAD, RESOURCES, Unsupported
from engine.devices.common.job import Job
from engine.devices.smartnic.memory import (
    WeightPlacement,
    accesses,
    accesses_per_s,
    answer_cycles,
    home_of,
    input_cycles,
    nic_of,
)
from engine.devices.smartnic.slots import (
    EnginePlacement,
    arriving,
    forward_rate,
    packet_accesses,
    packet_of,
    packet_share,
    threads_of,
)
from hardware_specs.schema import Device, MemoryLevel

WORD_BITS = 32.0
_TURNS = 2.0
"""Packets and inference: ports of a memory that take turns leave each of them half where both ask. Assumed."""


def chain_s(device: Device, executors: float, model) -> float:
    """Start notification down the chain of executors and end notification back up. [s]"""
    return 2.0 * executors * model["hop_cycles"] / nic_of(device).clock.si


def layer_s(
    device: Device, k: float, n: float, threads: EnginePlacement, home: WeightPlacement, model, packets: float = 0.0
) -> tuple[float, float]:
    """One binary layer of n neurons over k inputs, without its notifications: (arithmetic, waits none hides). [s]

    The slowest engine sets the time. Its threads take turns in the issue slots that `packets`, a share of them, leave.
    So it needs the larger of all their issue cycles and one thread's issue cycles plus its waits for bursts of weights,
    and for the input where that is no longer at hand. All threads wait for their first burst at once, which hides none
    of it. The input's first reading and the way of the result are waited for once.
    """
    neurons = np.ceil(n / threads.executors)  # of one executor
    active = smaller(threads.per_inference, np.ceil(n / neurons))
    words = np.ceil(k / WORD_BITS)
    issue = words * model["word_cycles"] / (1.0 - packets)
    once, again = input_cycles(device, k, threads.per_engine, threads.spans)
    burst = home.cycles(device, smaller(words, model["burst_words"]) * WORD_BITS / 8.0)
    wait = np.ceil(words / model["burst_words"]) * burst + again
    stalls = larger(neurons * larger(0.0, issue + wait - active * issue), burst) + once + answer_cycles(device, n)
    clock = nic_of(device).clock.si
    return neurons * active * issue / clock, stalls / clock


def dram_of(device: Device) -> MemoryLevel:
    """The memory that holds any weights."""
    return max((m for m in device.memory if m.role == "offchip"), key=lambda m: m.capacity.si)


def weights_of(job: Job) -> float:
    """Weights of a job. [B]"""
    return sum(op.stored * op.layers for op in job.ops if op.kind == "BinaryGemm") / 8.0


def weights_in(job: Job) -> WeightPlacement:
    """Where a job's weights lie."""
    return home_of(job.device, weights_of(job), job.switches["weights-near"], threads_of(job).spans)


def beside_inputs(job: Job, threads: EnginePlacement, home: WeightPlacement) -> float:
    """Packet memory of all islands that weights take: a copy of them for each group of islands of an inference. [B]"""
    return home.shares.get("ctm", 0.0) * weights_of(job) * threads.islands / threads.spans


def packet_memory(job: Job, threads: EnginePlacement, home: WeightPlacement) -> float:
    """The same of islands that packets come to: none of it where executors have islands of their own. [B]"""
    return 0.0 if job.switches["whole-islands"] else beside_inputs(job, threads, home)


@dataclass(frozen=True)
class LayerTime:
    """An operator of a pass: `rows` samples one after the other, each of so many seconds, and weights of `bits`."""

    rows: float
    work: float
    stall: float = 0.0
    late: float = 0.0  # until the DRAM has delivered the weights
    wire: float = 0.0  # notifications
    bits: float = 0.0
    reads: float = 0.0  # accesses to where the weights lie

    @property
    def seconds(self) -> float:
        """Time of the operator alone. [s]"""
        return self.rows * (self.work + self.stall + self.late + self.wire)


def _executors_by_op(job: Job, threads: EnginePlacement) -> list[EnginePlacement]:
    """Executors of each operator: all of them, or in a pipeline its layer's, by its work, one at least."""
    if not job.switches["pipeline"]:
        return [threads] * len(job.ops)
    at, works = (job.batch, job.length, job.context), []
    layers = sum(op.kind == "BinaryGemm" for op in job.ops)
    if threads.executors < layers:
        raise Unsupported(
            f"switches.pipeline: the network has {layers} layers, each wants an executor; tile.executors is "
            f"{threads.executors:g}"
        )
    for op in job.ops:  # what follows a product goes on where that is
        works.append(op.n.at(*at) * np.ceil(op.k.at(*at) / WORD_BITS) if op.kind == "BinaryGemm" else works[-1])
    whole = sum(work for op, work in zip(job.ops, works, strict=True) if op.kind == "BinaryGemm")
    counts = (larger(1.0, threads.executors * (work / whole) // 1.0) for work in works)
    return [replace(threads, executors=count, per_inference=np.ceil(count / threads.engines)) for count in counts]


def layers_of(job: Job) -> tuple[WeightPlacement, list[LayerTime]]:
    """Where the weights lie, and a pass operator by operator, of an inference that has its engines for itself."""
    device, model, dram, home, all_of = job.device, job.model, dram_of(job.device), weights_in(job), threads_of(job)
    at, packets = (job.batch, job.length, job.context), packet_share(job, all_of)
    result: list[LayerTime] = []
    for op, threads in zip(job.ops, _executors_by_op(job, all_of), strict=True):
        if op.kind != "BinaryGemm":
            neurons = op.writes.at(*at) * op.layers  # a threshold is a cycle, threads of an engine in turn
            cycles = np.ceil(neurons / threads.executors) * smaller(threads.per_inference, neurons) / (1.0 - packets)
            result.append(LayerTime(1.0, cycles / nic_of(device).clock.si))
            continue
        rows = op.m.at(*at) * op.g.at(*at) * op.layers * op.steps.at(*at)
        k, n = op.k.at(*at), op.n.at(*at)
        work, stall = layer_s(device, k, n, threads, home, model, packets)
        late = 0.0
        if dram.bandwidth is not None:
            late = larger(0.0, home.dram * (k * n) / 8.0 / dram.bandwidth.si - work - stall)
        notice = exceeds(threads.executors, 1.0) if result and not job.switches["pipeline"] else 1.0
        bursts = np.ceil(k / WORD_BITS / model["burst_words"])
        level = nic_of(device).memory(next(iter(home.shares)))
        reads = accesses(level, smaller(k / 8.0, model["burst_words"] * WORD_BITS / 8.0)) if level is not None else 0.0
        wire = notice * chain_s(device, threads.executors, model)
        result.append(LayerTime(rows, work, stall, late, wire, k * n, n * bursts * reads))
    return home, result


def slots_of(job: Job) -> float:
    """Issue slots of a pass, those that wait for the fullest engine left out. [cycle]"""
    at = (job.batch, job.length, job.context)
    words = sum(
        op.m.at(*at) * op.g.at(*at) * op.layers * op.steps.at(*at) * op.n.at(*at) * np.ceil(op.k.at(*at) / WORD_BITS)
        for op in job.ops
        if op.kind == "BinaryGemm"
    )
    return words * job.model["word_cycles"] + sum(op.writes.at(*at) for op in job.ops if op.kind != "BinaryGemm")


def _waits(job: Job, home: WeightPlacement, layers: list[LayerTime]) -> tuple[float, float, float]:
    """What a pass waits for others in flight: for issue slots, for ports of the memory of its weights, for DRAM. [s]

    As many passes as there are in flight end in the time of one, none before it could alone. A slot, an access and a
    byte serve one of them; of a pipeline the slowest layer serves one at a time.
    """
    threads, streams = threads_of(job), 1.0 * job.streams
    alone, work = sum(layer.seconds for layer in layers), sum(layer.rows * layer.work for layer in layers)
    slots = threads.per_engine / threads.per_inference * work
    if job.switches["pipeline"]:
        stages: list[float] = []
        for op, layer in zip(job.ops, layers, strict=True):
            stages += [layer.seconds] if op.kind == "BinaryGemm" or not stages else [stages.pop() + layer.seconds]
        spare = threads.engines * nic_of(job.device).clock.si * (1.0 - packet_share(job, threads))
        slots = streams * larger(largest(stages), slots_of(job) / spare)
    memory = nic_of(job.device).memory(next(iter(home.shares)))
    ports = 0.0
    if memory is not None:
        free = accesses_per_s(job.device, memory, threads.islands)
        if memory.name == "ctm":
            packet = packet_of(job)
            packet_rate = smaller(
                arriving(job.device, packet, job.model),
                forward_rate(job.device, packet, threads, job.model, 1.0, packet_memory(job, threads, home)),
            )
            here = 0.0 if job.switches["whole-islands"] else threads.islands / threads.opens
            free = larger(free / _TURNS, free - here * packet_rate * packet_accesses(job.device, packet))
        ports = streams * sum(layer.rows * layer.reads for layer in layers) / free
    dram = dram_of(job.device).bandwidth
    bytes_s = streams * home.dram * sum(layer.rows * layer.bits for layer in layers) / 8.0 / dram.si if dram else 0.0
    busier = larger(alone, slots)
    return larger(0.0, slots - alone), larger(0.0, ports - busier), larger(0.0, bytes_s - larger(busier, ports))


def seconds_of(job: Job, home: WeightPlacement, layers: list[LayerTime]) -> np.ndarray:
    """Seconds of a pass by operator and resource. [s]"""
    seconds, waits = numbers((len(layers), len(RESOURCES))), _waits(job, home, layers)
    whole = sum(layer.rows * layer.work for layer in layers)
    for row, layer in zip(seconds, layers, strict=True):
        part = layer.rows * layer.work / whole
        row[COMPUTE], row[OVERHEAD] = layer.rows * layer.work + part * waits[0], layer.rows * layer.wire
        row[OFFCHIP] = layer.rows * (home.dram * layer.stall + layer.late) + part * waits[2]
        row[ONCHIP] = layer.rows * (1.0 - home.dram) * layer.stall + part * waits[1]
    return as_doubles(seconds)
