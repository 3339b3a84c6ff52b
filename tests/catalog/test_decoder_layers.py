"""Layers of a decoder by kind: what each counts, keeps and shares, from the mathematics written down here again."""

import math
from typing import Any

import pytest

from model_zoo.families import FAMILIES, build_graph
from model_zoo.ops import Graph, Op
from model_zoo.schema import WorkloadError

PLAIN = {
    "hidden": 96,
    "layers": 4,
    "heads": 6,
    "kv_heads": 2,
    "head_dim": 16,
    "ffn": 128,
    "vocab": 50,
    "position": "rotary",
    "feed_forward": "gated",
    "norm": "rms",
    "bias": "none",
    "lm_head": "own",
}
LATENT = PLAIN | {"kv_heads": 0, "kv_rank": 32, "q_rank": 24, "rope_dim": 8, "v_dim": 12}
EXPERTS = {"experts": 8, "top_k": 2, "ffn": 64}
DELTA = {"linear_heads": 2, "linear_value_heads": 4, "linear_dim": 16, "linear_value_dim": 20}
MAMBA = {"ssm_heads": 8, "ssm_dim": 24, "ssm_state": 16, "ssm_groups": 2}


def decoder(**more: Any) -> Graph:
    return build_graph(FAMILIES["transformer-decoder"], PLAIN | more)


def ops_of(graph: Graph, phase: int = 0) -> dict[str, Op]:
    return {op.name: op for op in graph.phases[phase].ops}


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "windows": {"mixers": "wf", "window": 8},
    "chunks": {"mixers": "ccf", "chunk": 8},
    "latent": LATENT,
    "sparse": LATENT | {"index_heads": 2, "index_dim": 8, "index_top_k": 8},
    "experts": EXPERTS | {"dense_layers": 1, "dense_ffn": 200, "shared_ffn": 64, "shared_gate": "yes"},
    "delta": DELTA | {"mixers": "dddf", "query_gate": "yes", "head_norm": "rms"},
    "kimi-delta": DELTA | {"mixers": "df", "linear_heads": 4, "linear_dim": 20, "linear_gate_rank": 8},
    "mamba2": MAMBA | {"mixers": "mnf", "feeds": "ndn", "layers": 6},
    "mamba1": {"mixers": "sf", "ssm_dim": 192, "ssm_state": 4, "ssm_rank": 6, "ssm_norm": "yes"},
    "linear": {"mixers": "lf", "kv_heads": 6},
    "by-layer": {"kv_heads": [2, 3, 6], "ffn": [0, 128, 64]},
    "images": {
        "tower_layers": 3, "tower_hidden": 32, "tower_heads": 4, "tower_patch": 48, "tower_patches": 64,
        "tower_window": 16, "tower_full_layers": 1, "projector": [128, 96], "image_tokens": 16, "images": 2,
    },
    "audio": {"kv_heads": 0, "encoder_layers": 2, "encoder_tokens": 30, "encoder_channels": 8},
    "translation": {"kv_heads": 0, "encoder_layers": 2, "position": "none"},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_both_passes_hold_the_same_parameters(kind: str) -> None:
    """Every operator of a decoding pass is one of the first's, with the same parameters, so nothing counts twice."""
    graph = decoder(**KINDS[kind])
    first = ops_of(graph)
    for phase in graph.phases[1:]:
        for op in phase.ops:
            assert (op.stored, op.layers) == (first[op.name].stored, first[op.name].layers), op.name
    for phase in graph.phases:
        seen: set[str] = set()
        for op in phase.ops:
            assert set(op.inputs) <= seen, op.name
            assert op.name not in seen
            seen.add(op.name)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_to_the_cache_is_what_is_kept(kind: str) -> None:
    """Up to the shortest window, the cache is what every token appended."""
    graph = decoder(**KINDS[kind])
    appended = {
        op.name: op.state_writes.coef * op.layers
        for phase in graph.phases
        for op in phase.ops
        if op.state_writes.coef and op.state_writes.s
    }
    grows = sum(term.coef for term in graph.state_elements.terms if term.c)
    assert grows == sum(appended.values())


