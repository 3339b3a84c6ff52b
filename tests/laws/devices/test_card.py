"""The many-core card: physics moves predictions the way it should, cores are never over-committed, nothing is lost."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.devices.card import demand as D
from engine.devices.card import family
from engine.devices.card.embedding_bags import busiest, list_lengths
from engine.devices.card.graph import as_run
from engine.devices.card.placement import cores_of, partition_of
from engine.devices.card.schedule import ROOM, supply_block
from engine.devices.card.supply import S
from engine.evaluate import evaluate
from engine.kernels.ir.doubles import LANES as LANES_AT_ONCE
from engine.plan.jobs import job_of
from engine.published.facebook_node import lookup_s, without
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario
from engine.sweep import space_of, table_rows
from model_zoo.catalog import default_zoo
from tests.each import each
from tests.reference.devices.card_schedule import time_ops

NETWORKS = ("resnext101-32x4d", "regnety-128gf", "fbnetv3-detection", "resnext3d-101", "xlm-r-large")
CORES, LANES, LPDDR = "devices.0.card.cores", "devices.0.card.vector_bits", "devices.0.memory.lpddr.bandwidth"


def on_card(workload: str, **changes) -> Scenario:
    return default_scenario("fb-card", workload, **changes)


def slower(scenario: Scenario, switch: str) -> float:
    """How many times longer a request takes with a switch off. [-]"""
    return evaluate(without(scenario, switch)).latency_s / evaluate(scenario).latency_s


@cache
def job(workload: str, precision: str | None = None):
    scenario = on_card(workload) if precision is None else on_card(workload, precision=precision)
    bound = bind(scenario)
    return assemble(bound, make_plan(bound)).priced[0].runs[0].job


def shares(scenario: Scenario, *kinds: str) -> float:
    report = evaluate(scenario)
    return sum(op.time_s for op in report.ops if op.kind in kinds) / report.latency_s


def conserved(workload: str, low: bool):
    """Work of the graph before and after the compiler's changes, of the operators that were there before."""
    graph = default_zoo().graph(workload)
    run = as_run(graph, low, frozenset({"fuse", "broadcast-on-card", "one-broadcast"}), 0.5)
    names = {op.name for op in graph.phases[0].ops}
    return graph, run, [op for op in run.phases[0].ops if op.name in names]


@pytest.mark.parametrize("low", [True, False])
@pytest.mark.parametrize("workload", [*NETWORKS, "dlrm-more-complex"])
def test_the_compiler_adds_operators_and_changes_no_count(workload, low):
    graph, run, kept = conserved(workload, low)
    assert [op.name for op in kept] == [op.name for op in graph.phases[0].ops]
    assert run.parameters == graph.parameters
    assert run.macs(2, 8) == graph.macs(2, 8)
    names = {op.name for op in run.phases[0].ops}
    seen: set[str] = set()
    for op in run.phases[0].ops:
        assert not set(op.inputs) & (names - seen), f"{op.name} reads what comes later"
        seen.add(op.name)


@pytest.mark.parametrize("workload", NETWORKS)
def test_cores_are_never_over_committed_and_bars_end_with_the_pass(workload):
    one = job(workload)
    placed = family.schedule(one)
    asked, seconds, spans = placed.demand, placed.seconds, np.stack([placed.begin, placed.end, placed.core_s], axis=1)
    cores = family.cores_of(one)
    assert 0 < family.utilisation(one) <= 1
    for group in np.unique(asked[:, D.SEGMENT]):
        rows = np.flatnonzero((asked[:, D.SEGMENT] == group) & (asked[:, D.PIECES] > 0))
        runs = asked[rows[0], D.RUNS]
        makespan = spans[rows, 1].max()
        own = seconds[rows][:, [0, 1, 2, 5]].sum()
        assert own == pytest.approx(runs * makespan, rel=1e-9)
        assert spans[rows, 2].sum() <= cores * makespan * (1 + 1e-9)
        assert (spans[rows, 2] <= (spans[rows, 1] - spans[rows, 0]) * cores * (1 + 1e-9)).all()
        for at in np.linspace(0, makespan, 17)[1:-1]:
            over = [j for j in rows if spans[j, 0] < at < spans[j, 1]]
            held = sum(spans[j, 2] / (spans[j, 1] - spans[j, 0]) for j in over)
            assert held <= cores * (1 + 1e-9)


