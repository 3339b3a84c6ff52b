"""Names, constants, switches, rules and assumptions of a family, as the `model.yaml` of its room says them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.devices.common.setting import Parameter, Rule, Setting, Switch
from entries.files import load_yaml


def parameters_of(path: Path) -> tuple[Parameter, ...]:
    """Those of a file: values and limits are numbers, each in its own [unit]. TypeError for any other key."""
    return _parameters(load_yaml(path.read_bytes()))


def _parameters(data: Mapping[str, Any]) -> tuple[Parameter, ...]:
    result = []
    for name, row in data["parameters"].items():
        amounts = {key: float(row[key]) for key in ("value", "low", "high") if key in row}
        result.append(Parameter(name, **row | amounts | {"claims": tuple(row.get("claims", ()))}))
    return tuple(result)


def runtimes(module: str) -> dict[str, Setting]:
    """What each runtime of the `runtimes.yaml` beside a module sets."""
    data = load_yaml(Path(module).with_name("runtimes.yaml").read_bytes())
    base = data.get("every", {})  # what all of them set
    rows = {name: row | {key: base[key] | row.get(key, {}) for key in base} for name, row in data["runtimes"].items()}
    return {name: _setting(row) for name, row in rows.items()}


def _setting(row: Mapping[str, Any]) -> Setting:
    prompts = _setting(row["prompts"]) if "prompts" in row else None
    return Setting(row["switches"], row.get("parameters", {}), prompts, row.get("engine", ""))


def model_file(module: str, before: tuple[Parameter, ...] = (), after: tuple[Parameter, ...] = ()) -> dict[str, Any]:
    """What `DeviceFamily` takes of the file beside a module, whose `__file__` it is given.

    Parameters that families share come `before` or `after` those of the file. TypeError or KeyError for any other key.
    """
    data = load_yaml(Path(module).with_name("model.yaml").read_bytes())
    rules = tuple(Rule(row["text"], tuple(row["claims"])) for row in data.get("rules", ()))
    return data["family"] | {
        "parameters": (*before, *_parameters(data), *after),
        "switches": tuple(Switch(name, **row) for name, row in data["switches"].items()),
        "rules": rules,
        "assumptions": tuple(data["assumptions"]),
    }
