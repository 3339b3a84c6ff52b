"""A language model's configuration as parameters of the family transformer-decoder, each with the key it came from."""

import difflib
from functools import cache
from pathlib import Path
from typing import Any

from entries.files import read_plain
from model_zoo.importers.huggingface.keys import NAMES, Keys
from model_zoo.importers.huggingface.layers import feeds_of, mixers_of, shortest
from model_zoo.schema import WorkloadError

Fields = dict[str, tuple[Any, str]]
"""Parameters: value, and the key that says so."""

WIDEST = 1_048_576  # elements of a layer


class _Reader:
    """A configuration of an architecture `kind`, and the parameters found in it so far."""

    def __init__(self, keys: Keys, kind: str) -> None:
        self.keys, self.kind = keys, kind
        self.fields: Fields = {}

    def set(self, name: str, value: Any, key: str = "") -> None:
        """A parameter's value, and the key that says so: the last one read where none is given."""
        self.fields[name] = (value, key or self.keys.last or "model_type")

    def take(self, name: str, *keys: str, default: int | None = None, low: int = 1, high: int = 65536) -> int:
        """A parameter that is the whole number under one of those keys."""
        value = self.keys.whole(*keys, default=default, low=low, high=high)
        self.set(name, value)
        return value

    def take_all(self, group: str) -> None:
        """Parameters of one kind of layer, each the whole number under one of its keys."""
        for name, (keys, limits) in NAMES["taken"][group].items():
            self.take(name, *keys, **limits)

    def value(self, name: str) -> Any:
        """A parameter's value so far; empty text where it has none."""
        return self.fields.get(name, ("", ""))[0]


@cache
def _architectures() -> dict[str, dict[str, Any]]:
    return read_plain(Path(__file__).with_name("architectures.yaml"))


def architecture(kind: str) -> dict[str, Any]:
    """What the architecture of that `model_type` says; WorkloadError where it is not known or can't be lowered."""
    table = _architectures()
    if kind not in table:
        near = ", ".join(difflib.get_close_matches(kind[:60], table, 3, 0.4)) or "llama, qwen3_moe, deepseek_v3, t5"
        raise WorkloadError(
            f"key 'model_type' is {kind[:60]!r}, which is not known; of {len(table)} that are, the nearest: {near}"
        )
    entry = dict(table[kind])
    while "of" in entry:
        base = entry.pop("of")
        entry = {**table[base], **entry}
    if "refuse" in entry:
        raise WorkloadError(
            f"key 'model_type' is {kind!r}: what its key {entry['refuse']!r} stands for is not understood"
        )
    return entry


def decoder(keys: Keys, kind: str, outside: Keys) -> tuple[Fields, list[str]]:
    """Parameters of a decoder and notes on what they leave out; `outside` is the level above, which may say the same.

    WorkloadError in one sentence that names the key.
    """
    preset, reader = architecture(kind), _Reader(keys, kind)
    _refuse(keys)
    for name, value in preset.items():
        if name not in ("tied", "encoder", "mixers"):
            reader.set(name, value, "model_type")
    layers = reader.take("layers", *(reversed(NAMES["layers"]) if "encoder" in preset else NAMES["layers"]), high=4096)
    reader.take("hidden", *NAMES["width"], high=WIDEST)
    reader.take("vocab", "vocab_size", "padded_vocab_size", high=2**31)
    _attention(reader)
    _position(reader)
    _feed_forward(reader, layers, preset)
    mixers, mixer_key = mixers_of(keys, layers, kind, preset.get("mixers", ""))
    if pattern := keys.text("hybrid_override_pattern"):
        mixers, feeds = _pattern(keys, pattern, layers)
        reader.set("feeds", shortest(feeds, layers))
    elif set(mixers) <= {"m", "s"} and kind in _BARE:
        reader.set("feeds", "n", "model_type")
    reader.set("mixers", shortest(mixers, layers), mixer_key)
    if kind in ("nemotron-nas", "deci"):
        _blocks(reader, layers)
    if narrow := keys.whole("swa_num_key_value_heads", default=0, low=1, high=65536):  # MiMo: of windowed layers
        wide = reader.value("kv_heads")
        reader.set("kv_heads", [narrow if letter == "w" else wide for letter in mixers[:layers]])
    _mixing(reader, set(mixers))
    where = keys if "tie_word_embeddings" in keys else outside
    tie = where.flag("tie_word_embeddings", default=preset.get("tied") == "yes")
    if reader.value("lm_head") != "own-bias":
        reader.set("lm_head", "tied" if tie else "own", keys.last or "tie_word_embeddings")
    notes = _guessing(reader, outside)
    plain = {"mixers": "f"}
    fields = {name: entry for name, entry in reader.fields.items() if entry[0] not in (0, "", None, plain.get(name))}
    return fields, notes


