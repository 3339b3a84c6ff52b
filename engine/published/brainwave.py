"""Predictions of the figures in document 001: the Brainwave NPU, its parts, its headline GRU and Bing's models.

The pipeline depths of the NPU add up to a step that is recalled from another paper, but the hop between tiles is that
step less the printed one, so the headline is calibration. Bing's models lack sequence lengths, a number of FPGAs and
the shape of a CNN, so no figure of theirs is claimed.
"""

from __future__ import annotations

from functools import cache

from engine.cost.assemble import assemble
from engine.cost.report import Report
from engine.devices import family
from engine.devices.npu.family import stored_bits
from engine.evaluate import evaluate
from engine.plan.schemes import open_plan
from engine.published.prediction import Prediction
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


def _memory_bytes() -> float:
    device, _ = _device(PRE)
    assert device.fpga is not None
    assert device.fpga.m20k is not None
    return device.fpga.m20k.si * 512 * 40 / 8


def _memory_rate(clock: float) -> float:
    device, _ = _device(PRE)
    assert device.fpga is not None
    assert device.fpga.m20k is not None
    return device.fpga.m20k.si * 40 / 8 * clock


def _tens_of_millions() -> bool:
    device, _ = _device(PRE)
    held = _memory_bytes() * 8 / stored_bits(device, FORMAT)
    return 1e7 <= held < 1e8


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


PREDICTIONS: dict[str, Prediction] = {
    "BW-001": Prediction(lambda: effective() / 1e12, gru, "npu"),
    "BW-006": Prediction(_best_utilisation, gru, None, "The best of the document's own recurrent networks."),
    "BW-008": Prediction(
        _network_is_small,
        lambda: bing("deepscan", 200, devices=2),
        None,
        "DeepScan of 200 words on two FPGAs, pinned depth first.",
    ),
    "BW-010": Prediction(
        lambda rate: 1e12 * rate / _device(PRE)[1].clock.si, gru, "npu", "Sustained over the headline.", ("BW-001",)
    ),
    "BW-013": Prediction(lambda: _memory_bytes() / 1e6),
    "BW-014": Prediction(lambda: _memory_rate(600e6) / 1e12),
    "BW-015": Prediction(_tens_of_millions, None, None, "All of the memory at three stored bits a weight."),
    "BW-020": Prediction(lambda: _peak(PRODUCTION) / 1e12),
    "BW-026": Prediction(_sizes),
    "BW-036": Prediction(lambda: _peak(PRE) / 1e12),
    "BW-037": Prediction(lambda: _operations("gru-3200x2400"), gru),
    "BW-038": Prediction(lambda rate: 1e-9 * _operations("gru-3200x2400") / rate, gru, "npu", of=("BW-001",)),
    "BW-039": Prediction(lambda rate: 1e12 * rate / _peak(PRE), gru, "npu", of=("BW-001",)),
    "BW-040": Prediction(
        lambda: _operations("gru-3200x2400") / _operations("resnet50-v1"),
        None,
        None,
        "ResNet-50 as first published, 7.7 G operations; as frameworks define it today it has 8.2: 4.7.",
    ),
    "BW-041": Prediction(lambda: _operations("gru-3200x2400") / _operations("alexnet")),
    "BW-043": Prediction(lambda: _device(PRODUCTION)[1].clock.si / _device(PRE)[1].clock.si - 1),
    "BW-045": Prediction(lambda: _per_watt() / 1e9),
}

_TP1 = (
    "Sequence length, FPGA generation and count, and software time are not stated: on one Arria 10 the eight LSTMs "
    "take 19 us a step, so 50 steps make about 1 ms."
)
_DEEPSCAN = (
    "Passage length, FPGA count and the shape of the CNN are not stated: on one Arria 10 the four GRUs take 8.6 us a "
    "word."
)
_CPU = "Sequence length, the CPU and its share of a busy server are not stated, and a 95th percentile needs its load."

REASONS: dict[str, str] = {
    "BW-021": _CPU,
    "BW-022": _TP1,
    "BW-023": _CPU,
    "BW-024": _DEEPSCAN,
    "BW-025": f"A ratio of two figures neither of which can be predicted. {_TP1}",
    "BW-027": f"Size ratio times latency ratio, and the latter can't be predicted. {_TP1}",
    "BW-029": f"A ratio of two figures neither of which can be predicted. {_DEEPSCAN}",
}
