"""The spec catalog: one YAML an entry, found by its id, read when first asked for."""

import hashlib
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel

from entries.files import read_entry, user_root
from entries.schema import LISTED, hint
from hardware_specs.quantity import Quantity, SpecError
from hardware_specs.schema import Device, DeviceGroup, Link, LinkUse, Nic, System

_ROOT = Path(__file__).resolve().parent
_SCHEMAS: dict[str, type[BaseModel]] = {"devices": Device, "links": Link, "nics": Nic, "systems": System}
_ROLES: dict[str, Literal["host", "network"]] = {"host_link": "host", "network_link": "network"}


def read_spec(path: Path, schema: type[BaseModel]) -> Any:
    """One YAML as an object of ``schema``; raises SpecError with one sentence naming file, field and reason."""
    spec = read_entry(path, schema, SpecError)
    missing = {q.source for q in quantities(spec) if q.source} - set(spec.sources)
    if missing:
        raise SpecError(f"{path.name}: source {sorted(missing)[0]!r} is not listed under `sources`")
    return spec


def spec_text(spec: BaseModel) -> str:
    """A spec as the YAML that the catalog reads."""
    data = spec.model_dump(mode="json", exclude_defaults=True)
    if isinstance(spec, Device):
        data["power"] = data.get("power", {})
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)


def numbers(node: Any, path: str = "") -> Iterator[tuple[str, Quantity]]:
    """Every Quantity below a spec with its path, in reading order: an entry of a list by its name."""
    if isinstance(node, Quantity):
        yield path, node
        return
    entries: Any = ()
    if isinstance(node, BaseModel):
        entries = ((name, getattr(node, name)) for name in type(node).model_fields)
    elif isinstance(node, dict):
        entries = node.items()
    elif isinstance(node, tuple | list):
        entries = ((getattr(entry, "name", at), entry) for at, entry in enumerate(node))
    for name, entry in entries:
        yield from numbers(entry, f"{path}.{name}" if path else str(name))


def quantities(node: Any) -> list[Quantity]:
    """Every Quantity below a spec, in reading order."""
    return [quantity for _, quantity in numbers(node)]


def _references(spec: Any) -> Iterator[tuple[str, str, str]]:
    """What a spec names of the catalog: field, section and id."""
    if isinstance(spec, Device):
        yield from ((field, "links", id) for field, id in _links(spec).items())
    if not isinstance(spec, System):
        return
    for at, group in enumerate(spec.devices):
        yield f"devices.{at}.device", "devices", group.device
    if spec.host:
        yield "host.device", "devices", spec.host.device
    for at, use in enumerate(spec.links):
        yield f"links.{at}.link", "links", use.link
    if spec.nic:
        yield "nic", "nics", spec.nic
    if spec.rival:
        yield "rival", "systems", spec.rival


def _links(device: Device) -> dict[str, str]:
    """Ids of the links that a device names, by field."""
    return {field: id for field in _ROLES if (id := getattr(device, field))}


def _alone(device: Device) -> System:
    """The system that one device makes by itself, behind its host link or its own network port where it names one."""
    return System(
        schema_version=1,
        id=device.id,
        name=device.name,
        summary=device.summary,
        topology="single",
        devices=(DeviceGroup(device=device.id, count=1),),
        links=tuple(LinkUse(link=id, role=_ROLES[field]) for field, id in _links(device).items()),
    )


