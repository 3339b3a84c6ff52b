"""The workloads, found by id, read when first asked for, and lowered to graphs by their family."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from entries.files import read_entry, user_root
from entries.schema import LISTED, hint
from model_zoo.carried import unpack
from model_zoo.families import FAMILIES, NetworkFamily, build_graph
from model_zoo.importers.huggingface import read_config_file
from model_zoo.importers.onnx.process import ImportProcess
from model_zoo.ops import Graph
from model_zoo.schema import CARRIED, Workload, WorkloadError

_ROOT = Path(__file__).resolve().parent / "workloads"
_SUFFIXES = (".yaml", ".onnx", ".json")  # of a user's own networks


def read_workload(path: Path) -> Workload:
    """One workload YAML; raises WorkloadError with one sentence naming file, field and reason."""
    workload: Workload = read_entry(path, Workload, WorkloadError)
    if workload.family not in FAMILIES:
        raise WorkloadError(f"{path.name}: family {workload.family!r} is not known; known: {', '.join(FAMILIES)}")
    return workload


@dataclass(frozen=True)
class _Guest:
    """A user's own file, read and lowered once."""

    path: Path
    workload: Workload
    family: NetworkFamily
    digest: bytes


def _guest(path: Path, apart: ImportProcess) -> _Guest:
    """A user's own file as a workload whose graph can be built; WorkloadError in one sentence otherwise."""
    try:
        if not path.is_file():
            raise WorkloadError("not a file")
        if path.suffix == ".onnx":
            workload, family = apart.read(path)
        else:
            workload = read_config_file(path, path.stem) if path.suffix == ".json" else read_workload(path)
            family = FAMILIES[workload.family]
        build_graph(family, {key: number.value for key, number in workload.params.items()})
        return _Guest(path, workload, family, hashlib.sha256(path.read_bytes()).digest())
    except WorkloadError as error:
        raise WorkloadError(f"{path.name}: {str(error).removeprefix(f'{path.name}: ')}") from None
    except OSError as error:
        raise WorkloadError(f"{path.name}: can't be read ({error.strerror or type(error).__name__})") from None
    except Exception as error:  # whatever a user's file holds, the others stay
        raise WorkloadError(f"{path.name}: can't be used ({type(error).__name__})") from None


class Zoo:
    """Workloads under one or more folders; later folders add entries and may not redefine an id.

    `guests` are a user's own folders, of YAML, of ONNX files and of model configurations (`*.json`): what is wrong
    there is a sentence in `problems`.
    """

    def __init__(self, *roots: Path, guests: tuple[Path, ...] = ()) -> None:
        self.roots = roots or (_ROOT,)
        self.guests = guests
        self._read: dict[str, Workload] = {}
        self._lower = lru_cache(maxsize=512)(self._lower_uncached)

    @cached_property
    def _paths(self) -> dict[str, Path]:
        return self._root_paths | {id: guest.path for id, guest in self._scan[0].items()}

    @cached_property
    def _root_paths(self) -> dict[str, Path]:
        result: dict[str, Path] = {}
        for root in self.roots:
            for path in sorted(root.rglob("*.yaml")):
                if path.stem in result:
                    raise WorkloadError(f"{path.name}: id {path.stem!r} is already taken")
                result[path.stem] = path
        return result

    @cached_property
    def _scan(self) -> tuple[dict[str, _Guest], tuple[str, ...]]:
        result: dict[str, _Guest] = {}
        problems: list[str] = []
        apart = ImportProcess()
        for root in self.guests:
            for path in sorted(file for suffix in _SUFFIXES for file in root.rglob(f"*{suffix}")):
                if path.name.endswith("hf_quant_config.json"):  # read with the configuration beside it
                    continue
                try:
                    if path.stem in self._root_paths or path.stem in result:
                        raise WorkloadError(f"{path.name}: id {path.stem!r} is already taken")
                    result[path.stem] = guest = _guest(path, apart)
                    self._read[path.stem] = guest.workload
                except WorkloadError as error:
                    problems.append(f"{error} (left out of the zoo)")
        apart.stop()
        return result, tuple(problems)

    @property
    def problems(self) -> tuple[str, ...]:
        """What a user's folder holds that can't be used, one sentence a file."""
        return self._scan[1]

    def ids(self) -> tuple[str, ...]:
        """Ids of all workloads, sorted."""
        return tuple(sorted(self._paths))

    def path(self, id: str) -> Path:
        """File a workload is read from."""
        self.workload(id)
        return self._paths[id]

    def workload(self, id: str) -> Workload:
        """Workload of that id, or the one that it carries; WorkloadError names the nearest one when there is none."""
        if id.startswith(CARRIED):
            return unpack(id)
        if id not in self._paths:
            raise WorkloadError(
                f"workload {id[:80]!r} is not in the catalog{hint(id, self._paths, LISTED.format('workloads'))}"
            )
        if id not in self._read:
            self._read[id] = read_workload(self._paths[id])
        return self._read[id]

    def resolve(self, name: str) -> str:
        """Id of the workload that others call ``name``, its publisher said or not; the name itself where none is."""
        low = name.strip().lower()
        return self._aliases.get(low) or self._aliases.get(low.rpartition("/")[2], name)

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """Workload by alias, in lower case; of two that claim one, the first."""
        aliases: dict[str, str] = {}
        for id in self._paths:
            for alias in self.workload(id).aliases:
                aliases.setdefault(alias.lower(), id)
                aliases.setdefault(alias.lower().rpartition("/")[2], id)
        return aliases

    def family(self, id: str) -> NetworkFamily:
        """Family of that workload; a network read from ONNX is one of its own, with nothing to adjust."""
        workload = self.workload(id)
        guest = self._scan[0].get(id)
        return guest.family if guest else FAMILIES[workload.family]

    def is_guest(self, id: str) -> bool:
        """Whether the workload is a user's own."""
        return id in self._scan[0]

    def graph(self, id: str, overrides: Mapping[str, Any] | None = None) -> Graph:
        """The workload lowered to ops, with family parameters overridden where given; cached."""
        return self._lower(id, tuple(sorted((overrides or {}).items())))

    def _lower_uncached(self, id: str, overrides: tuple[tuple[str, Any], ...]) -> Graph:
        workload = self.workload(id)
        params = {key: number.value for key, number in workload.params.items()}
        return build_graph(self.family(id), params | dict(overrides))

    @cached_property
    def digest(self) -> str:
        """Digest of every file's bytes: changes when any number does. [-]"""
        state = hashlib.sha256()
        for id, path in sorted(self._paths.items()):
            guest = self._scan[0].get(id)
            state.update(f"{id}\0".encode() + (guest.digest if guest else path.read_bytes()))
        return state.hexdigest()[:12]


@cache
def default_zoo() -> Zoo:
    """The zoo that ships with the project, and the user's own networks where there are any.

    They lie in the folder ``workloads`` of ``INFERSCAPE_CATALOG``, else of ``~/.inferscape/catalog``.
    """
    return Zoo(guests=(own_folder(),))


def own_folder() -> Path:
    """Where a user's own networks lie, whether or not the folder is there."""
    return user_root() / "workloads"
