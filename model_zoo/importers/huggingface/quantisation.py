"""Formats of a checkpoint's weights, from what its configuration says of their quantisation."""

import re
from typing import Any, NamedTuple

from model_zoo.importers.huggingface.keys import NAMES, Keys
from model_zoo.schema import WorkloadError

_METHODS = (*NAMES["methods"], "modelopt", "compressed-tensors")


class Format(NamedTuple):
    """Format the weights are in, which of them are, and what else is to be known."""

    precision: str
    quantised: str
    key: str
    notes: tuple[str, ...] = ()


def checkpoint_format(config: Keys, text: Keys, beside: Keys | None) -> Format:
    """What the weights are stored in; `beside` is what a file of its own (`hf_quant_config.json`) says.

    WorkloadError in one sentence where two places disagree, or the method is not known.
    """
    plain = NAMES["floats"].get(text.text("torch_dtype", "dtype") or config.text("torch_dtype", "dtype"), "bf16")
    formats = []
    for place in (config, text):
        for name in ("quantization_config", "compression_config"):
            under = place.under(name)
            if under is not None and under.data:
                formats.append(_of(under))
    if beside is not None and (section := beside.under("quantization")) is not None:
        formats.append(_modelopt(section, section.text("quant_algo"), section.entries("exclude_modules")))
    for format in formats[1:]:
        if (format.precision, format.quantised) != formats[0][:2] and format.precision != formats[0].precision:
            raise WorkloadError(
                f"key {format.key!r} says {format.precision} and {formats[0].key!r} says {formats[0].precision}: a "
                "checkpoint's weights are in one format"
            )
    return formats[0] if formats else Format(plain, "all", "torch_dtype")


def _of(keys: Keys) -> Format:
    method = keys.text("quant_method", default="modelopt" if "quant_algo" in keys else "")
    place = keys.last or keys.prefix + "quant_method"
    if method not in _METHODS:
        raise WorkloadError(f"key {place!r} is {method[:60]!r}; known methods: {', '.join(_METHODS)}")
    modules = [*keys.entries("modules_to_not_convert"), *keys.entries("ignore", "ignored_layers")]
    if method == "compressed-tensors":
        return _groups(keys, modules)
    if method == "modelopt":
        algorithm = keys.text("quant_algo")
        return _modelopt(keys, algorithm, modules or keys.entries("exclude_modules"))
    bits = keys.whole("bits", "w_bit", "weight_bits", default=0, high=64)
    key, width = keys.last, NAMES["methods"][method]
    if method == "bitsandbytes":
        four, eight = keys.flag("load_in_4bit", "_load_in_4bit"), keys.flag("load_in_8bit", "_load_in_8bit")
        if four == eight:
            raise WorkloadError(
                f"keys {keys.prefix}load_in_4bit and {keys.prefix}load_in_8bit are both {str(four).lower()}: one of "
                "the two is a format"
            )
        return Format("w4a16" if four else "int8", "linear", place)
    if method in ("awq", "gptq", "auto-round"):
        if bits not in (0, 4, 8):
            raise WorkloadError(f"key {key!r} is {bits}; 4 or 8 bits are known for {method}")
        return Format(f"w{bits or width}a16", _scope(modules), place)
    if bits not in (0, width):
        raise WorkloadError(f"key {key!r} is {bits}, and {place!r} is {method!r}, which has {width}: one is wrong")
    if method == "mxfp4":
        return Format("fp4", "experts" if any("attn" in str(module) for module in modules) else _scope(modules), place)
    block = keys.entries("weight_block_size")
    per = f"blocks of {'x'.join(map(str, block))}" if block else "one scale a tensor"
    return Format("fp8", _scope(modules), place, (f"FP8 weights with {per}.",))


def _modelopt(keys: Keys, algorithm: str, modules: Any) -> Format:
    place = keys.prefix + "quant_algo"
    formats = {word: format for format, words in NAMES["algorithms"].items() for word in words}
    result = next((format for word, format in formats.items() if word in algorithm), None)
    if result is None and algorithm:
        raise WorkloadError(f"key {place!r} is {algorithm[:60]!r}; known: {', '.join(formats)}")
    cache = keys.text("kv_cache_quant_algo")
    scheme = keys.under("kv_cache_scheme")
    if scheme is not None and scheme.whole("num_bits", default=0, high=64) == 8:
        cache = cache or "fp8"
    notes = (f"Its card keeps the KV cache in {cache.upper()}: set kv_format.",) if cache else ()
    if algorithm == "mixed_precision":
        notes = (*notes, "Layers in formats of their own (mixed_precision) are counted as FP8.")
    return Format(result, _scope(modules), place, notes) if result else Format("bf16", "all", place, notes)


def _groups(keys: Keys, modules: Any) -> Format:
    groups = keys.under("config_groups")
    if groups is None or not groups.data:
        raise WorkloadError(
            f"key '{keys.prefix}config_groups' is missing; compressed-tensors says there what is stored"
        )
    formats: dict[str, None] = {}
    for name in groups.data:
        group = groups.under(name)
        weights = group.under("weights") if group is not None else None
        if group is None or weights is None:
            continue
        bits, kind = weights.whole("num_bits", default=8, high=64), weights.text("type", default="int")
        key = weights.prefix + "num_bits"
        entering = group.under("input_activations")
        if kind == "float":
            labels = {8: "fp8", 4: "fp4"}
        else:
            labels = {4: "w4a16", 8: "w8a16" if entering is None else "int8"}
        if bits not in labels:
            raise WorkloadError(f"key {key!r} is {bits} for {kind} weights; known: {', '.join(map(str, labels))}")
        formats[labels[bits]] = None
    if not formats:
        raise WorkloadError(f"key '{keys.prefix}config_groups' has no group with weights")
    narrow = min(formats, key=lambda label: int(re.findall(r"\d+", label)[0]))
    notes = (f"Groups in {' and '.join(formats)} are counted in {narrow}.",) if len(formats) > 1 else ()
    return Format(narrow, _scope(modules), keys.prefix + "config_groups", notes)


def _scope(modules: Any) -> str:
    """Which products a checkpoint quantises, from the names it leaves out."""
    names = [str(module).lower() for module in modules]
    attention = sum(
        "attn" in name or "attention" in name or re.search(r"\b[qkvo]_proj", name) is not None for name in names
    )
    dense = any("shared_expert" in name for name in names)
    if attention and dense:
        return "experts"
    return "feed-forward" if attention else "linear"
