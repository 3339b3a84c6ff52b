"""Network processors whose spare threads run binary layers beside the packet path.

Executors are threads of multithreaded engines (`engine.devices.smartnic.slots`), which compute neurons word by word:
no population-count instruction, so tens of cycles a word. A layer over several executors starts with a notification
that runs down their chain, and its end runs back up; an executor alone runs whole networks and is notified once.
Inferences in flight (`streams`) have executors of their own, or each layer has, as in a pipeline. They share issue
slots, ports of memories and the DRAM with each other and with packets. Estimates.
"""

from collections.abc import Mapping

import numpy as np

from engine.devices.common.column import smaller
from engine.devices.common.contract import RESOURCES, DeviceFamily, Fit, PhaseCost, Span, Unsupported
from engine.devices.common.footprint import footprint
from engine.devices.common.job import Job
from engine.devices.common.model_file import model_file
from engine.devices.common.offer import PacketPath
from engine.devices.common.setting import Knob
from engine.devices.smartnic.layer import (
    WORD_BITS,
    beside_inputs,
    dram_of,
    layers_of,
    packet_memory,
    seconds_of,
    slots_of,
    weights_in,
    weights_of,
)
from engine.devices.smartnic.memory import NEAR, WeightPlacement, capacity_of, islands_of, read_cycles
from engine.devices.smartnic.memory import nic_of as _nic
from engine.devices.smartnic.slots import (
    JUMBO,
    PREAMBLE,
    SMALLEST,
    EnginePlacement,
    arriving,
    beside,
    executors_of,
    forward_rate,
    infer_of,
    infers,
    line_rate,
    packet_of,
    threads_of,
)
from engine.scenario import Scenario
from hardware_specs.schema import Device
from model_zoo.ops import Graph

PACKETS = (64, 128, 256, 512, 1024, 1518)
RUNS = ("BinaryGemm", "Sign")


def peak(device: Device, format: str) -> float:
    """Engines x 32 bits a cycle x two operations (xor, count): a bound no code without a count instruction reaches.

    [FLOP/s]
    """
    nic = _nic(device)
    return nic.engines.si * nic.clock.si * WORD_BITS * 2.0


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this NIC can't run the graph, or None."""
    for op in graph.ops:
        if op.kind not in RUNS:
            return f"{device.name} runs binary fully connected layers only; {op.name} is a {op.kind}."
    return None


def packet_times(job: Job) -> tuple[float, float]:
    """Between two packets forwarded beside a job, and of one that is alone: its engine's cycles. [s]

    Unsupported where executors leave packets no thread.
    """
    threads, weights = _placement(job.device, job, job.model)
    rate = forward_rate(job.device, packet_of(job), threads, job.model, 1.0, weights)
    if not rate:
        raise Unsupported(f"executors take all threads or all packet memory of {job.device.name}: no packet passes")
    return 1.0 / rate, max(1.0 / rate, job.model["packet_cycles"] / _nic(job.device).clock.si)


def _placement(device: Device, at_work: float | Job, model: Mapping[str, float]) -> tuple[EnginePlacement, float]:
    """Where a job's executors lie, or so many, and packet memory that weights take [B]."""
    if not isinstance(at_work, Job):
        return infers(device, at_work, model), 0.0
    threads = threads_of(at_work)
    return threads, packet_memory(at_work, threads, weights_in(at_work))


def _all_threads(device: Device) -> int:
    nic = _nic(device)
    return int(nic.engines.si * nic.threads_per_engine.si)


def place(job: Job) -> tuple[Fit, ...]:
    """Weights lie in the DRAM-backed memory, whose cache holds what it can.

    A request's input waits in the packet memory of one island, a layer's results in the memory all islands share.
    """
    dram = dram_of(job.device)
    cache = next((m for m in job.device.memory if m.role == "onchip"), None)  # the one in front of the DRAM
    need = footprint(job, low_bits=1.0, wide="binary")
    fits = [Fit(dram.name, dram.role, need.total, dram.capacity.si, "binary weights and thresholds")]
    if cache is not None:
        fits.append(Fit(cache.name, cache.role, need.weights, cache.capacity.si, "binary weights", False))
    nic, at = _nic(job.device), (1.0, job.length, job.context)
    home, threads = weights_in(job), threads_of(job)
    for name in home.shares:
        memory = nic.memory(name)
        if name in NEAR and memory is not None:
            size = capacity_of(memory, threads.spans)
            fits.append(Fit(name, "onchip", need.weights, size, "binary weights, each executor's in its island", False))
    layers = [op for op in job.ops if op.kind == "BinaryGemm"]
    if layers:
        waiting, results = layers[0].k.at(*at), max(op.n.at(*at) for op in layers)
        for name, bits, holds, taken in (
            ("ctm", waiting, "inputs of requests", beside_inputs(job, threads, home)),
            ("imem", results, "results of a layer, one bit a neuron", home.shares.get("imem", 0.0) * weights_of(job)),
        ):
            memory = nic.memory(name)
            if memory is not None:
                size = capacity_of(memory, islands_of(job.device)) - taken
                fits.append(Fit(name, "onchip", job.streams * np.ceil(bits / 8.0), size, holds))
    return tuple(fits)


