"""What stands before a decoder: an encoder of images whose result enters among the tokens, or one it attends to."""

from model_zoo.families.blocks import gather
from model_zoo.families.transformer_decoder.block import Block, View
from model_zoo.families.transformer_decoder.shape import Shape
from model_zoo.ops import ZERO, Dim, Op, dim
from model_zoo.schema import WorkloadError


def _layer(block: Block, heads: int, head: int, ffn: int, kv_len: Dim, source: str, *, gate: str, bias: bool) -> None:
    """One layer of an encoder without a mask: norms before each half."""
    view, hidden = block.view, block.hidden
    inner, products = heads * head, dim(heads, "b")
    norm = block.norm("norm1", source)
    block.group = "encoder-attention"
    block.linear("qkv", hidden, 3 * inner, norm, bias=bias)
    block.dot_attention("", (products, view.positions, kv_len, Dim(head)), "qkv", reads=view.tokens * (3 * inner))
    block.linear("attention-out", inner, hidden, "context", bias=bias, shard="k")
    block.residual("residual1", "attention-out", source)
    norm = block.norm("norm2", "residual1")
    block.group = "encoder-feed-forward"
    names = ("gate-up", "act", "fc2", "gate") if gate else ("fc1", "act", "fc2")
    block.feed(names, gate or "Gelu", hidden, ffn, norm, bias=bias)
    block.residual("residual2", "fc2", "residual1")


def image_tower(shape: Shape) -> tuple[list[Op], int]:
    """Operators of the images of a request and the tokens they become; none without a tower."""
    p = shape.p
    layers, images = p.whole("tower_layers", 0, 4096), p.whole("images", 0, 4096)
    if not layers or not images:
        return [], 0
    hidden, heads = p.whole("tower_hidden", 1, 1_048_576), p.whole("tower_heads", 1, 65536)
    if hidden % heads:
        raise WorkloadError(f"parameter 'tower_heads' is {heads}; it must divide the tower_hidden {hidden}")
    patches, ffn = p.whole("tower_patches", 1, 2**24), p.whole("tower_ffn", 0, 1_048_576) or 4 * hidden
    gate = "Silu" if shape.says("tower_gated") else ""
    view = View(dim(patches * images, "b"), Dim(patches * images), Dim(patches))
    begin = Block(hidden, False, view, "vision")
    last = begin.linear("image-patch", p.whole("tower_patch", 1, 2**24), hidden, bias=True)
    last = begin.vector("image-position", "Add", hidden, last, stored=float(patches * hidden), shard="none")
    ops = begin.ops
    window, full = p.whole("tower_window", 0, patches), p.whole("tower_full_layers", 0, layers)
    full = full if window else layers
    for count, keys, tag in ((full, patches, "-image"), (layers - full, window, "-image-window")):
        if count:
            block = Block(hidden, bool(gate), view, "vision")
            # a query's keys are of its own image, so the square is of patches by patches
            _layer(block, heads, hidden // heads, ffn, Dim(keys), last, gate=gate, bias=True)
            ops = [*ops, *block.copies(tag, count)]
            last = ops[-1].name
    tokens = p.whole("image_tokens", 1, 2**24)
    widths = p.sizes("projector") or (hidden,)
    end = Block(hidden, False, View(dim(tokens * images, "b"), Dim(tokens * images)), "vision")
    for i, (k, n) in enumerate(zip(widths, (*widths[1:], shape.hidden), strict=True), 1):
        last = end.linear(f"image-project{i}", k, n, last, bias=True)
        if i < len(widths):
            last = end.vector(f"image-gelu{i}", "Gelu", n, last)
    return [*ops, *end.ops], tokens * images


class Encoder:
    """What a decoder attends to beside its own tokens: `seen` of it in the pass that runs the encoder, and how wide."""

    def __init__(self, shape: Shape) -> None:
        p = shape.p
        self.layers, self.tokens = p.whole("encoder_layers", 1, 4096), p.whole("encoder_tokens", 0, 2**24)
        self.channels = p.whole("encoder_channels", 0, 65536)
        self.heads = p.whole("encoder_heads", 0, 65536) or max(layer.heads for layer in shape.layers)
        self.ffn = p.whole("encoder_ffn", 0, 1_048_576) or max(layer.ffn for layer in shape.layers)
        if self.channels and not self.tokens:
            raise WorkloadError("parameter 'encoder_channels' is for audio, whose length is 'encoder_tokens'")
        self.seen = Dim(self.tokens) if self.tokens else dim(1, "c")

    @property
    def view(self) -> View:
        """Its own tokens: frames of audio, or the request's input."""
        if self.tokens:
            return View(dim(self.tokens, "b"), Dim(self.tokens), self.seen)
        return View()


def source_encoder(shape: Shape, encoder: Encoder) -> list[Op]:
    """Operators of the encoder, and of the keys and values that every layer of the decoder attends to."""
    view, hidden = encoder.view, shape.hidden
    begin = Block(hidden, shape.rms, view, "encoder")
    if encoder.channels:  # two convolutions over frames, the second of which halves them, and positions
        for i, (width, stride) in enumerate(((encoder.channels, 2), (hidden, 1)), 1):
            begin.rows = view.tokens * stride
            last = begin.linear(f"audio-conv{i}", 3 * width, hidden, *(f"audio-gelu{i - 1}",) * (i > 1), bias=True)
            begin.vector(f"audio-gelu{i}", "Gelu", hidden, last)
        begin.rows = view.tokens
        last = begin.vector("audio-position", "Add", hidden, "audio-gelu2", stored=float(encoder.tokens * hidden))
        ops = begin.ops
    else:  # the decoder's table of words
        ops = [gather("source-embedding", view.tokens, shape.vocab, hidden, group="encoder", stored=0.0)]
        last = "source-embedding"
    block, gate = Block(hidden, shape.rms, view), shape.activation if shape.gated else ""
    _layer(block, encoder.heads, shape.head, encoder.ffn, encoder.seen, last, gate=gate, bias=shape.bias == "all")
    ops = [*ops, *block.copies("-encoder", encoder.layers)]
    end = Block(hidden, shape.rms, view, "encoder")
    last = end.norm("final-norm-encoder", ops[-1].name)
    end.group = "cross-attention"
    width = encoder.heads * shape.head
    for layer, count in shape.layers.items():
        name = f"cross-kv{shape.tags[layer]}"
        state = {"writes": ZERO, "state_writes": view.tokens * (2 * width)}
        end.linear(name, hidden, 2 * width, last, bias=shape.bias == "all", layers=count, **state)
    return [*ops, *end.ops]


def cross_attention(shape: Shape, encoder: Encoder, block: Block, source: str, cache: str) -> str:
    """Attention of the decoder's tokens to what the encoder left; the name of what it adds to the stream."""
    block.group = "cross-attention"
    heads, head, bias = encoder.heads, shape.head, shape.bias == "all"
    width, products, tokens = heads * head, dim(heads, "b"), block.rows
    kv_len, state = encoder.seen, dim(width, "b") * encoder.seen
    block.linear("cross-q", shape.hidden, width, source, bias=bias)
    extents = products, block.view.positions, kv_len, Dim(head)
    block.dot_attention("cross-", extents, "cross-q", cache, reads=tokens * width, kv=state)
    return block.linear("cross-out", width, shape.hidden, "cross-context", bias=bias, shard="k")
