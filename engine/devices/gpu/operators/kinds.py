"""Kinds of operators: the columns a row of each needs, and the compiled model that answers many rows of one part."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.devices.common.collective import OPS
from engine.devices.gpu.operators import attention, collective, gemm, moe, stream
from engine.devices.gpu.operators.record import (
    NoModel,
    Part,
    expert_record,
    facts,
    fitted,
    format_named,
    format_record,
    layers,
    machine_record,
    nearest,
    peak_of,
    prompt_record,
    token_record,
)
from engine.devices.gpu.operators.slots import ANSWER
from engine.kernels.jit import run_chunks
from entries.files import load_yaml

Texts = Mapping[str, str]
Numbers = Mapping[str, np.ndarray]
Model = Callable[[Part, Texts, Numbers, bool], np.ndarray]

_CHUNK = 8192  # rows one thread takes at a time


@dataclass(frozen=True)
class Kind:
    """One kind of operator: its model, and the columns of text and of numbers by name, as `kinds.yaml` says them."""

    name: str
    model: Model
    title: str
    shape: Sequence[str]
    texts: Mapping[str, str | None]
    format: str
    grows: Sequence[str]
    zeros: Sequence[str] = ()
    defaults: Mapping[str, float] = field(default_factory=dict)


def _kernels_of(part: Part, kind: str, format: str) -> Mapping[str, Mapping[str, float]]:
    """Constants of a kind and format on a part's generation by runtime. NoModel where none was measured."""
    kernels = part.constants.get(kind, {}).get(format) or _weight_only(part, kind, format)
    if kernels is None:
        raise NoModel(f"no {kind} in {format} was measured on generation {part.generation}")
    return kernels


def _constants_of(part: Part, kind: str, format: str, runtime: str) -> Mapping[str, float]:
    """Constants of a kind and format on a part: the runtime's own, else trtllm's, else any there are."""
    kernels = _kernels_of(part, kind, format)
    return kernels[nearest(kernels, runtime, "trtllm")]


def _weight_only(part: Part, kind: str, format: str) -> Mapping[str, Any] | None:
    """Products of weights that alone are narrow, where none were measured on a generation: its own 16-bit arithmetic,
    weights widened as fast a unit as on another one. None where there are none. An assumption, without a band."""
    formats = (table[kind][format] for table in fitted().values() if format in table.get(kind, {}))
    donor, base = next(formats, None), part.constants.get(kind, {}).get("bfloat16")
    if kind != "gemm" or donor is None or base is None or not format.endswith("_wo"):
        return None
    return {name: {**values, "energy": base[nearest(base, name, "trtllm")]["energy"]} for name, values in donor.items()}


def runtime_of(texts: Texts) -> str:
    """Runtime a row names, trtllm where it names none, and behind it which of its kernels: one that a host launches by
    itself, that stands in where others take no such head, or that multiplies experts in a way of its own."""
    name, kernel = texts.get("framework") or "trtllm", texts.get("kernel", "")
    suffix = next((label for part, label in facts()["kernels"].items() if part in kernel), "")
    return f"{name}-{suffix}" if suffix else name


def expert_kernel(part: Part, texts: Texts) -> str:
    """Kernel of experts whose constants a row takes: the one it names, else the one its runtime picks on that part."""
    runtime = runtime_of(texts)
    kernels = part.constants.get("moe", {}).get(format_named(texts["dtype"]), {})
    if not texts.get("kernel"):
        runtime = pick_kernel(kernels, runtime)
    return nearest(kernels, runtime, "trtllm") if kernels else runtime


def pick_kernel(kernels: Mapping[str, Any], runtime: str) -> str:
    """Kernel of experts that a runtime picks of those ``kernels`` in a format; the runtime itself where it has none."""
    return next((name for pick in facts()["expert_picks"] if (name := f"{runtime}-{pick}") in kernels), runtime)


def format_key(kind: Kind, texts: Texts) -> str:
    """Format under which a row's constants and band stand: two joined where arithmetic and cache differ."""
    try:
        cache = format_named(texts[kind.format])
        compute = format_named(texts.get("attn_dtype") or cache)
    except NoModel:
        return f"{texts[kind.format]}.{texts['op']}" if kind.name == "linear_attention" else texts[kind.format]
    return cache if cache == compute else f"{compute}-{cache}"


