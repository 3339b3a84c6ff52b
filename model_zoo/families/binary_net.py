"""Fully connected layers with weights and activations of +1 or -1: xor, population count, compare with a threshold."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from model_zoo.families.blocks import elementwise, linear
from model_zoo.families.family import NetworkFamily, Params
from model_zoo.ops import Dim, Graph, Op, Phase, dim


def binary_layers(rows: Dim, widths: tuple[int, ...], *, group: str, source: tuple[str, ...] = ()) -> list[Op]:
    """Binary layers width[0] -> width[1] -> ...: one threshold a neuron takes the place of bias and normalisation.

    The last layer keeps its counts (they are the scores of the classes); a lone layer is thresholded too.
    """
    ops: list[Op] = []
    previous = source
    for index, (k, n) in enumerate(pairwise(widths), 1):
        name = f"binary-fc{index}"
        ops.append(linear(name, rows, k, n, group=group, inputs=previous, kind="BinaryGemm", bias=False))
        previous = (name,)
        if index < len(widths) - 1 or len(widths) == 2:
            ops.append(elementwise(f"{name}-sign", "Sign", rows * n, group=group, inputs=previous, stored=float(n)))
            previous = (f"{name}-sign",)
    return ops


def _build(values: Mapping[str, Any]) -> Graph:
    params = Params(values)
    inputs = params.whole("inputs", 1, 1_048_576)
    hidden = params.sizes("hidden", high=1_048_576)
    neurons = params.whole("neurons", 1, 1_048_576)
    widths = (inputs, *hidden, neurons)
    ops = binary_layers(dim(1, "b"), widths, group="binary-fc")
    return Graph(
        phases=(Phase("forward", tuple(ops)),),
        unit="inference",
        input_elements=dim(inputs, "b"),
        output_elements=dim(neurons, "b"),
    )


FAMILY = NetworkFamily(
    name="binary-net",
    build=_build,
    required=("inputs", "neurons"),
    defaults={"hidden": ()},
    adjustable={"inputs": ("Inputs", 1, 262_144), "neurons": ("Neurons of the last layer", 1, 262_144)},
)
