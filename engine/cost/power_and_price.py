"""Power and price of the devices a plan uses. Estimates; a price is as published or assumed, and says so."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.cost.figures import J_PER_KWH, YEAR_S
from engine.devices import family
from engine.devices.common.column import larger
from engine.devices.common.offer import NO_GOVERNOR, Governor
from engine.plan.plan import model_of
from engine.plan.schemes import Plan
from engine.resolve.bound import Bound, own_model
from engine.scenario.overrides import without_figure
from hardware_specs.schema import Device, Link

MONTH_S = YEAR_S / 12
PER_HOST = 8.0
"""Devices that a host carries where nothing says it: the slots of common servers and the boards of eight. Assumed."""


@dataclass(frozen=True)
class Account:
    """Power and price of the devices in use; None where one is not published.

    `limit_w` is drawn at most by all but the host, `idle_w` of it whatever the work: the same where no family's power
    follows its work. `waiting_w` is what they and a counted host draw between two requests, at most. `host` is what a
    counted host draws at least and at most, and its cores, else zeros. [W], [-]
    `governor` holds for devices in use that may draw `cap_w` together.
    """

    limit_w: float | None
    idle_w: float | None
    waiting_w: float
    price_usd: float | None
    notes: tuple[tuple[str, str], ...]  # (text, basis)
    host: tuple[float, float, float] = (0.0, 0.0, 0.0)
    governor: Governor = NO_GOVERNOR
    cap_w: float = 0.0
    floor_w: float = 0.0  # of it, what they draw at any work
    price_contains: tuple[str, ...] = ()  # parts that the price pays for; empty without one
    price_lacks: tuple[str, ...] = ()  # parts of a node that nobody prices


def device_power(device: Device, network: str, model: Mapping[str, float] | None = None) -> tuple[float | None, str]:
    """Power of one busy device and where the figure comes from: measured under load, else the board's limit. [W]

    `network` is the kind of network it runs, a family of `model_zoo`: a load measured on another alone says nothing.
    That of a what-if follows the rule of its family, where it has one, unless the what-if says its power too.
    """
    power, why = device.power.loaded, "power measured under load"
    if power is None or device.power.loaded_on not in (None, network):
        power, why = device.power.max, "power limit of the board, an upper bound"
    if power is None:
        return None, f"{device.name}: no power is published"
    draws = family(device.kind).draws
    scale = draws(device, own_model(device, model or {})) if draws and power.before is None else 1.0
    return power.si * scale, f"{device.name}: {why}"


def without_power(bound: Bound, paths: Iterable[str]) -> list[str]:
    """What-ifs that make another part of hardware whose power no rule follows and none says: free in this model.

    Families with a rule for the power of a what-if have it for their clock, units and memory.
    """
    return [
        path
        for path in without_figure(paths, "power")
        if not (path.startswith("devices.") and family(bound.devices[int(path.split(".")[1])].kind).draws)
    ]


def account(bound: Bound, plan: Plan) -> Account:
    """Power of the devices in use at most, and whatever the work; of a governor and a host that count; price; why.

    Switch and chassis count where the system lists them, the host where the system says so. The power is an upper
    bound, and the same number twice, but for devices whose power follows from their work. Estimates.
    """
    notes: list[tuple[str, str]] = []
    extra = bound.system.extra_power
    power = idle = extra.si if extra is not None else 0.0
    governor, cap, floor_w = NO_GOVERNOR, 0.0, 0.0
    for device, count in zip(bound.devices, plan.devices_used, strict=False):
        watts, floor, why, basis = _busy(bound, device)
        notes.append((why, basis))
        limit, active = device.power.max, family(device.kind).activity is not None
        peak = larger(watts, limit.si) if active and watts is not None and limit is not None else watts
        power = None if power is None or peak is None else power + count * peak
        idle = None if idle is None or floor is None else idle + count * floor
        governs = family(device.kind).governs
        if governs is not None and watts is not None and floor is not None and count:
            governor = governs(device, own_model(device, bound.model))
            cap, floor_w = cap + count * watts, floor_w + count * floor
    host = (0.0, 0.0, 0.0)
    if counts_host(bound):
        peak, floor, why, basis = _host(bound)
        host = (floor, peak, bound.host.cores if bound.host is not None else 0.0)
        notes.append((why, basis))
    elif bound.host is not None:
        notes.append((_left_out(bound), "published"))
    free = without_power(bound, bound.scenario.overrides)
    for paths, text in (
        (
            [path for path in without_figure(bound.scenario.overrides, "power") if path not in free],
            "power of a what-if goes with its clock, its units and its memory's bandwidth, each an assumed share",
        ),
        (free, "power is that of the catalog's parts, whatever a what-if makes of them, which is free in this model"),
    ):
        if paths:
            notes.append((f"{text}: {_paths_text(paths)}", "assumed"))
    price, bought, contains, lacks = purchase(bound, plan)
    parts = tuple(contains), tuple(lacks)
    waits, _ = waiting(bound, plan, math.inf)
    return Account(power, idle, waits, price, (*notes, *bought), host, governor, cap, floor_w, *parts)


def counts_host(bound: Bound) -> bool:
    """Whether a system's power counts a host, of which a power is known."""
    return bound.system.host_power_counted and bound.host is not None and bound.host.power.max is not None


