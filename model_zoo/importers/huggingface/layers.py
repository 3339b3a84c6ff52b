"""Which kind each layer of a configuration is: patterns written as lists, periods, offsets and letters."""

from typing import Any

from model_zoo.importers.huggingface.keys import NAMES, Keys
from model_zoo.schema import WorkloadError


def shortest(letters: str, layers: int) -> str:
    """The shortest pattern that gives the same letters to so many layers, round and round."""
    letters = (letters * (layers // max(1, len(letters)) + 1))[:layers]
    for size in range(1, len(letters) + 1):
        period = letters[:size]
        if (period * (len(letters) // size + 1))[: len(letters)] == letters:
            return period
    return letters


def _by_name(keys: Keys, entries: Any, layers: int, codes: dict[str, str]) -> str:
    if len(entries) < layers:
        raise keys.refuse(entries, f"one entry for each of the {layers} layers is needed")
    for entry in entries[:layers]:
        if str(entry) not in codes:
            raise WorkloadError(f"key {keys.last!r} has {str(entry)[:60]!r}; known kinds of layer: {', '.join(codes)}")
    return "".join(codes[str(entry)] for entry in entries[:layers])


def mixers_of(keys: Keys, layers: int, kind: str, default: str) -> tuple[str, str]:
    """Letters of the layers' mixers, and the key that says so."""
    keys.raw(*NAMES["patterns"])
    if kind in ("mamba", "falcon_mamba", "mamba2"):
        return "m" if kind == "mamba2" else "s", "model_type"
    state = "s" if kind == "jamba" else "m"
    return _by_list(keys, layers, kind, state) or _periodic(keys, kind, state) or _windows(keys, layers, default)


def _by_list(keys: Keys, layers: int, kind: str, state: str) -> tuple[str, str] | None:
    """Letters where a list has an entry for each layer."""
    names = NAMES["mixers"] | {"mamba": state, "linear_attention": "l" if kind.startswith("minimax") else "d"}
    for key, codes in NAMES["lists"].items():
        if entries := keys.entries(key):
            return _by_name(keys, entries, layers, codes or names), keys.last
    if entries := keys.entries("attn_layer_indices"):
        return "".join("f" if i in entries else state for i in range(layers)), keys.last
    if (linear := keys.under("linear_attn_config")) is not None:
        full = linear.entries("full_attn_layers")
        if not full:
            raise WorkloadError("key 'linear_attn_config.full_attn_layers' is missing; it lists the layers from 1 on")
        return "".join("f" if i in full else "d" for i in range(1, layers + 1)), "linear_attn_config"
    if kind.startswith("llama4") and (entries := keys.entries("no_rope_layers")):  # what rotates is chunked
        return _by_name(keys, entries, layers, {"1": "c", "0": "f"}), keys.last
    return None


def _periodic(keys: Keys, kind: str, state: str) -> tuple[str, str] | None:
    """Letters where one layer in so many is different."""
    if period := keys.whole("full_attention_interval", default=0, low=1, high=4096):
        return ("d" * (period - 1) + "f"), keys.last
    if period := keys.whole("attn_layer_period", default=0, low=1, high=4096):
        offset = keys.whole("attn_layer_offset", default=0, high=period - 1)
        return "".join("f" if i == offset else state for i in range(period)), "attn_layer_period"
    return ("cccf", "no_rope_layer_interval") if kind.startswith("llama4") else None


def _windows(keys: Keys, layers: int, default: str) -> tuple[str, str]:
    window = keys.raw("sliding_window", "sliding_window_size")
    key = keys.last
    active = keys.flag("use_sliding_window", default=True)
    period = keys.whole("sliding_window_pattern", "_sliding_window_pattern", default=0, low=1, high=4096)
    first = keys.raw("max_window_layers")
    if window is None or not active:
        return "f", "sliding_window"
    if period:
        return "w" * (period - 1) + "f", keys.last or key
    if default:
        return default, "model_type"
    if isinstance(first, int):  # Qwen2: the first layers see everything
        return "".join("f" if i < first else "w" for i in range(layers)), "max_window_layers"
    return "w", key


def feeds_of(keys: Keys, layers: int, kind: str, experts: int) -> tuple[str, int, str]:
    """Letters of what follows in each layer, dense layers that come first, and the key that says so."""
    if not experts:
        return "", 0, ""
    first = keys.whole(
        "first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", "dense_layers", default=0, high=4096
    )
    key = keys.last
    if entries := keys.entries("mlp_layer_types", "moe_layers_enum"):
        return _by_name(keys, entries, layers, {"dense": "d", "sparse": "e", "moe": "e"}), 0, keys.last
    freq = keys.raw("moe_layer_freq", "moe_layer_interval", "interleave_moe_layer_step", "decoder_sparse_step")
    step = keys.last
    if isinstance(freq, list):
        return _by_name(keys, freq, layers, {"0": "d", "1": "e"}), 0, step
    dense = keys.entries("mlp_only_layers")
    if entries := keys.entries("moe_layers"):
        return "".join("e" if i in entries else "d" for i in range(layers)), 0, keys.last
    if period := keys.whole("expert_layer_period", default=0, low=1, high=4096):
        offset = keys.whole("expert_layer_offset", default=0, high=period - 1)
        return "".join("e" if i == offset else "d" for i in range(period)), first, "expert_layer_period"
    if freq is not None and (not isinstance(freq, int) or isinstance(freq, bool) or freq < 1):
        keys.last = step
        raise keys.refuse(freq, "a whole number from 1 on, or one entry a layer, is allowed")
    period = int(freq or 1)
    letters = "".join("d" if i in dense or (i + 1) % period else "e" for i in range(layers))
    return letters, first, step if period > 1 else key or "mlp_only_layers"
