"""Sweeps: designs a second with every operator priced on every design, front filters, and memory of 10^7 designs."""

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import numpy as np

from engine.evaluate import evaluate
from engine.kernels.search.pareto import front_mask
from engine.sweep import price, space_of, sweep
from engine.sweep.space import Space
from tests.bench.timing import Row, interleaved, row

FASTEST_PEER_PER_S = 26_828.0  # decode steps a second of aiconfigurator's compiled core, on one core of this class
SPACES = {
    "a Xeon": {
        "scenario": {"system": "xeon-8280l", "workload": "wide-deep-criteo"},
        "axes": {
            "batch": [64, 512],
            "streams": [1, 4],
            "devices.0.cpu.clock": {"from": 2e9, "to": 4e9, "steps": 32},
            "devices.0.memory.dram.bandwidth": {"from": 1e11, "to": 4e11, "steps": 32},
        },
    },
    "a node of cards, every tile tried": {
        "scenario": {"system": "fb-node", "workload": "dlrm-less-complex"},
        "axes": {
            "devices.0.memory.lpddr.bandwidth": {"from": 3e10, "to": 1.2e11, "steps": 32},
            "devices.0.card.clock.max": {"from": 4e8, "to": 8e8, "steps": 32},
        },
    },
    "a DFX ring": {
        "scenario": {"system": "dfx-u280", "workload": "gpt2-345m"},
        "axes": {
            "devices": [1, 4],
            "batch": [1, 2, 4, 8],
            "inputs": [16, 32, 64, 128],
            "outputs": [16, 64, 128, 256],
            "devices.0.dfx.l": [8, 16, 32],
            "devices.0.dfx.cores": [1, 2],
            "devices.0.memory.hbm.bandwidth": {"from": 1e11, "to": 9e11, "steps": 20},
            "devices.0.dfx.clock": {"from": 1e8, "to": 4e8, "steps": 8},
        },
    },
    "a Brainwave": {
        "scenario": {"system": "brainwave-s10-isca18", "workload": "deepbench-gru-512"},
        "axes": {
            "params.hidden": [512, 1024, 2048],
            "devices": [1, 2, 4],
            "batch": [1, 2, 4, 8],
            "inputs": [25, 50, 100],
            "devices.0.npu.lanes": [10, 20, 30, 40, 50],
            "devices.0.npu.tiles": [3, 6, 9, 12, 16],
            "devices.0.npu.native_dim": [100, 200, 300, 400],
            "devices.0.npu.clock": {"from": 1e8, "to": 4e8, "steps": 40},
        },
    },
    "a SmartNIC": {
        "scenario": {"system": "agilio-cx", "workload": "binary-mlp-mnist"},
        "axes": {
            "batch": [1, 2, 4, 8, 16],
            "devices.0.smartnic.engines": [20, 30, 40, 50, 60, 90],
            "devices.0.smartnic.executors": [60, 120, 180, 240, 300, 480],
            "model.burst_words": [8, 16, 32],
            "devices.0.smartnic.clock": {"from": 4e8, "to": 1.2e9, "steps": 20},
            "model.word_cycles": {"from": 20, "to": 60, "steps": 20},
        },
    },
}
LAUNCH = "devices.0.gpu.kernel_launch"


def space(bandwidths: int, peaks: int, launches: int) -> Space:
    """A network of 36 operators on one, two or four GPUs; every rate varies, so that no operator is tabulated."""
    return space_of(
        {
            "scenario": {"system": "v100-appliance", "workload": "vgg16"},
            "axes": {
                "devices": [1, 2, 4],
                "scheme": ["tensor"],
                "batch": [1, 4, 16, 64],
                "devices.0.memory.hbm.bandwidth": {"from": 5e11, "to": 4e12, "steps": bandwidths, "scale": "log"},
                "devices.0.peak.fp16": {"from": 5e13, "to": 1e15, "steps": peaks, "scale": "log"},
                LAUNCH: {"from": 1e-6, "to": 1e-5, "steps": launches},
                "devices.0.price": [11_458],
            },
            "objectives": ["latency_s:min", "throughput_per_w:max", "usd_per_million:min"],
        }
    )


def best(work: Callable[[], object], turns: int = 7) -> float:
    """Least wall time of a few turns. [s]"""
    return float(interleaved({"": work}, turns, time.perf_counter)[""].min())