def test_rows_of_the_timeline_count_cores_in_words_that_agree():
    rows = {bar.unit for bar in evaluate(on_card("resnext3d-101")).timeline}
    assert {"1 core", "8 cores", "all cores"} <= rows
    assert "1 cores" not in rows


@pytest.mark.parametrize("workload", NETWORKS)
def test_an_op_starts_after_what_it_reads(workload):
    one = job(workload)
    placed = family.schedule(one)
    asked, spans = placed.demand, np.stack([placed.begin, placed.end], axis=1)
    first, waits = family.needs(one.ops)
    for j in range(len(one.ops)):
        for i in waits[first[j] : first[j + 1]]:
            if asked[i, D.SEGMENT] == asked[j, D.SEGMENT]:
                assert spans[j, 0] >= spans[i, 1] - 1e-12


def test_a_block_of_points_prices_each_as_alone():
    one = job("xlm-r-large")
    asked, (first, waits) = family.schedule(one).demand, family.needs(one.ops)
    points = np.repeat(np.array(family.supply(one)).reshape(-1, 1), 5, axis=1)
    points[S.far_s] *= np.array([1, 0.5, 2, 4, 1])
    points[S.start_s] *= np.array([1, 1, 2, 1, 0])
    block = np.zeros((6, 5))
    room, out = np.empty((ROOM, len(asked) * LANES_AT_ONCE)), np.zeros((0, 6))
    supply_block(0, 2, asked[None], first, waits, 12, True, points, block, room, out)
    supply_block(2, 5, asked[None], first, waits, 12, True, points, block, room, out)
    for p in range(5):
        out, spans = np.zeros((len(asked), 6)), np.zeros((len(asked), 5))
        time_ops(asked, first, waits, 12, True, points, p, out, spans)
        assert block[:, p].tolist() == sum(out, np.zeros(6)).tolist()


# --- what the document reports, moved by the spec ---------------------------------------------------------------------


def test_splitting_gains_more_on_more_cores():
    base = on_card("xlm-r-large", inputs=32)
    gains = [slower(base.with_(overrides={CORES: n}), "split-ops") for n in (4, 12)]
    assert gains[1] > gains[0] > 1


@pytest.mark.parametrize("workload", ["mlp-mnist", "wide-deep-criteo", "dlrm-less-complex", "resnext3d-101"])
def test_what_has_no_piece_for_every_core_is_never_slower_for_being_cut(workload):
    base = job(workload, "int8")
    ends, pieces = [], []
    for cut in (True, False):
        one = replace(base, switches={**base.switches, "split-ops": cut})
        placed = family.schedule(one)
        ends.append(placed.piece)
        pieces.append(placed.demand[:, D.PIECES])
    few = (pieces[0] > 0) & (pieces[0] < family.cores_of(base))
    assert few.any()
    assert (ends[0][few] <= ends[1][few]).all()


def test_int8_costs_a_small_network_no_more_than_its_conversions():
    wide, low = (evaluate(on_card("mlp-mnist", precision=precision)) for precision in ("fp16", "int8"))
    converting = sum(op.time_s for op in low.ops if op.kind in ("QuantizeLinear", "DequantizeLinear"))
    assert low.latency_s - converting < wide.latency_s
    assert low.latency_s < 1.1 * wide.latency_s
    assert any(note.text.startswith("Conversions between INT8 and FP16 take 1") for note in low.assumptions)


@pytest.mark.parametrize(("workload", "least"), [("resnet50", 1.2), ("resnext101-32x4d", 1.2)])
def test_sums_that_ride_in_convolutions_cost_no_operator_of_their_own(workload, least):
    apart = on_card(workload, precision="int8")
    together = apart.with_(switches={**apart.switches, "fuse-sums": True})
    assert evaluate(apart).latency_s > least * evaluate(together).latency_s
    assert shares(together, "Add") < 0.6 * shares(apart, "Add")
    products = [[op.flops for op in evaluate(s).ops if op.kind in ("Conv", "Gemm")] for s in (apart, together)]
    assert products[0] == products[1]


