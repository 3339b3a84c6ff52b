"""Physics of the CPU family: never above its roofs, never slower with more of anything, shares that add up."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.devices.common.counts import records
from engine.devices.common.job import Job
from engine.devices.cpu import family
from engine.devices.cpu.record import levels_of
from engine.evaluate import evaluate
from engine.resolve.spec_path import set_paths
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import default_catalog
from hardware_specs.quantity import Quantity
from model_zoo.catalog import default_zoo
from tests.each import each
from tests.effort import examples

CPUS = ("xeon-8280l", "xeon-e5-2650", "xeon-e5-1630v3", "xeon-d-2191", "arm-edge-cpu")
NETS = ("alexnet", "mlp-121m", "wide-deep-criteo", "resnet50", "gpt2-345m", "dlrm-less-complex", "mobilenet-v1")


def job(device, workload: str, phase: int = 0, **changes) -> Job:
    """A whole network on one CPU; `device` is a spec or its id."""
    spec = default_catalog().device(device) if isinstance(device, str) else device
    graph = default_zoo().graph(workload)
    part = graph.phases[phase]
    fields = {
        "device": spec,
        "phase": part,
        "ops": part.ops,
        "graph": graph,
        "batch": 1,
        "length": part.length.at(8, 8),
        "context": part.context.at(8, 8),
        "max_context": 16.0,
        "ways": 1,
        "streams": 1,
        "format": "fp32",
        "tile": (),
        "switches": {s.name: s.default for s in family.FAMILY.switches},
        "model": family.FAMILY.model(spec),
    }
    return Job(**(fields | changes))


def switched(base: Job, **changes: bool) -> dict[str, bool]:
    return {**base.switches, **{k.replace("_", "-"): v for k, v in changes.items()}}


def quantity(spec, path: str, value: float):
    """A copy of a device whose quantity at `path` (block.field, or memory.<i>.field) is `value` in SI."""
    head, *rest = path.split(".")
    if head == "memory":
        levels = list(spec.memory)
        at = int(rest[0])
        unit = {"capacity": "B", "bandwidth": "B/s"}[rest[1]]
        new = Quantity(value=f"{value!r} {unit}", basis="assumed", note="test")
        levels[at] = levels[at].model_copy(update={rest[1]: new})
        return spec.model_copy(update={"memory": tuple(levels)})
    unit = {"cores": "", "clock": "Hz", "turbo": "Hz", "core_bandwidth": "B/s"}[rest[0]]
    new = Quantity(value=f"{value!r} {unit}".strip(), basis="assumed", note="test")
    return spec.model_copy(update={"cpu": spec.cpu.model_copy(update={rest[0]: new})})


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from(CPUS),
    st.sampled_from(NETS),
    st.integers(1, 300),
    st.integers(1, 4),
    st.sampled_from(("fp32", "int8")),
    st.booleans(),
)
def test_no_op_beats_its_roofs(device, net, batch, streams, precision, fuse):
    base = job(device, net)
    if precision not in family.formats(base.device):
        precision = "fp32"
    j = job(device, net, batch=batch, streams=streams, format=precision, switches=switched(base, fuse=fuse))
    cost = family.price(j)
    assert np.isfinite(cost.seconds).all()
    assert (cost.seconds >= 0).all()
    took = cost.seconds.sum(axis=1)
    assert (cost.flops <= took * cost.peak * (1 + 1e-9)).all()
    dram = max((m for m in j.device.memory if m.role == "offchip"), key=lambda m: m.capacity.si)
    assert cost.offchip.sum() <= cost.total_s * dram.bandwidth.si * (1 + 1e-9)
    assert (cost.peak <= max(family.peak(j.device, f) for f in family.formats(j.device)) * (1 + 1e-9)).all()


def test_a_cache_that_cores_share_before_the_last_is_divided_among_them():
    atom = levels_of(default_catalog().device("atom-x6425e"))
    assert (atom.shared, atom.private) == (4 * 2**20, 1.5 * 2**20 / 4)
    board = levels_of(default_catalog().device("raspberry-pi-4"))  # one cache, of all cores
    assert (board.shared, board.private) == (2**20, 0.0)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("batch", [1, 64])
def test_more_of_anything_is_never_slower(net, batch):
    spec = default_catalog().device("xeon-e5-2650")
    base = family.price(job(spec, net, batch=batch, tile=(4,))).total_s
    off = next(i for i, m in enumerate(spec.memory) if m.role == "offchip")
    shared = next(i for i, m in enumerate(spec.memory) if m.name == "l3")
    private = next(i for i, m in enumerate(spec.memory) if m.name == "l2")
    better = {
        "memory bandwidth": quantity(spec, f"memory.{off}.bandwidth", 2 * spec.memory[off].bandwidth.si),
        "last-level cache": quantity(spec, f"memory.{shared}.capacity", 2 * spec.memory[shared].capacity.si),
        "private cache": quantity(spec, f"memory.{private}.capacity", 2 * spec.memory[private].capacity.si),
        "core bandwidth": quantity(spec, "cpu.core_bandwidth", 2 * spec.cpu.core_bandwidth.si),
    }
    for name, other in better.items():
        assert family.price(job(other, net, batch=batch, tile=(4,))).total_s <= base * (1 + 1e-9), name


@pytest.mark.parametrize("net", NETS)
def test_more_work_is_never_faster(net):
    times = [family.price(job("xeon-8280l", net, batch=b)).total_s for b in (1, 2, 8, 32, 128, 512)]
    assert times == sorted(times)


@pytest.mark.parametrize("net", ["alexnet", "resnet50", "mlp-121m"])
def test_threads_help_and_stay_below_ideal(net):
    times = [family.price(job("xeon-e5-2650", net, batch=16, tile=(t,))).total_s for t in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
    # eight cores also have eight L2 caches, so a little more than eight times is physical; nine is not
    assert times[0] / times[3] < 9.0


def test_only_the_join_of_its_threads_makes_a_network_slower_on_more():
    lstm = [job("epyc-9965", "deepbench-lstm-256", tile=(t,)) for t in (1, 8, 64, 192)]
    forked = [replace(j, switches={**j.switches, "fit-threads": False}) for j in lstm]
    assert family.price(forked[1]).total_s < family.price(forked[3]).total_s
    without = [family.price(replace(j, model=j.model | {"barrier": 0.0})).total_s for j in forked]
    assert without == sorted(without, reverse=True)


@pytest.mark.parametrize("net", ["deepbench-lstm-256", "wide-deep-criteo", "resnet50"])
def test_threads_are_fitted_as_if_each_number_had_been_tried(net):
    """Powers of two and all threads are enough, and an op that stops looking has missed nothing."""
    fork = {"fit-threads": False}
    every = [job("epyc-9965", net, tile=(t,)) for t in range(1, 49)]
    tried = [family.price(replace(j, switches={**j.switches, **fork})).seconds.sum(axis=1) for j in every]
    fitted = family.price(every[-1]).seconds.sum(axis=1)
    assert fitted == pytest.approx(np.min(tried, axis=0), rel=1e-9)
    assert fitted.sum() < tried[-1].sum()


def test_more_streams_raise_throughput_and_latency():
    made, waited = [], []
    for streams in (1, 4, 14, 28):
        t = family.price(job("xeon-8280l", "wide-deep-criteo", batch=512, streams=streams)).total_s
        waited.append(t)
        made.append(streams * 512 / t)
    assert waited == sorted(waited)
    assert made[-1] > 0.9 * made[0]


@pytest.mark.parametrize("switch", ["fuse", "fuse-requantise", "fuse-gathers", "prune", "preprocess-apart"])
def test_each_graph_optimisation_saves_time(switch):
    report = {}
    for on in (True, False):
        s = Scenario(
            system="xeon-8280l",
            workload="wide-deep-criteo",
            batch=512,
            tile=(1,),  # of 28 streams each waits for the others' calls with or without them
            precision="int8",
            switches={switch: on},
        )
        report[on] = evaluate(s).latency_s
    assert report[True] < report[False]


def test_features_are_parsed_by_their_number_and_their_bytes_where_no_session_apart_does():
    def parsed(apart: bool, **model: float) -> float:
        usual = job("xeon-8280l", "wide-deep-criteo", batch=512, streams=28)
        turned = replace(usual, switches=switched(usual, **{"preprocess-apart": apart}), model=usual.model | model)
        return sum(t for name, _, t in family.request(turned) if name.startswith("features parsed"))

    assert parsed(apart=True) == 0.0
    assert parsed(apart=False) == pytest.approx(512 * 39 * (235 + 20 * 3.5) / 3.3e9)
    longer = parsed(apart=False, feature_bytes=40.0) - parsed(apart=False)
    assert longer == pytest.approx(512 * 39 * 20 * 3.5 / 3.3e9)


def test_bare_kernels_cost_less_than_a_framework():
    j = job("xeon-8280l", "wide-deep-criteo", batch=64)
    bare = job("xeon-8280l", "wide-deep-criteo", batch=64, switches=switched(j, framework=False))
    assert family.price(bare).total_s < family.price(j).total_s
    assert family.request(bare) == ()
    assert sum(t for _, _, t in family.request(j)) > 0


def test_one_bandwidth_constant_sets_every_matrix_vector_product():
    """Batch 1, one core: weights over time is the core's bandwidth, whatever the network."""
    for net in ("mlp-121m", "alexnet"):
        j = job("xeon-e5-2650", net, tile=(1,))
        cost = family.price(j)
        dense = [i for i, op in enumerate(j.ops) if op.kind == "Gemm"]
        read = sum(4 * j.ops[i].stored for i in dense)
        rate = read / cost.seconds[dense].sum()
        assert rate == pytest.approx(j.device.cpu.core_bandwidth.si, rel=0.01)


