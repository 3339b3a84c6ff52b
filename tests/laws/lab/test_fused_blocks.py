"""Predicted gain of depth-first blocks: it follows from rates and traffic, and a measured run brings both."""

from dataclasses import replace

import pytest

from engine.kernels.jit import JIT_ENABLED
from engine.lab.host.calibrate import device_of
from engine.lab.host.measure.cases import MeasureError
from engine.lab.host.measure.fused import BLOCKS, Rates, measure_block, predicted_times, tile_rows
from engine.lab.timing import MeasurementCancelled
from model_zoo.families.images import Net
from tests.laws.lab.test_calibrate import HABITS, ROOFLINE

DEVICE = device_of(ROOFLINE, HABITS)
CHAINS = [name for name, block in BLOCKS.items() if not block.conv]


def gain(name: str, read: float, store: float) -> float:
    wide, deep = predicted_times(DEVICE, BLOCKS[name], Rates(read, store))
    return wide / deep


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_gains_the_more_the_slower_memory_is(name):
    gains = [gain(name, ps * 1e-12, ps * 1e-12) for ps in (20, 60, 120, 240)]
    assert gains == sorted(gains)
    assert gains[0] < gains[-1]


@pytest.mark.parametrize("name", CHAINS)
def test_behind_a_memory_without_end_the_gain_is_the_traffic_before_over_after(name):
    block = BLOCKS[name]
    side = (block.side - block.window) // block.stride + 1
    inside, out = block.side**2, side**2
    steps = 2 if block.normalised else 1
    before = steps * 2 * inside + inside + out  # each pass reads and writes all of it, the pool reads it
    assert gain(name, 1e-3, 1e-3) == pytest.approx(before / (inside + out), rel=1e-3)


def test_tiles_that_share_rows_convolve_them_twice():
    block = replace(BLOCKS["densenet161-conv0"], stride=1)
    shared = predicted_times(DEVICE, block, Rates(1e-15, 1e-15))
    apart = predicted_times(DEVICE, replace(block, stride=3), Rates(1e-15, 1e-15))
    assert shared[0] / shared[1] < apart[0] / apart[1]


def test_a_tile_is_as_high_as_half_the_cache():
    net = Net(3, 224, 224)
    net.pool("pool", net.conv("conv", net.input, 64, 3, 1, pad=1), 2, 2)
    row = 4 * 224 * 64
    assert tile_rows(net.ops, 1.0) == 1
    for rows in (1, 3, 8):
        assert tile_rows(net.ops, 2 * 2 * rows * row) == rows


def test_an_unknown_block_is_one_sentence():
    with pytest.raises(MeasureError, match="block is 'lenet'; allowed: alexnet-conv1"):
        measure_block("lenet", DEVICE)


@pytest.mark.skipif(not JIT_ENABLED, reason="interpreted kernels take minutes")
def test_a_measured_block_brings_rates_and_both_times():
    run = measure_block("resnet152-pool", DEVICE, rounds=5, limit_s=0.2)
    assert run.rates.read_s > 0
    assert len(run.breadth.samples) == len(run.depth.samples) == 5
    assert run.gain > 1  # a third of the traffic and the same work
    assert run.predicted_gain == pytest.approx(run.predicted_breadth_s / run.predicted_depth_s)
    with pytest.raises(MeasurementCancelled):
        measure_block("resnet152-pool", DEVICE, rounds=5, progress=lambda done, of: False)
