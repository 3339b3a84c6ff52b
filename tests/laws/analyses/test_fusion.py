"""Depth-first execution: nothing is lost or counted twice, tiles fit, traffic falls, who gains is as reported."""

import time
from dataclasses import replace

import pytest

from engine.analyses.depth_first import chains, compare, depth_first, eager, fusable, tile_cache
from engine.resolve.bind import bind
from engine.resolve.presets import preset
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from model_zoo.ops import Dim, Op, Phase

NETS = ("alexnet", "vgg16", "resnet152", "densenet161", "mobilenet-v1", "mobilenet-v2", "efficientnet-b0")
CACHE = 256 * 1024.0


def phase(net: str):
    return eager(default_zoo().graph(net).phases[0])


def work(ops) -> float:
    return sum(op.flops.at(3) * op.layers for op in ops)


@pytest.mark.parametrize("net", NETS)
def test_work_and_parameters_are_conserved(net):
    before, after = phase(net), depth_first(phase(net), CACHE)
    assert work(after.ops) == pytest.approx(work(before.ops), rel=1e-12)
    assert sum(op.stored * op.layers for op in after.ops) == pytest.approx(
        sum(op.stored * op.layers for op in before.ops)
    )
    dense = [op.name for op in before.ops if not fusable(op)]
    assert [op.name for op in after.ops if op.name in set(dense)] == dense


@pytest.mark.parametrize("net", NETS)
def test_every_input_comes_first_so_no_group_waits_for_itself(net):
    after = depth_first(phase(net), CACHE).ops
    made: set[str] = set()
    names = {op.name for op in after}
    for op in after:
        assert all(name in made for name in op.inputs if name in names), op.name
        made.add(op.name)
    known = {op.name for op in phase(net).ops}
    assert not [name for op in after for name in op.inputs if name in known - names], "an input was lost"


@pytest.mark.parametrize("net", NETS)
def test_chains_are_disjoint_fit_their_tile_and_move_less(net):
    found = chains(phase(net), CACHE)
    seen: set[str] = set()
    assert found
    for chain in found:
        assert len(chain.ops) > 1
        assert not seen & set(chain.ops)
        seen |= set(chain.ops)
        assert 0 < chain.tile_bytes <= CACHE * (1 + 1e-9)
        assert chain.rows >= 1
        assert 0 <= chain.halo < 1
        assert 0 < chain.after.coef < chain.before.coef


def test_traffic_of_alexnet_s_first_chain_by_hand():
    first = chains(phase("alexnet"), 1e9)[0]
    assert first.ops == ("conv1-relu", "norm1", "pool1")
    assert first.before.coef == 2 * 290400 + 2 * 290400 + 290400 + 69984
    assert first.after.coef == 290400 + 69984
    assert first.halo == 0  # the whole image is one tile


def test_a_larger_cache_never_moves_more_and_a_tiny_one_fuses_nothing():
    for net in ("alexnet", "mobilenet-v1", "densenet161"):
        moved = []
        for cache in (2**14, 2**16, 2**18, 2**22):
            p = phase(net)
            saved = sum(c.before.coef - c.after.coef for c in chains(p, float(cache)))
            moved.append(sum(op.reads.coef + op.writes.coef for op in p.ops) - saved)
        assert moved == sorted(moved, reverse=True)
        assert chains(phase(net), 4.0) == ()
        assert depth_first(phase(net), 4.0).ops == phase(net).ops


def test_normalisation_is_unfolded_where_the_network_has_it():
    count = {net: sum(op.kind == "BatchNormalization" for op in phase(net).ops) for net in NETS}
    assert count["alexnet"] == count["vgg16"] == 0
    assert count["resnet152"] == 155  # one for each convolution
    assert count["mobilenet-v1"] == 27


def test_who_gains_most_on_each_part_is_as_the_document_reports():
    """That MobileNet gains more on the ARM than on the GPU is not predicted: 5G-071 misses, with its reason."""
    catalog, zoo = default_catalog(), default_zoo()
    nets = ("alexnet", "vgg16", "resnet152", "densenet161", "mobilenet-v1")
    gpu, arm = catalog.device("v100-32gb"), catalog.device("arm-edge-cpu")
    on_gpu = {net: compare(gpu, zoo.graph(net), 128) for net in nets}
    on_arm = {net: compare(arm, zoo.graph(net), 1) for net in nets}
    for one in (*on_gpu.values(), *on_arm.values()):
        assert one.speedup > 1
        assert one.depth_bytes < one.breadth_bytes
    ranked = sorted(nets, key=lambda net: -on_gpu[net].speedup)
    assert set(ranked[:2]) == {"mobilenet-v1", "densenet161"}
    assert max(nets, key=lambda net: on_arm[net].speedup) == "mobilenet-v1"


def test_tile_cache_is_one_core_s_own():
    catalog = default_catalog()
    assert tile_cache(catalog.device("xeon-8280l")) == 2**20
    assert tile_cache(catalog.device("arm-edge-cpu")) == 2**19  # a quarter of the shared one


def test_eager_names_are_unique_and_no_operator_reads_itself_or_a_later_one():
    """The card's compiler unfolds normalisation of 3-D networks itself; unfolded again, 104 operators read themselves
    and a walk to their channels never ended."""
    graph = bind(preset("node-video").scenario).graph
    for plain in (graph.phases[0], default_zoo().graph("mobilenet-v1").phases[0], named_like_added()):
        ops = eager(plain).ops
        assert len({op.name for op in ops}) == len(ops)
        before: set[str] = set()
        every = {op.name for op in ops}
        for op in ops:
            assert not set(op.inputs) & (every - before), op.name
            before.add(op.name)


def named_like_added() -> Phase:
    """A network whose own operators are called as the added ones would be."""
    attributes = (("normalised", 1.0), ("filters", 8.0), ("kernel", 3.0))
    conv = Op(
        "c",
        "Conv",
        "net",
        g=Dim(8.0),
        m=Dim(64.0, b=1),
        n=Dim(1.0),
        k=Dim(9.0),
        writes=Dim(512.0, b=1),
        reads=Dim(512.0, b=1),
        attributes=attributes,
    )
    own = (replace(conv, name=name, inputs=("c",)) for name in ("c-norm", "c-im2col"))
    return Phase("forward", (conv, *own))


@pytest.mark.parametrize("depth", [40, 4000])
def test_nested_concats_take_a_pass_each(depth):
    """Each level reads the one before twice: 2^40 ways down, walked one by one before."""
    ops = [
        Op(
            "c0",
            "Conv",
            "net",
            m=Dim(64.0, b=1),
            n=Dim(8.0),
            k=Dim(9.0),
            reads=Dim(512.0, b=1),
            writes=Dim(512.0, b=1),
            attributes=(("filters", 8.0),),
        )
    ]
    for i in range(1, depth):
        ops.append(Op(f"c{i}", "Concat", "net", (f"c{i - 1}",) * 2, reads=Dim(512.0, b=1), writes=Dim(512.0, b=1)))
    start = time.thread_time()
    assert chains(Phase("forward", tuple(ops)), CACHE)
    assert time.thread_time() - start < 5