def test_a_window_of_the_whole_context_is_full_attention() -> None:
    """To the last count; beyond the window, only what looks at the context stops growing."""
    full, narrow = decoder(), decoder(mixers="w", window=64)
    for context in (1, 63, 64):
        for one, other in zip(full.phases[1].ops, narrow.phases[1].ops, strict=True):
            at = (3, 1, context)
            assert one.flops.at(*at) == other.flops.at(*at)
            assert one.state_reads.at(*at) == other.state_reads.at(*at)
    assert narrow.state_elements.at(1, 1, 500) == narrow.state_elements.at(1, 1, 64) == full.state_elements.at(1, 1, 64)
    assert full.state_elements.at(1, 1, 500) > full.state_elements.at(1, 1, 64)


def test_layers_of_two_kinds_are_counted_apart() -> None:
    """Five in six layers with a window, as Gemma 3 has them: the cache grows with the sixth alone."""
    graph = decoder(mixers="wwwwwf", window=8, layers=13)
    each = 2 * 2 * 16
    assert graph.state_elements.at(1, 1, 1000) == each * (2 * 1000 + 11 * 8)
    ops = ops_of(graph)
    assert (ops["scores-window"].layers, ops["scores-full"].layers) == (11, 2)
    assert (ops["scores-window"].cap, ops["scores-full"].cap) == (8, math.inf)


def test_a_latent_is_cached_once_for_all_heads() -> None:
    graph = decoder(**LATENT)
    assert graph.state_elements.at(1, 1, 10) == 4 * 10 * (32 + 8)
    prefill, decode = ops_of(graph), ops_of(graph, 1)
    # the textbook form multiplies every head's own keys, the absorbed one the latent itself
    assert prefill["scores"].macs(1, 5, 5) == 6 * 5 * 5 * (16 + 8)
    assert decode["scores"].macs(1, 1, 5) == 6 * 5 * (32 + 8)
    assert decode["context"].macs(1, 1, 5) == 6 * 5 * 32
    assert decode["k-up"].macs(1, 1, 5) == 6 * 16 * 32
    assert decode["scores"].state_reads.at(1, 1, 5) == 5 * (32 + 8)
    own = 96 * (24 + 32 + 8) + 24 * 6 * (16 + 8) + 32 * 6 * (16 + 12) + 6 * 12 * 96 + 24 + 32
    assert sum(op.stored for op in graph.phases[0].ops if op.group == "self-attention") == own


def test_a_sparse_choice_bounds_what_attention_reads_and_not_what_the_indexer_does() -> None:
    graph = decoder(**KINDS["sparse"])
    decode = ops_of(graph, 1)
    assert decode["scores"].state_reads.at(1, 1, 500) == 8 * (32 + 8)
    assert decode["index-scores"].state_reads.at(1, 1, 500) == 500 * 8
    # a prompt's queries choose keys of their own; the whole cache is read at least once
    prefill = ops_of(graph)
    assert prefill["scores"].macs(1, 100, 100) == 6 * 100 * 8 * (32 + 8)
    assert prefill["scores"].state_reads.at(1, 100, 100) == 100 * (32 + 8)
    assert graph.state_elements.at(1, 1, 500) == 4 * 500 * (32 + 8 + 8)


def test_a_state_does_not_grow() -> None:
    for kind in ("delta", "mamba2", "mamba1", "linear"):
        graph = decoder(**KINDS[kind])
        without = decoder(**(KINDS[kind] | {"mixers": KINDS[kind]["mixers"].replace("f", "n"), "feeds": ""}))
        assert without.state_elements.at(1, 1, 10) == without.state_elements.at(1, 1, 10_000) > 0
        assert graph.state_elements.c
        for op in graph.phases[1].ops:
            if op.group in ("linear-attention", "state-space"):
                assert op.flops.at(2, 1, 10) == op.flops.at(2, 1, 10_000), op.name


def test_the_work_of_a_delta_rule_a_token() -> None:
    """k S, k (v - k S) and q S: three products of the state with a vector, and the decay of the state."""
    ops = ops_of(decoder(**KINDS["delta"]), 1)
    products = sum(ops[f"state-{name}-delta"].macs(1, 1, 1) for name in ("retrieve", "update", "read"))
    assert products == 3 * 4 * 16 * 20
    assert ops["state-decay-delta"].flops.at() == 4 * 16 * 20
    assert ops["state-decay-delta"].state_reads.at() == ops["state-update-delta"].state_writes.at() == 2 * 4 * 16 * 20


