"""``python -m tests.tools.cpu_runtimes TABLE RUNTIME``: constants of a CPU's runtime fitted to rows of a table.

Coordinate search over the logarithms of few constants, each within its range. Rows are weighed alike, an error beyond
a factor of three as that. Prints what stands in `engine/devices/cpu/runtimes.yaml`, and the errors of rows left out.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.cost.best_plan import make_plan
from engine.devices.common.job import Job
from engine.devices.cpu import family
from engine.devices.cpu.fields import RUNTIME
from engine.plan.jobs import job_of
from engine.published.measured.compare import Row, read_measured
from engine.resolve.bind import bind

RANGES = {
    "op_cycles": (1e3, 1.2e5),
    "pass_cycles": (1e4, 3e6),
    "barrier": (3e-7, 8e-6),
    "fork_thread": (1e-7, 4e-6),
    "conv_efficiency": (0.1, 0.94),
    "gemm_efficiency": (0.05, 0.94),
    "narrow_group": (0.01, 0.9),
    "short_row": (0.5, 12.0),
    "thin_input": (0.2, 0.9),
    "pool_cycles": (1.0, 20.0),
    "low_share": (0.2, 1.2),
    "reordered": (0.01, 6.0),
    "score_cycles": (10.0, 400.0),
    "class_ops": (0.01, 8.0),
    "power_cycles": (0.1, 100.0),
    "loose_grouped": (0.01, 4.0),
    "loose_dense": (0.01, 2.0),
    "special_cycles": (3.0, 60.0),
    "requantise_cycles": (4.0, 40.0),
    "range_cycles": (2.0, 40.0),
    "winograd_transform": (5.0, 2000.0),
    "dram_efficiency": (0.2, 0.9),
    "shared_bytes_per_cycle": (2.0, 20.0),
}
# what rows of a Xeon on four threads don't show, and those of boards
XEON = (
    "barrier",
    "fork_thread",
    "winograd_transform",
    "dram_efficiency",
    "shared_bytes_per_cycle",
)
BOARDS = ("pass_cycles", "requantise_cycles", "range_cycles", "fork_thread")
FITTED_ON = ("xeon-8380", "raspberry-pi-4", "rk3588-a76", "rk3588-a55", "epyc-7742")
FARTHEST, ROUNDS, LEAST_STEP = np.log(3.0), 14, 0.03


def jobs_of(rows: Sequence[Row]) -> list[Job]:
    """What each row asks of its part."""
    result = []
    for row in rows:
        assert row.scenario is not None
        bound = bind(row.scenario)
        result.append(job_of(bound, make_plan(bound).stages[0], family.FAMILY, bound.graph.phases[0]))
    return result


def errors(rows: Sequence[Row], jobs: Sequence[Job], constants: Mapping[str, float]) -> np.ndarray:
    """Logarithms of predicted over measured times of a batch; rows of one scenario are priced once."""
    known: dict[str, float] = {}
    result = []
    for row, job in zip(rows, jobs, strict=True):
        assert row.scenario is not None
        key = row.scenario.model_dump_json()
        if key not in known:
            turned = replace(job, model={**job.model, **constants})
            known[key] = family.price(turned).total_s + sum(s for _, _, s in family.request(turned))
        (name, value), batch = next(iter(row.measured.items())), row.scenario.batch * row.scenario.streams
        result.append(np.log(known[key] / (value if name == "latency_s" else batch / value)))
    return np.array(result)


def loss(e: np.ndarray) -> float:
    """Mean size of the errors, and of their squares."""
    size = np.minimum(np.abs(e), FARTHEST)
    return float(np.mean(size + 0.3 * size * size))


def fitted(rows: Sequence[Row], start: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """The constants after the search."""
    jobs, best = jobs_of(rows), dict(start)
    least, steps = loss(errors(rows, jobs, best)), dict.fromkeys(names, 0.5)
    for _ in range(ROUNDS):
        for name in names:
            low, high = RANGES[name]
            for way in (1.0, -1.0):
                trial = best | {name: float(np.clip(best[name] * np.exp(way * steps[name]), low, high))}
                if (now := loss(errors(rows, jobs, trial))) < least - 1e-5:
                    best, least, steps[name] = trial, now, steps[name] * 1.2
                    break
            else:
                steps[name] *= 0.5
        if max(steps.values()) < LEAST_STEP:
            break
    return best


def main(path: str, runtime: str) -> None:
    """Fit, print the constants, and the errors of rows used and not."""
    rows = [r for r in read_measured(Path(path)).rows if r.scenario is not None and r.scenario.runtime == runtime]
    used = [
        r for r in rows if r.scenario.system in FITTED_ON and (r.number % 2 or not r.scenario.system.startswith("xeon"))
    ]
    left_out = [r for r in rows if r.scenario.system not in FITTED_ON]
    board = runtime == "ncnn"
    names = [n for n in RANGES if n in RUNTIME.settings[runtime].parameters and n not in (BOARDS if board else XEON)]
    usual = {p.name: p.value for p in family.FAMILY.parameters} | dict(RUNTIME.settings[runtime].parameters)
    start = {name: float(np.clip(usual[name], *RANGES[name])) for name in names}
    best = fitted(used, start, names)
    print({name: float(f"{value:.3g}") for name, value in best.items()})
    for title, some in (("fitted", used), ("left out", left_out)):
        e = np.abs(np.expm1(errors(some, jobs_of(some), best)))
        print(f"{title}: {len(some)} rows, half within {np.median(e):.1%}, 90% within {np.quantile(e, 0.9):.1%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