_BARE = ("mamba", "mamba2", "falcon_mamba")  # no attention and nothing after it


def _refuse(keys: Keys) -> None:
    """What changes the counts and no operator of ours stands for."""
    for name in ("num_kv_shared_layers", "cla_share_factor", "altup_num_inputs", "num_mem_blocks", "moba_chunk_size"):
        value = keys.raw(name)
        if value and not (name == "cla_share_factor" and not keys.data.get("use_cla")):
            raise WorkloadError(f"key {name!r} is {str(value)[:60]}: what it stands for is not understood")
    for name, key in NAMES["same"].items():
        value = keys.raw(name)
        if value is not None and key in keys and value != keys.data[key]:
            raise WorkloadError(f"key {name!r} is {str(value)[:60]} beside {key!r} {keys.data[key]}: not understood")


def _attention(reader: _Reader) -> None:
    keys, kind = reader.keys, reader.kind
    if kind in _BARE:
        reader.set("heads", 1, "model_type")
        return
    heads, width = reader.take("heads", *NAMES["heads"]), reader.value("hidden")
    key = keys.last
    _biases(reader)
    if keys.whole("kv_lora_rank", default=0, low=1, high=65536):
        _latent(reader)
        return
    head = keys.whole("head_dim", "kv_channels", "attention_head_dim", "d_kv", default=0, low=1, high=65536)
    if head:
        reader.set("head_dim", head)
    elif width % heads:
        raise WorkloadError(f"key {key!r} is {heads}; it must divide the {width} of 'hidden_size', or 'head_dim' says")
    if kv := _kv_heads(reader, heads):
        if heads % kv:
            raise WorkloadError(f"key {keys.last!r} is {kv}; it must divide the {heads} heads")
        reader.set("kv_heads", kv)
    v = keys.whole("v_head_dim", default=0, low=1, high=65536)
    if v and v != head:
        reader.set("v_dim", v)
    norm = keys.raw("use_qk_norm", "qk_norm", "qk_layernorm", "add_qk_norm")
    if isinstance(norm, bool) and not kind.startswith("llama4"):  # of Llama 4 it has no scales
        key = keys.last
        full = "layer" in keys.text("qk_norm_type") or reader.value("head_norm") == "rms-full"
        reader.set("head_norm", ("rms-full" if full else "rms") if norm else "no", key)


def _kv_heads(reader: _Reader, heads: int) -> int:
    """Heads of keys and values; 0 where nothing says that they are fewer."""
    keys = reader.keys
    if reader.kind == "falcon":
        if keys.flag("parallel_attn", default=True):
            reader.set("block", "parallel", "parallel_attn")
        if keys.flag("new_decoder_architecture"):
            return keys.whole("num_kv_heads", "n_head_kv", default=heads, low=1, high=65536)
        return 1 if keys.flag("multi_query", default=True) else heads
    if config := keys.under("attn_config"):
        return config.whole("kv_n_heads", default=0, low=1, high=65536)
    if keys.flag("multi_query") or keys.flag("multi_query_attention"):
        return keys.whole("multi_query_group_num", default=1, low=1, high=65536)
    return keys.whole("num_key_value_heads", "num_kv_heads", "n_kv_heads", default=0, low=1, high=65536)


def _latent(reader: _Reader) -> None:
    reader.take_all("latent")
    reader.keys.raw("num_key_value_heads")
    if reader.keys.whole("index_topk", default=0, low=1, high=2**31):
        reader.take_all("index")


def _biases(reader: _Reader) -> None:
    """Which products have a bias: the architecture's, or what the configuration says of attention and of the rest."""
    keys, kind = reader.keys, reader.kind
    if reader.value("bias") in ("all", "feed-forward", "qkv"):
        keys.raw(*NAMES["biases"])
        return
    biases = keys.raw(*NAMES["biases"])
    attention = bool(biases) if isinstance(biases, bool | int) else False
    where = keys.last
    mlp = keys.flag("mlp_bias", "use_mlp_bias", "ffn_bias")
    only_keys = kind in ("chatglm", "internlm2") or (kind.startswith("glm4") and kind != "glm4_moe_lite")
    word = "all" if attention and mlp else "feed-forward" if mlp else "attention" if attention else "none"
    reader.set("bias", "qkv" if word == "attention" and only_keys else word, where or "model_type")


