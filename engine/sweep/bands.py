"""Error bands of a space's designs, from figures that are priced already."""

from __future__ import annotations

from collections.abc import Mapping

from engine.cost.changes import moved, plain
from engine.cost.error_bands import error_band
from engine.cost.report import NO_BAND, ErrorBand
from engine.devices.common.contract import RESOURCES
from engine.scenario import Scenario
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo, default_zoo


def band_of(
    scenario: Scenario, figures: Mapping[str, float | None], catalog: Catalog | None, zoo: Zoo | None
) -> ErrorBand:
    """Error band of a design that is priced: ``figures`` are all of `goals.FIGURES`. [s], [1/s]"""
    zoo = zoo or default_zoo()
    before = plain(scenario, catalog, zoo)
    latency, rate = figures["latency_s"], figures["throughput_per_s"]
    if before is None or latency is None or rate is None:
        return NO_BAND
    limit = max(RESOURCES, key=lambda name: figures[f"{name}_s"] or 0.0)
    network = zoo.workload(scenario.workload).family
    far = moved(scenario, latency, rate, catalog, zoo)
    return error_band(scenario, network, zoo.graph(scenario.workload), before.devices, limit, far)
