"""Detectors whose trunk and heads a file lists: RetinaNet on a pyramid of feature maps, an FBNet of two stages."""

from dataclasses import replace

from model_zoo.families.blocks import attributes
from model_zoo.families.family import Params
from model_zoo.families.images import Tensor
from model_zoo.families.layers import LayerList
from model_zoo.ops import Op, dim

_WIDTH, _ANCHORS, _TOWER = 256, 9, 4  # channels of the pyramid, boxes a pixel, convolutions of a head


def retinanet(listed: LayerList, params: Params) -> None:
    """Five maps on the tensors c3, c4 and c5 of a trunk, two heads on each, and what suppresses boxes.

    A head is the same convolutions on every map: its parameters are counted with the first.
    """
    listed.lines(params.text("layers"), listed.net.input)
    net, maps = listed.net, [listed.tensor(name) for name in ("c3", "c4", "c5")]
    net.group = "pyramid"
    merged: list[Tensor] = []
    for level, x in reversed(list(enumerate(maps, 3))):
        y = net.conv(f"lateral{level}", x, _WIDTH, 1, act=None, normalised=False)
        if merged:
            up = net.resize(f"up{level}", merged[0], y)
            y = net.add(f"merge{level}", y, up)
        merged.insert(0, y)
    levels = [net.conv(f"p{n}", y, _WIDTH, 3, act=None, normalised=False) for n, y in enumerate(merged, 3)]
    for n in (6, 7):
        levels.append(net.conv(f"p{n}", levels[-1], _WIDTH, 3, 2, act=None, normalised=False))
    classes, proposals = listed.classes, params.whole("proposals", 1, 65536)
    outs: list[str] = []
    for head, each in (("class", classes), ("box", 4)):
        net.group = f"{head}-head"
        for n, y in enumerate(levels, 3):
            begin, source = len(net.ops), y
            for i in range(1, _TOWER + 1):
                source = net.conv(f"{head}{n}-conv{i}", source, _WIDTH, 3, normalised=False)
            net.conv(f"{head}{n}-out", source, _ANCHORS * each, 3, act=None, normalised=False)
            if n > 3:
                net.ops[begin:] = [replace(op, stored=0.0) for op in net.ops[begin:]]
            outs.append(f"{head}{n}-out")
    net.group = "boxes"
    boxes = _ANCHORS * sum(level.pixels for level in levels)
    scores = net.each("score", "Sigmoid", boxes * classes, *outs[:5])
    net.suppress("nms", boxes, proposals, scores, *outs[5:])


def two_stages(listed: LayerList, params: Params) -> None:
    """Region proposals on the last map of the trunk that `layers` lists, and on each what its lines below a ``---`` do.

    Each of `proposals` regions is 14 x 14 (as the mobile Mask R-CNN recipes split a classification network).
    """
    trunk, _, box = params.text("layers").partition("---\n")
    net, x = listed.net, listed.lines(trunk, listed.net.input)
    net.group = "proposals"
    anchors, proposals = 15, params.whole("proposals", 1, 65536)
    y = net.conv("rpn-conv", x, x.channels, 3)
    score = net.conv("rpn-score", y, anchors, 1, act=None)
    delta = net.conv("rpn-delta", y, 4 * anchors, 1, act=None)
    net.suppress("rpn-nms", anchors * x.pixels, proposals, score.name, delta.name, values=4)
    side, samples = 14, 4
    cells = proposals * side * side * x.channels
    net.group = "box-head"
    moved = {"reads": dim(4.0 * samples * cells, "b"), "writes": dim(cells, "b"), "shard": "elements"}
    marks = attributes(regions=proposals, side=side)
    net.op("roi-align", "RoiAlign", x.name, "rpn-nms", flops=dim(8.0 * samples * cells, "b"), **moved, attributes=marks)
    # Regions are a batch of small images: one above the other has the same pixels and, without padding between
    # them, the same work.
    start = len(net.ops)
    y = listed.lines(box, Tensor("roi-align", x.channels, side, side))
    net.dense("box-score", y, listed.classes)
    net.dense("box-delta", y, 4)
    net.ops[start:] = [_repeat(op, proposals) for op in net.ops[start:]]


def _repeat(op: Op, times: int) -> Op:
    """The same op over `times` images at once: work and activations grow, weights don't."""
    grown = {field: getattr(op, field) * times for field in ("m", "flops", "reads", "writes")}
    return replace(op, **grown)
