"""Predictions of the figures in document 001: the Brainwave NPU, its parts, its headline GRU and Bing's models.

The pipeline depths of the NPU add up to a step that is recalled from another paper, but the hop between tiles is that
step less the printed one, so the headline is calibration. Bing's models lack sequence lengths, a number of FPGAs and
the shape of a CNN, so no figure of theirs is claimed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from engine.cost.assemble import assemble
from engine.devices.npu.pinning import stored_bits
from engine.evaluate import evaluate
from engine.plan.schemes import open_plan
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario
from hardware_specs.catalog import default_catalog, numbers


def bing(workload: str, steps: int = 50, system: str = "brainwave-a10", devices: int = 1) -> Scenario:
    """One of Bing's models with an assumed sequence length."""
    scheme = "pinned" if devices > 1 else "single"
    return default_scenario(system, workload, devices=devices, scheme=scheme, inputs=steps)


def _tens_of_millions() -> bool:
    device = default_catalog().device("stratix-10-280-brainwave-pre")
    weights = dict(numbers(device))["fpga.m20k"].si * 512 * 40 / stored_bits(device, "ms-fp8")
    return 1e7 <= weights < 1e8


def _network_is_small() -> bool:
    """Microseconds on the wires, milliseconds at work, for a model pinned over two FPGAs.

    Pinned as the document has it: depth first, a matrix that fits is not divided. The planner finds a faster way.
    """
    bound = bind(bing("deepscan", 200, devices=2))
    times = assemble(bound, next(plan for plan in open_plan(bound).options if len(plan.stages) == 2))
    links = times.figure("links_s")
    return links is not None and 1e-6 < links < 1e-4 and 1e-3 < times.latency_s < 1e-2


def _best_utilisation() -> float:
    """Share of the dense peak that a request of the document's own recurrent networks reaches end to end. [-]"""
    gru = default_scenario("brainwave-s10-pre", "gru-3200x2400")
    reports = map(evaluate, (gru, bing("tp1-lstm"), bing("deepscan", 200)))
    return max(sum(op.flops for op in r.ops) / r.latency_s / r.roofline.peak_flops_per_s for r in reports)


VALUES: Mapping[str, Callable[..., Any]] = {
    "BW-006": _best_utilisation,
    "BW-008": _network_is_small,
    "BW-015": _tens_of_millions,
}
