"""Physics of the SmartNIC family: chain, executors, memories, and a packet path that shares the engines."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analyses.edge import host_and_nic
from engine.devices.common.contract import Unsupported
from engine.devices.common.job import Job
from engine.devices.smartnic import family, layer, slots
from engine.devices.smartnic.memory import WeightPlacement, answer_cycles, home_of, input_cycles
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.effort import examples

NIC = "agilio-cx-2x40"
MODEL = family.FAMILY.model(default_catalog().device(NIC))


def job(
    neurons: int = 4096,
    inputs: int = 4096,
    batch: int = 1,
    tile: tuple[int, ...] = (),
    workload="binary-fc-4096",
    near=False,
    threads=6,
    streams=1,
    **model,
):
    """One binary layer (or a whole binary network) on the NIC."""
    spec = default_catalog().device(NIC)
    overrides = {"inputs": inputs, "neurons": neurons} if workload == "binary-fc-4096" else {}
    graph = default_zoo().graph(workload, overrides)
    phase = graph.phases[0]
    return Job(
        device=spec,
        phase=phase,
        ops=phase.ops,
        graph=graph,
        batch=batch,
        length=1.0,
        context=1.0,
        max_context=1.0,
        ways=1,
        streams=streams,
        format="binary",
        tile=tile,
        switches={
            "network": False,
            "weights-near": near,
            "whole-islands": model.pop("whole", False),
            "pipeline": model.pop("pipeline", False),
        },
        model={**MODEL, "threads_for_inference": float(threads), **model},
    )


def layer_s(inputs: int, neurons: int, executors: int, home=None) -> tuple[float, float]:
    """One layer over so many executors of one inference, weights in the cache before the DRAM."""
    spec = default_catalog().device(NIC)
    return layer.layer_s(spec, inputs, neurons, slots.infers(spec, executors, MODEL), home or home_of(spec, 1.0), MODEL)


def test_latency_is_affine_in_neurons_with_the_chain_as_its_constant():
    """Fixed cost 71.4 us of notifications, 0.1604 us a neuron: the line through the two published ends."""
    at = {n: family.price(job(n)).total_s for n in (2048, 4096, 8192, 16384)}
    slope = (at[16384] - at[2048]) / (16384 - 2048)
    assert slope == pytest.approx(0.1604e-6, rel=0.01)
    assert at[2048] - 2048 * slope == pytest.approx(71.4e-6, rel=0.01)
    assert at[4096] == pytest.approx((2 * at[2048] + at[8192]) / 3, rel=1e-9)  # all of them in the cache


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(32, 20000), st.integers(1, 40000), st.integers(1, 4), st.sampled_from((1, 8, 64, 256, 480)))
def test_no_layer_beats_the_engines(inputs, neurons, batch, executors):
    cost = family.price(job(neurons, inputs, batch, (executors, 512)))
    took = cost.seconds.sum(axis=1)
    assert np.isfinite(took).all()
    assert (cost.flops <= took * cost.peak * (1 + 1e-9)).all()
    assert cost.total_s >= layer.chain_s(default_catalog().device(NIC), executors, MODEL)


def test_more_executors_shorten_the_work_and_lengthen_the_chain():
    spec = default_catalog().device(NIC)
    counts = (1, 8, 32, 64, 128, 256)
    work = [sum(layer_s(4096, 16384, e)) for e in counts]
    chain = [layer.chain_s(spec, e, MODEL) for e in counts]
    assert work == sorted(work, reverse=True)
    assert chain == sorted(chain)
    # threads of one engine share its issue slot: six of them finish no faster together than one after the other
    six, one = (sum(layer_s(4096, n, n)) for n in (6, 1))
    assert six <= 6 * one


def test_weights_lie_in_the_smallest_memory_asked_for_and_spill_to_the_dram_by_size():
    spec = default_catalog().device(NIC)
    at = {
        size: dict(home_of(spec, size * 2.0**20, near=True, islands=5.0).shares) for size in (0.3, 1.2, 3.9, 5, 8, 13)
    }
    assert [list(shares) for shares in at.values()] == [
        ["cls"],
        ["ctm"],
        ["imem"],
        ["emem-cache"],
        ["emem-cache", "emem"],
        ["emem"],
    ]
    assert at[8]["emem"] == pytest.approx(8 / 6 - 1)
    assert dict(home_of(spec, 1.0).shares) == {"emem-cache": 1.0}  # the document keeps nearer memory for packets
    for size in (0.1, 7.0, 20.0):
        assert sum(home_of(spec, size * 2.0**20).shares.values()) == pytest.approx(1)


def test_a_burst_takes_what_its_memory_s_latency_and_width_say():
    spec = default_catalog().device(NIC)
    bursts = {
        name: WeightPlacement({name: 1.0}).cycles(spec, 64) for name in ("cls", "ctm", "imem", "emem-cache", "emem")
    }
    assert bursts == {"cls": 8 * 20, "ctm": 50, "imem": 200, "emem-cache": 200, "emem": 375}
    assert WeightPlacement({"emem-cache": 0.5, "emem": 0.5}).cycles(spec, 64) == pytest.approx((200 + 375) / 2)


def test_a_layer_past_the_cache_slows_by_what_its_threads_do_not_hide():
    """A thread an engine waits for every burst; six hide the waits, as the document's two ends ask."""
    per_neuron = {}
    for executors in (43, 256):
        for neurons in (8192, 32768):  # 4.2 and 16.8 MB: in the cache, and in the DRAM
            cost = family.price(job(neurons, tile=(executors, 512), threads=1 if executors == 43 else 6))
            took = cost.total_s - cost.seconds[:, 5].sum()
            per_neuron[executors, neurons] = took / np.ceil(neurons / executors)
    words, clock = 128, 800e6
    slower = (375 - 200) * words / MODEL["burst_words"] / clock  # a neuron's bursts, each by the difference
    assert per_neuron[43, 32768] - per_neuron[43, 8192] == pytest.approx(slower, rel=0.02)
    assert per_neuron[43, 32768] > 1.15 * per_neuron[43, 8192]
    assert per_neuron[256, 32768] == pytest.approx(per_neuron[256, 8192], rel=0.005)


