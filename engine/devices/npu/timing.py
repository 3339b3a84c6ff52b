"""Cycles of a recurrent sequence, chain by chain and step by step: the long way round to the closed form of `npu`.

Three clocks advance: the occupancy of the tile engines, that of the multifunction units, and the validity of every
register along the dependence. A state is valid when all three have come that far.
"""

from __future__ import annotations

from engine.devices.npu.chains import CELLS, Pipeline, cut, finish, pass_cycles

__all__ = ["sequence_cycles"]


def sequence_cycles(
    cell: str, steps: int, occupancy: dict[str, float], vector_cycles: float, pipe: Pipeline
) -> tuple[float, dict[str, float]]:
    """Cycles of a sequence and the cycles each unit was busy. [cycle]

    Parameters
    ----------
    occupancy : engine cycles of a product with a matrix whose name starts with W (input) or U (state). [cycle]
    vector_cycles : cycles a vector of the hidden width takes in a multifunction unit. [cycle]
    """
    chains = [piece for chain in CELLS[cell] for piece in cut(chain, pipe.mfus)]
    names = {c.source for c, _ in chains} | {v.operand for c, _ in chains for v in c.ops if v.operand}
    valid = dict.fromkeys(names, 0.0)
    engine = units = state = 0.0
    for _ in range(steps):
        for chain, places in chains:
            if chain.matrix:
                engine += occupancy[chain.matrix[0]]
            units += vector_cycles
            valid.update({chain.target: 0.0} if chain.source == "x" else finish(chain, places, pipe, valid))
        state = max(valid["h"], engine, units)
        valid["h@"] = state
        if "c" in valid:
            valid["c@"] = valid["c"]
    start = pipe.start + pass_cycles(pipe)
    return start + state, {"matrix-vector unit": engine, "multifunction units": units}
