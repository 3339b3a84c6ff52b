"""Our tilings beside ZigZag's on two of its example accelerators: writes docs/zigzag.md.

`python -m tests.bench.zigzag_table`; what ZigZag answered lies in zigzag.json, written by `zigzag_answers.py` under an
environment of its own, as ZigZag is no requirement of ours. `--orders` writes mappings of ours that it is to price.
"""

import json
import math
import sys
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine.devices.card.tiling import halos
from engine.kernels.search.tilings import MAPPING, fills, read, search, weigh

HERE = Path(__file__).parent
ANSWERS = json.loads((HERE / "zigzag.json").read_text())
ROWS, COLUMNS, DEPTH = ("B", "OY", "OX"), ("K",), ("C", "FY", "FX")  # ZigZag's loops by our dimensions
CLOSE, ALIKE = 0.05, 0.02  # of the same mapping: what needs a reason, and how near it must come with that counted
TEXT = """# Tilings beside ZigZag

ZigZag 3.9.1 (`pip install zigzag-dse`) on two of its example accelerators, as they stand in the package. `gemm_l1_l3`:
8 x 8 x 8 multipliers, a register for each sum, 115 KiB of L1 held twice, DRAM; convolutions have eight images side by
side. `tpu_like`: a systolic array of 32 x 32, 128 weights and one sum at each multiplier, 2 MiB for inputs and sums,
weights straight from DRAM, and the way of the last results out of the array. Layers of six networks: products of
matrices, and convolutions with windows (filters x channels of window, pixels that leave).

*Same mapping* is ZigZag's own at our price, *best* is ours by the same aim. *Our order* is that of our best tiling,
priced by ZigZag, where its loops can say it; it allots memories to them by itself. *Even* and *uneven* say whether all
operands change at the same loops. `python -m tests.bench.zigzag_table` writes this page from ZigZag's recorded answers
(`tests/bench/zigzag.json`); a test holds it.

- The same mapping costs the same within 4% in cycles and 2% in energy, but for the rows that name a reason. With what
  these name counted as ZigZag does, they too agree within 2%.
- *Sums*: where sums go to DRAM and come back, ZigZag reads them before the first addition too, when there are none, and
  writes finished ones as wide as unfinished ones. We read once less and write results of a byte.
- *First blocks*: the first inputs and the first weights come through the one port of DRAM. ZigZag waits for the longer
  of the two where they go to different memories, we wait for both.
- A block of a convolution reads the windows of all its pixels. With shared pixels counted once, ZigZag's mapping of
  ResNet-18 stage 1 on `gemm_l1_l3` would take 42% of the energy it says.
- At one price our best never takes more cycles than ZigZag's, nor more energy; by energy it takes down to a fifth.
  Ours cuts the depth of a convolution between channels alone, ZigZag's between taps of a window too.
- ZigZag's search tries orders of at most six factors of the loops, in 2 to 200 s a layer here; ours covers all block
  sizes in milliseconds. Ours does not see what first and last blocks wait, so it is also run with parts of each memory.
"""


class Layer(NamedTuple):
    """A convolution without padding, all sides of its image and window alike; a product is one of single pixels."""

    images: int
    filters: int
    channels: int
    side: int = 1  # of what leaves
    window: int = 1
    stride: int = 1

    @property
    def pixels(self) -> int:
        """Of a row or column of what enters."""
        return (self.side - 1) * self.stride + self.window

    @property
    def sizes(self) -> tuple[float, float, float]:
        """Elements of what enters, of filters and of what leaves."""
        a, b = self.images * self.pixels**2 * self.channels, self.filters * self.channels * self.window**2
        return float(a), float(b), float(self.images * self.side**2 * self.filters)


class Machine(NamedTuple):
    """Array and memories of an example of ZigZag's; energies in pJ, rates in bytes a cycle."""

    array: tuple[int, int, int]  # images, filters and channels side by side
    where: list[list[int]]  # which memory of a level holds A, B and sums: registers, then the memory on the chip
    registers: list[float]  # in tiles
    chip: float  # bytes
    mask: int  # operands that the chip holds
    far: float  # bytes a cycle behind the chip
    joule: list[float]  # of a byte of each flow
    multiply: float  # of a multiply-add with registers of its own
    sums: float  # of the registers that multipliers share, a cycle
    leave: float  # of a finished sum that leaves its registers, one for each of `deep` channels side by side
    deep: int
    sum_bytes: float
    drain: float  # cycles of the last results' way out of the array


