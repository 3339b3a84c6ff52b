"""Laws of several NPUs: networks pinned over devices, pieces of a cell apart, steps handed on."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cost import best_plan
from engine.cost.assemble import assemble, plan_keys
from engine.evaluate import evaluate
from engine.plan.schemes import open_plan
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.scenario.overrides import apply_all
from engine.traffic.arrangements import arrangements
from hardware_specs.catalog import default_catalog
from tests.each import each
from tests.effort import examples
from tests.laws.devices.npu.test_instance import SYSTEM


def pinned(system, workload, devices, **changes):
    scheme = "pinned" if devices > 1 else "single"
    return evaluate(default_scenario(system, workload, devices=devices, scheme=scheme, **changes))


def test_pinning_over_enough_devices_ends_the_spill():
    one, two, four = (pinned("brainwave-sv", "gru-3200x2400", n) for n in (1, 2, 4))
    assert one.breakdown["offchip"] > two.breakdown["offchip"] > 0
    assert four.breakdown["offchip"] == 0
    assert one.latency_s > 10 * four.latency_s
    for report, devices in ((one, 1), (two, 2), (four, 4)):
        held = sum(row.need_bytes for row in report.memory if row.role == "onchip")
        assert held * devices == pytest.approx(20.16e6, rel=0.01)


def divided(scenario):
    """Times of a scenario with every matrix divided between its devices, whatever the planner takes."""
    bound = bind(scenario)
    options = open_plan(bound).options
    return next(assemble(bound, plan) for plan in options if plan.stages[0].ways == scenario.devices)


def test_copies_side_by_side_go_apart_and_others_pay_for_the_network_every_step():
    times = [pinned("brainwave-a10", "tp1-lstm", n).latency_s for n in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
    assert times[0] / times[3] > 4
    cut = divided(default_scenario(SYSTEM, "deepbench-gru-1024", devices=2, scheme="pinned", inputs=100))
    assert cut.figure("links_s") > 100 * 2e-6
    assert cut.latency_s > pinned(SYSTEM, "deepbench-gru-1024", 1, inputs=100).latency_s


@pytest.mark.parametrize("workload", ["deepbench-gru-1024", "deepbench-gru-2816", "deepbench-lstm-2048"])
def test_what_is_made_of_inputs_and_of_the_state_may_lie_apart(workload):
    """W on one device and U on the next: each does its part of a step, on another request than the other."""
    base = default_scenario("npu-rtl", workload, devices=2, scheme="pinned")
    apart = next(p for p in open_plan(bind(base)).options if len(p.stages) == 2)
    names = [stage.ops for stage in apart.stages]
    assert names[0] == {"rnn-input"}
    assert "rnn-recurrent" in names[1]
    times = assemble(bind(base), apart)
    one, two = (pinned("npu-rtl", workload, n) for n in (1, 2))
    print(f"{workload}: {one.throughput_per_s:.0f}/s on one, {two.throughput_per_s:.0f}/s on two")
    assert times.units_per_s > 1.15 * one.throughput_per_s
    assert two.throughput_per_s >= times.units_per_s * (1 - 1e-12)


STACKS = [
    (SYSTEM, "deepbench-gru-1024", 8, 8),
    (SYSTEM, "deepbench-gru-1024", 5, 4),
    ("brainwave-a10", "deepbench-lstm-1024", 4, 4),
    ("npu-rtl", "deepbench-gru-512", 3, 2),
]


@pytest.mark.parametrize("steps", [1, 25, 200])
@pytest.mark.parametrize(("system", "workload", "layers", "devices"), STACKS)
def test_a_layer_starts_when_the_first_step_of_the_layer_before_is_out(system, workload, layers, devices, steps):
    """A request waits for the slowest device, for one step of each other one, and for what crosses."""
    base = default_scenario(system, workload, devices=devices, scheme="pinned", inputs=steps, params={"layers": layers})
    bound = bind(base)
    for plan in open_plan(bound).options:
        times = assemble(bound, plan)
        each = np.array(times.part("stage_s"))
        expected = each.max() + (each.sum() - each.max()) / steps + sum(seconds for _, seconds in times.hops)
        assert times.latency_s == pytest.approx(expected, rel=1e-9)
    report = evaluate(base)
    assert sum(row.time_s for row in (*report.ops, *report.other)) == pytest.approx(report.latency_s, rel=1e-9)
    saves = float(report.verdict.split("cuts latency by ")[1].split("%")[0])
    assert 0 < saves <= 10  # a tenth less of anything never saves more than a tenth
    assert report.latency_s <= evaluate(base.with_(devices=1)).latency_s * (1 + 1e-9) or steps == 1


def test_a_layer_that_reads_both_directions_waits_for_the_last_step():
    """Its first step needs the last one of the sequence that the layer before reads backwards."""
    base = default_scenario(SYSTEM, "deepbench-gru-1024", devices=4, scheme="pinned")
    base = base.with_(params={"layers": 4, "directions": 2})
    for plan in open_plan(bind(base)).options:
        cells = [{name.split("-")[0] for name in stage.ops} for stage in plan.stages]
        for (_, before), (stage, names) in itertools.pairwise(zip(plan.stages, cells, strict=True)):
            assert not stage.streams or before == names  # W and U of the same layer


def test_devices_that_hand_on_steps_are_no_row_of_stations():
    """Stations in a row would each hold a request whole, and its answer would take longer than it is said to."""
    base = default_scenario(SYSTEM, "deepbench-gru-1024", devices=8, scheme="pinned", params={"layers": 8})
    assert "step by step" in arrangements(base)["stages"]
    assert arrangements(base)["whole"] is None


@pytest.mark.parametrize("steps", [1, 2, 25, 1500])
def test_the_state_goes_on_as_soon_as_the_inputs_first_step_is_there(steps):
    """A request waits for the slower of W and U, for one step of the other, and for what crosses."""
    base = default_scenario("npu-rtl", "deepbench-gru-2816", devices=2, scheme="pinned", inputs=steps)
    apart = next(p for p in open_plan(bind(base)).options if len(p.stages) == 2)
    times = assemble(bind(base), apart)
    ahead, behind = times.part("stage_s")
    expected = max(ahead, behind) + min(ahead, behind) / steps + sum(seconds for _, seconds in times.hops)
    assert times.latency_s == pytest.approx(expected, rel=1e-9)
    if steps > 1:
        assert evaluate(base).latency_s < 1.001 * evaluate(base.with_(devices=1)).latency_s


def test_states_nobody_reads_do_not_cross():
    """Copies of the last layer on two devices: only the final states meet; below another layer every step's do."""
    base = default_scenario("brainwave-s10", "tp1-lstm", devices=2, scheme="pinned", inputs=400)
    times = divided(base.with_(params={"layers": 2}))
    other = {name: seconds for name, _, seconds in times.priced[0].runs[0].cost.overheads}
    assert other["outputs of rnn2"] < 10e-6
    assert other["outputs of rnn1"] > 400 * 8 * 500 / 2 * 2 / 5e9  # half of all states at 40 Gbit/s


