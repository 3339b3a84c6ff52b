"""Op counts of networks on images against loops that count every multiply, a published table and a public counter."""

from itertools import product

import numpy as np
import pytest

from model_zoo import FAMILIES
from model_zoo.families import build_graph
from tests.catalog.test_counts import ZOO, ops_of, weights


def run_conv(x: np.ndarray, filters: int, kernel: int, stride: int, pad: int, groups: int) -> tuple[int, np.ndarray]:
    """Convolution by loops over a padded image (channels, height, width); multiplications with padding count."""
    channels, height, width = x.shape
    image = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
    w = weights(filters, channels // groups, kernel, kernel)
    rows, columns = (height + 2 * pad - kernel) // stride + 1, (width + 2 * pad - kernel) // stride + 1
    out = np.zeros((filters, rows, columns))
    macs = 0
    for f, r, c in np.ndindex(out.shape):
        g = f // (filters // groups)
        window = image[
            g * channels // groups : (g + 1) * channels // groups,
            r * stride : r * stride + kernel,
            c * stride : c * stride + kernel,
        ]
        out[f, r, c] = np.sum(window * w[f])
        macs += window.size
    return macs, out


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("kernel", "pad", "groups"), [(1, 0, 1), (3, 1, 1), (3, 1, 4), (5, 0, 2), (3, 1, 8)])
def test_convolution_counts(kernel, pad, groups, stride):
    from model_zoo.families.images import Net

    net = Net(8, 9, 11)
    out = net.conv("c", net.input, 16, kernel, stride, pad=pad, groups=groups, act=None)
    macs, result = run_conv(weights(8, 9, 11), 16, kernel, stride, pad, groups)
    op = net.ops[0]
    assert op.macs(1) == macs
    assert (out.channels, out.height, out.width) == result.shape
    assert op.writes.at(1) == result.size
    assert op.reads.at(1) == 8 * 9 * 11
    assert op.stored == 16 * (8 // groups) * kernel * kernel + 16
    assert op.macs(4) == 4 * macs


def test_clip_convolution_counts():
    from model_zoo.families.images import Net

    net = Net(2, 5, 6, frames=4)
    out = net.conv("c", net.input, 4, 3, 2, frames=(3, 2), act=None)
    clip = np.pad(weights(2, 4, 5, 6), ((0, 0), (1, 1), (1, 1), (1, 1)))
    macs = elements = 0
    for t, r, c in product(range(0, 4, 2), range(0, 5, 2), range(0, 6, 2)):
        window = clip[:, t : t + 3, r : r + 3, c : c + 3]
        assert window.shape == (2, 3, 3, 3)
        macs += 4 * window.size
        elements += 4
    assert net.ops[0].macs(1) == macs
    assert out.elements == elements


def test_a_window_of_even_side_halves_an_even_image():
    """YOLOv5's first layer left 321 of 640 pixels, and each map behind it was one too wide."""
    layers = "16x6s2!"
    op = build_graph(FAMILIES["cnn"], {"architecture": "layer-list", "layers": layers, "image": 640}).ops[0]
    assert op.writes.at(1) == 16 * 320 * 320


INSIDE = "add 6x3 6! |\nmax2s2v gap\nfc3!"
REGIONS = """6x3 as map
map: 2~! as scores
map: 8~! as places
boxes! scores: | places:
map: {crop}
{inside} nms{count}x3
map: 5"""


@pytest.mark.parametrize(("crop", "count", "pixels"), [("crop16", 7, 4), ("crop16x2", 2, 4), ("align16", 7, 16)])
def test_each_region_of_a_map_is_a_small_image(crop, count, pixels):
    """What stands between a crop and a suppression runs once a region; its weights are read once."""

    def ops_of_layers(text: str, **values):
        return build_graph(FAMILIES["cnn"], {"architecture": "layer-list", "layers": text, "image": 16} | values).ops

    ops = ops_of_layers(REGIONS.format(crop=crop, inside=INSIDE, count=count), proposals=7)
    alone = ops_of_layers(INSIDE, channels=6)
    first = next(n for n, op in enumerate(ops) if op.kind == "RoiAlign")
    assert ops[first].inputs == (ops[1].name, "nms")
    assert ops[first].writes.at(1) == count * 16 * 16 * 6
    assert ops[first].reads.at(1) == pixels * ops[first].writes.at(1)
    for op, single in zip(ops[first + 1 : -3], alone, strict=True):
        assert op.kind == single.kind
        for field in ("flops", "reads", "writes"):
            assert getattr(op, field).at(1) == count * getattr(single, field).at(1), (op.name, field)
        assert op.macs(1) == count * single.macs(1)
        assert (op.stored, op.weights.at(1)) == (single.stored, single.weights.at(1))
    assert ops[-3].attribute("boxes") == count
    assert ops[-2].writes.at(1) == 5 * 16 * 16, "the map itself is one image still"


@pytest.mark.parametrize(
    ("id", "printed", "heads"),
    [("faster-rcnn-resnet50", 57.203e9, ("box-head",)), ("faster-rcnn-resnet101", 112.052e9, ("box-head",)),
     ("faster-rcnn-inception-v2", 30.687e9, ("box-head",)),
     ("rfcn-resnet101", 171.85e9, ("maps", "box-head")),
     ("mask-rcnn-resnet50-atrous", 294.738e9, ("box-head", "mask-head"))],
)  # fmt: skip
def test_detectors_of_two_stages_at_the_size_of_their_pages(id, printed, heads):
    """Open Model Zoo's pages count each second stage once, for one region, on images of 600 or 800 squared."""
    graph = ZOO.graph(id, {"image": 800 if "mask" in id else 600})
    per = {"box-head": 1 if "maps" in heads else ZOO.workload(id).params["proposals"].value, "mask-head": 100}
    total = sum(2 * op.macs(1) / per.get(op.group, 1) for op in graph.ops)
    assert total == pytest.approx(printed, rel=0.01)
    assert {op.group for op in graph.ops} == {"trunk", "proposals", *heads}


ALEXNET = [  # layer, output elements, weights, biases, multiply-adds: shapes of Caffe's deploy.prototxt
    ("conv1", 290_400, 34_848, 96, 105_415_200),
    ("pool1", 69_984, 0, 0, 0),
    ("conv2", 186_624, 307_200, 256, 223_948_800),
    ("pool2", 43_264, 0, 0, 0),
    ("conv3", 64_896, 884_736, 384, 149_520_384),
    ("conv4", 64_896, 663_552, 384, 112_140_288),
    ("conv5", 43_264, 442_368, 256, 74_760_192),
    ("pool5", 9_216, 0, 0, 0),
    ("fc6", 4_096, 37_748_736, 4_096, 37_748_736),
    ("fc7", 4_096, 16_777_216, 4_096, 16_777_216),
    ("fc8", 1_000, 4_096_000, 1_000, 4_096_000),
]


@pytest.mark.parametrize(("layer", "elements", "own", "biases", "macs"), ALEXNET)
def test_alexnet_layer_by_layer(layer, elements, own, biases, macs):
    op = ops_of(ZOO.graph("alexnet"))[layer]
    assert (op.writes.at(1), op.stored, op.macs(1)) == (elements, own + biases, macs)


@pytest.mark.parametrize(
    ("id", "printed", "digit"),
    [
        ("resnet50", 4.11e9, 0.01e9),
        ("resnet152", 11.56e9, 0.01e9),
        ("resnext101-32x4d", 8.01e9, 0.01e9),
        ("densenet161", 7.79e9, 0.01e9),
        ("mobilenet-v1", 0.58e9, 0.01e9),
        ("mobilenet-v2", 0.31e9, 0.01e9),
        ("efficientnet-b0", 0.40e9, 0.01e9),
        ("regnety-32gf", 32.34e9, 0.01e9),
        ("regnety-128gf", 127.66e9, 0.01e9),
    ],
)
def test_public_counter_is_explained_to_its_last_digit(id, printed, digit):
    """The public figures count two more operations per element that a batch normalisation scales and shifts."""
    ops = ops_of(ZOO.graph(id)).values()
    folded = sum(op.writes.at(1) for op in ops if op.attribute("normalised"))
    unfolded = sum(op.writes.at(1) for op in ops if op.kind == "BatchNormalization")
    total = sum(op.macs(1) for op in ops) + 2 * (folded + unfolded)
    assert abs(total - printed) <= max(digit / 2, 0.002 * printed)


def test_image_side_changes_work_and_not_parameters():
    small, large = ZOO.graph("regnety-128gf"), ZOO.graph("regnety-128gf", {"image": 384})
    assert large.parameters == small.parameters
    assert large.macs() == pytest.approx(374.99e9, rel=0.01)  # the public figure at 384 pixels
    assert sum(op.writes.at(1) for op in large.phases[0].ops if op.contraction) == pytest.approx(210.2e6, rel=0.01)


def test_vision_transformer_activations_need_no_length():
    graph = ZOO.graph("vit-b16")
    assert graph.flops(2, 1, 1) == pytest.approx(2 * graph.flops(1, 1, 1))
    assert graph.flops(1, 500, 1) == graph.flops(1, 1, 1)