def _position(reader: _Reader) -> None:
    keys, kind = reader.keys, reader.kind
    if not reader.value("position"):
        alibi = keys.flag("alibi", "use_alibi")
        reader.set("position", "none" if alibi or kind in _BARE else "rotary", "model_type")
    if reader.value("position") == "learned":
        places = keys.whole(*NAMES["positions"], low=1, high=2**31)
        reader.set("context", places + 2 * (kind in ("opt", "bart", "mbart")))
    if not reader.value("norm"):
        reader.set("norm", "rms" if keys.flag("rmsnorm", default=True) else "layer", "model_type")
    if kind in ("gpt_neox", "stablelm") and keys.flag("use_parallel_residual", default=kind == "gpt_neox"):
        reader.set("block", "parallel", "use_parallel_residual")


def _feed_forward(reader: _Reader, layers: int, preset: dict[str, Any]) -> None:
    keys, kind = reader.keys, reader.kind
    act, form = keys.text(*NAMES["activations"]), preset.get("feed_forward", "gated")
    if form == "gated" and act.startswith(("gelu", "gated-gelu")):
        form = "gated-gelu"
    if act in ("relu2", "relu_squared", "squared_relu"):
        form = "relu2"
    if kind in ("t5", "mt5", "umt5") and act.startswith("gated"):
        form = "gated-gelu"
    reader.set("feed_forward", form, keys.last if act else "model_type")
    config = keys.under("ffn_config")
    experts_keys = config or keys
    experts = experts_keys.whole(*NAMES["experts"], default=0, low=0, high=65536)
    experts, said_experts = (experts if experts > 1 else 0), experts_keys.last
    dense = 0 if kind in _BARE else keys.whole(*NAMES["ffn"], default=0, low=1, high=WIDEST)
    dense_key = keys.last
    if kind == "qwen":  # the width of both sides of its gate together
        dense //= 2
    if not experts:
        if not dense and config is not None:
            dense = config.whole("ffn_hidden_size", default=0, low=1, high=WIDEST)
        if kind == "mpt":
            dense = keys.whole("expansion_ratio", default=4, low=1, high=64) * reader.value("hidden")
        reader.set("ffn", dense, dense_key)
        keys.raw(*NAMES["top_k"])
        return
    reader.set("experts", experts, said_experts)
    top = experts_keys.whole(*NAMES["top_k"], low=1, high=65536)
    if top > experts:
        raise WorkloadError(f"key {experts_keys.last!r} is {top}; between 1 and the {experts} experts are allowed")
    reader.set("top_k", top, experts_keys.last)
    width = experts_keys.whole(*NAMES["expert_ffn"], "ffn_hidden_size", default=0, low=1, high=WIDEST)
    reader.set("ffn", width or dense, experts_keys.last if width else dense_key)
    feeds, first, where = feeds_of(keys, layers, kind, experts)
    reader.set("feeds", "" if set(feeds) == {"e"} else shortest(feeds, layers), where)
    reader.set("dense_layers", first, where)
    if first or "d" in feeds:
        reader.set("dense_ffn", keys.whole(*NAMES["dense_ffn"], default=dense, high=WIDEST), keys.last or dense_key)
    _shared_experts(reader, width or dense)
    reader.take("expert_width", "moe_latent_size", default=0, high=WIDEST)


def _shared_experts(reader: _Reader, width: int) -> None:
    """Width of the experts that every token passes."""
    keys, kind = reader.keys, reader.kind
    wide = keys.whole(*NAMES["shared_ffn"], default=0, high=WIDEST)
    key = keys.last
    count = keys.raw("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
    count = count[0] if isinstance(count, list) and count else count
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= 65536):
        raise keys.refuse(count, "a whole number from 0 to 65536 is allowed")
    if wide:
        reader.set("shared_ffn", wide * (count if kind.startswith(("nemotron", "bailing")) and count else 1), key)
    elif count:
        reader.set("shared_ffn", count * width)
    elif kind.startswith("llama4"):
        reader.set("shared_ffn", width, "model_type")


def _pattern(keys: Keys, pattern: str, layers: int) -> tuple[str, str]:
    """Letters of Nemotron-H: M a Mamba-2 layer, * attention, - a feed-forward, E experts."""
    keys.last = "hybrid_override_pattern"
    if len(pattern) != layers or set(pattern) - set("m*-e"):
        raise keys.refuse(pattern, f"one of M, *, - and E for each of the {layers} layers is allowed")
    mixers = {"m": "m", "*": "f", "-": "n", "e": "n"}
    feeds = {"m": "n", "*": "n", "-": "d", "e": "e"}
    return "".join(mixers[letter] for letter in pattern), "".join(feeds[letter] for letter in pattern)


