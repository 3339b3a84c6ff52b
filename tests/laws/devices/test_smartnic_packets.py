"""A SmartNIC that forwards while it infers: packets and inferences share issue slots, ports and islands."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analyses.edge import forwarding, host_and_nic, inference_on, nic_of
from engine.devices.smartnic import family, layer, slots
from engine.evaluate import evaluate
from engine.resolve.bind import named
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import default_catalog
from tests.effort import examples
from tests.laws.devices.test_smartnic import MODEL, NIC, job, small, turned


def test_forwarding_keeps_line_rate_from_512_bytes_on_and_drops_below():
    spec = default_catalog().device(NIC)
    line = 10e9
    threads = slots.infers(spec, 256, MODEL)
    least, rates = slots.beside(spec, family.PACKETS, threads, 0.0, 1.0, MODEL)
    assert rates[3:] == pytest.approx([line] * 3)
    assert rates[0] < 0.5 * line
    assert list(rates) == sorted(rates)
    around = slots.beside(spec, (least - 1, least), threads, 0.0, 1.0, MODEL)[1]
    assert around[0] < line == pytest.approx(around[1])
    budgets = [slots.slots_left(spec, slots.infers(spec, e, MODEL), 1.0) for e in (0, 64, 256, 360, 480)]
    assert budgets == sorted(budgets, reverse=True)
    assert budgets[0] == pytest.approx(60 * 800e6)
    assert budgets[-1] == 0.0


def test_line_rate_falls_with_what_executors_issue():
    """Five loads of inference: more of it never forwards more, and full load less than none below some packet size."""
    spec = default_catalog().device(NIC)
    rates = [forwarding(spec, 360, busy=share).bytes_per_s for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    for less, more in pairwise(rates):
        assert all(a >= b for a, b in zip(less, more, strict=True))
    assert rates[0][0] > 2 * rates[-1][0]
    with pytest.raises(ScenarioError, match=r"^busy is 2; allowed: 0 to 1"):
        forwarding(spec, 360, busy=2)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.tuples(st.integers(1, 480), st.integers(64, 1518)),
    st.integers(1, 480),
    st.integers(1, 8),
    st.floats(0.0, 1e10),
    st.sampled_from(("binary-mlp-traffic", "binary-mlp-mnist")),
    st.booleans(),
    st.booleans(),
)
def test_every_issue_slot_and_port_is_counted_once(tile, streams, threads, offered, workload, whole, pipeline):
    """What inference and packets issue is no more than the engines give, whatever is in flight and however it lies."""
    asked = job(
        tile=tile, workload=workload, threads=threads, streams=streams, offered_traffic=offered, whole=whole,
        pipeline=pipeline,
    )  # fmt: skip
    if pipeline and tile[0] < sum(op.kind == "BinaryGemm" for op in asked.ops):
        return  # refused: test_a_pipeline_wants_an_executor_for_each_layer
    nic, model = asked.device.smartnic, asked.model
    threads_of = slots.threads_of(asked)
    issued = layer.slots_of(asked) * streams / family.price(asked).total_s
    assert issued <= threads_of.engines * nic.clock.si * (1 + 1e-9)
    busy = issued / (threads_of.engines * nic.clock.si)
    passed = slots.forward_rate(asked.device, tile[1], threads_of, model, busy)
    passed = min(passed, slots.arriving(asked.device, tile[1], model))
    assert issued + passed * model["packet_cycles"] <= nic.engines.si * nic.clock.si * (1 + 1e-9)
    assert passed * (tile[1] + slots.PREAMBLE) <= slots.line_rate(asked.device) * (1 + 1e-9)


def test_islands_of_their_own_keep_packets_off_and_the_weights_near():
    """96 threads fill one island of 12 engines: its input is near, the packets lose it and nothing else."""
    spread, whole = (
        small(streams=1, tile=(96, 512), switches={"whole-islands": asked, "weights-near": True})
        for asked in (False, True)
    )
    assert spread.latency_s != whole.latency_s
    passed = [
        slots.forward_rate(asked.device, 64.0, slots.threads_of(asked), asked.model, 1.0)
        for asked in (job(tile=(48, 64)), job(tile=(48, 64), whole=True), job(tile=(480, 64), whole=True))
    ]
    assert passed[0] > passed[1] > passed[2] == 0.0
    ten = {"devices.0.smartnic.islands": 10}
    asked = {"tile": (48, 512), "switches": {"whole-islands": True}}
    assert small(**asked, overrides=ten).latency_s == small(**asked).latency_s  # either fits in one
    asked = job(tile=(48, 64), whole=True)
    assert slots.threads_of(asked).islands == 1


@pytest.mark.parametrize("overrides", [{"devices.0.smartnic.clock": "400 MHz"}, {"model.packet_cycles": 2000}])
def test_forwarding_is_answered_with_the_what_ifs_of_the_report(overrides):
    s = Scenario(system="agilio-cx", workload="binary-fc-4096", precision="binary", overrides=overrides, tile=(256, 64))
    report, nic = evaluate(s), nic_of(s)
    busy = layer.slots_of(job(4096)) / report.latency_s / (43 * nic.smartnic.clock.si)
    (rate,) = forwarding(nic, 256, (64,), named(s).model, busy).bytes_per_s
    assert any(f"{rate * 8e-9:.1f} Gbit/s of 64 B packets pass" in said.text for said in report.assumptions)


@pytest.mark.parametrize(
    "change",
    [
        {"switches": {"whole-islands": True}},
        {"switches": {"pipeline": True}, "streams": 3},
        {"streams": 70},  # six executors each, 420 threads: 480 were named, of which none forwards
        {"tile": (1, 128), "streams": 300, "switches": {"weights-near": True}, "params": {"neurons": 500}},
    ],
    ids=str,
)
def test_forwarding_and_the_host_behind_it_are_of_the_job_that_the_report_prices(change):
    """The page and `ask host-nic` placed executors of their own, whatever a scenario's switches say."""
    fields = {"system": "agilio-cx", "workload": "binary-fc-4096", "precision": "binary", "scheme": "on-path"}
    s = Scenario(**fields | {"tile": (256, 128)} | change)
    report, nic = evaluate(s), nic_of(s)
    asked = inference_on(report, nic)
    issued = layer.slots_of(asked) * s.streams / family.price(asked).total_s
    busy = issued / (slots.threads_of(asked).engines * nic.smartnic.clock.si)
    found = forwarding(nic, asked, (128,), asked.model, busy)
    rate = min(found.bytes_per_s[0], slots.arriving(nic, 128, asked.model) * 148)
    note = f"While {found.executors} executors infer, {rate * 8e-9:.1f} Gbit/s of 128 B packets pass"
    assert any(note in said.text for said in report.assumptions)
    host, _, pair = host_and_nic(s)
    assert pair.throughput_per_s == host.throughput_per_s + report.throughput_per_s
    assert host.throughput_per_s <= forwarding(nic, asked, (512,), asked.model).bytes_per_s[0] / 512


