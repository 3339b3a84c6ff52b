"""Networks on the machines behind cameras that tests of tiers and of cameras lay out alike."""

from engine.analyses.camera import Camera, CameraNetwork, row_of, tiers_of
from engine.analyses.cuts import price_cuts
from engine.analyses.placement import placements
from engine.resolve.choices import default_scenario
from model_zoo.catalog import default_zoo
from tests.effort import EFFORT

SEEN = Camera(frame_bytes=200e3)


def on_row(workload, camera=SEEN, tiers=None, *, params=None, system="edge-metro-core", **more):
    scenario = default_scenario(system, workload, scheme="split", precision="fp32", params=params or {})
    return CameraNetwork(row_of(scenario), tiers or tiers_of(scenario), camera, **more)


TIERS = NEAR, METRO, CORE = on_row("mobilenet-v1").tiers


def named(workload, *args, **kwargs):
    return {p.name: p for p in placements(on_row(workload, *args, **kwargs))}


def price_at(network, cuts):
    return price_cuts(network.bound, network.formats, cuts)


FEW = ["alexnet", "vit-b16"]
if EFFORT >= 5:
    FEW = [id for id in default_zoo().ids() if default_zoo().graph(id).seen]
"""Networks that take images; those with the fewest cuts in an ordinary run: to lower every network takes seconds."""