def test_int8_gains_less_where_memory_is_faster():
    def gain(bandwidth: float) -> float:
        wide = on_card("xlm-r-large", inputs=32, overrides={LPDDR: bandwidth})
        return evaluate(wide).latency_s / evaluate(wide.with_(precision="int8")).latency_s

    assert gain(33.6e9) > gain(67.2e9) > gain(268.8e9) > 1


def test_sums_take_less_of_resnext_with_wider_vectors():
    base = on_card("resnext101-32x4d")
    assert shares(base.with_(overrides={LANES: 2048}), "Add") < shares(base, "Add")


def test_products_take_less_of_xlmr_with_faster_memory():
    base = on_card("xlm-r-large", inputs=32)
    assert shares(base.with_(overrides={LPDDR: 268.8e9}), "Gemm") < shares(base, "Gemm")


def test_the_pool_kernel_gains_less_on_a_card_whose_memory_is_slower():
    base = on_card("regnety-128gf")
    assert slower(base.with_(overrides={LPDDR: 20e9}), "large-pools") < slower(base, "large-pools")


def test_a_batch_gains_less_where_starts_cost_nothing():
    def gain(**changes) -> float:
        one = on_card("resnext101-32x4d", **changes)
        return evaluate(one.with_(batch=4)).throughput_per_s / evaluate(one).throughput_per_s

    assert gain(overrides={"model.kernel_start": 1e-9}) < gain()


def test_weights_on_chip_help_only_where_they_fit():
    small, large = on_card("resnext101-32x4d"), on_card("regnety-128gf")
    assert slower(small, "on-chip-weights") > slower(large, "on-chip-weights") >= 1
    cramped = small.with_(overrides={"devices.0.memory.sram.capacity": 1e5, "devices.0.memory.llc.capacity": 1e5})
    assert slower(cramped, "on-chip-weights") < 1.01


def test_streams_trade_latency_for_throughput():
    one = on_card("resnext101-32x4d")
    many = one.with_(streams=4)
    assert evaluate(many).latency_s > evaluate(one).latency_s
    assert evaluate(many).throughput_per_s > evaluate(one).throughput_per_s


@pytest.mark.parametrize(("tables", "mean"), [(1, 5.0), (7, 1.0), (160, 8.0), (200, 32.0)])
def test_list_lengths_keep_their_mean(tables, mean):
    lengths = list_lengths(tables, mean, 0.8, 0.2)
    assert lengths.shape == (tables,)
    assert lengths.mean() == pytest.approx(mean)
    assert (lengths > 0).all()


def test_balance_conserves_lookups_and_gains_nothing_where_lists_are_alike():
    node = default_scenario("fb-node", "dlrm-more-complex", tile=(4,))
    gain = 1 - lookup_s(node) / lookup_s(without(node, "length-aware"))
    alike = node.with_(overrides={"model.list_spread": 0.0, "model.single_share": 0.0})
    assert 0.15 <= gain <= 0.34
    assert 1 - lookup_s(alike) / lookup_s(without(alike, "length-aware")) == pytest.approx(0, abs=0.02)
    out = np.zeros(3)
    lengths = list_lengths(160, 8.0, 0.8, 0.2)
    busiest(np.stack([lengths, np.argsort(-lengths)]), 2, 1, 1, 1e9, 10.0, 0.0, 10.0, False, 0.0, 48.0, out)
    assert out[0] == pytest.approx(160 * 8 * 48 * 10)
    assert out[1] == 160
    assert out[2] == pytest.approx(160 * 8 * 48)


