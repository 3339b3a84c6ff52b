"""Families of networks: each turns its parameters into a graph of ops. A line here and an entry register one."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from entries.files import read_plain
from model_zoo.families import cnn, diffusion, dlrm, mlp, rnn, transformer_decoder, transformer_encoder
from model_zoo.families.family import NetworkFamily, Params
from model_zoo.ops import Graph
from model_zoo.schema import WorkloadError

_BUILD: dict[str, Callable[[Params], Graph]] = {
    "binary-net": mlp.build_binary,
    "cnn": cnn.build,
    "cnn3d": partial(cnn.build, unit="clip"),
    "diffusion": diffusion.build,
    "dlrm": dlrm.build,
    "mlp": mlp.build,
    "rnn": rnn.build,
    "rnn-transducer": rnn.build_transducer,
    "transformer-decoder": transformer_decoder.build,
    "transformer-encoder": transformer_encoder.build,
    "wide-and-deep": dlrm.build_wide_and_deep,
}
FAMILIES = {
    name: NetworkFamily(name, _BUILD[name], **entry)
    for name, entry in read_plain(Path(__file__).with_name("families.yaml")).items()
}
"""Families by name, with what their entries in families.yaml say of their parameters."""


def build_graph(entry: NetworkFamily, params: Mapping[str, Any]) -> Graph:
    """Graph of a family for a full set of parameters; WorkloadError names the parameter that is wrong."""
    keys = {*entry.required, *entry.defaults}
    for key in params:
        if key not in keys:
            names = ", ".join(sorted(keys)) or "none"
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
