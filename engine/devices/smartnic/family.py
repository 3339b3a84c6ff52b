"""Network processors whose spare threads run binary layers beside the packet path.

A layer starts with a notification that runs down the chain of executors, each then computes its neurons word by word
(no population-count instruction, so tens of cycles a word), and the end runs back up the chain. Executors are threads
of multithreaded engines: those that share an engine take turns at its one issue slot, and hide each other's waits for
the memory that weights lie in (`engine.devices.smartnic.memory`). An engine that infers keeps a share of its
slots for packets: inference has the others, and no slot is counted for both. Estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.devices.common.column import as_doubles, larger, numbers, smaller
from engine.devices.common.contract import (
    RESOURCES,
    DeviceFamily,
    Fit,
    Job,
    Knob,
    PacketPath,
    Parameter,
    PhaseCost,
    Span,
    Switch,
    Unsupported,
)
from engine.devices.common.footprint import footprint
from engine.devices.smartnic.memory import (
    WeightPlacement,
    answer_cycles,
    capacity_of,
    home_of,
    input_cycles,
    read_cycles,
)
from engine.devices.smartnic.memory import nic_of as _nic
from hardware_specs.schema import Device, MemoryLevel
from model_zoo.ops import Graph

WORD_BITS = 32.0
PREAMBLE = 20.0  # bytes of preamble and gap around every Ethernet frame
PACKETS = (64, 128, 256, 512, 1024, 1518)
PACKET = 512.0  # bytes, where none is chosen
RUNS = ("BinaryGemm", "Sign")
_NEAR = ("cls", "ctm", "imem")


def formats(device: Device) -> tuple[str, ...]:
    """Only binary: there is neither a multiplier array nor floating point."""
    return ("binary",)


def peak(device: Device, format: str) -> float:
    """Engines x 32 bits a cycle x two operations (xor, count): a bound no code without a count instruction reaches.

    [FLOP/s]
    """
    nic = _nic(device)
    return nic.engines.si * nic.clock.si * WORD_BITS * 2.0


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this NIC can't run the graph, or None."""
    for phase in graph.phases:
        for op in phase.ops:
            if op.kind not in RUNS:
                return f"{device.name} runs binary fully connected layers only; {op.name} is a {op.kind}."
    return None


def _dram(device: Device) -> MemoryLevel:
    return max((m for m in device.memory if m.role == "offchip"), key=lambda m: m.capacity.si)


def _cache(device: Device) -> MemoryLevel | None:
    """The cache in front of the DRAM: the first on-chip level of the spec."""
    return next((m for m in device.memory if m.role == "onchip"), None)


def executors_of(job: Job) -> float:
    """Threads that compute: the tile's first number, else the spec's. [-]"""
    nic = _nic(job.device)
    wanted = float(job.tile[0]) if job.tile else nic.executors.si
    return smaller(wanted, nic.engines.si * nic.threads_per_engine.si)


def chain_s(device: Device, executors: float, model) -> float:
    """Start notification down the chain of executors and end notification back up. [s]"""
    return 2.0 * executors * model["hop_cycles"] / _nic(device).clock.si


def engines_of(device: Device, executors: float, model) -> tuple[float, float]:
    """Engines that so many executors lie on, and executors of the fullest one. [-]

    Each takes as many as are set aside for inference, more only where all engines have theirs. Unsupported where an
    engine has not so many threads.
    """
    nic, wanted = _nic(device), model["threads_for_inference"]
    if wanted > nic.threads_per_engine.si:
        raise Unsupported(
            f"model.threads_for_inference is {wanted:g}: an engine of {device.name} has "
            f"{nic.threads_per_engine.si:g} threads (smartnic.threads_per_engine), so at most those are allowed"
        )
    engines = larger(1.0, smaller(nic.engines.si, np.ceil(executors / wanted)))
    return engines, np.ceil(executors / engines)