@pytest.mark.parametrize("items", [1, 165])
@pytest.mark.parametrize("workload", ["dlrm-more-complex", "dlrm-less-complex"])
def test_placing_tables_on_cores_gains_what_document_000_says(workload, items):
    """It generally does not exceed 10 to 20% (VI-B): every table is an operator that a hint may put on a core."""
    node = default_scenario("fb-node", workload, inputs=items)
    assert 1.05 <= slower(node, "placement") <= 1.2
    alike = node.with_(overrides={"model.list_spread": 0.0, "model.single_share": 0.0})
    assert slower(alike, "placement") == pytest.approx(1.0, abs=0.01)
    blind = without(node, "length-aware").with_(tile=(4,))  # who knows no lengths has nothing to place by
    assert lookup_s(without(blind, "placement")) == lookup_s(blind)


def test_the_length_rule_is_near_the_bound():
    lengths = list_lengths(160, 8.0, 0.8, 0.2)
    out = np.zeros(3)
    busiest(np.stack([lengths, np.argsort(-lengths)]), 2, 6, 4, 40.0, 10.0, 0.0, 10.0, False, 0.0, 1.0, out)
    least = max(lengths.sum() * 10 / 24, lengths.max() * 10)
    assert least <= out[0] <= 4 / 3 * least


@each("rows", [1.0, 3.0, 4.0, 5.0, 9.0, 32.0])
@each("cores", [1.0, 6.0, 12.0, 13.0])
def test_a_row_more_is_never_faster_on_the_array(rows, cores):
    """A ragged row of tiles counted as much as a whole one when work was dealt out, so 65 rows beat 64 by 10%."""
    for columns in (1.0, 2.0, 7.0, 32.0, 100.0):
        last = 0.0
        for m in range(1, 200):
            pieces = min(cores, columns * np.ceil(m / D.TILE))
            work = columns * np.ceil(m / rows) * rows / D.TILE
            time = work * D._skew(float(m), columns, pieces, rows) / pieces
            assert time >= last * (1 - 1e-12)
            assert time * pieces >= work * (1 - 1e-12)  # no core does less than an even share
            last = time


@pytest.mark.parametrize(
    ("workload", "precision"), [("deepbench-lstm-256", "fp16"), ("dlrm-more-complex", "int8"), ("mlp-121m", "int8")]
)
def test_a_sample_more_is_never_faster(workload, precision):
    base = on_card(workload, precision=precision)
    batches = (1, 31, 32, 33, 41, 45, 63, 64, 65, 66, 69, 96, 97, 128, 129)
    times = [evaluate(base.with_(batch=b)).latency_s for b in batches]
    assert all(b >= a * (1 - 1e-12) for a, b in pairwise(times))


@pytest.mark.parametrize("id", ["node-dlrm", "node-xlmr", "node-text", "node-detector", "node-resnext", "node-video"])
def test_a_slower_host_never_makes_a_card_faster_and_slows_what_it_does_for_it(id):
    """Commands of transfers, ways to the host and the work there take a core's cycles."""
    base = PRESETS[id].scenario
    clocks = ("0.5 GHz", "1.15 GHz", "2.3 GHz", "4.6 GHz")
    times = [evaluate(base.with_(overrides={"host.cpu.clock": c})).latency_s for c in clocks]
    assert times == sorted(times, reverse=True)
    assert times[2] == pytest.approx(evaluate(base).latency_s, rel=1e-12)
    assert times[0] > times[2] or id == "node-resnext"  # one image in one transfer, nothing on the host
    space = space_of({"scenario": base, "axes": {"host.cpu.clock": list(clocks)}, "constraints": []})
    assert [row["latency_s"] for row in table_rows(space)] == pytest.approx(times, rel=1e-12)


@pytest.mark.parametrize("id", ["node-dlrm", "node-resnext", "node-video"])
def test_streams_that_leave_cores_idle_or_share_them_say_so(id):
    for streams in (1, 2, 4, 5, 6, 8, 12):
        scenario = PRESETS[id].scenario.with_(streams=streams)
        bound = bind(scenario)
        jobs = [job_of(bound, stage, bound.family, bound.graph.phases[0]) for stage in make_plan(bound).stages]
        jobs = [one for one in jobs if one.device.kind == "card"]
        uneven = any(cores_of(one) * streams != partition_of(one) for one in jobs)
        said = [a.text for a in evaluate(scenario).assumptions if " idle: " in a.text or "with a core each" in a.text]
        assert bool(said) == uneven, (streams, said)
