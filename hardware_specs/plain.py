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
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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


class _Loader(_PARSER):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node; a key given twice is an error, because the later would win in silence."""
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.MarkedYAMLError(problem=f"key {name[:60]!r} is given twice", problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """A number of at most so many characters: a longer one takes seconds to read and can't be printed."""
        if len(node.value) > _LONGEST:
            size = f"a number of {len(node.value)} characters; at most {_LONGEST} are allowed"
            raise yaml.MarkedYAMLError(problem=size, problem_mark=node.start_mark)
        return self.construct_yaml_int(node) if node.tag.endswith(":int") else self.construct_yaml_float(node)


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.construct_number)


def load_yaml(raw: bytes) -> Any:
    """YAML as plain data; a key given twice, an alias and deep nesting are refused."""
    depth = 0
    for event in yaml.parse(raw, _PARSER):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("anchors and aliases are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise yaml.YAMLError(f"nested more than {_DEEPEST} deep")
    return yaml.load(raw, _Loader)


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
