"""Predictions of the figures in document 001: the Brainwave NPU, its parts, its headline GRU and Bing's models.

The pipeline depths of the NPU add up to a step that is recalled from another paper, but the hop between tiles is that
step less the printed one, so the headline is calibration. Bing's models lack sequence lengths, a number of FPGAs and
the shape of a CNN, so no figure of theirs is claimed.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from engine.cost.assemble import assemble
from engine.cost.report import Report
from engine.devices import family
from engine.devices.npu.pinning import stored_bits
from engine.evaluate import evaluate
from engine.plan.schemes import open_plan
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario
from hardware_specs.catalog import default_catalog
from hardware_specs.schema import Device, Npu
from model_zoo.catalog import default_zoo

PRE = "stratix-10-280-brainwave-pre"
PRODUCTION = "stratix-10-280-brainwave"
FORMAT = "ms-fp8"


def gru() -> Scenario:
    """The headline: a GRU of 3200 inputs and 2400 hidden units, 480 steps, on pre-production silicon."""
    return default_scenario("brainwave-s10-pre", "gru-3200x2400", devices=1, scheme="single")


def bing(workload: str, steps: int = 50, system: str = "brainwave-a10", devices: int = 1) -> Scenario:
    """One of Bing's models with an assumed sequence length."""
    scheme = "pinned" if devices > 1 else "single"
    return default_scenario(system, workload, devices=devices, scheme=scheme, inputs=steps)


@cache
def headline() -> Report:
    """Evaluation of the headline."""
    return evaluate(gru())


def _operations(workload: str) -> float:
    """Operations of one request of a workload, a multiply-add counted as two. [FLOP]"""
    zoo = default_zoo()
    request = zoo.workload(workload).request
    return 2 * zoo.graph(workload).macs(1, request.inputs, request.outputs)


def effective() -> float:
    """Operations a second of the headline. [FLOP/s]"""
    return _operations("gru-3200x2400") / headline().latency_s


def utilisation(scenario: Scenario) -> float:
    """Share of the dense peak that a request reaches end to end. [-]"""
    report = evaluate(scenario)
    return sum(op.flops for op in report.ops) / report.latency_s / report.roofline.peak_flops_per_s


def _device(id: str) -> tuple[Device, Npu]:
    device = default_catalog().device(id)
    assert device.npu is not None
    return device, device.npu


def _peak(id: str) -> float:
    return family("npu").peak(_device(id)[0], FORMAT)


def _word_bytes() -> float:
    """What all blocks of memory give a cycle, 40 bits each. [B]"""
    fabric = _device(PRE)[0].fpga
    assert fabric is not None
    assert fabric.m20k is not None
    return fabric.m20k.si * 40 / 8


def _memory_bytes() -> float:
    return _word_bytes() * 512


def _tens_of_millions() -> bool:
    device, _ = _device(PRE)
    weights = _memory_bytes() * 8 / stored_bits(device, FORMAT)
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
    return max(utilisation(s) for s in (gru(), bing("tp1-lstm"), bing("deepscan", 200)))


def _sizes() -> float:
    zoo = default_zoo()
    return zoo.graph("tp1-lstm").parameters / zoo.graph("tp1-gru-cpu").parameters


def _per_watt() -> float:
    device, _ = _device(PRODUCTION)
    assert device.power.max is not None
    return _peak(PRODUCTION) / device.power.max.si


VALUES: Mapping[str, Callable[..., Any]] = {
    "BW-001": lambda: effective() / 1e12,
    "BW-006": _best_utilisation,
    "BW-008": _network_is_small,
    "BW-010": lambda rate: 1e12 * rate / _device(PRE)[1].clock.si,
    "BW-013": lambda: _memory_bytes() / 1e6,
    "BW-014": lambda: _word_bytes() * 600e6 / 1e12,
    "BW-015": _tens_of_millions,
    "BW-020": lambda: _peak(PRODUCTION) / 1e12,
    "BW-026": _sizes,
    "BW-036": lambda: _peak(PRE) / 1e12,
    "BW-037": lambda: _operations("gru-3200x2400"),
    "BW-038": lambda rate: 1e-9 * _operations("gru-3200x2400") / rate,
    "BW-039": lambda rate: 1e12 * rate / _peak(PRE),
    "BW-040": lambda: _operations("gru-3200x2400") / _operations("resnet50-v1"),
    "BW-041": lambda: _operations("gru-3200x2400") / _operations("alexnet"),
    "BW-043": lambda: _device(PRODUCTION)[1].clock.si / _device(PRE)[1].clock.si - 1,
    "BW-045": lambda: _per_watt() / 1e9,
}
