"""Deep learning recommendation model (Naumov 2019): bags of embeddings and a bottom MLP, interaction, top MLP.

Its second version crosses features in layers of low rank instead (DCN v2, Wang et al. 2021).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model_zoo.families.blocks import bag, elementwise, linear, matmul, mlp_chain, move
from model_zoo.families.family import NetworkFamily, Params
from model_zoo.ops import Dim, Graph, Op, Phase, dim
from model_zoo.schema import WorkloadError


def _interaction(kind: str, tables: int, width: int, bottom: str) -> tuple[list[Op], int]:
    """Ops between the embeddings and the top MLP, and the width they hand to it.

    "dot" multiplies all tables + 1 vectors by each other (the whole square is computed, as libraries do) and keeps
    the products below the diagonal beside the bottom MLP's output; "cat" only concatenates.
    """
    sample, vectors = dim(1, "b"), tables + 1
    joined = sample * (vectors * width)
    ops = [move("concat", "Concat", joined, group="interaction", inputs=("embedding", bottom), shard="none")]
    if kind == "cat":
        return ops, vectors * width
    pairs = vectors * (vectors - 1) // 2
    ops.append(move("transpose", "Transpose", joined, group="interaction", inputs=("concat",), shard="none"))
    product = matmul(
        "interaction",
        sample,
        Dim(vectors),
        Dim(vectors),
        Dim(width),
        group="interaction",
        reads=joined * 2.0,
        inputs=("concat", "transpose"),
        shard="none",
    )
    handed = sample * (pairs + width)
    pick = move("select", "Concat", handed, group="interaction", inputs=("interaction", bottom), shard="none")
    return [*ops, product, pick], pairs + width


def _cross(layers: int, rank: int, vectors: int, width: int, bottom: str) -> tuple[list[Op], int]:
    """Layers that multiply all vectors by a product of low rank of them, and the width that the last hands on.

    Each is x0 * (U V x + b) + x, with V of ``rank`` rows.
    """
    sample, wide = dim(1, "b"), vectors * width
    ops = [move("concat", "Concat", sample * wide, group="interaction", inputs=("embedding", bottom), shard="none")]
    for at in range(1, layers + 1):
        names = f"cross{at}-down", f"cross{at}-up", f"cross{at}"
        ops.append(linear(names[0], sample, wide, rank, group="interaction", inputs=(ops[-1].name,)))
        ops.append(linear(names[1], sample, rank, wide, group="interaction", inputs=(names[0],)))
        joined = ("concat", names[1], *(() if at == 1 else (f"cross{at - 1}",)))
        ops.append(elementwise(names[2], "Mul", sample * wide, group="interaction", inputs=joined, operands=3))
    return ops, wide


def _build(values: Mapping[str, Any]) -> Graph:
    params = Params(values)
    tables = params.whole("tables", 1, 65536)
    rows = params.whole("rows", 1)
    width = params.whole("width", 1, 65536)
    lookups = params.number("lookups", 1, 1e6)
    bottom = params.sizes("bottom", least=2, high=1_048_576)
    top = params.sizes("top", least=1, high=1_048_576)
    kind = params.word("interaction", ("dot", "cat", "cross"))
    if bottom[-1] != width:
        raise WorkloadError(f"parameter 'bottom' ends with {bottom[-1]}; it must end with the tables' width {width}")
    sample = dim(1, "b")
    embedding = bag("embedding", sample, lookups, rows, width, group="sparse", layers=tables)
    lower = mlp_chain("bottom", sample, bottom, group="bottom", last="Relu")
    if kind == "cross":
        layers, rank = params.whole("cross_layers", 1, 64), params.whole("cross_rank", 1, 65536)
        between, handed = _cross(layers, rank, tables + 1, width, lower[-1].name)
    else:
        between, handed = _interaction(kind, tables, width, lower[-1].name)
    upper = mlp_chain("top", sample, (handed, *top), group="top", inputs=(between[-1].name,), last="Sigmoid")
    return Graph(
        phases=(Phase("forward", (embedding, *lower, *between, *upper)),),
        unit="item",
        input_elements=sample * (bottom[0] + tables * lookups),
        output_elements=sample * top[-1],
        input_indices=sample * (tables * lookups),
    )


FAMILY = NetworkFamily(
    name="dlrm",
    build=_build,
    required=("tables", "rows", "width", "lookups", "bottom", "top"),
    defaults={"interaction": "dot", "cross_layers": 3, "cross_rank": 512},
    input_label="Items a request",
    adjustable={
        "tables": ("Embedding tables", 1, 4096),
        "rows": ("Rows of a table", 1, 1e10),
        "lookups": ("Lookups of a table and item", 1, 10_000),
    },
)
