"""Fully connected layers with an activation between them; of +1 or -1: xor, count, compare with a threshold."""

from itertools import pairwise

from model_zoo.families.blocks import Block, forward
from model_zoo.families.family import Params
from model_zoo.ops import Graph, dim

ACTIVATIONS = ("Relu", "Gelu", "Sigmoid", "Tanh")


def build(params: Params) -> Graph:
    widths = params.sizes("widths", min_length=2, high=1_048_576)
    activation = params.word("activation", ACTIVATIONS)
    block = Block(group="fully-connected")
    block.mlp("fc", widths, activation=activation)
    return forward(block.ops, "inference", dim(widths[0], "b"), dim(widths[-1], "b"))


def binary_layers(block: Block, widths: tuple[int, ...], source: str = "") -> None:
    """Binary layers width[0] -> width[1] -> ...: one threshold a neuron takes the place of bias and normalisation.

    The last layer keeps its counts (they are the scores of the classes); a lone layer is thresholded too.
    """
    for index, (k, n) in enumerate(pairwise(widths), 1):
        source = block.linear(f"binary-fc{index}", k, n, source, kind="BinaryGemm", bias=False)
        if index < len(widths) - 1 or len(widths) == 2:
            source = block.vector(f"{source}-sign", "Sign", n, source, stored=float(n))


def build_binary(params: Params) -> Graph:
    inputs = params.whole("inputs", 1, 1_048_576)
    hidden = params.sizes("hidden", high=1_048_576)
    neurons = params.whole("neurons", 1, 1_048_576)
    block = Block(group="binary-fc")
    binary_layers(block, (inputs, *hidden, neurons))
    return forward(block.ops, "inference", dim(inputs, "b"), dim(neurons, "b"))
