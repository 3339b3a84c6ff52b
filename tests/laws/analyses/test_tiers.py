"""Tiers behind cameras: the best cut is brute force's, bytes are conserved, every place is `evaluate`'s answer."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analyses.camera import Camera, CameraNetwork, Cascade, Tier, row_of, tiers_of
from engine.analyses.cuts import CutParts, best_split, split_points
from engine.analyses.placement import placements
from engine.cost.assemble import wire_time
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.plan.schemes import split_wires
from engine.resolve.choices import choices, default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, ScenarioError
from entries.schema import InputError
from tests.effort import examples
from tests.laws.analyses.rows import CORE, FEW, METRO, NEAR, TIERS, named, on_row, price_at


def test_each_tier_and_each_set_of_them_is_answered():
    found = named("mobilenet-v1")
    names = [tier.name for tier in TIERS]
    assert list(found) == [" and ".join(s) for size in (1, 2, 3) for s in itertools.combinations(names, size)]
    for p in found.values():
        assert p.latency_s == pytest.approx(p.travel_s + p.compute_s)
        assert (p.uplink_bytes_per_s == 0) == (p.name == "far edge")
        assert sum(seconds > 0 for seconds in p.stage_s) == p.name.count(" and ") + 1


@pytest.mark.parametrize("workload", FEW)
def test_the_best_of_three_tiers_is_that_of_every_cut(workload):
    """Dynamic programming against each pair of cuts, every one put together as `evaluate` does.

    Of a network of many operators against some pairs: all of SDXL's 195,000 take a quarter of an hour, and those of
    every network of up to a hundred operators took a soak a quarter of an hour too.
    """
    network = on_row(workload)
    parts, last = CutParts(network.bound, network.formats), len(network.bound.graph.phases[0].ops)
    pairs, whole = list(itertools.combinations_with_replacement(range(last + 1), 2)), last <= 60
    every: dict[tuple[int, ...], list[tuple[float, tuple[int, int]]]] = {}
    for cuts in pairs if whole else [(0, 0), (0, last), (last, last), *random.Random(last).sample(pairs, 100)]:
        used = tuple(i for i, (low, high) in enumerate(itertools.pairwise((0, *cuts, last))) if high > low)
        try:
            every.setdefault(used, []).append((price_at(network, cuts).figures.latency_s, cuts))
        except Unsupported:
            continue
    assert every
    for used, brute in every.items():
        best = parts.best(used)
        assert (best is None) == (not brute)
        if best is None:
            continue
        best_s, least_s = price_at(network, best).figures.latency_s, min(brute)[0]
        assert best_s == pytest.approx(least_s, rel=1e-9) if whole else best_s <= least_s * (1 + 1e-9)
    assert sum(len(brute) for brute in every.values()) > last or not whole


@settings(max_examples=examples(12), deadline=None)
@given(
    st.sampled_from(("mobilenet-v2", "resnet50", "vgg16", "efficientnet-b0")), st.floats(0, 1), st.floats(0, 1),
    st.sampled_from((None, "fp16", "int8")), st.floats(1, 16), st.floats(0, 1e6),
)  # fmt: skip
def test_parts_add_up_to_any_cut_of_any_network(workload, first, second, format, compression, metres):
    """Skips over both cuts included: a part waits for what it reads itself."""
    more = {"format": format, "compression": compression, "metres": metres}
    tiers = (NEAR, replace(METRO, **more), replace(CORE, **more))
    network = on_row(workload, tiers=tiers)
    parts, last = CutParts(network.bound, network.formats), len(network.bound.graph.phases[0].ops)
    a, b = sorted((round(first * last), round(second * last)))
    priced = price_at(network, (a, b))
    added = parts.tiers[0][0, a] + parts.tiers[1][a, b] + parts.tiers[2][b, last]
    added += parts.links[0][a] + parts.links[1][b]
    assert added == pytest.approx(priced.figures.latency_s, rel=1e-9)
    for at, wire in enumerate(split_wires(network.bound)):  # bytes that leave a tier are those that come to the next
        cut, ops = (a, b)[at], network.bound.graph.phases[0].ops
        sent = [hop.bytes_per_message for hop in priced.plan.hops if hop.wire == wire and hop.way != "out"]
        if 0 < cut < last:
            read = {name for op in ops[cut:] for name in op.inputs}
            size = {None: 4.0, "fp16": 2.0, "int8": 1.0}[format]
            assert sum(sent) == pytest.approx(
                sum(op.writes.at(1) * size for op in ops[:cut] if op.name in read) / compression
            )
        else:
            assert sent == ([network.camera.frame_bytes] if not cut else [])


def test_travel_and_compute_trade_against_each_other():
    found = named("resnet50")
    assert found["far edge"].travel_s == 0
    assert found["far edge"].travel_s < found["metro edge"].travel_s < found["core"].travel_s
    assert found["far edge"].compute_s > found["metro edge"].compute_s > found["core"].compute_s


def test_distance_adds_the_speed_of_light_in_glass():
    near = named("resnet50")
    far = named("resnet50", tiers=(NEAR, replace(METRO, metres=100e3), CORE))
    assert far["far edge"] == near["far edge"]
    for name in ("metro edge", "core", "far edge and metro edge", "far edge and core"):
        assert far[name].travel_s - near[name].travel_s == pytest.approx(2 * 100e3 * 5e-9)


@pytest.mark.parametrize("workload", ["gpt2-345m", "bert-base", "dlrm-less-complex", "deepbench-gru-512", "mlp-mnist"])
def test_what_takes_no_image_is_refused_in_a_sentence(workload):
    with pytest.raises(Unsupported, match="takes no image"):
        CameraNetwork(on_row("mobilenet-v1").scenario.with_(workload=workload), TIERS)


def test_a_larger_image_takes_longer_everywhere():
    usual, large = named("resnet50"), named("resnet50", params={"image": 448})
    assert all(large[name].compute_s > usual[name].compute_s for name in usual)


def test_machines_of_the_catalog_and_a_network_processor_stand_at_a_tier():
    """The document's co-processor: convolutions on the host, the binary tail on the NIC behind it."""
    nic = Tier("nic", "agilio-cx-2x40", "pcie-gen3-x8", precision="binary")
    host = Tier("host", "xeon-e5-1630v3", machines=None)
    network = on_row("vgg16-cifar-binary", tiers=(host, nic))
    found = {p.name: p for p in placements(network)}
    assert set(found) == {"host", "host and nic"}
    assert "runs binary fully connected layers only" in network.refusals["nic"]
    scenario = default_scenario("xeon-agilio-coprocessor", "vgg16-cifar-binary", scheme="split", precision="fp32")
    cut = found["host and nic"].cuts[0]
    report = evaluate(scenario.with_(split=cut))
    assert sum(found["host and nic"].stage_s) == pytest.approx(sum(row.time_s for row in report.ops), rel=0.02)


