"""Convolutional networks on images, listed layer by layer; of detectors the trunk is."""

from model_zoo.families.blocks import forward
from model_zoo.families.detection import retinanet, two_stages
from model_zoo.families.family import Params
from model_zoo.families.layers import LayerList
from model_zoo.ops import Graph, dim

_DETECTORS = {"fbnet-detection": two_stages, "retinanet": retinanet}


def build(params: Params) -> Graph:
    listed, architecture = LayerList(params), params.word("architecture", ("layer-list", *_DETECTORS))
    if architecture in _DETECTORS:
        _DETECTORS[architecture](listed, params)
    else:
        listed.lines(params.text("layers"), listed.net.input)
    net = listed.net
    return forward(net.ops, "image", dim(net.input.elements, "b"), net.ops[-1].writes)
