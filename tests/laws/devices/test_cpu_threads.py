"""Threads as people set them on a CPU: what two threads of a core gain from one another, and what they share."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from engine.cli.main import main
from engine.devices.cpu import family
from engine.devices.cpu.record import record
from engine.devices.cpu.share import R
from engine.devices.cpu.streams import BUSY
from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario
from engine.scenario import ScenarioError, decode, encode
from hardware_specs.catalog import default_catalog
from tests.each import each
from tests.laws.devices.test_cpu import NETS, job, quantity

XEON = default_catalog().device("xeon-8280l")
STEADY = quantity(XEON, "cpu.turbo", 2.4e9)  # no faster on one core than on all


def hyper(device, net: str, **changes):
    base = job(device, net, **changes)
    return replace(base, model=base.model | {"threads_per_core": 2.0})


def roomy(spec, times: float):
    """The part with so many times the cache that a core has of its own and all share."""
    at = [i for i, level in enumerate(spec.memory) if level.role == "onchip"]
    for i in at:
        spec = quantity(spec, f"memory.{i}.capacity", times * spec.memory[i].capacity.si)
    return spec


@pytest.mark.parametrize("net", NETS)
def test_two_threads_of_a_core_hide_waits_at_the_odds_that_one_computes(net):
    """Bare kernels in caches that hold two batches as well as one: the queue of two, written out op by op."""
    for batch in (1, 32):
        bare = {s.name: s.default for s in family.FAMILY.switches} | {"framework": False}
        fields = {"batch": batch, "switches": bare}
        one = family._columns(job(roomy(XEON, 1e6), net, streams=28, **fields))
        two = family.price(hyper(roomy(XEON, 1e6), net, streams=56, **fields)).seconds
        whole, compute = one[:, :3].sum(axis=1), one[:, BUSY]  # beneath waits too, which no other thread hides again
        waits = whole - compute
        took = two[:, :3].sum(axis=1)
        assert np.allclose(two[:, 0], 2 * one[:, 0], rtol=1e-9)
        assert (took <= 2 * whole * (1 + 1e-9)).all()
        assert (took >= 2 * compute * (1 - 1e-9)).all()
        met = compute * (1 + compute / np.maximum(whole, 1e-30))
        queue = met + waits * (1 + waits / np.maximum(whole, 1e-30))
        assert (took >= queue * (1 - 1e-9)).all()  # what crosses a level while a core computes can't be hidden twice
        hidden = np.isclose(took, queue, rtol=1e-9)
        assert hidden[waits < 1e-3 * compute].all()  # vector work alone gains nothing


@pytest.mark.parametrize("format", ["fp32", "w4a16"])
@pytest.mark.parametrize("net", ["bert-base", "vit-b16", "alexnet"])
def test_hyper_threads_never_gain_from_slower_memory(net, format):
    """What lay beneath a product already was hidden once more: half the bandwidth made BERT 1.2% faster."""
    for batch in (1, 4, 32):
        rates = (1e12, 500e9, 250e9, 131e9, 60e9)
        parts = (quantity(XEON, "memory.0.bandwidth", rate) for rate in rates)
        took = [family.price(hyper(part, net, batch=batch, streams=7, format=format)).total_s for part in parts]
        assert all(fast <= slow * (1 + 1e-9) for fast, slow in pairwise(took)), (batch, took)


def test_a_gather_gains_from_hyper_threads_and_a_product_does_not():
    gain = {}
    for name in ("dlrm-less-complex", "resnet50"):
        base = default_scenario("xeon-8280l", name, streams=28)
        gain[name] = evaluate(base.with_(threads_per_core=2)).throughput_per_s / evaluate(base).throughput_per_s
    assert gain["dlrm-less-complex"] > 1.05
    assert 1.0 <= gain["resnet50"] < 1.05


def test_caches_are_shared_so_twice_the_batches_may_be_slower():
    base = default_scenario("xeon-8280l", "dlrm-less-complex", streams=28, threads_per_core=2)
    more = evaluate(base.with_(streams=56))
    assert more.throughput_per_s < evaluate(base).throughput_per_s


@each("net, streams", [(net, streams) for net in NETS for streams in (1, 14, 28)])
def test_fitted_threads_leave_siblings_idle_where_they_are_no_use(net, streams):
    one = family.price(job("xeon-8280l", net, batch=8, streams=streams)).total_s
    assert family.price(hyper("xeon-8280l", net, batch=8, streams=streams)).total_s <= one * (1 + 1e-9)


PAIR = "xeon-e5-2650-pair-qpi"
PAIRS = PAIR, "xeon-8280l-pair"


def schedule(base, executors: int) -> float:
    """Makespan of a pass's operators by hand: each on the executor that is idle for the shortest time before it."""
    cost = family.price(base).seconds.sum(axis=1)
    ends, free = {}, [0.0] * executors
    for op, took in zip(base.ops, cost, strict=True):
        ready = max([ends.get(name, 0.0) for name in op.inputs], default=0.0)
        chosen = max([time for time in free if time <= ready], default=min(free))
        free.remove(chosen)
        ends[op.name] = max(chosen, ready) + took
        free.append(ends[op.name])
    return max(ends.values())


