"""Demand and site of a capacity plan, as a page asks for them."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Site:
    """Demand and site of a plan, as the sidebar has them. [1/s], [-], [W], [$]"""

    peak_qps: float
    mean_share: float
    headroom: float
    survives: str
    slots: int
    rack_w: float
    node_usd: float | None
    idle_w: float | None

    def at(self, peak_qps: float) -> Site:
        """The same site with another peak. [1/s]"""
        return replace(self, peak_qps=peak_qps)
