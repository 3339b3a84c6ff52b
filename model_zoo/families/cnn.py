"""Convolutional networks on images, clips and volumes, listed layer by layer; of a detector of two stages both are."""

from dataclasses import replace

from model_zoo.families.blocks import attributes, forward
from model_zoo.families.family import Params
from model_zoo.families.images import Tensor
from model_zoo.families.layers import LayerList
from model_zoo.ops import Graph, Op, dim


def build(params: Params, unit: str = "image") -> Graph:
    """The network that `layers` lists, one ``unit`` of which is a request."""
    layers = LayerList(params)
    if params.word("architecture", ("layer-list", "fbnet-detection")) == "layer-list":
        layers.lines(params.text("layers"), layers.net.input)
    else:
        two_stages(layers, params)
    net = layers.net
    return forward(net.ops, unit, dim(net.input.elements, "b"), net.ops[-1].writes)


def two_stages(layers: LayerList, params: Params) -> None:
    """Region proposals on the last map of the trunk that `layers` lists, and on each what its lines below a ``---`` do.

    Each of `proposals` regions is 14 x 14 (as the mobile Mask R-CNN recipes split a classification network).
    """
    trunk, _, box = params.text("layers").partition("---\n")
    net, x = layers.net, layers.lines(trunk, layers.net.input)
    net.group = "proposals"
    anchors, proposals = 15, layers.proposals
    y = net.conv("rpn-conv", x, x.channels, 3)
    score = net.conv("rpn-score", y, anchors, 1, act=None)
    delta = net.conv("rpn-delta", y, 4 * anchors, 1, act=None)
    net.suppress("rpn-nms", anchors * x.pixels, proposals, score.name, delta.name, values=4)
    side, samples = 14, 4
    cells = proposals * side * side * x.channels
    net.group = "box-head"
    io = {"reads": dim(4.0 * samples * cells, "b"), "writes": dim(cells, "b"), "shard": "elements"}
    marks = attributes(regions=proposals, side=side)
    net.op("roi-align", "RoiAlign", x.name, "rpn-nms", flops=dim(8.0 * samples * cells, "b"), **io, attributes=marks)
    # Regions are a batch of small images: one above the other has the same pixels and, without padding between
    # them, the same work.
    start = len(net.ops)
    y = layers.lines(box, Tensor("roi-align", x.channels, side, side))
    net.dense("box-score", y, layers.classes)
    net.dense("box-delta", y, 4)
    net.ops[start:] = [_repeat(op, proposals) for op in net.ops[start:]]


def _repeat(op: Op, times: int) -> Op:
    """The same op over `times` images at once: work and activations grow, weights don't."""
    grown = {field: getattr(op, field) * times for field in ("m", "flops", "reads", "writes")}
    return replace(op, **grown)
