"""YAML and JSON files as plain data: bounded in size and depth, no aliases, no key given twice."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from entries.schema import InputError, one_sentence

MAX_BYTES = 256 * 1024  # of one entry of a catalog
_DEEPEST = 20  # levels; YAML's loader calls itself once a level, and deep nesting ends the process
_LONGEST = 60  # characters of a number: a longer one takes seconds to read and can't be printed
PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def user_root() -> Path:
    """Folder of a user's own entries: ``INFERSCAPE_CATALOG``, else ``~/.inferscape/catalog``; it need not exist."""
    return Path(os.environ.get("INFERSCAPE_CATALOG") or os.path.expanduser("~/.inferscape/catalog"))


def read_bytes(path: Path, limit: int) -> bytes:
    """Bytes of a file of at most so many; InputError in one sentence, without the file's name, otherwise."""
    try:
        if path.exists() and not path.is_file():  # a pipe's reader would wait for a writer that never comes
            raise InputError("not a file")
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except OSError as error:
        raise InputError(f"not readable ({error.strerror or type(error).__name__})") from None
    if len(raw) > limit:
        raise InputError(f"more than the {limit} bytes such a file may have")
    return raw


def read_plain(path: Path, limit: int = MAX_BYTES, failure: type[InputError] = InputError) -> Any:
    """What a .yaml, .yml or .json file of at most ``limit`` bytes holds; a ``failure`` names file and reason."""
    try:
        return plain(read_bytes(path, limit), "JSON" if path.suffix == ".json" else "YAML")
    except InputError as error:
        raise failure(f"{path.name}: {error}") from None


def read_entry(path: Path, schema: type[BaseModel], failure: type[InputError]) -> Any:
    """One YAML as an object of ``schema`` with the file's name as its id; a ``failure`` names file and reason."""
    try:
        entry: Any = schema.model_validate(read_plain(path, failure=failure))
    except ValidationError as error:
        raise failure(f"{path.name}: {one_sentence(error, schema)}") from None
    if entry.id != path.stem:
        raise failure(f"{path.name}: id is {entry.id!r}; it must equal the file's name {path.stem!r}")
    return entry


def plain(raw: bytes, kind: str) -> Any:
    """What a text in ``JSON`` or ``YAML`` holds; InputError in one sentence otherwise."""
    try:
        return _load_json(raw) if kind == "JSON" else load_yaml(raw)
    except Exception as error:  # whatever the file holds
        raise InputError(f"not readable as {kind} ({_complaint(error)})") from None


def _complaint(error: Exception) -> str:
    """What is wrong with a file's text, and in which line."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, line {error.lineno}"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem:
        return f"{error.problem}, line {error.problem_mark.line + 1}" if error.problem_mark else error.problem
    return str(error).splitlines()[0] if str(error) else type(error).__name__


class _Loader(PARSER):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node; a key given twice is an error, because the later would win in silence."""
        keys: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in keys:
                raise yaml.MarkedYAMLError(problem=f"key {name[:60]!r} is given twice", problem_mark=key.start_mark)
            keys.add(name)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """A number of at most so many characters."""
        if len(node.value) > _LONGEST:
            raise yaml.MarkedYAMLError(problem=_too_long(node.value), problem_mark=node.start_mark)
        return self.construct_yaml_int(node) if node.tag.endswith(":int") else self.construct_yaml_float(node)


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.construct_number)
_POWER_OF_TEN = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")  # as YAML 1.2 and JSON have it; 1.1 wants 5.0e-7
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _POWER_OF_TEN, list("-+.0123456789"))


def load_yaml(raw: bytes) -> Any:
    """YAML as plain data; a key given twice, an alias and deep nesting are refused."""
    depth = 0
    for event in yaml.parse(raw, PARSER):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("anchors and aliases are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise yaml.YAMLError(f"nested more than {_DEEPEST} deep")
    return yaml.load(raw, _Loader)


def _load_json(raw: bytes) -> Any:
    def number(read: Callable[[str], Any]) -> Callable[[str], Any]:
        def parse(text: str) -> Any:
            if len(text) > _LONGEST:
                raise ValueError(_too_long(text))
            return read(text)

        return parse

    text = raw.decode("utf-8-sig")
    data = json.loads(text, object_pairs_hook=_once, parse_int=number(int), parse_float=number(float))
    level = [data]
    for _ in range(_DEEPEST + 1):
        inner = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [value for values in inner for value in values]
    if level:
        raise ValueError(f"nested more than {_DEEPEST} deep")
    return data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON without a key given twice."""
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)[:60]!r} is given twice")
    return result


def _too_long(number: str) -> str:
    return f"a number of {len(number)} characters; at most {_LONGEST} are allowed"