def _host(bound: Bound) -> tuple[float, float, str, str]:
    """What a counted host draws at most and while it waits; why and the basis. [W]"""
    host = bound.host
    assert host is not None
    peak, floor, why, _ = _busy(bound, host)
    assert peak is not None, host.id
    assert floor is not None, host.id
    share = model_of(bound).get("host_idle")
    if share is not None and host.power.idle is None:
        floor = share * peak
    why = f"host counted: {why}, less what of it its cores do not work, from {floor:.0f} W when none does"
    return peak, floor, why, "assumed"


def working_w(bound: Bound, device: Device) -> float:
    """What a device draws at full work beside what it draws at any; 0 of a host that is counted as one. [W]"""
    if device is bound.host and counts_host(bound):
        return 0.0
    watts, floor, _, _ = _busy(bound, device)
    return watts - floor if watts is not None and floor is not None else 0.0


def draws_alike(device: Device) -> bool:
    """Whether a device draws the same at any work, as far as is known: what its operators spend is part of it."""
    fam = family(device.kind)
    return fam.idles is None or (fam.activity is None and fam.governs is None and device.power.loaded is not None)


def _busy(bound: Bound, device: Device) -> tuple[float | None, float | None, str, str]:
    """What a busy device draws at most, and whatever the work; where that comes from and its basis. [W]"""
    watts, why = device_power(device, bound.workload.family, bound.model)
    fam, power = family(device.kind), device.power
    if fam.governs is not None:
        watts = power.max.si if power.max is not None else None
    if watts is None or fam.idles is None or draws_alike(device):
        return watts, watts, why, "published" if watts is not None else "assumed"
    idle = power.idle if fam.activity is not None else None
    floor = idle.si if idle is not None else fam.idles(device, own_model(device, bound.model))
    if fam.activity is not None:
        why = f"{why}; what of it follows the work is an assumed share, unless an idle power is published"
    else:
        why = f"{device.name}: power by its operations and bytes, what each draws assumed, up to the limit of the board"
    return watts, floor, why, "assumed"


def idle_power(bound: Bound, device: Device) -> tuple[float | None, str]:
    """What a device draws that waits, as published, else whatever the work, and what that assumes. [W]

    None where no power is known. An upper bound where no idle power is published.
    """
    idle, (full, always, _, _) = device.power.idle, _busy(bound, device)
    if idle is not None:
        return idle.si, f"Assumed: idle power of {device.name} ({idle.note})." if idle.basis == "assumed" else ""
    if always is not None and always != full:
        return always, f"Assumed: {device.name} draws {always:.0f} W when idle: that part of its power follows no work."
    return always, (
        f"Assumed: {device.name} draws its full power when idle, as no idle power is published. Energy and perf/W at "
        "part load are worst cases."
    )


def waiting(bound: Bound, plan: Plan, busy: float) -> tuple[float, list[str]]:
    """What a system draws that waits, ``busy`` where a part's power is not known, and what that assumes. [W]

    An upper bound where no idle power is published.
    """
    notes: list[str] = []
    system = bound.system
    total = system.extra_power.si if system.extra_power is not None else 0.0
    total += _host(bound)[1] if counts_host(bound) else 0.0
    for device, count in zip(bound.devices, plan.devices_used, strict=False):
        watts, note = idle_power(bound, device)
        if count:
            total += count * (busy if watts is None else watts)
            notes += [note] if note else []
    return total, list(dict.fromkeys(notes))


def _paths_text(paths: Sequence[str]) -> str:
    """Some paths in a sentence."""
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _left_out(bound: Bound) -> str:
    """What is said of a host that is not counted as a device: a system's extra power may hold an idle one."""
    extra = bound.system.extra_power
    if extra is None:
        return "power leaves the host out, as the document does"
    return (
        f"power counts {extra.value} beside the devices ({extra.where}); nothing more of the host is counted in it, as "
        "in the document"
    )


