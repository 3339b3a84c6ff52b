"""A device, its generation and a scenario's choices as the flat record that the GPU's price takes.

Where a generation's operators were measured, its constants are the fitted ones. A generation that nobody measured takes
its kin's kernels and shares; what they wait for and are fed follows, as for any other part, from its data sheet and the
family's parameters.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from engine.devices.common.cached import once, remembered
from engine.devices.common.column import larger, smaller
from engine.devices.common.host_work import own_parsing
from engine.devices.common.job import Job
from engine.devices.gpu.operators.collective import engine_kernels
from engine.devices.gpu.operators.kinds import decode_way, pick_kernel, prefill_heads
from engine.devices.gpu.operators.record import (
    draw_s,
    expert_record,
    facts,
    fitted,
    machine_record,
    nearest,
    prompt_record,
    quantising,
    reference,
    token_record,
)
from engine.devices.gpu.part import activation_bits, compute_format, gpu_of, offchip, peak, wide_format
from engine.scenario.formats import BITS, WEIGHT_ONLY
from hardware_specs.schema import Device
from model_zoo.ops import LOOKUPS, Phase

_NAMED = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8", "int8": "sq", "int4": "sq", "fp4": "nvfp4",
          "w8a16": "int8_wo", "w4a16": "int4_wo"}  # fmt: skip
"""Scenario's formats by the name that measured operators have."""
_EXPERTS = {"fp4": "nvfp4", "w4a16": "w4a16_mxfp4"}
_ATTENTION = {"fp4": "fp8", "int4": "int8"}
"""Formats that attention computes wider than a product does."""


def _of(job: Job) -> Mapping[str, Any] | None:
    """Constants measured on a part's own generation; None where nobody did."""
    return fitted().get(gpu_of(job.device).generation)


def _stand_in(job: Job) -> Mapping[str, Any]:
    """Constants of the generation whose kernels a part takes that was not measured: its kin's, else the usual's."""
    return fitted()[facts()["kin"].get(gpu_of(job.device).generation, facts()["usual"])]


def own_constants(device: Device) -> dict[str, float]:
    """Family parameters that a part takes from its generation, each in its parameter's [unit].

    Of its kin, shares of the data sheet alone: how late a kernel starts and what a unit is fed are a part's own.
    """
    generation = device.gpu.generation if device.gpu else None
    constants = fitted().get(facts()["kin"].get(generation, generation))
    if constants is None:
        return own_parsing(device)
    machine = constants["machine"]
    start = {}
    if generation in fitted():
        start = {"op_latency": machine["start"], "collective_latency": engine_kernels(generation)["start"]}
    shares = {"memory_efficiency": machine["dram_share"], "cache_share": machine["l2_share"]}
    return {**own_parsing(device), **start, **shares}


def achieved_share(job: Job, format: str) -> float | None:
    """Share of the dense peak that large products were measured to reach on this part; None: nobody measured. [-]

    In this format, else the part's least share in another format of 16 bits or fewer, as clock, power limit and
    libraries are the same. A what-if of the peak keeps the share.
    """
    device = job.device
    peaks = gpu_of(device).achieved_peak
    shares = {f: smaller(1.0, q.si / device.peak[f].catalog_si) for f, q in peaks.items() if f in device.peak}
    if format in shares:
        return shares[format]
    kin = [share for f, share in shares.items() if BITS[f] <= 16]
    return min(kin) if kin and BITS[format] <= 16 else None


def _units(job: Job) -> float:
    units = gpu_of(job.device).units
    return units.si if units else job.model["units"]


def _bandwidth(job: Job) -> float:
    level = offchip(job.device)
    return level.bandwidth.si if level.bandwidth else 1e30


def _cache(job: Job) -> float:
    cache = max((m.capacity.si for m in job.device.memory if m.role == "onchip"), default=0.0)
    return larger(cache, 1.0) if offchip(job.device).role == "offchip" else 1.0


def vector_peak(job: Job) -> float:
    """Peak of element-wise arithmetic. [FLOP/s] A bound."""
    device = job.device
    if "fp32" in device.peak:
        return device.peak["fp32"].si
    return peak(device, wide_format(device, job.format)) * job.model["vector_share"]


