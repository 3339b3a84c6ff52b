"""Sweeps along the axes people turn first: designs a second of the whole sweep and of its pricing, and its set-up.

A row is one sweep from a dict to its front, on one thread and on two; set-up is what `SweepResult.setup_s` says.
"""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from engine.sweep import space_of, sweep
from model_zoo.catalog import default_zoo
from tests.bench.timing import Row, row

GPUS = (
    "a100-sxm-80gb", "b200-sxm", "gaudi-2", "gaudi-3", "h100-sxm", "h200-sxm", "l4", "l40s", "mi300x", "mi355x",
    "rtx-3090", "rtx-4090", "t4", "tpu-v5e", "tpu-v6e",
)  # fmt: skip


def _upto(low: int, high: int, count: int) -> dict[str, Any]:
    return {"from": low, "to": high, "steps": count, "whole": True}


def _of(system: str, workload: str, /, **axes: Any) -> dict[str, Any]:
    return {
        "scenario": {"system": system, "workload": workload},
        "axes": axes,
        "constraints": [],
        "objectives": ["latency_s:min", "throughput_per_s:max"],
    }


SPACES: dict[str, tuple[dict[str, Any], float]] = {
    "batch x inputs x outputs, Llama 3.1 8B on an H100": (
        _of(
            "h100-sxm", "llama3.1-8b",
            batch=_upto(1, 128, 128), inputs=_upto(16, 4096, 96), outputs=_upto(1, 1024, 80),
        ),
        5e6,
    ),
    "systems x batch x inputs x outputs, Llama 3.1 8B": (
        _of(
            "h100-sxm", "llama3.1-8b",
            system=list(GPUS), batch=_upto(1, 64, 64), inputs=_upto(64, 2048, 32), outputs=_upto(32, 1024, 32),
        ),
        2e6,
    ),
    "five systems (GPU, CPU, card) x batch, ResNet-50": (
        _of(
            "a100-sxm-80gb", "resnet50",
            system=["a100-sxm-80gb", "t4", "xeon-8280l", "xeon-d-2191", "fb-card"], batch=_upto(1, 256, 256),
        ),
        3e5,
    ),
    "batch, DLRM on the six-card node": (_of("fb-node", "dlrm-less-complex", batch=_upto(1, 512, 512)), 2e4),
    "batch x streams, Wide & Deep on the Xeon": (
        _of("xeon-8280l", "wide-deep-criteo", batch=_upto(1, 2048, 2048), streams=_upto(1, 28, 28)),
        1e6,
    ),
    "steps x hidden, GRU on Brainwave": (
        _of(
            "brainwave-s10-isca18", "deepbench-gru-512",
            inputs=_upto(1, 1000, 1000), **{"params.hidden": list(range(256, 2817, 256))},
        ),
        5e5,
    ),
    "inputs x outputs, GPT-2 1.5B on DFX": (
        _of("dfx-u280", "gpt2-1.5b", inputs=_upto(1, 256, 256), outputs=_upto(1, 256, 256)),
        3e5,
    ),
    "workloads x batch, all CNNs on an A100": (
        _of("a100-sxm-80gb", "resnet50", workload="", batch=_upto(1, 64, 64)),
        1e6,
    ),
    **{
        f"bandwidth x peak, {name}": (_of(system, workload, **{f"devices.0.{path}": {"from": low, "to": 8 * low,
                                     "steps": 400} for path, low in (("memory.hbm.bandwidth", 5e11),
                                                                     ("peak.bf16", 1.25e14))}), 5e6)
        for name, system, workload in (("ResNet-50 on an A100", "a100-sxm-80gb", "resnet50"),
                                       ("Llama 3.1 8B on an H100", "h100-sxm", "llama3.1-8b"))
    },
}  # fmt: skip


def spaces() -> Iterator[tuple[str, dict[str, Any], float]]:
    """Each row's name, its space and its goal. [designs/s]"""
    for name, (given, goal) in SPACES.items():
        zoo, axes = default_zoo(), given["axes"]
        cnns = [w for w in zoo.ids() if zoo.workload(w).family == "cnn"]
        yield name, given | {"axes": axes | ({"workload": cnns} if "workload" in axes else {})}, goal


def timed(given: dict[str, Any], threads: int, turns: int = 2) -> tuple[float, float]:
    """Least wall time of a sweep on so many threads, and the set-up of that turn. [s]"""
    with ThreadPoolExecutor(threads) as pool:
        found = []
        for _ in range(turns):
            start = time.perf_counter()
            result = sweep(given, executor=pool)
            found.append((time.perf_counter() - start, getattr(result, "setup_s", 0.0)))
    return min(found)


def rows() -> list[Row]:
    """Designs a second, set-up included, on one thread and two; and those of the pricing alone."""
    result = []
    for name, given, goal in spaces():
        size = space_of(given).size
        one, setup = timed(given, 1)
        two, _ = timed(given, 2)
        rate = size / (one - setup)
        told = f"set-up {setup * 1e3:.3g} ms; with it {size / one:,.0f}/s, on two threads {size / two:,.0f}/s"
        result.append(row(f"{name} ({size:,} designs), pricing", rate, "designs/s", told, rate / goal, 1))
    return result


if __name__ == "__main__":  # a line a row, set-up included, of those whose name holds a word
    for title, space, _ in spaces():
        if all(word in title for word in sys.argv[2:]):
            count = space_of(space).size
            wall, spent = timed(space, int(sys.argv[1]), 1)
            print(f"{title}: {count:,} designs, {count / wall:,.0f}/s, of it set-up {spent * 1e3:.3g} ms", flush=True)
