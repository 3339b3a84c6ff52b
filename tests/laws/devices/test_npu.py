"""Laws of the NPU: floors of dependent steps, tiles that quantise, weights that pin or spill."""

import gc
import itertools
import math
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cost.assemble import assemble
from engine.cost.compose import _assumed
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.devices.npu.chains import CELLS, CELLS_IN_ORDER, Passes, cut, floor_cycles, pass_cycles
from engine.devices.npu.density import densities, fabric
from engine.devices.npu.instance import Engine
from engine.devices.npu.pinning import stored_bits
from engine.devices.npu.timing import sequence_cycles
from engine.evaluate import evaluate
from engine.plan.schemes import open_plan
from engine.resolve.bind import bind, named
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from engine.scenario.overrides import apply_all
from engine.traffic.arrangements import arrangements
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import Zoo, default_zoo
from tests.catalog.onnx_files import FLOAT, model, node
from tests.each import each
from tests.effort import examples

SYSTEM = "brainwave-s10-isca18"
DEVICE = default_catalog().device("stratix-10-280-brainwave-isca18")
ENGINE = Engine.of(DEVICE)


def test_what_is_remembered_of_a_device_goes_with_it():
    """Up to 2,048 devices, each of its own what-ifs, were kept for what their parts hold and what they assume."""
    devices = [DEVICE.model_copy() for _ in range(5)]
    kept = [weakref.ref(device) for device in devices]
    assert all(densities(device) is densities(device) and _assumed(device) is _assumed(device) for device in devices)
    del devices
    gc.collect()
    assert not [one for one in kept if one() is not None]


LARGE = (
    "devices.0.fpga.alm=1e9",
    "devices.0.fpga.dsp=1e6",
    "devices.0.fpga.m20k=1e6",
)  # a part that holds whatever a law asks for


def latency(cell="gru", settings_=(), steps=100, system=SYSTEM, **params):
    base = default_scenario(system, f"deepbench-{cell}-1024", devices=1, scheme="single", inputs=steps)
    return evaluate(apply_all(base.with_(params=params), [*settings_, *LARGE])).latency_s


@each("system", ["brainwave-s10", "brainwave-s10-isca18", "brainwave-a10", "brainwave-sv"])
@each("knob", ["tiles", "lanes", "native_dim"])
@each("times", [1, 2, 8, 200])
def test_a_design_the_part_does_not_hold_is_refused(system, knob, times):
    """Up to a fifth above the estimate, which has been built; what is in the catalog always runs."""
    base = default_scenario(system, "deepbench-gru-1024", devices=1, scheme="single")
    now = getattr(bind(base).device.npu, knob).si
    changed = apply_all(base, [f"devices.0.npu.{knob}={now * times:g}"])
    device = bind(base).device
    held, npu = next(d for d in densities(device) if d.format == base.precision), device.npu
    share = npu.tiles.si * npu.lanes.si * npu.native_dim.si * times / (held.hard + held.soft)
    logic = sum(fabric(named(changed).device, base.precision)["alm"].values())
    if times == 1 or (share <= 1.2 and logic <= 0.95 * device.fpga.alm.si):
        assert evaluate(changed).latency_s > 0
        return
    said = r"multipliers of [^\n]* holds at most about" if share > 1.2 else r"takes? [0-9,]+ ALM; [^\n]* has"
    with pytest.raises(Unsupported, match=rf"^[^\n]* {said} [0-9,]+\.$"):
        evaluate(changed)


def test_a_step_has_a_floor_however_small_the_matrix():
    small, large = (latency(hidden=h, input=h) for h in (16, 1024))
    assert small == pytest.approx(large, rel=0.01)
    assert small > 100 * floor_cycles("gru", ENGINE.pipe) / ENGINE.clock


def test_large_matrices_are_bound_by_the_tile_engines():
    report = evaluate(default_scenario(SYSTEM, "deepbench-gru-2816", devices=1, scheme="single", inputs=750))
    per_step = 6 * -(-64 // 6) * 10  # six matrices of 8 x 8 native tiles over six engines, ten cycles each
    assert report.breakdown["compute"] == pytest.approx(750 * per_step / 250e6)
    assert report.bound == "compute"


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(["gru", "lstm"]), st.integers(1, 40), st.integers(1, 40))
def test_wider_is_never_faster(cell, narrow, more):
    hidden = 64 * narrow
    assert latency(cell, hidden=hidden + 64 * more, input=hidden) >= latency(cell, hidden=hidden, input=hidden)


