"""What the GPU's price reads off a phase's graph beside its table: who heads an attention, who rides in a kernel."""

from functools import lru_cache

import numpy as np

from engine.devices.common.kv_cache import CACHE_BITS
from model_zoo import table as T
from model_zoo.ops import LOOKUPS, Op, Phase, known_ahead, readers_of

ROLE, RIDES, KERNELS, VALUES, CACHED, EXPERTS, TOPK, HOISTS, TABLES, CACHE_BYTES = range(T.COLUMNS, T.COLUMNS + 10)
"""Columns behind those of `model_zoo.table`: what an operator is to its kernel; whether a compiler has it ride in
another's; kernels an eager framework runs it as; of scores, how wide a value is, and cached elements of values over
those of keys; of experts, how many and how many a token takes; whether every step's product of a recurrence is known
before its first step; alike tables that one call reads; of scores, bytes of an element of a cache in a format of its
own."""
COLUMNS = T.COLUMNS + 10
STREAM, PRODUCT, SCORES, EXPERT, ROUTER, COMBINE, ATTENDED, LAYOUT = map(float, range(8))
"""Values of ROLE: read and write once; a matrix product; the head of an attention; a product of experts; what picks
them, and what adds their results up; what the kernel of an attention or of experts does besides; a layout that
neighbours write or read in place."""

_EAGER = {"Concat": 2.0, "MatMul": 2.0, "Softmax": 5.0, "Add": 2.0}
"""Kernels an eager framework launches for an operator, one where a kind is not listed.

Counted along one layer of Megatron-LM at half precision, recalled: keys and values are concatenated apart; scores are
widened, scaled, masked, normalised and narrowed; products of attention also copy an operand into place; a residual adds
the bias of the projection before it. An assumption.
"""
_NORMS = frozenset({"LayerNormalization", "RMSNormalization"})
_LAYOUT = frozenset({"Transpose", "Concat", "Split", "Reshape"})


def _attentions(ops: tuple[Op, ...]) -> dict[str, tuple[Op, set[str]]]:
    """Scores by name: the product with the values, and everything the attention's kernel does besides them."""
    by_name = {op.name: op for op in ops}
    attentions = {}
    for soft in (op for op in ops if op.kind == "Softmax"):
        inside, at = {soft.name}, soft
        while at.kind != "MatMul" and at.inputs and at.inputs[0] in by_name:
            at = by_name[at.inputs[0]]
            inside.add(at.name)
        values = next((op for op in ops if soft.name in op.inputs and op.kind == "MatMul"), None)
        if at.kind == "MatMul" and values is not None and at.layers == values.layers:
            before = (by_name[name] for name in at.inputs if name in by_name)  # the rotation, what appends to the cache
            inside |= {op.name for op in before if op.kind in ("RotaryEmbedding", "Concat")}
            attentions[at.name] = values, (inside | {values.name}) - {at.name}
    return attentions


def _rides(op: Op, by_name: dict[str, Op], riding: set[str], readers: dict[str, list[Op]]) -> bool:
    """Whether a compiler has an element-wise operator ride in the kernel of a product before it or a norm behind it.

    A rotation needs pairs of its row. So does a gate of both halves of a product; a multiplication by what is there
    before the product, as features are crossed, rides.
    """
    if T.CLASS_OF.get(op.kind) != T.ELEMENTWISE or op.kind == "RotaryEmbedding":
        return False
    before = [by_name[name] for name in op.inputs if name in by_name]
    if op.kind == "Mul":  # a product that stands behind all other operands in the graph finds them there
        last = max(before, key=lambda p: list(by_name).index(p.name), default=op)
        return last.contraction and last.layers == op.layers and last.writes == op.writes
    kernels = any((p.contraction or p.name in riding) and p.layers == op.layers for p in before)
    return kernels or any(r.kind in _NORMS or r.kind == "Mul" for r in readers.get(op.name, ()))


def _between_experts(ops: tuple[Op, ...], by_name: dict[str, Op]) -> set[str]:
    """What lies between two products of experts: done where their tokens are permuted."""
    between_experts: set[str] = set()
    for op in ops:
        before = [by_name[name] for name in op.inputs if name in by_name]
        if T.CLASS_OF.get(op.kind) == T.ELEMENTWISE and any(
            p.attribute("experts") or p.name in between_experts for p in before
        ):
            between_experts.add(op.name)
    return between_experts


def _role(op: Op, by_name: dict[str, Op], readers: dict[str, list[Op]]) -> float:
    """What an operator outside of attention is to its kernel."""
    if op.attribute("experts"):
        return EXPERT
    if op.kind == "TopK" and any(reader.attribute("experts") for reader in readers.get(op.name, ())):
        return ROUTER
    if op.kind == "ReduceSum" and any(by_name[n].attribute("experts") for n in op.inputs if n in by_name):
        return COMBINE
    return PRODUCT if op.contraction else LAYOUT if op.kind in _LAYOUT else STREAM


@lru_cache(maxsize=2048)
def phase_table(phase: Phase) -> np.ndarray:
    """Flat table of a phase with the columns above, shape (n_ops, COLUMNS), read-only."""
    table = np.zeros((len(phase.ops), COLUMNS))
    table[:, : T.COLUMNS] = T.lower(phase)
    by_name = {op.name: op for op in phase.ops}
    readers, heads = readers_of(phase.ops), _attentions(phase.ops)
    inside = set().union(*(inside for _, inside in heads.values())) if heads else set()
    inner = inside | _between_experts(phase.ops, by_name)
    riding: set[str] = set()
    for at, (row, op) in enumerate(zip(table, phase.ops, strict=True)):
        row[ROLE] = SCORES if op.name in heads else ATTENDED if op.name in inner else _role(op, by_name, readers)
        row[KERNELS] = _EAGER.get(op.kind, 1.0)
        row[EXPERTS], row[TOPK] = op.attribute("experts"), op.attribute("top_k")
        if op.name in heads:
            values, _ = heads[op.name]
            row[VALUES], row[CACHE_BYTES] = values.n.coef, op.attribute(CACHE_BITS) / 8.0
            row[CACHED] = values.state_reads.coef / op.state_reads.coef if op.state_reads.coef else 0.0
        elif row[ROLE] == STREAM and _rides(op, by_name, riding, readers):
            row[RIDES] = 1.0
            riding.add(op.name)
        row[HOISTS] = known_ahead(phase.ops, at)
        row[TABLES] = op.layers if op.kind in LOOKUPS else 1.0
    table.setflags(write=False)
    return table