COUNTS = range(1, 9)


def over(system, workload, **changes):
    """Inferences per second over 1 to 8 devices."""
    return [pinned(system, workload, n, **changes) for n in COUNTS]


@each("system", ["brainwave-s10", "brainwave-a10", "brainwave-sv"])
@each(
    "workload",
    [
        "deepbench-gru-1024",
        "deepbench-lstm-2048",
        "tp1-lstm",
        "deepscan",
        "gru-3200x2400",
        "mobilenet-v1",
        "efficientnet-b0",
        "alexnet",
        "xlm-r-large",
        "bert-base",
        "mlp-121m",
    ],
)
def test_more_devices_never_give_less(system, workload):
    reports = over(system, workload)
    rates = [r.throughput_per_s for r in reports]
    assert rates == sorted(rates)
    for report, devices in zip(reports, COUNTS, strict=True):
        assert report.devices_used <= devices
        assert (report.devices_used < devices) == any("hold nothing" in a.text for a in report.assumptions)
        assert report.fits == any(r.fits for r in reports[: COUNTS.index(devices) + 1])


@settings(max_examples=examples(25), deadline=None)
@given(
    system=st.sampled_from(["brainwave-s10", "brainwave-s10-isca18", "brainwave-a10", "brainwave-sv"]),
    cell=st.sampled_from(["gru", "lstm"]),
    hidden=st.integers(16, 3000),
    layers=st.integers(1, 12),
    directions=st.integers(1, 2),
    steps=st.integers(1, 300),
    batch=st.integers(1, 8),
    room=st.integers(1, 40),
)
def test_more_devices_never_give_less_of_any_recurrent_network(
    system, cell, hidden, layers, directions, steps, batch, room
):
    params = {"hidden": hidden, "input": hidden, "layers": layers, "directions": directions}
    base = default_scenario(system, f"deepbench-{cell}-512", scheme="pinned", devices=8, inputs=steps, batch=batch)
    memory = next(
        m.name
        for m in default_catalog().device(default_catalog().system(system).devices[0].device).memory
        if m.role == "onchip"
    )
    base = apply_all(base.with_(params=params), [f"devices.0.memory.{memory}.capacity={room} MB"])
    reports = [evaluate(base.with_(devices=n, scheme="pinned" if n > 1 else "single")) for n in COUNTS]
    held = [(r.fits, r.throughput_per_s) for r in reports]
    assert held == sorted(held)


