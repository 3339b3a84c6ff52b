"""Convolutional networks on images, clips and volumes, listed layer by layer."""

from model_zoo.families.blocks import forward
from model_zoo.families.family import Params
from model_zoo.families.layers import LayerList
from model_zoo.ops import Graph, dim


def build(params: Params, unit: str = "image") -> Graph:
    """The network that `layers` lists, one ``unit`` of which is a request."""
    layers = LayerList(params)
    params.word("architecture", ("layer-list",))
    layers.lines(params.text("layers"), layers.net.input)
    net = layers.net
    return forward(net.ops, unit, dim(net.input.elements, "b"), net.ops[-1].writes)