def _answers(rows_of: Callable[..., None], rows: int, *inputs: Any) -> np.ndarray:
    """What a range kernel ``(lo, hi, *inputs, out)`` fills in of all rows on the process-wide threads."""
    out = np.zeros((rows, ANSWER))
    spans: Iterator[tuple[int, int]] = ((lo, min(lo + _CHUNK, rows)) for lo in range(0, rows, _CHUNK))
    if rows <= _CHUNK:
        rows_of(0, rows, *inputs, out)
    else:
        for _ in run_chunks(lambda span: rows_of(*span, *inputs, out), spans):
            pass
    return out


def _machine(part: Part) -> np.ndarray:
    return np.array(machine_record(part.units, part.bandwidth, part.l2, part.constants["machine"]))


def _gemm(part: Part, texts: Texts, numbers: Numbers, cold: bool) -> np.ndarray:
    format, runtime = format_named(texts["dtype"]), runtime_of(texts)
    form = format_record(part, format, _constants_of(part, "gemm", format, runtime))
    m, n, k = (numbers[name] for name in ("m", "n", "k"))
    layer_count = layers(n * k * form[gemm.WEIGHT_BYTES], part.l2, runtime, texts.get("version", ""), format)
    layer_count = np.zeros_like(m) if cold else layer_count
    return _answers(gemm.product_rows, len(m), m, n, k, layer_count, _machine(part), form)


def decode_way(generation: str, format: str, runtime: str) -> dict[str, float]:
    """How a runtime's kernels read a cache: what of `attention.FORMAT` follows its constants. [SI]

    Counts and switches; what copying queries takes is an estimate.
    """
    kernels = facts()["decode_kernels"]
    way = kernels["usual"] | kernels.get(f"{generation} {format} {runtime}", {})
    return way | {"copied": way["copies"] * facts()["usual_launch"]}


def _decode(kind: str, row: float, pair_flops: float) -> Model:
    """Model of a kind that reads ``row`` elements and computes ``pair_flops`` a cached token; 0: by head width."""

    def model(part: Part, texts: Texts, numbers: Numbers, cold: bool) -> np.ndarray:
        format = format_named(texts["kv_dtype"])
        kernels = _kernels_of(part, kind, format)
        runtime = nearest(kernels, runtime_of(texts), "trtllm")
        peak = peak_of(part, format if facts()["formats"][format]["peak"] in part.peak else "bfloat16")
        way = decode_way(part.generation, format, runtime)
        if row > 0.0:  # latent rows fill a unit's memory
            parts = 1.0 if texts.get("version") in facts()["unsplit_mla"] else np.inf
            way = decode_way("", "", "") | {"resident": 1.0, "most_parts": parts}
        kernel = kernels[runtime]
        per_head = kernels.get(f"{runtime}-own", kernel)
        form = np.array(token_record(1.0 / peak, facts()["formats"][format]["in"], kernel, per_head, way))
        batch, heads = numbers["batch"], numbers["heads"]
        kv_heads = numbers.get("kv_heads", np.ones_like(heads))
        window = numbers.get("window", np.zeros_like(heads))
        context = numbers["past_len"] + 1.0
        tokens = np.where(window > 0, np.minimum(context, window), context)
        wide = 2.0 * numbers["head_dim"] if row == 0.0 else np.full_like(heads, row)
        flops = 2.0 * wide if row == 0.0 else np.full_like(heads, pair_flops)
        columns = batch, tokens, context, heads, kv_heads, wide, flops
        return _answers(attention.decode_rows, len(batch), columns, cold, _machine(part), form)

    return model


def prefill_heads(generation: str, formats: str) -> tuple[float, float]:
    """Least and largest width of a head that a generation's prompt kernels take in formats of arithmetic and cache. [-]

    A count.
    """
    return tuple(facts()["prefill_heads"].get(f"{generation} {formats}", (0.0, np.inf)))


