"""A many-core inference card: matrix engine, vector unit and SRAM in each core, a shared cache, LPDDR behind it.

The compiler's view of a network is made in `card_graph`, lookups are balanced in `card_bags`, operators are cut up in
`card_demand`, timed and scheduled in `card_cores` at the rates of `card_supply`, at many points in `card_points`; this
module turns a device and a job into what those need. Weights that fit in the cores' SRAM and the cache stay there,
whole tensors at a time, those most often read first and of those the largest. Where a network has embedding tables and
its parts are placed apart, some cores look up and the others compute. Estimates.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from engine.devices.card import cores as C
from engine.devices.card import demand as D
from engine.devices.card.embedding_bags import busiest, list_lengths, overflow
from engine.devices.card.graph import DECODED, HOSTED, LOW, LOW_IN, LOW_OUT, RANGE, RIDES, lower
from engine.devices.card.padding import padded
from engine.devices.card.parameters import ASSUMPTIONS, PARAMETERS, RULES, SWITCHES
from engine.devices.card.placement import (
    beyond,
    card_of,
    cores_of,
    first_core,
    formats,
    levels,
    onchip_bytes,
    partition_of,
    place,
    table_bits,
    unit_of,
    wide_format,
)
from engine.devices.card.points import supply_block
from engine.devices.card.supply import SUPPLY_OF, supply
from engine.devices.card.timeline import bars_of, core_spans
from engine.devices.common.contract import DeviceFamily, Halves, Job, Knob, PhaseCost, Span
from engine.devices.common.footprint import footprint
from engine.kernels.jit import kernel
from engine.scenario.formats import BITS
from hardware_specs.schema import Device
from model_zoo import table as T
from model_zoo.ops import Graph, Op, Phase

__all__ = ["FAMILY", "cores_of", "demand", "needs", "record", "resident", "schedule", "supply", "utilisation"]

_UNITS = {T.CONTRACTION: D.MATRIX, T.LOOKUP: D.LOOKUP, T.MOVEMENT: D.COPY}
_NO_WORK = frozenset({"Reshape"})
_PASSES = {"Softmax": 3, "LayerNormalization": 3, "RMSNormalization": 2, "LRN": 2}
_ON_HOST = frozenset({"NonMaxSuppression", "Preprocess", "Hash"})
_FUSED_MULTIPLY_ADD = frozenset({"RoiAlign", "BatchNormalization"})
WIDEN, NARROW = 2.0, 3.0  # lane operations: convert and scale an operand; scale, round and convert a result
LINE = 64.0  # bytes of one LPDDR access


def peak(device: Device, format: str) -> float:
    """Dense peak from cores, multiply-adds a cycle and clock. [FLOP/s] A bound."""
    card = card_of(device)
    return 2 * card.cores.si * card.mac_per_cycle[format].si * card.clock.max.si


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this card can't run the graph, or None."""
    for phase in graph.phases:
        for op in phase.ops:
            if op.kind == "BinaryGemm":
                return f"{device.name} has no binary matrix engine, which {op.name} needs; use a CPU or the SmartNIC."
    return None


def _unit(op: Op) -> int:
    if op.contraction:
        one = op.kind == "Conv" and op.n.at() == 1.0 and op.g.coef > 1
        return D.DEPTHWISE if one else D.MATRIX
    if op.kind in _NO_WORK:
        return D.NOTHING
    return _UNITS.get(T.CLASS_OF.get(op.kind, -1), D.LANES)


