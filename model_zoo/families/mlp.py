"""Multi-layer perceptron: fully connected layers with an activation between them."""

from __future__ import annotations

from model_zoo.families.blocks import Block
from model_zoo.families.family import NetworkFamily, Params
from model_zoo.ops import Graph, Phase, dim

ACTIVATIONS = ("Relu", "Gelu", "Sigmoid", "Tanh")


def _build(params: Params) -> Graph:
    widths = params.sizes("widths", least=2, high=1_048_576)
    activation = params.word("activation", ACTIVATIONS)
    block = Block(group="fully-connected")
    block.mlp("fc", widths, activation=activation)
    return Graph(
        phases=(Phase("forward", tuple(block.ops)),),
        unit="inference",
        input_elements=dim(widths[0], "b"),
        output_elements=dim(widths[-1], "b"),
    )


FAMILY = NetworkFamily(
    name="mlp",
    build=_build,
    required=("widths",),
    defaults={"activation": "Relu"},
    adjustable={},
)
