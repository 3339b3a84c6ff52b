"""A search against draws at random on a space whose whole front is known: writes docs/search.svg and prints figures.

`python -m tests.bench.search_curve`; about five minutes of one core.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pymoo.indicators.hv import HV

from engine.sweep import search, space_of, sweep
from engine.sweep.search import Figures, Genetic
from tests.random_draws import RandomDraws

_MEMORIES = ((1.5, 40, 3000), (2, 64, 4500), (2.4, 80, 6000), (3.35, 80, 9000), (4, 96, 12000), (4.8, 141, 16000))
_MEMORIES += ((6, 192, 22000), (8, 288, 32000))  # TB/s, GB, USD
_CORES = ((0.25, 250, 4000), (0.35, 300, 5000), (0.5, 350, 7000), (0.65, 450, 9000), (0.8, 550, 11000))
_CORES += ((1.0, 700, 14000), (1.4, 850, 20000), (1.8, 1000, 27000))  # PFLOP/s of 16 bits, W, USD
KNOWN = {
    "scenario": {"system": "h100-sxm", "workload": "llama3.1-8b"},
    "axes": {
        "precision": ["fp16", "bf16", "fp8", "w8a16"],
        "kv_format": ["as activations", "fp8"],
        "platform": [{"scheme": "tensor" if n > 1 else "single", "devices": n} for n in (1, 2, 4, 8)],
        "batch": [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256],
        "chip": [
            {
                "devices.0.memory.hbm.bandwidth": bandwidth * 1e12,
                "devices.0.memory.hbm.capacity": capacity * 1e9,
                "devices.0.gpu.achieved_peak.bf16": peak * 1e15,
                "devices.0.gpu.achieved_peak.fp8": 1.8 * peak * 1e15,
                "devices.0.power.max": power,
                "devices.0.price": price + core,
            }
            for peak, power, core in _CORES
            for bandwidth, capacity, price in _MEMORIES
        ],
        "devices.0.gpu.kernel_launch": {"from": 5e-7, "to": 5e-6, "steps": 32, "scale": "log"},
        "links.peer.bandwidth": {"from": 1e11, "to": 1e12, "steps": 16, "scale": "log"},
        "links.peer.latency": {"from": 5e-7, "to": 5e-6, "steps": 8, "scale": "log"},
    },
    "constraints": ["fits"],
    "objectives": ["latency_s:min", "throughput_per_w:max", "capex_usd:min"],
}
"""1.3e8 designs of an invented chip; what it costs grows with memory and arithmetic, so that there is a choice."""
EVALUATIONS = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
SEEDS = (0, 1, 2)
_CHART = Path(__file__).resolve().parents[2] / "docs" / "search.svg"


def share(values: np.ndarray, true: np.ndarray) -> float:
    """Hypervolume of a front as a share of the true one's; both (objectives, n), to be small. [-]

    Objectives run from 0 at the best to 1 at the worst of the true front; the reference lies at 1.1.
    """
    low, high = true.min(axis=1), true.max(axis=1)
    volume = HV(ref_point=np.full(len(low), 1.1))
    values = values[:, np.isfinite(values).all(axis=0)]
    return float(volume((values.T - low) / (high - low)) / volume((true.T - low) / (high - low)))


class Told:
    """An optimiser that remembers what it was told, in the order of the search."""

    def __init__(self, optimiser: Callable[..., Any]) -> None:
        self._optimiser, self.costs = optimiser, []

    def make(self, *given: Any) -> Any:
        """The optimiser, its `tell` listened to."""
        leader = self._optimiser(*given)
        tell = leader.tell

        def listen(cost: np.ndarray, excess: np.ndarray) -> None:
            self.costs.append(np.where(excess > 0, np.inf, cost.T))
            tell(cost, excess)

        leader.tell = listen
        return leader


def curves(true: np.ndarray, signs: np.ndarray) -> dict[str, np.ndarray]:
    """Shares (seeds, evaluations) of a search and of draws."""
    space = space_of(KNOWN)
    figures, result = Figures(space), {}
    for name, optimiser in (("NSGA-II", Genetic), ("random", RandomDraws)):
        rows = []
        for seed in SEEDS:
            began, told = time.perf_counter(), Told(optimiser)
            last = search(space, EVALUATIONS[-1], seed=seed, optimiser=told.make, figures=figures).front.values * signs
            tried = np.concatenate(told.costs, axis=1)
            rows.append([*(share(tried[:, :n], true) for n in EVALUATIONS[:-1]), share(last, true)])
            shown = ", ".join(f"{n}: {v:.4f}" for n, v in zip(EVALUATIONS, rows[-1], strict=True))
            print(f"{name} seed {seed} {shown} in {time.perf_counter() - began:.0f} s", flush=True)
        result[name] = np.array(rows)
    return result


def draw(found: dict[str, np.ndarray], size: int) -> None:
    """The chart: median and range over seeds of the share that is found, against evaluations."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "search", "font.size": 11}
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for (name, rows), colour in zip(found.items(), ("#1F6FD6", "#7A8594"), strict=True):
        axis.fill_between(EVALUATIONS, 100 * rows.min(axis=0), 100 * rows.max(axis=0), color=colour, alpha=0.2)
        axis.plot(EVALUATIONS, 100 * np.median(rows, axis=0), color=colour, marker="o", markersize=4, label=name)
    axis.axhline(99, color="#C0392B", linewidth=1, linestyle="--")
    axis.set(xscale="log", xlabel="designs tried", ylabel="of the true hypervolume (%)", ylim=(40, 101))
    axis.set_title(f"Front of {size:.2g} designs, three objectives; median and range of 3 seeds", fontsize=11)
    axis.legend(loc="lower right", frameon=False)
    axis.grid(alpha=0.3)
    figure.savefig(_CHART, metadata={"Date": None})


def main() -> int:
    """Prints and draws."""
    space = space_of(KNOWN)
    signs = np.array([[o.sign] for o in space.objectives])
    whole = sweep(space)
    true = np.unique(whole.front.values * signs, axis=1)
    print(f"{space.size:,} designs in {whole.seconds:.0f} s: {true.shape[1]} different on the front", flush=True)
    draw(curves(true, signs), space.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
