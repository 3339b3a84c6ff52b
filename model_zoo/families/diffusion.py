"""Latent diffusion as of Stable Diffusion XL: two encoders of words, a U-Net step after step, a decoder of pixels.

Every step runs the U-Net on a pair, with the words and without (classifier-free guidance); the encoders and the decoder
run once. Residual blocks and attention are those of the public model definition (diffusers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from model_zoo.families.blocks import elementwise, gather, linear, matmul
from model_zoo.families.family import NetworkFamily, Params
from model_zoo.families.images import Net, Tensor
from model_zoo.ops import ONE, Dim, Graph, Op, Phase, dim

_WORDS = 77  # tokens of a prompt
_ENCODERS = ((12, 768, 12, 0), (32, 1280, 20, 1280))  # layers, width, heads and projection: CLIP L and OpenCLIP bigG
_VOCAB = 49408
_PAIR = 2  # with the words and without


class _UNet(Net):
    """A convolutional network with normalised residual blocks, a signal of time in each, and attention between."""

    def __init__(self, channels: int, side: int, pair: int, time: int, words: int) -> None:
        super().__init__(channels, side, side, pair)
        self.time, self.words = time, words

    def group_norm(self, name: str, x: Tensor, act: bool = True) -> Tensor:
        """Normalised in groups of channels, and its activation."""
        whole = dim(x.elements, "b")
        op = elementwise(
            name, "LayerNormalization", whole, group=self.stage, inputs=self._inputs(x), stored=2.0 * x.channels
        )
        self.ops.append(op)
        x = replace(x, name=name)
        return self.apply("Silu", x) if act else x

    def residual(self, name: str, x: Tensor, width: int) -> Tensor:
        """Two convolutions behind norms, time added between them, around a shortcut."""
        y = self.group_norm(f"{name}-norm1", x)
        y = self.conv(f"{name}-conv1", y, width, 3, act=None, normalised=False)
        if self.time:
            row = dim(x.frames, "b")
            self.ops.append(linear(f"{name}-time", row, self.time, width, group=self.stage, inputs=("time",)))
            whole = dim(y.elements, "b")
            terms = (y.name, f"{name}-time")
            self.ops.append(elementwise(f"{name}-timed", "Add", whole, group=self.stage, inputs=terms))
            y = replace(y, name=f"{name}-timed")
        y = self.group_norm(f"{name}-norm2", y)
        y = self.conv(f"{name}-conv2", y, width, 3, act=None, normalised=False)
        if x.channels != width:
            x = self.conv(f"{name}-shortcut", x, width, 1, act=None, normalised=False)
        return self.add(f"{name}-add", y, x)

    def attend(self, name: str, x: Tensor, depth: int, head: int) -> Tensor:
        """`depth` layers over the pixels of each image: attention to them, to the words, and a gated feed-forward."""
        width, pixels = x.channels, x.pixels // x.frames
        rows = dim(x.pixels, "b")
        y = self.group_norm(f"{name}-norm", x, act=False)
        self.ops.append(linear(f"{name}-in", rows, width, width, group=self.stage, inputs=(y.name,)))
        source = f"{name}-in"
        for kind, positions, source_width in (("self", pixels, width), ("cross", _WORDS, self.words)):
            source = self._attention(f"{name}-{kind}", source, x, depth, head, positions, source_width)
        norm = self._layer_norm(f"{name}-norm3", source, rows, width, depth)
        more: dict[str, Any] = {"group": self.stage, "layers": depth}
        self.ops += [
            linear(f"{name}-up", rows, width, 8 * width, inputs=(norm,), **more),
            elementwise(f"{name}-gelu", "Gelu", rows * (4 * width), inputs=(f"{name}-up",), **more),
            elementwise(
                f"{name}-gate", "Mul", rows * (4 * width), inputs=(f"{name}-gelu", f"{name}-up"), operands=2, **more
            ),
            linear(f"{name}-down", rows, 4 * width, width, inputs=(f"{name}-gate",), shard="k", **more),
            elementwise(f"{name}-sum3", "Add", rows * width, inputs=(f"{name}-down", source), operands=2, **more),
            linear(f"{name}-out", rows, width, width, group=self.stage, inputs=(f"{name}-sum3",)),
        ]
        return self.add(f"{name}-add", replace(x, name=f"{name}-out"), x)

    def _layer_norm(self, name: str, source: str, rows: Dim, width: int, depth: int) -> str:
        more: dict[str, Any] = {"group": self.stage, "inputs": (source,), "layers": depth}
        self.ops.append(elementwise(name, "LayerNormalization", rows * width, stored=2.0 * width, **more))
        return name

    def _attention(
        self, name: str, source: str, x: Tensor, depth: int, head: int, positions: int, source_width: int
    ) -> str:
        width, pixels = x.channels, x.pixels // x.frames
        rows, keys = dim(x.pixels, "b"), dim(positions * x.frames, "b")
        products, scores = dim(width // head * x.frames, "b"), dim(width // head * x.pixels * positions, "b")
        norm = self._layer_norm(f"{name}-norm", source, rows, width, depth)
        more: dict[str, Any] = {"group": self.stage, "layers": depth}
        origin = (norm,) if source_width == width and positions == pixels else ("words",)
        self.ops += [
            linear(f"{name}-q", rows, width, width, inputs=(norm,), bias=False, **more),
            linear(f"{name}-kv", keys, source_width, 2 * width, inputs=origin, bias=False, **more),
            matmul(
                f"{name}-scores",
                products,
                Dim(pixels),
                Dim(positions),
                Dim(head),
                reads=rows * width,
                inputs=(f"{name}-q", f"{name}-kv"),
                **more,
            ),
            elementwise(
                f"{name}-softmax", "Softmax", scores, inputs=(f"{name}-scores",), shard="g", parts=products, **more
            ),
            matmul(
                f"{name}-context",
                products,
                Dim(pixels),
                Dim(head),
                Dim(positions),
                reads=scores,
                inputs=(f"{name}-softmax", f"{name}-kv"),
                **more,
            ),
            linear(f"{name}-merge", rows, width, width, inputs=(f"{name}-context",), shard="k", **more),
            elementwise(f"{name}-sum", "Add", rows * width, inputs=(f"{name}-merge", source), operands=2, **more),
        ]
        return f"{name}-sum"


def _words() -> list[Op]:
    """Both encoders on both prompts, and what they say side by side."""
    rows, ops = dim(_WORDS * _PAIR, "b"), []
    for n, (layers, width, heads, projected) in enumerate(_ENCODERS, 1):
        group = f"words{n}"
        more: dict[str, Any] = {"group": group, "layers": layers}
        table = gather(f"{group}-table", rows, _VOCAB, width, group=group)
        place = elementwise(
            f"{group}-place", "Add", rows * width, group=group, inputs=(table.name,), stored=float(_WORDS * width)
        )
        products, scores = dim(heads * _PAIR, "b"), dim(heads * _PAIR * _WORDS * _WORDS, "b")
        head, here = Dim(width // heads), Dim(_WORDS)

        def norm(name: str, source: str, count: int, group: str = group, width: int = width) -> Op:
            own: dict[str, Any] = {"group": group, "inputs": (source,), "layers": count, "stored": 2.0 * width}
            return elementwise(name, "LayerNormalization", rows * width, **own)

        def name(part: str, group: str = group) -> str:
            return f"{group}-{part}"

        ops += [
            table,
            place,
            norm(name("norm1"), place.name, layers),
            linear(name("qkv"), rows, width, 3 * width, inputs=(name("norm1"),), **more),
            matmul(name("scores"), products, here, here, head, reads=rows * (2 * width), inputs=(name("qkv"),), **more),
            elementwise(
                name("softmax"), "Softmax", scores, inputs=(name("scores"),), shard="g", parts=products, **more
            ),
            matmul(name("context"), products, here, head, here, reads=scores, inputs=(name("softmax"),), **more),
            linear(name("merge"), rows, width, width, inputs=(name("context"),), shard="k", **more),
            elementwise(name("sum1"), "Add", rows * width, inputs=(name("merge"), place.name), operands=2, **more),
            norm(name("norm2"), name("sum1"), layers),
            linear(name("fc1"), rows, width, 4 * width, inputs=(name("norm2"),), **more),
            elementwise(name("gelu"), "Gelu", rows * (4 * width), inputs=(name("fc1"),), **more),
            linear(name("fc2"), rows, 4 * width, width, inputs=(name("gelu"),), shard="k", **more),
            elementwise(name("sum2"), "Add", rows * width, inputs=(name("fc2"), name("sum1")), operands=2, **more),
            norm(name("final"), name("sum2"), 1),
        ]
        if projected:
            pooled = dim(_PAIR, "b")
            ops.append(
                linear(name("pooled"), pooled, width, projected, group=group, inputs=(name("final"),), bias=False)
            )
    wide = sum(width for _, width, *_ in _ENCODERS)
    finals = tuple(op.name for op in ops if op.name.endswith("-final"))
    ops.append(Op("words", "Concat", "words2", finals, reads=rows * wide, writes=rows * wide, shard="elements"))
    return ops


def _steps(params: Params, side: int) -> list[Op]:
    """One step of the U-Net."""
    widths, depths = params.sizes("widths", 2), params.sizes("depths", 2, 0)
    time, words = 4 * widths[0], sum(width for _, width, *_ in _ENCODERS)
    head = params.whole("head", 1, 65536)
    net = _UNet(4, side, _PAIR, time, words)
    net.stage = "time"
    row, pooled = dim(_PAIR, "b"), _ENCODERS[-1][3] + 6 * 256  # sizes and crops, 256 values each
    net.ops += [
        linear("time1", row, widths[0], time, group="time"),
        linear("time2", row, time, time, group="time", inputs=("time1",)),
        linear("given1", row, pooled, time, group="time", inputs=("words2-pooled",)),
        linear("given2", row, time, time, group="time", inputs=("given1",)),
        elementwise("time", "Add", row * time, group="time", inputs=("time2", "given2"), operands=2),
    ]
    net.stage = "down"
    x = net.conv("enter", net.input, widths[0], 3, act=None, normalised=False)
    beside = [x]
    for n, (width, depth) in enumerate(zip(widths, depths, strict=False), 1):
        net.stage = f"down{n}"
        for i in (1, 2):
            x = net.residual(f"down{n}-{i}", x, width)
            x = net.attend(f"down{n}-{i}a", x, depth, head) if depth else x
            beside.append(x)
        if n < len(widths):
            x = net.conv(f"down{n}-halve", x, width, 3, 2, act=None, normalised=False)
            beside.append(x)
    net.stage = "middle"
    x = net.residual("middle1", x, widths[-1])
    x = net.residual("middle2", net.attend("middle-a", x, depths[-1], head), widths[-1])
    for n, (width, depth) in reversed(list(enumerate(zip(widths, depths, strict=False), 1))):
        net.stage = f"up{n}"
        for i in (1, 2, 3):
            x = net.residual(f"up{n}-{i}", net.concat(f"up{n}-{i}c", [x, beside.pop()]), width)
            x = net.attend(f"up{n}-{i}a", x, depth, head) if depth else x
        if n > 1:
            larger = replace(x, height=2 * x.height, width=2 * x.width)
            x = net.conv(f"up{n}-conv", net.resize(f"up{n}-double", x, larger), width, 3, act=None, normalised=False)
    net.stage = "leave"
    net.conv("noise", net.group_norm("leave-norm", x), 4, 3, act=None, normalised=False)
    return net.ops


def _looked(net: _UNet, x: Tensor) -> Tensor:
    """Attention of one head as wide as the image's channels, to all its pixels."""
    width, positions = x.channels, Dim(x.pixels)
    rows = dim(x.pixels, "b")
    more: dict[str, Any] = {"group": net.stage}
    y = net.group_norm("look-norm", x, act=False)
    scores = dim(x.pixels * x.pixels, "b")
    net.ops += [
        linear("look-qkv", rows, width, 3 * width, inputs=(y.name,), **more),
        matmul(
            "look-scores",
            ONE,
            rows,
            positions,
            Dim(width),
            reads=rows * (2 * width),
            inputs=("look-qkv",),
            shard="none",
            **more,
        ),
        elementwise("look-softmax", "Softmax", scores, inputs=("look-scores",), shard="none", **more),
        matmul(
            "look-context",
            ONE,
            rows,
            Dim(width),
            positions,
            reads=scores,
            inputs=("look-softmax",),
            shard="none",
            **more,
        ),
        linear("look-out", rows, width, width, inputs=("look-context",), **more),
    ]
    return net.add("look-add", replace(x, name="look-out"), x)


