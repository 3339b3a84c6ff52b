"""RNN transducer for speech: an encoder of sound that halves its steps, a predictor of letters, and what joins them."""

from model_zoo.families.blocks import LENGTH, ROW, Block, forward, gather
from model_zoo.families.family import Params
from model_zoo.families.rnn import STEPS, Cell, step_of
from model_zoo.ops import Dim, Graph, Op, Sum, dim


def _stack(name: str, group: str, layers: int, width: int, hidden: int, steps: Dim, source: str) -> list[Op]:
    """LSTM layers one on the other, over so many steps."""
    ops: list[Op] = []
    for layer in range(1, layers + 1):
        cell = Cell(f"{name}{layer}", group, hidden, 1, 1, ROW, steps)
        step_of("lstm")(cell, width, (source,))
        ops += cell.ops
        width, source = hidden, cell.ops[-1].name
    return ops


def build(p: Params) -> Graph:
    """Greedy decoding: the joint network runs once a frame of the encoder and once a letter, the predictor a letter."""
    hidden, letters = p.whole("hidden", 1, 65536), p.whole("vocab", 2, 2**31)
    embed, joint = p.whole("embedding", 1, 65536), p.whole("joint", 1, 65536)
    before, after = p.whole("layers_before", 1, 64), p.whole("layers_after", 1, 64)
    letters_per_step, stack = p.number("letters_a_step", 0.0, 100.0), p.whole("stacked", 1, 64)
    frames, symbols = dim(1.0 / stack, "s"), dim(letters_per_step, "s")
    rounds = dim(1.0 / stack + letters_per_step, "s")
    ops = _stack("sound", "encoder", before, p.whole("input", 1, 1_048_576), hidden, STEPS, "")
    ops += _stack("frame", "encoder", after, stack * hidden, hidden, frames, ops[-1].name)
    block, heard = Block(ROW, "joint"), ops[-1].name
    ops.append(gather("letter", dim(letters_per_step, "bs"), letters - 1, embed, group="predictor"))
    ops += _stack("letter", "predictor", p.whole("predictor_layers", 1, 64), embed, embed, symbols, "letter")
    sound = block.linear("join-sound", hidden, joint, heard, steps=frames)
    letter = block.linear("join-letter", embed, joint, ops[-1].name, steps=symbols)
    block.each("join", "Add", joint, sound, letter, operands=2, steps=rounds)
    block.each("join-relu", "Relu", joint, "join", steps=rounds)
    block.linear("join-out", joint, letters, "join-relu", steps=rounds)
    block.each("best", "ArgMax", letters, "join-out", written=ROW, steps=rounds)
    layers = (before + after) * hidden + p.whole("predictor_layers", 1, 64) * embed
    stores, written = Sum((dim(2 * layers, "b"),)), dim(letters_per_step, "bs")
    ops, entering = [*ops, *block.ops], dim(p.whole("input", 1, 1_048_576), "bs")
    return forward(ops, "utterance", entering, written, LENGTH, state_elements=stores, output_indices=written)