def _launch(job: Job) -> float:
    """Start of a kernel: as the generation's were measured, else as the part's data say."""
    launch = gpu_of(job.device).kernel_launch
    return launch.si if launch and _of(job) is None else job.model["op_latency"]


@once
def _generation(job: Job) -> Mapping[str, Any]:
    """Constants of the part's generation, or what follows without one: tiles of 128 by 128 keep a unit's arithmetic fed
    from the cache, and a stream from memory passes. [SI]"""
    if (table := _of(job)) is not None:
        return table["machine"]
    model, late = job.model, _late(job)
    wide, low = (_own_format(job, wide) for wide in (True, False))
    fastest = larger(peak(job.device, wide), peak(job.device, low) * smaller(BITS[low], 16.0) / 16.0)
    feed = larger(fastest / model["tile_reuse"], 3.0 * _bandwidth(job)) / _units(job)
    return {
        "feed": feed,
        "store": feed / 3.0,
        "step": model["step_latency"] * late,
        "stream": model["memory_efficiency"],
        "softmax": vector_peak(job) / _units(job) / 20.0,
        "block": model["block_start"] * late * _stand_in(job)["machine"]["feed"] / feed,
    }


def _machine(job: Job) -> list[float]:
    """The part as `slots.MACHINE` names it. [SI]"""
    shares = {"l2_share": job.model["cache_share"], "dram_share": job.model["memory_efficiency"]}
    constants = {**_generation(job), **shares, "start": _launch(job)}
    return machine_record(_units(job), _bandwidth(job), _cache(job), constants)


_PER_UNIT = ("rate", "quantise_rate", "flow")
"""Constants that are what one unit does: where another part's stand in, they go by what a unit takes from its cache."""


@once
def _constants(job: Job, kind: str, name: str) -> Mapping[str, float]:
    """Constants of a kind of operator in a format: the generation's, else those of any that has some, scaled to it."""
    table, _, values = _measurement(job, kind, name)
    if table is _of(job):
        return values
    size, late = _generation(job)["feed"] / table["machine"]["feed"], _late(job)
    times = {"block": late / size, "start": late, "quantise_s": late, "sort": late, "step": late}
    return {n: v * size if n in _PER_UNIT else v * times.get(n, 1.0) for n, v in values.items()}


def _measurement(job: Job, kind: str, name: str) -> tuple[Mapping[str, Any], str, Mapping[str, float]]:
    """A generation with operators of a kind in a format, its own where it has; whose kernel, and its constants."""
    usual, captured = _stand_in(job), facts()["captured"].get(kind, ("trtllm",))
    for key in (name, "bfloat16"):
        for table in (_of(job) or usual, usual, *fitted().values()):
            kernels = table.get(kind, {}).get(key)
            if kernels:  # of experts, the kernel that its engine picks, of others what a captured graph holds
                pick = (pick_kernel(kernels, job.engine or "trtllm"),) if kind == "moe" else ()
                kernel = nearest(kernels, *pick, *captured)
                return table, kernel, kernels[kernel]
    raise KeyError(kind)


def _late(job: Job) -> float:
    """How much later than usual kernels of a part start that no generation tells of. [-]"""
    return 1.0 if _of(job) is not None else _launch(job) / facts()["usual_launch"]


def _own_format(job: Job, wide: bool) -> str:
    return wide_format(job.device, job.format) if wide else job.format


def _draw_s(job: Job, format: str) -> float:
    """Seconds a FLOP takes when the power limit, or what else the largest products meet, sets the pace."""
    shape = compute_format(job.device, format)
    table, device = _of(job), job.device
    if table is not None and shape in _NAMED and device.power.max is not None:
        draw = table.get("gemm", {}).get(_NAMED[shape])
        if draw is not None:
            energy = next(iter(draw.values()))["energy"]
            of = reference(table["parts"][0])
            like = shape if shape in of.peak else facts()["formats"][_NAMED[shape]]["peak"]  # its clock is the same
            pace = draw_s(energy, device.power.max.si, peak(device, like), (of.power, of.peak[like]))
            return pace * (peak(device, like) / peak(device, shape))
    share = achieved_share(job, shape)
    return 1.0 / (peak(device, format) * (job.model["matmul_efficiency"] if share is None else share))


