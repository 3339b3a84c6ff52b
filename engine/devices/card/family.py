"""A many-core inference card: matrix engine, vector unit and SRAM in each core, a shared cache, LPDDR behind it.

The compiler's view of a network is made in `graph`, lookups are balanced in `embedding_bags`, operators are cut up in
`demand`, timed and scheduled in `points` at the rates of `supply`; this module turns a device and a job into what those
need. Weights that fit in the cores' SRAM and the cache stay there, whole tensors at a time, those most often read first
and of those the largest. Where a network has embedding tables and its parts are placed apart, some cores look up and
the others compute. Estimates.
"""

import math
from functools import lru_cache

import numpy as np

from engine.devices.card import demand as D
from engine.devices.card.embedding_bags import HOST_TABLES, hot_share, lines_of, lists_of, overflow, split_tables
from engine.devices.card.energy import governs, idles, joules, level_bytes, limits_of, spend
from engine.devices.card.graph import DECODED, HOSTED, LOW, LOW_IN, LOW_OUT, RANGE, RIDES, lower
from engine.devices.card.padding import padding
from engine.devices.card.placement import (
    beyond,
    card_of,
    core_bytes,
    cores_of,
    formats,
    levels,
    line_bytes,
    onchip_bytes,
    partition_of,
    place,
    table_bits,
    unit_of,
    wide_format,
)
from engine.devices.card.points import CoreSchedule, bars_of, core_schedule, price_points
from engine.devices.card.supply import S, supply
from engine.devices.card.tiling import AXES, AXIS
from engine.devices.common.cached import remembered
from engine.devices.common.column import larger, one_by_one, smaller
from engine.devices.common.contract import Compiled, DeviceFamily, PhaseCost
from engine.devices.common.footprint import footprint
from engine.devices.common.host_work import PARSING, parsed_on_host
from engine.devices.common.job import Job
from engine.devices.common.model_file import model_file
from engine.devices.common.offer import CollectiveWire, TableMemory
from engine.devices.common.setting import Knob, traits
from engine.kernels.jit import for_points
from engine.scenario import Scenario
from engine.scenario.formats import BITS
from hardware_specs.schema import Device
from model_zoo import table as T
from model_zoo.ops import Graph, Op, Phase

_UNITS = {T.CONTRACTION: D.MATRIX, T.LOOKUP: D.LOOKUP, T.MOVEMENT: D.COPY}
_CONVERTS = frozenset({"QuantizeLinear", "DequantizeLinear", "Cast"})
_CONVERSION_SHARE = 0.1  # share of a pass from which a report says what conversions take
_NO_WORK = frozenset({"Reshape"})
_PASSES = {"Softmax": 3, "LayerNormalization": 3, "RMSNormalization": 2, "LRN": 2}
_ON_HOST = frozenset({"NonMaxSuppression", "Preprocess", "Hash"})
_FUSED_MULTIPLY_ADD = frozenset({"RoiAlign", "BatchNormalization"})
_JOULES = ("array_low_j", "array_wide_j", "lane_j", "core_byte_j", "cache_byte_j", "far_byte_j")
WIDEN, NARROW = 2.0, 3.0  # lane operations: convert and scale an operand; scale, round and convert a result


def peak(device: Device, format: str) -> float:
    """Dense peak from cores, multiply-adds a cycle and clock. [FLOP/s] A bound."""
    card = card_of(device)
    return 2 * card.cores.si * card.mac_per_cycle[format].si * card.clock.max.si


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this card can't run the graph, or None."""
    for op in graph.ops:
        if op.kind == "BinaryGemm":
            return f"{device.name} has no binary matrix engine, which {op.name} needs; use a CPU or the SmartNIC."
    return None