def _prefill(kind: str, column: str, widths: tuple[float, float], causal: bool) -> Model:
    """Model of a kind whose queries and keys, and values, are ``widths`` wide; 0: as its rows say."""

    def model(part: Part, texts: Texts, numbers: Numbers, cold: bool) -> np.ndarray:
        format, runtime = format_named(texts[column]), runtime_of(texts)
        formats = format_named(texts.get("attn_dtype") or format) + "-" + format
        direct = formats in part.constants.get(kind, {})
        constants = _constants_of(part, kind, formats if direct else format, runtime)
        batch, heads = numbers["batch"], numbers["heads"]
        kv_heads, window = numbers.get("kv_heads", heads), numbers.get("window", np.zeros_like(heads))
        qk, v = (np.full_like(heads, width) if width else numbers["head_dim"] for width in widths)
        out, rig, length = np.zeros((batch.shape[0], ANSWER)), _machine(part), numbers["seq_len"]
        low, high = prefill_heads(part.generation, formats)
        has = (qk >= low) & (qk <= high)
        way = f"{part.generation} {runtime}" in facts()["prefill_packs"], causal and runtime in facts()["prefill_pages"]
        for rows, runs_in in ((has, format), (~has, "bfloat16")):
            if rows.any():
                kernel = constants if runs_in == format else _constants_of(part, kind, runs_in, runtime)
                rates = 1.0 / peak_of(part, runs_in), facts()["formats"][runs_in]["in"]
                form = np.array(prompt_record(*rates, kernel, part.generation))
                columns = tuple(c[rows] for c in (batch, length, heads, kv_heads, qk, v, window))
                out[rows] = _answers(attention.prefill_rows, rows.sum(), columns, causal, way, rig, form)
        return out

    return model


def _expert_form(part: Part, format: str, constants: Mapping[str, float]) -> np.ndarray:
    shape = facts()["formats"][format]
    return np.array(expert_record(1.0 / peak_of(part, format), shape["in"], shape["weight"], constants))


def _moe(part: Part, texts: Texts, numbers: Numbers, cold: bool) -> np.ndarray:
    format = format_named(texts["dtype"])
    form = _expert_form(part, format, _constants_of(part, "moe", format, expert_kernel(part, texts)))
    law = texts["distribution"]
    try:
        exponent = 0.0 if law in ("balanced", "uniform") else float(law.removeprefix("power_law_"))
    except ValueError:
        exponent = -1.0
    if exponent != 0.0 and not 1.0 < exponent <= 4.0:
        raise NoModel(
            f"distribution {law[:40]!r} is unknown: balanced and power_law_A with A above 1, at most 4, are known"
        )
    names = ("tokens", "hidden", "inter", "topk", "experts", "moe_tp", "moe_ep", "gated")
    columns = tuple(numbers[name] for name in names)
    return _answers(moe.block_rows, len(columns[0]), columns, exponent, cold, _machine(part), form)


def _mla_bmm(part: Part, texts: Texts, numbers: Numbers, cold: bool) -> np.ndarray:
    format, runtime = format_named(texts["dtype"]), runtime_of(texts)
    rig, constants = part.constants["machine"], _constants_of(part, "mla_bmm", format, runtime)
    tail = {"sort": 0.0, "block": rig["block"], "step": rig["step"], "read": rig["dram_share"]}
    form = _expert_form(part, format, {**constants, **tail})
    n, k = _choice("op", texts["op"], facts()["mla_products"])
    tokens, heads = numbers["tokens"], numbers["heads"]
    return _answers(moe.batched_rows, len(tokens), tokens, heads, n, k, cold, _machine(part), form)


def _choice(name: str, value: str, options: Mapping[str, Any]) -> Any:
    if value not in options:
        raise NoModel(f"{name} {value[:40]!r} is unknown: {', '.join(options)} are known")
    return options[value]


def _collective(kind: str, op: str | None) -> Model:
    """Model of a kind whose rows are all one operation, or name it."""

    def model(part: Part, texts: Texts, numbers: Numbers, cold: bool) -> np.ndarray:
        name = op or texts["op"]
        code = _choice("op", name, OPS)
        key = texts[KINDS[kind].format]
        if part.wire <= 0.0:
            raise NoModel(f"{part.id} has no wire to its peers in the catalog")
        runtime = runtime_of(texts)
        generation = facts()["wires"].get(part.link, {}).get("as", part.generation)
        if generation != part.generation:
            part = replace(part, generation=generation, constants=fitted()[generation])
        kernels, key = None, format_named(key) if kind == "all_reduce" else key
        ring = _constants_of(part, kind, key, runtime)
        if kind == "all_reduce":
            kernels, ring = ring, _constants_of(part, "collectives", "all_reduce", "nccl")
        size = numbers["bytes"]
        gpus = numbers.get("gpus", np.full_like(size, 2.0))
        if gpus.max() > part.beyond[0] and not np.isfinite(part.beyond[1]):
            raise NoModel(f"gpus is {gpus.max():g}: {part.id} joins {part.beyond[0]:g} and names no wire between nodes")
        form = np.array(collective.form_of(part.link, part.wire, runtime, kernels, ring, part.beyond))
        return _answers(collective.collective_rows, len(size), code, gpus, size, form)

    return model


