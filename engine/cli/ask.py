"""``python -m engine ask ANALYSIS ...``: one question about a scenario, a node or a network.

Each is a command by its own name too, for one version more.
"""

from __future__ import annotations

import argparse
from functools import partial

from engine.cli import edge, machine, node
from engine.cli.command import Command, number, positive
from engine.cli.scenario import add_scenario

_GOALS = ("latency", "throughput", "energy", "first", "second")


def _microservice(p: argparse.ArgumentParser) -> None:
    add_scenario(p)
    p.add_argument("--pool", type=int, required=True, help="devices of the pool")
    p.add_argument("--clients", type=int, default=1, help="CPU servers that drive it (default 1)")
    p.add_argument("--client-cores", type=int, default=16, help="cores of a client (default 16)")
    p.add_argument(
        "--client-ms",
        type=positive(1e6),
        default=50.0,
        help="core time of a query [ms] (default 50)",
    )
    p.add_argument("--p95-ms", type=positive(1e6), help="limit on the 95th percentile from request to answer [ms]")


def _program(p: argparse.ArgumentParser) -> None:
    p.add_argument("what", choices=("show", "run", "time", "check"))
    add_scenario(p)
    p.add_argument("--file", help="text of a program (default: the one the scenario's price rests on)")
    of = "of a decoder: layer (default), head or token; of an NPU attention, convolution or mlp instead of the network"
    p.add_argument("--part", default="layer", help=of)
    p.add_argument("--seed", type=number(0, 2**32 - 1, int), default=0, help="of the numbers it runs on (default 0)")


def _tile(p: argparse.ArgumentParser) -> None:
    add_scenario(p)
    p.add_argument("--op", help="only this operator")
    p.add_argument("--block", metavar="ROWSxCOLUMNSxDEPTH", help="price these blocks in a core instead of a search")
    p.add_argument("--cores", metavar="COLUMNSxROWS", help="of cores beside each other, with --block")
    p.add_argument("--stays", choices=("a", "b", "c"), help="the operand whose block stays, with --block")


def _split(p: argparse.ArgumentParser) -> None:
    add_scenario(p)
    p.add_argument("--goal", choices=_GOALS, default="latency", help="what the best cut is best at (default latency)")
    p.add_argument("--first-precision", help="format of the first part where it differs (a quantised part)")


def _camera(p: argparse.ArgumentParser) -> None:
    p.add_argument("workload")
    p.add_argument("--frames", type=positive(1e4), default=5.0, help="frames per second (default 5)")
    p.add_argument("--frame-kb", type=positive(1e6), default=200.0, help="kilobytes of a frame (default 200)")
    p.add_argument("--limit-ms", type=positive(1e9), help="longest time from frame to answer")
    more = "fibre from the first tier on top of what its link holds"
    p.add_argument("--extra-km", type=number(0, 40_000), default=0.0, help=more)
    p.add_argument("--goal", choices=("latency", "throughput"), default="latency")
    p.add_argument("--precision", default="fp32", help="of tiers that say none")
    p.add_argument("--cameras", type=int, default=1, help="that share machines and links (default 1); several: p99 too")
    p.add_argument("--filter", metavar="WORKLOAD", help="a small network on the first tier that sees every frame")
    p.add_argument("--passed", type=float, default=0.1, help="share of frames that --filter passes on (default 0.1)")
    p.add_argument(
        "--tier",
        action="append",
        metavar="NAME=DEVICE[,link=LINK,machines=N|each,batch=N,precision=F,format=F,compression=X,km=X]",
        help="two or three, from the cameras on; the document's three where left out",
    )


def _forward(p: argparse.ArgumentParser) -> None:
    p.add_argument("device", nargs="?", default="agilio-cx-2x40")
    p.add_argument("--executors", type=int, help="threads that infer; the part's own when left out")
    p.add_argument("--busy", type=float, default=1.0, help="share of their engines' issue slots they take (default 1)")


def _host(p: argparse.ArgumentParser) -> None:
    add_scenario(p)
    p.add_argument(
        "--limit-ms",
        type=positive(1e9),
        default=7.0,
        help="longest batch on a core of the host (default 7)",
    )


_asked = partial(Command, spelled=True)
ANALYSES = {
    "machine": _asked("units, fabric, tiles and arithmetic of an FPGA processor", add_scenario, machine.machine),
    "microservice": _asked("a pool of accelerators behind the network", _microservice, machine.microservice),
    "program": _asked("programs of an FPGA processor: shown, run, timed, checked", _program, machine.program),
    "kinds": _asked("time by kind of operator, before and after each optimisation", add_scenario, node.kinds),
    "tile": _asked("every tiling of every product on a card: counted, the best, or one of yours", _tile, node.tile),
    "split": _asked("every cut of a network between two executors, and the best", _split, edge.split),
    "camera": _asked("where to analyse a camera's frames: far edge, metro edge, core, or cut", _camera, edge.camera),
    "forward": _asked("packets a SmartNIC passes on while it infers", _forward, edge.forward),
    "host-nic": _asked("a host and its SmartNIC at once: rate, watts and money", _host, edge.host),
    "fuse": _asked("a network breadth first and depth first: time, traffic, tiles", add_scenario, edge.fuse),
}
"""Analyses by the name that each is asked by."""