def _blocks(reader: _Reader, layers: int) -> None:
    """Nemotron-NAS: each layer with as many key heads, and as wide a feed-forward, as a search left it."""
    keys = reader.keys
    entries = keys.entries("block_configs")
    if len(entries) != layers:
        raise keys.refuse(f"{len(entries)} entries", f"one entry for each of the {layers} layers is needed")
    heads, width = reader.value("heads"), reader.value("hidden")
    mixers, kv_heads, ffn = "", [], []
    for i, entry in enumerate(entries):
        block = Keys(entry if isinstance(entry, dict) else {}, f"block_configs[{i}].")
        attention, feed = (block.under(name) or Keys({}) for name in ("attention", "ffn"))
        skip = attention.flag("no_op") or attention.flag("replace_with_linear")
        group = attention.whole("n_heads_in_group", default=1, low=1, high=heads)
        mixers += "n" if skip else "f"
        kv_heads.append(max(1, heads // group))
        wide = 2 * feed.number("ffn_mult", default=0.0, low=0, high=1024) * width / 3
        wide = feed.whole("intermediate_size", default=-(-int(wide) // 256) * 256, high=WIDEST)
        ffn.append(0 if feed.flag("no_op") else wide)
    for name, value in (("mixers", shortest(mixers, layers)), ("kv_heads", kv_heads), ("ffn", ffn)):
        reader.set(name, value, "block_configs")


def _mixing(reader: _Reader, letters: set[str]) -> None:
    """What layers of those letters need beside heads."""
    keys, kind, width = reader.keys, reader.kind, reader.value("hidden")
    if "w" in letters:
        reader.take("window", "sliding_window", "sliding_window_size", high=2**31)
    if "c" in letters:
        reader.set("chunk", keys.whole("attention_chunk_size", default=8192, low=1, high=2**31), "attention_chunk_size")
    if "d" in letters:
        _delta(reader)
    if "m" in letters:
        reader.take("ssm_groups", "n_groups", "mamba_n_groups", "mamba_ngroups", default=1)
        inner = int(keys.number("mamba_expand", "expand", default=2.0, low=0.01, high=64) * width)
        extra = (("head_dim",), ("num_heads",)) if kind == "mamba2" else ((), ())
        head = reader.take("ssm_dim", "mamba_head_dim", "mamba_d_head", "mamba_headdim", *extra[0], default=64)
        names = "mamba_num_heads", "mamba_n_heads", "n_mamba_heads", *extra[1]
        reader.set(
            "ssm_heads", keys.whole(*names, default=inner // head, low=1, high=65536), keys.last or "mamba_expand"
        )
    if "s" in letters:
        inner = keys.whole("intermediate_size", default=0, low=1) if kind != "jamba" else 0
        factor = keys.number("mamba_expand", "expand", default=2.0, low=0.01, high=64)
        reader.set("ssm_dim", inner or int(factor * width), keys.last or "expand")
        rank = keys.raw("mamba_dt_rank", "time_step_rank")
        reader.set("ssm_rank", rank if isinstance(rank, int) and not isinstance(rank, bool) else -(-width // 16))
    if letters & {"m", "s"}:
        reader.take("ssm_state", *NAMES["ssm_state"], default=128 if "m" in letters else 16)
        reader.take("conv_kernel", "conv_kernel", "mamba_d_conv", default=4, high=1024)


def _delta(reader: _Reader) -> None:
    config = reader.keys.under("linear_attn_config")
    if config is not None:  # Kimi delta attention
        heads, width = config.whole("num_heads", low=1, high=65536), config.whole("head_dim", low=1, high=65536)
        sizes = {"linear_heads": heads, "linear_value_heads": heads, "linear_dim": width, "linear_value_dim": width}
        taps = config.whole("short_conv_kernel_size", default=4, low=1, high=1024)
        sizes |= {"linear_gate_rank": width, "conv_kernel": taps}
        for name, value in sizes.items():
            reader.set(name, value, "linear_attn_config")
        return
    reader.take_all("delta")


def _guessing(reader: _Reader, outside: Keys) -> list[str]:
    """Layers that guess tokens ahead, and what is said of them."""
    for level in (reader.keys, outside):
        if layers := level.whole(*NAMES["guess_layers"], default=0, high=4096):
            reader.set("guess_layers", layers, level.last)
            layers_text = "a layer that guesses" if layers == 1 else f"{layers} layers that guess"
            return [f"The checkpoint also holds {layers_text} tokens ahead (multi-token prediction), run where asked."]
    return []
