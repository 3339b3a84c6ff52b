"""Deep learning recommendation model (Naumov 2019): bags of embeddings and a bottom MLP, interaction, top MLP.

Its second version crosses features in layers of low rank instead (DCN v2, Wang et al. 2021). Beside it Wide & Deep: a
linear part over hashed categories beside an MLP over their embeddings (Cheng 2016).
"""

from model_zoo.families.blocks import ROW, Block, bag, forward, gather
from model_zoo.families.family import Params
from model_zoo.ops import Dim, Graph, Op
from model_zoo.schema import WorkloadError


def _interaction(block: Block, kind: str, tables: int, width: int, bottom: str) -> tuple[str, int]:
    """What the embeddings hand to the top MLP, and its width.

    "dot" multiplies all tables + 1 vectors by each other (the whole square is computed, as libraries do) and keeps
    the products below the diagonal beside the bottom MLP's output; "cat" only concatenates.
    """
    vectors = tables + 1
    block.move("concat", "Concat", vectors * width, "embedding", bottom, shard="none")
    if kind == "cat":
        return "concat", vectors * width
    pairs = vectors * (vectors - 1) // 2
    block.move("transpose", "Transpose", vectors * width, "concat", shard="none")
    sides, concat = Dim(vectors), ROW * (vectors * width)
    block.matmul("interaction", ROW, sides, sides, Dim(width), "concat", "transpose", reads=concat * 2.0, shard="none")
    return block.move("select", "Concat", pairs + width, "interaction", bottom, shard="none"), pairs + width


def _cross(block: Block, layers: int, rank: int, wide: int, bottom: str) -> str:
    """Layers that multiply all `wide` elements by a product of low rank of them.

    Each is x0 * (U V x + b) + x, with V of ``rank`` rows.
    """
    last = block.move("concat", "Concat", wide, "embedding", bottom, shard="none")
    for at in range(1, layers + 1):
        down = block.linear(f"cross{at}-down", wide, rank, last)
        up = block.linear(f"cross{at}-up", rank, wide, down)
        last = block.vector(f"cross{at}", "Mul", wide, "concat", up, last if at > 1 else "", operands=3)
    return last


def build(params: Params) -> Graph:
    tables = params.whole("tables", 1, 65536)
    rows = params.whole("rows", 1)
    width = params.whole("width", 1, 65536)
    lookups = params.number("lookups", 1, 1e6)
    bottom = params.sizes("bottom", min_length=2, high=1_048_576)
    top = params.sizes("top", min_length=1, high=1_048_576)
    kind = params.word("interaction", ("dot", "cat", "cross"))
    if bottom[-1] != width:
        raise WorkloadError(f"parameter 'bottom' ends with {bottom[-1]}; it must end with the tables' width {width}")
    block = Block(group="bottom")
    block.append(bag("embedding", ROW, lookups, rows, width, group="sparse", layers=tables))
    lower = block.mlp("bottom", bottom, last="Relu")
    block.group = "interaction"
    if kind == "cross":
        layers, rank = params.whole("cross_layers", 1, 64), params.whole("cross_rank", 1, 65536)
        fan_in = (tables + 1) * width
        source = _cross(block, layers, rank, fan_in, lower)
    else:
        source, fan_in = _interaction(block, kind, tables, width, lower)
    block.group = "top"
    block.mlp("top", (fan_in, *top), source, last="Sigmoid")
    return forward(
        block.ops, "item", ROW * (bottom[0] + tables * lookups), ROW * top[-1], input_indices=ROW * (tables * lookups)
    )


def build_wide_and_deep(params: Params) -> Graph:
    numeric = params.whole("numeric", 0, 65536)
    fields = params.whole("categorical", 1, 65536)
    buckets = params.whole("buckets", 2, 2**33)
    width = params.whole("width", 1, 65536)
    hidden = params.sizes("hidden", min_length=1, high=1_048_576)
    ids = ROW * fields
    deep_width = numeric + fields * width
    block = Block(group="preprocess")
    hash_op = Op("hash", "Hash", block.group, reads=ids, writes=ids, flops=ids, shard="elements", quantisable=False)
    block.append(hash_op)
    if numeric:
        block.vector("normalise", "Mul", numeric, operations=2, stored=2.0 * numeric)
    block.append(gather("deep-embedding", ids, fields * buckets, width, group="embedding", inputs=("hash",)))
    block.group = "deep"
    block.move("concat", "Concat", deep_width, "normalise", "deep-embedding", shard="none")
    deep = block.mlp("fc", (deep_width, *hidden, 1), "concat")
    block.group = "wide"
    block.append(gather("wide-embedding", ids, fields * buckets, 1, group="wide", inputs=("hash",)))
    terms = [deep, block.vector("wide-sum", "ReduceSum", ids, "wide-embedding", writes=ROW, shard="none")]
    if numeric:
        terms.append(block.linear("wide-numeric", numeric, 1, "normalise", bias=False, shard="none"))
    block.group = "head"
    block.vector("add", "Add", 1, *terms, operands=len(terms), operations=len(terms) - 1)
    block.vector("sigmoid", "Sigmoid", 1, "add")
    return forward(block.ops, "sample", ROW * (numeric + fields), ROW, input_indices=ids)
