"""The split search: every point equals the main path, the best equals brute force, parts sum, and it is quick."""

import pytest

from engine.analyses.cuts import best_split, split_points
from engine.devices.common.contract import Unsupported
from engine.devices.cpu.family import FAMILY
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each
from tests.effort import share

QPI = Scenario(
    system="xeon-e5-2650-pair-qpi", workload="alexnet", precision="fp32", scheme="split", devices=2, tile=(1,)
)
TCP = QPI.with_(system="xeon-e5-2650-pair-tcp")


@pytest.mark.parametrize("scenario", [QPI, TCP, QPI.with_(batch=8)], ids=["qpi", "tcp", "batch"])
def test_every_point_of_alexnet_equals_the_main_path(scenario):
    points = split_points(scenario)
    ops = default_zoo().graph("alexnet").phases[0].ops
    assert [p.at for p in points] == list(range(len(ops) + 1))
    brute = [evaluate(scenario.with_(split=p.at)).latency_s for p in points]
    assert [p.latency_s for p in points] == pytest.approx(brute, rel=1e-9)
    assert best_split(points).latency_s == pytest.approx(min(brute), rel=1e-9)


def test_every_point_of_resnet50_equals_the_main_path_and_so_does_the_best():
    scenario = TCP.with_(workload="resnet50")
    points = split_points(scenario)
    ops = default_zoo().graph("resnet50").phases[0].ops
    assert [p.at for p in points] == list(range(len(ops) + 1))
    best = best_split(points)
    some = [*share(points), best]
    brute = [evaluate(scenario.with_(split=p.at)).latency_s for p in some]
    assert [p.latency_s for p in some] == pytest.approx(brute, rel=1e-9)
    assert best.latency_s == pytest.approx(min(brute), rel=1e-9)
    assert all(1 / p.interval_s >= (1 - 1e-9) / p.latency_s for p in points)


def by_hand(scenario: Scenario, alone: tuple[Scenario, Scenario], link: str) -> list[float]:
    """Latency of every cut as a plain sum: both executors' operators as each runs the whole network, and the wire."""
    catalog = default_catalog()
    ops = default_zoo().graph(scenario.workload).phases[0].ops
    found = [evaluate(one) for one in alone]
    times = [{row.name: row.time_s for row in report.ops} for report in found]
    once = [report.latency_s - sum(t.values()) for report, t in zip(found, times, strict=True)]
    wire = catalog.link(link)
    rate = wire.bandwidth.si * (wire.payload.si if wire.payload else 1.0)
    frame = catalog.system(scenario.system).frame  # of a camera, as encoded; its answer goes back
    answer = 4.0 * default_zoo().graph(scenario.workload).output_elements.at(1)
    start = (wire.per_transfer.si if wire.per_transfer else 0.0) + wire.latency.si
    second = catalog.device(catalog.system(scenario.system).devices[-1].device)
    threads = alone[1].tile[0] if alone[1].tile else second.cpu.cores.si
    memory = next(level for level in second.memory if level.role == "offchip").latency
    usual = FAMILY.model(second)
    line = usual["handover_line"] / threads * (memory.si / usual["dram_latency"] if memory else 1.0)
    totals = []
    for cut in range(len(ops) + 1):
        before, after = ops[:cut], ops[cut:]
        total = sum(times[0][op.name] for op in before) + sum(times[1][op.name] for op in after)
        total += (once[0] if before else 0.0) + (once[1] if after else 0.0)
        if not before:
            size = 4.0 * scenario.batch * default_zoo().graph(scenario.workload).input_elements.at(1)
            total += start + (size if frame is None else frame.si * scenario.batch) / rate
        if after and frame is not None:
            total += start + answer / rate
        if before and after:
            needed = {name for op in after for name in op.inputs}
            size = sum(4.0 * scenario.batch * op.writes.at(1) for op in before if op.name in needed)
            total += start + size / rate + size / 64 * line
        totals.append(total)
    return totals


XEON = Scenario(system="xeon-e5-2650", workload="alexnet", precision="fp32", tile=(1,))
EDGE = Scenario(system="edge-tiers", workload="alexnet", precision="fp32", scheme="split")
STREET, CABINET = (XEON.with_(system=id, tile=()) for id in ("arm-edge", "xeon-e5-2650"))