def test_a_network_goes_past_a_first_machine_that_can_not_begin_it():
    """A NIC before its host was refused the host's part: no place was named at all."""
    nic, host = Tier("nic", "agilio-cx-2x40", precision="binary"), Tier("host", "xeon-e5-1630v3", "ethernet-10g")
    network = on_row("vgg16-cifar-binary", tiers=(nic, host))
    (found,) = placements(network)
    assert (found.name, found.cuts) == ("host", (0,))
    assert "runs binary fully connected layers only" in network.refusals["nic"]
    with pytest.raises(Unsupported, match="runs binary fully connected layers only"):
        price_at(network, (1,))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cascade": Cascade("mobilenet-v1", 1.5)}, "pass rate is 1.5; allowed: above 0, at most 1"),
        ({"camera": Camera(cameras=0)}, "cameras is 0; allowed: 1 to 1,000,000"),
        ({"camera": Camera(frames_per_s=0.0)}, "frames_per_s is 0; allowed: above 0"),
        ({"tiers": (NEAR,)}, "tiers are 1; allowed: 2 or 3"),
        ({"tiers": (NEAR, replace(METRO, machines=0))}, "machines of the metro edge is 0; allowed: 1 or more"),
        (
            {"tiers": (NEAR, replace(METRO, compression=0.5))},
            "compression of the metro edge is 0.5; allowed: 1 or more",
        ),
        (
            {"tiers": (NEAR, replace(METRO, format="fp3"))},
            "format of the link to the metro edge is 'fp3'; allowed: fp64",
        ),
        ({"camera": Camera(cameras=10**25)}, "cameras is 10000000000000000000000000; allowed: 1 to 1,000,000"),
        ({"tiers": (NEAR, replace(METRO, link=None))}, "link of the metro edge is not set"),
        ({"tiers": (replace(NEAR, link="metro-1g"), METRO)}, "link of the far edge is metro-1g: frames arise there"),
        ({"tiers": (replace(NEAR, metres=5.0), METRO)}, "metres of the far edge is 5.0: frames arise there"),
        ({"tiers": (NEAR, replace(METRO, name="far edge"))}, "tiers are named far edge, far edge; allowed: a name"),
        ({"tiers": (NEAR, replace(METRO, link="no-link"))}, "link 'no-link' is not in the catalog"),
        ({"tiers": (NEAR, replace(METRO, device="no-part"))}, "device 'no-part' is not in the catalog"),
        ({"tiers": (replace(NEAR, precision="fp4"), METRO)}, "precision is 'fp4'"),
        ({"scenario": on_row("mobilenet-v1").scenario.with_(workload="no-such-net")}, "no-such-net"),
    ],
)
def test_bad_input_is_a_sentence(change, said):
    with pytest.raises(InputError, match=said.replace("(", r"\(")) as error:
        placements(replace(on_row("mobilenet-v1"), **change))
    assert "\n" not in str(error.value)


