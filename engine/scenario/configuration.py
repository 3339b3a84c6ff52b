"""One way to name a scenario's configuration: count, precision and partition always, what else differs after them."""

from __future__ import annotations

from engine.scenario.formats import LABELS
from engine.scenario.scenario import Scenario


def partition(scenario: Scenario) -> str:
    """How the network lies on the devices: `TP8`, `6 replicas`, `tables on 6`, `pinned on 4`, `cut at 23`, `on path`;
    empty where it lies on one.
    """
    count = scenario.devices
    if scenario.scheme == "split":
        return f"cut at {scenario.split}"
    if scenario.scheme == "on-path":
        return "on path"
    if count == 1 or scenario.scheme == "single":
        return ""
    named = {"tensor": f"TP{count}", "replicas": f"{count} replicas"}
    return named.get(scenario.scheme, f"{scenario.scheme} on {count}")


def configuration(scenario: Scenario) -> str:
    """`8x, FP8, TP8, batch 128`, `1x, FP8, batch 128`: devices, precision, partition, batch, streams where several."""
    count = 1 if scenario.scheme == "single" else scenario.devices
    parts = [f"{count}x", LABELS[scenario.precision], partition(scenario), f"batch {scenario.batch:,}"]
    if scenario.streams > 1:
        parts.append(f"{scenario.streams} streams")
    return ", ".join(filter(None, parts))
