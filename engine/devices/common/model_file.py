"""Constants, switches, rules and assumptions of a family's model, as the `model.yaml` of its room says them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.devices.common.contract import Parameter, Rule, Switch
from entries.files import load_yaml
from model_zoo.ops import Graph


def model_file(
    module: str,
    before: tuple[Parameter, ...] = (),
    after: tuple[Parameter, ...] = (),
    **applies: Callable[[Graph], bool],
) -> dict[str, Any]:
    """What `DeviceFamily` takes of the file beside a module, whose `__file__` it is given.

    Parameters that families share come `before` or `after` those of the file. A parameter's value and limits are
    numbers in its own [unit]; a switch names in `applies` the function that says for which networks it can matter.
    TypeError or KeyError for any other key.
    """
    data = load_yaml(Path(module).with_name("model.yaml").read_bytes())
    numbers, parameters, switches = ("value", "low", "high"), [], []
    for name, row in data["parameters"].items():
        amounts = {key: float(row[key]) for key in numbers if key in row}
        parameters.append(Parameter(name, **row | amounts | {"claims": tuple(row.get("claims", ()))}))
    for name, row in data["switches"].items():
        matters = {"applies": applies[row["applies"]]} if "applies" in row else {}
        switches.append(Switch(name, **row | matters))
    rules = tuple(Rule(row["text"], tuple(row["claims"])) for row in data.get("rules", ()))
    return {
        "parameters": (*before, *parameters, *after),
        "switches": tuple(switches),
        "rules": rules,
        "assumptions": tuple(data["assumptions"]),
    }