def layer_s(device: Device, k: float, n: float, executors: float, home: WeightPlacement, model) -> tuple[float, float]:
    """One binary layer of n neurons over k inputs, without its notifications: (arithmetic, waits none hides). [s]

    The slowest engine sets the time. Its threads take turns in the issue slots that packets leave it, so it needs the
    larger of all their issue cycles and one thread's issue cycles plus its waits for bursts of weights, and for the
    input where that is no longer at hand. All threads wait for their first burst at once, which hides none of it. The
    input's first reading and the way of the result are waited for once.
    """
    threads = engines_of(device, executors, model)[1]
    neurons = np.ceil(n / executors)  # of one executor
    active = smaller(threads, np.ceil(n / neurons))
    words = np.ceil(k / WORD_BITS)
    issue = words * model["word_cycles"] / (1.0 - model["packet_share"])
    once, again = input_cycles(device, k, threads)
    burst = home.cycles(device, model["burst_words"] * WORD_BITS / 8.0)
    wait = np.ceil(words / model["burst_words"]) * burst + again
    waited = larger(neurons * larger(0.0, issue + wait - active * issue), burst) + once + answer_cycles(device, n)
    clock = _nic(device).clock.si
    return neurons * active * issue / clock, waited / clock


def compare_s(device: Device, neurons: float, executors: float, model) -> float:
    """Thresholds of so many neurons: a cycle each, threads of an engine in turn. [s]"""
    threads = engines_of(device, executors, model)[1]
    cycles = np.ceil(neurons / executors) * smaller(threads, neurons) / (1.0 - model["packet_share"])
    return cycles / _nic(device).clock.si


def line_rate(device: Device) -> float:
    """Traffic of all ports. [B/s]"""
    nic = _nic(device)
    return nic.ports.si * nic.port_rate.si


def packet_budget(device: Device, executors: float, model) -> float:
    """Engine cycles a second left to the packet path while inference keeps its threads busy. [cycle/s]

    An engine with executors leaves its packets' share where a thread of it is none; the others forward only.
    """
    nic = _nic(device)
    engines, threads = engines_of(device, executors, model) if executors > 0 else (0.0, 0.0)
    left = engines * model["packet_share"] if threads < nic.threads_per_engine.si else 0.0
    return float((nic.engines.si - engines + left) * nic.clock.si)


def forwarding_rate(device: Device, packet_bytes: float, executors: float, model) -> float:
    """Traffic the NIC forwards at a packet size while inferring, preamble and gap counted as line use. [B/s]

    The smaller of the ports' line rate and the packet budget. An estimate.
    """
    line = line_rate(device)
    packets = packet_budget(device, executors, model) / model["packet_cycles"]
    return float(min(line, packets * (packet_bytes + PREAMBLE)))


def drop_point(device: Device, executors: float, model) -> float:
    """Smallest packet forwarded at line rate while inferring. [B]"""
    packets = packet_budget(device, executors, model) / model["packet_cycles"]
    return max(64.0, line_rate(device) / packets - PREAMBLE) if packets > 0 else float("inf")


def packet_times(job: Job) -> tuple[float, float]:
    """Between two packets forwarded beside a job, and of one that is alone: its engine's cycles. [s]"""
    packet = _packet(job)
    between = (packet + PREAMBLE) / forwarding_rate(job.device, packet, executors_of(job), job.model)
    return between, max(between, job.model["packet_cycles"] / _nic(job.device).clock.si)


def _packet(job: Job) -> float:
    return float(job.tile[1]) if len(job.tile) > 1 else PACKET


def _threads(device: Device) -> int:
    nic = _nic(device)
    return int(nic.engines.si * nic.threads_per_engine.si)


def place(job: Job) -> tuple[Fit, ...]:
    """Weights lie in the DRAM-backed memory, whose cache holds what it can.

    A request's input waits in the packet memory of one island, a layer's results in the memory all islands share.
    """
    dram, cache = _dram(job.device), _cache(job.device)
    need = footprint(job, low_bits=1.0, wide="binary")
    fits = [Fit(dram.name, dram.role, need.total, dram.capacity.si, "binary weights and thresholds")]
    if cache is not None:
        fits.append(Fit(cache.name, cache.role, need.weights, cache.capacity.si, "binary weights", False))
    nic, at = _nic(job.device), (1.0, job.length, job.context)
    home = home_of(job.device, need.weights, job.switches["weights-near"])
    for name in home.shares:
        memory = nic.memory(name)
        if name in _NEAR and memory is not None:
            size = capacity_of(job.device, memory)
            fits.append(Fit(name, "onchip", need.weights, size, "binary weights, each executor's in its island", False))
    layers = [op for op in job.ops if op.kind == "BinaryGemm"]
    if layers:
        sizes = (
            ("ctm", layers[0].k.at(*at), "input of a request, in the island its packet came to"),
            ("imem", max(op.n.at(*at) for op in layers), "results of a layer, one bit a neuron"),
        )
        for name, bits, holds in sizes:
            place = nic.memory(name)
            if place is not None:
                fits.append(Fit(name, "onchip", bits / 8, place.capacity.si, holds, False))
    return tuple(fits)


