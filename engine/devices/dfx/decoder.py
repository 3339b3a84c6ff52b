"""A decoder as DFX instructions: one layer, the embedding or the LM head of one token on the fullest of N cores.

`decoder.yaml` has the programs of GPT-2, which is the document's network, and of Llama's kind: RMS norm, rotary
positions, shared key heads and a gated feed-forward are the same vector instructions in another order, with a table of
SiLU where GELU's is, and a bypass that turns halves of heads. Value comes first so that its transposition hides behind
Key and Query. Heads run one after the other, as algorithm 1 has them. Source: Hong et al., MICRO 2022.

A matrix's tiles come from memory in an order (figure 9) that costs the core something: horizontally, inputs stay while
all columns pass, whose sums wait in buffers; vertically a column is summed up before the next, and every beat reads
other inputs; the zigzag over d x d lies between. The document prints no number for it. Estimates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import takewhile
from math import ceil
from pathlib import Path
from typing import Any

from engine.devices.common.column import one_by_one
from engine.devices.common.setting import PricedField, Setting
from engine.devices.dfx import program as isa
from engine.devices.dfx.program import Instruction, LayerSizes
from entries.files import load_yaml

_PROGRAMS = load_yaml(Path(__file__).with_suffix(".yaml").read_bytes())


@cache
def _read(text: str, alone: bool) -> tuple[tuple[int, int, int, int, str, int, str, str], ...]:
    """Lines of a text: operation, target, first source, part, columns, second source, rows and argument, by name."""
    lines, sources = [], dict[str, str]()  # what a lone card reads for what it would be sent
    for line in text.splitlines():
        words, _, role = line.partition("@")
        mnemonic, *fields = words.replace(",", " ").split()
        src1, src2, dst = (sources.get(name, name) for name in fields[:3])
        op, sizes = isa.MNEMONICS.index(mnemonic), dict(word.split("=") for word in fields[3:])
        if alone and op in isa.SYNC_OPS:
            sources[dst] = src1
            continue
        at1, at2, to = map(isa.REGISTERS.index, (src1, src2, dst))
        argument = sizes.get("w", sizes.get("head", ""))
        lines.append((op, to, at1, isa.ROLES.index(role), sizes["n"], at2, sizes.get("rows", "1"), argument))
    return tuple(lines)


def _instructions(text: str, alone: bool, sizes: Mapping[str, Any]) -> list[Instruction]:
    return [
        Instruction(op, dst, src1, role, sizes[columns], src2, sizes[rows], sizes[argument])
        for op, dst, src1, role, columns, src2, rows, argument in _read(text, alone)
    ]


def _ahead(rec: Sequence[Any], load: Instruction, prelude: list[Instruction]) -> Any:
    """First columns of a load's weights that come in while others are waited for. [-]

    Half the DMA's buffer holds no more; a load that takes longer than the wait would hold up its product.
    """
    cycles = 0.0
    for row in isa.encode(prelude, rec):
        if row[isa.UNIT] != isa.DDR:
            cycles += row[isa.LATENCY] + (row[isa.WAIT] if row[isa.UNIT] == isa.ROUTER else 0.0)
    return one_by_one(
        lambda d, lanes, beat, size, wide, wait: min(
            load.columns, min(isa.BUFFER, wait / beat) * (wide / size) // ceil(load.rows / d) * lanes
        ),
        *(rec[at] for at in (isa.D, isa.L, isa.BEAT, isa.WEIGHT, isa.BYTES)),
        cycles,
    )


def program_of(part: str, rec: Sequence[Any], layer: LayerSizes, context: Any) -> list[Instruction]:
    """Instructions of one `layer`, of the LM `head` or of the embedding of one `token` on one core of a record.

    `layer-send` hands its vector to the card with the next layers, `head-send` the token to the one with the first. The
    context in [tokens].
    """
    (of, _, sends), cards = part.partition("-"), rec[isa.CARDS]
    heads, key_heads = layer.on(cards)
    sizes = {
        "": 0.0,
        "half": 0.5,
        "1": 1.0,
        "width": layer.width,
        "head": layer.head,
        "ffn": layer.ffn,
        "context": context,
    }
    sizes |= {"heads": layer.heads * layer.head, "queries": heads * layer.head, "keys": key_heads * layer.head}
    whole = {"columns": layer.width, "ffn-columns": layer.ffn, "vocab-columns": layer.vocab}
    sizes |= {name: ceil(size / cards) for name, size in whole.items()}
    sizes |= {name: float(role) for role, name in enumerate(isa.ROLES) if name not in sizes}
    program: list[Instruction] = []
    for text in _PROGRAMS["llama" if layer.gated else "gpt2"][of]:
        if "{turn}" in text:
            for head in range(int(heads)):
                program += _instructions(text.format(turn=head % 2), cards <= 1, sizes | {"number": float(head)})
            continue
        code = _instructions(text, cards <= 1, sizes)
        if code[0].op == isa.LOAD_WEIGHTS:
            load, *code = code
            prelude = list(takewhile(lambda i: i.op not in isa.PROJECTIONS, code))
            if rec[isa.PREFETCH] and (fit := _ahead(rec, load, prelude)):
                program.append(replace(load, columns=fit))
            else:
                code = [replace(i, src2=isa.NONE) if i.src2 == load.dst else i for i in code]
        program += code
    if sends:
        source, columns = (isa.X, layer.width) if of == "layer" else (isa.NEXT, 1.0)
        program.append(Instruction(isa.SEND, isa.NONE, source, isa.HANDOVER, columns))
    return program


_DEPTH = 2048.0  # words of 18 bit in a block of 36 Kbit, a shape that UltraScale+'s memory guide names
_BEATS = {"horizontal": 1e6, "vertical": 1.0}
"""Beats that inputs stay for at most: more than any matrix has columns, and one."""

DIRECTION = PricedField(
    needs="matrix products",
    settings={way: Setting(parameters={"kept_beats": beats}) for way, beats in _BEATS.items()},
    assumption="The load direction changes how often the matrix unit reads its inputs, how many partial sums it keeps "
    "and in which order it adds; weights lie in memory in the order in which they are read, whatever it is.",
)


@lru_cache(maxsize=4096)
def costs(part: str, rec: tuple[float, ...], layer: LayerSizes, context: float) -> tuple[float, float]:
    """Words of vector registers that a program's products read, and the most partial sums a lane keeps. [-]

    The context in [tokens].
    """
    products = [i for i in program_of(part, rec, layer, context) if i.op in isa.MATRIX]
    word = rec[isa.D] / rec[isa.VECTOR]
    reads = sum(isa.tile_beats(rec, i.rows, i.columns) / isa.kept_beats(rec, i.columns) for i in products)
    return reads * word, max((isa.kept_beats(rec, i.columns) for i in products), default=0.0)


def blocks(rec: Sequence[float], sums: float) -> float:
    """Blocks of BRAM in which the lanes keep so many partial sums each. [-]"""
    return rec[isa.L] * ceil(sums / _DEPTH)
