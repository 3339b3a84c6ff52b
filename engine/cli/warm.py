"""Compile what the first visitor would wait for: ``python -m engine.cli.warm``."""

import sys
from collections import defaultdict
from contextlib import suppress
from multiprocessing import get_context
from signal import SIGTERM, signal

from engine.evaluate import evaluate
from engine.kernels.jit import compile_always, pool_size
from engine.resolve.bind import named
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario
from engine.sweep import sweep
from engine.traffic import Poisson, Sla, max_qps, timeline
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import engine
from engine.traffic.engines.scheduler import POLICIES
from engine.traffic.policies import PLAIN
from engine.traffic.scenario_load import load_of
from entries.schema import InputError


def _reports(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        with suppress(InputError):  # left to its page to say
            evaluate(scenario)


def _sweeps() -> None:
    for id, memory in ("v100-1.5b", "hbm"), ("dfx-1.5b", "hbm"), ("node-dlrm", "lpddr"):
        bandwidths = {"from": 5e10, "to": 4e12, "steps": 64, "scale": "log"}
        axes = {f"devices.0.memory.{memory}.bandwidth": bandwidths, "costs.years": [1, 3]}
        sweep({"scenario": PRESETS[id].scenario, "axes": axes})
    evaluate(PRESETS["node-dlrm"].scenario.with_(switches={"search-tilings": True}))


def _loads() -> None:
    queue = load_of(PRESETS["node-dlrm"].scenario, PLAIN)
    max_qps(queue, Sla(1.0), Poisson(1.0), requests=2000)
    timeline(queue, Poisson(1.0))
    engine(PRESETS["v100-1.5b"].scenario, POLICIES["vllm"], {}).at(ClosedLoop(2), 8)


def warm() -> None:
    """Evaluate every preset, families beside each other; then sweep a few designs and load two machines."""
    families: dict[str, list[Scenario]] = defaultdict(list)
    for preset in PRESETS.values():
        families[named(preset.scenario).device.kind].append(preset.scenario)
    with get_context("spawn").Pool(min(len(families), pool_size()), compile_always) as pool:
        pool.map(_reports, families.values(), chunksize=1)
        for job in [pool.apply_async(_sweeps), pool.apply_async(_loads)]:  # served by what reports compiled
            job.get()


if __name__ == "__main__":
    signal(SIGTERM, lambda *_: sys.exit(143))  # ends its processes too
    warm()
