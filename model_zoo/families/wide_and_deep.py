"""Wide & Deep recommender: a linear part over hashed categories beside an MLP over their embeddings (Cheng 2016)."""

from model_zoo.families.blocks import ROW, Block, forward, gather
from model_zoo.families.family import Params
from model_zoo.ops import Graph, Op


def build(params: Params) -> Graph:
    numeric = params.whole("numeric", 0, 65536)
    fields = params.whole("categorical", 1, 65536)
    buckets = params.whole("buckets", 2, 2**33)
    width = params.whole("width", 1, 65536)
    hidden = params.sizes("hidden", least=1, high=1_048_576)
    ids = ROW * fields
    deep_width = numeric + fields * width
    block = Block(group="preprocess")
    hashed = Op("hash", "Hash", block.group, reads=ids, writes=ids, flops=ids, shard="elements", quantisable=False)
    block.append(hashed)
    if numeric:
        block.each("normalise", "Mul", numeric, operations=2, stored=2.0 * numeric)
    block.append(gather("deep-embedding", ids, fields * buckets, width, group="embedding", inputs=("hash",)))
    block.group = "deep"
    block.move("concat", "Concat", deep_width, "normalise", "deep-embedding", shard="none")
    deep = block.mlp("fc", (deep_width, *hidden, 1), "concat")
    block.group = "wide"
    block.append(gather("wide-embedding", ids, fields * buckets, 1, group="wide", inputs=("hash",)))
    merged = [deep, block.each("wide-sum", "ReduceSum", ids, "wide-embedding", written=ROW, shard="none")]
    if numeric:
        merged.append(block.linear("wide-numeric", numeric, 1, "normalise", bias=False, shard="none"))
    block.group = "head"
    block.each("add", "Add", 1, *merged, operands=len(merged), operations=len(merged) - 1)
    block.each("sigmoid", "Sigmoid", 1, "add")
    return forward(block.ops, "sample", ROW * (numeric + fields), ROW, input_indices=ids)