@pytest.mark.parametrize("layers", COUNTS)
def test_layers_are_pieces_and_pipeline_over_devices(layers):
    """Whole layers lie on devices: the one with most sets the rate, and a device that would not lessen it is left."""
    alone, *_ = over("brainwave-s10", "deepbench-gru-1024")
    reports = over("brainwave-s10", "deepbench-gru-1024", params={"layers": layers})
    for report, devices in zip(reports, COUNTS, strict=True):
        most = math.ceil(layers / devices)
        used = math.ceil(layers / most)
        assert report.devices_used == used
        assert report.throughput_per_s == pytest.approx(alone.throughput_per_s / most, rel=0.01)
        crossing = sum(link.bytes_per_request for link in report.links)
        assert crossing == pytest.approx((used * 1500 + 1) * 2048)  # every step's input, every cut, the last state


def test_a_wire_between_pieces_limits_how_often_requests_start():
    base = default_scenario("brainwave-s10", "deepbench-gru-1024", devices=4, scheme="pinned")
    slow = apply_all(base.with_(params={"layers": 4}), ["links.network.bandwidth=1 Gbit/s"])
    wire = 1500 * 2048 / 125e6
    assert evaluate(slow).throughput_per_s <= 1 / wire


def test_interleaved_cells_hide_each_others_floor():
    base = default_scenario("brainwave-s10", "tp1-lstm", devices=1, scheme="single")
    inside = [evaluate(base.with_(switches={"interleave": on})).latency_s for on in (False, True)]
    assert inside[1] < inside[0] / 3


def test_a_pass_over_several_devices_does_the_same_work():
    for workload in ("tp1-lstm", "gru-3200x2400"):
        one, four = (pinned("brainwave-a10", workload, n) for n in (1, 4))
        assert four.devices_used * sum(op.flops for op in four.ops) == pytest.approx(sum(op.flops for op in one.ops))
        assert all(op.peak_used <= 1 + 1e-9 for op in four.ops)


def test_ways_to_pin_are_priced_once_for_all_counts_that_have_them(monkeypatch):
    """More devices have the ways of fewer, remembered by all that a price depends on: plans are as priced alone."""
    priced = []
    monkeypatch.setattr(best_plan, "plan_keys", lambda bound, plans: priced.append(plans) or plan_keys(bound, plans))
    changes = ({}, {"batch": 4}, {"overrides": {"devices.0.npu.clock": "100 MHz"}}, {"switches": {"interleave": False}})
    for workload in ("resnet50", "tp1-lstm", "gru-3200x2400"):
        base = default_scenario("brainwave-a10", workload, scheme="pinned")
        scenarios = [base.with_(devices=n, **change) for n in (2, 8, 4) for change in changes]
        best_plan._plan_key.cache_clear()
        together = [best_plan.make_plan(bind(scenario)) for scenario in scenarios]
        count, options = len(priced), sum(len(open_plan(bind(scenario)).options) for scenario in scenarios)
        assert count < 0.7 * options
        for scenario, plan in zip(scenarios, together, strict=True):
            best_plan._plan_key.cache_clear()
            assert best_plan.make_plan(bind(scenario)) == plan
        priced.clear()
