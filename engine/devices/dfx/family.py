"""DFX: a transformer core with its own instruction set, one core a card, cards on a ring.

A pass is timed by running the core's program (`program`): tokens go through one by one, also those of the input, and
each streams every weight from HBM. Weights and KV heads are split over the cards, with four ring synchronisations a
layer where there are several.
Source: Hong et al., MICRO 2022. Estimates.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from engine.devices.common.cached import remembered
from engine.devices.common.column import as_doubles, larger, smaller
from engine.devices.common.contract import LINKS, OVERHEAD, RESOURCES, DeviceFamily, Fit, PhaseCost, Span, Unsupported
from engine.devices.common.fabric import POWER, idle_power, scaled_power, shortage, what_if_ratio
from engine.devices.common.job import Job
from engine.devices.common.model_file import model_file
from engine.devices.common.setting import Knob
from engine.devices.dfx import program as isa
from engine.devices.dfx.core import (
    BYTES,
    DEPTHS,
    KV_FORMAT,
    LATENCY,
    STORED,
    Timed,
    core_of,
    core_record,
    paces,
    role_cycles,
    time_program,
    weight_memory,
)
from engine.devices.dfx.decoder import DIRECTION, blocks, costs
from engine.devices.dfx.fabric import fabric
from engine.devices.dfx.program import LayerSizes
from engine.devices.dfx.scoreboard import N_UNITS
from engine.scenario.formats import LABELS
from engine.scenario.sentences import level_name
from entries.files import load_yaml
from hardware_specs.schema import Device
from model_zoo.ops import Graph, Op

BLOCK = 36 * 1024 / 8  # bytes of a block of BRAM
TILE_SIDES = (8, 16, 32, 64, 128)

_OP_OF, _CARRIES = load_yaml(Path(__file__).with_name("roles.yaml").read_bytes()).values()
_GATED = frozenset(("rotary", "gate-up", "silu", "gate", "down"))
_GPT2 = frozenset(("position-embedding", "add-embedding", "fc1", "gelu", "fc2"))
_COMMON = frozenset(_OP_OF.values()) - _GATED - _GPT2


def formats(device: Device) -> tuple[str, ...]:
    """Half precision is the document's; 8-bit weights are a core that its file says it could be."""
    return core_of(device).formats


def peak(device: Device, format: str) -> float:
    """d x l multiply-adds a cycle on each core. [FLOP/s] A bound."""
    core = core_of(device)
    return 2.0 * core.d.si * core.l.si * core.clock.si


def idles(device: Device, model: Mapping[str, float]) -> float | None:
    """What a card draws while its core waits for a request. [W] An estimate."""
    core = core_of(device)
    return idle_power(device, what_if_ratio((core.d, core.l)), core.clock, model)


def activity(job: Job, watts: float) -> list[float]:
    """What a pass draws beside `idles`: what was measured over whole passes, their waits for peers included. [W]"""
    return [*[watts] * len(RESOURCES), 0.0]


def draws(device: Device, model: Mapping[str, float]) -> float:
    """Power of a core over that of the catalog's. [-] Its multipliers, clock and memory's bandwidth are its own."""
    dfx = core_of(device)
    return scaled_power(what_if_ratio((dfx.d, dfx.l)), dfx.clock, weight_memory(device).bandwidth, model)


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this core can't run the graph, or None."""
    if core_of(device).cores.si != 1:
        return f"dfx.cores is {core_of(device).cores.si:g}: a card's memory channels feed one core, so 1 is allowed."
    for phase in graph.phases:
        names = {op.name for op in phase.ops}
        op_names = _COMMON | (_GATED if names & _GATED else _GPT2)
        runs = f"{device.name} runs decoders made as GPT-2 or Llama is"
        for op in phase.ops:
            if op.name not in op_names:
                return f"{runs}; its instruction set has no {op.name} ({op.kind}) beside the rest."
        if op_names - names:
            return f"{runs}; this network has no {min(op_names - names)}."
        norms = {op.kind for op in phase.ops if "norm" in op.name}
        if norms != {"RMSNormalization" if names & _GATED else "LayerNormalization"}:
            return f"{runs}; this network's norms are {' and '.join(sorted(norms))}."
    if not graph.causal:
        return f"{device.name} generates text token by token; this network is not a decoder."
    return None


