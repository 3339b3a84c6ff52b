"""Families of networks: each turns its parameters into a graph of ops. One line here registers one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from model_zoo.ops import Graph
from model_zoo.schema import WorkloadError

__all__ = ["FAMILIES", "Family", "build"]


@dataclass(frozen=True)
class Family:
    """How to build a network and which of its parameters a user may turn in a scenario.

    `defaults` lists every parameter that may be left out; a parameter that is neither there nor in `required` is
    an error. `adjustable` maps a parameter to its label and allowed range. `input_label` and `output_label` name the
    request's lengths (None: the family has no such length).
    """

    name: str
    build: Callable[[Mapping[str, Any]], Graph]
    required: tuple[str, ...]
    defaults: Mapping[str, Any]
    adjustable: Mapping[str, tuple[str, float, float]]
    input_label: str | None = None
    output_label: str | None = None


FAMILIES: dict[str, Family] = {}


def build(family: str, params: Mapping[str, Any]) -> Graph:
    """Graph of a family for a full set of parameters; WorkloadError names the parameter that is wrong."""
    entry = FAMILIES[family]
    allowed = {*entry.required, *entry.defaults}
    for key in params:
        if key not in allowed:
            raise WorkloadError(
                f"parameter {str(key)[:60]!r} is not one of family {family!r}; allowed: {', '.join(sorted(allowed))}"
            )
    for key in entry.required:
        if key not in params:
            raise WorkloadError(f"family {family!r} needs the parameter {key!r}")
    return entry.build({**entry.defaults, **params})
