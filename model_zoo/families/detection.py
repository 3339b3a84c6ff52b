"""Detectors on a pyramid of feature maps: RetinaNet."""

from __future__ import annotations

from dataclasses import replace

from model_zoo.families.family import Params
from model_zoo.families.images import Net, Tensor

_WIDTH, _ANCHORS, _TOWER = 256, 9, 4  # channels of the pyramid, boxes a pixel, convolutions of a head


def pyramid_heads(net: Net, maps: list[Tensor], params: Params) -> Net:
    """Feature pyramid of five maps on the last three of a trunk, two heads on each, and what suppresses boxes.

    A head is the same convolutions on every map: its parameters are counted with the first.
    """
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
    classes, proposals = params.whole("classes", 1, 65536), params.whole("proposals", 1, 65536)
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
    return net