@pytest.mark.parametrize("path", ["mvu-distribute", "mfu-add", "vrf-write", "dispatch"])
def test_deeper_units_are_slower_on_a_small_network(path):
    deeper = [f"system.devices.0.npu.depths.{path}=300 cycles"]
    assert latency(settings_=deeper, hidden=256, input=256) > latency(hidden=256, input=256)


@pytest.mark.parametrize(
    ("knob", "depth", "values"),
    [
        ("tiles", "mvu-reduce-hop", (6, 12, 24)),
        ("lanes", "mvu-dot-level", (40, 80, 160)),
    ],
)
@pytest.mark.parametrize("steps", [1, 25, 500])
def test_more_engines_or_lanes_are_slower_only_by_the_path_they_lengthen(knob, depth, values, steps):
    def times(*more):
        return [
            latency(settings_=[f"system.devices.0.npu.{knob}={v}", *more], steps=steps, hidden=256, input=256)
            for v in values
        ]

    paid, free = times(), times(f"system.devices.0.npu.depths.{depth}=0 cycles")
    assert paid == sorted(paid)
    assert paid[0] < paid[-1]
    assert free == sorted(free, reverse=True)


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(1, 12), st.sampled_from([1, 2, 4]))
def test_overrides_of_the_instance_change_its_peak(tiles, lanes):
    base = default_scenario(SYSTEM, "deepbench-gru-2816", devices=1, scheme="single")
    changed = apply_all(
        base, [f"system.devices.0.npu.tiles={tiles}", f"system.devices.0.npu.lanes={lanes * 10}", *LARGE]
    )
    report = evaluate(changed)
    assert report.roofline.peak_flops_per_s == 2 * 400 * lanes * 10 * tiles * 250e6
    assert all(op.peak_used <= 1 + 1e-9 for op in report.ops)


@pytest.mark.parametrize("mfus", [1, 2, 3])
@pytest.mark.parametrize("cell", sorted(CELLS))
def test_cut_chains_keep_every_operation_and_fit_the_units(cell, mfus):
    for chain in CELLS[cell]:
        pieces = cut(chain, mfus)
        assert tuple(op for piece, _ in pieces for op in piece.ops) == chain.ops
        assert pieces[-1][0].target == chain.target
        for (first, _), (second, _) in itertools.pairwise(pieces):
            assert second.source == first.target
            assert not second.matrix
        assert all(0 <= place < mfus for _, places in pieces for place in places)


def test_fewer_function_units_lengthen_the_chain():
    base = ENGINE.pipe
    for cell in CELLS:
        floors = [floor_cycles(cell, replace(base, mfus=mfus)) for mfus in (1, 2, 3)]
        several = any(len(cut(chain, 1)) > 1 for chain in CELLS[cell])  # a plain step needs one unit of each kind
        assert floors[0] > floors[1] if several else floors[0] == floors[1]
        assert floors[1] >= floors[2]
        assert floors[2] > pass_cycles(base) if several else floors[2] == pass_cycles(base)


def test_spilling_weights_costs_an_order_of_magnitude():
    fits = latency(hidden=2800, input=2800, steps=50)
    spills = latency(hidden=2800, input=2800, steps=50, settings_=["devices.0.memory.m20k.capacity=3 MB"])
    assert spills > 10 * fits


def test_stored_bits_decide_what_is_pinned():
    report = evaluate(default_scenario("brainwave-s10-pre", "gru-3200x2400", devices=1, scheme="single"))
    need = next(row.need_bytes for row in report.memory if row.role == "onchip")
    assert need == pytest.approx(15.1e6, rel=0.01)
    assert stored_bits(DEVICE, "ms-fp8") == 3