def test_a_link_of_zero_rate_is_a_sentence():
    with pytest.raises(ScenarioError, match="bandwidth"):
        evaluate(default_scenario("edge-tiers", "mobilenet-v1", overrides={"links.peer.bandwidth": "0 Gbit/s"}))


def test_a_format_that_one_tier_lacks_rules_out_that_tier_alone():
    tiers = tuple(replace(tier, precision="int8") for tier in TIERS)
    network = on_row("mobilenet-v1", tiers=tiers)
    lacking = network.refusals
    assert 0 < len(lacking) < len(TIERS)
    assert all("precision" in reason and "'int8'" in reason for reason in lacking.values())
    assert not any(name in p.name for name in lacking for p in placements(network))


CUT = [preset.scenario for preset in PRESETS.values() if "split" in choices(preset.scenario).schemes]
CUT += [default_scenario(id, "mobilenet-v1") for id in ("edge-tiers", "edge-core")]


@pytest.mark.parametrize("scenario", CUT, ids=lambda s: f"{s.system}-{s.workload}")
def test_every_cut_is_one_answer_at_split_and_at_evaluate(scenario: Scenario) -> None:
    """Latency, rate and energy, to the last figure that a report names."""
    points = split_points(scenario)
    assert points
    for point in points:
        report = evaluate(scenario.with_(scheme="split", split=point.at))
        assert point.latency_s == report.latency_s
        parts = point.first_s + point.link_s + point.handover_s + point.second_s + point.outside_s
        assert parts == pytest.approx(point.latency_s)
        same = report.throughput_per_s * point.interval_s / scenario.streams
        if point.energy_j is not None:
            assert point.energy_j / report.energy_per_unit_j == pytest.approx(same)
        else:
            assert report.energy_per_unit_j is None


BEFORE_CAMERAS = [
    ("edge-tiers", {}),
    ("edge-core", {"links.peer.bandwidth": "2 Gbit/s", "devices.0.cpu.clock": "1 GHz"}),
    ("xeon-e5-2650-pair-qpi", {}),
]
ROWS = [(workload, row) for workload in ("alexnet", "vit-b16") for row in BEFORE_CAMERAS]
ROWS += [
    (workload, BEFORE_CAMERAS[at % 3]) for at, workload in enumerate(FEW) if workload not in ("alexnet", "vit-b16")
]


@pytest.mark.parametrize(("workload", "row"), ROWS, ids=lambda value: value if isinstance(value, str) else value[0])
def test_cameras_split_and_evaluate_give_one_answer(workload, row):
    """Whole at either end and the best cut between, frame and answer on their way: the same to the last digit.

    Cameras stand before the scenario's own machines, with its what-ifs; they once stood before the document's. Of many
    networks each meets one of the systems in turn: a soak that tried all pairs was not seen to end.
    """
    system, what_ifs = row
    scenario = default_scenario(system, workload, scheme="split", precision="fp32", overrides=what_ifs)
    try:
        points = {p.at: p for p in split_points(scenario)}
    except Unsupported:
        return
    network = CameraNetwork(row_of(scenario), tiers_of(scenario))
    assert network.matches_system
    places = placements(network)
    assert min(p.latency_s for p in places) == pytest.approx(min(p.latency_s for p in points.values()), rel=1e-12)
    for place in places:
        report = evaluate(scenario.with_(split=place.cuts[0]))
        point = points[place.cuts[0]]
        assert place.latency_s == report.latency_s == point.latency_s
        assert place.error_band == report.error_band == point.error_band
    inner = [p for p in points.values() if p.at and p.rest]
    best = next((p for p in places if " and " in p.name), None)
    assert (best is None) == (not inner)
    if best is not None:
        assert best.latency_s == pytest.approx(min(p.latency_s for p in inner), rel=1e-12)