def _beside(bound: Bound, plan: Plan) -> Iterator[tuple[str, float | None, str, str]]:
    """What stands beside the devices in use, as (name, price [USD], why, basis); None where nobody prices a host.

    Links and a host that the catalog prices, else a host at the scenario's price for each `PER_HOST` devices. A
    processor and a device that is a whole computer need none.
    """
    host = bound.host if bound.host is not None and bound.host.price is not None else None
    for part in (*((host,) if host else ()), *(wire.link for wire in bound.wires)):
        if part.price is not None:
            yield part.name, part.price.si, part.price.note or part.price.where or "", part.price.basis
    if hosts := hosts_of(bound, plan.devices_used):
        usd = bound.scenario.costs.host_usd
        yield f"{hosts} × host", None if usd is None else hosts * usd, "as set for a host", "assumed"


def hosts_of(bound: Bound, counts: Sequence[int]) -> int:
    """Hosts that the catalog has no price of and so many of each device stand in, at each place some of its own. [-]

    0 where a processor or a whole computer stands at the same place.
    """
    groups, places = list(zip(bound.system.devices, bound.devices, counts, strict=False)), dict[str | None, int]()
    hosted = {group.tier for group, device, _ in groups if not device.needs_host}
    if bound.host is None or bound.host.price is None:
        for group, _, count in groups:
            places[group.tier] = places.get(group.tier, 0) + (count if group.tier not in hosted else 0)
    return sum(math.ceil(count / PER_HOST) for count in places.values())


def purchase(bound: Bound, plan: Plan) -> tuple[float | None, list[tuple[str, str]], list[str], list[str]]:
    """Price of a node: the devices in use, with switch and chassis, links and host where those have a price. [USD]

    With notes as (text, basis), then what the price contains, in words, devices first; and what of a node it lacks.
    None where one is not published, and where a what-if makes a part that no list has, until it says its price too.
    """
    notes, contains, lacks = list[tuple[str, str]](), list[str](), list[str]()
    price: float | None = 0.0
    for device, count in zip(bound.devices, plan.devices_used, strict=False):
        contains += [f"{count} × {device.name}"] if count else []
        if device.price is None:
            notes.append((f"{device.name}: no price is published, so there is no capital cost", "assumed"))
            price = None
        elif price is not None:
            price += count * device.price.si
            if device.price.basis == "assumed":
                notes.append((f"{device.name}: price is {device.price.note}", "assumed"))
    if price is None:
        return None, notes, [], []
    what_ifs = without_figure(bound.scenario.overrides, "price")
    if what_ifs:
        text = f"no price: a what-if, {_paths_text(what_ifs)}; no list has it, so a price has to be set too"
        return None, [(text, "assumed")], [], []
    if bound.system.extra_price is not None:
        price += bound.system.extra_price.si
    for name, usd, why, basis in _beside(bound, plan):
        if usd is None:
            lacks.append(name)
            notes.append((f"{name}: not priced, so the price counts none; a host's price is set under Costs", basis))
        else:
            price += usd
            contains.append(name)
            notes.append((f"{name}: price is {why}", basis))
    contains += ["chassis"] if bound.system.extra_price is not None else []
    return price, notes, contains, lacks


def monthly(
    bound: Bound, machines: Sequence[tuple[Device, int, float, float]], links: Iterable[Link]
) -> tuple[float | None, float | None]:
    """What machines draw together [W], and what they, their links and their energy cost a month [USD]. Estimates.

    ``machines``: each device of the system, how many work, the share of time that each does, and what its work draws
    meanwhile beside what it draws at any [W]: at full work a report's power. One that works in part draws what it does
    idle, and the rest for that share. None where a power or the price of a machine is not known. A link that no list
    prices costs nothing, nor does a host where the scenario has no price of one.
    """
    costs = bound.scenario.costs
    watts: float | None = 0.0
    price: float | None = 0.0
    for device, count, share, work_w in (machine for machine in machines if machine[1]):
        limit, always, _, _ = _busy(bound, device)
        idle_w, _ = idle_power(bound, device)
        if watts is None or limit is None or always is None or idle_w is None:
            watts = None
        else:
            watts += count * (idle_w + (min(limit, always + work_w) - idle_w) * share)
        price = None if price is None or device.price is None else price + count * device.price.si
    if price is None or watts is None:
        return watts, None
    price = sum((link.price.si for link in links if link.price is not None), price)
    price += hosts_of(bound, [count for _, count, _, _ in machines]) * (costs.host_usd or 0.0)
    energy = watts * costs.pue * MONTH_S / J_PER_KWH * costs.energy_usd_per_kwh
    return watts, price / (12.0 * costs.years) + energy
