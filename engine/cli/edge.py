"""``python -m engine split | camera | forward | fuse``: cuts, execution points, packets beside inference, chains."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from engine.cli.output import emit
from engine.scenario import Scenario, ScenarioError
from engine.scenario.sentences import amount, percent

_GOALS = ("latency", "throughput", "energy", "first", "second")
_Changed = Callable[[argparse.Namespace], Scenario]


def add_edge(commands: Any, add_scenario: Callable[[Any], None], changed: _Changed) -> None:
    """Register the four commands."""
    p = commands.add_parser("split", help="every cut of a network between two executors, and the best")
    add_scenario(p)
    p.add_argument("--goal", choices=_GOALS, default="latency", help="what the best cut is best at (default latency)")
    p.add_argument("--first-precision", help="format of the first part where it differs (a quantised part)")
    p.set_defaults(run=lambda args: _split(args, changed(args)))
    p = commands.add_parser("camera", help="where to analyse a camera's frames: far edge, metro edge, core, or cut")
    p.add_argument("workload")
    p.add_argument("--frames", type=float, default=5.0, help="frames a second (default 5)")
    p.add_argument("--frame-kb", type=float, default=200.0, help="kilobytes of a frame (default 200)")
    p.add_argument("--limit-ms", type=float, help="longest time from frame to answer")
    p.add_argument("--extra-km", type=float, default=0.0, help="fibre on top of what the links hold")
    p.add_argument("--goal", choices=_GOALS, default="latency")
    p.add_argument("--precision", default="fp32")
    p.set_defaults(run=_camera)
    p = commands.add_parser("forward", help="packets a SmartNIC passes on while it infers")
    p.add_argument("device", nargs="?", default="agilio-cx-2x40")
    p.add_argument("--executors", type=int, help="threads that infer; the part's own when left out")
    p.set_defaults(run=_forward)
    p = commands.add_parser("fuse", help="a network breadth first and depth first: time, traffic, tiles")
    add_scenario(p)
    p.set_defaults(run=lambda args: _fuse(args, changed(args)))


def _split(args: argparse.Namespace, scenario: Scenario) -> int:
    from engine.analyses.edge import bands_of_cuts, cuts
    from engine.analyses.split import best_split
    from engine.cost.error_bands import told

    scenario, points = cuts(scenario, args.first_precision)
    best = best_split(points, args.goal)
    bands = bands_of_cuts(scenario, points, best)
    data = {
        "scenario": scenario.with_(split=best.at).model_dump(mode="json"),
        "goal": args.goal,
        "best": asdict(best),
        "error_band": asdict(bands[best.at]),
        "points": [
            asdict(p)
            | {"latency_s": p.latency_s, "interval_s": p.interval_s}
            | bands[p.at].ends({"latency_s": p.latency_s, "interval_s": p.interval_s})
            for p in points
        ],
    }
    lines = [
        f"best for {args.goal}: {best.place} ({best.at} of {best.at + best.rest} operators on the first), "
        f"{amount(best.latency_s, 's')}",
        f"error band: {told(bands[best.at])}",
    ]
    lines.append(
        f"{'after':26} {'latency':>10} {'first':>10} {'wire':>10} {'handover':>10} {'second':>10} {'crosses':>10}"
    )
    for p in points:
        parts = (p.latency_s, p.first_s, p.link_s, p.handover_s, p.second_s)
        told = " ".join(f"{amount(t, 's'):>10}" for t in parts)
        where = p.after if p.at and p.rest else p.place
        lines.append(f"{where[:26]:26} {told} {amount(p.crossing_bytes, 'B'):>10}")
    return emit(data, args.json, lines)


def _camera(args: argparse.Namespace) -> int:
    from engine.analyses.camera import Camera, placements, refusals
    from engine.cost.error_bands import told

    for name, value, most in (("frames", args.frames, 1e4), ("frame-kb", args.frame_kb, 1e6)):
        if not 0 < value <= most:
            raise ScenarioError(f"{name} is {value}; allowed: above 0, at most {most:g}")
    if not 0 <= args.extra_km <= 40_000:
        raise ScenarioError(f"extra-km is {args.extra_km}; allowed: 0 to 40000")
    if args.limit_ms is not None and not 0 < args.limit_ms < math.inf:
        raise ScenarioError(f"limit-ms is {args.limit_ms}; allowed: above 0")
    camera = Camera(args.frames, 1e3 * args.frame_kb)
    limit = None if args.limit_ms is None else args.limit_ms / 1e3
    cuts = placements(args.workload, camera, limit, args.precision, 1e3 * args.extra_km, args.goal)
    lines = [f"{'where':26} {'latency':>10} {'travel':>10} {'compute':>10} {'uplink':>10} {'cameras':>8}"]
    for p in cuts:
        times = " ".join(f"{amount(t, 's'):>10}" for t in (p.latency_s, p.travel_s, p.compute_s))
        late = "" if p.meets_limit else "  too late"
        cut = f"  cut after {p.after}" if p.after else ""
        lines.append(f"{p.name:26} {times} {amount(p.uplink_bytes_per_s, 'B/s'):>10} {p.cameras:>8}{cut}{late}")
    lines += [f"{name}: {reason}" for name, reason in refusals(args.workload, args.precision)]
    lines += [f"error band, {p.name}: {told(p.error_band)}" for p in cuts]
    times = ({"latency_s": p.latency_s} for p in cuts)
    return emit([asdict(p) | t | p.error_band.ends(t) for p, t in zip(cuts, times, strict=True)], args.json, lines)


def _forward(args: argparse.Namespace) -> int:
    from engine.analyses.edge import forwarding
    from engine.devices import family
    from hardware_specs.catalog import default_catalog

    device = default_catalog().device(args.device)
    wanted = args.executors
    if wanted is None:
        path = family(device.kind).packets
        wanted = path.usual(device) if path is not None else 0
    result = forwarding(device, wanted)
    left = f"{result.cycles_per_s / 1e9:.3g} G engine cycles a second left to packets"
    lines = [f"{device.name}: {result.executors} executors, {left}, line rate from {result.drop_bytes:.0f} B on"]
    for size, rate in zip(result.sizes, result.bytes_per_s, strict=True):
        lines.append(f"{size:6} B {8e-9 * rate:8.1f} Gbit/s  {percent(rate / result.line_bytes_per_s)} of line rate")
    return emit(asdict(result), args.json, lines)


def _fuse(args: argparse.Namespace, scenario: Scenario) -> int:
    from engine.analyses.edge import depth_first_of
    from engine.cost.error_bands import told
    from engine.evaluate import evaluate

    comparison, band = depth_first_of(scenario), evaluate(scenario).error_band
    times, moved = (comparison.breadth_s, comparison.depth_s), (comparison.depth_bytes, comparison.breadth_bytes)
    slow, fast = (amount(t, "s") for t in times)
    less, more = (amount(size, "B") for size in moved)
    lines = [
        f"breadth first {slow}, depth first {fast}: {comparison.speedup:.2f} x",
        f"{len(comparison.chains)} chains move {less} instead of {more}",
        f"error band: {told(band)}",
    ]
    for chain in sorted(comparison.chains, key=lambda c: c.after.coef - c.before.coef)[:12]:
        tile = f"{chain.rows} rows x {chain.channels} channels, {amount(chain.tile_bytes, 'B')}"
        lines.append(f"  {' '.join(chain.ops)[:60]:60} {tile}")
    data = {
        "breadth_s": comparison.breadth_s,
        "depth_s": comparison.depth_s,
        **band.beside({"breadth_s": comparison.breadth_s, "depth_s": comparison.depth_s}),
        "breadth_bytes": comparison.breadth_bytes,
        "depth_bytes": comparison.depth_bytes,
        "chains": [
            {"ops": c.ops, "rows": c.rows, "channels": c.channels, "tile_bytes": c.tile_bytes, "halo": c.halo}
            for c in comparison.chains
        ],
    }
    return emit(data, args.json, lines)
