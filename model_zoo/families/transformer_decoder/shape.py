"""What a decoder declares: its sizes, and what each layer is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from model_zoo.families.family import Params
from model_zoo.schema import WorkloadError

MIXERS = {"f": "full", "w": "window", "c": "chunk", "d": "delta", "m": "mamba2", "s": "mamba1", "l": "linear", "n": ""}
"""How a layer mixes tokens, by its letter in `mixers`: attention to the whole context, to a window or a chunk of it; a
gated delta rule, Mamba-2, Mamba-1 or plain linear attention, which keep a state instead; n: not at all."""
FEEDS = {"d": "dense", "e": "experts", "n": ""}
"""What a layer then does to each token, by its letter in `feeds`."""
_MOST_KINDS = 256
CACHED = ("full", "window", "chunk")

DEFAULTS: dict[str, Any] = {
    "kv_heads": 0,  # a list: layer after layer, round and round
    "head_dim": 0,
    "v_dim": 0,  # width of a head's values; 0: as its keys
    "ffn": 0,  # of an expert where there are experts; a list as above, 0 in it: none; 0: four times the width
    "context": 1024,
    "position": "learned",
    "feed_forward": "gelu",
    "norm": "layer",
    "post_norm": "no",  # a norm after each half of a layer as well, before it is added
    "bias": "all",
    "lm_head": "tied",
    "block": "sequential",
    "head_norm": "no",
    "query_gate": "no",  # a second set of queries gates what attention returns
    "sinks": "no",  # a learned score a head that attends to nothing
    "mixers": "f",  # letters of MIXERS, round and round
    "window": 0,  # tokens a layer of letter w looks back
    "chunk": 0,  # tokens of a block that a layer of letter c looks back in
    "feeds": "",  # letters of FEEDS, round and round; empty: experts where there are any
    "experts": 0,
    "top_k": 0,
    "dense_layers": 0,  # first layers that have no experts
    "dense_ffn": 0,  # width of layers without experts among layers with
    "shared_ffn": 0,  # width of the experts that every token passes
    "shared_gate": "no",
    "expert_width": 0,  # width that experts work in; 0: the network's own
    "kv_rank": 0,  # multi-head latent attention: width of what is cached for all heads, beside the rotary part
    "q_rank": 0,
    "rope_dim": 0,
    "index_heads": 0,  # sparse attention: an indexer scores the context and keeps the best
    "index_dim": 0,
    "index_top_k": 0,
    "linear_heads": 0,  # of queries and keys, in layers of letter d
    "linear_value_heads": 0,
    "linear_dim": 0,
    "linear_value_dim": 0,
    "linear_gate_rank": 0,  # decay by channel from a product of this rank (Kimi delta attention); 0: one a head
    "ssm_heads": 0,
    "ssm_dim": 0,  # width of a head; of the whole layer in Mamba-1, which has no heads
    "ssm_state": 0,
    "ssm_groups": 1,
    "ssm_rank": 0,  # of the step's projection in Mamba-1
    "ssm_norm": "no",
    "conv_kernel": 4,
    "guess_layers": 0,  # layers of the checkpoint that guess tokens ahead (multi-token prediction)
    "guesses": None,  # tokens that they guess before each pass, all of which it checks; None: no guessing
    "acceptance": None,  # chance that a guess holds where those before it did
    "quantised": "all",
    "tower_layers": 0,  # an encoder of images before the decoder
    "tower_hidden": 0,
    "tower_heads": 0,
    "tower_ffn": 0,
    "tower_gated": "no",
    "tower_patch": 0,  # values of a patch: pixels of every colour
    "tower_patches": 0,  # of one image
    "tower_window": 0,  # patches that most of its layers look at; 0: all
    "tower_full_layers": 0,  # layers that look at all, where there is a window
    "projector": (),  # widths of the layers between it and the decoder, the first that of what enters
    "image_tokens": 0,  # that an image is in the decoder
    "images": 1,
    "encoder_layers": 0,  # an encoder that every layer of the decoder attends to
    "encoder_heads": 0,
    "encoder_ffn": 0,
    "encoder_tokens": 0,  # 0: the request's own; else frames of audio
    "encoder_channels": 0,  # of audio
}


class Layer(NamedTuple):
    """What one layer is made of; equal ones are copies of one set of operators."""

    mixer: str
    feed: str
    heads: int
    kv_heads: int
    ffn: int


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder, defaults resolved; `p` reads what only one part of it needs."""

    p: Params
    hidden: int
    layers: Mapping[Layer, int]  # how many of each, in the order in which they first appear
    head: int
    value: int
    vocab: int
    positions: int  # rows of a learned table; 0: none
    rotary: bool
    activation: str
    gated: bool
    rms: bool
    bias: str
    lm_head: str
    parallel: bool
    head_norm: str
    experts: int
    top_k: int

    def says(self, key: str) -> bool:
        """Whether a parameter that is yes or no is yes."""
        return self.p.word(key, ("no", "yes")) == "yes"

    @property
    def tags(self) -> dict[Layer, str]:
        """What tells the operators of one kind of layer from another's; nothing where all layers are alike."""
        words = ("", "", "h", "kv", "ffn")
        among = (None, None, 0, 0, 1)  # sizes tell layers of one mixer, or of one feed, apart
        tags: dict[Layer, str] = {}
        for layer in self.layers:
            tag = ""
            for i, of in enumerate(among):
                peers = [other for other in self.layers if of is None or other[of] == layer[of]]
                if layer[i] and len({other[i] for other in peers}) > 1:
                    tag += f"-{words[i]}{layer[i]}"
            tags[layer] = tag
        return tags