def test_batching_turns_the_mlp_compute_bound():
    shares = []
    for batch in (1, 8, 128):
        cost = family.price(job("xeon-e5-1630v3", "mlp-121m", batch=batch, tile=(1,)))
        shares.append(cost.seconds[:, 0].sum() / cost.total_s)
    assert shares[0] < 0.05
    assert shares == sorted(shares)
    assert shares[2] > 0.8


def test_decoding_on_a_xeon_is_bound_by_its_memory():
    cost = family.price(job("xeon-8280l", "gpt2-1.5b", phase=1))
    j = job("xeon-8280l", "gpt2-1.5b", phase=1)
    read = sum(min(op.weights.at(1, 1, j.context), op.stored or 1e30) * op.layers * 4 for op in j.ops if op.contraction)
    floor = read / 140.8e9
    assert floor < cost.total_s < 2.5 * floor


def test_cold_caches_and_the_network_cost_time():
    base = job("xeon-e5-1630v3", "binary-fc-4096", format="binary", tile=(1,))
    cold = job("xeon-e5-1630v3", "binary-fc-4096", format="binary", tile=(1,), switches=switched(base, cold=True))
    assert family.price(cold).total_s > family.price(base).total_s
    assert family.request(base) == ()
    assert family.path(base.switches, base.model) is None
    assert family.path(switched(base, network=True), base.model)[1] == pytest.approx(190e-6)