def price(job: Job, detail: bool = True) -> PhaseCost:
    """Cost of one pass: layers one after the other, samples of a batch one after the other. An estimate.

    Weights can't be kept beside an executor (its memory belongs to the packets), so batching gains nothing.
    """
    device, model = job.device, job.model
    executors = executors_of(job)
    home, layers = _priced(job)
    seconds = _seconds(home, layers)
    if not detail:
        return PhaseCost(seconds)
    at = (job.batch, job.length, job.context)
    size = len(job.ops)
    flops, off, on = np.zeros(size), np.zeros(size), np.zeros(size)
    roofs = np.full(size, peak(device, "binary"))
    spans: list[Span] = []
    clock = 0.0
    for i, (op, layer) in enumerate(zip(job.ops, layers, strict=True)):
        flops[i] = op.flops.at(*at) * op.layers * op.steps.at(*at)
        if op.kind != "BinaryGemm":  # the compare that ends a neuron: one cycle of its executor's turn
            alone = compare_s(device, op.writes.at(1, job.length, job.context), executors, model)
            spans.append(Span("executors", op.name, clock, alone, "compute"))
            clock += alone
            continue
        off[i], on[i] = layer.rows * home.dram * layer.bits / 8.0, layer.rows * (1.0 - home.dram) * layer.bits / 8.0
        if op.layers == 1 and len(spans) < 96:
            for unit, name, length, resource in (
                ("dispatcher", f"{op.name} start", layer.wire / 2.0, "overhead"),
                ("executors", op.name, layer.work + (layer.waited + layer.late), "compute"),
                ("dispatcher", f"{op.name} end", layer.wire / 2.0, "overhead"),
            ):
                spans.append(Span(unit, name, clock, length, resource))
                clock += length
    packet = _packet(job)
    rate = forwarding_rate(device, packet, executors, model)
    notes = (
        f"While {executors:.0f} executors infer, {rate * 8e-9:.1f} Gbit/s of {packet:.0f} B packets pass; "
        f"line rate from {drop_point(device, executors, model):.0f} B on",
        *_trade_offs(device, home, model),
    )
    return PhaseCost(seconds, flops, roofs, off, on, timeline=tuple(spans), timeline_of="one inference", notes=notes)


def _trade_offs(device: Device, home: WeightPlacement, model) -> tuple[str, ...]:
    """What packets give up for weights kept near, and what a burst of weights gains by it."""
    size = model["burst_words"] * WORD_BITS / 8.0
    cycles, usual = home.cycles(device, size), read_cycles(device, "emem-cache", size)
    gain = f"a burst of them takes {cycles:.0f} cycles, from the cache before the DRAM {usual:.0f}"
    return tuple(f"Weights lie in the {n.upper()}, which packets then lack; {gain}" for n in home.shares if n in _NEAR)


@dataclass(frozen=True)
class _Layer:
    """An operator of a pass: `rows` samples one after the other, each of so many seconds, and weights of `bits`."""

    rows: float
    work: float
    waited: float = 0.0
    late: float = 0.0  # until the DRAM has delivered the weights
    wire: float = 0.0  # notifications
    bits: float = 0.0


def _priced(job: Job) -> tuple[WeightPlacement, list[_Layer]]:
    """Where the weights lie, and a pass operator by operator."""
    device, model, executors, dram = job.device, job.model, executors_of(job), _dram(job.device)
    weights = sum(op.stored * op.layers for op in job.ops if op.kind == "BinaryGemm") / 8.0
    home = home_of(device, weights, job.switches["weights-near"])
    at = (job.batch, job.length, job.context)
    result = []
    for op in job.ops:
        if op.kind != "BinaryGemm":
            result.append(_Layer(1.0, compare_s(device, op.writes.at(*at) * op.layers, executors, model)))
            continue
        rows = op.m.at(*at) * op.g.at(*at) * op.layers * op.steps.at(*at)
        k, n = op.k.at(*at), op.n.at(*at)
        work, waited = layer_s(device, k, n, executors, home, model)
        late = 0.0
        if dram.bandwidth is not None:
            late = larger(0.0, home.dram * (k * n) / 8.0 / dram.bandwidth.si - work - waited)
        result.append(_Layer(rows, work, waited, late, chain_s(device, executors, model), k * n))
    return home, result