def place(job: Job) -> tuple[Fit, ...]:
    """Weights and KV in HBM, embeddings and biases in DDR, vectors of one token on chip."""
    layer = LayerSizes.of(job.phase)
    hbm = weight_memory(job.device)
    ways = job.ways
    (heads, keys), part = layer.on(ways), math.ceil(layer.width / ways)
    wide = math.ceil(layer.ffn / ways) * (2.0 if layer.gated else 1.0)
    matrices = layer.width * ((heads + 2 * keys) * layer.head + wide) + (layer.heads * layer.head + layer.ffn) * part
    last = any(op.name == "lm-head" for op in job.ops)
    head = layer.width * math.ceil(layer.vocab / ways) * last  # the tied embedding, kept again as a matrix
    weight, kv_bytes = STORED[job.format]
    weights = (matrices * layer.layers + head) * weight
    cache = 2 * layer.layers * keys * layer.head * job.max_context * kv_bytes * job.batch
    fits = [Fit(hbm.name, hbm.role, weights + cache, hbm.capacity.si, "weights and KV cache", state_bytes=cache)]
    ddr = next((m for m in job.device.memory if m.role == "offchip" and m.name != hbm.name), None)
    total = job.graph.parameters * BYTES
    if ddr is not None:
        whole = max(op.layers for op in job.graph.phases[0].ops)  # of which other cards may have some
        here = {op.name for op in job.ops}
        apart = sum(op.stored * op.layers for op in job.phase.ops if op.name not in here)
        ddr_bytes = total - (matrices * whole * ways + apart) * BYTES
        fits.append(Fit(ddr.name, ddr.role, larger(ddr_bytes, 0.0), ddr.capacity.si, "embeddings, biases and tokens"))
    vectors = (6 * layer.width + layer.ffn + 2 * job.max_context + math.ceil(layer.vocab / ways)) * BYTES
    onchip = [m for m in job.device.memory if m.role == "onchip"]
    if onchip:
        largest = max(onchip, key=lambda m: m.capacity.catalog_si)  # whose blocks the core's registers are
        fits.append(Fit(largest.name, largest.role, vectors, largest.capacity.si, "vectors of one token"))
    if job.model["kept_beats"]:
        fits += _sums(job)
    return tuple(fits)


def _sums(job: Job) -> list[Fit]:
    """Partial sums of a load direction of one's own, in the blocks of BRAM that the core leaves."""
    part = job.device.fpga
    if part is None or part.bram36 is None:
        return []
    forward = _Pass.of(job)
    sums = max(sums for _, sums in forward.program_costs())
    free = part.bram36.si * (1.0 - (part.used["bram36"].si if "bram36" in part.used else 0.0))
    need = blocks(forward.record, sums) * BLOCK
    return [Fit("bram", "onchip", need, free * BLOCK, "partial sums of the widest product")]


def record_of(job: Job) -> tuple[float, ...]:
    """`core_record` of a job's core. [cycle], [elements/cycle], [B/cycle]"""
    wire = job.link, job.link_hops, job.ways
    return core_record(job.device, *wire, job.tile, job.model, job.switches["prefetch"], job.format)


@dataclass(frozen=True)
class _Pass:
    """One pass of a job: how often which program runs, on which core."""

    record: tuple[float, ...]
    layer: LayerSizes
    context: float  # of the middle token
    heads_run: float  # tokens the LM head runs for
    parts: tuple[tuple[str, float, float], ...]  # (program, context, times)
    chaining: bool

    @staticmethod
    @remembered(lambda job: job.whole_key)
    def of(job: Job) -> "_Pass":
        """Its programs, timed; Unsupported where the tile asks for more slices than the part has."""
        _slices(job)
        positions = job.graph.positions
        last_token = math.ceil(job.max_context) - 1  # the last token is made, not read
        if positions and last_token > positions:
            raise Unsupported(
                f"The request reaches {last_token:,.0f} tokens; this network has {positions:,} learned positions "
                f"and {job.device.name} reads one for every token."
            )
        layer, chaining = LayerSizes.of(job.phase), job.switches["chaining"]
        tokens = job.batch * job.length
        names = {op.name for op in job.ops}
        first, last = "token-embedding" in names, float("lm-head" in names)
        heads_run = job.batch * (job.length if not job.switches["skip_head"] else smaller(job.length, 1.0)) * last
        mean = larger(1.0, job.context - (job.length - 1.0) / 2.0)
        back = "-send" if job.phase.repeat.o and not first else ""  # another card embeds the token
        parts = (
            ("layer", mean, tokens * (layer.layers - (not last))),
            ("head" + back, 0.0, heads_run) if last else ("layer-send", mean, tokens),
            *((("token", 0.0, tokens),) if first else ()),
        )
        return _Pass(record_of(job), layer, mean, heads_run, parts, chaining)

    @cached_property
    def sizes(self) -> LayerSizes:
        """What its programs are written for, however many layers it has."""
        return replace(self.layer, layers=1)

    def program_costs(self) -> list[tuple[float, float]]:
        """Of each program the registers read and the partial sums kept. [-]"""
        return [costs(part, self.record, self.sizes, at) for part, at, _ in self.parts]

    def timings(self) -> list[tuple[Timed, float]]:
        """Each program run, and how often it runs."""
        return [(time_program(p, self.record, self.sizes, at, self.chaining), times) for p, at, times in self.parts]

    def times(self, job: Job) -> tuple[np.ndarray, tuple[tuple[str, str, float], ...]]:
        """Seconds of the operators by resource, and of the ring. [s]"""
        cycles = [role_cycles(p, self.record, self.sizes, at, self.chaining) * times for p, at, times in self.parts]
        clock = core_of(job.device).clock.si
        roles = sum(cycles[1:], cycles[0]) / clock
        sync = self.record[isa.SET_UP] * self.parts[0][2] / clock
        send = self.record[isa.SET_UP] * sum(times for part, _, times in self.parts if part.endswith("send")) / clock
        rows = {op.name: i for i, op in enumerate(job.ops)}
        seconds, overheads = np.full((len(job.ops), 6), 0.0, dtype=roles.dtype), []
        for r, name in enumerate(isa.ROLES):
            op = _OP_OF.get(name)
            if op is not None and op in rows:
                seconds[rows[op]] += roles[r]
            elif roles[r, LINKS]:
                sender = next((before for before in _CARRIES.get(name, ()) if before in rows), job.ops[-1].name)
                label = f"ring {name.partition('-')[0]} after {sender}"
                overheads.append((label, "links", roles[r, LINKS]))
                unknown = smaller(send if r == isa.HANDOVER else sync, roles[r, OVERHEAD])  # some hides behind loads
                overheads.append((label, "overhead", roles[r, OVERHEAD] - unknown))
                overheads.append((f"{label}, unexplained", "overhead", unknown))
        return as_doubles(seconds), tuple(overheads)