@each("net, executors", [(net, n) for net in (*NETS, "googlenet") for n in (2, 4)])
def test_operators_side_by_side_take_as_long_as_their_schedule(net, executors):
    one = job(STEADY, net, batch=8, tile=(7,))
    several = replace(one, model=one.model | {"inter_op": float(executors)})
    took, alone = family.price(several), family.price(one)
    wall = took.seconds.sum()
    assert wall <= alone.seconds.sum() * (1 + 1e-9)
    moved = alone.offchip.sum() / (XEON.memory[0].bandwidth.si * one.model["dram_efficiency"])
    assert wall == pytest.approx(max(schedule(one, executors), moved), rel=1e-9)


@pytest.mark.parametrize("net", ["deepbench-gru-512", "googlenet", "inception-v3"])
def test_an_operator_beside_others_lasts_no_less_than_alone_and_keeps_its_roof(net):
    """A recurrent product that ran beside its input's was said to reach 1,331 times the peak."""
    base = default_scenario(
        "xeon-8280l", net, batch=8, precision="fp32", tile=(7,), overrides={"devices.0.cpu.turbo": "2.4 GHz"}
    )
    alone, beside = (evaluate(base.with_(inter_op_threads=count)).ops for count in (None, 3))
    hidden = 0
    for one, other in zip(alone, beside, strict=True):
        assert one.duration_s == one.time_s
        assert other.duration_s >= max(other.time_s, one.time_s) * (1 - 1e-9)
        assert other.peak_used <= 1.0 + 1e-9, other.name
        if other.counters and other.time_s > 0:
            assert sum(v for name, v in other.counters.items() if name.endswith("_share")) == pytest.approx(1.0)
            assert other.counters["retiring_share"] <= one.counters["retiring_share"] * (1 + 1e-9)
        hidden += other.time_s < 0.5 * one.time_s
    assert hidden


def test_a_chain_gains_nothing_from_inter_op_threads_and_branches_do():
    gain = {}
    for net in ("mlp-121m", "googlenet", "wide-deep-criteo"):
        one = job(STEADY, net, batch=64, tile=(7,))
        several = replace(one, model=one.model | {"inter_op": 2.0})
        gain[net] = family.price(one).total_s / family.price(several).total_s
    assert gain["mlp-121m"] == 1.0
    assert gain["wide-deep-criteo"] > 1.0
    assert gain["googlenet"] > 1.1


@each("pair, net", [(pair, net) for pair in PAIRS for net in NETS])
def test_memory_of_the_other_socket_is_never_faster_and_goes_by_the_link(pair, net):
    base = default_scenario(pair, net, scheme="single")
    local, interleaved, remote = (evaluate(base.with_(numa=where)) for where in (None, "interleaved", "remote"))
    assert local.latency_s <= interleaved.latency_s <= remote.latency_s
    assert evaluate(base.with_(numa="local")).latency_s == local.latency_s


@pytest.mark.parametrize(("pair", "alone"), [(PAIRS[0], "xeon-e5-2650"), (PAIRS[1], "xeon-8280l")])
@pytest.mark.parametrize("net", ["resnet50", "mlp-121m"])
def test_a_copy_on_each_socket_is_twice_one_socket(pair, alone, net):
    """A machine of two sockets was priced with one of them at work, whatever was asked of it."""
    one, both = (evaluate(default_scenario(id, net, precision="fp32", scheme=how)) for id, how in (
        (alone, "single"), (pair, "replicas"),
    ))  # fmt: skip
    assert both.latency_s == one.latency_s
    for figure in ("throughput_per_s", "power_w", "capex_usd", "devices_used"):
        assert getattr(both, figure) == pytest.approx(2 * getattr(one, figure)), figure