@pytest.mark.parametrize(
    ("workload", "named", "helps", "useless"),
    [
        ("gru-3200x2400", "the dependence of steps", "npu.depths.mvu-distribute=100 cycles", "npu.lanes=48"),
        ("deepbench-gru-2816", "matrix work", "npu.lanes=48", "npu.depths.sequence-start=300 cycles"),
        ("mlp-121m", "off-chip memory", "memory.dram.bandwidth=25 GB/s", "npu.lanes=48"),
    ],
)
def test_a_verdict_names_what_would_help(workload, named, helps, useless):
    base = default_scenario("brainwave-s10-pre", workload, devices=1, scheme="single")
    now = evaluate(base)
    assert f"bound by **{named}**: 10% less time there cuts latency by" in now.verdict
    assert evaluate(apply_all(base, [f"devices.0.{helps}"])).latency_s < 0.97 * now.latency_s
    assert evaluate(apply_all(base, [f"devices.0.{useless}"])).latency_s > 0.99 * now.latency_s


def in_order(workload="deepbench-gru-512", batch=6, steps=8, **params):
    base = default_scenario("npu-rtl", workload, devices=1, scheme="single", batch=batch, precision="int8")
    report = evaluate(base.with_(inputs=steps, params=params) if "gemv" not in workload else base)
    return report.latency_s - report.breakdown["links"], report


@pytest.mark.parametrize(
    ("workload", "size", "steps", "tops"),
    [("gemv-512", 512, 1, 3.55), ("gemv-1792", 1792, 1, 16.9), ("gru", 512, 8, 8.41), ("gru", 1152, 8, 22.97)],
)
def test_the_instance_that_issues_in_order_meets_the_rows_it_was_fitted_on(workload, size, steps, tops):
    if workload == "gru":
        took, _ = in_order(steps=steps, hidden=size, input=size)
    else:
        took, _ = in_order(workload)
    work = 2 * size**2 * (6 * steps if workload == "gru" else 1) * 6
    assert work / took / 1e12 == pytest.approx(tops, rel=0.03)


@pytest.mark.parametrize("size", [100, 512, 1800])
def test_requests_that_share_weights_cost_no_time_and_steps_add_up(size):
    one, six, seven, twelve = (in_order(batch=b, hidden=size, input=size)[0] for b in (1, 6, 7, 12))
    assert one == pytest.approx(six)
    assert six < seven == pytest.approx(twelve)
    assert twelve == pytest.approx(2 * six)
    eight, sixteen, long = (in_order(steps=n, hidden=size, input=size)[0] for n in (8, 16, 1024))
    assert long - sixteen == pytest.approx(126 * (sixteen - eight), rel=1e-9)
    _, report = in_order(steps=1024, hidden=size, input=size)
    assert all(op.peak_used <= 1 for op in report.ops)


def test_what_issues_in_order_adds_up_and_what_runs_ahead_overlaps():
    """The same units and depths: a step in order is no shorter than the longest of its work and its dependence."""
    engine = Engine.of(default_catalog().device("stratix-10-nx-npu-rtl"))
    for cell in CELLS:
        for hidden in (40, 512, 2000):
            steps = [sequence_cycles(cell, engine, hidden, hidden, hidden, n) for n in (10, 11)]
            gates = {"rnn": 1, "lstm": 4}.get(cell, 3)
            assert steps[1] - steps[0] >= max(
                floor_cycles(cell, engine.pipe), 2 * gates * engine.product(1, hidden, hidden)
            )


NPUS = ("brainwave-s10", "brainwave-s10-pre", SYSTEM, "brainwave-a10", "brainwave-sv", "npu-rtl")
INSTANCES = [
    (system, format)
    for system in NPUS
    for format in family("npu").formats(bind(default_scenario(system, "gemv-512")).device)
]


@each("workload", ["deepbench-gru-512", "deepbench-lstm-2048", "mlp-121m", "resnet50", "tp1-lstm"])
@each("system", NPUS)
def test_a_wider_format_is_never_faster(system, workload):
    base = default_scenario(system, workload, devices=1, scheme="single")
    formats = sorted((f for s, f in INSTANCES if s == system), key=lambda f: stored_bits(bind(base).device, f))
    times = [evaluate(base.with_(precision=format)).latency_s for format in formats]
    assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(times))


