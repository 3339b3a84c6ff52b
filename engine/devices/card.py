"""A many-core inference card: matrix engine, vector unit and SRAM in each core, a shared cache, LPDDR behind it.

First order: an op is split over the cores that are free for it and takes the slowest of arithmetic, vector work,
on-chip traffic and LPDDR traffic, plus the cost of scheduling it. Weights that fit in SRAM and cache are read from
LPDDR once and stay. Estimates.
"""

from __future__ import annotations

import numpy as np

from engine.devices.family import DeviceFamily, Fit, Job, Parameter, PhaseCost, Switch
from engine.devices.footprint import footprint
from engine.formats import BITS
from engine.kernels.jit import kernel
from hardware_specs.schema import Device, MemoryLevel
from model_zoo import table as T
from model_zoo.ops import Graph

_FIELDS = (
    "peak", "wide_peak", "vector_rate", "offchip", "onchip", "matmul_efficiency", "op_overhead", "cores",
    "low_bytes", "wide_bytes", "weights_stay", "cache", "fuse", "row_time",
)  # fmt: skip
(
    PEAK, WIDE_PEAK, VECTOR, OFFCHIP_BW, ONCHIP_BW, MATMUL_EFF, OVERHEAD_S, CORES,
    LOW_BYTES, WIDE_BYTES, WEIGHTS_STAY, CACHE, FUSE, ROW_TIME,
) = range(14)  # fmt: skip

WORK, ROOF, MOVED, NEAR = range(6, 10)


@kernel
def _at(table, j, col, batch, length, context):
    """A count of op j: coef * B^b * S^s * C^c, exponents 0 or 1."""
    return (
        table[j, col]
        * (1.0 + table[j, col + 1] * (batch - 1.0))
        * (1.0 + table[j, col + 2] * (length - 1.0))
        * (1.0 + table[j, col + 3] * (context - 1.0))
    )


@kernel
def _split_share(g, m, n, cores):
    """Share of the cores an op keeps busy when cut into 32-row by 64-column pieces, last round included."""
    pieces = g * np.ceil(m / 32.0) * np.ceil(n / 64.0)
    return pieces / (np.ceil(pieces / cores) * cores)


@kernel
def price_ops(table, batch, length, context, ways, rec, out):
    """Price every op of a phase on one card; fills ``out`` (n_ops, 10), layers and steps multiplied in."""
    for j in range(table.shape[0]):
        shard = table[j, T.SHARD]
        share = 1.0 if shard == 0.0 else 1.0 / ways
        g = _at(table, j, T.G, batch, length, context)
        m = _at(table, j, T.M, batch, length, context)
        n = _at(table, j, T.N, batch, length, context)
        flops = _at(table, j, T.FLOPS, batch, length, context) * share
        weights = _at(table, j, T.WEIGHTS, batch, length, context)
        if table[j, T.STORED] > 0.0:  # rows that many items choose are read once
            weights = min(weights, table[j, T.STORED])
        weights *= share
        moved_in = _at(table, j, T.READS, batch, length, context) * (1.0 if shard == 1.0 else share)
        moved_out = _at(table, j, T.WRITES, batch, length, context) * (1.0 if shard == 3.0 else share)
        rows = _at(table, j, T.GATHER_ROWS, batch, length, context) * share
        klass = table[j, T.CLASS]
        low = table[j, T.QUANTISABLE] > 0.0
        size = rec[LOW_BYTES] if low else rec[WIDE_BYTES]
        if rec[FUSE] > 0.0 and klass == T.ELEMENTWISE:
            moved_in = max(moved_in - moved_out, 0.0)
            moved_out = 0.0
        near = (moved_in + moved_out) * size
        far = 0.0
        if near > rec[CACHE]:
            far = near
            near = 0.0
        weight_bytes = weights * size
        if klass == T.LOOKUP or rec[WEIGHTS_STAY] == 0.0:
            far += weight_bytes
        else:
            near += weight_bytes
        if klass == T.CONTRACTION:
            roof = rec[PEAK] if low else rec[WIDE_PEAK]
            busy = _split_share(g, max(m, 1.0), max(n, 1.0), rec[CORES])
            compute = flops / (roof * rec[MATMUL_EFF] * busy)
        else:
            roof = rec[VECTOR]
            compute = flops / roof
        runs = table[j, T.LAYERS] * _at(table, j, T.STEPS, batch, length, context)
        offchip = far / rec[OFFCHIP_BW] + rows * rec[ROW_TIME]
        onchip = near / rec[ONCHIP_BW]
        longest = max(compute, offchip, onchip)
        is_compute = 1.0 if compute >= longest else 0.0
        is_far = 1.0 if is_compute == 0.0 and offchip >= longest else 0.0
        inline = rec[FUSE] > 0.0 and klass == T.ELEMENTWISE
        out[j, 0] = runs * longest * is_compute
        out[j, 1] = runs * longest * is_far
        out[j, 2] = runs * longest * (1.0 - is_compute) * (1.0 - is_far)
        out[j, 3] = 0.0
        out[j, 4] = 0.0
        out[j, 5] = 0.0 if inline else runs * rec[OVERHEAD_S]
        out[j, WORK] = runs * flops
        out[j, ROOF] = roof
        out[j, MOVED] = runs * far
        out[j, NEAR] = runs * near


