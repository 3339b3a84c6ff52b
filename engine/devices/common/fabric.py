"""Fabric of an FPGA: what a design takes of each resource beside what a part has, and one sentence where it is short.

A demand is ``{resource: {unit: count}}`` with the resources of `hardware_specs.schema.Fpga`. Estimates.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.devices.common.model_file import parameters_of
from hardware_specs.quantity import Quantity
from hardware_specs.schema import Device, Fpga

Demand = Mapping[str, Mapping[str, float]]

LABELS = {
    "lut": "LUT", "ff": "FF", "alm": "ALM", "dsp": "DSP slices", "bram36": "BRAM", "uram": "URAM", "m20k": "M20K",
}  # fmt: skip
ROUTABLE = {"lut": 0.8, "ff": 0.8, "alm": 0.95}
"""Share of a resource that can still be routed, where not all of it can. [-]

Assumed: 0.7 to 0.9 of the LUT where a design crosses dies (wires between them run out first, Hong et al., section VI);
a part of one die has been filled to 0.91 of its ALM (Fowers et al., ISCA 2018, recalled).
"""


def shortage(subject: str, demand: Demand, fabric: Fpga | None, name: str) -> str | None:
    """Why a design does not fit a part's fabric, or None; also where a part does not say what it has."""
    for resource, units in demand.items():
        there = getattr(fabric, resource, None)
        count, share = sum(units.values()), ROUTABLE.get(resource, 1.0)
        if there is not None and count > share * there.si:
            limit_text = f", {100 * share:.0f}% of which can be routed" if count <= there.si else ""
            return f"{subject} takes {count:,.0f} {LABELS[resource]}; {name} has {there.si:,.0f}{limit_text}."
    return None


POWER = parameters_of(Path(__file__).with_name("power.yaml"))


def what_if_ratio(quantities: Iterable[Quantity | None]) -> Any:
    """By how much what-ifs move the product of some numbers of the catalog. [-]"""
    return math.prod((q.si / q.catalog_si for q in quantities if q is not None), start=1.0)


def idle_power(device: Device, units: Any, clock: Quantity, model: Mapping[str, float]) -> Any:
    """What an image draws while none of its units work: leakage, shell, clock tree. [W] An estimate, of shares.

    None where no power of the part is published.
    """
    power = device.power.loaded or device.power.max
    if power is None:
        return None
    activity = units * what_if_ratio((clock,)) if power.before is None else 1.0
    apart = 1.0 - model["switched_share"] - model["memory_share"]
    return power.si * (apart + model["switched_share"] * model["clock_tree"] * activity)


def scaled_power(units: Any, clock: Quantity, memory: Quantity | None, model: Mapping[str, float]) -> Any:
    """Power of a what-if, with so many times the units, over that of the catalog's image. [-] An estimate."""
    logic, traffic = model["switched_share"], model["memory_share"]
    return 1.0 + logic * (units * what_if_ratio((clock,)) - 1.0) + traffic * (what_if_ratio((memory,)) - 1.0)
