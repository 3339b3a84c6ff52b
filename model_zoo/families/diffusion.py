"""Latent diffusion as of Stable Diffusion XL: two encoders of words, a U-Net step after step, a decoder of pixels.

Every step runs the U-Net on a pair, with the words and without (classifier-free guidance); the encoders and the decoder
run once. Residual blocks and attention are those of the public model definition (diffusers).
"""

from dataclasses import replace
from typing import Any

from model_zoo.families.blocks import ROW, Block, forward
from model_zoo.families.family import Params
from model_zoo.families.images import Net, Tensor
from model_zoo.ops import ONE, Dim, Graph, Op, dim

_WORDS = 77  # tokens of a prompt
_ENCODERS = ((12, 768, 12, 0), (32, 1280, 20, 1280))  # layers, width, heads and projection: CLIP L and OpenCLIP bigG
_VOCAB = 49408
_PAIR = 2  # with the words and without


class _UNet(Net):
    """A convolutional network with normalised residual blocks, a signal of time in each, and attention between."""

    def __init__(self, channels: int, side: int, pair: int, time: int, words: int) -> None:
        super().__init__(channels, side, side, pair)
        self.time, self.words = time, words

    def group_norm(self, name: str, x: Tensor, act: str | None = "Silu") -> Tensor:
        """Normalised in groups of channels, and its activation."""
        return self.normalise(name, x, act, kind="LayerNormalization")

    def residual(self, name: str, x: Tensor, width: int) -> Tensor:
        """Two convolutions behind norms, time added between them, around a shortcut."""
        y = self.group_norm(f"{name}-norm1", x)
        y = self.conv(f"{name}-conv1", y, width, 3, act=None, normalised=False)
        if self.time:
            time = self.linear(f"{name}-time", self.time, width, "time", rows=ROW * x.frames)
            y = replace(y, name=self.vector(f"{name}-timed", "Add", y.elements, y.name, time))
        y = self.group_norm(f"{name}-norm2", y)
        y = self.conv(f"{name}-conv2", y, width, 3, act=None, normalised=False)
        if x.channels != width:
            x = self.conv(f"{name}-shortcut", x, width, 1, act=None, normalised=False)
        return self.add(f"{name}-add", y, x)

    def attend(self, name: str, x: Tensor, depth: int, head: int) -> Tensor:
        """`depth` layers over the pixels of each image: attention to them, to the words, and a gated feed-forward."""
        width, y = x.channels, self.group_norm(f"{name}-norm", x, None)
        block = Block(dim(x.pixels, "b"), self.group, depth)
        source = block.linear(f"{name}-in", width, width, y.name, layers=1)
        source = _attention(block, f"{name}-self", source, x, head, x.pixels // x.frames, width)
        source = _attention(block, f"{name}-cross", source, x, head, _WORDS, self.words)
        names, norm = [f"{name}-{part}" for part in ("up", "gelu", "down", "gate")], f"{name}-norm3"
        down = block.feed(names, "Gelu", width, 4 * width, _layer_norm(block, norm, width, source))
        last = block.vector(f"{name}-sum3", "Add", width, down, source, operands=2)
        out = replace(x, name=block.linear(f"{name}-out", width, width, last, layers=1))
        self.ops += block.ops
        return self.add(f"{name}-add", out, x)


def _layer_norm(block: Block, name: str, width: int, source: str, **fields: Any) -> str:
    return block.vector(name, "LayerNormalization", width, source, stored=2.0 * width, **fields)


def _attention(block: Block, name: str, source: str, x: Tensor, head: int, positions: int, source_width: int) -> str:
    """Attention of the pixels of each image to themselves or to the words, added to the stream."""
    width, pixels = x.channels, x.pixels // x.frames
    norm = _layer_norm(block, f"{name}-norm", width, source)
    origin = norm if source_width == width and positions == pixels else "words"
    block.linear(f"{name}-q", width, width, norm, bias=False)
    keys = block.linear(f"{name}-kv", source_width, 2 * width, origin, rows=dim(positions * x.frames, "b"), bias=False)
    extents = dim(width // head * x.frames, "b"), Dim(pixels), Dim(positions), Dim(head)
    block.dot_attention(f"{name}-", extents, f"{name}-q", keys, reads=block.rows * width)
    block.linear(f"{name}-merge", width, width, f"{name}-context", shard="k")
    return block.vector(f"{name}-sum", "Add", width, f"{name}-merge", source, operands=2)


def _encoder(group: str, layers: int, width: int, heads: int, projection: int) -> list[Op]:
    """An encoder of words on both prompts; its operators are named after its group."""
    block = Block(dim(_WORDS * _PAIR, "b"), group, layers)
    extents = dim(heads * _PAIR, "b"), Dim(_WORDS), Dim(_WORDS), Dim(width // heads)
    table = block.gather(f"{group}-table", _VOCAB, width, layers=1)
    place = block.vector(f"{group}-place", "Add", width, table, stored=float(_WORDS * width), layers=1)
    norm = _layer_norm(block, f"{group}-norm1", width, place)
    qkv = block.linear(f"{group}-qkv", width, 3 * width, norm)
    last = block.dot_attention(f"{group}-", extents, qkv, reads=block.rows * (2 * width))
    last = block.linear(f"{group}-merge", width, width, last, shard="k")
    stream = block.vector(f"{group}-sum1", "Add", width, last, place, operands=2)
    names, norm = [f"{group}-{part}" for part in ("fc1", "gelu", "fc2")], f"{group}-norm2"
    last = block.feed(names, "Gelu", width, 4 * width, _layer_norm(block, norm, width, stream))
    last = block.vector(f"{group}-sum2", "Add", width, last, stream, operands=2)
    last = _layer_norm(block, f"{group}-final", width, last, layers=1)
    if projection:
        block.linear(f"{group}-pooled", width, projection, last, rows=dim(_PAIR, "b"), bias=False, layers=1)
    return block.ops


def _words() -> list[Op]:
    """Both encoders on both prompts, and what they say side by side."""
    ops = [op for n, sizes in enumerate(_ENCODERS, 1) for op in _encoder(f"words{n}", *sizes)]
    wide = dim(_WORDS * _PAIR, "b") * sum(width for _, width, *_ in _ENCODERS)
    finals = tuple(op.name for op in ops if op.name.endswith("-final"))
    return [*ops, Op("words", "Concat", "words2", finals, reads=wide, writes=wide, shard="elements")]


def _steps(params: Params, side: int) -> list[Op]:
    """One step of the U-Net."""
    widths, depths = params.sizes("widths", 2), params.sizes("depths", 2, 0)
    time, words = 4 * widths[0], sum(width for _, width, *_ in _ENCODERS)
    head = params.whole("head", 1, 65536)
    net = _UNet(4, side, _PAIR, time, words)
    net.group = "time"
    row, condition = dim(_PAIR, "b"), _ENCODERS[-1][3] + 6 * 256  # sizes and crops, 256 values each
    net.linear("time1", widths[0], time, rows=row)
    net.linear("time2", time, time, "time1", rows=row)
    net.linear("given1", condition, time, "words2-pooled", rows=row)
    net.linear("given2", time, time, "given1", rows=row)
    net.vector("time", "Add", row * time, "time2", "given2", operands=2)
    net.group = "down"
    x = net.conv("enter", net.input, widths[0], 3, act=None, normalised=False)
    beside = [x]
    for n, (width, depth) in enumerate(zip(widths, depths, strict=False), 1):
        net.group = f"down{n}"
        for i in (1, 2):
            x = net.residual(f"down{n}-{i}", x, width)
            x = net.attend(f"down{n}-{i}a", x, depth, head) if depth else x
            beside.append(x)
        if n < len(widths):
            x = net.conv(f"down{n}-halve", x, width, 3, 2, act=None, normalised=False)
            beside.append(x)
    net.group = "middle"
    x = net.residual("middle1", x, widths[-1])
    x = net.residual("middle2", net.attend("middle-a", x, depths[-1], head), widths[-1])
    for n, (width, depth) in reversed(list(enumerate(zip(widths, depths, strict=False), 1))):
        net.group = f"up{n}"
        for i in (1, 2, 3):
            x = net.residual(f"up{n}-{i}", net.concat(f"up{n}-{i}c", [x, beside.pop()]), width)
            x = net.attend(f"up{n}-{i}a", x, depth, head) if depth else x
        if n > 1:
            larger = replace(x, height=2 * x.height, width=2 * x.width)
            x = net.conv(f"up{n}-conv", net.resize(f"up{n}-double", x, larger), width, 3, act=None, normalised=False)
    net.group = "leave"
    net.conv("noise", net.group_norm("leave-norm", x), 4, 3, act=None, normalised=False)
    return net.ops


def _pixel_attention(net: _UNet, x: Tensor) -> Tensor:
    """Attention of one head as wide as the image's channels, to all its pixels."""
    width, block = x.channels, Block(dim(x.pixels, "b"), net.group)
    last = block.linear("look-qkv", width, 3 * width, net.group_norm("look-norm", x, None).name)
    extents = ONE, block.rows, Dim(x.pixels), Dim(width)
    last = block.dot_attention("look-", extents, last, reads=block.rows * (2 * width), shard="none")
    out = replace(x, name=block.linear("look-out", width, width, last))
    net.ops += block.ops
    return net.add("look-add", out, x)


def _pixels(params: Params, side: int) -> list[Op]:
    """The decoder from the latent image to pixels."""
    widths = params.sizes("decoder", 2)
    net = _UNet(4, side, 1, 0, 0)
    net.group = "pixels"
    x = net.conv("latent", net.input, 4, 1, act=None, normalised=False)
    x = net.conv("pixels-enter", x, widths[0], 3, act=None, normalised=False)
    x = net.residual("pixels-middle1", x, widths[0])
    x = _pixel_attention(net, x)
    x = net.residual("pixels-middle2", x, widths[0])
    for n, width in enumerate(widths, 1):
        net.group = f"pixels{n}"
        for i in (1, 2, 3):
            x = net.residual(f"pixels{n}-{i}", x, width)
        if n < len(widths):
            larger = replace(x, height=2 * x.height, width=2 * x.width)
            up = net.resize(f"pixels{n}-double", x, larger)
            x = net.conv(f"pixels{n}-conv", up, width, 3, act=None, normalised=False)
    net.group = "leave-pixels"
    net.conv("image", net.group_norm("pixels-norm", x), 3, 3, act=None, normalised=False)
    return net.ops


def build(params: Params) -> Graph:
    side = params.whole("image", 64, 8192) // 8
    count = Dim(float(params.whole("steps", 1, 1000)))
    steps = [replace(op, steps=count) for op in _steps(params, side)]
    pixels = _pixels(params, side)
    pixels[0] = replace(pixels[0], inputs=(steps[-1].name,))
    words = dim(_WORDS * _PAIR, "b")
    return forward((*_words(), *steps, *pixels), "image", words, pixels[-1].writes, input_indices=words)