@pytest.mark.parametrize("net", ["resnet50", "bert-base", "wide-deep-criteo"])
@pytest.mark.parametrize("batch", [1, 64, 512])
def test_a_network_over_both_sockets_pays_for_the_link_between_them(net, batch):
    fields = {"batch": batch, "precision": "int8"}
    one = evaluate(default_scenario("xeon-8280l", net, **fields))
    base = default_scenario(PAIRS[1], net, scheme="tensor", **fields)
    both, quick = (evaluate(base.with_(overrides=change)) for change in ({}, {"links.peer.bandwidth": "1 TB/s"}))
    assert both.breakdown["compute"] >= 0.5 * one.breakdown["compute"] * (1 - 1e-9)  # caches of both may hold more
    assert quick.latency_s < both.latency_s
    assert both.breakdown["links"] > 0.0


@pytest.mark.parametrize("pair", PAIRS)
def test_weights_on_the_other_socket_stream_at_the_rate_of_the_link_or_of_lines_in_flight(pair):
    system = default_catalog().system(pair)
    spec, link = default_catalog().device(system.devices[0].device), default_catalog().link(system.links[0].link)
    base = job(spec, "mlp-121m")
    for wire in (link, link.model_copy(update={"latency": link.latency.model_copy(update={"value": "0 s"})})):
        away = replace(base, link=wire, model=base.model | {"remote_pages": 1.0})
        waits = base.model["dram_latency"] / (base.model["dram_latency"] + wire.latency.si)
        dram = spec.memory[0].bandwidth.si * base.model["dram_efficiency"]
        each_core = spec.cpu.core_bandwidth.si if spec.cpu.core_bandwidth else base.model["core_bandwidth"]
        rate = min(dram, wire.usable, spec.cpu.cores.si * each_core * waits)
        cost = family.price(away)
        assert cost.offchip.sum() / cost.seconds[:, 1].sum() == pytest.approx(rate, rel=1e-3)


def test_one_thread_a_core_is_what_was_before_to_the_bit():
    base = default_scenario("xeon-8280l", "wide-deep-criteo", streams=7)
    assert "threads_per_core" not in base.model_dump_json(exclude_none=True)
    assert decode(encode(base.with_(threads_per_core=2))).threads_per_core == 2
    assert choices(base.with_(threads_per_core=2)).max_streams == 56
    assert evaluate(base.with_(threads_per_core=1)).latency_s == evaluate(base).latency_s


@each(
    "changes, said",
    [
        ({"streams": 57, "threads_per_core": 2}, "^streams is 57: Xeon Platinum 8280L runs at most 56 at once$"),
        ({"streams": 29}, "^streams is 29: Xeon Platinum 8280L runs at most 28 at once$"),
        ({"tile": (57,), "threads_per_core": 2}, "^tile.threads is 57: 1 to 56 are allowed$"),
        ({"tile": (29,)}, "^tile.threads is 29: 1 to 28 are allowed$"),
        ({"tile": (0,)}, "^tile.0 is '0': 1 or more is allowed$"),
        ({"tile": (2,), "streams": 1, "overrides": {"devices.0.cpu.cores": 1}}, "^tile.threads is 2: 1 is allowed$"),
        ({"inter_op_threads": 2, "streams": 15}, "^streams is 15: Xeon Platinum 8280L runs at most 14 at once$"),
        ({"inter_op_threads": 2, "tile": (15,)}, "^tile.threads is 15: 1 to 14 are allowed$"),
        ({"inter_op_threads": 57}, "^inter_op_threads is 57; allowed: 1, 2, 3, 4, 6, 8$"),
        (
            {"inter_op_threads": 2, "threads_per_core": 2},
            "no core for each of its threads while threads_per_core is set",
        ),
        ({"numa": "remote"}, "allowed here: local, as Xeon Platinum 8280L has no second socket that it loads from$"),
        ({"system": PAIR, "scheme": "single", "numa": "far"}, "^numa is 'far'; allowed: local, interleaved, remote$"),
        ({"threads_per_core": 3}, "^threads_per_core is 3; allowed: 1, 2$"),
        ({"system": "arm-edge", "threads_per_core": 2}, "allowed here: 1, as .* has no hyper-threads$"),
    ],
)
def test_more_threads_than_a_part_has_are_one_sentence(changes, said):
    base = default_scenario(changes.get("system", "xeon-8280l"), "wide-deep-criteo")
    with pytest.raises(ScenarioError, match=said):
        evaluate(base.with_(**changes))