def _letters(p: Params, key: str, known: Mapping[str, str], empty: str = "") -> str:
    value = p.text(key) or empty
    if not value or set(value) - set(known):
        words = ", ".join(f"{letter} ({name or 'none'})" for letter, name in known.items())
        raise WorkloadError(f"parameter {key!r} is {value[:60]!r}; letters allowed, one a layer: {words}")
    return value


def _layers(p: Params, hidden: int, experts: int) -> dict[Layer, int]:
    heads, kv_heads = p.sizes("heads", 1, 1, 65536), p.sizes("kv_heads", 1, 0, 65536)
    widths, plain = p.sizes("ffn", 1, 0, 1_048_576), p.whole("dense_ffn", 0, 1_048_576)
    widths = widths if any(widths) else (4 * hidden,)
    mixers, feeds = _letters(p, "mixers", MIXERS), _letters(p, "feeds", FEEDS, "e" if experts else "d")
    if "e" in feeds and not experts:
        raise WorkloadError("parameter 'feeds' has layers with experts; 'experts' and 'top_k' say how many")
    first, layers = p.whole("dense_layers", 0, 4096), Counter[Layer]()
    for i in range(p.whole("layers", 1, 4096)):
        mixer, feed = MIXERS[mixers[i % len(mixers)]], FEEDS[feeds[i % len(feeds)]]
        feed = "dense" if feed and i < first else feed
        own = heads[i % len(heads)]
        kv = kv_heads[i % len(kv_heads)] or own
        if own % kv:
            raise WorkloadError(f"parameter 'kv_heads' is {kv}; it must divide the {own} heads")
        ffn = plain if feed == "dense" and plain else widths[i % len(widths)]
        feed = feed if ffn else ""
        cached = mixer in CACHED
        layer = Layer(mixer, feed, own if mixer else 0, kv if cached else 0, ffn if feed else 0)
        if not mixer and not feed:  # a layer that was pruned whole
            continue
        layers[layer] += 1
    if len(layers) > _MOST_KINDS:
        raise WorkloadError(f"parameter 'layers' has {len(layers)} kinds of layer; at most {_MOST_KINDS} are allowed")
    if not layers:
        raise WorkloadError("parameters 'mixers', 'feeds' and 'ffn' leave no layer that does anything")
    return layers


def read_shape(p: Params) -> Shape:
    """Parameters checked and defaults resolved (0 means: the usual one)."""
    hidden, heads = p.whole("hidden", 1, 1_048_576), p.sizes("heads", 1, 1, 65536)
    head = p.whole("head_dim", 0, 65536)
    if not head and hidden % heads[0]:
        raise WorkloadError(f"parameter 'heads' is {heads[0]}; it must divide the hidden size {hidden}")
    experts, top_k = p.whole("experts", 0, 65536), p.whole("top_k", 0, 65536)
    if bool(experts) != bool(top_k) or top_k > experts:
        raise WorkloadError(f"parameter 'top_k' is {top_k}; between 1 and the {experts} experts are allowed")
    position = p.word("position", ("learned", "rotary", "none"))
    feed_forward = p.word("feed_forward", ("gelu", "relu", "relu2", "gated", "gated-gelu"))
    head = head or hidden // heads[0]
    return Shape(
        p=p,
        hidden=hidden,
        layers=_layers(p, hidden, experts),
        head=head,
        value=p.whole("v_dim", 0, 65536) or head,
        vocab=p.whole("vocab", 1, 2**31),
        positions=p.whole("context", 1, 2**31) if position == "learned" else 0,
        rotary=position == "rotary",
        activation={"gated": "Silu", "relu": "Relu", "relu2": "Relu"}.get(feed_forward, "Gelu"),
        gated=feed_forward.startswith("gated"),
        rms=p.word("norm", ("layer", "rms")) == "rms",
        bias=p.word("bias", ("all", "feed-forward", "attention", "qkv", "none")),
        lm_head=p.word("lm_head", ("tied", "own", "own-bias")),
        parallel=p.word("block", ("sequential", "parallel")) == "parallel",
        head_norm=p.word("head_norm", ("no", "rms", "rms-full")),
        experts=experts,
        top_k=top_k,
    )
