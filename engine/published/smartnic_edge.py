"""Predictions of the figures in document 003: AlexNet and an MLP on Xeons, splits, binary layers on a SmartNIC."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

from engine.analyses.depth_first import compare
from engine.analyses.edge import forwarding
from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.cost.rows import totals
from engine.devices.cpu import family as cpu
from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.scenario import Scenario
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from model_zoo.ops import Op

ALEXNET = Scenario(system="xeon-e5-2650", workload="alexnet", precision="fp32", tile=(1,))
QPI, TCP = "xeon-e5-2650-pair-qpi", "xeon-e5-2650-pair-tcp"
MLP = Scenario(system="xeon-e5-1630v3", workload="mlp-121m", precision="fp32", tile=(1,))
TONIC = Scenario(system="agilio-cx", workload="binary-fc-4096", precision="binary", scheme="on-path")
BNN_EXEC = Scenario(system="xeon-e5-1630v3", workload="binary-fc-4096", precision="binary", batch=32, streams=4)
LARGER_BYTES = (512, 1024, 1518)  # packets forwarded while 256 executors infer


# --- AlexNet: counts -------------------------------------------------------------------------------------------------


@cache
def _alexnet() -> dict[str, Op]:
    return {op.name: op for op in default_zoo().graph("alexnet").phases[0].ops}


# --- AlexNet and the MLP: time ---------------------------------------------------------------------------------------


def _layers() -> dict[str, float]:
    """Time of each AlexNet layer on one core, activation included. [s]"""
    return totals((row.name.removesuffix("-relu"), row.time_s) for row in evaluate(ALEXNET).ops)


def _order() -> bool:
    """conv1, conv2 and conv3 take longest, then fc6, then every other layer."""
    t = _layers()
    first = min(t["conv1"], t["conv2"], t["conv3"])
    slowest = max(v for k, v in t.items() if k not in ("conv1", "conv2", "conv3", "fc6"))
    return first > t["fc6"] > slowest


def _ipc(scenario: Scenario, dense: bool | None = None) -> float:
    """Instructions a cycle, of everything, of the fully connected layers, or of what comes before them."""
    bound = bind(scenario)
    job = assemble(bound, make_plan(bound)).priced[0].runs[0].job
    if dense is not None:
        first = next(i for i, op in enumerate(job.ops) if op.kind == "Gemm")
        job = replace(job, ops=job.ops[first:] if dense else job.ops[:first])
    result = cpu.instructions_per_cycle(job)
    assert result is not None, job.device.id
    return result


# --- splits ----------------------------------------------------------------------------------------------------------


def _split(system: str, at: int) -> Scenario:
    return ALEXNET.with_(system=system, scheme="split", devices=2, split=at)


@cache
def overheads(system: str) -> dict[str, tuple[float, float]]:
    """After each op: elements that cross, and latency over the unsplit network. [elements], [%]"""
    ops = list(_alexnet().values())
    whole = evaluate(_split(system, len(ops))).latency_s  # where its input arrives
    return {
        op.name: (op.writes.at(), 100 * (evaluate(_split(system, at)).latency_s / whole - 1))
        for at, op in enumerate(ops[:-1], 1)
    }


def _most_crossing(below: float = float("inf")) -> float:
    """Most elements that cross a cut, of those with fewer than so many. [-]"""
    return max(elements for elements, _ in overheads(QPI).values() if elements < below)


def _largest_overhead(system: str) -> float:
    return max(percent for _, percent in overheads(system).values())


# --- binary layers ---------------------------------------------------------------------------------------------------


def _binary_weights(neurons: int) -> float:
    """Weights of a binary layer of 4,096 inputs. [-]"""
    return sum(op.stored for op in default_zoo().graph("binary-fc-4096", {"neurons": neurons}).phases[0].ops)


def _nic_over_core(neurons: int) -> float:
    """Latency of a layer on the SmartNIC over its time alone on one core at batch 1. [-]"""
    params = {"neurons": neurons}
    core = evaluate(BNN_EXEC.with_(batch=1, streams=1, tile=(1,), params=params))
    return evaluate(TONIC.with_(params=params)).latency_s / sum(row.time_s for row in core.ops)


# --- depth-first execution -------------------------------------------------------------------------------------------

NETWORKS = ("alexnet", "vgg16", "resnet152", "densenet161", "mobilenet-v1")


@cache
def sol(device: str, batch: int) -> dict[str, float]:
    """Speedup of depth-first over breadth-first execution by network. [-]"""
    spec = default_catalog().device(device)
    return {name: compare(spec, default_zoo().graph(name), batch).speedup for name in NETWORKS}


def _sol_on_gpu() -> bool:
    """Faster in all cases; MobileNet and DenseNet gain most."""
    gains = sol("v100-32gb", 128)
    top = sorted(gains, key=lambda name: -gains[name])[:2]
    return min(gains.values()) > 1 and set(top) == {"mobilenet-v1", "densenet161"}


def _sol_on_arm() -> bool:
    """MobileNet gains most, and more than on the GPU."""
    gains = sol("arm-edge-cpu", 1)
    return max(gains, key=lambda name: gains[name]) == "mobilenet-v1" and (
        gains["mobilenet-v1"] > sol("v100-32gb", 128)["mobilenet-v1"]
    )


VALUES: Mapping[str, Callable[..., Any]] = {
    "5G-008": lambda: max(max(op.reads.at(), op.writes.at()) for op in _alexnet().values() if op.kind == "Gemm"),
    "5G-016": lambda: _ipc(ALEXNET, dense=False),
    "5G-017": lambda: _ipc(ALEXNET, dense=True),
    "5G-018": _order,
    "5G-019": lambda: 1e3 * sum(time_s for layer, time_s in _layers().items() if layer.startswith("fc")),
    "5G-021": lambda: _largest_overhead(QPI),
    "5G-022": lambda worst: worst * _most_crossing(_alexnet()["pool1"].writes.at()) / _most_crossing(),
    "5G-023": lambda: (min(percent for _, percent in overheads(TCP).values()), _largest_overhead(TCP)),
    "5G-026": lambda: _ipc(MLP),
    "5G-027": lambda: _ipc(MLP.with_(batch=128)),
    "5G-044": lambda: tuple(1e6 * round(_binary_weights(n) / 1e6) for n in (2048, 16384)),
    "5G-045": lambda: prod(map(_nic_over_core, (2048, 16384))) ** 0.5,  # ends of the measured range
    "5G-052": lambda: 8e-9 * min(forwarding(default_catalog().device("agilio-cx-2x40"), 256, LARGER_BYTES).bytes_per_s),
    "5G-070": _sol_on_gpu,
    "5G-071": _sol_on_arm,
}
