"""Random valid designs in grids, compared: more of a resource is never slower, more work never faster.

A grid varies some things of a random design two ways each; a sweep prices all of it, and every pair of designs that
differs in one thing is a comparison for each law that holds there. More than `make test` runs, by seed and number of
grids of each family:

    PYTHONPATH=. .venv/bin/python tests/laws/law_grids.py --seed 7 --grids 400 [--family cpu]
"""

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario, why_not
from engine.scenario import Scenario, ScenarioError, encode
from engine.scenario.overrides import apply
from engine.sweep import Space, price, space_of
from engine.sweep.sensitivity import knobs_of
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

ONE_OF_EACH = ("node-resnext", "cpu-dlrm", "brainwave-tp1", "tonic-fc", "dfx-345m", "v100-1.5b")
"""A preset of each family."""
WORK = ("batch", "streams", "inputs", "outputs")
MORE = frozenset({"bandwidth", "capacity", "payload", "clock", "port_rate", "core_bandwidth", "vector_bits", "cores"})
LESS = frozenset({"latency", "per_transfer"})
RATES = frozenset({"peak", "achieved_peak", "flop_per_cycle", "mac_per_cycle", "vector_clock"})
TOLERANCE = 1e-9  # sums of the same parts differ in their last bits


@dataclass(frozen=True)
class Broken:
    """A comparison that broke a law, the worst of its grid, and how many did."""

    family: str
    path: str  # what differs
    figure: str  # latency | throughput | requests a second
    excess: float  # by how much the better design is worse [-]
    count: int
    less: Scenario
    more: Scenario

    def __str__(self) -> str:
        return (
            f"{self.family} {self.path}: {self.figure} worse by {self.excess:.3%} in {self.count} comparisons, "
            f"{self.less.system} {self.less.workload}: {encode(self.less)} -> {encode(self.more)}"
        )


def sign(path: str) -> int:
    """1 where more of it is more of a resource, -1 where it is less, 0 where nothing is known beforehand."""
    head, *rest = path.split(".")
    if head not in ("devices", "links", "host") or not rest:
        return 0
    last = rest[-1]
    if last in LESS:
        return -1
    more = last in MORE or rest[-2:] == ["clock", "max"] or not RATES.isdisjoint(rest)
    return 1 if more else 0


@cache
def pairs(family: str) -> tuple[tuple[str, str], ...]:
    """Systems of a family with the networks each runs."""
    catalog, result = default_catalog(), []
    for system in catalog.ids("systems"):
        if catalog.device(catalog.system(system).devices[0].device).kind == family:
            result += [(system, id) for id in default_zoo().ids() if why_not(system, id) is None]
    return tuple(result)


def _known(base: Scenario) -> dict[str, float]:
    return {path: value for path, value in knobs_of(base).items() if sign(path)}


def _moved(path: str, value: float, factor: float) -> float:
    if path.endswith(".cores"):
        return max(1.0, round(value * factor))
    return min(value * factor, 1.0) if path.endswith(".payload") else value * factor


def _design(draw: random.Random, system: str, workload: str) -> Scenario:
    """A random valid design of a pair; ScenarioError or Unsupported where the draw is not one."""
    base = default_scenario(system, workload)
    offered = choices(base)
    most = offered.max_streams
    flips = draw.random()
    fields: dict[str, Any] = {
        "precision": draw.choice(offered.formats),
        "scheme": draw.choice(offered.schemes),
        "devices": draw.choice(offered.device_counts),
        "batch": draw.choice((1, 1, 2, 3, 7, 8, 16, 32, 33, 64, 100)),
        "streams": min(most, draw.choice((1, 1, 2, 3, 6, most))),
        "switches": {
            s.name: base.switches.get(s.name, s.default) != (random.Random(f"{flips} {s.name}").random() < 0.2)
            for s in offered.switches
        },
    }
    inputs, outputs = draw.choice((1, 2, 5, 16, 31, 64, 200, 512)), draw.choice((1, 2, 9, 32))
    if default_zoo().graph(workload).items:
        inputs = random.Random(f"{flips} items").choice((1, inputs))
    fields |= {"inputs": inputs} if offered.input_label else {}
    fields |= {"outputs": outputs} if offered.output_label else {}
    cut = draw.randrange(len(offered.splits) + 1)
    fields |= {"split": cut} if fields["scheme"] == "split" else {}
    base = base.with_(**fields)
    if behind := choices(base).second_cuts:
        base = base.with_(second_split=draw.choice(behind))
    evaluate(base)
    known = _known(base)
    for path in draw.sample(sorted(known), min(3, len(known))):
        factor = draw.choice((0.3, 0.6, 1.7, 3.0))
        try:
            changed = apply(base, path, _moved(path, known[path], factor))
            evaluate(changed)
        except (ScenarioError, Unsupported):
            continue
        base = changed
    return base


