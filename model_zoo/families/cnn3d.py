"""Convolutional networks on clips and volumes: ResNeXt3D, of depthwise 3 x 3 x 3 convolutions, and the 3D U-Net."""

from model_zoo.families.blocks import forward
from model_zoo.families.family import Params
from model_zoo.families.images import Net, Tensor
from model_zoo.ops import Graph, dim


def _unet(params: Params) -> Graph:
    """3D U-Net: two 3 x 3 x 3 convolutions a level, the first of which halves, and back up beside them."""
    side, classes = params.whole("image", 16, 4096), params.whole("classes", 1, 1_048_576)
    net = Net(params.whole("channels", 1, 65536), side, side, params.whole("frames", 1, 4096))

    def twice(stage: str, x: Tensor, width: int, stride: int = 1) -> Tensor:
        net.group = stage
        for i, step in enumerate((stride, 1), 1):
            x = net.conv(f"{stage}-conv{i}", x, width, 3, step, frames=(3, step), act=None, normalised=False)
            x = net.normalise(f"{stage}-norm{i}", x, kind="LayerNormalization")
        return x

    widths = params.sizes("widths", 2)
    levels = [twice("level1", net.input, widths[0])]
    for n, width in enumerate(widths[1:], 2):
        levels.append(twice(f"level{n}", levels[-1], width, 2))
    x = levels.pop()
    for n, (beside, width) in reversed(list(enumerate(zip(levels, widths, strict=False), 1))):
        net.group = f"up{n}"
        x = net.concat(f"up{n}-concat", [net.upconv(f"up{n}-conv", x, width), beside])
        x = twice(f"back{n}", x, width)
    net.group = "head"
    net.conv("segments", x, classes, 1, act=None, normalised=False)
    return _graph(net)


def _graph(net: Net) -> Graph:
    return forward(net.ops, "clip", dim(net.input.elements, "b"), net.ops[-1].writes)


def build(params: Params) -> Graph:
    if params.word("architecture", ("resnext3d", "unet")) == "unet":
        return _unet(params)
    return _resnext(params)


def _resnext(params: Params) -> Graph:
    """Channel-separated bottlenecks (Tran 2019); time is halved by stages 2 to 4 while there are frames to halve."""
    image, frames = params.whole("image", 16, 4096), params.whole("frames", 1, 1024)
    widths, inner = params.sizes("widths", 1), params.sizes("inner", 1)
    net = Net(3, image, image, frames)
    x = net.conv("stem", net.input, params.whole("stem"), 7, 2, frames=(3, 1))
    x = net.pool("maxpool", x, 3, 2, pad=1)
    for stage, (depth, outer, middle) in enumerate(zip(params.sizes("depths", 1), widths, inner), 1):
        net.group = f"stage{stage}"
        for index in range(1, depth + 1):
            down = stage > 1 and index == 1
            name, stride = f"s{stage}b{index}", 2 if down else 1
            step = 2 if down and x.frames > 1 else 1
            y = net.conv(f"{name}-conv1", x, middle, 1)
            y = net.conv(f"{name}-conv2", y, middle, 3, stride, groups=middle, frames=(3, step))
            y = net.conv(f"{name}-conv3", y, outer, 1, act=None)
            if index == 1:
                x = net.conv(f"{name}-shortcut", x, outer, 1, stride, act=None, frames=(1, step))
            x = net.add(f"{name}-add", y, x, "Relu")
    net.group = "head"
    x = net.global_pool("avgpool", x)
    for index, width in enumerate(params.sizes("hidden"), 1):
        x = net.dense(f"embed{index}", x, width, act="Relu")
    net.dense("fc", x, params.whole("classes", 1, 1_048_576))
    return _graph(net)
