"""Settings by path: numbers of a system's files that a scenario may set, what nothing reads, what each is called."""

from collections.abc import Iterator
from pathlib import Path

from engine.devices import family
from engine.devices.common.cached import remembered
from engine.resolve.bound import Bound
from engine.resolve.spec_path import set_paths
from engine.scenario.fields import field
from entries.files import load_yaml
from hardware_specs.catalog import numbers
from hardware_specs.quantity import Quantity
from hardware_specs.schema import Device

UNREAD: dict[str, str] = load_yaml(Path(__file__).with_name("unread.yaml").read_bytes())
"""Paths, or heads of them, that nothing reads, each with why; of ``peak`` those that a device's family derives, of
``power.loaded`` those of a family whose governor reckons its power, of switches those between links of their own, of
hosts those of a system that leaves it no operator."""
_ANY_HOST = "power.", "price", "cpu.cores", "cpu.clock"
"""What is read of a host that runs no operator: it parses features for the devices behind it."""


def settable(bound: Bound) -> Iterator[tuple[str, str, Quantity]]:
    """Part (``devices.0``, ``host``, ``links.peer``), path within it, and quantity of each number that may be set."""
    devices = [(f"devices.{at}", device) for at, device in enumerate(bound.devices)]
    for part, device in devices + ([("host", bound.host)] if bound.host is not None else []):
        idle = part == "host" and _host_idles(bound)
        read = _read(device)
        yield from ((part, path, number) for path, number in read if not idle or path.startswith(_ANY_HOST))
    for wire in bound.wires:
        if not _behind_ports(bound, wire.role):
            yield from ((f"links.{wire.role}", path, quantity) for path, quantity in numbers(wire.link))


def _host_idles(bound: Bound) -> bool:
    """Whether no scheme of a system leaves its host an operator, and nothing from a network crosses its memory."""
    runs = bound.system.topology == "on-path" or "tables" in bound.system.schemes
    return not runs and bound.wire("network") is None


def _behind_ports(bound: Bound, role: str) -> bool:
    """Whether a link is a switch between ports that are links of their own."""
    return role == "switch" and bound.wire("peer") is not None


@remembered(id)
def _read(device: Device) -> tuple[tuple[str, Quantity], ...]:
    """Numbers of a device's file that something reads."""
    return tuple((path, quantity) for path, quantity in numbers(device) if not unread(device, path))


def unread(device: Device, path: str) -> str | None:
    """Why nothing reads a number of a device's file; None where something does."""
    head, _, format = path.partition(".")
    if path == "power.loaded" and family(device.kind).governs is None:
        return None
    if head != "peak":
        return UNREAD.get(head) or UNREAD.get(path)
    twice = set_paths(device, [(["peak", format], 2.0 * device.peak[format].si, path)])
    peak = family(device.kind).peak
    formats = family(device.kind).formats(device)
    effect = format not in formats or any(peak(device, f) != peak(twice, f) for f in formats)
    return None if effect else UNREAD["peak"]


def without_reader(bound: Bound, path: str) -> str | None:
    """Why nothing reads the number at a scenario's path, as ``host.launched``; None where something does."""
    head, _, tail = path.removeprefix("system.").partition(".")
    at, _, within = tail.partition(".")
    if head == "devices" and at.isdigit():
        return unread(bound.devices[int(at)], within)
    if head == "links":
        return UNREAD["links.switch"] if _behind_ports(bound, at) else None
    if head != "host" or bound.host is None:
        return None
    return UNREAD["host"] if _host_idles(bound) and not tail.startswith(_ANY_HOST) else unread(bound.host, tail)


def label(bound: Bound, path: str) -> str:
    """What a setting at a path is called: `memory hbm bandwidth`, `peer link: latency`, `model: array depth`."""
    head, _, tail = path.removeprefix("system.").partition(".")
    if not tail:
        return field(head).label
    if head == "switches":
        return next((switch.label for switch in bound.family.switches if switch.name == tail), tail)
    if head in ("devices", "links"):
        at, _, tail = tail.partition(".")
        head = f"{at} link" if head == "links" else bound.devices[int(at)].name if len(bound.devices) > 1 else ""
    part = {"params": "network", "layers": "format of layer"}.get(head, head)
    words = tail if head == "layers" else tail.replace("_", " ").replace(".", " ")
    return f"{part}: {words}" if part else words