def test_nearer_weights_help_where_waits_show():
    near, far = (family.price(job(2048, tile=(43, 512), near=asked, threads=1)) for asked in (True, False))
    assert near.total_s < far.total_s
    assert any("CTM" in note for note in near.notes)
    full = [family.price(job(2048, near=asked)).total_s for asked in (True, False)]
    assert full[1] - full[0] == pytest.approx((200 - 50) / 800e6)  # the first burst, from CTM for the cache
    assert any(fit.level == "ctm" and "weights" in fit.holds for fit in family.place(job(2048, near=True)))


def test_an_input_beyond_the_registers_is_read_again_for_every_neuron():
    spec = default_catalog().device(NIC)
    assert input_cycles(spec, 4096, 6, 5) == (800, 0)  # 512 B of 682 B: eight accesses to another island
    assert input_cycles(spec, 4096, 6, 1) == (400, 0)  # and to the own one
    assert input_cycles(spec, 8192, 6, 5) == (0, 1600)
    assert input_cycles(spec, 8192, 4, 5)[1] == 0
    assert answer_cycles(spec, 4096) == 200 + 8 * 200


def test_waits_for_weights_show_only_without_other_threads():
    homes = [WeightPlacement({name: 1.0}) for name in ("ctm", "emem-cache", "emem")]
    alone = [layer_s(4096, 1, 1, home)[1] for home in homes]
    full = [layer_s(4096, 256, 256, home)[1] for home in homes]
    assert alone == sorted(alone)
    assert alone[0] < alone[2]
    assert full[0] <= full[2]


def test_batching_gains_nothing():
    one, many = family.price(job()).total_s, family.price(job(batch=16)).total_s
    assert many == pytest.approx(16 * one, rel=1e-9)


def test_weights_beyond_the_cache_come_from_dram_and_beyond_the_dram_do_not_fit():
    small, large = family.price(job(4096)), family.price(job(16384))
    assert small.onchip.sum() > 0
    assert small.offchip.sum() == 0
    assert large.offchip.sum() > 0
    fits = {f.level: f.fits for f in family.place(job(4096))}
    assert all(fits.values())
    assert family.place(job(16384))[1].fits  # a cache may be smaller than what passes through it
    big = family.place(job(262144, 262144))[0]
    assert not big.fits


