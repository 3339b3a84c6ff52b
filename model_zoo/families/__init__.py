"""Families of networks: each turns its parameters into a graph of ops. One line here registers one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model_zoo.families import (
    binary_net,
    cnn,
    cnn3d,
    diffusion,
    dlrm,
    mlp,
    rnn,
    rnn_transducer,
    transformer_decoder,
    transformer_encoder,
    wide_and_deep,
)
from model_zoo.families.family import NetworkFamily, Params
from model_zoo.ops import Graph
from model_zoo.schema import WorkloadError

FAMILIES: dict[str, NetworkFamily] = {
    family.name: family
    for family in (
        binary_net.FAMILY,
        cnn.FAMILY,
        cnn3d.FAMILY,
        diffusion.FAMILY,
        dlrm.FAMILY,
        mlp.FAMILY,
        rnn.FAMILY,
        rnn_transducer.FAMILY,
        transformer_decoder.FAMILY,
        transformer_encoder.FAMILY,
        wide_and_deep.FAMILY,
    )
}


def build(family: str, params: Mapping[str, Any]) -> Graph:
    """Graph of the family of that name for a full set of parameters; WorkloadError names the one that is wrong."""
    return built(FAMILIES[family], params)


def built(entry: NetworkFamily, params: Mapping[str, Any]) -> Graph:
    """Graph of a family for a full set of parameters; WorkloadError names the parameter that is wrong."""
    allowed = {*entry.required, *entry.defaults}
    for key in params:
        if key not in allowed:
            names = ", ".join(sorted(allowed)) or "none"
            raise WorkloadError(f"parameter {str(key)[:60]!r} is not one of family {entry.name!r}; allowed: {names}")
    for key in entry.required:
        if key not in params:
            raise WorkloadError(f"family {entry.name!r} needs the parameter {key!r}")
    for key, (label, low, high) in entry.adjustable.items():
        value = params.get(key, low)  # a family's own default need not lie in the range a user may turn
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise WorkloadError(
                f"parameter {key!r} ({label}) is {str(value)[:60]!r}; a number from {low:g} to {high:g} is allowed"
            )
    return entry.build(Params({**entry.defaults, **params}))
