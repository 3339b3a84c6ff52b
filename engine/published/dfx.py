"""Predictions of the figures in document 004: GPT-2 on the DFX appliance, on V100s and on a TPU.

Fitted on document 004: what no mechanism explains of a synchronisation of DFX cards (DFX-054, DFX-055), one constant of
the eager GPU baseline (DFX-006) and one of the TPU (DFX-051). Chosen inside their ranges with the four printed rates in
view: issue, first access and reads in flight of the core, and the hop of its ring. Everything else here follows.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import takewhile
from statistics import fmean
from typing import Any

import numpy as np

from engine.cost.report import Report
from engine.devices import family
from engine.devices.dfx import program as isa
from engine.devices.dfx.core import LayerSizes, core_record, time_program, vector_lanes
from engine.devices.dfx.fabric import dsp_slices
from engine.devices.dfx.family import TILE_SIDES
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario
from hardware_specs.catalog import default_catalog, numbers
from hardware_specs.schema import Device, Dfx
from model_zoo.catalog import default_zoo

GRID: tuple[tuple[int, int], ...] = tuple((i, o) for i in (32, 64, 128) for o in (1, 4, 16, 64, 256))
"""Input and output lengths averaged over: the document prints the inputs and the ends of the outputs, not the rest."""

SIZES: tuple[tuple[str, int], ...] = (("345m", 1), ("774m", 2), ("1.5b", 4))
"""Models with the number of cards, and of GPUs, the document runs them on."""

_EAGER = {"graph": False, "fuse": False}
_RUNS: dict[str, dict[str, Any]] = {
    "dfx": {"system": "dfx-u280", "scheme": "tensor"},
    "v100": {"system": "v100-appliance", "scheme": "tensor", "precision": "fp16", "switches": _EAGER},
    "tpu": {"system": "tpu-v3", "switches": _EAGER},
}
"""How the document runs a model: on a ring of cards, on GPUs as Megatron-LM does (operator by operator), on one TPU."""
FULL_CONTEXT = 1024.0


def bar(on: str, model: str, devices: int, inputs: int = 64, outputs: int = 64) -> Scenario:
    """GPT-2 as one bar of a figure has it; ``on`` is dfx, v100 or tpu."""
    return default_scenario(workload=f"gpt2-{model}", devices=devices, inputs=inputs, outputs=outputs, **_RUNS[on])


@cache
def report(on: str, model: str, devices: int, inputs: int = 64, outputs: int = 64) -> Report:
    """Evaluation of one bar."""
    return evaluate(bar(on, model, devices, inputs, outputs))


def latency(on: str, model: str, cards: int, inputs: int = 64, outputs: int = 64) -> float:
    """Seconds of one request. [s]"""
    return report(on, model, cards, inputs, outputs).latency_s


def rate(on: str, model: str, cards: int, inputs: int = 64, outputs: int = 64) -> float:
    """Output tokens a second. [1/s]"""
    return report(on, model, cards, inputs, outputs).throughput_per_s


def speedup(model: str, cards: int) -> float:
    """Latency of the grid on V100s over that on DFX, both summed over the grid. [-]"""
    gpus = sum(latency("v100", model, cards, i, o) for i, o in GRID)
    return gpus / sum(latency("dfx", model, cards, i, o) for i, o in GRID)


def sync_share() -> float:
    """Share of the latency of 1.5B on four cards spent in the ring synchronisations of the layers. [-]"""
    result = report("dfx", "1.5b", 4)
    return sum(row.time_s for row in result.other if row.name.startswith("ring sync")) / result.latency_s


def _work(on: str, phase: str) -> float:
    """Operations of GPT-2 345M 64:64 in one phase. [FLOP]"""
    return sum(op.flops for op in report(on, "345m", 1).ops if op.phase == phase)


def generation_rate(on: str) -> float:
    """Operations a second of GPT-2 345M 64:64 after the first token. [FLOP/s]"""
    result = report(on, "345m", 1)
    assert result.ttft_s is not None
    return _work(on, "decode") / (result.latency_s - result.ttft_s)


def work() -> float:
    """Operations an output token of GPT-2 345M 64:64 takes on DFX, both stages. [FLOP]"""
    return sum(op.flops for op in report("dfx", "345m", 1).ops) / 64


def crossover() -> float:
    """Largest input over output length of the grid up to which DFX is faster with every model. [-]"""

    def faster(ratio: float) -> bool:
        bars = ((model, cards, i, o) for model, cards in SIZES for i, o in GRID if i / o == ratio)
        return all(latency("dfx", *at) < latency("v100", *at) for at in bars)

    return max(takewhile(faster, sorted({i / o for i, o in GRID})), default=0.0)


def _core() -> tuple[Device, Dfx]:
    device = default_catalog().device("alveo-u280-dfx")
    assert device.dfx is not None
    return device, device.dfx


@cache
def tiles() -> dict[tuple[int, int], tuple[float, float, float]]:
    """Tiles that fill the memory port with what multi-head attention of a layer of GPT-2 1.5B at full context takes.

    All of it and the matrix unit's part [s], and the core's DSP slices.
    """
    device, core = _core()
    model = family("dfx").model(device)
    layer = LayerSizes.of(default_zoo().graph("gpt2-1.5b").phases[0])
    rows = [isa.ROLES.index(name) for name in ("scores", "softmax", "context")]
    result = {}
    for tile in ((d, 1024 // d) for d in TILE_SIDES):
        timing = time_program("layer", core_record(device, None, 1, 1, tile, model), layer, FULL_CONTEXT, True)
        products = np.isin(timing.code[:, isa.ROLE], rows) & (timing.code[:, isa.UNIT] == isa.MPU)
        cycles, matrix = float(timing.by_role[rows].sum()), float(timing.code[products, isa.OCCUPY].sum())
        slices = sum(dsp_slices(*tile, vector_lanes(core)).values())
        result[tile] = cycles / core.clock.si, matrix / core.clock.si, slices
    return result


def _fastest() -> list[tuple[int, int]]:
    """Of them those that take no longer than the best but for 2%, which the document calls negligible."""
    shortest = min(seconds for seconds, _, _ in tiles().values())
    return [tile for tile, (seconds, _, _) in tiles().items() if seconds <= shortest * 1.02]


def _slices() -> dict[str, float]:
    _, core = _core()
    return dsp_slices(core.d.si, core.l.si, vector_lanes(core))


def _dsp_share() -> float:
    device, _ = _core()
    return 100 * sum(_slices().values()) / dict(numbers(device))["fpga.dsp"].si


def _summarization_rate(on: str, generation: float) -> float:
    """A pass over 64 tokens costs as many calls as one over a token, so their rates are as their work. [GFLOP/s]"""
    return generation * (_work(on, "prefill") / (_work(on, "decode") / 63))


VALUES: Mapping[str, Callable[..., Any]] = {
    "DFX-001": lambda: speedup("1.5b", 4),
    "DFX-004": lambda: fmean(rate("dfx", "1.5b", 4, i, o) / rate("v100", "1.5b", 4, i, o) for i, o in GRID),
    "DFX-006": lambda: speedup("345m", 1),
    "DFX-007": lambda: speedup("774m", 2),
    "DFX-020": lambda: list(min(_fastest(), key=lambda tile: tiles()[tile][2])),  # of them the fewest slices
    "DFX-022": lambda: sorted(map(list, _fastest())),
    "DFX-024": lambda: _slices()["matrix function unit"],
    "DFX-037": _dsp_share,
    "DFX-043": sync_share,
    "DFX-048": partial(_summarization_rate, "v100"),
    "DFX-044": crossover,
    "DFX-049": partial(_summarization_rate, "tpu"),
    "DFX-050": lambda: generation_rate("v100") / 1e9,
    "DFX-051": lambda: generation_rate("tpu") / 1e9,
    "DFX-052": lambda rate: rate * work() / 1e9,
    "DFX-056": lambda four, single: math.sqrt(four / single),
}