def _axes(draw: random.Random, base: Scenario) -> dict[str, list[Any]]:
    """What a grid around a design varies, the lesser first; all that is work, and five resources."""
    offered, known = choices(base), _known(base)
    axes: dict[str, list[Any]] = {}
    for path in WORK:
        now = getattr(base, path)
        later = now + draw.choice((1, 1, now, 3 * now))
        shown = {"inputs": offered.input_label, "outputs": offered.output_label}.get(path, "always")
        if path == "streams":
            later = min(later, offered.max_streams)
        if default_zoo().graph(base.workload).items and path == ("inputs" if base.inputs == 1 else "batch"):
            continue  # a request's items are its work, or where it has one, the batch is
        if shown and later > now:
            axes[path] = [now, later]
    counts = [count for count in offered.device_counts if count > base.devices]
    if counts:
        axes["devices"] = [base.devices, draw.choice(counts)]
    for path in draw.sample(sorted(known), min(5, len(known))):
        factor = draw.choice((1.05, 1.5, 2.0, 4.0))
        better = known[path] + draw.choice((1, known[path])) if path.endswith(".cores") else 0.0
        better = better or _moved(path, known[path], factor if sign(path) > 0 else 1 / factor)
        if better != known[path]:
            axes[path] = [known[path], better]
    return axes


def grids(family: str, seed: int, count: int) -> Iterator[Space]:
    """So many grids of a family; draws that are no valid design are not counted."""
    draw, found = random.Random(f"{seed} {family}"), 0
    while found < count:
        try:
            base = _design(draw, *draw.choice(pairs(family)))
            yield space_of({"scenario": base, "axes": _axes(draw, base), "constraints": []})
        except (ScenarioError, Unsupported):
            continue
        found += 1


def _units(space: Space) -> np.ndarray:
    """Units of work of a request of each design. [-]"""
    shape = [len(axis) for axis in space.axes]
    at = {
        axis.path: np.array(axis.values)[i]
        for axis, i in zip(space.axes, np.indices(shape), strict=True)
        if axis.path in ("inputs", "outputs")
    }
    base, graph = space.base, default_zoo().graph(space.base.workload, dict(space.base.params))
    inputs, outputs = at.get("inputs", base.inputs), at.get("outputs", base.outputs)
    return np.broadcast_to(inputs if graph.items else graph.units_per_request.at(inputs, outputs), shape)


def broken(family: str, space: Space) -> tuple[int, list[Broken]]:
    """Comparisons of a grid, and the laws that broke."""
    values, bad, _ = price(space, ("latency_s", "throughput_per_s"))
    shape = [len(axis) for axis in space.axes]
    latency, rate, bad = (x.reshape(shape) for x in (*values, bad))
    rate = rate / _units(space)
    compared, result = 0, []
    for at, axis in enumerate(space.axes):
        (l0, l1), (r0, r1), (b0, b1) = (np.moveaxis(x, at, 0) for x in (latency, rate, bad))
        ok = ~(b0 | b1)
        work = axis.path in WORK
        laws = {"latency": l0 / l1 if work else l1 / l0}
        if not work:
            laws["throughput"] = r0 / r1
        elif axis.path in ("inputs", "outputs"):
            laws["requests a second"] = r1 / r0
        for figure, worse in laws.items():
            excess = np.where(ok, worse, 0.0) - 1.0
            compared += int(ok.sum())
            count = int((excess > TOLERANCE).sum())
            if count:
                digits = list(np.unravel_index(int(excess.argmax()), excess.shape))
                one, other = ([*digits[:at], side, *digits[at:]] for side in (0, 1))
                result.append(
                    Broken(
                        family,
                        axis.path,
                        figure,
                        float(excess.max()),
                        count,
                        space.scenario_at(one),
                        space.scenario_at(other),
                    )
                )
    return compared, result


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints comparisons and broken laws by family, the worst of each kind with its two tokens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--grids", type=int, default=40)
    parser.add_argument("--family", action="append")
    asked = parser.parse_args(arguments)
    for family in asked.family or ("card", "cpu", "dfx", "gpu", "npu", "smartnic"):
        compared, kinds, worst = 0, Counter[tuple[str, str, str]](), defaultdict[Any, list[Broken]](list)
        for space in grids(family, asked.seed, asked.grids):
            count, found = broken(family, space)
            compared += count
            for one in found:
                key = (one.path, one.figure, one.less.scheme)
                kinds[key] += one.count
                worst[key] = [max([*worst[key], one], key=lambda b: b.excess)]
        print(f"{family}: {compared} comparisons, {kinds.total()} broken")
        for key, count in kinds.most_common():
            print(f"  {count:6} {' '.join(key)}, at most {worst[key][0].excess:.3%}\n         {worst[key][0]}")


if __name__ == "__main__":
    main()