def peak(device: Device, format: str) -> float:
    """Dense peak from cores, multiply-adds a cycle and clock. [FLOP/s] A bound."""
    card = device.card
    assert card is not None
    return 2 * card.cores.si * card.mac_per_cycle[format].si * card.clock.max.si


def formats(device: Device) -> tuple[str, ...]:
    """Formats of the matrix engine."""
    assert device.card is not None
    return tuple(device.card.mac_per_cycle)


def supports(device: Device, graph: Graph, format: str) -> str | None:
    """A reason this card can't run the graph, or None."""
    for phase in graph.phases:
        for op in phase.ops:
            if op.kind == "BinaryGemm":
                return f"{device.name} has no binary matrix engine, which {op.name} needs; use a CPU or the SmartNIC."
    return None


def _levels(device: Device) -> tuple[MemoryLevel, tuple[MemoryLevel, ...]]:
    far = max((m for m in device.memory if m.role == "offchip"), key=lambda m: m.capacity.si)
    return far, tuple(m for m in device.memory if m.role == "onchip")


def _onchip_bytes(device: Device) -> float:
    assert device.card is not None
    return sum(m.capacity.si * (device.card.cores.si if m.per == "core" else 1) for m in _levels(device)[1])


def _wide(device: Device, format: str) -> str:
    return format if BITS[format] >= 16 else ("fp16" if "fp16" in formats(device) else format)


def place(job: Job) -> tuple[Fit, ...]:
    """Demand on LPDDR, and on SRAM and cache together for the dense weights (a cache: it need not fit)."""
    need = footprint(job, wide=_wide(job.device, job.format), table_bits=job.model["table_bits"])
    far, near = _levels(job.device)
    fits = [
        Fit(
            far.name,
            far.role,
            need.total,
            far.capacity.si,
            "tables, weights and activations" if need.tables else "weights and activations",
        )
    ]
    if near:
        fits.append(Fit("sram and cache", "onchip", need.weights + need.activations, _onchip_bytes(job.device),
                        "dense weights and activations", required=False))  # fmt: skip
    return tuple(fits)


def record(job: Job) -> np.ndarray:
    """Flat record of the card for the compiled model, in SI, in the order of `_FIELDS`."""
    device, model = job.device, job.model
    card = device.card
    assert card is not None
    far, _ = _levels(device)
    need = footprint(job, wide=_wide(device, job.format), table_bits=job.model["table_bits"])
    vector_bytes = card.vector_bits.si / 8 * card.cores.si * card.clock.max.si
    values = {
        "peak": peak(device, job.format),
        "wide_peak": peak(device, _wide(device, job.format)),
        "vector_rate": vector_bytes / 2,  # one 16-bit operation a lane and cycle
        "offchip": (far.bandwidth.si if far.bandwidth else float("inf")) * model["offchip_efficiency"],
        "onchip": vector_bytes,  # what the vector units can load a cycle
        "matmul_efficiency": model["matmul_efficiency"],
        "op_overhead": model["op_overhead"],
        "cores": card.cores.si,
        "low_bytes": BITS[job.format] / 8,
        "wide_bytes": BITS[_wide(device, job.format)] / 8,
        "weights_stay": float(job.switches["on-chip-weights"] and need.weights <= _onchip_bytes(device)),
        "cache": _onchip_bytes(device),
        "fuse": float(job.switches["fuse"]),
        "row_time": model["row_time"],
    }
    return np.array([values[name] for name in _FIELDS])


def price(job: Job) -> PhaseCost:
    """Cost of one pass on one card. An estimate."""
    rows = np.array([job.phase.ops.index(op) for op in job.ops]) if len(job.ops) != len(job.phase.ops) else slice(None)
    table = T.lower(job.phase)[rows]
    out = np.zeros((table.shape[0], 10))
    price_ops(table, float(job.batch), job.length, job.context, float(job.ways), record(job), out)
    return PhaseCost(out[:, :6], out[:, WORK], out[:, ROOF], out[:, MOVED], out[:, NEAR])


FAMILY = DeviceFamily(
    kind="card",
    title="Many-core inference card",
    formats=formats,
    peak=peak,
    supports=supports,
    place=place,
    price=price,
    parameters=(
        Parameter("matmul_efficiency", 0.78, "1", "published", "Share of the cores' time that dense work keeps busy.",
                  source="core utilisation reported for the dense partition of recommendation models, document 000"),
        Parameter("offchip_efficiency", 0.9, "1", "assumed", "Share of the LPDDR peak that long streams reach."),
        Parameter("op_overhead", 5e-6, "s", "assumed", "Scheduling and synchronising one operator over the cores."),
        Parameter("table_bits", 6.0, "bit", "assumed",
                  "Embedding tables in int8 and int4, half each: the mix is published, its share is not."),
        Parameter("row_time", 2e-9, "s", "assumed", "A random table row beyond its bytes, many in flight."),
    ),
    assumptions=("An operator uses all cores of the card; arithmetic, on-chip and LPDDR traffic overlap within it.",),
    switches=(
        Switch("fuse", "Fused operators", "Element-wise operators ride in the operator before them."),
        Switch("on-chip-weights", "Weights stay on chip", "Weights that fit in SRAM and cache stay between requests."),
    ),
)  # fmt: skip