class Catalog:
    """Specs under one or more folders; later folders add entries and may not redefine an id.

    A device that no system of its own name describes is a system by itself, so a new part is one YAML. What is wrong in
    a user's own folders, the `guests`, is a sentence in `problems`, not an error.
    """

    def __init__(self, *roots: Path, guests: tuple[Path, ...] = ()) -> None:
        self.roots = roots or (_ROOT,)
        self.guests = guests
        self._read: dict[tuple[str, str], Any] = {}

    def with_system(self, system: System, links: tuple[Link, ...] = ()) -> "Catalog":
        """The catalog with one more system, and links of its own: what no file describes."""
        catalog = Catalog(*self.roots, guests=self.guests)
        catalog._scan = self._scan
        catalog._read = self._read | {("systems", system.id): system} | {("links", link.id): link for link in links}
        text = "".join(spec.model_dump_json() for spec in (system, *links))
        catalog.digest = hashlib.sha256((self.digest + text).encode()).hexdigest()[:12]
        return catalog

    @property
    def problems(self) -> tuple[str, ...]:
        """What a user's folder holds that can't be used, one sentence a file."""
        return self._scan[1]

    @property
    def _paths(self) -> dict[str, dict[str, Path]]:
        return self._scan[0]

    @cached_property
    def _scan(self) -> tuple[dict[str, dict[str, Path]], tuple[str, ...]]:
        result: dict[str, dict[str, Path]] = {section: {} for section in _SCHEMAS}
        problems: list[str] = []
        for root in (*self.roots, *self.guests):
            for section, paths in result.items():
                for path in sorted((root / section).rglob("*.yaml")):
                    try:
                        if path.stem in paths:
                            raise SpecError(f"{path.name}: id {path.stem!r} is already taken in {section}")
                        if root in self.guests:
                            self._read[section, path.stem] = read_spec(path, _SCHEMAS[section])
                    except SpecError as error:
                        if root not in self.guests:
                            raise
                        problems.append(f"{error} (left out of the catalog)")
                        continue
                    paths[path.stem] = path
        left_out: list[str] = [""]
        while left_out:  # what names something left out goes with it
            left_out = [f"{error} (left out of the catalog)" for error in self._dangling(result)]
            problems += left_out
        return result, tuple(problems)

    def _dangling(self, paths: dict[str, dict[str, Path]]) -> Iterator[SpecError]:
        """Takes out what names a device, link, NIC or system that is not there, of a user's own; why, one by one."""
        for (section, id), spec in list(self._read.items()):
            for field, kind, name in _references(spec):
                if name not in paths[kind] and not (kind == "systems" and name in paths["devices"]):
                    path = paths[section].pop(id)
                    del self._read[section, id]
                    nearest = hint(name, paths[kind], LISTED.format(kind))
                    why = f"{field} is {name!r}, which is not in the catalog{nearest}"
                    yield SpecError(f"{path.name}: {why}")
                    break

    def ids(self, section: str) -> tuple[str, ...]:
        """Ids of ``devices``, ``links``, ``nics`` or ``systems``, sorted."""
        result = set(self._paths[section])
        if section == "systems":
            result |= self._alone
        return tuple(sorted(result))

    @cached_property
    def _alone(self) -> frozenset[str]:
        """Devices that are a system by themselves: no system names them as its accelerator."""
        accelerators = {group.device for id in self._paths["systems"] for group in self._get("systems", id).devices}
        return frozenset(self._paths["devices"]) - accelerators - set(self._paths["systems"])

    def path(self, section: str, id: str) -> Path:
        """File an entry is read from."""
        self._get(section, id)
        return self._paths[section].get(id) or self._paths["devices"][id]

    def _get(self, section: str, id: str) -> Any:
        key = (section, id)
        if key in self._read:
            return self._read[key]
        paths = self._paths[section]
        if id in paths:
            self._read[key] = read_spec(paths[id], _SCHEMAS[section])
        elif section == "systems" and id in self._alone:
            self._read[key] = _alone(self._get("devices", id))
        else:
            advice = hint(id, self.ids(section), LISTED.format(section))
            raise SpecError(f"{section.removesuffix('s')} {id[:80]!r} is not in the catalog{advice}")
        return self._read[key]

    def device(self, id: str) -> Device:
        """Device of that id; SpecError names the nearest one when there is none."""
        return self._get("devices", id)

    def link(self, id: str) -> Link:
        """Link of that id."""
        return self._get("links", id)

    def nic(self, id: str) -> Nic:
        """NIC of that id."""
        return self._get("nics", id)

    def system(self, id: str) -> System:
        """System of that id."""
        return self._get("systems", id)

    def alone(self, system: str) -> bool:
        """Whether a system is one device by itself, which no file under ``systems`` describes."""
        return system in self._alone

    def resolve(self, name: str) -> str:
        """Id of the system that others call ``name``; the name itself where it is nobody's alias."""
        return self._aliases.get(name.strip().lower(), name)

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """System by alias, in lower case; of two that claim one, the first."""
        aliases: dict[str, str] = {}
        for id in self._paths["systems"]:
            for alias in self.system(id).aliases:
                aliases.setdefault(alias.lower(), id)
        return aliases

    @cached_property
    def digest(self) -> str:
        """Digest of every file's bytes: changes when any number does. [-]"""
        state = hashlib.sha256()
        for section, paths in sorted(self._paths.items()):
            for id, path in sorted(paths.items()):
                state.update(f"{section}/{id}\0".encode() + path.read_bytes())
        return state.hexdigest()[:12]


@cache
def default_catalog() -> Catalog:
    """The catalog that ships with the project, and the user's own where there is one."""
    return Catalog(guests=(user_root(),))
