"""Multi-layer perceptron: fully connected layers with an activation between them."""

from model_zoo.families.blocks import Block, forward
from model_zoo.families.family import Params
from model_zoo.ops import Graph, dim

ACTIVATIONS = ("Relu", "Gelu", "Sigmoid", "Tanh")


def build(params: Params) -> Graph:
    widths = params.sizes("widths", least=2, high=1_048_576)
    activation = params.word("activation", ACTIVATIONS)
    block = Block(group="fully-connected")
    block.mlp("fc", widths, activation=activation)
    return forward(block.ops, "inference", dim(widths[0], "b"), dim(widths[-1], "b"))
