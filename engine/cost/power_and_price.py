"""Power, energy, price and total cost of a plan. Estimates; a price is as published or assumed, and says so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from engine.cost.figures import POWER, money_figures
from engine.cost.schedule import Schedule
from engine.plan.schemes import Plan
from engine.resolve.bind import Bound
from engine.scenario.overrides import unstated
from hardware_specs.quantity import Quantity
from hardware_specs.schema import Device

__all__ = ["Account", "account", "device_power", "draw", "purchase"]


@dataclass(frozen=True)
class Account:
    """Power and money; None where a price or a power is not published."""

    power_w: float | None
    capex_usd: float | None
    notes: tuple[tuple[str, str], ...]  # (text, basis)


def device_power(device: Device, network: str) -> tuple[float | None, str]:
    """Power of one busy device and where the figure comes from: measured under load, else the board's limit. [W]

    `network` is the kind of network it runs, a family of `model_zoo`: a load measured on another alone says nothing.
    """
    if device.power.loaded is not None and device.power.loaded_on in (None, network):
        return device.power.loaded.si, f"{device.name}: power measured under load"
    if device.power.max is not None:
        return device.power.max.si, f"{device.name}: power limit of the board, an upper bound"
    return None, f"{device.name}: no power is published"


def draw(bound: Bound, plan: Plan) -> tuple[float | None, list[tuple[str, str]]]:
    """Power at full load and where its parts come from, as (text, basis). [W] An estimate, or an upper bound.

    That of the devices in use, plus switch and chassis where the system lists them, plus the host only where its
    document counted it.
    """
    notes: list[tuple[str, str]] = []
    power: float | None = 0.0
    for device, count in zip(bound.devices, plan.devices_used, strict=False):
        watts, why = device_power(device, bound.workload.family)
        notes.append((why, "published" if watts is not None else "assumed"))
        power = None if power is None or watts is None else power + count * watts
    system = bound.system
    if power is not None and system.extra_power is not None:
        power += system.extra_power.si
    if power is not None and system.host_power_counted and bound.host is not None:
        watts, why = device_power(bound.host, bound.workload.family)
        power = None if watts is None else power + watts
        notes.append((f"host counted: {why}", "published"))
    elif bound.host is not None:
        notes.append((_left_out(bound), "published"))
    if turned := unstated(bound.what_ifs, "power"):
        notes.append(
            (f"power is that of the catalog's parts, whatever a what-if makes of them: {_few(turned)}", "assumed")
        )
    return power, notes


def _few(paths: tuple[str, ...]) -> str:
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


def account(bound: Bound, plan: Plan, times: Schedule) -> Account:
    """Power at full load, purchase price of the devices in use, and cost of a unit of work.

    Cost of a unit spreads the price over `Costs.years` at `Costs.utilisation` and adds energy at `Costs.pue`. An
    estimate; power limits make it an upper bound.
    """
    power, drawn = draw(bound, plan)
    price, bought = purchase(bound, plan)
    c = bound.scenario.costs
    rows, first = times.rows, times.layout.globals + POWER
    known = (math.nan if value is None else value for value in (power, price))
    rows[first : first + 6, 0] = (*known, c.years, c.utilisation, c.pue, c.energy_usd_per_kwh)
    money_figures(rows, 1, times.layout.facts[1])
    return Account(power, price, (*drawn, *bought))
