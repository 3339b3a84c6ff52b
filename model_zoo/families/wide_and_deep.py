"""Wide & Deep recommender: a linear part over hashed categories beside an MLP over their embeddings (Cheng 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model_zoo.families.blocks import elementwise, gather, linear, mlp_chain, move
from model_zoo.families.family import NetworkFamily, Params
from model_zoo.ops import Graph, Op, Phase, dim


def _build(values: Mapping[str, Any]) -> Graph:
    params = Params(values)
    numeric = params.whole("numeric", 0, 65536)
    fields = params.whole("categorical", 1, 65536)
    buckets = params.whole("buckets", 2, 2**33)
    width = params.whole("width", 1, 65536)
    hidden = params.sizes("hidden", least=1, high=1_048_576)
    sample = dim(1, "b")
    ids = sample * fields
    deep_width = numeric + fields * width
    hashed = Op(
        name="hash",
        kind="Hash",
        group="preprocess",
        reads=ids,
        writes=ids,
        flops=ids,
        shard="elements",
        quantisable=False,
    )
    normalise = elementwise(
        "normalise", "Mul", sample * numeric, group="preprocess", operations=2, stored=2.0 * numeric
    )
    deep_rows = gather("deep-embedding", ids, fields * buckets, width, group="embedding", inputs=("hash",))
    wide_rows = gather("wide-embedding", ids, fields * buckets, 1, group="wide", inputs=("hash",))
    concat = move(
        "concat", "Concat", sample * deep_width, group="deep", inputs=("normalise", "deep-embedding"), shard="none"
    )
    deep = mlp_chain("fc", sample, (deep_width, *hidden, 1), group="deep", inputs=("concat",))
    ops: list[Op] = [hashed, *([normalise] if numeric else []), deep_rows, concat, *deep, wide_rows]
    ops.append(
        elementwise(
            "wide-sum", "ReduceSum", ids, group="wide", inputs=("wide-embedding",), written=sample, shard="none"
        )
    )
    merged = [deep[-1].name, "wide-sum"]
    if numeric:
        ops.append(
            linear("wide-numeric", sample, numeric, 1, group="wide", inputs=("normalise",), bias=False, shard="none")
        )
        merged.append("wide-numeric")
    ops.append(
        elementwise("add", "Add", sample, group="head", inputs=merged, operands=len(merged), operations=len(merged) - 1)
    )
    ops.append(elementwise("sigmoid", "Sigmoid", sample, group="head", inputs=("add",)))
    return Graph(
        phases=(Phase("forward", tuple(ops)),),
        unit="sample",
        input_elements=sample * (numeric + fields),
        output_elements=sample,
        input_indices=ids,
    )


FAMILY = NetworkFamily(
    name="wide-and-deep",
    build=_build,
    required=("numeric", "categorical", "buckets", "width", "hidden"),
    defaults={},
    adjustable={
        "buckets": ("Hash buckets of a field", 2, 1e9),
        "width": ("Width of an embedding", 1, 1024),
    },
)