@pytest.mark.parametrize("workload", FEW[:1])
def test_three_executors_are_cut_as_brute_force_over_every_pair_of_cuts_finds(workload):
    """At split, at evaluate and before cameras: one answer, to the last bit; and the best rate likewise."""
    scenario = default_scenario("edge-metro-core", workload, scheme="split", precision="fp32")
    last = len(choices(scenario).splits)
    every = [(a, b) for a in range(last + 1) for b in range(a, last + 1)]
    some = {cuts: evaluate(scenario.with_(split=cuts[0], second_split=cuts[1])) for cuts in every}
    for goal, measure in (("latency", lambda r: r.latency_s), ("throughput", lambda r: -r.throughput_per_s)):
        points = split_points(scenario, goal=goal)
        assert [p.at for p in points] == list(range(last + 1))
        for p in points:
            assert p.latency_s == some[p.at, p.second_at].latency_s
            assert p.error_band == some[p.at, p.second_at].error_band
        best = best_split(points, goal)
        assert measure(some[best.at, best.second_at]) == pytest.approx(min(map(measure, some.values())), rel=1e-9)
    for place in placements(on_row(workload)):
        assert place.latency_s == some[place.cuts].latency_s
    assert min(p.latency_s for p in placements(on_row(workload))) == min(r.latency_s for r in some.values())


def test_of_three_executors_the_least_energy_is_that_of_every_pair_of_cuts():
    """A metro server of 6 GHz that draws little while it waits: 0.70 J were named best, all in the core takes 0.51."""
    overrides = {"devices.1.cpu.clock": "6 GHz", "model.idle_share": 0.05}
    scenario = default_scenario("edge-metro-core", "alexnet", scheme="split", precision="fp32", overrides=overrides)
    points = split_points(scenario, goal="energy")
    last = len(choices(scenario).splits)
    for point in points:
        every = (scenario.with_(split=point.at, second_split=end) for end in range(point.at, last + 1))
        assert point.energy_j == pytest.approx(min(evaluate(one).energy_per_unit_j for one in every), rel=1e-9)
    assert best_split(points, "energy").energy_j == min(p.energy_j for p in points)


def test_what_is_larger_travels_longer() -> None:
    """401 kB once went to the core in 14.5 ms and 200 kB in 15.0."""
    wire = split_wires(on_row("mobilenet-v1").bound)[0]
    sizes = [wire_time(wire, 1e3 * size) for size in (0.256, 200, 401, 602)]
    assert sizes == sorted(sizes)
    assert np.isfinite(sizes).all()


def test_every_executor_s_time_is_its_own_and_every_cut_is_in_words() -> None:
    """Of three executors the third one's time was the second's, and a best cut did not say where the third begins."""
    points = split_points(default_scenario("edge-metro-core", "alexnet", scheme="split", precision="fp32"))
    for p in points:
        parts = (p.first_s, p.second_s, p.third_s, p.handover_s, p.link_s, p.outside_s)
        assert sum(parts) == pytest.approx(p.latency_s, rel=1e-12)
        assert (p.third_s > 0) == (p.second_at < p.at + p.rest)
        assert (p.second_s > 0) == (p.second_at > p.at)
    three = replace(points[0], at=2, rest=8, second_at=5, after="conv1", then_after="pool2")
    said = {
        three.place,
        replace(three, second_at=2, then_after="conv1").place,
        replace(three, second_at=10, then_after="").place,
        replace(three, at=0, rest=10, after="").place,
        replace(three, at=0, rest=10, after="", second_at=0, then_after="").place,
    }
    assert said == {
        "after conv1, then after pool2",
        "after conv1, none on the second device",
        "after conv1, none on the third device",
        "after pool2, none on the first device",
        "all on the third device",
    }


def test_a_system_that_is_no_row_stands_aside_for_the_document_s_three() -> None:
    scenario = default_scenario("t4", "mobilenet-v1", batch=8, params={"image": 192})
    assert row_of(scenario).system == "edge-metro-core"
    assert row_of(scenario).params == {"image": 192}
    assert [(tier.name, tier.batch) for tier in tiers_of(scenario)] == [
        ("far edge", 8),
        ("metro edge", 8),
        ("core", 8),
    ]
