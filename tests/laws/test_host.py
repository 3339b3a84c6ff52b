"""This machine as a device: peaks are the measured ones, and a slower memory makes depth-first blocks gain more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.devices import cpu
from engine.fusion import block_gain
from engine.host import host_core
from engine.kernels.probe import CacheSizes, Roofline
from model_zoo.families.images import Net

SEEN = Roofline(
    isa="avx512vnni", threads=2, caches=CacheSizes(l1=32768, l2=2**20, l3=32 * 2**20), fp32=150e9, int8=600e9,
    bf16=None,
    l1=400e9, l2=120e9, l3=30e9, dram=12e9, dram_all=20e9, triad=12e9, gather=80e6, launch=1e-6, dispatch=1e-5,
)  # fmt: skip


def block():
    net = Net(3, 224, 224)
    net.pool("pool", net.conv("conv", net.input, 64, 3, 1, pad=1), 2, 2)
    return net.ops


def test_peaks_and_formats_are_the_measured_ones():
    device = host_core(SEEN)
    assert cpu.formats(device)[0] == "int8"
    assert cpu.peak(device, "fp32") == pytest.approx(SEEN.fp32)
    assert cpu.peak(device, "int8") == pytest.approx(SEEN.int8)
    assert host_core(replace(SEEN, isa="avx2")).cpu.clock.si == pytest.approx(SEEN.fp32 / 32)


def test_a_depth_first_block_gains_more_the_slower_the_caches_are():
    gains = [
        block_gain(host_core(replace(SEEN, l3=rate, l2=4 * rate)), block(), 1, 4) for rate in (1e15, 100e9, 30e9, 10e9)
    ]
    assert gains == sorted(gains)
    assert gains[-1] > 1.3
    # with caches that cost nothing there is nothing to gain
    assert gains[0] == pytest.approx(1.0, abs=0.05)


def test_rows_convolved_twice_cost_their_share():
    net = Net(3, 227, 227)
    net.pool("pool", net.conv("conv", net.input, 96, 11, 4, pad=0), 3, 2)
    free = host_core(replace(SEEN, l3=1e15, l2=1e15, dram=1e15, dram_all=1e15))
    few, many = block_gain(free, net.ops, 1, 1), block_gain(free, net.ops, 1, 16)
    assert few == pytest.approx(2 / 3, rel=0.05)  # three rows for each two that are new
    assert few < many < 1.0