def by_peeling(values: np.ndarray) -> np.ndarray:
    """Front mask by numpy: keeps the point with the least sum, clears what it dominates, goes on with the rest."""
    left = np.argsort(values.sum(axis=0), kind="stable")
    mask = np.zeros(values.shape[1], dtype=bool)
    while len(left):
        one = values[:, [left[0]]]
        mask[left[(values[:, left] == one).all(axis=0)]] = True
        left = left[~(values[:, left] >= one).all(axis=0)]
    return mask


def whole_of(name: str, given: dict[str, Any]) -> Row:
    """A sweep from a dict to its front, over evaluations one by one."""
    grid = space_of(given)
    rate = grid.size / best(lambda: sweep(given), 2)
    ratio = rate * best(lambda: evaluate(grid.scenario(0)), 5)
    return row(f"whole sweep of {grid.size} designs of {name}", rate, "designs/s", "evaluate, one by one", ratio)


def live() -> list[Row]:
    """Designs a second of a network of which no operator is tabulated, on one thread and on two."""
    grid = space(100, 100, 9)
    with ThreadPoolExecutor(1) as alone, ThreadPoolExecutor(2) as two:
        calls = {"one": lambda: sweep(grid, executor=alone), "two": lambda: sweep(grid, executor=two)}
        seconds = interleaved(calls, 5, time.perf_counter)
    rate = grid.size / float(seconds["one"].min())
    ops = len(evaluate(grid.scenario(0)).ops)
    single = 1 / best(lambda: evaluate(grid.scenario(1)), 20)
    both = grid.size / float(seconds["two"].min())
    gained = median(seconds["one"] / seconds["two"])
    least = float(seconds["one"].min())
    peer = f"fastest peer, {FASTEST_PEER_PER_S:,.0f}/s"
    return [
        row(f"sweep, {ops} operators live, one thread", rate, "designs/s", "10 M designs/s", rate / 1e7, 1),
        row("the same, operators priced", rate * ops, "op/s", "400 M op/s", rate * ops / 4e8, 1),
        row("sweep, one thread", rate, "designs/s", peer, rate / FASTEST_PEER_PER_S, 100),
        row("sweep, one thread", rate, "designs/s", "evaluate, one by one", rate / single),
        row("sweep, two threads", both, "designs/s", "one thread beside it", gained, 1.8),
        row(f"sweep of {grid.size:.3g} designs to its front", least, "s", "3 s", least / 3, "<= 1", least <= 3),
    ]


def filtered() -> Row:
    """The front of a million designs, three objectives, beside numpy."""
    grid = space(100, 100, 9)
    values = price(grid, [o.figure for o in grid.objectives])[0][:, : 10**6]
    cost = np.ascontiguousarray(values * np.array([[o.sign] for o in grid.objectives]))
    whole, peeled = best(lambda: front_mask(cost), 15), best(lambda: by_peeling(cost), 1)
    equal = bool(np.array_equal(front_mask(cost), by_peeling(cost)))
    against, met = f"numpy filter, equal: {equal}", whole <= 0.015 and equal
    return row("front of 10^6 swept designs, 3 objectives", whole, "s", against, peeled / whole, "<= 15 ms", met)


_STREAM = """
import re, sys
sys.path.insert(0, {root!r})
from tests.bench.bench_sweep import space
from engine.sweep import sweep
def kept(name): return 1024 * int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
sweep(space(4, 4, 4))
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
base = kept("VmRSS")
found = sweep(space(100, 100, 70))
assert found.counts.done == found.space.size
print(found.space.size, found.seconds, kept("VmHWM") - base)
"""


def streamed() -> Row:
    """What 10^7 designs take above a few, in a process of its own."""
    root = __file__.rsplit("/tests/", 1)[0]
    told = subprocess.run([sys.executable, "-c", _STREAM.format(root=root)], check=True, capture_output=True, text=True)
    size, seconds, grown = (float(x) for x in told.stdout.split())
    name = f"memory of {size:.3g} designs above that of a few, in {seconds:.0f} s"
    return row(name, grown, "B", "1 GB", grown / 1e9, "< 1", grown < 1e9)


def rows() -> list[Row]:
    """Rates of one thread and two, whole sweeps of each family, fronts of 10^6 designs, bytes that 10^7 take."""
    return [*live(), *(whole_of(name, given) for name, given in SPACES.items()), filtered(), streamed()]