def test_a_part_of_a_network_costs_its_share_and_what_it_is_handed():
    whole = job("xeon-e5-2650", "alexnet", tile=(1,))
    cost = family.price(whole)
    head = job("xeon-e5-2650", "alexnet", tile=(1,), ops=whole.ops[:9])
    tail = job("xeon-e5-2650", "alexnet", tile=(1,), ops=whole.ops[9:])
    handed = 4 * whole.ops[8].writes.at(1) / 64 * whole.model["handover_line"]
    assert family.price(head).total_s + family.price(tail).total_s == pytest.approx(cost.total_s + handed, rel=1e-12)


@pytest.mark.parametrize(("part", "threads", "times"), [("xeon-e5-2650", 4, 0.25), ("raspberry-pi-4", 1, 130 / 90)])
def test_what_a_part_is_handed_its_cores_draw_at_the_latency_of_its_memory(part, threads, times):
    """It took as long on every CPU and any number of threads: 0.19 GB/s."""
    whole = job(part, "alexnet", tile=(threads,))
    tail = job(part, "alexnet", tile=(threads,), ops=whole.ops[9:])
    handed = 4 * whole.ops[8].writes.at(1) / 64 * whole.model["handover_line"]
    assert sum(seconds for _, _, seconds in family.price(tail).overheads) == pytest.approx(handed * times)