_TRIED: dict[str, tuple[int, ...]] = {
    "reads of registers": (isa.READ,),
    "waits for results": (isa.ISSUE,),
    "synchronisation of the cards": (isa.SET_UP, isa.HOP),
    "depth of the operators": (*range(isa.ADD, isa.TABLE + 1), *range(isa.PRODUCT, isa.SCALE + 1)),
}
"""What of a core's record a verdict tries to shorten."""


def helps(job: Job) -> tuple[tuple[str, float], ...]:
    """What each of `_TRIED` brings where it takes 10% less. [-] Found by running the programs again."""
    forward = _Pass.of(job)

    def cycles(core: tuple[float, ...]) -> float:
        return sum(time_program(p, core, forward.sizes, at, forward.chaining).cycles * n for p, at, n in forward.parts)

    now, result = cycles(forward.record), []
    stream = paces(job.device, job.tile, job.model)
    beats = {name: max(0.9 * beat if role == name else beat for role, beat in stream.items()) for name in stream}
    for name, places in (_TRIED | {pace: (isa.ACCESS,) if pace == LATENCY else () for pace in stream}).items():
        record = [0.9 * v if i in places else v for i, v in enumerate(forward.record)]
        record[isa.BEAT] = beats.get(name, record[isa.BEAT])
        result.append((name, 10.0 * (1.0 - cycles(tuple(record)) / now)))
    return tuple(result)


def price(job: Job, detail: bool = True) -> PhaseCost:
    """Cost of one pass on one of `ways` cards: `length` tokens of each of `batch` requests, one after the other."""
    device, forward = job.device, _Pass.of(job)
    clock = core_of(device).clock.si
    seconds, overheads = forward.times(job)
    if not detail:
        return PhaseCost(seconds, overheads=overheads)
    timings = forward.timings()
    hbm = np.sum([t.hbm * times for t, times in timings], axis=0)
    rows = {op.name: i for i, op in enumerate(job.ops)}
    n = len(job.ops)
    offchip = np.zeros(n)
    for r, name in enumerate(isa.ROLES):
        if _OP_OF.get(name) in rows:
            offchip[rows[_OP_OF[name]]] += hbm[r]
    flops = np.array([_flops(op, job, forward.heads_run) for op in job.ops])
    d, lanes, _, _ = _slices(job)
    return PhaseCost(
        seconds,
        flops,
        np.full(n, 2.0 * d * lanes * clock),
        offchip,
        np.zeros(n),
        overheads=overheads,
        link_bytes=sum(t.bytes_out * times for t, times in timings),
        timeline=_spans(forward.record, forward.sizes, forward.context, job.switches["chaining"], clock),
        timeline_of=f"one of {forward.layer.layers} layers of one token, {job.phase.name}",
        notes=_notes(job),
    )