def _pixels(params: Params, side: int) -> list[Op]:
    """The decoder from the latent image to pixels."""
    widths = params.sizes("decoder", 2)
    net = _UNet(4, side, 1, 0, 0)
    net.stage = "pixels"
    x = net.conv("latent", net.input, 4, 1, act=None, normalised=False)
    x = net.conv("pixels-enter", x, widths[0], 3, act=None, normalised=False)
    x = net.residual("pixels-middle1", x, widths[0])
    x = _looked(net, x)
    x = net.residual("pixels-middle2", x, widths[0])
    for n, width in enumerate(widths, 1):
        net.stage = f"pixels{n}"
        for i in (1, 2, 3):
            x = net.residual(f"pixels{n}-{i}", x, width)
        if n < len(widths):
            larger = replace(x, height=2 * x.height, width=2 * x.width)
            up = net.resize(f"pixels{n}-double", x, larger)
            x = net.conv(f"pixels{n}-conv", up, width, 3, act=None, normalised=False)
    net.stage = "leave-pixels"
    net.conv("image", net.group_norm("pixels-norm", x), 3, 3, act=None, normalised=False)
    return net.ops


def _build(values: Mapping[str, Any]) -> Graph:
    params = Params(values)
    side = params.whole("image", 64, 8192) // 8
    count = Dim(float(params.whole("steps", 1, 1000)))
    steps = [replace(op, steps=count) for op in _steps(params, side)]
    pixels = _pixels(params, side)
    pixels[0] = replace(pixels[0], inputs=(steps[-1].name,))
    return Graph(
        phases=(Phase("forward", (*_words(), *steps, *pixels)),),
        unit="image",
        input_elements=dim(_WORDS * _PAIR, "b"),
        input_indices=dim(_WORDS * _PAIR, "b"),
        output_elements=pixels[-1].writes,
    )


FAMILY = NetworkFamily(
    name="diffusion",
    build=_build,
    required=(),
    defaults={
        "image": 1024,
        "steps": 20,
        "widths": (320, 640, 1280),
        "depths": (0, 2, 10),
        "head": 64,
        "decoder": (512, 512, 256, 128),
    },
    adjustable={"image": ("Image side [pixels]", 64, 4096), "steps": ("Steps", 1, 1000)},
)