def test_memories_of_an_island_are_small_and_near_those_of_the_chip_large_and_far():
    spec = default_catalog().device(NIC)
    nic = spec.smartnic
    order = ("registers", "cls", "ctm", "imem", "emem")
    found = [nic.memory(name) for name in order]
    assert [m.capacity.si for m in found] == sorted(m.capacity.si for m in found)
    assert [m.farthest.si for m in found] == sorted(m.farthest.si for m in found)
    assert [m.per for m in found] == ["engine", "island", "island", "chip", "chip"]
    assert nic.engines.si % nic.islands.si == 0
    for memory in spec.memory:  # the same memory is described twice, for all families and for this one
        assert nic.memory(memory.name).capacity.si == memory.capacity.si
        assert memory.latency is None  # in cycles of the engines, near and far, and nowhere else


def test_a_request_waits_in_one_island_and_results_in_the_shared_memory():
    fits = {f.level: f for f in family.place(job(4096, 4096))}
    assert fits["ctm"].need_bytes == 512
    assert fits["imem"].need_bytes == 512
    assert fits["ctm"].fits
    longer = {f.level: f for f in family.place(job(64, 40_960))}
    assert longer["ctm"].need_bytes == 5120
    assert longer["imem"].need_bytes == 8


def test_only_binary_layers_run_and_the_reason_is_one_sentence():
    spec, zoo = default_catalog().device(NIC), default_zoo()
    assert family.supports(spec, zoo.graph("binary-mlp-mnist"), "binary") is None
    why = family.supports(spec, zoo.graph("alexnet"), "binary")
    assert why is not None
    assert "conv1 is a Conv" in why


def test_three_layers_pay_three_chains():
    cost = family.price(job(workload="binary-mlp-mnist"))
    chains = cost.seconds[:, 5].sum()
    assert chains == pytest.approx(3 * layer.chain_s(default_catalog().device(NIC), 256, MODEL))
    assert sum(s.duration_s for s in cost.timeline) == pytest.approx(cost.total_s, rel=1e-9)


def test_pricing_takes_less_than_a_millisecond():
    j = job(workload="binary-mlp-mnist")
    family.price(j)
    best = []
    for _ in range(20):
        start = time.thread_time()
        family.price(j)
        best.append(time.thread_time() - start)
    assert min(best) < 1e-3


def turned(path: str, value: str | float, **model: float) -> dict[str, object]:
    """A NIC with a figure of its spec or parameters turned, as `scenario` fields."""
    return {"overrides": {f"devices.0.smartnic.{path}": value, **{f"model.{k}": v for k, v in model.items()}}}


def latency(**fields: object) -> float:
    """Of one layer of 2,048 neurons on the NIC, 1 MB of weights. [s]"""
    asked = {"workload": "binary-fc-4096", "precision": "binary", "params": {"neurons": 2048}}
    return evaluate(Scenario(system="agilio-cx", **asked, **fields)).latency_s


@pytest.mark.parametrize("executors", [8, 128, 256, 360])
def test_more_threads_an_engine_are_never_slower_and_too_few_are_refused(executors):
    times = [
        latency(tile=(executors, 512), **turned("threads_per_engine", n, offered_traffic=0.0))
        for n in (6, 7, 8, 12, 16)
    ]
    assert times == sorted(times, reverse=True)
    with pytest.raises(Unsupported, match=r"^model.threads_for_inference is 6: an engine of .* has 4 threads"):
        latency(**turned("threads_per_engine", 4))
    assert latency(**turned("threads_per_engine", 4, threads_for_inference=3)) > 0


def small(**fields: object):
    """Inferences of the 256-32-16-2 network."""
    asked = {"system": "agilio-cx", "workload": "binary-mlp-traffic", "precision": "binary", "scheme": "on-path"}
    return evaluate(Scenario(**asked, **fields))


def test_small_networks_come_out_in_millions_where_each_thread_runs_its_own():
    """274 words of 42.65 cycles over 60 engines bound it at 4.1 M/s; over the executors of a chain it is thousands."""
    bound = 60 * 800e6 / (274 * MODEL["word_cycles"])
    rates = {n: small(streams=n, tile=(1, 512)).throughput_per_s for n in (1, 8, 60, 360, 480)}
    assert list(rates.values()) == sorted(rates.values())
    assert 0.95 * bound < rates[480] <= bound
    assert small().throughput_per_s < 5000
    quiet = small(streams=360, tile=(1, 512), overrides={"model.offered_traffic": 0.0})
    assert rates[360] == pytest.approx(0.75 * quiet.throughput_per_s, rel=0.01)  # packets have two threads of eight
    assert small(streams=480).power_w > small(streams=48).power_w > small().power_w


