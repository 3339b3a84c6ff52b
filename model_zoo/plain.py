"""A workload's YAML as plain data: bounded in size and depth, without aliases, and no key given twice.

`hardware_specs.plain` does the same for specs: the two packages know nothing of each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from model_zoo.schema import WorkloadError

__all__ = ["read_plain"]

_MAX_BYTES = 256 * 1024
_DEEPEST = 20  # levels; the loader calls itself once a level, and deep nesting ends the process
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_PARSER):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node; a key given twice is an error, because the later would win in silence."""
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                said = f"key {name[:60]!r} is given twice"
                raise yaml.MarkedYAMLError(problem=said, problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def read_plain(path: Path) -> Any:
    """What a YAML file of at most 256 KiB holds; WorkloadError in one sentence names the file and the reason."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise WorkloadError(f"{path.name}: more than the {_MAX_BYTES} bytes a workload may have")
        _refuse_deep(raw)
        return yaml.load(raw, _Loader)
    except OSError as error:
        raise WorkloadError(f"{path.name}: can't be read ({error.strerror or type(error).__name__})") from None
    except (ValueError, yaml.YAMLError) as error:
        if isinstance(error, WorkloadError):
            raise
        raise WorkloadError(f"{path.name}: not readable as YAML ({_complaint(error)})") from None


def _refuse_deep(raw: bytes) -> None:
    """Refuse what the loader can't survive: deep nesting ends the process, aliases grow without bound."""
    depth = 0
    for event in yaml.parse(raw, _PARSER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST or isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"aliases and nesting more than {_DEEPEST} deep are not allowed")


def _complaint(error: Exception) -> str:
    """What is wrong with a file's text, and in which line where that is known."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem and error.problem_mark:
        return f"{error.problem}, line {error.problem_mark.line + 1}"
    return str(error).splitlines()[0]
