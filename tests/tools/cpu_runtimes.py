"""``python -m tests.tools.cpu_runtimes TABLE RUNTIME [PART]``: constants of a CPU's runtime fitted to rows of a table.

Coordinate search over the logarithms of few constants, each within its range. Parts are weighed alike, and so are the
rows of one; an error beyond a factor of three counts as that. Of boards, the share of its DRAM's peak that each
reaches is found with them, on its own rows. Prints what stands in `engine/devices/cpu/runtimes.yaml` and in the
boards' files. A PART is left out of the fit, takes the boards' mean share, and is predicted: cross-validation.
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
    "issue_exponent": (0.01, 1.0),
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
BOARDS = ("pass_cycles", "requantise_cycles", "range_cycles", "dram_efficiency")
FITTED_ON = "xeon-8380"  # and all boards
SHARE, SHARES = "dram_efficiency", (0.05, 0.95)  # of boards
FARTHEST, ROUNDS, LEAST_STEP = np.log(3.0), 12, 0.03


Rows, Shares = Sequence[Row], Mapping[str, float]


def jobs_of(rows: Rows) -> list[Job]:
    """What each row asks of its part, whose own share of its DRAM's peak is taken away."""
    result = []
    for row in rows:
        assert row.scenario is not None
        bound = bind(row.scenario)
        job = job_of(bound, make_plan(bound).stages[0], family.FAMILY, bound.graph.phases[0])
        assert job.device.cpu is not None
        plain = job.device.cpu.model_copy(update={"dram_share": None})
        result.append(replace(job, device=job.device.model_copy(update={"cpu": plain})))
    return result


def part_of(row: Row) -> str:
    """The part that a row ran on."""
    assert row.scenario is not None
    return row.scenario.system


def errors(rows: Rows, jobs: Sequence[Job], constants: Mapping[str, float], shares: Shares) -> np.ndarray:
    """Logarithms of predicted over measured times of a batch; rows of one scenario are priced once."""
    known: dict[str, float] = {}
    result = []
    for row, job in zip(rows, jobs, strict=True):
        assert row.scenario is not None
        key = row.scenario.model_dump_json()
        if key not in known:
            own = {SHARE: shares[part_of(row)]} if part_of(row) in shares else {}
            turned = replace(job, model={**job.model, **constants, **own})
            known[key] = family.price(turned).total_s + sum(s for _, _, s in family.request(turned))
        (name, value), batch = next(iter(row.measured.items())), row.scenario.batch * row.scenario.streams
        result.append(np.log(known[key] / (value if name == "latency_s" else batch / value)))
    return np.array(result)


def loss(rows: Rows, e: np.ndarray) -> float:
    """Mean size of the errors, and of their squares, each part's alike."""
    size, parts = np.minimum(np.abs(e), FARTHEST), [part_of(row) for row in rows]
    return float(np.average(size + 0.3 * size * size, weights=[1.0 / parts.count(part) for part in parts]))


def stepped(least, value: float, step: float, low: float, high: float, tried) -> tuple[float, float, float]:
    """A step of one number up or down that lessens a loss: the loss, the number, the size of the next step."""
    for way in (1.0, -1.0):
        trial = float(np.clip(value * np.exp(way * step), low, high))
        if (now := tried(trial)) < least - 1e-5:
            return now, trial, step * 1.2
    return least, value, step * 0.5


def fitted(rows: Rows, start: Mapping[str, float], names: Sequence[str], shares: Shares) -> tuple[dict, dict]:
    """The constants, and the shares of parts that have one, after the search."""
    jobs, best, own = jobs_of(rows), dict(start), dict(shares)
    steps, own_steps = dict.fromkeys(names, 0.3), dict.fromkeys(own, 0.3)
    for _ in range(ROUNDS):
        least = loss(rows, errors(rows, jobs, best, own))
        for name in names:
            least, best[name], steps[name] = stepped(
                least, best[name], steps[name], *RANGES[name],
                lambda v, name=name: loss(rows, errors(rows, jobs, best | {name: v}, own)),
            )  # fmt: skip
        for part in list(own):
            mine = [(row, job) for row, job in zip(rows, jobs, strict=True) if part_of(row) == part]
            some = tuple(zip(*mine, strict=True))
            _, own[part], own_steps[part] = stepped(
                loss(some[0], errors(*some, best, own)), own[part], own_steps[part], *SHARES,
                lambda v, part=part, some=some: loss(some[0], errors(*some, best, {part: v})),
            )  # fmt: skip
        if max(steps.values()) < LEAST_STEP:
            break
    return best, own


def main(path: str, runtime: str, out: str = "") -> None:
    """Fit, print the constants, and the errors of rows used and not."""
    rows = [r for r in read_measured(Path(path)).rows if r.scenario is not None and r.scenario.runtime == runtime]
    board = runtime == "ncnn"
    used = [r for r in rows if part_of(r) != out and (board or (part_of(r) == FITTED_ON and r.number % 2))]
    left_out = [r for r in rows if part_of(r) == out or (not board and part_of(r) != FITTED_ON)]
    names = [n for n in RANGES if n in RUNTIME.settings[runtime].parameters and n not in (BOARDS if board else XEON)]
    usual = {p.name: p.value for p in family.FAMILY.parameters} | dict(RUNTIME.settings[runtime].parameters)
    start = {name: float(np.clip(usual[name], *RANGES[name])) for name in names}
    shares = dict.fromkeys({part_of(r) for r in used}, usual[SHARE]) if board else {}
    best, shares = fitted(used, start, names, shares)
    if board:
        best[SHARE] = float(np.exp(np.mean(np.log(list(shares.values())))))
    print({name: float(f"{value:.3g}") for name, value in (best | shares).items()})
    for title, some in (("fitted", used), ("left out", left_out)):
        if some:
            e = np.abs(np.expm1(errors(some, jobs_of(some), best, shares)))
            print(f"{title}: {len(some)} rows, half within {np.median(e):.1%}, 90% within {np.quantile(e, 0.9):.1%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
