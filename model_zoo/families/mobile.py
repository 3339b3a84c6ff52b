"""Architectures of inverted residuals and of searched widths: MobileNet, EfficientNet, RegNetY, an FBNet detector."""

from __future__ import annotations

from dataclasses import replace

from model_zoo.families.blocks import attributes
from model_zoo.families.family import Params
from model_zoo.families.images import Net, Tensor
from model_zoo.ops import Op, dim

# kernel, stride, expansion, channels, repeats: the columns of `blocks`
COLUMNS = 5


def square(params: Params) -> Net:
    """A network on square images of three channels."""
    image = params.whole("image", 1, 16384)
    return Net(3, image, image)


def classify(net: Net, x: Tensor, params: Params) -> Net:
    """Means of the channels to one score for each class."""
    net.group = "head"
    net.dense("fc", net.global_pool("avgpool", x), params.whole("classes", 1, 1_048_576))
    return net


def mobilenet_v1(params: Params) -> Net:
    """Depthwise 3 x 3 and pointwise 1 x 1 convolutions; rows of `blocks` are (channels, stride)."""
    net = square(params)
    x = net.conv("stem", net.input, params.whole("stem"), 3, 2)
    for index, (channels, stride) in enumerate(params.rows("blocks", 2), 1):
        net.group = f"block{index}"
        x = net.conv(f"b{index}-depthwise", x, x.channels, 3, stride, groups=x.channels)
        x = net.conv(f"b{index}-pointwise", x, channels, 1)
    return classify(net, x, params)


def _inverted(net: Net, name: str, x: Tensor, row: tuple[int, ...], act: str, squeeze: int) -> Tensor:
    """1 x 1 up, depthwise, optionally squeeze-and-excite to `squeeze` channels, 1 x 1 down, residual where it fits."""
    kernel, stride, expansion, channels = row
    y = x
    if expansion != 1:
        y = net.conv(f"{name}-expand", y, x.channels * expansion, 1, act=act)
    y = net.conv(f"{name}-depthwise", y, y.channels, kernel, stride, groups=y.channels, act=act)
    if squeeze:
        y = net.excite(f"{name}-se", y, squeeze, inner=act)
    y = net.conv(f"{name}-project", y, channels, 1, act=None)
    return net.add(f"{name}-add", y, x) if stride == 1 and channels == x.channels else y


def _trunk(net: Net, x: Tensor, params: Params, act: str, *, squeezed: bool) -> Tensor:
    for stage, (kernel, stride, expansion, channels, repeats) in enumerate(params.rows("blocks", COLUMNS), 1):
        net.group = f"stage{stage}"
        for index in range(1, repeats + 1):
            row = (kernel, stride if index == 1 else 1, expansion, channels)
            squeeze = max(1, x.channels // 4) if squeezed else 0
            x = _inverted(net, f"s{stage}b{index}", x, row, act, squeeze)
    return x


def mobilenet_v2(params: Params) -> Net:
    """Inverted residuals with ReLU6."""
    net = square(params)
    x = net.conv("stem", net.input, params.whole("stem"), 3, 2, act="Clip")
    x = _trunk(net, x, params, "Clip", squeezed=False)
    net.group = "head"
    return classify(net, net.conv("head", x, params.whole("head"), 1, act="Clip"), params)


def efficientnet(params: Params) -> Net:
    """Inverted residuals with Swish and squeeze-and-excitation (a quarter of the block's input channels)."""
    net = square(params)
    x = net.conv("stem", net.input, params.whole("stem"), 3, 2, act="Swish")
    x = _trunk(net, x, params, "Swish", squeezed=True)
    net.group = "head"
    return classify(net, net.conv("head", x, params.whole("head"), 1, act="Swish"), params)


def regnet_y(params: Params) -> Net:
    """RegNetY (Radosavovic 2020): bottleneck ratio 1, groups of fixed width, squeeze-and-excitation."""
    net = square(params)
    width_of_group = params.whole("group_width", 1, 65536)
    x = net.conv("stem", net.input, params.whole("stem"), 3, 2)
    for stage, (depth, width) in enumerate(zip(params.sizes("depths", 1), params.sizes("widths", 1)), 1):
        net.group = f"stage{stage}"
        for index in range(1, depth + 1):
            name, stride = f"s{stage}b{index}", 2 if index == 1 else 1
            y = net.conv(f"{name}-conv1", x, width, 1)
            y = net.conv(f"{name}-conv2", y, width, 3, stride, groups=max(1, width // width_of_group))
            y = net.excite(f"{name}-se", y, round(x.channels / 4))
            y = net.conv(f"{name}-conv3", y, width, 1, act=None)
            if index == 1:
                x = net.conv(f"{name}-shortcut", x, width, 1, stride, act=None)
            x = net.add(f"{name}-add", y, x, "Relu")
    return classify(net, x, params)


def fbnet_detection(params: Params) -> Net:
    """Two-stage detector: inverted residuals (none squeezed), region proposals on the stride-16 map, a box head.

    Rows of `blocks` are the trunk up to stride 16 and, after it, the last row is the box head that runs on each of
    `proposals` regions of 14 x 14 (as the mobile Mask R-CNN recipes split a classification network).
    """
    net = square(params)
    rows = params.rows("blocks", COLUMNS)
    x = net.conv("stem", net.input, params.whole("stem"), 3, 2, act="HardSwish")
    trunk = Params({"blocks": rows[:-1]})
    x = _trunk(net, x, trunk, "HardSwish", squeezed=False)
    net.group = "proposals"
    anchors, proposals = 15, params.whole("proposals", 1, 65536)
    y = net.conv("rpn-conv", x, x.channels, 3)
    score = net.conv("rpn-score", y, anchors, 1, act=None)
    delta = net.conv("rpn-delta", y, 4 * anchors, 1, act=None)
    boxes = anchors * x.pixels
    net.suppress("rpn-nms", boxes, proposals, score.name, delta.name, values=4)
    side, samples = 14, 4
    cells = proposals * side * side * x.channels
    net.group = "box-head"
    moved = {"reads": dim(4.0 * samples * cells, "b"), "writes": dim(cells, "b"), "shard": "elements"}
    marks = attributes(regions=proposals, side=side)
    net.op("roi-align", "RoiAlign", x.name, "rpn-nms", flops=dim(8.0 * samples * cells, "b"), **moved, attributes=marks)
    # Regions are a batch of small images: one above the other has the same pixels and, without padding between
    # them, the same work.
    start = len(net.ops)
    kernel, stride, expansion, channels, repeats = rows[-1]
    y = Tensor("roi-align", x.channels, side, side)
    for index in range(1, repeats + 1):
        row = (kernel, stride if index == 1 else 1, expansion, channels)
        y = _inverted(net, f"box-b{index}", y, row, "HardSwish", 0)
    y = net.conv("box-conv", y, params.whole("head"), 1, act="HardSwish")
    y = net.global_pool("box-pool", y)
    net.dense("box-score", y, params.whole("classes", 1, 1_048_576))
    net.dense("box-delta", y, 4)
    net.ops[start:] = [_repeat(op, proposals) for op in net.ops[start:]]
    return net


def _repeat(op: Op, times: int) -> Op:
    """The same op over `times` images at once: work and activations grow, weights don't."""
    grown = {field: getattr(op, field) * times for field in ("m", "flops", "reads", "writes")}
    return replace(op, **grown)
