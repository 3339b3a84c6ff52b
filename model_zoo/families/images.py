"""A convolutional network written down layer by layer: tensors with shapes in, ops with exact counts out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from model_zoo.families.blocks import OPERATIONS, elementwise, linear, move
from model_zoo.ops import Dim, Op, dim
from model_zoo.schema import WorkloadError


@dataclass(frozen=True)
class Tensor:
    """Output of an op for one image or clip: its name, channels and extent (frames is 1 for images)."""

    name: str
    channels: int
    height: int
    width: int
    frames: int = 1

    @property
    def pixels(self) -> int:
        return self.frames * self.height * self.width

    @property
    def elements(self) -> int:
        return self.channels * self.pixels


class Net:
    """Collects ops while a builder walks a network; batch normalisation is folded into the convolution before it."""

    def __init__(self, channels: int, height: int, width: int, frames: int = 1) -> None:
        self.ops: list[Op] = []
        self.stage = "stem"
        self.input = Tensor("", channels, height, width, frames)

    def _inputs(self, *tensors: Tensor) -> tuple[str, ...]:
        return tuple(tensor.name for tensor in tensors if tensor.name)

    def conv(
        self,
        name: str,
        x: Tensor,
        filters: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        *,
        pad: int | None = None,
        groups: int = 1,
        act: str | None = "Relu",
        frames: tuple[int, int] = (1, 1),
        normalised: bool = True,
    ) -> Tensor:
        """Convolution with a bias (a folded normalisation or its own) and an activation op after it.

        `kernel` is a side or (height, width); `pad` defaults to half of either; `frames` is (kernel, stride) along
        time, padded likewise. Of an oblong window the attribute `kernel` is the side of the square of as many pixels.
        """
        if x.channels % groups or filters % groups:
            raise WorkloadError(f"layer {name!r}: {groups} groups must divide {x.channels} and {filters} channels")
        high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
        pads = (high // 2, wide // 2) if pad is None else (pad, pad)
        out = Tensor(
            name,
            filters,
            (x.height + 2 * pads[0] - high) // stride + 1,
            (x.width + 2 * pads[1] - wide) // stride + 1,
            (x.frames + 2 * (frames[0] // 2) - frames[0]) // frames[1] + 1,
        )
        if out.height < 1 or out.width < 1 or out.frames < 1:
            raise WorkloadError(f"layer {name!r}: an input of {x.height} x {x.width} is too small for its kernel")
        window = high * wide * frames[0] * (x.channels // groups)
        stored = float(window * filters + filters)
        self.ops.append(
            Op(
                name=name,
                kind="Conv",
                group=self.stage,
                inputs=self._inputs(x),
                g=Dim(groups),
                m=dim(out.pixels, "b"),
                n=Dim(filters // groups),
                k=Dim(window),
                flops=dim(2.0 * out.pixels * window * filters, "b"),
                stored=stored,
                weights=Dim(stored),
                reads=dim(x.elements, "b"),
                writes=dim(out.elements, "b"),
                shard="n",
                attributes=(
                    ("kernel", math.sqrt(high * wide)),
                    ("stride", float(stride)),
                    ("groups", float(groups)),
                    *([("pad", float(pads[0]))] if high == wide else ()),
                    ("channels", float(x.channels)),
                    ("height", float(x.height)),
                    ("width", float(x.width)),
                    ("filters", float(filters)),
                    ("frames", float(x.frames)),
                    ("kernel_t", float(frames[0])),
                    ("stride_t", float(frames[1])),
                    ("normalised", float(normalised)),
                ),
            )
        )
        return self.apply(act, out) if act else out

    def apply(self, kind: str, x: Tensor) -> Tensor:
        """Element-wise activation."""
        name = f"{x.name}-{kind.lower()}"
        self.ops.append(elementwise(name, kind, dim(x.elements, "b"), group=self.stage, inputs=self._inputs(x)))
        return Tensor(name, x.channels, x.height, x.width, x.frames)

    def normalise(self, name: str, x: Tensor, act: str | None = "Relu") -> Tensor:
        """A batch normalisation that can't be folded (it follows a concatenation)."""
        self.ops.append(
            elementwise(
                name,
                "BatchNormalization",
                dim(x.elements, "b"),
                group=self.stage,
                inputs=self._inputs(x),
                stored=2.0 * x.channels,
            )
        )
        out = Tensor(name, x.channels, x.height, x.width, x.frames)
        return self.apply(act, out) if act else out

    def pool(
        self,
        name: str,
        x: Tensor,
        kernel: int,
        stride: int,
        *,
        pad: int = 0,
        kind: str = "MaxPool",
        ceil: bool = False,
        frames: tuple[int, int] = (1, 1),
    ) -> Tensor:
        """Maximum or average over a window; `ceil` rounds the extent up, as Caffe does."""

        def extent(size: int) -> int:
            span = size + 2 * pad - kernel
            return (-(-span // stride) if ceil else span // stride) + 1

        out = Tensor(
            name,
            x.channels,
            extent(x.height),
            extent(x.width),
            (x.frames + 2 * (frames[0] // 2) - frames[0]) // frames[1] + 1,
        )
        if out.height < 1 or out.width < 1 or out.frames < 1:
            raise WorkloadError(f"layer {name!r}: an input of {x.height} x {x.width} is too small for its window")
        window = kernel * kernel * frames[0]
        self.ops.append(
            Op(
                name=name,
                kind=kind,
                group=self.stage,
                inputs=self._inputs(x),
                flops=dim(out.elements * window, "b"),
                reads=dim(x.elements, "b"),
                writes=dim(out.elements, "b"),
                shard="elements",
                attributes=(("kernel", float(kernel)), ("stride", float(stride))),
            )
        )
        return out

    def global_pool(self, name: str, x: Tensor) -> Tensor:
        """Average over all pixels of each channel."""
        out = Tensor(name, x.channels, 1, 1, 1)
        self.ops.append(
            Op(
                name=name,
                kind="GlobalAveragePool",
                group=self.stage,
                inputs=self._inputs(x),
                flops=dim(x.elements, "b"),
                reads=dim(x.elements, "b"),
                writes=dim(out.elements, "b"),
                shard="elements",
                attributes=(("height", float(x.height)), ("width", float(x.width))),
            )
        )
        return out

    def add(self, name: str, x: Tensor, y: Tensor, act: str | None = None) -> Tensor:
        """Sum of two tensors of one shape."""
        if x.elements != y.elements:
            raise WorkloadError(f"layer {name!r}: {x.elements} and {y.elements} elements can't be added")
        self.ops.append(
            elementwise(name, "Add", dim(x.elements, "b"), group=self.stage, inputs=self._inputs(x, y), operands=2)
        )
        out = Tensor(name, x.channels, x.height, x.width, x.frames)
        return self.apply(act, out) if act else out

    def excite(self, name: str, x: Tensor, squeezed: int, *, inner: str = "Relu", outer: str = "Sigmoid") -> Tensor:
        """Squeeze and excitation: channel means through two layers scale the channels (tiled, then multiplied)."""
        mean = self.global_pool(f"{name}-pool", x)
        low = self.dense(f"{name}-reduce", mean, squeezed, act=inner, kind="Conv")
        gate = self.dense(f"{name}-expand", low, x.channels, act=outer, kind="Conv")
        tiled = f"{name}-tile"
        self.ops.append(
            move(
                tiled, "Tile", dim(x.channels, "b"), group=self.stage, inputs=(gate.name,), written=dim(x.elements, "b")
            )
        )
        self.ops.append(
            elementwise(
                f"{name}-scale", "Mul", dim(x.elements, "b"), group=self.stage, inputs=(x.name, tiled), operands=2
            )
        )
        return Tensor(f"{name}-scale", x.channels, x.height, x.width, x.frames)

    def dense(self, name: str, x: Tensor, width: int, *, act: str | None = None, kind: str = "Gemm") -> Tensor:
        """Fully connected layer on the flattened tensor."""
        attributes = (
            ("kernel", 1.0),
            ("stride", 1.0),
            ("groups", 1.0),
            ("channels", float(x.elements)),
            ("height", 1.0),
            ("width", 1.0),
            ("filters", float(width)),
        )
        self.ops.append(
            linear(
                name,
                dim(1, "b"),
                x.elements,
                width,
                group=self.stage,
                inputs=self._inputs(x),
                kind=kind,
                attributes=attributes if kind == "Conv" else (),
            )
        )
        out = Tensor(name, width, 1, 1)
        return self.apply(act, out) if act else out

    def concat(self, name: str, parts: list[Tensor]) -> Tensor:
        """Channels of several tensors side by side."""
        out = Tensor(name, sum(p.channels for p in parts), parts[0].height, parts[0].width, parts[0].frames)
        self.ops.append(move(name, "Concat", dim(out.elements, "b"), group=self.stage, inputs=self._inputs(*parts)))
        return out

    def resize(self, name: str, x: Tensor, like: Tensor) -> Tensor:
        """Pixels repeated to the extent of another tensor."""
        out = Tensor(name, x.channels, like.height, like.width, like.frames)
        whole, output = dim(x.elements, "b"), dim(out.elements, "b")
        self.ops.append(move(name, "Resize", whole, group=self.stage, inputs=self._inputs(x), written=output))
        return out

    def upconv(self, name: str, x: Tensor, filters: int, side: int = 2) -> Tensor:
        """Transposed convolution whose kernel is its stride: every pixel that enters makes a block of what leaves."""
        frames = side if x.frames > 1 else 1
        block = side * side * frames
        out = Tensor(name, filters, x.height * side, x.width * side, x.frames * frames)
        stored = float(x.channels * filters * block + filters)
        pixels = dim(x.pixels, "b")
        self.ops.append(
            Op(
                name=name,
                kind="Conv",
                group=self.stage,
                inputs=self._inputs(x),
                m=pixels,
                n=Dim(filters * block),
                k=Dim(x.channels),
                flops=pixels * (2.0 * x.channels * filters * block),
                stored=stored,
                weights=Dim(stored),
                reads=dim(x.elements, "b"),
                writes=dim(out.elements, "b"),
                shard="n",
            )
        )
        return out

    @staticmethod
    def without_parameters(op: Op) -> Op:
        """The same operator with weights that another keeps."""
        return replace(op, stored=0.0)

    def lrn(self, name: str, x: Tensor, size: int = 5) -> Tensor:
        """Local response normalisation across channels."""
        self.ops.append(
            elementwise(
                name,
                "LRN",
                dim(x.elements, "b"),
                group=self.stage,
                inputs=self._inputs(x),
                operations=size + 5.0,
                attributes=(("size", float(size)),),
            )
        )
        return Tensor(name, x.channels, x.height, x.width, x.frames)

    def softmax(self, name: str, x: Tensor) -> Tensor:
        """Softmax of the scores."""
        self.ops.append(
            elementwise(
                name,
                "Softmax",
                dim(x.elements, "b"),
                group=self.stage,
                inputs=self._inputs(x),
                operations=OPERATIONS["Softmax"],
                shard="none",
            )
        )
        return Tensor(name, x.channels, 1, 1)
