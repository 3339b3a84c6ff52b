"""A SmartNIC that forwards while it infers: packets and inferences share issue slots, ports and islands."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analyses.edge import forwarding, nic_of
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
    least, rates = slots.beside(spec, family.PACKETS, 256, 1.0, MODEL)
    assert rates[3:] == pytest.approx([line] * 3)
    assert rates[0] < 0.5 * line
    assert list(rates) == sorted(rates)
    around = slots.beside(spec, (least * 0.9, least * 1.01), 256, 1.0, MODEL)[1]
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
