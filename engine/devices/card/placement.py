"""Where things are on a card: cores of a partition, bytes on each memory level, tables behind LPDDR, units beside.

Counts of bytes, exact for the network as compiled.
"""

from collections.abc import Mapping
from dataclasses import replace

from engine.devices.card.graph import DECODED, HOSTED
from engine.devices.card.tiling import TILE
from engine.devices.common.cached import once, remembered
from engine.devices.common.column import Column, larger, smaller
from engine.devices.common.contract import Fit
from engine.devices.common.footprint import footprint
from engine.devices.common.job import Job
from engine.scenario.formats import BITS
from hardware_specs.schema import Card, Device, MemoryLevel
from model_zoo.ops import Op

LINE = 64.0  # bytes of an access where a specification says none


def card_of(device: Device) -> Card:
    """The spec's many-core card."""
    assert device.card is not None, device.id
    return device.card


def formats(device: Device) -> tuple[str, ...]:
    """Formats of the matrix engine."""
    return tuple(card_of(device).mac_per_cycle)


@remembered(id)
def levels(device: Device) -> tuple[MemoryLevel, tuple[MemoryLevel, ...]]:
    """The largest memory off the chip, and those on it."""
    far = max((m for m in device.memory if m.role == "offchip"), key=lambda m: m.capacity.si)
    return far, tuple(m for m in device.memory if m.role == "onchip")


def onchip_bytes(device: Device, cores: float) -> float:
    """Capacity of the memories of that many cores and of what they share. [B]"""
    return sum(m.capacity.si * (cores if m.per == "core" else 1) for m in levels(device)[1])


def core_bytes(device: Device) -> float:
    """Capacity of the memories of one core. [B]"""
    return sum(m.capacity.si for m in levels(device)[1] if m.per == "core")


def line_bytes(memory: MemoryLevel) -> float:
    """Bytes that a memory moves for however few are asked. [B]"""
    return memory.access.si if memory.access is not None else LINE


def wide_format(device: Device, format: str) -> str:
    """Format of what may not run in the scenario's one: itself from 16 bits up, else FP16 where the card has it."""
    return format if BITS[format] >= 16 else ("fp16" if "fp16" in formats(device) else format)


def table_bits(job: Job) -> float:
    """Stored bits of an element of a lookup table, its part of a row's scale and offset included. [bit]

    Token tables stay wide, those of a recommendation model need not.
    """
    bag = next((op for op in job.graph.ops if op.kind == "EmbeddingBag"), None)
    if bag is None:
        return BITS[wide_format(job.device, job.format)]
    bits = job.model["table_bits"] if job.switches["mixed-tables"] else larger(job.model["table_bits"], 8.0)
    return bits + 8.0 * job.model["row_scale"] / bag.row_elements


@once
def partition_of(job: Job) -> int:
    """Cores of a job's partition, which its streams share. [-]"""
    cores = int(card_of(job.device).cores.si)
    bags = any(op.kind == "EmbeddingBag" for op in job.ops)
    split = job.switches["overlap"] and any(op.kind == "EmbeddingBag" for op in job.phase.ops)
    net = _net(job)
    if (split and len(job.ops) < len(job.phase.ops)) or net:
        first = smaller(larger(job.tile[0] if job.tile else cores // 3, 1), cores - 1)
        cores = first if bags or net == 1 else cores - first
    return cores


@once
def cores_of(job: Job) -> int:
    """Cores a job may use: an equal share of its partition. [-]"""
    return larger(1, partition_of(job) // job.streams)


def _net(job: Job) -> int:
    """Which of two nets around host work a job is: 1, 2, or 0 where there are not two."""
    inside = [j for j, op in enumerate(job.phase.ops) if op.kind == "NonMaxSuppression"]
    if not job.switches["two-nets"] or not inside or len(job.ops) == len(job.phase.ops):
        return 0
    return 1 if job.ops[0] in job.phase.ops[: inside[0]] else 2


def unit_of(op: Op, switches: Mapping[str, bool]) -> str:
    """Who runs an operator when its work is pipelined apart: the card, the host or a video decoder."""
    if op.attribute(DECODED):
        return "decoder"
    if op.kind == "Preprocess" or op.attribute(HOSTED) or (op.kind == "NonMaxSuppression" and switches["two-nets"]):
        return "host"
    return "device"


@remembered(lambda job: (id(job.phase), id(job.ops), job.switches["two-nets"]))
def _peer_ops(job: Job) -> tuple[Op, ...]:
    """Operators of a job's phase that it leaves to other jobs of the same card."""
    names = {op.name for op in job.ops}
    return tuple(op for op in job.phase.ops if op.name not in names and unit_of(op, job.switches) == "device")


@remembered(lambda job: job.whole_key)
def place(job: Job) -> tuple[Fit, ...]:
    """Demand on LPDDR, and on SRAM and cache together for the dense weights (a cache: it need not fit).

    What runs beside the card holds nothing there.
    """
    if all(unit_of(op, job.switches) != "device" for op in job.ops):
        return ()
    need = footprint(job, wide=wide_format(job.device, job.format), table_bits=table_bits(job))
    far, near = levels(job.device)
    holds = "tables, weights and activations" if need.tables else "weights and activations"
    overflow = 0.0
    if job.switches["nvm-tier"]:
        tables, table_bytes = beyond(job)
        overflow = tables * table_bytes / job.ways  # whole tables
    fits = [Fit(far.name, far.role, need.total - overflow, far.capacity.si, holds, state_bytes=need.state)]
    if job.switches["nvm-tier"] and need.tables:
        fits.append(Fit("nvm", "offchip", overflow, job.model["nvm_capacity"], "tables that LPDDR can't hold"))
    if near:
        dense, room = need.weights + need.activations, onchip_bytes(job.device, partition_of(job))
        fits.append(Fit("sram and cache", "onchip", dense, room, "dense weights and activations", required=False))
    size, core_room = BITS[wide_format(job.device, job.format)] / 8, core_bytes(job.device)
    block = 4.0 * TILE * job.model["array_depth"] * size
    if isinstance(core_room, Column) or 0.0 < core_room < block:
        fits.append(Fit("core memory", "onchip", block, core_room, "blocks of both operands of a product, each twice,"))
    return tuple(fits)


def beyond(job: Job) -> tuple[int, float]:
    """Tables of a job that lie in the tier behind LPDDR, and the bytes of one. [-], [B]"""
    need = footprint(job, wide=wide_format(job.device, job.format), table_bits=table_bits(job))
    bags = [op for op in job.ops if op.kind == "EmbeddingBag"]
    if not bags or not job.switches["nvm-tier"]:
        return 0, 0.0
    table_bytes = bags[0].stored * table_bits(job) / 8
    # on each card whole, or its share where dense layers are sharded
    beside = replace(job, ops=_peer_ops(job), ways=job.ways if job.switches["shard-fc"] else 1)
    beside_bytes = footprint(beside, wide=wide_format(job.device, job.format)).total if beside.ops else 0.0
    room = max(0.0, levels(job.device)[0].capacity.si - (need.total - need.tables) - beside_bytes)
    return max(0, bags[0].layers - int(room // table_bytes) * job.ways), table_bytes