def test_a_pipeline_is_paced_by_its_slowest_layer():
    asked = {"tile": (8, 512), "switches": {"pipeline": True}}
    one, two, five = (small(streams=n, **asked) for n in (1, 2, 5))
    assert two.throughput_per_s > one.throughput_per_s
    assert five.throughput_per_s == pytest.approx(small(streams=9, **asked).throughput_per_s)
    assert one.latency_s < five.latency_s


def test_a_pipeline_wants_an_executor_for_each_layer():
    with pytest.raises(Unsupported, match=r"^switches.pipeline: .* has 3 layers.*executors is 2"):
        small(tile=(2, 512), switches={"pipeline": True})


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(1, 480))
def test_any_number_of_executors_is_priced(executors):
    assert small(tile=(executors, 700)).latency_s > 0


@pytest.mark.parametrize("tile", [(481, 512), (8, 63)])
def test_numbers_a_nic_has_not_are_refused_in_a_sentence(tile):
    said = r"^tile\.(executors is 481: 1 to 480|packet is 63: 64 to 9000) are allowed"
    with pytest.raises(ScenarioError, match=said):
        small(tile=tile)


def test_too_little_memory_on_the_nic_is_a_sentence():
    asked = {"system": "agilio-cx", "workload": "binary-fc-4096", "precision": "binary", "scheme": "on-path"}
    (problem,) = evaluate(Scenario(**asked, params={"inputs": 262144, "neurons": 131072})).problems
    assert problem.startswith("Does not fit: EMEM on Agilio CX")


@pytest.mark.parametrize(
    ("path", "value", "near"),
    [
        ("memories.emem-cache.nearest", "15 cycle", False),
        ("memories.emem-cache.capacity", "512 KiB", False),
        ("islands", 1, False),
        ("islands", 2, True),
        ("memories.ctm.nearest", "5 cycle", True),
    ],
)
def test_what_the_nic_remembers_with_moves_a_layer_at_all_executors(path, value, near):
    """A layer's first burst hides behind no thread, nor does the way of its input to other islands."""
    switches = {"weights-near": near}
    before, after = latency(switches=switches), latency(switches=switches, **turned(path, value))
    assert before != after
    assert after == pytest.approx(before, rel=0.01)


def test_weights_near_and_wider_bursts_move_a_layer_at_all_executors():
    base = latency()
    assert latency(switches={"weights-near": True}) < base
    assert latency(overrides={"model.burst_words": 32}) > base


def test_a_host_and_its_nic_at_once_are_the_sum_of_both_in_rate_watts_and_price():
    """The document's conclusion: 5% more work for half a percent more power, 3.9% more of it a joule."""
    asked = {"system": "agilio-cx", "workload": "binary-fc-4096", "precision": "binary"}
    host, nic, both = host_and_nic(Scenario(**asked))
    alone = evaluate(PRESETS["bnn-exec-fc"].scenario)
    assert (host.throughput_per_s, host.wall_w) == pytest.approx((alone.throughput_per_s, alone.power_w))
    assert nic.throughput_per_s == evaluate(Scenario(**asked)).throughput_per_s
    assert both.throughput_per_s == host.throughput_per_s + nic.throughput_per_s
    batched = Scenario(**asked, batch=8)
    assert host_and_nic(batched)[1].latency_s == evaluate(batched.with_(scheme="on-path")).latency_s
    assert both.wall_w == pytest.approx(69.4 + host.above_idle_w + nic.above_idle_w)
    assert both.capex_usd == host.capex_usd + nic.capex_usd
    assert 100 * (both.per_watt / host.per_watt - 1) == pytest.approx(3.9, rel=0.1)
    for path, value in (("host.cpu.cores", "8"), ("host.cpu.clock", "5 GHz"), ("model.binary_efficiency", 0.9)):
        better = host_and_nic(Scenario(**asked, overrides={path: value}))  # cores were refused, the others read by none
        assert better[0].throughput_per_s > 1.2 * host.throughput_per_s, path
        assert better[1] == nic
    with pytest.raises(ScenarioError, match="has no network processor before a host"):
        host_and_nic(Scenario(system="xeon-e5-2650", workload="alexnet", precision="fp32"))
