"""What a decoder declares: its sizes, and what each layer is made of."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from model_zoo.families.family import Params
from model_zoo.schema import WorkloadError

MIXERS = {"f": "full", "w": "window", "c": "chunk", "d": "delta", "m": "mamba2", "s": "mamba1", "l": "linear", "n": ""}
"""How a layer mixes tokens, by its letter in `mixers`: attention to the whole context, to a window or a chunk of it; a
gated delta rule, Mamba-2, Mamba-1 or plain linear attention, which keep a state instead; n: not at all."""
FEEDS = {"d": "dense", "e": "experts", "n": ""}
"""What a layer then does to each token, by its letter in `feeds`."""
_MOST_KINDS = 256
CACHED = ("full", "window", "chunk")


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
                peers = [peer for peer in self.layers if of is None or peer[of] == layer[of]]
                if layer[i] and len({peer[i] for peer in peers}) > 1:
                    tag += f"-{words[i]}{layer[i]}"
            tags[layer] = tag
        return tags


def _letters(p: Params, key: str, names: Mapping[str, str], empty: str = "") -> str:
    value = p.text(key) or empty
    if not value or set(value) - set(names):
        words = ", ".join(f"{letter} ({name or 'none'})" for letter, name in names.items())
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
        q_heads = heads[i % len(heads)]
        kv = kv_heads[i % len(kv_heads)] or q_heads
        if q_heads % kv:
            raise WorkloadError(f"parameter 'kv_heads' is {kv}; it must divide the {q_heads} heads")
        ffn = plain if feed == "dense" and plain else widths[i % len(widths)]
        feed = feed if ffn else ""
        cached = mixer in CACHED
        layer = Layer(mixer, feed, q_heads if mixer else 0, kv if cached else 0, ffn if feed else 0)
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