def _traits(ops: tuple[Op, ...]) -> np.ndarray:
    """What kind of work each op is, shape (n_ops, TRAITS)."""
    out = np.zeros((len(ops), D.TRAITS))
    group, before = -1, None
    for row, op in zip(out, ops, strict=True):
        unit = _unit(op)
        copies = op.layers if unit == D.LOOKUP or (op.kind == "Tile" and op.layers > 1) else 1
        row[D.UNIT] = unit
        row[D.COPIES] = copies
        row[D.PASSES] = _PASSES.get(op.kind, 2 if op.attribute(RANGE) else 1)
        row[D.RIDES] = float(op.attribute(RIDES) > 0 or unit == D.NOTHING)
        row[D.HOST] = D.ON_HOST * (op.kind in _ON_HOST)
        if op.attribute(HOSTED):
            row[D.HOST] = D.HOST_MOVES
        elif op.attribute(DECODED):
            row[D.HOST] = D.DECODER
        row[D.LANE_FLOP] = 0.5 if op.kind in _FUSED_MULTIPLY_ADD else 1.0
        low = op.attribute(LOW) > 0
        rides = op.attribute(RIDES) > 0
        if not op.contraction and op.attribute(LOW_IN) and op.kind not in _FUSED_MULTIPLY_ADD:
            row[D.LANE_READ] = WIDEN
        if not op.contraction and op.attribute(LOW_OUT) and low and not rides:
            row[D.LANE_WRITE] = NARROW
        row[D.LOW] = float(low)
        if op.kind == "GlobalAveragePool":
            row[D.WINDOW] = op.attribute("height") * op.attribute("width")
            if low:  # sums of many 8-bit values need 32-bit lanes, half as many
                row[D.LANE_FLOP], row[D.LANE_READ] = 2.0, 2 * WIDEN
        now = (op.layers // copies, op.steps)
        if now != before:
            group, before = group + 1, now
        row[D.GROUP] = group
    return out


def needs(ops: tuple[Op, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Which ops each one waits for: the entries ``first[j]:first[j + 1]`` of the second array."""
    at = {op.name: j for j, op in enumerate(ops)}
    first, found = [0], []
    for op in ops:
        found += [at[name] for name in op.inputs if name in at and at[name] < at[op.name]]
        first.append(len(found))
    return np.array(first, dtype=np.int64), np.array(found or [0], dtype=np.int64)


@lru_cache(maxsize=512)
def _static(phase: Phase) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (_traits(phase.ops), *needs(phase.ops))


def _lowered(job: Job) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Table, traits and dependencies of a job's ops."""
    table = T.lower(job.phase)
    if len(job.ops) == len(job.phase.ops):
        return (table, *_static(job.phase))
    at = {op.name: j for j, op in enumerate(job.phase.ops)}
    return (table[np.array([at[op.name] for op in job.ops])], _traits(job.ops), *needs(job.ops))


@kernel
def _stay(each, copies, often, space, stay):
    """Share of each op's weights kept on chip: whole tensors, most often read, then largest first; fills ``stay``."""
    order = np.argsort(-each, kind="mergesort")
    for j in order[np.argsort(-often[order], kind="mergesort")]:
        stay[j] = 0.0
        if each[j] > 0.0:
            kept = min(copies[j], np.floor(space / each[j]))
            stay[j] = kept / copies[j]
            space -= kept * each[j]


def _size_and_share(job: Job, table: np.ndarray, traits: np.ndarray, rec: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of a weight of each op [B], and the share of its weights that one card holds [-]."""
    size = np.where(traits[:, D.LOW] > 0, rec[D.LOW_BYTES], rec[D.WIDE_BYTES]) * rec[D.DENSITY]
    return size, np.where(table[:, T.SHARD] == 0, 1.0, 1.0 / job.ways)


def _kept(job: Job) -> np.ndarray:
    """Share of each op's weights that stays on chip, shape (n_ops,). [-]"""
    table, traits, _, _ = job.share(_lowered)
    stay = np.zeros(table.shape[0])
    if not job.switches["on-chip-weights"]:
        return stay
    rec = job.share(record)
    need = footprint(job, wide=wide_format(job.device, job.format), table_bits=table_bits(job))
    size, share = _size_and_share(job, table, traits, rec)
    each = np.where(traits[:, D.UNIT] == D.LOOKUP, 0.0, table[:, T.STORED] * size * share)
    often = table[:, T.STEPS] * np.where(table[:, T.STEPS + 2] > 0, job.length, 1.0)
    space = max(0.0, onchip_bytes(job.device, partition_of(job)) - need.activations)
    _stay(each, table[:, T.LAYERS], often, space, stay)
    return stay


def resident(job: Job) -> float:
    """Bytes of dense weights that stay in a card's SRAM and cache between passes, all layers of them. [B]"""
    table, traits, _, _ = _lowered(job)
    rec, stay = record(job), _kept(job)
    size, share = _size_and_share(job, table, traits, rec)
    held = table[:, T.STORED] * table[:, T.LAYERS] * size * share * stay
    return float(held[traits[:, D.UNIT] != D.LOOKUP].sum())


def _bags(job: Job) -> np.ndarray:
    """Lookups of the busiest card and core, shape (n_ops, 4); see `card_demand.demand_ops`."""
    traits = job.share(_lowered)[1]
    out, model = np.zeros((len(job.ops), 4)), job.model
    lookups = np.flatnonzero(traits[:, D.UNIT] == D.LOOKUP).tolist()
    if not lookups:
        return out
    element, lanes, cores = table_bits(job) / 8, card_of(job.device).vector_bits.si / 16, cores_of(job)
    for j in lookups:
        op = job.ops[j]
        rows = op.gather_rows.at(job.batch, job.length, job.context)
        row_cycles = np.ceil(op.row_elements / lanes) * model["row_lane_ops"] + model["row_cycles"]
        line = np.ceil(op.row_elements * element / LINE) * LINE
        if op.kind != "EmbeddingBag":
            share = 1 / job.ways if op.shard != "none" else 1.0
            read = rows * share * op.layers
            out[j] = np.ceil(read / cores) * row_cycles, 1.0, read * line, 0.0
            continue
        lengths = list_lengths(op.layers, op.attribute("lookups"), model["list_spread"], model["single_share"])
        far, _ = levels(job.device)
        behind = model["nvm_capacity"] if job.switches["nvm-tier"] else 0.0
        held = np.floor((far.capacity.si + behind) / (op.stored * element))
        most = max(float(np.ceil(op.layers / job.ways)), held)
        busiest(
            lengths,
            job.switches["length-aware"],
            job.ways,
            cores,
            most,
            row_cycles,
            model["list_cycles"],
            np.ceil(op.row_elements / lanes) + model["row_cycles"],
            job.switches["single-lookup"],
            model["dispatch"] * card_of(job.device).clock.max.si,
            float(job.batch),
            out[j],
        )
        share = overflow(lengths, beyond(job)[0], job.switches["nvm-locality"])
        block = model["nvm_block"]
        out[j, 3] = share * out[j, 2] * np.ceil(op.row_elements * element / block) * block
        out[j, 2] *= (1.0 - share) * line
    return out


def record(job: Job) -> np.ndarray:
    """Flat record of the mapping for the compiled demand, in SI, in the order of `card_demand.FIELDS`."""
    device, model = job.device, job.model
    card = card_of(device)
    wide = wide_format(device, job.format)
    lanes = card.vector_bits.si / 16
    cores = cores_of(job)
    return np.array(
        [
            cores,
            job.ways,
            BITS[job.format] / 8,
            BITS[wide] / 8,
            card.mac_per_cycle[job.format].si,
            card.mac_per_cycle[wide].si,
            card.vector_bits.si / 8 / lanes,  # 8-bit values in a lane
            onchip_bytes(device, partition_of(job)) / job.streams,
            float(job.switches["split-ops"]),
            model["copy_rate"],
            float(job.switches["large-pools"]),
            model["pool_cycles"],
            model["density"] if job.switches["pruned"] else 1.0,
            model["matrix_fill"],
            model["piece_elements"],
        ]
    )


def demand(job: Job) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a job's ops ask of one card, shape (n_ops, DEMANDS), and which ops each one waits for."""
    table, traits, first, waits = job.share(_lowered)
    rec, stay, bags = job.share(record), job.share(_kept), job.share(_bags)
    out = np.zeros((table.shape[0], D.DEMANDS))
    D.demand_ops(table, traits, bags, stay, float(job.batch), job.length, job.context, rec, out)
    return out, first, waits


def _asked(job: Job) -> tuple[Any, ...]:
    """A demand as `card_points.supply_block` takes it."""
    return (*demand(job), cores_of(job), bool(job.switches["placement"]))


def schedule(job: Job) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[float, float]]:
    """Demand, seconds by resource, spans on the cores, and core-seconds (held, offered) of one pass.

    [FLOP], [B] and counts; the rest in [s].
    """
    asked, first, waits = demand(job)
    seconds, spans = np.zeros((asked.shape[0], 6)), np.zeros((asked.shape[0], 5))
    used = C.time_ops(
        asked,
        first,
        waits,
        cores_of(job),
        bool(job.switches["placement"]),
        supply(job).reshape(-1, 1),
        0,
        seconds,
        spans,
    )
    return asked, seconds, spans, used


def utilisation(job: Job) -> float:
    """Share of the cores' time in a pass that is work: not kernel starts, waits or idling. [-]"""
    used, offered = schedule(job)[3]
    return used / offered if offered else 0.0


def price(job: Job) -> PhaseCost:
    """Cost of one pass on one card. An estimate."""
    asked, seconds, spans, _ = schedule(job)
    runs = asked[:, D.RUNS]
    card = card_of(job.device)
    vector = 2 * card.cores.si * card.vector_bits.si / 8 * card.clock.max.si  # 8-bit multiply-adds in every lane
    wide = wide_format(job.device, job.format)
    roofs = np.array([peak(job.device, job.format), peak(job.device, wide), vector, job.model["host_rate"]])
    bars, of = bars_of(job, cores_of(job), asked, seconds, spans)
    return PhaseCost(
        seconds,
        runs * asked[:, D.WORK],
        roofs[asked[:, D.ROOF].astype(int)],
        runs * (asked[:, D.FAR] + asked[:, D.BEYOND]),
        runs * asked[:, D.NEAR],
        timeline=bars,
        timeline_of=of,
    )


def cores(job: Job) -> tuple[Span, ...]:
    """Bars of every core in one pass, from its start on; a core's bars follow each other."""
    asked, first, waits = demand(job)
    seconds = schedule(job)[1]
    return core_spans(
        job,
        first_core(job),
        cores_of(job),
        asked,
        first,
        waits,
        supply(job).reshape(-1, 1),
        seconds,
        bool(job.switches["placement"]),
    )


def knobs(device: Device) -> tuple[Knob, ...]:
    """How many cores look up embeddings while the others compute."""
    return (Knob("sparse-cores", "Cores for lookups or the first net", tuple(range(1, int(card_of(device).cores.si)))),)


def max_streams(device: Device) -> int:
    """One inference a core. [-]"""
    return int(card_of(device).cores.si)


FAMILY = DeviceFamily(
    kind="card",
    title="Many-core inference card",
    label="Card",
    layerwise=True,
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    halves=Halves(_asked, SUPPLY_OF, supply_block),
    parameters=PARAMETERS,
    assumptions=ASSUMPTIONS,
    knobs=knobs,
    switches=SWITCHES,
    max_streams=max_streams,
    lower=lower,
    padded=padded,
    unit_of=unit_of,
    cores=cores,
    mixed=wide_format,
    exchanged=wide_format,
    rules=RULES,
)