@pytest.mark.parametrize(
    ("system", "net", "changes", "said", "used"),
    [
        ("xeon-8280l", "resnet50", {"tile": (28,)}, "tile.threads is 28; used: 7, the share of each of 4 streams.", 7),
        (
            "agilio-cx",
            "binary-mlp-mnist",
            {"tile": (256, 256), "scheme": "on-path"},
            "tile.executors is 256; used: 120, the share of each of 4 streams.",
            120,
        ),
    ],
)
def test_a_stream_that_gets_fewer_threads_than_its_tile_says_is_told_so(system, net, changes, said, used):
    """They were clipped to a stream's share in silence, and the report repeated what was asked for."""
    report = evaluate(default_scenario(system, net, streams=4, **changes))
    assert said in report.verdict
    assert report.tile[0][1] == used
    fits = evaluate(report.scenario.with_(tile=(used, *report.scenario.tile[1:])))
    assert "tile." not in fits.verdict
    assert (fits.latency_s, fits.tile) == (report.latency_s, report.tile)


def test_where_issue_slots_go_is_never_below_nothing():
    """What other shares leave was -1e-16 where they leave nothing."""
    for device in ("rk3399-a53", "apple-m1-cpu", "snapdragon-855"):
        for net in ("whisper-large-v3", "minilm-l6-h384", "dlrm-less-complex"):
            for format in ("int8", "w8a16", "w4a16"):
                counters = family.price(job(device, net, format=format)).counters
                assert all((values >= 0.0).all() for values in counters.values()), (device, net, format)


TURBO_PARTS = ("xeon-8280", "xeon-8280l", "xeon-8380", "xeon-8490h")


@each("part, net, streams", [(part, net, n) for part in TURBO_PARTS for net in NETS for n in (1, 4)])
def test_without_turbo_no_core_is_faster_and_a_licence_keeps_its_share(part, net, streams):
    """The firmware's switch: all cores at the base clock, however few of them work; arithmetic slows with it alone."""
    base = default_scenario(part, net, streams=streams, batch=2)
    on, off = evaluate(base), evaluate(base.with_(turbo="off"))
    cpu = default_catalog().device(part).cpu
    least = cpu.base_clock.si / cpu.turbo.si  # of one core's turbo
    assert on.latency_s <= off.latency_s * (1 + 1e-9)
    assert off.latency_s <= on.latency_s / least * (1 + 1e-9)
    usual_model = family.FAMILY.model(default_catalog().device(part))
    for at in ("fp32", "int8"):
        one = record(job(part, net, format=at, tile=(1,), model=usual_model | {"turbo": 0.0}))
        usual = cpu.vector_clock[at].si * cpu.base_clock.si / cpu.clock.si
        assert one[R.low_peak if at == "int8" else R.wide_peak] == pytest.approx(cpu.flop_per_cycle[at].si * usual)
    if on.power_w is not None:
        assert off.power_w <= on.power_w * (1 + 1e-9)


def test_turbo_is_on_where_nothing_is_set_and_a_part_without_a_base_clock_says_so():
    base = default_scenario("xeon-8280l", "wide-deep-criteo")
    assert "turbo" not in base.model_dump_json(exclude_none=True)
    assert evaluate(base.with_(turbo="on")).latency_s == evaluate(base).latency_s
    assert decode(encode(base.with_(turbo="off"))).turbo == "off"
    with pytest.raises(ScenarioError, match=r"^turbo is 'half'; allowed: on, off$"):
        evaluate(base.with_(turbo="half"))
    with pytest.raises(ScenarioError, match=r"allowed here: on, as .* has no base clock in its file$"):
        evaluate(default_scenario("arm-edge", "resnet50", turbo="off"))


def test_turbo_of_a_file_may_be_off_without_quotes(tmp_path, capsys):
    """`off` is false in YAML: a scenario's file and a sweep's axis were refused."""
    (tmp_path / "s.yaml").write_text("{system: xeon-8280l, workload: resnet50, turbo: off}")
    axes = (
        "{scenario: {system: xeon-8280l, workload: resnet50}, axes: {turbo: [on, off]}, objectives: ['latency_s:min']}"
    )
    (tmp_path / "space.yaml").write_text(axes)
    assert main(["evaluate", str(tmp_path / "s.yaml"), "--json"]) == 0
    off = json.loads(capsys.readouterr().out)
    assert off["scenario"]["turbo"] == "off"
    assert off["latency_s"] > 1.1 * evaluate(decode(off["token"]).with_(turbo=None)).latency_s
    assert main(["sweep", str(tmp_path / "space.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["refused"] == 0
