"""Laws of one NPU: floors of dependent steps, formats and widths, what is pinned and what spills."""

import gc
import itertools
import weakref
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cost.assumptions import _of_file
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.devices.npu.chains import CELLS, cut, floor_cycles, pass_cycles
from engine.devices.npu.density import densities, fabric
from engine.devices.npu.instance import Engine
from engine.devices.npu.pinning import stored_bits
from engine.devices.npu.timing import sequence_cycles
from engine.evaluate import evaluate
from engine.resolve.bind import bind, named
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from engine.scenario.overrides import apply_all
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each
from tests.effort import examples

SYSTEM = "brainwave-s10-isca18"
DEVICE = default_catalog().device("stratix-10-280-brainwave-isca18")
ENGINE = Engine.of(DEVICE)


def test_what_is_remembered_of_a_device_goes_with_it():
    """Up to 2,048 devices, each of its own what-ifs, were kept for what their parts hold and what they assume."""
    devices = [DEVICE.model_copy() for _ in range(5)]
    kept = [weakref.ref(device) for device in devices]
    assert all(densities(device) is densities(device) and _of_file(device) is _of_file(device) for device in devices)
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


@each("batch", [1, 4, 12])
def test_cores_without_a_request_read_no_weights(batch):
    """Eight cores took twice as long as two for a request that one of them answers."""
    scenario = default_scenario("npu-rtl", "deepbench-gru-1536", batch=batch)
    times = [evaluate(scenario.with_(overrides={"devices.0.npu.cores": cores})).latency_s for cores in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
    assert times[2] == times[3]