def _unit(op: Op) -> int:
    if op.contraction:
        depthwise = op.kind == "Conv" and op.n.at() == 1.0 and op.g.coef > 1
        return D.DEPTHWISE if depthwise else D.MATRIX
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
        if unit == D.MATRIX:
            row[D.WINDOWS :] = _windows(op)
        now = (op.layers // copies, op.steps)
        if now != before:
            group, before = group + 1, now
        row[D.GROUP] = group
    return out


def _windows(op: Op) -> list[float]:
    """Places, window, step, padding and extent along time, height and width: zeros where no windows share pixels."""
    at = dict(op.attributes)
    if op.kind != "Conv" or not {"pad", "height", "width"} <= at.keys():
        return [0.0] * (AXES * AXIS)
    window, step, pad, high, wide = (at[name] for name in ("kernel", "stride", "pad", "height", "width"))
    rows, columns = ((extent + 2 * pad - window) // step + 1 for extent in (high, wide))
    time, apart, frames = (at.get(name, 1.0) for name in ("kernel_t", "stride_t", "frames"))
    if window <= step and time <= apart:
        return [0.0] * (AXES * AXIS)
    long = op.m.coef / (rows * columns)
    before = max(0.0, ((long - 1) * apart + time - frames) / 2)
    return [
        *(long, time, apart, float(math.ceil(before)), frames),
        *(rows, window, step, pad, high),
        *(columns, window, step, pad, wide),
    ]


def needs(ops: tuple[Op, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Which ops each one waits for: the entries ``first[j]:first[j + 1]`` of the second array."""
    at = {op.name: j for j, op in enumerate(ops)}
    first, result = [0], []
    for op in ops:
        result += [at[name] for name in op.inputs if name in at and at[name] < at[op.name]]
        first.append(len(result))
    return np.array(first, dtype=np.int64), np.array(result or [0], dtype=np.int64)


@lru_cache(maxsize=512)
def _phase_tables(phase: Phase, places: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Table, traits and dependencies of the ops at those places of a phase."""
    rows = np.frombuffer(places, dtype=np.int64)
    ops, table = tuple(phase.ops[j] for j in rows), T.lower(phase)[rows]
    table.setflags(write=False)
    return (table, _traits(ops), *needs(ops))


@remembered(lambda job: (id(job.phase), id(job.ops), job.model["list_spread"], job.model["single_share"]))
def _tables(job: Job) -> tuple[np.ndarray, ...]:
    """Table, traits and dependencies of a job's ops, and what they look up, see `engine.devices.card.demand.ask`."""
    lists: list[np.ndarray] = [np.zeros((2, 0))]
    lookups, end = [], 0
    arrays = _phase_tables(job.phase, job.rows.tobytes())
    for j in np.flatnonzero(arrays[1][:, D.UNIT] == D.LOOKUP).tolist():
        op, begin = job.ops[j], end
        if op.kind == "EmbeddingBag":
            lengths = _lengths(job, op)
            lists.append(np.stack([lengths, np.argsort(-lengths, kind="stable")]))
            end += len(lengths)
        lookups.append((j, op.kind == "EmbeddingBag", begin, end))
    return *arrays, np.array(lookups, dtype=np.int64).reshape(-1, 4), np.concatenate(lists, axis=1)


def _lengths(job: Job, op: Op) -> np.ndarray:
    return lists_of(op, job.model["list_spread"], job.model["single_share"])


def resident(job: Job) -> float:
    """Bytes of dense weights that stay in a card's SRAM and cache between passes, all layers of them. [B]"""
    table, traits, *_ = _phase_tables(job.phase, job.rows.tobytes())
    tensor_bytes, stay = np.zeros(len(table)), np.zeros((2, len(table)))
    for_points(D.stay_ops)(table, traits, job.length, np.array(record(job)), tensor_bytes, stay)
    return float((tensor_bytes * table[:, T.LAYERS] * stay[0]).sum())


def _lookup_fields(job: Job, op: Op) -> list[float]:
    """What an operator that looks up adds to a record, in the order that `engine.devices.card.demand` reads."""
    model, element, lanes = job.model, table_bits(job) / 8, card_of(job.device).vector_bits.si / 16
    vectors = math.ceil(op.row_elements / lanes)
    row_cycles = larger(vectors * model["row_lane_ops"], model["row_cycles"])
    far, _ = levels(job.device)
    lines = lines_of(op.row_elements * element, far)
    if op.kind != "EmbeddingBag":
        return [row_cycles, 0.0, 0.0, lines, 0.0, 0.0]
    behind = model["nvm_capacity"] if job.switches["nvm-tier"] else 0.0
    far_tables = -math.ceil(-(far.capacity.si + behind) / (op.stored * element))  # whole tables
    limit = larger(float(np.ceil(op.layers / job.ways)), far_tables)
    tables, _ = beyond(job)
    share = overflow(_lengths(job, op), tables, job.switches["nvm-locality"]) if tables else 0.0
    block = model["nvm_block"]
    beyond_line = math.ceil(op.row_elements * element / block) * block
    room = core_bytes(job.device) * cores_of(job) / 2.0  # the other half is for rows on their way
    cached_rows = room * job.ways / (op.layers * op.row_elements * element)
    lines = lines * (1.0 - one_by_one(hot_share, op.stored / op.row_elements, cached_rows, model["row_skew"]))
    return [row_cycles, limit, larger(1.0 * vectors, model["row_cycles"]), lines, share, beyond_line]


@remembered(lambda job: job.whole_key)
def record(job: Job) -> list[float]:
    """Flat record of mapping and device, in SI, as `engine.devices.card.demand` reads it: also lookups and the supply.

    [B], [cycle], [s per unit] and counts.
    """
    device, model, on = job.device, job.model, job.switches
    card, rates = card_of(device), supply(job)
    wide = wide_format(device, job.format)
    lanes = card.vector_bits.si / 16
    space = onchip_bytes(device, partition_of(job))
    on_chip = on["on-chip-weights"]
    need = footprint(job, wide=wide, table_bits=table_bits(job)).activations if on_chip else 0.0
    return [
        cores_of(job),
        job.ways,
        BITS[job.format] / 8,
        BITS[wide] / 8,
        card.mac_per_cycle[job.format].si,
        card.mac_per_cycle[wide].si,
        card.vector_bits.si / 8 / lanes,  # 8-bit values in a lane
        space / job.streams,
        float(on["split-ops"]),
        model["copy_rate"],
        float(on["large-pools"]),
        model["pool_cycles"],
        model["density"] if on["pruned"] else 1.0,
        model["matrix_fill"],
        model["piece_elements"],
        core_bytes(device),
        float(on_chip),
        larger(0.0, space - need),
        smaller(larger(0.0, space - need), core_bytes(device) * partition_of(job)),
        float(on["length-aware"]),
        float(on["single-lookup"]),
        model["dispatch"] * card.clock.max.si,
        model["list_cycles"],
        float(on["placement"]),
        model["kernel_start"] * card.clock.max.si,
        lanes,
        rates[S.sram_s] * card.clock.max.si,
        float(on["search-tilings"]),
        *(rates[row] for row in (S.low_s, S.wide_s, S.sram_s, S.cache_s, S.far_s)),
        model["array_depth"],
        model["array_filters"],
        *(model[name] for name in _JOULES),
        line_bytes(levels(device)[0]),
        *(x for op in job.ops if _unit(op) == D.LOOKUP for x in _lookup_fields(job, op)),
        *rates,
    ]


def schedule(job: Job) -> CoreSchedule:
    """One pass of a job on the cores of one card. An estimate."""
    return core_schedule(_tables(job), job.sizes, record(job))


def utilisation(job: Job) -> float:
    """Share of the cores' time in a pass that is work: not kernel starts, waits or idling. [-]"""
    cores = schedule(job)
    runs, segment = cores.demand[:, D.RUNS], cores.demand[:, D.SEGMENT].astype(int)
    busy = float(((cores.piece - cores.start) * cores.demand[:, D.PIECES] * runs).sum())
    ends, times = np.zeros((2, segment.max() + 1))
    np.maximum.at(ends, segment, cores.end)
    times[segment] = runs
    available = cores_of(job) * float((ends * times).sum())
    return busy / available if available else 0.0


def _idle(job: Job) -> str:
    """What streams leave of their partition's cores, of which each takes as many as the others; empty if nothing."""
    partition, share = partition_of(job), cores_of(job)
    spare = partition - share * job.streams
    if spare == 0:
        return ""
    if spare < 0:
        return f"{job.streams} streams are priced with a core each where the part has {partition}: an upper bound."
    whole = partition // (share + 1)
    return (
        f"{job.streams} streams of {share} of {partition} cores leave {spare} idle: {whole} of {share + 1} "
        f"leave {partition - whole * (share + 1)}."
    )


def price(job: Job) -> PhaseCost:
    """Cost of one pass on one card. An estimate."""
    cores = schedule(job)
    demand, seconds = cores.demand, cores.seconds
    runs = demand[:, D.RUNS]
    card = card_of(job.device)
    vector = 2 * card.cores.si * card.vector_bits.si / 8 * card.clock.max.si  # 8-bit multiply-adds in every lane
    wide = wide_format(job.device, job.format)
    roofs = np.array([peak(job.device, job.format), peak(job.device, wide), vector, job.model["host_rate"]])
    bars, of = bars_of(job, cores_of(job), cores)
    op_joules = np.empty(len(demand))
    for_points(spend)(demand, np.array(record(job)), op_joules)
    converting = sum(t for op, t in zip(job.ops, seconds.sum(axis=1).tolist(), strict=True) if op.kind in _CONVERTS)
    notes = [_idle(job)]
    if converting >= _CONVERSION_SHARE * seconds.sum() > 0.0:
        share = converting / seconds.sum()
        notes.append(f"Conversions between {job.format.upper()} and {wide.upper()} take {share:.0%} of a pass.")
    return PhaseCost(
        seconds,
        runs * demand[:, D.WORK],
        roofs[demand[:, D.ROOF].astype(int)],
        runs * (demand[:, D.FAR] + demand[:, D.LINES] * line_bytes(levels(job.device)[0]) + demand[:, D.BEYOND]),
        runs * demand[:, D.NEAR],
        timeline=bars,
        notes=tuple(filter(None, notes)),
        timeline_of=of,
        levels=level_bytes(job.device, demand),
        limits=limits_of(job.device, demand, np.array(supply(job))),
        joules=joules(job, demand),
        op_joules=op_joules,
    )


def knobs(device: Device, graph: Graph, scenario: Scenario) -> tuple[Knob, ...]:
    """How many cores look up embeddings, or run the first of two nets, while the others compute."""
    if not traits(graph) & {"EmbeddingBag", "NonMaxSuppression"}:
        return ()
    return (Knob("sparse-cores", "Cores for lookups or the first net", tuple(range(1, int(card_of(device).cores.si)))),)


FAMILY = DeviceFamily(
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    compiled=Compiled(record, _tables, price_points, apart=(False, False)),
    request=parsed_on_host,
    knobs=knobs,
    idles=idles,
    governs=governs,
    max_streams=lambda device, scenario: int(card_of(device).cores.si),  # an inference a core
    lower=lower,
    padding=padding,
    unit_of=unit_of,
    mixed=wide_format,
    collective=CollectiveWire(wide_format),
    fields={"host_tables": HOST_TABLES},
    tables=TableMemory(table_bits, split_tables),
    **model_file(__file__, after=PARSING),
)
