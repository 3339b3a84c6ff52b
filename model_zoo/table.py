"""A phase as flat arrays: what compiled cost models read.

Row j is op j. Each count of `Op` occupies four columns, ``coef b s c`` with exponents 0 or 1, starting at the
constants below; plain numbers follow. CAP is how far the op looks back (infinite where it has no window), ANEW whether
its context begins anew there: `model_zoo.ops.seen`. Names and groups stay outside, in the phase itself.
"""

from dataclasses import fields
from functools import lru_cache

import numpy as np

from model_zoo.ops import KINDS, Dim, Op, Phase

CODES: dict[str, int] = {kind: code for code, kind in enumerate(KINDS)}
SHARDS: tuple[str, ...] = ("none", "n", "g", "k", "elements")

_COUNTS = tuple(field.name for field in fields(Op) if field.type is Dim)
STEPS, G, M, N, K, FLOPS, WEIGHTS, READS, WRITES, STATE_READS, STATE_WRITES, GATHER_ROWS = (4 * i for i in range(12))
KIND, LAYERS, STORED, SHARD, SEQUENTIAL, QUANTISABLE, ROW_ELEMENTS, CLASS, CAP, ANEW = range(48, 58)
COLUMNS = 58

CONTRACTION, LOOKUP, ELEMENTWISE, REDUCTION, MOVEMENT, OTHER = range(6)
_CLASSES = ("contraction", "lookup", "elementwise", "reduction", "movement", "other")
CLASS_OF: dict[str, int] = {kind: _CLASSES.index(of["class"]) for kind, of in KINDS.items()}


@lru_cache(maxsize=2048)
def lower(phase: Phase) -> np.ndarray:
    """Flat table of a phase, shape (n_ops, COLUMNS), read-only; counts are per execution of one copy."""
    table = np.zeros((len(phase.ops), COLUMNS))
    for row, op in zip(table, phase.ops, strict=True):
        for at, name in enumerate(_COUNTS):
            count = getattr(op, name)
            row[4 * at : 4 * at + 4] = count.coef, count.b, count.s, count.c
        row[KIND] = CODES[op.kind]
        row[LAYERS] = op.layers
        row[STORED] = op.stored
        row[SHARD] = SHARDS.index(op.shard)
        row[SEQUENTIAL] = op.sequential
        row[QUANTISABLE] = op.quantisable
        row[ROW_ELEMENTS] = op.row_elements
        row[CLASS] = CLASS_OF[op.kind]
        row[CAP] = op.cap
        row[ANEW] = op.anew
    table.setflags(write=False)
    return table
