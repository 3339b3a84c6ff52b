"""Op counts of encoders against small ones that are really run: distances, bottlenecks, groups, a decoder beside."""

from collections import Counter

import numpy as np
import pytest

from model_zoo import FAMILIES, Graph, WorkloadError
from model_zoo.families import build_graph
from tests.catalog.test_counts import ZOO, macs_of, matrix_product, ops_of, weights

HIDDEN, HEADS, LAYERS, FFN, VOCAB, TOKENS = 8, 2, 2, 12, 11, 3
HEAD = HIDDEN // HEADS


def graph_of(**params) -> Graph:
    usual = {"hidden": HIDDEN, "heads": HEADS, "layers": LAYERS, "ffn": FFN, "vocab": VOCAB}
    return build_graph(FAMILIES["transformer-encoder"], usual | params)


def run_attention(tally: Counter, prefix: str, query, key, value, width: int, groups: int = 1, distances: int = 0):
    """One layer's attention by loops, each pair of tokens with the embedding of its own distance."""

    def project(x, name):
        return run_product(tally, f"{prefix}{name}", x, width, groups)

    q, k, v = project(query, "query"), project(key, "key"), project(value, "value")
    tokens, head, out = len(q), width // HEADS, np.zeros_like(q)
    apart = [
        matrix_product(weights(2 * tokens, width), weights(width, width), tally, f"{side}-distances")
        for side in ("query", "key")[:distances]
    ]
    for h in range(HEADS):
        part = slice(h * head, (h + 1) * head)
        scores = matrix_product(q[:, part], k[:, part].T, tally, f"{prefix}scores")
        for side, x, embedded in zip(("query", "key"), (q, k), apart, strict=False):
            wide = matrix_product(x[:, part], embedded[:, part].T, tally, f"{side}-distance-scores")
            pairs = np.array([[wide[i, tokens + i - j] for j in range(tokens)] for i in range(tokens)])
            scores = scores + (pairs if side == "query" else pairs.T)
        out[:, part] = matrix_product(scores, v[:, part], tally, f"{prefix}context")
    return matrix_product(out, weights(width, width), tally, f"{prefix}attention-out")


def run_product(tally: Counter, name: str, x: np.ndarray, width: int, groups: int = 1) -> np.ndarray:
    parts = np.split(x, groups, axis=1)
    return np.hstack([matrix_product(p, weights(p.shape[1], width // groups), tally, name) for p in parts])


def run_feed_forward(tally: Counter, prefix: str, x: np.ndarray, groups: int = 1) -> np.ndarray:
    return run_product(tally, f"{prefix}fc2", run_product(tally, f"{prefix}fc1", x, FFN, groups), x.shape[1], groups)


@pytest.mark.parametrize("distances", [1, 2])
def test_heads_that_multiply_with_distances(distances):
    tally: Counter = Counter()
    for _ in range(LAYERS):
        x = weights(TOKENS, HIDDEN)
        run_feed_forward(tally, "", run_attention(tally, "", x, x, x, HIDDEN, distances=distances))
    graph = graph_of(distances=distances, context=6)
    assert macs_of(graph, TOKENS, 1) == tally
    pairs = ops_of(graph)["query-distance-pairs"]
    assert pairs.writes.at(1, TOKENS, TOKENS) == HEADS * TOKENS * TOKENS
    shared = graph_of(distances=distances, context=6, distance_weights="shared")
    assert graph.parameters - shared.parameters == LAYERS * distances * HIDDEN * HIDDEN


def test_products_of_groups_and_norms_around_which_they_are_laid_out_anew():
    tally: Counter = Counter()
    for _ in range(LAYERS):
        x = weights(TOKENS, HIDDEN)
        run_feed_forward(tally, "", run_attention(tally, "", x, x, x, HIDDEN, groups=2), groups=2)
    grouped, whole = graph_of(groups=2), graph_of()
    assert macs_of(grouped, TOKENS, 1) == tally
    matrices = 3 * HIDDEN * HIDDEN + 2 * HIDDEN * FFN
    assert whole.parameters - grouped.parameters == LAYERS * matrices / 2
    moves = {op.name for op in grouped.ops if op.kind == "Transpose"} - {op.name for op in whole.ops}
    assert moves == {f"norm{n}-{side}" for n in (1, 2) for side in ("rows", "channels")}


def test_layers_in_a_bottleneck_with_several_feed_forward_networks():
    tally: Counter = Counter()
    narrow, embedding, window = 4, 2, 3
    table = weights(TOKENS, embedding * window)
    matrix_product(table, weights(embedding * window, HIDDEN), tally, "embedding-projection")
    for _ in range(LAYERS):
        x = weights(TOKENS, HIDDEN)
        y, shared = (matrix_product(x, weights(HIDDEN, narrow), tally, name) for name in ("narrow", "shared"))
        y = y + run_attention(tally, "", shared, shared, x, narrow)
        for n in (1, 2, 3):
            y = y + run_feed_forward(tally, f"ffn{n}-", y)
        matrix_product(y, weights(narrow, HIDDEN), tally, "widen")
    params = {"bottleneck": narrow, "feed_forwards": 3, "embedding": embedding, "embedding_window": window}
    assert macs_of(graph_of(**params), TOKENS, 1) == tally


def test_a_decoder_of_the_same_tokens_attends_to_them_and_to_the_encoder():
    tally: Counter = Counter()
    memory = weights(TOKENS, HIDDEN)
    for _ in range(LAYERS):
        x = weights(TOKENS, HIDDEN)
        run_feed_forward(tally, "", run_attention(tally, "", x, x, x, HIDDEN))
    for _ in range(3):
        x = weights(TOKENS, HIDDEN)
        x = run_attention(tally, "decoder-", x, x, x, HIDDEN)
        x = run_attention(tally, "decoder-cross-", x, memory, memory, HIDDEN)
        run_feed_forward(tally, "decoder-", x)
    graph = graph_of(decoder_layers=3)
    assert macs_of(graph, TOKENS, 1) == tally
    assert ops_of(graph)["decoder-token-embedding"].stored == 0, "both read one table"


def test_attention_that_no_quantiser_finds_stays_wide():
    wide = {op.name for op in ZOO.graph("xlnet-base").ops if op.contraction and not op.quantisable}
    assert wide == {"query", "key", "value", "query-distances", "attention-out"}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"groups": 3}, "'groups' is 3; it must divide 8 and 8 channels"),
        ({"groups": 8}, "'groups' is 8; it must divide 8 and 12 channels"),
        ({"bottleneck": 5}, "'heads' is 2; it must divide the hidden size 5"),
        ({"distances": 3}, "'distances' is 3; a whole number from 0 to 2"),
        ({"norm": "batch"}, "'norm' is 'batch'; allowed: layer, affine"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_in_one_sentence(params, expected):
    with pytest.raises(WorkloadError, match=expected):
        graph_of(**params)