# gemm_l1_l3.yaml: 8 x 8 x 8 multipliers, a register of 32 bits for each sum, 943,718 bits of L1, held twice
_L1, _L3 = (118 / 64, 141.6 / 64), (16000 / 64, 24000 / 64)  # read and write of a byte; sums cross 2,048 bits
GEMM = Machine(
    (8, 8, 8), [[-1, -1, 0], [0, 0, 0]], [1.0], 943718 / 8, 7, 64.0,
    [_L1[0], _L1[0], 118 / 256, 141.6 / 256, _L3[0] + _L1[1], _L3[0] + _L1[1], _L3[0] + _L1[1], _L3[1] + _L1[0]],
    0.04, 64 * (3.0 + 4.0), 3.0, 1, 4.0, 0.0,
)  # fmt: skip
# tpu_like.yaml: 32 x 32 multipliers, each with 128 weights and a sum of 16 bits, 2 MiB for inputs and sums
_SRAM, _DRAM = (416.16 / 256, 378.4 / 256), (700 / 8, 750 / 8)
TPU = Machine(
    (1, 32, 32), [[-1, 0, 1], [0, -1, 0]], [128.0, 1.0], 2097152.0, 5, 8.0,
    [_SRAM[0], 0.095, _SRAM[0], _SRAM[1],
     _DRAM[0] + _SRAM[1], _DRAM[0], _DRAM[0] + _SRAM[1], _DRAM[1] + _SRAM[0]],
    0.04 + 0.095 + 2 * 0.021, 0.0, 0.021, 32, 2.0, 62.0,
)  # fmt: skip
MACHINES = {"gemm_l1_l3": GEMM, "tpu_like": TPU}


class Price(NamedTuple):
    """Cycles, the first blocks' and the last one's way included, and energy."""

    cycles: float
    picojoules: float


def _layer(answer: dict[str, Any]) -> Layer:
    return Layer(*answer["shape"]) if "shape" in answer else Layer(answer["m"], answer["n"], answer["k"])


def _tiles(machine: Machine, layer: Layer) -> np.ndarray:
    """Tiles of rows, columns and depth: all taps of a window are one tile, so that a cut falls between channels."""
    images, filters, channels = machine.array
    rows = math.ceil(layer.images / images) * layer.side**2
    return np.array([rows, math.ceil(layer.filters / filters), math.ceil(layer.channels / channels)], float)


def problem(machine: Machine, layer: Layer) -> tuple[Any, ...]:
    """A layer on a machine, as `search` asks for it."""
    tiles, taps, (a, b, c) = _tiles(machine, layer), layer.window**2, layer.sizes
    cycles, room = tiles.prod() * taps, [machine.chip] + [0.0] * (len(machine.registers) - 1)
    asked = layer.images * layer.side**2 * taps * layer.channels  # by the array, window by window
    taken = min(machine.array[0], layer.images) * min(machine.array[2], layer.channels)  # at once, in words of 8 bytes
    size = [asked * math.ceil(taken / 8) * 8 / taken, b, c, machine.sum_bytes * c]
    held = [a / (tiles[0] * tiles[2]), b / (tiles[1] * tiles[2]), machine.sum_bytes * c / (tiles[0] * tiles[1])]
    axis = (layer.side, layer.window, layer.stride, 0, layer.pixels)
    windows = np.array((1, 1, 1, 0, 1, *axis, *axis), float) if layer.window > layer.stride else np.zeros(15)
    leave = machine.leave * min(machine.deep, layer.channels)
    joule = np.array(machine.joule)
    joule[2:4] += leave / machine.sum_bytes
    fixed = asked * layer.filters * machine.multiply + machine.sums * cycles
    fixed += c * leave * (1.0 - 1.0 / machine.sum_bytes)
    once = size[0] * tiles[1] + b * (tiles[0] if machine.where[0][1] < 0 else 1.0) + c
    work = [cycles, cycles - once / 512, 1 / 512, fixed]  # it stands still while sums come and go, 512 bytes a cycle
    return (
        tiles, halos(windows, float(layer.side**2), layer.side**2), np.array([[1.0, taps, 1.0], held]),
        np.array(machine.where), np.array([machine.registers, room]),
        np.full(2, 2.0), np.array([machine.mask]), np.ones((1, 2)),
        np.array([size, [a, *size[1:]]]), np.array([a, b, c]), np.array(work),
        joule, np.array([0.0] * 4 + [1 / machine.far] * 4),
    )  # fmt: skip


