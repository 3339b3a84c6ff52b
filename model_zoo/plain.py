"""A workload's YAML as plain data: bounded in size and depth, without aliases, and no key given twice.

`hardware_specs.plain` does the same for specs: the two packages know nothing of each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from model_zoo.schema import WorkloadError

_MAX_BYTES = 256 * 1024
_LONGEST = 60  # characters of a number
_DEEPEST = 20  # levels; the loader calls itself once a level, and deep nesting ends the process
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_PARSER):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node; a key given twice is an error, because the later would win in silence."""
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                complaint = f"key {name[:60]!r} is given twice"
                raise yaml.MarkedYAMLError(problem=complaint, problem_mark=key.start_mark)
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


def read_plain(path: Path) -> Any:
    """What a YAML file of at most 256 KiB holds; WorkloadError in one sentence names the file and the reason."""
    try:
        if path.exists() and not path.is_file():  # a pipe's reader would wait for a writer that never comes
            raise WorkloadError(f"{path.name}: not a file")
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise WorkloadError(f"{path.name}: more than the {_MAX_BYTES} bytes a workload may have")
        _refuse_deep(raw)
        return yaml.load(raw, _Loader)
    except WorkloadError:
        raise
    except OSError as error:
        raise WorkloadError(f"{path.name}: can't be read ({error.strerror or type(error).__name__})") from None
    except Exception as error:  # whatever the file holds
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
    return next(iter(str(error).splitlines()), type(error).__name__)
