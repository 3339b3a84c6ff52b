"""Detectors on a pyramid of feature maps: RetinaNet."""

from __future__ import annotations

from model_zoo.families.blocks import elementwise
from model_zoo.families.family import Params
from model_zoo.families.images import Net, Tensor
from model_zoo.ops import Op, dim

_WIDTH, _ANCHORS, _TOWER = 256, 9, 4  # channels of the pyramid, boxes a pixel, convolutions of a head


def pyramid_heads(net: Net, maps: list[Tensor], params: Params) -> Net:
    """Feature pyramid of five maps on the last three of a trunk, two heads on each, and what suppresses boxes.

    A head is the same convolutions on every map: its parameters are counted with the first.
    """
    net.stage = "pyramid"
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
    classes, proposals = params.whole("classes", 1, 65536), params.whole("proposals", 1, 65536)
    outs: list[str] = []
    for head, each in (("class", classes), ("box", 4)):
        net.stage = f"{head}-head"
        for n, y in enumerate(levels, 3):
            begin, source = len(net.ops), y
            for i in range(1, _TOWER + 1):
                source = net.conv(f"{head}{n}-conv{i}", source, _WIDTH, 3, normalised=False)
            net.conv(f"{head}{n}-out", source, _ANCHORS * each, 3, act=None, normalised=False)
            if n > 3:
                net.ops[begin:] = [net.without_parameters(op) for op in net.ops[begin:]]
            outs.append(f"{head}{n}-out")
    net.stage = "boxes"
    boxes = _ANCHORS * sum(level.pixels for level in levels)
    scores = dim(boxes * classes, "b")
    net.ops.append(elementwise("score", "Sigmoid", scores, group="boxes", inputs=tuple(outs[:5])))
    net.ops.append(
        Op(
            name="nms",
            kind="NonMaxSuppression",
            group="boxes",
            inputs=("score", *outs[5:]),
            flops=dim(boxes * 10.0, "b"),
            reads=dim(5.0 * boxes, "b"),
            writes=dim(6.0 * proposals, "b"),
            quantisable=False,
            attributes=(("boxes", float(boxes)), ("kept", float(proposals))),
        )
    )
    return net