def price(job: Job, detail: bool = True) -> PhaseCost:
    """Cost of one pass: layers one after the other, samples of a batch one after the other. An estimate.

    Weights can't be kept beside an executor (its memory belongs to the packets), so batching gains nothing.
    """
    device, model = job.device, job.model
    home, layers = layers_of(job)
    seconds = seconds_of(job, home, layers)
    if not detail:
        return PhaseCost(seconds)
    size = len(job.ops)
    off, on = np.zeros(size), np.zeros(size)
    flops = np.array([op.flops.at(job.batch, job.length, job.context) * op.layers * op.steps.at() for op in job.ops])
    spans: list[Span] = []
    clock = 0.0
    for i, (op, layer) in enumerate(zip(job.ops, layers, strict=True)):
        off[i], on[i] = layer.rows * home.dram * layer.bits / 8.0, layer.rows * (1.0 - home.dram) * layer.bits / 8.0
        for unit, name, length, resource in (
            ("dispatcher", f"{op.name} start", layer.wire / 2.0, "overhead"),
            ("executors", op.name, layer.work + (layer.stall + layer.late), "compute"),
            ("dispatcher", f"{op.name} end", layer.wire / 2.0, "overhead"),
        ):
            if length and op.layers == 1 and len(spans) < 96:
                spans.append(Span(unit, name, clock, length, resource))
                clock += length
    threads, packet = threads_of(job), packet_of(job)
    busy = slots_of(job) / (seconds.sum() / job.streams * threads.engines * _nic(device).clock.si)
    packets = forward_rate(device, packet, threads, model, busy, packet_memory(job, threads, home))
    rate = smaller(packets, arriving(device, packet, model)) * (packet + PREAMBLE)
    notes = (
        f"While {infer_of(job):.0f} executors infer, "
        f"{rate * 8e-9:.1f} Gbit/s of {packet:.0f} B packets pass, of {model['offered_traffic'] * 8e-9:.1f} that come; "
        f"packets have {threads.packets:.0%} of the slots of their engines",
        *_trade_offs(device, home, model),
    )
    roofs = np.full(size, peak(device, "binary"))
    return PhaseCost(seconds, flops, roofs, off, on, timeline=tuple(spans), timeline_of="one inference", notes=notes)


def _trade_offs(device: Device, home: WeightPlacement, model) -> tuple[str, ...]:
    """What packets give up for weights kept near, and what a burst of weights gains by it."""
    size = model["burst_words"] * WORD_BITS / 8.0
    cycles, usual = home.cycles(device, size), read_cycles(device, "emem-cache", size)
    gain = f"a burst of them takes {cycles:.0f} cycles, from the cache before the DRAM {usual:.0f}"
    return tuple(f"Weights lie in the {n.upper()}, which packets then lack; {gain}" for n in home.shares if n in NEAR)


def idles(device: Device, model: Mapping[str, float]) -> float | None:
    """What the NIC draws whether or not it infers, where its file does not say: all it is listed to draw. [W]"""
    power = device.power.loaded or device.power.max
    return power.si if power is not None else None


def activity(job: Job, watts: float) -> list[float]:
    """What issue slots of a pass draw beside `idles`, over its arithmetic: threads that wait draw nothing. [W]"""
    home, layers = layers_of(job)
    arithmetic = seconds_of(job, home, layers)[:, 0].sum()
    nic = _nic(job.device)
    power_w = watts * slots_of(job) / (job.model["loaded_share"] * nic.engines.si * nic.clock.si) / arithmetic
    return [power_w, *[0.0] * len(RESOURCES)]


def path(switches: Mapping[str, bool], model: Mapping[str, float]) -> tuple[str, float] | None:
    """A packet's way in and its answer's way out, where they are counted. [s] Published."""
    return ("packet received, parsed and answered on the NIC", model["nic_path"]) if switches["network"] else None


def knobs(device: Device, graph: Graph, scenario: Scenario) -> tuple[Knob, ...]:
    """Executors, and the packet size at which forwarding is reported."""
    sizes = (n for n in (1, 8, 16, 32, 64, 128, 192, 256, 320, 360, 420, 480) if n <= _all_threads(device))
    counts = sorted({*sizes, int(_nic(device).executors.si)})
    return (
        Knob("executors", "Executors", tuple(counts), limits=(1, _all_threads(device))),
        Knob("packet", "Packet size (B)", PACKETS, limits=(SMALLEST, JUMBO)),
    )


FAMILY = DeviceFamily(
    formats=lambda device: ("binary",),  # there is neither a multiplier array nor floating point
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    path=path,
    idles=idles,
    activity=activity,
    knobs=knobs,
    tile=lambda job: (int(executors_of(job)), int(packet_of(job))),
    max_streams=lambda device, scenario: _all_threads(device),
    packets=PacketPath(
        _all_threads,
        lambda device: int(_nic(device).executors.si),
        infer_of,
        line_rate,
        lambda device, sizes, at_work, busy, model: beside(
            device, sizes, *_placement(device, at_work, model), busy, model
        ),
        packet_times,
        lambda device, size: tuple((m, read_cycles(device, m.name, size)) for m in _nic(device).memories),
    ),
    **model_file(__file__),
)
