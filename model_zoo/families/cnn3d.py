"""Convolutional network on clips: ResNeXt3D, bottlenecks of 1 x 1 x 1 and depthwise 3 x 3 x 3 convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model_zoo.families.family import NetworkFamily, Params
from model_zoo.families.images import Net
from model_zoo.ops import Graph, Phase, dim

__all__ = ["FAMILY"]


def _build(values: Mapping[str, Any]) -> Graph:
    """Channel-separated bottlenecks (Tran 2019); time is halved by stages 2 to 4 while there are frames to halve."""
    params = Params(values)
    image, frames = params.whole("image", 16, 4096), params.whole("frames", 1, 1024)
    widths, inner = params.sizes("widths", 1), params.sizes("inner", 1)
    net = Net(3, image, image, frames)
    x = net.conv("stem", net.input, params.whole("stem"), 7, 2, frames=(3, 1))
    x = net.pool("maxpool", x, 3, 2, pad=1)
    for stage, (depth, outer, middle) in enumerate(zip(params.sizes("depths", 1), widths, inner), 1):
        net.stage = f"stage{stage}"
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
    net.stage = "head"
    x = net.global_pool("avgpool", x)
    for index, width in enumerate(params.sizes("hidden"), 1):
        x = net.dense(f"embed{index}", x, width, act="Relu")
    net.dense("fc", x, params.whole("classes", 1, 1_048_576))
    return Graph(
        phases=(Phase("forward", tuple(net.ops)),),
        unit="clip",
        input_elements=dim(net.input.elements, "b"),
        output_elements=net.ops[-1].writes,
    )


FAMILY = NetworkFamily(
    name="cnn3d",
    build=_build,
    required=("depths", "widths", "inner"),
    defaults={"image": 112, "frames": 4, "stem": 64, "hidden": (), "classes": 400},
    adjustable={"image": ("Frame side [pixels]", 16, 1024), "frames": ("Frames", 1, 256)},
)
