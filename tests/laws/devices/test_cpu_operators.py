"""Operators on a CPU: ragged tiles and what else they lose, bytes between INT8 products, a sample more."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.devices.cpu import family
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from model_zoo.families.blocks import linear
from model_zoo.ops import Graph, Phase, dim, known_ahead
from tests.effort import examples
from tests.laws.devices.test_cpu import CPUS, job, switched


def _product(m: float, n: float, **changes: float) -> float:
    """Seconds of an FP32 product of m x 256 x n, or of the operator that `kind` and `kernel` make of it."""
    spec = default_catalog().device("xeon-8280l")
    kernel = changes.pop("kernel", 0.0)
    attributes = (("kernel", kernel), ("groups", 1.0), ("channels", 256.0)) if kernel else ()
    op = linear("op", dim(m), 256, n, group="t", bias=False, kind="Conv" if kernel else "Gemm", attributes=attributes)
    phase = Phase("p", (op,))
    model = dict(family.FAMILY.model(spec)) | changes
    base = job(spec, "alexnet", tile=(1,))
    return family.price(replace(base, phase=phase, ops=phase.ops, graph=Graph((phase,), "call"), model=model)).total_s


def test_ragged_tiles_cost_what_whole_ones_do():
    """Rows and columns fill a tile up; few rows or few columns are streamed and fill none."""
    tiles = {"tile_rows": 6.0, "tile_columns": 64.0}
    assert _product(1200, 128, **tiles) == pytest.approx(_product(1200, 128), rel=1e-12)
    assert _product(49, 1024, **tiles) > 1.05 * _product(49, 1024)
    assert _product(1200, 65, **tiles) > 1.5 * _product(1200, 64, **tiles)
    assert _product(1200, 128, **tiles) == pytest.approx(_product(1200, 65, **tiles), rel=0.05)
    for m, n in ((1, 1000), (3, 1000), (1000, 2)):
        assert _product(m, n, **tiles) == pytest.approx(_product(m, n), rel=1e-12)
    # a convolution's columns are whole vectors: 80 are five, and the fifth has no second beside it
    alone = _product(1200, 80, kernel=3.0, lone_vector=0.5)
    assert alone / _product(1200, 80, kernel=3.0) == pytest.approx(6 / 5, rel=0.05)
    assert _product(1200, 96, kernel=3.0, lone_vector=0.5) == pytest.approx(_product(1200, 96, kernel=3.0), rel=1e-12)


@pytest.mark.parametrize("fixed", [False, True])
def test_products_of_a_recurrences_inputs_are_one(fixed):
    """They are known before the first step, whose number a file may fix: weights that no cache holds are read once."""
    base = job("xeon-8280l", "deepbench-lstm-2048", tile=(1,), phase=0)
    if fixed:
        ops = tuple(replace(op, steps=dim(base.sizes[1])) if op.steps.s else op for op in base.ops)
        base = replace(base, ops=ops, phase=replace(base.phase, ops=ops))
    for fuse, low, high in ((True, 0.0, 0.3), (False, 0.8, 1.1)):
        j = replace(base, switches=switched(base, fuse=fuse))
        times = {op.name: row.sum() for op, row in zip(j.ops, family.price(j).seconds, strict=True)}
        assert low < times["rnn-input"] / times["rnn-recurrent"] < high


def test_a_network_that_hears_its_own_letters_waits_for_each():
    phase = default_zoo().graph("rnnt").phases[0]
    ahead = [op.name for at, op in enumerate(phase.ops) if known_ahead(phase.ops, at)]
    assert ahead == ["sound1-input", "sound2-input", "frame1-input", "frame2-input", "frame3-input"]


@pytest.mark.parametrize(
    ("name", "worse", "net"),
    [
        ("window_overhead", 1e-4, "resnet50"),
        ("step_overhead", 1e-4, "deepbench-gru-512"),
        ("exposed", 1.0, "resnet50"),
        ("weight_stream", 0.3, "mlp-mnist"),
        ("pool_cycles", 50.0, "resnet50"),
        ("lone_vector", 0.3, "mobilenet-v2"),
    ],
)
def test_what_an_operator_loses_costs_time_where_it_occurs(name, worse, net):
    spec = default_catalog().device("xeon-8280l")
    base = job(spec, net, tile=(1,), phase=0)
    usual = family.price(base).total_s
    assert family.price(replace(base, model=dict(base.model) | {name: worse})).total_s > usual
    other = "gpt2-345m"  # has no window, no recurrence, no pool; its weights lie in DRAM
    base = job(spec, other, tile=(1,), phase=1)
    same = family.price(replace(base, model=dict(base.model) | {name: worse})).total_s
    assert same == pytest.approx(family.price(base).total_s, rel=0.01)


def _bytes(cost, ops, kinds) -> float:
    return sum(cost.offchip[i] + cost.onchip[i] for i, op in enumerate(ops) if op.kind in kinds)


def test_residuals_and_pools_between_int8_products_move_bytes_not_words():
    """INT8 convolutions store INT8; what only adds or pools their results never widens it in memory."""
    kinds = ("MaxPool", "Add")
    wide, narrow = job("xeon-8280l", "resnet50", batch=8), job("xeon-8280l", "resnet50", batch=8, format="int8")
    moved = [_bytes(family.price(j), j.ops, kinds) for j in (wide, narrow)]
    assert moved[0] == pytest.approx(4 * moved[1])
    sums = replace(narrow, switches=switched(narrow, fuse_requantise=False))
    assert _bytes(family.price(sums), sums.ops, kinds) == pytest.approx(moved[0])


def test_residuals_of_a_transformer_stay_wide_in_int8():
    """A layer norm computes in floating point, so what is added to its output is no sum of INT8 alone."""
    wide, narrow = job("xeon-8280l", "bert-base"), job("xeon-8280l", "bert-base", format="int8")
    assert _bytes(family.price(narrow), narrow.ops, ("Add",)) == pytest.approx(
        _bytes(family.price(wide), wide.ops, ("Add",))
    )


@pytest.mark.parametrize("format", ["fp32", "int8"])
def test_a_convolution_in_blocks_reaches_more_of_an_avx512_peak_than_a_framework_s_product(format):
    """Whole networks on one stream a core: published layers reach 70 to 90% of the peak."""
    j = job("xeon-8280l", "resnet50", batch=8, streams=28, format=format)
    cost = family.price(j)
    used = {op.name: w / (t * p) for op, w, t, p in zip(j.ops, cost.flops, cost.seconds.sum(1), cost.peak, strict=True)}
    assert 0.6 < used["s3b2-conv1"] < 0.8 < j.model["efficiency_ceiling"]  # 1 x 1: nothing is lost at its edges
    assert used["s4b1-conv2"] < used["s1b1-conv2"]  # 3 x 3: short rows lose more


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(CPUS),
    st.sampled_from(("mlp-mnist", "wide-deep-criteo", "resnet50")),
    st.integers(1, 200),
    st.sampled_from((0, 7, 28)),
)
def test_a_sample_more_is_never_faster(device, net, batch, threads):
    """One row more makes one more ragged tile to deal out to threads; it still is more work."""
    tile = (threads,) if threads else ()
    less, more = (family.price(job(device, net, batch=b, tile=tile)) for b in (batch, batch + 1))
    kinds = [op.contraction and op.kind != "Conv" for op in job(device, net).ops]
    assert (more.seconds.sum(1)[kinds] >= less.seconds.sum(1)[kinds] * (1 - 1e-9)).all()


def test_narrow_weights_alone_save_their_bytes_where_one_row_is_multiplied():
    """A token decoded reads every weight once; a prompt multiplies as before and unpacks them beside."""
    wide, w8, w4 = (job("xeon-8280l", "gpt2-1.5b", phase=1, format=f) for f in ("fp32", "w8a16", "w4a16"))
    far = [family.price(j).offchip.sum() for j in (wide, w8, w4)]
    assert far[1] / far[0] == pytest.approx(8.5 / 32, rel=0.1)
    assert far[2] / far[0] == pytest.approx(4.5 / 32, rel=0.15)
    times = [family.price(j).total_s for j in (wide, w8, w4)]
    assert times[0] > 2.5 * times[1] > 3.0 * times[2]
    prompts = [job("xeon-8280l", "gpt2-1.5b", phase=0, length=512.0, format=f) for f in ("fp32", "w4a16")]
    usual, packed = (family.price(j) for j in prompts)
    assert packed.seconds[:, 0].sum() > usual.seconds[:, 0].sum()
    assert packed.seconds[:, 0].sum() < 1.2 * usual.seconds[:, 0].sum()


@pytest.mark.parametrize("net", ["alexnet", "resnet50", "wide-deep-criteo", "gpt2-345m"])
def test_issue_slots_of_every_operator_are_shared_out_and_say_what_its_time_does(net):
    """Shares of a top-down view add up to 1; a dense layer of one row waits for memory, as the document found."""
    j = job("xeon-e5-2650", net, tile=(1,))
    cost = family.price(j)
    shares = [cost.counters[f"{name}_share"] for name in ("retiring", "core", "memory", "runtime")]
    took = cost.seconds.sum(1)
    assert sum(shares)[took > 0] == pytest.approx(1.0)
    assert all((share >= -1e-12).all() for share in shares)
    width = j.device.cpu.issue_width.si
    assert cost.counters["instructions_per_cycle"] == pytest.approx(width * shares[0])
    assert cost.counters["dram_lines"] @ [op.layers for op in j.ops] * 64 == pytest.approx(cost.offchip.sum())
    mean = (cost.counters["instructions_per_cycle"] * took).sum() / took.sum()
    whole = family.instructions_per_cycle(j)
    assert mean == pytest.approx(whole, rel=0.15)
    if net == "alexnet":
        by_name = dict(zip((op.name for op in j.ops), zip(*shares, strict=True), strict=True))
        assert by_name["fc6"][2] > 0.5 > by_name["conv3"][2]
