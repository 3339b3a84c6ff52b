"""GPUs: formats of weights alone, exchanges over direct ways or a ring, matmuls of few rows."""

import pytest

from engine import default_scenario, evaluate
from engine.cli.scenario import scenario_of
from hardware_specs import default_catalog


def asked(system: str, workload: str, **fields):
    return evaluate(default_scenario(system, workload, **fields))


def decode(precision: str, **fields):
    return asked("h100-sxm", "llama3.1-8b", precision=precision, inputs=32, outputs=32, **fields)


def test_narrow_weights_speed_up_decoding_by_what_they_no_longer_read():
    wide, half, quarter = decode("fp16"), decode("w8a16"), decode("w4a16")
    assert wide.tpot_s > half.tpot_s > quarter.tpot_s > wide.tpot_s * 4.5 / 16
    held = [r.memory[0].need_bytes for r in (wide, half, quarter)]
    assert held[0] > held[1] > held[2]


def test_narrow_weights_keep_the_state_as_it_was():
    spread = {"inputs": 8192, "outputs": 32, "batch": 64}
    more, less = (asked("h100-sxm", "llama3.1-8b", precision=p, **spread) for p in ("bf16", "w4a16"))
    saved = more.memory[0].need_bytes - less.memory[0].need_bytes
    assert saved == pytest.approx(8.03e9 * (16 - 4.5) / 8, rel=0.05)  # parameters alone


def test_a_collective_takes_fewer_steps_where_every_pair_has_its_own_way():
    """At batch 1 an all-reduce is latency: two steps on a switch, fourteen round a ring of eight."""
    switched = asked("h100-sxm", "llama2-70b", precision="bf16", devices=8, scheme="tensor")
    ring = asked("tpu-v6e", "llama2-70b", precision="bf16", devices=8, scheme="tensor")
    waits = [sum(o.time_s for o in r.other if "all-reduce" in o.name) for r in (switched, ring)]
    assert waits[1] > 3 * waits[0] > 0


def test_a_part_without_matrix_units_does_not_fill_tiles_up():
    """One token on it is bound by reading the weights, however narrow they are."""
    report = asked("apple-m2-ultra", "llama2-7b", precision="w4a16", inputs=1, outputs=64)
    assert report.bound == "offchip"


def test_idle_devices_are_named_and_a_count_alone_picks_a_partition():
    idle = asked("h100-sxm", "llama3.1-8b", devices=8, scheme="single")
    assert any("One of 8 devices works" in a.text for a in idle.assumptions)
    assert scenario_of(None, "h100-sxm", "llama3.1-8b", "8").scheme == "tensor"
    assert scenario_of(None, "h100-sxm", "llama3.1-8b").scheme == "single"


def _measured() -> list[str]:
    parts = ((id, default_catalog().device(id).gpu) for id in default_catalog().ids("devices"))
    return [id for id, gpu in parts if gpu is not None and gpu.achieved_peak]


@pytest.mark.parametrize("id", _measured())
def test_a_what_if_of_the_peak_counts_where_a_matmul_was_measured(id):
    """The share that was reached is kept, so twice the peak multiplies twice as fast."""
    device = default_catalog().device(id)
    for format in {*device.gpu.achieved_peak, *device.peak}:
        usual = default_scenario(id, "llama3.1-8b").with_(precision=format, batch=1, inputs=4096, outputs=1)
        more = usual.with_(  # at the board's limit a faster part that draws no more would be no faster
            overrides={
                f"devices.0.peak.{format}": 2 * device.peak[format].si,
                "devices.0.power.max": 2 * device.power.max.si,
            }
        )
        usual, more = evaluate(usual), evaluate(more)
        assert more.latency_s < 0.95 * usual.latency_s, format
        compute = [r.breakdown["compute"] for r in (usual, more)]
        assert compute[0] >= compute[1]


def test_a_part_s_own_measured_share_stands_in_for_formats_without_one():
    """MI300X was measured at 51% in bf16; nothing says that fp8 gets more of its peak."""
    reports = {
        f: evaluate(default_scenario("mi300x", "llama3.1-8b").with_(precision=f, inputs=4096, outputs=1))
        for f in ("bf16", "fp8")
    }
    device = default_catalog().device("mi300x")
    share = device.gpu.achieved_peak["bf16"].si / device.peak["bf16"].si
    for report in reports.values():
        products = [op for op in report.ops if op.name == "gate-up"]
        assert products
        assert all(op.peak_used <= share * (1 + 1e-9) for op in products)


def test_a_load_measured_on_one_kind_of_network_is_not_the_power_of_another():
    """47.5 W is a V100 that waits for its host between tokens; a batch of images fills it up to the board's limit."""
    tokens, images = asked("v100-appliance", "gpt2-1.5b"), asked("v100-appliance", "resnet50", batch=128)
    assert tokens.power_w / tokens.devices_used == pytest.approx(47.5)
    assert images.power_w / images.devices_used == pytest.approx(300.0)


def test_a_captured_convolution_takes_more_than_a_node_s_gap():
    """Its pipeline fills, its last tiles are stored: a batch of one image is mostly that."""
    report = asked("a100-sxm-80gb", "resnet50", batch=1)
    starts = [op.time_s for op in report.ops if op.kind == "Conv"]
    assert min(starts) > 1.4e-6
    assert sum(starts) / len(starts) > 2e-6


def test_layout_costs_nothing_in_a_compiled_graph():
    def moved(fuse: bool):
        base = default_scenario("a100-sxm-80gb", "dlrm-mlperf-v1", batch=4096)
        report = evaluate(base.with_(switches=base.switches | {"fuse": fuse}))
        return sum(op.time_s for op in report.ops if op.kind in ("Concat", "Transpose"))

    assert moved(True) == 0 < moved(False)