def _flop_j(job: Job, format: str) -> float:
    """Energy of a FLOP of matrix arithmetic at the clock that the largest products hold, its operands' way in included.

    What is left of the board's limit goes by the work there; a part whose largest products stay below the limit at its
    full clock spends less, by the square of the voltage it would need to reach it. [J]
    """
    limit = job.device.power.max
    if limit is None:
        return 0.0
    pace = _draw_s(job, format)
    clock = smaller(1.0, pace * peak(job.device, format)) if _of(job) is not None else 1.0
    return (1.0 - job.model["idle_share"]) * limit.si * pace * clock * clock


def _scales(job: Job, format: str) -> bool:
    """Whether inputs are given scales as they come: blocks of 4 bits always, 8 bits where a decoder's tokens differ
    too much for scales calibrated beforehand. That encoders' are was chosen after MLPerf's BERT on an L4 was seen."""
    return format == "fp4" or (format in ("fp8", "int8", "int4") and job.graph.causal)


def _side(job: Job, format: str) -> float:
    """Least rows and columns a matmul's tile is filled up to: plain fp32 has no matrix units to fill."""
    side = gpu_of(job.device).tile_side
    if compute_format(job.device, format) == "fp32":
        return 1.0
    return side.si if side else job.model["tile_side"]


def _product(job: Job, wide: bool) -> list[float]:
    """A format of products as `gemm.FORMAT` names it. [SI]"""
    format = _own_format(job, wide)
    name, inside, starts = _NAMED.get(format), activation_bits(job.device, format)[0] / 8, (0.0, 0.0, 0.0)
    fact, scales, alone = facts()["formats"].get(name, {}), _scales(job, format), format in WEIGHT_ONLY
    if scales or alone:
        start_s, *rates = quantising(_constants(job, "gemm", str(name)), _units(job), alone)
        apart = facts()["profiler_s"] if name in facts()["one_layer"] else 0.0
        starts = larger(start_s - apart, 0.0), *rates
    start_s, byte_s, widen_s = starts
    sizes = inside, BITS[format] / 8, fact["out"] if scales else inside
    flop_s = 1.0 / peak(job.device, format), _draw_s(job, format)
    return [*flop_s, *sizes, start_s, byte_s, fact.get("splits", 32.0), widen_s, _side(job, format)]


def _attention_format(job: Job, wide: bool) -> str:
    """Format an attention computes in: of its activations, or the wide one where its cache is of 16 bits or more."""
    format = compute_format(job.device, job.format)
    choice = wide_format(job.device, format) if wide else _ATTENTION.get(format, format)
    return choice if choice in job.device.peak else format


def _alone(job: Job, kernel: Mapping[str, float]) -> dict[str, float]:
    """Constants of what was measured alone in its graph, whose start has the gap between two replays in it: in a
    network there is none."""
    return {**kernel, "start": larger(kernel["start"] - facts()["replay_gap"] * _late(job), _launch(job))}


def _token(job: Job, wide: bool) -> list[float]:
    """Kernels of a token's attention as `attention.FORMAT` names them. [SI]"""
    format, kind, generation = _attention_format(job, wide), "attention_decode", gpu_of(job.device).generation
    name = _NAMED.get(format, "bfloat16")
    kernel, (_, runtime, _) = _constants(job, kind, name), _measurement(job, kind, name)
    per_head = (_of(job) or {}).get(kind, {}).get(name, {}).get(f"{runtime}-own", kernel)
    way = {n: smaller(value, 1e9) for n, value in decode_way(str(generation), name, runtime).items()}
    way["whole"] = 0.0  # engines keep no more than a window
    return token_record(1.0 / job.device.peak[format].si, 2.0, _alone(job, kernel), _alone(job, per_head), way)


def _prompt(job: Job, wide: bool) -> list[float]:
    """The kernel of a prompt's attention as `attention.PROMPT` names it. [SI]"""
    format, kind = _attention_format(job, wide), "attention_prefill" if job.graph.causal else "encoder_attention"
    kernel = _alone(job, _constants(job, kind, _NAMED.get(format, "bfloat16")))
    return prompt_record(1.0 / job.device.peak[format].si, BITS[format] / 8, kernel, gpu_of(job.device).generation)