def test_line_rate_is_named_from_the_packet_on_from_which_memory_takes_it_too():
    """Weights of 250 kB in the packet memory of each island leave room for less than line rate, at any size."""
    asked = {"system": "agilio-cx", "workload": "binary-fc-4096", "precision": "binary", "tile": (1, 512)}
    asked |= {"scheme": "on-path", "streams": 300, "switches": {"weights-near": True}}
    nic, sizes = nic_of(Scenario(**asked)), ({"neurons": 500}, {"neurons": 50})
    full, some = (forwarding(nic, inference_on(evaluate(Scenario(**asked, params=n)), nic)) for n in sizes)
    assert max(full.bytes_per_s) < 0.9 * full.line_bytes_per_s
    assert full.drop_bytes is None
    assert some.drop_bytes is not None


def test_inputs_and_weights_share_one_packet_memory():
    """256 kB of weights in each island's 262 kB and 154 kB of inputs beside them were two things that fit."""
    asked = {"system": "agilio-cx", "workload": "binary-fc-4096", "precision": "binary", "scheme": "on-path"}
    near = Scenario(**asked, tile=(1, 512), switches={"weights-near": True}, params={"neurons": 500})
    assert evaluate(near.with_(streams=50)).fits
    report = evaluate(near.with_(streams=300))
    row = next(row for row in report.memory if row.level == "ctm" and row.required)
    assert row.need_bytes == 300 * 4096 / 8
    assert row.capacity_bytes == 5 * (2**18 - 4096 * 500 / 8)
    assert not report.fits
    whole = {"neurons": 4096 * 2}  # 4 MiB of weights fill the memory that results go to
    assert not evaluate(near.with_(params=whole, tile=(256, 512))).fits


def test_packets_take_ports_of_the_memories_they_lie_in_alone():
    """Whole islands leave packets to the others; where both ask a memory's ports, each has its half at least."""

    def rate(whole: bool, offered: float) -> float:
        asked = {
            "system": "agilio-cx",
            "workload": "binary-fc-4096",
            "precision": "binary",
            "params": {"neurons": 1024},
        }
        switches = {"weights-near": True, "whole-islands": whole}
        asked |= {"tile": (40, 1518), "streams": 8, "scheme": "on-path", "switches": switches}
        return evaluate(
            Scenario(**asked, **turned("memories.ctm.width", "1 B", offered_traffic=offered))
        ).throughput_per_s

    assert rate(True, 1e10) == rate(True, 0.0)
    assert rate(False, 1e10) < rate(False, 0.0) <= 2.0 * rate(False, 1e10)
