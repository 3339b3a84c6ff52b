"""Does the search of tilings find what trying every one finds, and does a tiling move what its loops move?

Of a convolution's input too, whose pixels blocks share: counted as sets of pixels.
"""

from itertools import permutations, product

import numpy as np
import pytest

from engine.devices.card.tiling import halos
from engine.kernels.search.tilings import AIMS, MAPPING, count, fills, search
from tests.architecture.map import ROOT
from tests.bench.zigzag_table import ALIKE, ANSWERS, CLOSE, document, ours, same, why
from tests.each import each
from tests.reference.kernels.every_tiling import ORDERS, every

INDEXES = ({0, 2}, {1, 2}, {0, 1})  # dimensions that index A, B and C


def _drawn(rng: np.random.Generator) -> tuple:
    """A product of a few tiles on two levels that do not hold all of it, at whole-number prices."""
    shared = rng.random() < 0.7
    where = np.zeros((2, 3), np.int64) if shared else np.array([[-1, 0, 1], [0, -1, 0]])
    cuts = np.array([[1, 1], [2, 1], [1, 2], [3, 1]], dtype=np.float64)[: rng.integers(1, 5)]
    tiles = rng.integers(1, 7, 3).astype(float)
    return (
        tiles,
        np.append([1.0, 1.0], 1.0 + np.cumsum(rng.integers(0, 3, int(tiles[0]) - 1)) / 8.0 * rng.integers(0, 2)),
        rng.integers(1, 9, (2, 3)).astype(float),
        where,
        np.stack([rng.integers(8, 200, 2), rng.integers(40, 900, 2)]).astype(float),
        rng.integers(1, 3, 2).astype(float),
        np.arange(8) if shared else np.array([5]),
        cuts,
        rng.integers(1, 100, (2, 4)).astype(float),
        rng.integers(0, 50, 3).astype(float),
        np.array([rng.integers(0, 300), rng.integers(0, 50), 0.5, 3.0]),
        rng.integers(1, 9, 8).astype(float),
        rng.integers(1, 4, 8).astype(float),
    )


@pytest.mark.parametrize("aim", range(3), ids=AIMS)
def test_search_is_equal_to_trying_every_tiling(aim):
    rng, legal, tried, none = np.random.default_rng(7 + aim), 0, 0, 0
    for _ in range(60):
        problem = _drawn(rng)
        best, rows = np.zeros(len(MAPPING)), np.zeros((1, len(MAPPING)))
        all_of_them = every(problem, aim, best)
        found, more = search(*problem, aim, rows, 0)
        assert (all_of_them > 0) == (found > 0)
        assert rows[0, :4].tolist() == best[:4].tolist()
        assert count(*problem[:8], np.inf) == all_of_them
        alone = np.zeros(len(MAPPING))  # were the rows of A to share nothing: no fewer tilings, none of more bytes
        assert every((problem[0], np.ones(1), *problem[2:]), aim, alone) >= all_of_them
        assert all_of_them == 0 or best[aim] >= alone[aim]
        legal, tried, none = legal + all_of_them, tried + more, none + (found == 0)
    assert tried < legal / 100
    assert none < 20


def test_no_tiling_beats_the_candidates_of_a_front():
    rng = np.random.default_rng(3)
    for _ in range(20):
        problem = _drawn(rng)
        rows = np.zeros((20_000, len(MAPPING)))
        found, _ = search(*problem, 0, rows, 0)
        assert found < len(rows)
        for aim in range(3):
            best = np.zeros((1, len(MAPPING)))
            if every(problem, aim, best[0]):
                assert rows[:found, aim].min() == best[0, aim]
                seeded = np.concatenate([best, np.zeros_like(rows)])
                again, _ = search(*problem, 0, seeded, 1)
                for other in range(3):
                    assert seeded[:again, other].min() == rows[:found, other].min()


def _walked(loops: list[tuple[int, int]]) -> list[int]:
    """How often the block of A, B and C changes in a nest of loops (dimension, blocks), outermost first: by walking."""
    changes, now = [0, 0, 0], [None, None, None]
    for step in range(int(np.prod([n for _, n in loops]))):
        at, rest = [], step
        for x, n in reversed(loops):
            at.append((x, rest % n))
            rest //= n
        for o, indexes in enumerate(INDEXES):
            block = tuple(one for one in at if one[0] in indexes)
            changes[o] += block != now[o]
            now[o] = block
    return changes


