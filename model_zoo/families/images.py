"""A convolutional network written down layer by layer: tensors with shapes in, ops with exact counts out."""

import math
from dataclasses import dataclass, replace

from model_zoo.families.blocks import ROW, Block, attributes
from model_zoo.ops import Dim
from model_zoo.schema import WorkloadError


@dataclass(frozen=True)
class Tensor:
    """Output of an op for one image or clip: its name, channels and extent (frames is 1 for images).

    Where an image has several regions, each has that extent.
    """

    name: str
    channels: int
    height: int
    width: int
    frames: int = 1
    regions: int = 1

    @property
    def pixels(self) -> int:
        return self.frames * self.height * self.width

    @property
    def elements(self) -> int:
        return self.channels * self.pixels


class Net(Block):
    """Collects ops while a builder walks a network; batch normalisation is folded into the convolution before it."""

    def __init__(self, channels: int, height: int, width: int, frames: int = 1) -> None:
        super().__init__(group="stem")
        self.input = Tensor("", channels, height, width, frames)

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

        `kernel` is a side or (height, width); `pad` keeps extents unless given; `frames` is (kernel, stride) along
        time, padded likewise. Of an oblong window the attribute `kernel` is the side of the square of as many pixels.
        """
        if x.channels % groups or filters % groups:
            raise WorkloadError(f"layer {name!r}: {groups} groups must divide {x.channels} and {filters} channels")
        high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
        pads = ((high - 1) // 2, (wide - 1) // 2) if pad is None else (pad, pad)
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
        marks = attributes(
            kernel=math.sqrt(high * wide),
            stride=stride,
            groups=groups,
            **({"pad": pads[0]} if high == wide else {}),
            channels=x.channels,
            height=x.height,
            width=x.width,
            filters=filters,
            frames=x.frames,
            kernel_t=frames[0],
            stride_t=frames[1],
            normalised=normalised,
        )
        counts = {"stored": float(window * filters + filters), "g": Dim(groups), "n": Dim(filters // groups)}
        fields = {"kind": "Conv", "rows": ROW * out.pixels, "reads": ROW * x.elements, "attributes": marks}
        self.linear(name, window, filters, x.name, **fields, **counts)
        return self.apply(act, out) if act else out

    def apply(self, kind: str, x: Tensor) -> Tensor:
        """Element-wise activation."""
        return replace(x, name=self.vector(f"{x.name}-{kind.lower()}", kind, x.elements, x.name))

    def normalise(self, name: str, x: Tensor, act: str | None = "Relu", kind: str = "BatchNormalization") -> Tensor:
        """A normalisation that can't be folded: it follows a concatenation, or takes its statistics of each request."""
        out = replace(x, name=self.vector(name, kind, x.elements, x.name, stored=2.0 * x.channels))
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
    ) -> Tensor:
        """Maximum or average over a window; `ceil` rounds the extent up, as Caffe does."""

        def extent(size: int) -> int:
            span = size + 2 * pad - kernel
            return (-(-span // stride) if ceil else span // stride) + 1

        out = replace(x, name=name, height=extent(x.height), width=extent(x.width))
        if out.height < 1 or out.width < 1:
            raise WorkloadError(f"layer {name!r}: an input of {x.height} x {x.width} is too small for its window")
        work, marks = ROW * (out.elements * kernel * kernel), attributes(kernel=kernel, stride=stride)
        io = {"reads": ROW * x.elements, "writes": ROW * out.elements}
        self.op(name, kind, x.name, flops=work, **io, shard="elements", attributes=marks)
        return out

    def global_pool(self, name: str, x: Tensor) -> Tensor:
        """Average over all pixels of each channel."""
        out, whole = Tensor(name, x.channels, 1, 1, 1), ROW * x.elements
        io = {"reads": whole, "writes": ROW * out.elements, "shard": "elements"}
        marks = attributes(height=x.height, width=x.width)
        self.op(name, "GlobalAveragePool", x.name, flops=whole, **io, attributes=marks)
        return out

    def add(self, name: str, x: Tensor, y: Tensor, act: str | None = None) -> Tensor:
        """Sum of two tensors of one shape."""
        if x.elements != y.elements:
            raise WorkloadError(f"layer {name!r}: {x.elements} and {y.elements} elements can't be added")
        out = replace(x, name=self.vector(name, "Add", x.elements, x.name, y.name, operands=2))
        return self.apply(act, out) if act else out

    def excite(self, name: str, x: Tensor, bottleneck: int, *, inner: str = "Relu", outer: str = "Sigmoid") -> Tensor:
        """Squeeze and excitation: channel means through two layers scale the channels (tiled, then multiplied)."""
        mean = self.global_pool(f"{name}-pool", x)
        low = self.dense(f"{name}-reduce", mean, bottleneck, act=inner, kind="Conv")
        gate = self.dense(f"{name}-expand", low, x.channels, act=outer, kind="Conv")
        scale = self.move(f"{name}-tile", "Tile", x.channels, gate.name, writes=ROW * x.elements)
        return replace(x, name=self.vector(f"{name}-scale", "Mul", x.elements, x.name, scale, operands=2))

    def dense(self, name: str, x: Tensor, width: int, *, act: str | None = None, kind: str = "Gemm") -> Tensor:
        """Fully connected layer on the flattened tensor."""
        shape = {"kernel": 1, "stride": 1, "groups": 1, "channels": x.elements, "height": 1, "width": 1}
        marks = attributes(**shape, filters=width) if kind == "Conv" else ()
        out = Tensor(self.linear(name, x.elements, width, x.name, kind=kind, attributes=marks), width, 1, 1)
        return self.apply(act, out) if act else out

    def concat(self, name: str, parts: list[Tensor]) -> Tensor:
        """Channels of several tensors side by side."""
        out = replace(parts[0], name=name, channels=sum(p.channels for p in parts))
        self.move(name, "Concat", out.elements, *(p.name for p in parts))
        return out

    def resize(self, name: str, x: Tensor, like: Tensor) -> Tensor:
        """Pixels repeated to the extent of another tensor."""
        out = replace(like, name=name, channels=x.channels)
        self.move(name, "Resize", x.elements, x.name, writes=ROW * out.elements)
        return out

    def upconv(self, name: str, x: Tensor, filters: int) -> Tensor:
        """Transposed convolution of kernel and stride 2: every pixel that enters makes a block of what leaves."""
        side = 2
        frames = side if x.frames > 1 else 1
        block = side * side * frames
        out = Tensor(name, filters, x.height * side, x.width * side, x.frames * frames)
        parameters = float(x.channels * filters * block + filters)
        fields = {"kind": "Conv", "stored": parameters, "weights": Dim(parameters)}
        self.linear(name, x.channels, filters * block, x.name, rows=ROW * x.pixels, **fields)
        return out

    def crop(self, name: str, x: Tensor, side: int, regions: int, samples: int, boxes: str) -> Tensor:
        """Regions of a map, each resampled to `side` x `side`: so many samples a cell, each of four pixels."""
        cells, pixels = float(regions * side * side * x.channels), 4.0 * samples
        io = {"reads": ROW * (pixels * cells), "writes": ROW * cells, "shard": "elements"}
        marks = attributes(regions=regions, side=side)
        self.op(name, "RoiAlign", x.name, boxes, flops=ROW * (2.0 * pixels * cells), **io, attributes=marks)
        return Tensor(name, x.channels, side, side, regions=regions)

    def repeat(self, begin: int, times: int) -> None:
        """Operators from `begin` on over `times` regions of an image: work and activations grow, weights don't.

        Regions are a batch of small images: one above the other has the same pixels and, without padding between them,
        the same work.
        """
        for at in range(begin, len(self.ops) if times > 1 else begin):
            op = self.ops[at]
            self.ops[at] = replace(
                op, **{part: getattr(op, part) * times for part in ("m", "flops", "reads", "writes")}
            )

    def suppress(self, name: str, boxes: int, best: int, *inputs: str, classes: int = 1, values: int = 6) -> str:
        """Suppression of boxes beside better ones: ten operations a score, `values` each of the best."""
        scores = {"flops": ROW * (10.0 * boxes * classes), "reads": ROW * (boxes * (classes + 4))}
        out = {"writes": ROW * (values * best), "quantisable": False, "attributes": attributes(boxes=boxes, kept=best)}
        return self.op(name, "NonMaxSuppression", *inputs, **scores, **out)

    def lrn(self, name: str, x: Tensor) -> Tensor:
        """Local response normalisation across five channels."""
        self.vector(name, "LRN", x.elements, x.name, operations=10.0, attributes=attributes(size=5))
        return replace(x, name=name)

    def softmax(self, name: str, x: Tensor) -> Tensor:
        """Softmax of the scores."""
        return Tensor(self.vector(name, "Softmax", x.elements, x.name, shard="none"), x.channels, 1, 1)