@pytest.mark.parametrize("system", NPUS)
def test_a_verdict_names_memory_on_chip_where_it_feeds_the_engines(system):
    """A tenth more of it saves what is said, and the rows of its products are booked to it."""
    slow = ["devices.0.memory.m20k.bandwidth=5 GB/s"]
    base = apply_all(default_scenario(system, "deepbench-gru-512", devices=1, scheme="single"), slow)
    now = evaluate(base)
    assert now.limited_by == "on-chip memory"
    assert now.breakdown["onchip"] > 0.8 * now.latency_s
    said = float(now.verdict.split("cuts latency by ")[1].split("%")[0]) / 100
    more = evaluate(apply_all(base, ["devices.0.memory.m20k.bandwidth=5.5556 GB/s"]))
    assert 1 - more.latency_s / now.latency_s == pytest.approx(said, abs=0.006)
    busy = {bar.unit: bar.duration_s for bar in now.timeline}
    assert busy["on-chip memory"] > 100 * busy["matrix-vector unit"]


@pytest.mark.parametrize("workload", ["dlrm-more-complex", "dlrm-less-complex", "xlm-r-large"])
def test_tables_on_the_host_take_room_there(workload):
    """Whose memory is an assumed figure that a scenario may set; a table of no size was told to fit."""
    base = default_scenario("brainwave-s10", workload, devices=1, scheme="single")
    row = next(row for row in evaluate(base).memory if row.level == "host-dram")
    ops = default_zoo().graph(workload).phases[0].ops
    assert row.need_bytes == 2 * sum(op.stored * op.layers for op in ops if op.kind in ("Gather", "EmbeddingBag"))
    assert evaluate(apply_all(base, [f"model.host_memory={row.need_bytes}"])).fits
    short = evaluate(apply_all(base, [f"model.host_memory={0.9 * row.need_bytes}"]))
    assert not short.fits
    assert "host-DRAM" in short.verdict


@pytest.mark.parametrize("system", NPUS)
def test_a_scenario_may_name_the_price_that_no_list_has(system):
    base = default_scenario(system, "gemv-512")
    for asked in ("5,000 USD", "5000"):
        report = evaluate(apply_all(base, [f"devices.0.price={asked}"]))
        assert report.capex_usd == 5000 * report.devices_used
        assert report.usd_per_million > 0
    assert evaluate(base).capex_usd is None
    with pytest.raises(ScenarioError, match=r"devices\.0\.price = 5 W"):
        evaluate(apply_all(base, ["devices.0.price=5 W"]))


def test_streams_are_refused_with_the_reason():
    for system, workload, why in ((SYSTEM, "gemv-512", "single-threaded"), ("dfx-u280", "gpt2-345m", "the whole core")):
        with pytest.raises(ScenarioError, match=f"streams is 2: .* runs at most 1 at once, as .*{why}"):
            evaluate(default_scenario(system, workload).with_(streams=2))


@pytest.mark.parametrize("hidden", [4000, 5000, 7000])
def test_what_overflows_is_told_with_the_devices_that_would_hold_it(hidden):
    base = default_scenario("brainwave-s10", "deepbench-gru-1024", devices=1, scheme="single")
    base = base.with_(params={"hidden": hidden, "input": hidden})
    now = evaluate(base)
    need = next(row.need_bytes for row in now.memory if row.level == "m20k")
    assert f"Overflows M20K: {need / 1e6:.2f} of 30.00 MB per device; the rest streams from DRAM." in now.verdict
    assert " fit, " not in now.verdict
    count = int(now.verdict.split(" devices would hold it")[0].split()[-1])
    times = float(now.verdict.split("answer ")[1].split(" times")[0])
    enough = evaluate(base.with_(devices=count, scheme="pinned"))
    assert enough.breakdown["offchip"] == 0
    assert now.latency_s / enough.latency_s == pytest.approx(times, rel=0.01)
    bars = {}
    for bar in now.timeline:
        bars[bar.unit] = max(bars.get(bar.unit, 0.0), bar.start_s + bar.duration_s)
    assert max(bars, key=lambda unit: bars[unit]) == "DRAM"
    assert sum(b.duration_s for b in now.timeline if b.unit == "DRAM") > 0.98 * now.latency_s / base.inputs


