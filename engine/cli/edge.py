"""``ask split | camera | forward | fuse``: cuts, execution points, packets beside inference, chains."""

import argparse
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from engine.analyses.camera import Camera, CameraNetwork, Cascade, Tier, row_of, tiers_of
from engine.analyses.cuts import best_split, split_points
from engine.analyses.edge import depth_first_of, forwarding, host_and_nic
from engine.analyses.placement import best_of, idle_notes, placements
from engine.cli.command import Answer, refuse
from engine.cli.scenario import scenario_in, scenario_of
from engine.cost.error_bands import told
from engine.devices import family
from engine.evaluate import evaluate
from engine.scenario import Scenario, ScenarioError, make
from engine.scenario.sentences import amount, counted, percent
from engine.scenario.token import boundary, brief
from hardware_specs.catalog import default_catalog


def split(args: argparse.Namespace) -> Answer:
    """Every cut of a network between two or three executors, and the best. Estimates."""
    refuse(args, ("scheme",), "a network that is cut; split is the scheme that cuts it", args.scheme != "split")
    refuse(args, ("split", "second_split"), "every cut, of which the best is found")
    scenario = scenario_in(args).with_(scheme="split", second_split=None)
    points = split_points(scenario, args.first_precision, args.goal)
    best = best_split(points, args.goal)
    data = {
        "scenario": scenario.with_(split=best.at, second_split=best.second_at).model_dump(mode="json"),
        "goal": args.goal,
        "best": asdict(best),
        "error_band": asdict(best.error_band),
        "points": [
            asdict(p) | p.error_band.ends({"latency_s": p.latency_s, "interval_s": p.interval_s}) for p in points
        ],
    }
    count = f"{best.at} of {best.at + best.rest} operators on the first"
    first = f"best for {args.goal}: {best.place} ({count}), {amount(best.latency_s, 's')}"
    return data, [first, f"error band: {told(best.error_band)}"]


def camera(args: argparse.Namespace) -> Answer:
    """Where to analyse cameras' frames: whole at a tier, or cut over two or three of them. Estimates."""
    limit = None if args.limit_ms is None else args.limit_ms / 1e3
    if args.passed is not None and not args.filter:
        raise ScenarioError(f"passed is {args.passed:g}: a share that --filter passes on, and none is set")
    scenario = row_of(_on_cameras(args.workload, args.system))
    precision = {} if args.precision is None else {"precision": args.precision}
    tiers = [_tier(text, {"precision": scenario.precision} | precision) for text in args.tier or ()]
    tiers = tiers or [replace(tier, **precision) for tier in tiers_of(scenario)]
    if len(tiers) > 1:
        tiers[1] = replace(tiers[1], metres=tiers[1].metres + 1e3 * args.extra_km)
    network = CameraNetwork(
        scenario,
        tuple(tiers),
        Camera(args.frames, None if args.frame_kb is None else 1e3 * args.frame_kb, args.cameras),
        Cascade(args.filter, 0.1 if args.passed is None else args.passed) if args.filter else None,
    )
    places = placements(network, limit, args.goal)
    sentences = [f"no place keeps the limit and up with {counted(args.cameras, 'camera')}"]
    if (best := best_of(places, args.cameras)) is not None:
        quick, top = best
        count = "any number" if top.cameras is None else f"{top.cameras:,}"
        sentences = [f"least latency: {quick.name}, {amount(quick.latency_s, 's')}; most cameras: {top.name}, {count}"]
    sentences += [f"{name}: {reason}" for name, reason in network.refusals.items()]
    sentences += [*idle_notes(network), *(f"error band, {p.name}: {told(p.error_band)}" for p in places)]
    return [asdict(p) | p.error_band.ends({"latency_s": p.latency_s}) for p in places], sentences


def _on_cameras(text: str, system: str | None) -> Scenario:
    """The scenario that a token, a preset or a file means, or a network in FP32 on a row of machines."""
    if text[:1].isdigit() or ":" in text or text.endswith((".yaml", ".yml", ".json")):
        return scenario_of(text, system)
    return make({"system": system or "edge-metro-core", "workload": text, "scheme": "split", "precision": "fp32"})


_SETTINGS: dict[str, Callable[[str], Any]] = dict.fromkeys(("link", "precision", "format"), str)
_SETTINGS |= {"machines": lambda text: None if text == "each" else int(text), "batch": int, "compression": float}
_SETTINGS |= {"km": lambda text: 1e3 * float(text)}


def _tier(text: str, usual: dict[str, Any]) -> Tier:
    """A tier from ``far edge=arm-edge-cpu,machines=each`` or ``metro=xeon-e5-2650,link=metro-1g,batch=8``."""
    with boundary(f"tier is {brief(text)}; allowed: NAME=DEVICE and {', '.join(_SETTINGS)}"):
        name, body = text.split("=", 1)
        device, *settings = body.split(",")
        pairs = (setting.split("=") for setting in settings)
        values = usual | {key: _SETTINGS[key](value) for key, value in pairs}
        if not name or not device:
            raise ValueError
        return Tier(name, device, **{"metres" if key == "km" else key: value for key, value in values.items()})


def forward(args: argparse.Namespace) -> Answer:
    """Packets that a SmartNIC passes on while it infers. A bound."""
    device = default_catalog().device(args.device)
    executors = args.executors
    if executors is None:
        path = family(device.kind).packets
        executors = path.usual(device) if path is not None else 0
    result = forwarding(device, executors, busy=args.busy)
    busy = f"{result.executors} executors {percent(result.busy)} busy"
    drop = result.drop_bytes
    line_rate = "no packet at line rate" if drop is None else f"line rate from {drop:.0f} B on"
    sentences = [f"{device.name}: {busy}, {line_rate}"]
    for size, rate in zip(result.sizes, result.bytes_per_s, strict=True):
        share = percent(rate / result.line_bytes_per_s)
        sentences.append(f"{size:6} B {8e-9 * rate:8.1f} Gbit/s  {share} of line rate")
    return asdict(result), sentences


def host(args: argparse.Namespace) -> Answer:
    """A host and its network processor at once: rate, watts above idle and at the wall, money. Estimates."""
    shares = host_and_nic(scenario_in(args), args.limit_ms / 1e3)
    first, _, pair = shares
    sentences = [f"together {pair.throughput_per_s / first.throughput_per_s - 1:.1%} more than the host alone"]
    if pair.per_watt and first.per_watt:
        sentences.append(f"work a joule at the wall {pair.per_watt / first.per_watt - 1:+.1%}")
    return [asdict(share) | {"per_watt": share.per_watt} for share in shares], sentences


def fuse(args: argparse.Namespace) -> Answer:
    """A network breadth first and depth first: time, traffic, tiles. Estimates."""
    scenario = scenario_in(args)
    comparison, band = depth_first_of(scenario), evaluate(scenario).error_band
    times = {"breadth_s": comparison.breadth_s, "depth_s": comparison.depth_s}
    data = {
        **times,
        **band.beside(times),
        "breadth_bytes": comparison.breadth_bytes,
        "depth_bytes": comparison.depth_bytes,
        "chains": [
            {"ops": c.ops, "rows": c.rows, "channels": c.channels, "tile_bytes": c.tile_bytes, "halo": c.halo}
            for c in comparison.chains
        ],
    }
    slow, fast = (amount(time, "s") for time in times.values())
    return data, [
        f"one device, eager framework: breadth first {slow}, depth first {fast}: {comparison.speedup:.2f} x, "
        + counted(len(comparison.chains), "chain"),
        f"error band: {told(band)}",
    ]