def test_two_sockets_are_two_machines_for_two_streams_and_less_for_one():
    one = default_catalog().device("xeon-e5-2650")
    levels = tuple(
        m
        if m.per == "core"
        else m.model_copy(
            update={
                "capacity": Quantity(value=f"{2 * m.capacity.si!r} B", basis="assumed", note="test"),
                "bandwidth": m.bandwidth
                and Quantity(value=f"{2 * m.bandwidth.si!r} B/s", basis="assumed", note="test"),
            }
        )
        for m in one.memory
    )
    cpu_block = one.cpu.model_copy(
        update={
            "cores": Quantity(value=16, basis="assumed", note="test"),
            "sockets": Quantity(value=2, basis="assumed", note="test"),
        }
    )
    two = one.model_copy(update={"memory": levels, "cpu": cpu_block})
    for net in ("alexnet", "wide-deep-criteo", "gpt2-345m"):
        alone = family.price(job(one, net, batch=4)).total_s
        assert family.price(job(two, net, batch=4, streams=2)).total_s == pytest.approx(alone, rel=1e-9)
        assert family.price(job(two, net, batch=4)).total_s > 0.5 * alone


def test_what_a_cpu_can_not_run_is_one_sentence():
    catalog, zoo = default_catalog(), default_zoo()
    why = family.supports(catalog.device("xeon-8280l"), zoo.graph("binary-fc-4096"), "fp32")
    assert why is not None
    assert "popcount" in why
    assert why.count(". ") == 0
    assert family.supports(catalog.device("xeon-e5-1630v3"), zoo.graph("alexnet"), "binary") is not None
    assert family.supports(catalog.device("xeon-e5-1630v3"), zoo.graph("binary-fc-4096"), "binary") is None


def test_peaks_are_the_catalog_s():
    for name in CPUS:
        spec = default_catalog().device(name)
        for format in family.formats(spec):
            if format in spec.peak:
                assert family.peak(spec, format) == pytest.approx(spec.peak[format].si, rel=1e-6), (name, format)


@pytest.mark.parametrize(("name", "value"), [("gemm_efficiency", -1.0), ("remote_share", 0.0), ("op_overhead", -1e-6)])
def test_a_model_parameter_out_of_range_is_one_sentence(name, value):
    scenario = Scenario(system="xeon-e5-2650", workload="alexnet", precision="fp32", overrides={f"model.{name}": value})
    with pytest.raises(ScenarioError, match=rf"^model.{name} is .* is allowed$"):
        evaluate(scenario)


@pytest.mark.parametrize("times", [0.25, 4.0])
def test_a_what_if_of_the_clock_moves_the_vector_clock_with_it(times):
    usual = default_catalog().device("xeon-8280l")
    clock = f"{usual.cpu.clock.si * times} Hz"
    fast = set_paths(usual, [(["cpu", "clock"], clock, "devices.0.cpu.clock")])
    assert family.FAMILY.peak(fast, "fp32") == pytest.approx(times * family.FAMILY.peak(usual, "fp32"))
    slow = set_paths(fast, [(["cpu", "vector_clock", "fp32"], "0.1 GHz", "devices.0.cpu.vector_clock.fp32")])
    assert family.FAMILY.peak(slow, "fp32") == pytest.approx(28 * 0.1e9 * 64)
    for device in (fast, slow):  # nothing beats the peak, adding two vectors neither
        cost = family.price(job(device, "resnet50", batch=4))
        assert (cost.flops <= cost.seconds.sum(1) * cost.peak * (1 + 1e-9)).all()