def test_more_bits_of_mantissa_take_room_and_rate():
    """Wider block formats than the instance's own: fewer engines fit, a weight takes a bit more, no step is faster."""
    base = default_scenario("brainwave-s10-pre", "gru-3200x2400", devices=1, scheme="single", inputs=10)
    large = ["devices.0.memory.m20k.capacity=100 MB"]
    reports = [evaluate(apply_all(base.with_(precision=f"ms-fp{n}"), large)) for n in (8, 9, 10, 11)]
    peaks = [r.roofline.peak_flops_per_s for r in reports]
    times = [r.latency_s for r in reports]
    pinned_bytes = [next(row.need_bytes for row in r.memory if row.role == "onchip") for r in reports]
    assert peaks[0] == 48e12
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] > peaks[1] > peaks[3]
    assert times == sorted(times)
    assert all(b - a == pytest.approx(pinned_bytes[0] / 3, rel=0.01) for a, b in itertools.pairwise(pinned_bytes))
    assert any("the part holds 3 of the instance's 5 tile engines" in a.text for a in reports[1].assumptions)
    fine = apply_all(base, ["devices.0.npu.block=10"])
    assert stored_bits(bind(fine).device, "ms-fp8") == pytest.approx(3.5, abs=0.02)


def test_batches_are_served_one_request_after_the_other():
    one, four = (
        evaluate(default_scenario(SYSTEM, "deepbench-gru-1024", devices=1, scheme="single", batch=b)) for b in (1, 4)
    )
    inside = [r.latency_s - r.breakdown["links"] for r in (one, four)]
    assert inside[1] == pytest.approx(4 * inside[0], rel=1e-6)


def test_operators_without_an_instruction_go_to_the_host_and_are_named():
    report = evaluate(default_scenario("brainwave-s10", "xlm-r-large", devices=1, scheme="single"))
    assert report.breakdown["host"] > 0
    assert any("softmax" in a.text for a in report.assumptions)


def test_binary_networks_are_refused_in_one_sentence():
    reason = family("npu").supports(DEVICE, default_zoo().graph("binary-fc-4096"), "ms-fp8")
    assert reason is not None
    assert reason.endswith(".")


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
        each = np.array(times.stage_s)
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
    ahead, behind = times.stage_s
    expected = max(ahead, behind) + min(ahead, behind) / steps + sum(seconds for _, seconds in times.hops)
    assert times.latency_s == pytest.approx(expected, rel=1e-9)
    if steps > 1:
        assert evaluate(base).latency_s < 1.001 * evaluate(base.with_(devices=1)).latency_s


def test_states_nobody_reads_do_not_cross():
    """Copies of the last layer on two devices: only the final states meet; below another layer every step's do."""
    base = default_scenario("brainwave-s10", "tp1-lstm", devices=2, scheme="pinned", inputs=400)
    times = divided(base.with_(params={"layers": 2}))
    other = {name: seconds for name, _, seconds in times.priced[0].runs[0].cost.other}
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


@pytest.mark.parametrize("hidden", [64, 600])
def test_cells_of_onnx_files_are_priced_by_their_own_programs(tmp_path, hidden):
    """A file of one request and 100 steps: no cell beats the peak, and one with more products takes longer."""
    cells = {
        "rnn": ("RNN", 1, {}),
        "gru": ("GRU", 3, {"linear_before_reset": 1}),
        "gru-first": ("GRU", 3, {}),
        "lstm": ("LSTM", 4, {}),
    }
    for name, (kind, gates, more) in cells.items():
        weights = {w: np.zeros((1, gates * hidden, hidden), np.float32) for w in "wr"}
        cell = node(kind, ["x", "w", "r"], ["y"], name="cell", hidden_size=hidden, **more)
        data = model([cell], [("x", FLOAT, [100, 1, hidden])], [("y", FLOAT, None)], weights)
        (tmp_path / f"{name}.onnx").write_bytes(data)
    zoo, base, took = Zoo().with_guest(tmp_path), default_scenario(SYSTEM, "deepbench-gru-1024"), {}
    for name in cells:
        report = evaluate(base.with_(workload=name, devices=1, scheme="single", inputs=1), zoo=zoo)
        work = 2.0 * zoo.graph(name).parameters * 100
        assert sum(op.flops for op in report.ops if "put" in op.name or "recurrent" in op.name) == work
        assert report.latency_s > work / report.roofline.peak_flops_per_s
        took[name] = report.latency_s
    assert took["rnn"] < took["gru"] <= took["gru-first"]
    assert took["rnn"] < took["lstm"]
    if hidden == 64:  # nothing but the dependence: a second product in a row nearly doubles it
        assert 1.5 < took["gru-first"] / took["gru"] < 2


