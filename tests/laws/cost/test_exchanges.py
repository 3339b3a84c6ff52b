"""Devices that share every operator pay for what one has and another needs, in every family and for every network."""

import pytest

from engine import Unsupported, default_scenario, evaluate, why_not
from engine.resolve.choices import choices
from engine.scenario import ScenarioError
from hardware_specs import default_catalog
from model_zoo.catalog import default_zoo

NETWORKS = (
    "resnet50",
    "regnety-32gf",
    "mobilenet-v2",
    "dlrm-more-complex",
    "mlp-mnist",
    "wide-deep-criteo",
    "bert-base",
)


def _shared(system: str, workload: str):
    """The scenario on one device, and shared by one and by two; None where devices share no operator there."""
    if why_not(system, workload) is not None:
        return None
    scenario = default_scenario(system, workload)
    if "tensor" not in choices(scenario).schemes or 2 not in choices(scenario.with_(scheme="tensor")).device_counts:
        return None
    try:
        return [
            evaluate(scenario.with_(scheme=scheme, devices=devices, split=0))
            for scheme, devices in (("single", 1), ("tensor", 1), ("tensor", 2))
        ]
    except (ScenarioError, Unsupported):
        return None


@pytest.mark.parametrize("workload", NETWORKS)
def test_what_devices_share_crosses_their_wires(workload: str) -> None:
    seen = 0
    for system in default_catalog().ids("systems"):
        reports = _shared(system, workload)
        if reports is None:
            continue
        single, alone, two = reports
        assert alone.latency_s == single.latency_s, system
        assert alone.throughput_per_s == single.throughput_per_s, system
        exchanged = sum(row.time_s for row in two.other if row.resource == "links" and row.name.startswith("all-"))
        assert exchanged > 0.0, system
        assert sum(link.bytes_per_request for link in two.links) > sum(link.bytes_per_request for link in single.links)
        seen += 1
    assert seen > 10


def test_a_convolution_gathers_the_pixels_it_reads() -> None:
    """Bytes between six cards follow from the network: every tensor that a dense convolution reads, once."""
    scenario = default_scenario("fb-node", "regnety-128gf", scheme="tensor", devices=6, precision="int8")
    report = evaluate(scenario)
    gathers = {
        row.name.removeprefix("all-gather after "): row.time_s for row in report.other if "all-gather" in row.name
    }
    assert len(gathers) > 100  # a tensor for each of three convolutions of 27 blocks, and their squeezes
    peer = next(link for link in report.links if link.role == "peer")
    ops = default_zoo().graph(scenario.workload).phases[0].ops
    whole = {name for op in ops if op.contraction and op.attribute("groups", 1.0) < 6 for name in op.inputs}
    elements = sum(op.writes.at(1) for op in ops if op.name in whole)
    crossing = 2 * 5 / 6 * elements  # cards exchange results in 16 bits; each has a sixth already
    assert peer.bytes_per_request == pytest.approx(crossing, rel=0.02)  # the image and the answer beside them
    assert report.latency_s > evaluate(scenario.with_(scheme="single", devices=1)).latency_s
    assert sum(gathers.values()) == pytest.approx(peer.bytes_per_request / peer.bandwidth, rel=0.3)


def test_tables_are_gathered_in_one_exchange_and_sharding_them_all_is_no_bargain() -> None:
    tables = default_scenario("fb-node", "dlrm-more-complex", batch=64)
    shared = tables.with_(scheme="tensor")
    assert evaluate(shared).latency_s > evaluate(tables).latency_s
    assert sum("embedding" in row.name for row in evaluate(shared).other) == 1
