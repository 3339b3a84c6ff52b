"""A card's schedule at many points side by side holds the bits of the schedule made point by point."""

import os

import numpy as np
import pytest

from engine.devices.card import demand as D
from engine.devices.card.schedule import BEGIN, END, ROOM, WORK, supply_block
from engine.devices.card.supply import S
from engine.kernels.ir.doubles import LANES
from engine.kernels.jit import JIT_ENABLED
from tests.reference.devices.card_schedule import time_ops
from tests.reference.lab.operators.test_gemm_paths import _run

POINTS = 83 if JIT_ENABLED else 11
CUT = (D.PIECES, D.SEGMENT)  # what operators that are scheduled together have in common


def network(draw: np.random.Generator, ops: int, segments: int, cores: int):
    """Demand of random ops, some on the host, some that ride along, each waiting for up to three before it."""
    asked = np.zeros((ops, D.DEMANDS))
    for column in (D.MACS_LOW, D.MACS_WIDE, D.LANE_OPS, D.CYCLES, D.PORT, D.FAR, D.BEYOND):
        asked[:, column] = draw.lognormal(0, 1, ops) * (draw.random(ops) < 0.6)
    asked[:, D.STARTS], asked[:, D.SOLO] = draw.integers(0, 3, (2, ops))
    asked[:, D.PIECES] = draw.integers(1, cores + 1, ops) * (draw.random(ops) < 0.9)
    asked[draw.random(ops) < 0.3, D.PIECES] = cores
    asked[:, D.SKEW] = 1.0 + draw.random(ops)
    asked[:, D.SEGMENT] = np.sort(draw.integers(0, segments, ops))
    asked[:, D.RUNS] = 1.0 + asked[:, D.SEGMENT]
    twice = draw.integers(1, ops, ops // 4)
    asked[twice] = asked[twice - 1]  # what takes equally long
    asked[:, D.SEGMENT] = np.maximum.accumulate(asked[:, D.SEGMENT])
    beside = draw.random(ops) < 0.1
    asked[beside, D.PIECES] = 0.0
    asked[beside, D.HOST_OPS], asked[beside, D.PIXELS] = draw.integers(0, 2, (2, beside.sum()))
    first, waits = [0], []
    for j in range(ops):
        waits += sorted({int(i) for i in draw.integers(max(0, j - 6), max(j, 1), draw.integers(0, 4)) if i < j})
        first.append(len(waits))
    return asked, np.array(first), np.array(waits or [0])


def block(lo: int, hi: int, asked: np.ndarray, *given) -> np.ndarray:
    """Adds the sums of points lo..hi to the last of ``given``; returns the seconds of each op at the last one."""
    room, out = np.full((ROOM, asked.shape[1] * LANES), np.nan), np.zeros((asked.shape[1], 6))
    supply_block(lo, hi, asked, *given, room, out)
    return out


def by_points(asked, first, waits, cores: int, ranked: bool, rates: np.ndarray) -> np.ndarray:
    """Sums by resource, a point at a time."""
    result = np.zeros((6, rates.shape[1]))
    for p in range(rates.shape[1]):
        out, spans = np.zeros((len(asked), 6)), np.zeros((len(asked), 5))
        time_ops(asked, first, waits, cores, ranked, rates, p, out, spans)
        for row in out:
            result[:, p] += row
    return result


@pytest.mark.parametrize("ranked", [True, False])
@pytest.mark.parametrize(("ops", "segments", "cores"), [(1, 1, 1), (7, 2, 3), (24, 1, 12), (60, 3, 5)])
def test_points_side_by_side_are_points_one_by_one(ops: int, segments: int, cores: int, ranked: bool) -> None:
    draw = np.random.default_rng([ops, cores, ranked])
    for spread_of in (0.0, 0.05, 2.0):
        one = network(draw, ops, segments, cores)
        rates = draw.lognormal(0, 1, (len(S), 1)) * draw.lognormal(0, spread_of, (len(S), POINTS))
        rates[:, 3::17] = 0.0  # of some points nothing takes any time
        rates[S.far_s, ::5] = 0.0
        wanted = by_points(*one, cores, ranked, rates)
        found = np.zeros_like(wanted)
        for lo, hi in ((0, 1), (1, 10), (10, POINTS)):
            block(lo, hi, one[0][None], *one[1:], cores, ranked, rates, found)
        assert found.tobytes() == wanted.tobytes()
    assert wanted.any()


@pytest.mark.parametrize("ranked", [True, False])
@pytest.mark.parametrize(("ops", "segments", "cores"), [(7, 2, 3), (24, 1, 12)])
def test_each_point_may_ask_for_amounts_of_its_own(ops: int, segments: int, cores: int, ranked: bool) -> None:
    draw = np.random.default_rng([ops, cores, ranked])
    asked, *waits = network(draw, ops, segments, cores)
    for spread_of in (0.05, 2.0):
        every, amounts = np.repeat(asked[None], POINTS, axis=0), [c for c in range(D.DEMANDS) if c not in CUT]
        every[:, :, amounts] *= draw.lognormal(0, spread_of, (POINTS, ops, len(amounts)))
        rates = draw.lognormal(0, 1, (len(S), 1)) * draw.lognormal(0, spread_of, (len(S), POINTS))
        found, wanted = np.zeros((2, 6, POINTS))
        for lo, hi in ((0, 1), (1, 10), (10, POINTS)):
            block(lo, hi, every[lo:hi], *waits, cores, ranked, rates, found)
        for p in range(POINTS):
            wanted[:, p] = by_points(every[p], *waits, cores, ranked, rates[:, p : p + 1].copy())[:, 0]
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("ranked", [True, False])
def test_each_op_of_one_point_is_placed_and_timed_alike(ranked: bool) -> None:
    draw = np.random.default_rng(7)
    asked, first, waits = network(draw, 40, 3, 5)
    rates = draw.lognormal(0, 1, (len(S), 1))
    room, seconds, spans = np.full((ROOM, 40 * LANES), np.nan), np.zeros((2, 40, 6)), np.zeros((40, 5))
    time_ops(asked, first, waits, 5, ranked, rates, 0, seconds[0], spans)
    supply_block(0, 1, asked[None], first, waits, 5, ranked, rates, np.zeros((6, 1)), room, seconds[1])
    assert seconds[0].tobytes() == seconds[1].tobytes()
    assert spans[:, :3].T.tobytes() == room[[BEGIN, END, WORK], LANES - 1 :: LANES].tobytes()


@pytest.mark.skipif(any(os.environ.get(name) for name in ("NUMBA_DISABLE_JIT", "NUMBA_CPU_NAME")), reason="one of them")
@pytest.mark.parametrize("setting", [{"NUMBA_DISABLE_JIT": "1"}, {"NUMBA_CPU_NAME": "nehalem"}])
def test_without_a_compiler_and_on_narrow_registers_the_same(setting) -> None:
    """Of a small network: larger ones meet the same lines of code, for seconds in Python."""
    done = _run(["-m", "pytest", "-n", "0", "-k", "not 24-1-12 and not 60-3-5", __file__], **setting)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
