"""The workloads, found by id, read when first asked for, and lowered to graphs by their family."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from model_zoo.families import FAMILIES, build
from model_zoo.ops import Graph
from model_zoo.schema import Workload, WorkloadError

__all__ = ["Zoo", "default_zoo", "read_workload"]

_ROOT = Path(__file__).resolve().parent / "workloads"
_MAX_BYTES = 256 * 1024
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_workload(path: Path) -> Workload:
    """One workload YAML; raises WorkloadError with one sentence naming file, field and reason."""
    try:
        raw = path.read_bytes()
        if len(raw) > _MAX_BYTES:
            raise WorkloadError(f"{path.name}: {len(raw)} bytes is more than the {_MAX_BYTES} a workload may have")
        data = yaml.load(raw, _LOADER)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise WorkloadError(f"{path.name}: not readable as YAML ({str(error).splitlines()[0]})") from None
    try:
        workload = Workload.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "document"
        raise WorkloadError(f"{path.name}: {field}: {first['msg'].removeprefix('Value error, ')}") from None
    if workload.id != path.stem:
        raise WorkloadError(f"{path.name}: id is {workload.id!r}; it must equal the file's name {path.stem!r}")
    if workload.family not in FAMILIES:
        raise WorkloadError(f"{path.name}: family {workload.family!r} is not known; known: {', '.join(FAMILIES)}")
    return workload


class Zoo:
    """Workloads under one or more folders; later folders add entries and may not redefine an id."""

    def __init__(self, *roots: Path) -> None:
        self.roots = roots or (_ROOT,)
        self._read: dict[str, Workload] = {}
        self._lower = lru_cache(maxsize=512)(self._lower_uncached)

    @cached_property
    def _paths(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for root in self.roots:
            for path in sorted(root.rglob("*.yaml")):
                if path.stem in found:
                    raise WorkloadError(f"{path.name}: id {path.stem!r} is already taken")
                found[path.stem] = path
        return found

    def ids(self) -> tuple[str, ...]:
        """Ids of all workloads, sorted."""
        return tuple(sorted(self._paths))

    def path(self, id: str) -> Path:
        """File a workload is read from."""
        self.workload(id)
        return self._paths[id]

    def workload(self, id: str) -> Workload:
        """Workload of that id; WorkloadError names the nearest one when there is none."""
        if id not in self._paths:
            near = difflib.get_close_matches(id[:80], self._paths, 1, 0.3)
            hint = f"; nearest: {near[0]}" if near else f"; known: {', '.join(sorted(self._paths))}"
            raise WorkloadError(f"workload {id[:80]!r} is not in the catalog{hint}")
        if id not in self._read:
            self._read[id] = read_workload(self._paths[id])
        return self._read[id]

    def graph(self, id: str, overrides: Mapping[str, Any] | None = None) -> Graph:
        """The workload lowered to ops, with family parameters overridden where given; cached."""
        return self._lower(id, tuple(sorted((overrides or {}).items())))

    def _lower_uncached(self, id: str, overrides: tuple[tuple[str, Any], ...]) -> Graph:
        workload = self.workload(id)
        params = {key: number.value for key, number in workload.params.items()}
        return build(workload.family, params | dict(overrides))

    @cached_property
    def digest(self) -> str:
        """Digest of every file's bytes: changes when any number does. [-]"""
        state = hashlib.sha256()
        for id, path in sorted(self._paths.items()):
            state.update(f"{id}\0".encode() + path.read_bytes())
        return state.hexdigest()[:12]


@cache
def default_zoo() -> Zoo:
    """The zoo that ships with the project."""
    return Zoo()