def _price(
    machine: Machine, args: tuple[Any, ...], near: list[float], far: list[float], ends: float, theirs: bool = False
) -> Price:
    """A mapping whose operands pass so often: with the first blocks' way in and the last one's way out.

    A sum has one register, so the array stands still while the sums of a tile are exchanged: their bytes over 256 a
    cycle, in and out at once. `theirs`: with ZigZag's count of sums that come back: before the first addition too, and
    the last time as wide as before.
    """
    weights = np.empty((6, 7))
    weigh(args[7][0], machine.mask, args[0], args[3], *args[8:], weights)
    figures = weights[:5, :6] @ np.array([*near, *far]) + weights[:5, 6]
    (_, _, c, partial), energy, back = args[8][0], figures[2], near[2] - 1.0
    if theirs:
        for passes, at in ((near[2], 2), (far[2], 6)):
            energy += (partial * args[-2][at] + (partial - c) * args[-2][at + 1]) * (passes > 1.0)
        back += back > 0.0
    cycles = max(weights[5, 0] + partial * back / 256, figures[1]) + ends / machine.far + machine.drain
    return Price(float(cycles), float(energy))


def _ends(layer: Layer, args: tuple[Any, ...], blocks: list[float]) -> float:
    """Bytes of the first blocks of A and B and of the last one of C, of blocks of so many bytes.

    Where registers take an operand from its one block tile by tile, the first or last tile is all that waits.
    """
    tiles, where = args[0], args[3][0]
    most = (tiles[0] * tiles[2], tiles[1] * tiles[2] * layer.window**2, tiles[0] * tiles[1])
    alone = [held >= 0 and block >= size for held, block, size in zip(where, blocks, layer.sizes, strict=True)]
    each = zip(alone, blocks, layer.sizes, most, strict=True)
    return sum(size / many if one else block for one, block, size, many in each)


def found(answer: dict[str, Any]) -> list[tuple[Price, np.ndarray]]:
    """The best tilings by the answer's aim, best first: with all of the memories, and with parts of them.

    The search does not see what first and last blocks wait; in less memory it finds smaller ones.
    """
    machine, layer = MACHINES[answer.get("machine", "gemm_l1_l3")], _layer(answer)
    args, result = problem(machine, layer), []
    for registers, chip in product((1, 2, 4), (1, 2, 4, 8, 16, 32)):
        room = args[4] / [[registers], [chip]]
        rows = np.zeros((1, len(MAPPING)))
        if search(*args[:4], room, *args[5:], 0 if answer["aim"] == "latency" else 1, rows, 0)[0]:
            row = rows[0]
            passes = [fills(o, row[7:10], row[10], row[11:14], row[14]) for o in range(3)]
            more = read(args[1], row[7])
            near, far = [p[0] for p in passes], [passes[0][1] * more, passes[1][1], passes[2][1]]
            (m, n, k), own = row[7:10], row[11:14] if machine.mask >> 1 & 1 == 0 else np.ones(3)
            a, b, c = layer.sizes
            ends = _ends(layer, args, [a * more / (m * k), b / (n * k * own[1] * own[2]), c / (m * n)])
            result.append((_price(machine, args, near, far, ends), row))
    return sorted(result, key=lambda one: tuple(one[0]) if answer["aim"] == "latency" else tuple(one[0][::-1]))


def ours(answer: dict[str, Any]) -> Price:
    """What the best tiling of ours by the answer's aim costs."""
    return found(answer)[0][0]


def _times(loops: list[list[list[Any]]], names: tuple[str, ...]) -> float:
    return float(math.prod(count for level in loops for name, count in level if name in names))


def same(answer: dict[str, Any], theirs: bool = False) -> Price:
    """ZigZag's own mapping at our price: an operand passes again at each loop above that does not index it."""
    machine, layer, loops = MACHINES[answer.get("machine", "gemm_l1_l3")], _layer(answer), answer["loops"]
    args, by = problem(machine, layer), {"I": COLUMNS, "W": ROWS, "O": DEPTH}
    chip = {"I": loops["I"][1:], "W": loops["W"][1:], "O": loops["O"][2:]}  # loops above the memory on the chip
    far = [_times(chip[o], by[o]) for o in by]
    near = [1.0, far[1], _times(loops["O"][1:], DEPTH)]
    cut = {name: _times(chip["I"], (name,)) for name in ("OY", "OX", "FY", "FX")}
    halo = 1.0
    for out, tap in (("OY", "FY"), ("OX", "FX")):
        block = (layer.side / cut[out] - 1) * layer.stride + layer.window / cut[tap]
        halo *= block * cut[out] * cut[tap] / layer.pixels
    far[0] *= halo
    a, b, c = layer.sizes
    above = {o: _times(chip[o], (*ROWS, *COLUMNS, *DEPTH)) / passes for o, passes in zip(by, far, strict=True)}
    first = [a / above["I"], b / above["W"], c / above["O"]]
    ends = _ends(layer, args, first)
    if theirs and machine.where[1][1] < 0:
        ends -= min(_ends(layer, args, [first[0], 0.0, 0.0]), _ends(layer, args, [0.0, first[1], 0.0]))
    return _price(machine, args, near, far, ends, theirs)