def test_parameters_of_each_kind_of_layer() -> None:
    stored = {name: decoder(**more).parameters for name, more in KINDS.items()}
    attention = 96 * (6 + 2 * 2) * 16 + 6 * 16 * 96
    dense, ends = 3 * 96 * 128, 2 * 50 * 96 + 96
    assert stored["plain"] == ends + 4 * (attention + dense + 2 * 96)
    assert stored["windows"] == stored["chunks"] == stored["plain"]
    routed = 8 * 3 * 96 * 64 + 96 * 8 + 3 * 96 * 64 + 96
    assert stored["experts"] == ends + 4 * (attention + 2 * 96) + 3 * 96 * 200 + 3 * routed
    mixer = 96 * (192 + (192 + 64) + 8) + (192 + 64) * 5 + 3 * 8 + 192 + 192 * 96
    assert stored["mamba2"] == ends + 2 * (mixer + 96) + 2 * (dense + 96) + 2 * (attention + 96)


def test_an_image_stands_before_the_words() -> None:
    graph, bare = decoder(**KINDS["images"]), decoder(**(KINDS["images"] | {"images": 0}))
    assert graph.phases[0].length.at(100, 1) == 132
    assert bare.phases[0].length.at(100, 1) == 100
    ops = ops_of(graph)
    assert ops["scores-image"].macs(1) == 4 * 128 * 64 * 8
    assert ops["scores-image-window"].macs(1) == 4 * 128 * 16 * 8
    assert not any("image" in op.name for op in graph.phases[1].ops)


def test_what_answers_an_encoder_attends_to_it() -> None:
    graph = decoder(**KINDS["translation"])
    first, decode, cross = graph.phases
    at = (1, first.length.at(40, 9), first.context.at(40, 9))
    ops = ops_of(graph)
    assert ops["scores-encoder"].macs(*at) == 6 * 40 * 40 * 16
    assert ops["scores"].macs(*at) == 6 * 16  # the decoder begins with one token
    assert ops["cross-scores"].macs(*at) == 6 * 40 * 16
    assert (cross.context.at(40, 9), decode.context.at(40, 9)) == (40, 4.5)
    assert {op.name for op in decode.ops} | {op.name for op in cross.ops} < set(ops)
    heard = decoder(**KINDS["audio"])
    assert ops_of(heard, 1)["cross-scores"].macs(1, 1, 7) == 6 * 30 * 16


def test_formats_of_a_checkpoint_name_what_they_hold() -> None:
    narrow = {
        word: {
            op.name for op in decoder(**KINDS["experts"], quantised=word).phases[0].ops if op.quantisable and op.stored
        }
        for word in ("all", "linear", "feed-forward", "experts")
    }
    assert narrow["all"] > narrow["linear"] > narrow["feed-forward"] > narrow["experts"]
    assert "lm-head" in narrow["all"] - narrow["linear"]
    assert "qkv-experts" not in narrow["feed-forward"]
    assert {name.split("-experts")[0] for name in narrow["experts"]} == {"gate-up", "down"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"mixers": "x"}, "'mixers' is 'x'"),
        ({"mixers": "w"}, "'window' is 0"),
        ({"mixers": "n", "feeds": "n"}, "leave no layer"),
        ({"feeds": "e"}, "'experts'"),
        ({"kv_heads": [2, 5]}, "'kv_heads' is 5; it must divide the 6 heads"),
        ({"index_top_k": 8}, "'index_top_k' is 8"),
        (DELTA | {"mixers": "d", "linear_heads": 3}, "'linear_heads' is 3"),
        (MAMBA | {"mixers": "m", "ssm_groups": 3}, "'ssm_groups' is 3"),
        (KINDS["images"] | {"tower_heads": 5}, "'tower_heads' is 5"),
        ({"encoder_layers": 1, "encoder_channels": 8}, "'encoder_channels'"),
    ],
)
def test_what_does_not_go_together_is_said(more: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError, match=said.replace("[", r"\[")):
        decoder(**more)