@pytest.mark.parametrize("outer", [(1, 1, 1), (2, 3, 1), (2, 2, 3), (1, 1, 4)])
@pytest.mark.parametrize("inner", [(1, 1, 1), (3, 1, 2), (2, 3, 2), (1, 4, 1)])
def test_passes_are_those_of_a_walk_through_the_loops(outer, inner):
    whole = [outer[x] * inner[x] for x in range(3)]
    for high in permutations(range(3)):
        for low in permutations(range(3)):
            last = [next((x for x in reversed(o) if n[x] > 1), -1) for o, n in ((high, outer), (low, inner))]
            far = _walked([(x, outer[x]) for x in high])
            near = _walked([(x, outer[x]) for x in high] + [(x, inner[x]) for x in low])
            for o, indexes in enumerate(INDEXES):
                passes = fills(o, np.array(outer, float), last[0], np.array(inner, float), last[1])
                assert passes[1] == far[o] / np.prod([outer[x] for x in indexes])
                assert passes[0] == near[o] / np.prod([whole[x] for x in indexes])


def _parts(out: int, parts: int) -> list[range]:
    return [range(i * out // parts, (i + 1) * out // parts) for i in range(parts)]


def _pixels(axes: list[tuple[int, ...]], box: tuple[range, ...]) -> int:
    """Pixels of the image in the windows of a box of output pixels: of all its windows together, as a set."""
    inside = set()
    for place in product(*box):
        window = [
            [i for i in range(at * step - pad, at * step - pad + taps) if 0 <= i < extent]
            for at, (_, taps, step, pad, extent) in zip(place, axes, strict=True)
        ]
        inside |= set(product(*window))
    return len(inside)


def test_blocks_of_a_convolution_read_the_pixels_of_their_windows():
    """Before, blocks of any number together read each pixel once."""
    rng, more = np.random.default_rng(11), 0
    for case in range(30):
        axes = []
        for _ in range(3):
            taps, step, extent = int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(4, 8))
            pad = int(rng.integers(0, (taps + 1) // 2))
            axes.append(((extent + 2 * pad - taps) // step + 1, max(taps, step), step, pad, extent))
        axes[0] = (1, 1, 1, 0, 1) if case % 3 else (2, *axes[0][1:])
        outs = [axis[0] for axis in axes]
        read = {
            cut: sum(_pixels(axes, box) for box in product(*map(_parts, outs, cut)))
            for cut in product(*(range(1, out + 1) for out in outs))
        }
        places = int(np.prod(outs))
        found = halos(np.array(axes, dtype=np.float64).ravel(), 2.0 * places, 2 * places)
        for blocks in range(1, places + 1):
            least = min(size for cut, size in read.items() if np.prod(cut) >= blocks)
            if all(taps <= step for _, taps, step, _, _ in axes):
                least = read[1, 1, 1]
            assert found[2 * blocks] == pytest.approx(least / read[1, 1, 1], rel=1e-12)  # of two images
            assert found[2 * blocks - 1] == pytest.approx((found[2 * blocks - 2] + found[2 * blocks]) / 2, rel=1e-12)
        assert (np.diff(found) >= 0).all()
        more += found[-1] > 1.5
    assert more > 5


def test_rows_that_share_no_pixel_are_cut_for_nothing():
    for size, step in ((1, 1), (1, 2), (2, 2)):
        one = np.array([1, 1, 1, 0, 1, 28, size, step, 0, 56, 28, size, step, 0, 56], dtype=np.float64)
        assert (halos(one, 784.0, 25) == 1.0).all()
    assert halos(np.zeros(15), 784.0, 25).tolist() == [1.0]


def test_orders_are_all_six():
    assert sorted(map(tuple, ORDERS.tolist())) == sorted(permutations(range(3)))


@each("answer", ANSWERS, ids=lambda one: f"{one['layer']}, {one['aim']}, {one.get('machine', one['boundaries'])}")
def test_tilings_beside_zigzags_on_its_own_accelerators(answer):
    """Its mapping costs at our price what it costs at its own, and our best is no worse than its search's."""
    kept, theirs, best, reason = same(answer), same(answer, theirs=True), ours(answer), why(answer)
    for figure, cause in (("cycles", "first blocks"), ("picojoules", "sums")):
        if cause in reason:
            assert getattr(theirs, figure) == pytest.approx(answer[figure], rel=ALIKE)
        else:
            assert getattr(kept, figure) == pytest.approx(answer[figure], rel=CLOSE)
    assert not reason or "of" in answer or answer["layer"] == "ResNet-18 stage 3, first"
    if answer["aim"] == "energy":
        assert best.picojoules <= max(answer["picojoules"], kept.picojoules) * (1 + 1e-6)
    else:
        assert best.cycles <= max(answer["cycles"], kept.cycles) * (1 + 1e-6)


def test_the_page_beside_zigzag_is_todays():
    assert document() == (ROOT / "docs" / "zigzag.md").read_text()