def _seconds(home: WeightPlacement, layers: list[_Layer]) -> np.ndarray:
    """Seconds of a pass by operator and resource. [s]"""
    seconds = numbers((len(layers), 6))
    for row, layer in zip(seconds, layers, strict=True):
        row[0], row[5] = layer.rows * layer.work, layer.rows * layer.wire
        row[1] = layer.rows * (home.dram * layer.waited + layer.late)
        row[2] = layer.rows * (1.0 - home.dram) * layer.waited
    return as_doubles(seconds)


def idles(device: Device, model: Mapping[str, float]) -> float | None:
    """What the NIC draws whether or not it infers, where its file does not say: all it is listed to draw. [W]"""
    listed = device.power.loaded or device.power.max
    return listed.si if listed is not None else None


def activity(job: Job, watts: float) -> list[float]:
    """What threads that infer draw beside `idles`, of what as many as the document's do. [W]"""
    return [*[watts * (executors_of(job) / _nic(job.device).executors.si)] * len(RESOURCES), 0.0]


def path(switches: Mapping[str, bool], model: Mapping[str, float]) -> tuple[str, float] | None:
    """A packet's way in and its answer's way out, where they are counted. [s] Published."""
    return ("packet received, parsed and answered on the NIC", model["nic_path"]) if switches["network"] else None


def knobs(device: Device) -> tuple[Knob, ...]:
    """Executors, and the packet size at which forwarding is reported."""
    sizes = (n for n in (1, 8, 16, 32, 64, 128, 192, 256, 320, 360, 420, 480) if n <= _threads(device))
    counts = sorted({*sizes, int(_nic(device).executors.si)})
    return (Knob("executors", "Executors", tuple(counts)), Knob("packet", "Packet size [B]", PACKETS))


FAMILY = DeviceFamily(
    kind="smartnic",
    title="SmartNIC",
    label="SmartNIC",
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    parameters=(
        Parameter("word_cycles", 31.9875, "cycle", "calibrated",
                  "Issue cycles of one 32-bit word on one engine: load, xor, count by shifts and masks, add, loop.",
                  ("5G-042", "5G-043"), low=1.0),
        Parameter("hop_cycles", 109.26, "cycle", "calibrated",
                  "One notification from an executor to its neighbour in the chain.", ("5G-042", "5G-043"), low=1.0),
        Parameter("threads_for_inference", 6.0, "1", "published", "Threads of an engine that may be executors.",
                  source="document 003, section 5: 6 threads from each of 42 engines", low=1.0),
        Parameter("packet_share", 0.25, "1", "published",
                  "Issue slots that an engine with executors keeps for packets, whether or not packets come.",
                  source="document 003, section 5: 2 of its 8 threads forward, and all threads take turns", high=0.99),
        Parameter("burst_words", 16.0, "1", "assumed", "32-bit words of weights a thread fetches at once (64 B).",
                  low=1.0),
        Parameter("packet_cycles", 1000.0, "cycle", "assumed",
                  "Engine cycles to forward a packet: at most 1,181, or 512 B would miss line rate beside inference.",
                  ("5G-052",), low=1.0),
        Parameter("nic_path", 35e-6, "s", "published", "Request and answer through the NIC alone.",
                  source="document 003, section 5.5"),
    ),
    assumptions=(
        "Executors are spread over engines so that each island keeps its fast memories for packets.",
        "Weights are read from their memory for every inference: batching gains nothing.",
        "Waits for weights show in a layer's first burst, and beyond it where an engine has too few threads to hide "
        "them: with the six of document 003 its figures leave no room for more (a neuron costs no more at 16k "
        "neurons, past the cache, than at 4k).",
    ),
    path=path,
    idles=idles,
    activity=activity,
    knobs=knobs,
    tile=lambda job: (int(executors_of(job)), int(PACKET)),
    switches=(
        Switch("network", "Network path", "A request arrives from another server and its answer is counted.", False),
        Switch("weights-near", "Weights near", "Weights lie in the smallest on-chip memory that holds them, which "
               "packets then lack; off: in the DRAM-backed one, as document 003 has them.", False),
    ),
    packets=PacketPath(
        _threads,
        lambda device: int(_nic(device).executors.si),
        line_rate,
        packet_budget,
        drop_point,
        forwarding_rate,
        packet_times,
        lambda device, size: tuple((m, read_cycles(device, m.name, size)) for m in _nic(device).memories),
    ),
)  # fmt: skip
