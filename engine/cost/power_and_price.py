"""Power and price of the devices a plan uses. Estimates; a price is as published or assumed, and says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.devices import family
from engine.plan.schemes import Plan
from engine.resolve.bind import Bound, own_model
from engine.scenario.overrides import unstated
from hardware_specs.quantity import Quantity
from hardware_specs.schema import Device


@dataclass(frozen=True)
class Account:
    """Power and price of the devices in use; None where one is not published.

    `limit_w` is drawn at most, `idle_w` of it whatever the work: the same where no family's power follows its work.
    """

    limit_w: float | None
    idle_w: float | None
    price_usd: float | None
    notes: tuple[tuple[str, str], ...]  # (text, basis)


def device_power(device: Device, network: str, model: Mapping[str, float] | None = None) -> tuple[float | None, str]:
    """Power of one busy device and where the figure comes from: measured under load, else the board's limit. [W]

    `network` is the kind of network it runs, a family of `model_zoo`: a load measured on another alone says nothing.
    That of a what-if follows the rule of its family, where it has one, unless the what-if says its power too.
    """
    listed, why = device.power.loaded, "power measured under load"
    if listed is None or device.power.loaded_on not in (None, network):
        listed, why = device.power.max, "power limit of the board, an upper bound"
    if listed is None:
        return None, f"{device.name}: no power is published"
    draws = family(device.kind).draws
    scale = draws(device, own_model(device, model or {})) if draws and listed.before is None else 1.0
    return listed.si * scale, f"{device.name}: {why}"


def draw(bound: Bound, plan: Plan) -> tuple[float | None, float | None, list[tuple[str, str]]]:
    """Power at full load, what of it is drawn whatever the work, and where its parts come from, as (text, basis). [W]

    That of the devices in use, plus switch and chassis where the system lists them, plus the host only where its
    document counted it. An upper bound, and the same number twice, but for devices whose power follows from their work.
    """
    notes: list[tuple[str, str]] = []
    power: float | None = 0.0
    idle: float | None = 0.0
    system, extra = bound.system, bound.system.extra_power
    counted = system.host_power_counted and bound.host is not None
    parts: list[tuple[Device | None, int]] = [*zip(bound.devices, plan.devices_used, strict=False), (None, 1)]
    for device, count in (*parts, (bound.host, 1)) if counted else parts:
        if device is None:  # what the system draws at any load
            watts = always = extra.si if extra is not None else 0.0
        else:
            watts, always, why, basis = _busy(bound, device)
            notes.append((f"host counted: {why}" if device is bound.host else why, basis))
        power = None if power is None or watts is None else power + count * watts
        idle = None if idle is None or always is None else idle + count * always
    if bound.host is not None and not counted:
        notes.append((_left_out(bound), "published"))
    turned: dict[bool, list[str]] = {True: [], False: []}
    for path in unstated(bound.what_ifs, "power"):
        at = path.split(".")[1]
        turned[path.startswith("devices.") and family(bound.devices[int(at)].kind).draws is not None].append(path)
    for ruled, told in (
        (True, "power of a what-if goes with its clock, its units and its memory's bandwidth, each an assumed share"),
        (False, "power is that of the catalog's parts, whatever a what-if makes of them"),
    ):
        if turned[ruled]:
            notes.append((f"{told}: {_few(turned[ruled])}", "assumed"))
    return power, idle, notes


def _busy(bound: Bound, device: Device) -> tuple[float | None, float | None, str, str]:
    """What a busy device draws at most, and whatever the work; where that comes from and its basis. [W]"""
    watts, why = device_power(device, bound.workload.family, bound.model)
    fam = family(device.kind)
    if watts is None or fam.idles is None or device.power.loaded is not None:
        return watts, watts, why, "published" if watts is not None else "assumed"
    own = {name: value for name, value in bound.model.items() if any(p.name == name for p in fam.parameters)}
    why = f"{device.name}: power by its operations and bytes, what each draws assumed, up to the limit of the board"
    return watts, fam.idles(device, fam.model(device, own)), why, "assumed"


def waiting(bound: Bound, plan: Plan, busy: float) -> tuple[float, list[str]]:
    """What a system draws that waits, ``busy`` where a part's power is not known, and what that assumes. [W]

    An upper bound where no idle power is published.
    """
    notes: list[str] = []
    unknown: list[str] = []
    system, host = bound.system, [(bound.host, 1)] if bound.system.host_power_counted and bound.host else []
    parts = [*zip(bound.devices, plan.devices_used, strict=False), *host]
    total = system.extra_power.si if system.extra_power is not None else 0.0
    for device, count in parts:
        idle, (full, always, _, _) = device.power.idle, _busy(bound, device)
        watts = idle.si if idle is not None else always
        total += count * (busy if watts is None else watts)
        if idle is not None and idle.basis == "assumed":
            notes.append(f"Assumed: idle power of {device.name} ({idle.note}).")
        elif idle is None and watts is not None and always != full:
            notes.append(f"Assumed: {device.name} draws {watts:.0f} W when idle, what it draws at any work.")
        elif idle is None and count:
            unknown.append(device.name)
    if unknown:
        notes.append(
            f"Assumed: {' and '.join(dict.fromkeys(unknown))} draws its full power when idle, as no idle power is "
            "published. Energy and perf/W at part load are worst cases."
        )
    return total, notes


def _few(paths: Sequence[str]) -> str:
    """Some paths in a sentence."""
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _left_out(bound: Bound) -> str:
    """What is said of a host that is not counted as a device: a system's extra power may hold an idle one."""
    extra = bound.system.extra_power
    if extra is None:
        return "power and price leave the host out, as the document does"
    left = "in power" if bound.system.whole_price else "in power or in price"
    return (
        f"power counts {extra.value} beside the devices ({extra.where}); nothing more of the host is counted, {left}, "
        "as in the document"
    )


def _beside(bound: Bound) -> Iterator[tuple[str, Quantity]]:
    """Names and prices of the host and the links, of those that have one, where the system counts them."""
    if bound.system.whole_price:
        for part in (*((bound.host,) if bound.host else ()), *(wire.link for wire in bound.wires)):
            if part.price is not None:
                yield part.name, part.price


def purchase(bound: Bound, plan: Plan) -> tuple[float | None, list[tuple[str, str]]]:
    """Price of the devices in use with switch and chassis, of host and links too where the system counts those. [USD]

    With notes as (text, basis). None where one is not published, and where a what-if makes a part that no list has,
    until it says its price too.
    """
    notes: list[tuple[str, str]] = []
    price: float | None = 0.0
    for device, count in zip(bound.devices, plan.devices_used, strict=False):
        if device.price is None:
            notes.append((f"{device.name}: no price is published, so there is no capital cost", "assumed"))
            price = None
        elif price is not None:
            price += count * device.price.si
            if device.price.basis == "assumed":
                notes.append((f"{device.name}: price is {device.price.note}", "assumed"))
    if price is not None and bound.system.extra_price is not None:
        price += bound.system.extra_price.si
    if price is not None:
        for name, one in _beside(bound):
            price += one.si
            notes.append((f"{name}: price is {one.note or one.where}", one.basis))
    turned = unstated(bound.what_ifs, "price")
    if price is None or not turned:
        return price, notes
    return None, [(f"no price: a what-if, {_few(turned)}; no list has it, so a price has to be set too", "assumed")]


def account(bound: Bound, plan: Plan) -> Account:
    """Power and price of the devices in use; limits of boards make the power an upper bound. Estimates."""
    limit, idle, drawn = draw(bound, plan)
    price, bought = purchase(bound, plan)
    return Account(limit, idle, price, (*drawn, *bought))
