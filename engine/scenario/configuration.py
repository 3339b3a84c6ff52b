"""One way to name a scenario's configuration: count, precision and partition always, what else differs after them."""

from engine.scenario.formats import LABELS
from engine.scenario.scenario import Scenario

_WAYS = {"PP": "pipeline_parallel", "DP": "attention_dp", "CP": "context_parallel", "EP": "expert_parallel"}


def partition(scenario: Scenario) -> str:
    """How the network lies on the devices: `TP8`, `6 replicas`, `tables on 6`, `pinned on 4`, `cut at 23`, `on path`;
    empty where it lies on one.
    """
    count = scenario.devices
    if scenario.scheme == "split":
        return " and ".join(f"{at}" for at in (f"cut at {scenario.split}", scenario.second_split) if at is not None)
    if scenario.scheme == "on-path":
        return "on path"
    if count == 1 or scenario.scheme == "single":
        return ""
    if scenario.scheme == "tensor":
        ways = {name: getattr(scenario, path) or 1 for name, path in _WAYS.items()}
        return " ".join(
            [f"TP{tensor_ways(scenario)}", *(f"{name}{count}" for name, count in ways.items() if count > 1)]
        )
    return f"{count} replicas" if scenario.scheme == "replicas" else f"{scenario.scheme} on {count}"


def stage_devices(scenario: Scenario) -> int:
    """Devices of one pipeline stage. [-]"""
    return scenario.devices // (scenario.pipeline_parallel or 1)


def tensor_ways(scenario: Scenario) -> int:
    """Devices that share every operator of attention: of a group of a context of a rank of a pipeline stage. [-]"""
    return stage_devices(scenario) // ((scenario.attention_dp or 1) * (scenario.context_parallel or 1))


def configuration(scenario: Scenario) -> str:
    """`8x, FP8, TP8, batch 128`, `1x, FP8, batch 128`: devices, precision, partition, batch, streams where several."""
    count = 1 if scenario.scheme == "single" else scenario.devices
    parts = [f"{count}x", LABELS[scenario.precision], partition(scenario), f"batch {scenario.batch:,}"]
    if scenario.streams > 1:
        parts.append(f"{scenario.streams} streams")
    return ", ".join(filter(None, parts))