def _expert_format(job: Job) -> str:
    """Format of experts by the name that measured ones have: as the engine serves it, where that was measured."""
    name = _EXPERTS.get(job.format, _NAMED.get(job.format, "bfloat16"))
    names = facts()["expert_formats"]
    pick = names.get(f"{gpu_of(job.device).generation} {job.engine}", names.get(job.engine, {})).get(name, name)
    return pick if pick in (_of(job) or _stand_in(job)).get("moe", {}) else name


def expert_note(job: Job) -> str:
    """Which kernel experts run in, in a sentence."""
    table, kernel, _ = _measurement(job, "moe", _expert_format(job))
    basis = "" if table is _of(job) else ", scaled to this part's data sheet"
    return f"Experts run in the kernel {kernel}, as measured on {', '.join(table['parts'])}{basis}."


def _experts(job: Job) -> list[float]:
    """Kernels of experts as `moe.FORMAT` names them. [SI]"""
    name, format = _expert_format(job), job.format
    inside, weight = activation_bits(job.device, format)[0] / 8, BITS[format] / 8
    if format in ("fp8", *_EXPERTS):  # scales of its blocks included
        inside, weight = (facts()["formats"][name][side] for side in ("in", "weight"))
    return expert_record(1.0 / peak(job.device, format), inside, weight, _alone(job, _constants(job, "moe", name)))


def _stream(job: Job, op: str) -> list[float]:
    """Constants of an operator that reads and writes once; in a graph it pays a node's gap beside its own time. [SI]"""
    fit = _constants(job, "elementwise", op)
    share, rate = fit["share"], fit["rate"]
    if op == "embedding":  # rows of a table: a bag's kernel streams as any other but for where they lie
        share, rate = job.model["memory_efficiency"], _constants(job, "elementwise", "add")["rate"]
    return [fit["start"] + facts()["node_gap"] * _late(job), share, rate]


def issue(job: Job) -> float:
    """Host time of a kernel that a framework issues by itself. [s] An estimate."""
    if job.switches["graph"]:
        return 0.0
    overhead = gpu_of(job.device).op_overhead
    return (overhead.si if overhead else job.model["op_issue"]) * job.model["launches_per_op"]


@lru_cache(maxsize=2048)
def _weights(phase: Phase, narrow: float, wide: float) -> float:
    """Bytes of parameters that a pass goes through: what competes for the cache from pass to pass."""
    ops = (op for op in phase.ops if op.kind not in LOOKUPS)
    return sum(op.stored * op.layers * (narrow if op.quantisable else wide) for op in ops)


def _pass_fields(job: Job) -> list[float]:
    """What else the price reads, in the order of its names behind the parts of `layout.PARTS`. [SI]"""
    on, model = job.switches, job.model
    act, wide = activation_bits(job.device, job.format)
    formats = _own_format(job, False), _own_format(job, True)
    weights = _weights(job.phase, *(BITS[format] / 8 for format in formats)) / job.ways
    name, far_j = _NAMED.get(_attention_format(job, wide=False), "bfloat16"), model["memory_byte_j"]
    if (limit := job.device.power.max) is not None:  # at its full rate memory draws no more than the board may
        far_j = smaller(far_j, (1.0 - model["idle_share"]) * limit.si / _bandwidth(job))
    return [
        1.0 / vector_peak(job),
        act / 8,
        wide / 8,
        float(on["graph"]),
        float(on["fuse"]),
        issue(job),
        0.0 if on["graph"] or on["fuse"] else model["split_ops"],
        float(job.graph.causal),
        weights,
        *(_flop_j(job, format) for format in formats),
        model["lane_flop_j"],
        far_j,
        model["cache_byte_j"],
        *prefill_heads(str(gpu_of(job.device).generation), f"{name}-{name}"),  # others run in 16 bits
    ]


@remembered(lambda job: job.key)
def record(job: Job) -> tuple[float, ...]:
    """The record of a job as `layout.PARTS` has it, SI; of rates [1/s], [B/s], [s/FLOP]."""
    return (
        *_machine(job),
        *_product(job, False),
        *_product(job, True),
        *_token(job, False),
        *_token(job, True),
        *_prompt(job, False),
        *_prompt(job, True),
        *_experts(job),
        *(field for op in ("norm", "gated_act", "embedding") for field in _stream(job, op)),
        *_pass_fields(job),
    )