@pytest.mark.parametrize("workload", NETS)
def test_designs_side_by_side_take_the_seconds_of_each_alone(workload) -> None:
    """Whatever stands beside it: another part, other sizes, more threads; and at the end of a range."""
    draw = np.random.default_rng(11)
    jobs = [
        job(
            CPUS[draw.integers(len(CPUS))], workload, batch=int(draw.integers(1, 300)), streams=int(draw.integers(1, 8))
        )
        for _ in range(37)
    ]
    sizes = np.array([one.sizes for one in jobs]).T.copy()
    record = records([family.FAMILY.compiled.record(one) for one in jobs])
    tables, rows = family.FAMILY.compiled.tables(jobs[0]), np.arange(len(jobs[0].ops))
    times = draw.integers(1, 5, len(rows)).astype(np.float64)
    beside, alone = np.ones((2, 6, len(jobs)))
    for lo, hi in ((0, 1), (1, 10), (10, 37)):
        family.FAMILY.compiled.points(lo, hi, rows, times, *tables, 1.0, sizes, record, beside)
    for at in range(len(jobs)):
        family.FAMILY.compiled.points(at, at + 1, rows, times, *tables, 1.0, sizes, record, alone)
    assert beside.tobytes() == alone.tobytes()
    assert (beside[:3].sum(axis=0) > 3.0).all()


def _shape(id: str) -> tuple[object, ...]:
    """What of a part decides which formulas price it: its formats and its caches."""
    spec = default_catalog().device(id)
    return (*family.formats(spec), *((level.name, level.per) for level in spec.memory))


_CPU_IDS = [d for d in default_catalog().ids("devices") if default_catalog().device(d).kind == "cpu"]
EVERY_CPU = tuple({_shape(id): id for id in reversed(_CPU_IDS)}.values())
WIDE_NETS = (*NETS, "bert-base", "deepbench-gru-512", "mlp-mnist", "resnext101-32x4d")


@pytest.mark.parametrize("name", EVERY_CPU)
def test_narrower_units_of_any_format_never_make_anything_faster(name):
    """Halving or quartering the rate of one format slows what uses it and leaves the rest as it is."""
    usual = default_catalog().device(name)
    for turned, rate in usual.cpu.flop_per_cycle.items():
        for share in (0.75, 0.5, 0.25):
            path = ["cpu", "flop_per_cycle", turned]
            narrow = set_paths(usual, [(path, f"{rate.si * share} FLOP/cycle", "devices.0." + ".".join(path))])
            for net in WIDE_NETS:
                for format, batch in product((f for f in family.formats(usual) if f != "binary"), (1, 128)):
                    asked = {"batch": batch, "format": format}
                    before, after = (family.price(job(spec, net, **asked)).seconds.sum(1) for spec in (usual, narrow))
                    slower = after >= before * (1 - 1e-9)
                    assert slower.all(), (turned, share, net, format, batch, np.flatnonzero(~slower))


@each("name", [d for d in EVERY_CPU if "int8" in family.formats(default_catalog().device(d))])
@each("net", WIDE_NETS)
def test_requantising_apart_is_never_faster_than_in_the_product(name, net):
    for batch, threads in product((1, 2, 32, 512), (1, 4, 0)):
        fused = job(name, net, batch=batch, format="int8", tile=(threads,) if threads else ())
        apart = replace(fused, switches=switched(fused, fuse_requantise=False))
        times = [family.price(j).seconds.sum(1) for j in (fused, apart)]
        assert (times[0] <= times[1] * (1 + 1e-9)).all(), (batch, threads)