def test_an_instance_without_depths_borrows_them_and_says_so():
    npu = DEVICE.npu.model_copy(update={"depths": {}})
    bare = DEVICE.model_copy(update={"npu": npu})
    assert Engine.of(bare) == ENGINE


SYSTEMS = ("brainwave-s10-isca18", "brainwave-s10", "brainwave-a10", "brainwave-sv")
SIZES = (1, 100, 513, 1024, 2816)


def recurrent(system, cell="gru", steps=50, settings_=(), **params):
    base = default_scenario(system, f"deepbench-{cell}-512", devices=1, scheme="single", inputs=steps)
    return evaluate(apply_all(base.with_(params=params), [*settings_, *LARGE]))


@each("system", SYSTEMS)
@each("cell", ["gru", "lstm"])
@each("hidden", SIZES)
def test_any_size_obeys_its_bounds(system, cell, hidden):
    report = recurrent(system, cell, hidden=hidden, input=max(1, hidden - 413))
    flops = sum(op.flops for op in report.ops)
    device = default_catalog().device(default_catalog().system(system).devices[0].device)
    engine = Engine.of(device)
    least = 50 * floor_cycles(cell, engine.pipe) / engine.clock
    assert report.latency_s >= flops / report.roofline.peak_flops_per_s
    assert report.latency_s >= least
    if not report.breakdown[
        "offchip"
    ]:  # pinned: no step takes longer than its work and its dependence one after the other
        work = (
            50 * (4 if cell == "lstm" else 3) * (engine.product(1, hidden, hidden) + engine.product(1, hidden, hidden))
        )
        vectors = 50 * 12 * engine.vectors(hidden) * engine.vector_beats
        assert report.latency_s < least + (work + vectors) / engine.clock + 30e-6


def test_time_is_linear_in_steps_from_one_to_fifteen_hundred():
    one, many, most = (recurrent(SYSTEM, steps=n, hidden=513, input=100).latency_s for n in (1, 750, 1500))
    step = (most - many) / 750
    assert many - one == pytest.approx(749 * step, rel=1e-6)
    assert 0 < one - step < 20e-6  # what a sequence costs once


@pytest.mark.parametrize("hidden", [100, 513, 2816])
def test_directions_and_stacked_layers_add_up(hidden):
    one, both, deep = (
        recurrent(
            SYSTEM, "lstm", hidden=hidden, input=hidden, settings_=["devices.0.memory.m20k.capacity=1 GB"], **more
        )
        for more in ({}, {"directions": 2}, {"layers": 3})
    )
    inside = [r.latency_s - r.breakdown["links"] for r in (one, both, deep)]
    assert inside[1] == pytest.approx(2 * inside[0], rel=0.02)  # one after the other
    assert inside[2] == pytest.approx(3 * inside[0], rel=0.02)


@pytest.mark.parametrize(
    "path", ["lanes=7", "lanes=399", "native_dim=401", "native_dim=1", "tiles=1", "tiles=100", "mfus=1"]
)
def test_odd_instances_stay_between_their_bounds(path):
    report = recurrent(SYSTEM, hidden=513, input=100, settings_=[f"system.devices.0.npu.{path}"])
    flops = sum(op.flops for op in report.ops)
    assert flops / report.roofline.peak_flops_per_s <= report.latency_s < 1.0
    assert all(op.peak_used <= 1 + 1e-9 for op in report.ops)
    assert sum(report.breakdown.values()) == pytest.approx(report.latency_s)


