"""Fabric of an FPGA: what a design takes of each resource beside what a part has, and one sentence where it is short.

A demand is ``{resource: {unit: count}}`` with the resources of `hardware_specs.schema.Fpga`. Estimates.
"""

from __future__ import annotations

from collections.abc import Mapping

from hardware_specs.schema import Fpga

Demand = Mapping[str, Mapping[str, float]]

LABELS = {
    "lut": "LUT", "ff": "FF", "alm": "ALM", "dsp": "DSP slices", "bram36": "BRAM", "uram": "URAM", "m20k": "M20K",
}  # fmt: skip
ROUTABLE = {"lut": 0.8, "ff": 0.8, "alm": 0.95}
"""Share of a resource that can still be routed, where not all of it can. [-]

Assumed: 0.7 to 0.9 of the LUT where a design crosses dies (wires between them run out first, Hong et al., section VI);
a part of one die has been filled to 0.91 of its ALM (Fowers et al., ISCA 2018, recalled).
"""


def shortage(what: str, demand: Demand, fabric: Fpga | None, name: str) -> str | None:
    """Why a design does not fit a part's fabric, or None; also where a part does not say what it has."""
    for resource, units in demand.items():
        there = getattr(fabric, resource, None)
        taken, share = sum(units.values()), ROUTABLE.get(resource, 1.0)
        if there is not None and taken > share * there.si:
            routed = f", {100 * share:.0f}% of which can be routed" if taken <= there.si else ""
            return f"{what} takes {taken:,.0f} {LABELS[resource]}; {name} has {there.si:,.0f}{routed}."
    return None