def _flops(op: Op, job: Job, heads_run: float) -> float:
    """Work of one card in a pass: tokens one by one, so attention sees each token's own context. [FLOP]"""
    mean = max(1.0, job.context - (job.length - 1.0) / 2.0)
    share = 1.0 if op.shard == "none" else 1.0 / job.ways
    if op.group == "lm-head" or op.name == "final-norm":
        return op.flops.at(1, 1, mean) * heads_run * share
    return op.flops.at(job.batch, 1, mean) * job.length * op.layers * share


@remembered(lambda job: (id(job.device), job.tile, job.format))
def _slices(job: Job) -> tuple[float, float, float, float | None]:
    """Tile in use, the DSP slices it takes, and those of the part; Unsupported where the fabric is not enough. [-]"""
    dfx, part = core_of(job.device), job.device.fpga
    d, lanes = job.tile or (dfx.d.si, dfx.l.si)
    demand = fabric(job.device, (d, lanes), job.format)
    short = shortage(f"A tile of {d:.0f} x {lanes:.0f}", demand, part, job.device.name)
    if short:
        raise Unsupported(short)
    there = part.dsp.si if part is not None and part.dsp is not None else None
    return d, lanes, sum(demand["dsp"].values()), there


def _notes(job: Job) -> tuple[str, ...]:
    """What a reader must know about this pass."""
    d, lanes, slices, there = _slices(job)
    share = f" of {there:,.0f} ({100 * slices / there:.0f}%)" if there else ""
    notes = [f"A tile of {d:.0f} x {lanes:.0f} takes {slices:,.0f}{share} DSP slices."]
    hbm, stream = weight_memory(job.device), paces(job.device, job.tile, job.model)
    if hbm.bandwidth:
        rate = d * lanes * BYTES * core_of(job.device).clock.si / max(stream.values())
        notes.append(
            f"Weights come at {rate / 1e9:.0f} of the {hbm.bandwidth.si / 1e9:.0f} GB/s of {level_name(hbm.name)}: "
            f"{max(stream, key=lambda name: stream[name])} sets the pace of a stream."
        )
    if job.format != "fp16":
        notes.append(
            f"{LABELS[job.format]} is not in the document: an estimate of a core that nobody built, its matrix unit's "
            "operators and their fabric assumed; norms, softmax and what the cards exchange stay FP16."
        )
    if job.length > 1 and not job.switches["skip_head"]:
        notes.append("The LM head runs for input tokens too.")
    forward = _Pass.of(job)
    reads, sums = forward.program_costs()[0]
    notes.append(
        f"Products of a layer read {reads:,.0f} words of vector registers and keep {sums:,.0f} partial sums a lane."
    )
    defaults = [n for n in DEPTHS if n not in core_of(job.device).depths and (job.format == "int8" or "int8" not in n)]
    if defaults:
        notes.append(f"Operator latencies taken from the U280 core: {', '.join(defaults)}.")
    return tuple(notes)


@lru_cache(maxsize=512)
def _spans(
    record: tuple[float, ...], layer: LayerSizes, context: float, chaining: bool, clock: float
) -> tuple[Span, ...]:
    """One layer as bars: a unit is busy with an instruction; bars of one role without a gap are joined."""
    resource = ("offchip", "compute", "links", "offchip", "offchip")
    timing = time_program("layer", record, layer, context, chaining)
    rows = zip(timing.code.tolist(), timing.start.tolist(), timing.valid.tolist(), strict=True)
    bars: dict[int, list[list]] = {unit: [] for unit in range(N_UNITS)}
    for row, start, valid in rows:
        unit, role = int(row[isa.UNIT]), int(row[isa.ROLE])
        end = valid if unit == isa.ROUTER else start + row[isa.OCCUPY]
        lane = bars[unit]
        if lane and lane[-1][0] == role and start <= lane[-1][2]:
            lane[-1][2] = max(lane[-1][2], end)
        else:
            lane.append([role, start, end])
    return tuple(
        Span(isa.UNITS[unit], isa.ROLES[role], start / clock, (end - start) / clock, resource[unit])
        for unit, lane in bars.items()
        for role, start, end in lane
    )


_KNOBS = Knob("d", "Tile dimension d", TILE_SIDES), Knob("l", "Lanes l", TILE_SIDES)

FAMILY = DeviceFamily(
    instructions="engine.devices.dfx.answers",
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    tile=lambda job: tuple(map(int, _slices(job)[:2])),
    helps=helps,
    idles=idles,
    draws=draws,
    activity=activity,
    knobs=lambda device, graph, scenario: _KNOBS,
    fields={"load_direction": DIRECTION, "kv_format": KV_FORMAT},
    **model_file(__file__, after=POWER),
)