def _stream(kind: str, fact: str, sides: tuple[str, str], scale: float) -> Model:
    """Model of a kind that moves bytes a row by its ``sides``, as many an element as ``fact`` says, times ``scale``."""

    def model(part: Part, texts: Texts, numbers: Numbers, cold: bool) -> np.ndarray:
        constants = _constants_of(part, kind, texts["op"], runtime_of(texts))
        form = np.array([constants[name] for name in stream.FORMAT])
        size = scale * _choice("op", texts["op"], facts()[fact]) * numbers[sides[0]] * numbers[sides[1]]
        return _answers(stream.stream_rows, len(size), size, _machine(part), form)

    return model


_ALONE = 0.25  # of a unit's share of heads that one head's chunks take at least: its values are blocks of 32 columns
_WRITTEN = 7.0  # arrays as large as the values that chunks write and read: w, u, new values, results, states (twice)


def _recurrence(part: Part, texts: Texts, numbers: Numbers, cold: bool) -> np.ndarray:
    constants = _constants_of(part, "linear_attention", f"{texts['kernel']}.{texts['op']}", runtime_of(texts))
    form = np.array([constants[name] for name in ("start", "share", "state")])
    keys, values = (numbers[f"num_{x}_heads"] * numbers[f"head_{x}_dim"] for x in "kv")
    if "conv" in texts["kernel"]:
        channels = keys
        if texts["op"] == "mamba2":
            channels = numbers["nheads"] * numbers["head_dim"] + 2.0 * numbers["n_groups"] * numbers["d_state"]
        traffic, state = numbers["tokens"] * channels * 4.0, numbers["batch"] * channels
    else:
        state = numbers["batch"] * values * numbers["head_k_dim"]
        traffic = numbers["tokens"] * (keys + values) * 4.0 + state * 8.0
        if "chunk" in texts["kernel"]:  # heads share the units, chunks of a head come one after another
            traffic += (_WRITTEN - 1.0) * numbers["tokens"] * values * 4.0
            waves = np.maximum(numbers["batch"] * numbers["num_v_heads"] / part.units, _ALONE)
            state = waves * np.ceil(numbers["seq_len"] / 64.0)
    return _answers(stream.recurrent_rows, len(traffic), traffic, state, _machine(part), form)


_MODELS: dict[str, Model] = {
    "gemm": _gemm,
    "attention_decode": _decode("attention_decode", 0.0, 0.0),
    "attention_prefill": _prefill("attention_prefill", "kv_dtype", (0.0, 0.0), True),
    "encoder_attention": _prefill("encoder_attention", "attn_dtype", (0.0, 0.0), False),
    "mla_prefill": _prefill("mla_prefill", "kv_dtype", (192.0, 128.0), True),
    "mla_decode": _decode("mla_decode", 576.0, 2176.0),
    "moe": _moe,
    "mla_bmm": _mla_bmm,
    "collectives": _collective("collectives", None),
    "all_reduce": _collective("all_reduce", "all_reduce"),
    "send_recv": _collective("send_recv", "send_recv"),
    "elementwise": _stream("elementwise", "elementwise_passes", ("tokens", "width"), 2.0),
    "quantize": _stream("quantize", "quantise_bytes", ("m", "k"), 1.0),
    "linear_attention": _recurrence,
}
KINDS: dict[str, Kind] = {
    name: Kind(name, _MODELS[name], **row)
    for name, row in load_yaml(Path(__file__).with_name("kinds.yaml").read_bytes()).items()
}
"""Every kind by its name, which is the name of the file that holds such rows."""
