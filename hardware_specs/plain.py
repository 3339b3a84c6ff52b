"""YAML and JSON files as plain data: bounded in size and depth, no aliases, no key given twice; and a spec as YAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from hardware_specs.quantity import SpecError

_DEEPEST = 20
_LONGEST = 60  # characters of a number
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_plain(path: Path, most: int) -> Any:
    """What a .yaml, .yml or .json file of at most ``most`` bytes holds; SpecError names the file and the reason."""
    kind = "JSON" if path.suffix == ".json" else "YAML"
    try:
        if path.exists() and not path.is_file():  # a pipe's reader would wait for a writer that never comes
            raise SpecError(f"{path.name}: not a file")
        with path.open("rb") as file:
            raw = file.read(most + 1)
        if len(raw) > most:
            raise SpecError(f"{path.name}: more than the {most} bytes such a file may have")
        return _load_json(raw) if kind == "JSON" else load_yaml(raw)
    except SpecError:
        raise
    except OSError as error:
        raise SpecError(f"{path.name}: not readable ({error.strerror or error})") from None
    except Exception as error:  # whatever the file holds
        raise SpecError(f"{path.name}: not readable as {kind} ({complaint(error)})") from None


def complaint(error: Exception) -> str:
    """What is wrong with a file's text, and in which line."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, line {error.lineno}"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem:
        return f"{error.problem}, line {error.problem_mark.line + 1}" if error.problem_mark else error.problem
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def load_yaml(raw: bytes) -> Any:
    """YAML as plain data; a key given twice (the later would win in silence), an alias and deep nesting are refused."""
    depth = 0
    for event in yaml.parse(raw, _LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("anchors and aliases are not allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise yaml.YAMLError(f"nested more than {_DEEPEST} deep")
    loader = _LOADER(raw)
    try:
        node = loader.get_single_node()
        _refuse(node)
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse(node: yaml.Node | None) -> None:
    """Refuse a key given twice, and a number that takes seconds to read and can't be printed."""
    if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and len(node.value) > _LONGEST:
        line = node.start_mark.line + 1 if node.start_mark else 0
        raise yaml.YAMLError(f"a number of {len(node.value)} characters, line {line}; at most {_LONGEST} are allowed")
    if isinstance(node, yaml.MappingNode):
        seen: set[Any] = set()
        for key, value in node.value:
            name = key.value if isinstance(key.value, str) else str(key.value)
            if name in seen:
                raise yaml.YAMLError(f"key {name[:60]!r} is given twice, line {key.start_mark.line + 1}")
            seen.add(name)
            _refuse(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse(item)


def _load_json(raw: bytes) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise ValueError(f"key {key[:60]!r} is given twice")
            result[key] = value
        return result

    return json.loads(raw, object_pairs_hook=once)


class _NoAliases(yaml.SafeDumper):
    """The catalog refuses anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def spec_text(spec: BaseModel) -> str:
    """A device as the YAML that the catalog reads."""
    data = spec.model_dump(mode="json", exclude_defaults=True)
    data["power"] = data.get("power", {})
    return yaml.dump(data, Dumper=_NoAliases, sort_keys=False, allow_unicode=True, width=110)