WIRES = {
    "qpi": (QPI, (XEON, XEON), "qpi-8gt"),
    "tcp": (TCP, (XEON, XEON), "tcp-nic-loop"),
    "metro": (EDGE, (STREET, CABINET), "metro-1g"),
}
CUT = [(id, wire) for id in ("alexnet", "vgg16", "resnet50", "mobilenet-v1") for wire in WIRES] + [
    ("densenet161", "tcp")
]


@each(("workload", "wire"), CUT)
def test_every_cut_of_whole_networks_is_the_plain_sum_and_the_best_is_its_least(workload, wire):
    scenario, alone, link = WIRES[wire]
    scenario = scenario.with_(workload=workload)
    brute = by_hand(scenario, tuple(one.with_(workload=workload) for one in alone), link)
    points = split_points(scenario)
    assert len(points) == len(brute)
    assert [p.latency_s for p in points] == pytest.approx(brute, rel=1e-9)
    best = best_split(points)
    assert best.latency_s == pytest.approx(min(brute), rel=1e-9)
    assert best.at == next(i for i, t in enumerate(brute) if t <= min(brute) * (1 + 1e-12))


def test_goals_are_minima_of_what_they_name():
    points = split_points(TCP)
    for goal, measure in {
        "latency": lambda p: p.latency_s,
        "throughput": lambda p: p.interval_s,
        "energy": lambda p: p.energy_j,
        "first": lambda p: p.first_s,
        "second": lambda p: p.second_s + p.handover_s,
    }.items():
        assert measure(best_split(points, goal)) == pytest.approx(min(map(measure, points)), rel=1e-12)
    assert best_split(points, "first").at == 0
    assert best_split(points, "second").at == points[-1].at
    # two equal sockets that work on different images: the best cut balances them
    middle = best_split(points, "throughput")
    assert 0.35 < middle.first_s / (middle.first_s + middle.second_s) < 0.65


def test_crossing_tensors_are_counted_once_and_skips_included():
    points = {p.at: p for p in split_points(EDGE.with_(workload="resnet50"))}
    ops = default_zoo().graph("resnet50").phases[0].ops
    at = {op.name: i for i, op in enumerate(ops)}
    skip = next(op for op in ops if op.name == "s1b1-add-relu")
    inner = next(op for op in ops if op.name == "s1b2-conv1-relu")
    inside = points[at["s1b2-conv2"]]  # of a block: its own input and the skip cross
    assert inside.crossing_bytes == 4 * (skip.writes.at() + inner.writes.at())
    assert points[at["s1b2-conv1"]].crossing_bytes == 4 * skip.writes.at()  # two readers, one copy
    assert points[len(ops)].crossing_bytes == 0


@pytest.mark.parametrize("scheme", ["split", "single"])
def test_a_cut_honours_every_setting_of_its_scenario(scheme):
    """A batch, a precision, a wire and a what-if reach the cuts whatever scheme the scenario has; so does a refusal."""
    base = default_scenario("edge-core", "mobilenet-v1", scheme=scheme)
    plain = split_points(base)
    assert split_points(base.with_(batch=32))[20].first_s > 20 * plain[20].first_s
    slow = split_points(base.with_(overrides={"links.peer.bandwidth": "10 Mbit/s"}))
    assert slow[0].latency_s > 0.15 > plain[0].latency_s
    with pytest.raises(ScenarioError):
        split_points(base.with_(overrides={"links.peer.nonsense": "1"}))


