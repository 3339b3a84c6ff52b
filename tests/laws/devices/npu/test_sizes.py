"""Laws of an NPU at any size of cell, length and batch: bounds, linear in steps, passes that add up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.devices.npu.chains import CELLS, CELLS_IN_ORDER, Passes, floor_cycles
from engine.devices.npu.instance import Engine
from engine.devices.npu.timing import sequence_cycles
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario.overrides import apply_all
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import Zoo
from tests.catalog.onnx_files import FLOAT, model, node
from tests.each import each
from tests.effort import examples
from tests.laws.devices.npu.test_instance import DEVICE, ENGINE, LARGE, SYSTEM


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
    zoo, base, took = Zoo(guests=(tmp_path,)), default_scenario(SYSTEM, "deepbench-gru-1024"), {}
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