def test_a_sum_and_an_activation_behind_a_product_share_one_pass():
    report = evaluate(default_scenario("brainwave-a10", "resnet50"))
    seconds = {op.name: op.time_s for op in report.ops}
    rides = [seconds[name] for name in seconds if name.endswith("-add-relu")]
    assert rides
    assert not any(rides)
    assert all(seconds[name] > 0 for name in ("s1b1-add", "conv1-relu"))  # the units are slower than the engines there


@pytest.mark.parametrize("mfus", [1, 2, 3])
def test_passes_take_the_slowest_of_each_and_then_the_next(mfus):
    passes = Passes(mfus)
    steps = [(("add",), 10.0), (("relu",), 30.0), (("add",), 20.0), (("mul", "add"), 5.0), ((), 7.0)]
    took = [passes.add(*step) for step in steps]
    expected = {1: [10, 30, 50, 55, 57], 2: [10, 30, 30, 35, 37], 3: [10, 30, 30, 30, 30]}
    assert took == expected[mfus]


@pytest.mark.parametrize("workload", ["deepbench-gru-2816", "mlp-121m"])
def test_a_microservice_spread_over_a_pod_or_the_datacenter_waits_for_its_switches(workload):
    """Same rack, same pod, across the datacenter: one, three and five switches of 2 us; a pipeline's rate stays."""
    base = default_scenario("brainwave-s10-isca18", workload, devices=4, scheme="pinned")
    rack, pod, datacenter = (evaluate(apply_all(base, [f"links.network.hops={n}"])) for n in (1, 3, 5))
    assert rack.latency_s == evaluate(base).latency_s
    near, far = pod.latency_s - rack.latency_s, datacenter.latency_s - pod.latency_s
    assert near == pytest.approx(far, rel=1e-9)
    crossings = near / (2 * 2e-6)
    assert crossings == pytest.approx(round(crossings), rel=1e-6)
    assert round(crossings) >= 2  # the request in, the answer out
    assert datacenter.throughput_per_s <= rack.throughput_per_s * (1 + 1e-12)


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(CELLS)), st.integers(1, 2000), st.integers(1, 64))
def test_a_step_in_order_grows_with_the_state_by_no_more_than_its_passes(cell, hidden, more):
    """No cliff that native tiles and vectors do not make: what a wider state adds is product, and streamed vectors."""
    engine = Engine.of(default_catalog().device("stratix-10-nx-npu-rtl"))

    def step(n):
        ten, eleven = (sequence_cycles(cell, engine, n, n, n, steps) for steps in (30, 31))
        return eleven - ten

    wide = hidden + more
    products = sum(bool(chain.matrix) for chain in CELLS_IN_ORDER[cell])
    passes = products * (engine.product(1, wide, wide) - engine.product(1, hidden, hidden))
    vectors = (engine.vectors(wide) - engine.vectors(hidden)) * engine.vector_beats
    streams = sum(len(chain.ops) + 2 for chain in CELLS_IN_ORDER[cell])
    assert 0 <= step(wide) - step(hidden) <= passes + streams * vectors


@pytest.mark.parametrize("hidden", [64, 512, 1152])
@pytest.mark.parametrize("cell", sorted(CELLS))
def test_any_length_and_any_batch_in_order_cost_whole_steps_and_whole_passes(cell, hidden):
    """Time is linear in steps from the few that fill the units on, and in batches of all lanes of all cores."""
    engine = Engine.of(default_catalog().device("stratix-10-nx-npu-rtl"))
    found = [sequence_cycles(cell, engine, hidden, hidden, hidden, n) for n in (1, 2, 3, 17, 18, 100, 1500)]
    each = found[4] - found[3]
    assert found == sorted(found)
    assert found[5:] == pytest.approx([found[4] + 82 * each, found[4] + 1482 * each], rel=1e-12)
    assert each <= found[0] <= 2 * each
    base = default_scenario("npu-rtl", "deepbench-gru-512", devices=1, scheme="single", precision="int8", inputs=20)
    held = [evaluate(base.with_(batch=b)) for b in range(1, 20)]
    inside = [r.latency_s - r.breakdown["links"] for r in held]
    assert inside == pytest.approx([inside[0] * -(-b // 6) for b in range(1, 20)], rel=1e-9)