@pytest.mark.parametrize("workload", ["deepbench-gru-512", "tp1-lstm", "vgg16-cifar-binary", "wide-deep-criteo"])
def test_every_cut_of_other_networks_equals_the_main_path(workload):
    """Recurrent ones hand every step on, binary ones packed signs; all on the second device, the input crosses."""
    scenario = EDGE.with_(workload=workload, inputs=7 if workload in ("deepbench-gru-512", "tp1-lstm") else 1)
    points = [p for p in split_points(scenario) if p.after != "rnn-input"]  # a product cut from its cell costs less
    brute = [evaluate(scenario.with_(split=p.at)).latency_s for p in points]
    assert [p.latency_s for p in points] == pytest.approx(brute, rel=1e-9)
    graph = default_zoo().graph(workload)
    first = next(p for p in points if not p.at)
    decoded = 4 * graph.input_elements.at(1, scenario.inputs)
    assert first.crossing_bytes == pytest.approx(200e3 if graph.seen else decoded)  # a camera's frame, as encoded
    assert first.link_s > 0
    for p in points:
        op = next((op for op in graph.phases[0].ops if op.name == p.after), None)
        if op is not None and p.rest and op.kind == "Sign":
            assert p.crossing_bytes == pytest.approx(op.writes.at(1, 1, 1) / 8)
        if op is not None and p.rest and op.name == "rnn-state":
            assert p.crossing_bytes == pytest.approx(4 * op.writes.at(1, 1, 1) * 7 * op.layers)


def test_a_quantised_part_sends_less():
    wide = split_points(QPI.with_(system="edge-tiers", devices=1, tile=()), "fp32")
    low = split_points(QPI.with_(system="edge-tiers", devices=1, tile=()), "int8")
    for a, b in zip(wide[1:-1], low[1:-1], strict=True):
        assert b.crossing_bytes == pytest.approx(a.crossing_bytes / 4)
        assert b.link_s < a.link_s
    assert low[-1].first_s < wide[-1].first_s


def test_a_network_processor_takes_only_the_binary_tail():
    scenario = Scenario(
        system="xeon-agilio-coprocessor", workload="vgg16-cifar-binary", precision="fp32", scheme="split"
    )
    points = split_points(scenario)
    ops = default_zoo().graph("vgg16-cifar-binary").phases[0].ops
    first = next(i for i, op in enumerate(ops) if op.kind == "BinaryGemm")
    assert [p.at for p in points] == list(range(first, len(ops) + 1))
    for p in points:
        assert p.latency_s == pytest.approx(evaluate(scenario.with_(split=p.at)).latency_s, rel=1e-9)
    with pytest.raises(Unsupported):
        evaluate(scenario.with_(split=first - 1))


@pytest.mark.parametrize("workload", ["deepscan", "tp1-lstm"])
def test_a_sub_graph_is_assigned_to_the_cpu_and_the_rest_to_the_soft_processor(workload):
    """What the user leaves on the server is priced as the server alone prices it; the rest as the FPGA does."""
    base = default_scenario("brainwave-server", workload)
    cpu, alone = (default_scenario(id, workload) for id in ("xeon-e5-2650", "brainwave-s10"))
    cpu_s, fpga_s = (
        {op.name: op.time_s for op in evaluate(one).ops} for one in (cpu.with_(precision=base.precision), alone)
    )
    ops = default_zoo().graph(workload).phases[0].ops
    for at in (1, len(ops) // 2, len(ops)):
        report = evaluate(base.with_(scheme="split", split=at))
        assert [op.device.startswith("xeon") for op in report.ops] == [i < at for i in range(len(ops))]
        ours, theirs = sum(op.time_s for op in report.ops[:at]), sum(cpu_s[op.name] for op in ops[:at])
        assert ours == pytest.approx(theirs, rel=0.05)
        assert sum(op.time_s for op in report.ops[at:]) <= sum(fpga_s.values()) * (1 + 1e-9)
    best = min(split_points(base), key=lambda p: p.latency_s)
    print(f"{workload}: {best.at} of {len(ops)} operators on the CPU, {best.latency_s * 1e3:.2f} ms")
    assert best.latency_s <= evaluate(base.with_(scheme="split", split=len(ops))).latency_s / 10


def test_threads_of_the_host_are_not_executors_of_the_nic():
    scenario = Scenario(
        system="xeon-agilio-coprocessor", workload="vgg16-cifar-binary", precision="fp32", scheme="split", tile=(4,)
    )
    tail = {p.at: p.second_s for p in split_points(scenario)}
    free = {p.at: p.second_s for p in split_points(scenario.with_(tile=()))}
    assert tail == free


def test_a_system_without_two_executors_says_so():
    with pytest.raises(ScenarioError, match="scheme"):
        split_points(Scenario(system="xeon-e5-2650", workload="alexnet", precision="fp32"))
