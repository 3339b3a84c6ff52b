"""Convolutional networks on images: the classic architectures layer by layer, and the door to the mobile ones."""

from __future__ import annotations

from collections.abc import Callable

from model_zoo.families import mobile
from model_zoo.families.binary_net import binary_layers
from model_zoo.families.blocks import forward
from model_zoo.families.detection import pyramid_heads
from model_zoo.families.family import Params
from model_zoo.families.images import Net, Tensor
from model_zoo.families.layers import layers
from model_zoo.ops import Graph, dim


def alexnet(params: Params) -> Net:
    """AlexNet as Caffe's deploy.prototxt has it: two groups in conv2, conv4 and conv5, LRN before the pools."""
    net = mobile.square(params)
    net.group = "convolution"
    x = net.conv("conv1", net.input, 96, 11, 4, pad=0, normalised=False)
    x = net.pool("pool1", net.lrn("norm1", x), 3, 2, ceil=True)
    x = net.conv("conv2", x, 256, 5, groups=2, normalised=False)
    x = net.pool("pool2", net.lrn("norm2", x), 3, 2, ceil=True)
    x = net.conv("conv3", x, 384, 3, normalised=False)
    x = net.conv("conv4", x, 384, 3, groups=2, normalised=False)
    x = net.conv("conv5", x, 256, 3, groups=2, normalised=False)
    x = net.pool("pool5", x, 3, 2, ceil=True)
    net.group = "fully-connected"
    x = net.dense("fc6", x, 4096, act="Relu")
    x = net.dense("fc7", x, 4096, act="Relu")
    net.softmax("prob", net.dense("fc8", x, params.whole("classes", 1, 1_048_576)))
    return net


def vgg(params: Params) -> Net:
    """VGG: `depths` 3 x 3 convolutions of `widths` filters, a 2 x 2 pool after each stage, `hidden` wide layers."""
    net = mobile.square(params)
    x = net.input
    for stage, (depth, width) in enumerate(zip(params.sizes("depths", 1), params.sizes("widths", 1)), 1):
        net.group = f"stage{stage}"
        for index in range(1, depth + 1):
            x = net.conv(f"conv{stage}-{index}", x, width, 3, normalised=False)
        x = net.pool(f"pool{stage}", x, 2, 2)
    net.group = "fully-connected"
    hidden, classes = params.sizes("hidden"), params.whole("classes", 1, 1_048_576)
    if params.word("binary_head", ("no", "yes")) == "yes":
        net.group = "binary-fc"
        binary_layers(net, (x.elements, *hidden, classes), x.name)
        return net
    for index, width in enumerate(hidden, 1):
        x = net.dense(f"fc{index}", x, width, act="Relu")
    net.dense("classifier", x, classes)
    return net


def _residual(params: Params) -> tuple[Net, list[Tensor]]:
    """The trunk of a bottleneck ResNet or ResNeXt, and what each stage leaves.

    `groups` of `group_width` channels; `strided` is the convolution that halves the image: the 3 x 3 one, as today's
    definitions have it, or the 1 x 1 before it, as first published.
    """
    net, left = mobile.square(params), []
    early = params.word("strided", ("3x3", "1x1")) == "1x1"
    groups, per_group = params.whole("groups", 1, 65536), params.whole("group_width", 1, 65536)
    x = net.conv("conv1", net.input, 64, 7, 2)
    x = net.pool("maxpool", x, 3, 2, pad=1)
    for stage, depth in enumerate(params.sizes("depths", 1), 1):
        net.group = f"stage{stage}"
        planes = 64 * 2 ** (stage - 1)
        inner, outer = planes * per_group // 64 * groups, planes * 4
        for index in range(1, depth + 1):
            name, stride = f"s{stage}b{index}", 2 if stage > 1 and index == 1 else 1
            y = net.conv(f"{name}-conv1", x, inner, 1, stride if early else 1)
            y = net.conv(f"{name}-conv2", y, inner, 3, 1 if early else stride, groups=groups)
            y = net.conv(f"{name}-conv3", y, outer, 1, act=None)
            if index == 1:
                x = net.conv(f"{name}-shortcut", x, outer, 1, stride, act=None)
            x = net.add(f"{name}-add", y, x, "Relu")
        left.append(x)
    return net, left


def resnet(params: Params) -> Net:
    """Bottleneck ResNet and ResNeXt."""
    net, left = _residual(params)
    return mobile.classify(net, left[-1], params)


def retinanet(params: Params) -> Net:
    """RetinaNet on such a trunk."""
    net, left = _residual(params)
    return pyramid_heads(net, left[-3:], params)


def densenet(params: Params) -> Net:
    """DenseNet-BC: normalise, 1 x 1 to 4 growths, 3 x 3 to one growth, appended to what came before."""
    net = mobile.square(params)
    growth = params.whole("growth", 1, 65536)
    x = net.conv("conv0", net.input, 2 * growth, 7, 2)
    x = net.pool("pool0", x, 3, 2, pad=1)
    depths = params.sizes("depths", 1)
    for stage, depth in enumerate(depths, 1):
        net.group = f"stage{stage}"
        for index in range(1, depth + 1):
            name = f"s{stage}l{index}"
            y = net.normalise(f"{name}-norm", x)
            y = net.conv(f"{name}-conv1", y, 4 * growth, 1)
            y = net.conv(f"{name}-conv2", y, growth, 3, act=None, normalised=False)
            x = net.concat(f"{name}-concat", [x, y])
        if stage < len(depths):
            y = net.normalise(f"transition{stage}-norm", x)
            y = net.conv(f"transition{stage}-conv", y, x.channels // 2, 1, act=None, normalised=False)
            x = net.pool(f"transition{stage}-pool", y, 2, 2, kind="AveragePool")
    return mobile.classify(net, net.normalise("norm5", x), params)


ARCHITECTURES: dict[str, Callable[[Params], Net]] = {
    "alexnet": alexnet,
    "densenet": densenet,
    "efficientnet": mobile.efficientnet,
    "fbnet-detection": mobile.fbnet_detection,
    "layer-list": layers,
    "mobilenet-v1": mobile.mobilenet_v1,
    "mobilenet-v2": mobile.mobilenet_v2,
    "regnet-y": mobile.regnet_y,
    "resnet": resnet,
    "retinanet": retinanet,
    "vgg": vgg,
}


def build(params: Params) -> Graph:
    net = ARCHITECTURES[params.word("architecture", tuple(ARCHITECTURES))](params)
    return forward(net.ops, "image", dim(net.input.elements, "b"), net.ops[-1].writes)