def _boxes(layer: Layer, blocks: int, halo: float) -> tuple[int, int] | None:
    """Into how many rows and columns of equal boxes an image is cut that reads so much; None where none does."""
    for high in (n for n in range(1, layer.side + 1) if blocks % n == 0 == layer.side % n):
        cut, wide = (high, blocks // high), 1.0
        for parts in cut:
            wide *= parts * ((layer.side // parts - 1) * layer.stride + layer.window) / layer.pixels
        if layer.side % cut[1] == 0 and (math.isclose(wide, halo) or layer.window <= layer.stride):
            return cut
    return None


def order(answer: dict[str, Any]) -> list[list[Any]] | None:
    """The loops of our best tiling, innermost first, as ZigZag is told them; None where blocks are not all alike."""
    machine, layer = MACHINES[answer["machine"]], _layer(answer)
    row, args = found(answer)[0][1], problem(machine, layer)
    outer, inner, channels = row[7:10], row[11:14], args[0][2]
    boxes = _boxes(layer, int(outer[0]), read(args[1], outer[0]))
    own = args[0] / outer
    if boxes is None or (own % inner).any() or (own % 1).any() or channels % (outer[2] * inner[2]) or outer[2] % 1:
        return None
    within = own / inner
    if inner[0] > 1 and within[0] > 1:
        return None
    left = [["OX", layer.side // boxes[1]], ["OY", layer.side // boxes[0]]]
    taps = [["FX", layer.window], ["FY", layer.window], ["C", channels / outer[2] / inner[2]]]
    loops = [*taps, *(left if within[0] > 1 else []), ["K", within[1]]]
    levels = (
        (row[14], [left if inner[0] > 1 else [], [["K", inner[1]]], [["C", inner[2]]]]),
        (row[10], [[["OX", boxes[1]], ["OY", boxes[0]]], [["K", outer[1]]], [["C", outer[2]]]]),
    )
    for last, of in levels:
        for x in sorted(range(3), key=lambda x: x != last):
            loops += of[x]
    return [[name, int(count)] for name, count in loops if count > 1]


def why(answer: dict[str, Any]) -> str:
    """What the same mapping differs by, where that is over 5%: which of `COUNTED` ZigZag counts."""
    one, other, told = same(answer), same(answer, theirs=True), []
    for figure, name in (("picojoules", "sums"), ("cycles", "first blocks")):
        mine, its = getattr(one, figure), answer[figure]
        if abs(mine / its - 1) > CLOSE and abs(getattr(other, figure) / its - 1) < ALIKE:
            told.append(name)
    return ", ".join(told)


def table(machine: str) -> str:
    """The comparison on a machine, a row for an answer of ZigZag."""
    lines = [
        "| layer | mapping | ZigZag, cycles | ours, same mapping | ours, best "
        "| ZigZag, µJ | ours, same mapping | ours, best | over 5% |",
        "|---|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for one in (one for one in ANSWERS if one.get("machine", "gemm_l1_l3") == machine):
        kept, best, layer, given = same(one), ours(one), _layer(one), "of" in one
        shape = f"{layer.images:,} x {layer.filters:,} x {layer.channels:,}"
        if layer.side > 1:
            shape = (
                f"{layer.filters} x {layer.channels} of {layer.window} x {layer.window}, {layer.side} x {layer.side}"
            )
        of = f"our order, {one['aim']}" if given else f"{one['aim']}, {one['boundaries']}"
        cycles = [f"{v:,.0f}" for v in (one["cycles"], kept.cycles, best.cycles)]
        energy = [f"{v / 1e6:,.1f}" for v in (one["picojoules"], kept.picojoules, best.picojoules)]
        cells = [f"{one['layer']}, {shape}", of, *cycles, *energy, why(one)]
        lines.append("| " + " | ".join("" if given and at in (4, 7) else cell for at, cell in enumerate(cells)) + " |")
    return "\n".join(lines)


def document() -> str:
    """docs/zigzag.md."""
    return TEXT + "".join(f"\n## `{machine}`\n\n{table(machine)}\n" for machine in MACHINES)


if __name__ == "__main__":
    if "--orders" in sys.argv:
        asked = {
            f"{one['machine']} {one['layer']} {one['aim']}": order(one)
            for one in ANSWERS
            if "shape" in one and "of" not in one
        }
        rows = [f"{json.dumps(key)}: {json.dumps(loops)}" for key, loops in asked.items() if loops]
        (HERE / "zigzag_orders.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")
    else:
        (HERE.parents[1] / "docs" / "zigzag.md").write_text(document())
