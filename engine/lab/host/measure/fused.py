"""Blocks of four networks depth first and breadth first on this host, beside the gain the CPU model predicts.

A prediction knows what a block moves and works before and after, this host as `engine.lab.host.calibrate` writes it,
and the rates at which an array of the block's size is read and copied, probed in the same rounds: which level of memory
it lies in, and what others leave of it, changes by the second on a shared machine. No kernel of the block is timed for
it. Measurements beside estimates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from engine.analyses.depth_first import ELEMENT, pool_cycles, seconds, tile_cache
from engine.devices import family
from engine.lab.host.measure.cases import MeasureError
from engine.lab.operators.conv import conv, pack_conv
from engine.lab.operators.fused import conv_relu_pool_depth_first, max_pool
from engine.lab.operators.norm import batch_norm
from engine.lab.operators.pointwise import activate
from engine.lab.probe import copy_once, read_once
from engine.lab.ranges import fresh
from engine.lab.timing import MeasurementCancelled, Progress, Spread
from entries.files import read_plain
from hardware_specs.schema import Device
from model_zoo.families.blocks import elementwise
from model_zoo.families.images import Net
from model_zoo.ops import ZERO, Graph, Op, Phase, dim


@dataclass(frozen=True)
class FusedBlock:
    """Images of a batch, their side and channels; what comes first; window and stride of the pool that ends it.

    `conv` holds filters, kernel, stride and padding of a convolution before the ReLU, or is empty.
    """

    title: str
    batch: int
    side: int
    channels: int
    conv: Sequence[int]
    normalised: bool
    window: int
    stride: int


BLOCKS: dict[str, FusedBlock] = {
    name: FusedBlock(**row) for name, row in read_plain(Path(__file__).with_name("blocks.yaml")).items()
}
"""Blocks by name."""


@dataclass(frozen=True)
class Rates:
    """What reading an element costs and what storing one adds, on an array as large as the block's intermediate. [s]"""

    read_s: float
    store_s: float

    def stream(self, read: float, write: float) -> float:
        """Time of so many elements. [s]"""
        return read * self.read_s + write * self.store_s


@dataclass(frozen=True)
class FusedRun:
    """A block both ways: measured, and as the CPU model expects them. [s]"""

    name: str
    title: str
    breadth: Spread
    depth: Spread
    rates: Rates
    predicted_breadth_s: float
    predicted_depth_s: float

    @property
    def gain(self) -> float:
        """Breadth-first over depth-first time, the median of interleaved pairs. [-]"""
        return float(np.median([w / d for w, d in zip(self.breadth.samples, self.depth.samples, strict=True)]))

    @property
    def predicted_gain(self) -> float:
        """The same as predicted. [-]"""
        return self.predicted_breadth_s / self.predicted_depth_s


def _ops(block: FusedBlock) -> tuple[Op, ...]:
    """The block's operators, counted for one image."""
    net = Net(block.channels, block.side, block.side)
    if block.conv:
        filters, kernel, stride, pad = block.conv
        net.pool("pool", net.conv("conv", net.input, filters, kernel, stride, pad=pad), block.window, block.stride)
        return tuple(net.ops)
    size = dim(block.side * block.side * block.channels, "b")
    net.pool("pool", net.input, block.window, block.stride)
    norm = elementwise("norm", "BatchNormalization", size, group="chain", inputs=(), stored=2.0 * block.channels)
    relu = elementwise("relu", "Relu", size, group="chain", inputs=("norm",) if block.normalised else ())
    pool = replace(net.ops[-1], inputs=("relu",))
    return (norm, relu, pool) if block.normalised else (relu, pool)


def tile_rows(ops: tuple[Op, ...], cache: float) -> int:
    """Pooled rows of a tile of a convolution, its activation and a pool, one or more.

    Rows between them fill at most half of `cache` [B]; the rest is for weights and inputs.
    """
    product, _, pool = ops
    window, stride = pool.attribute("kernel"), pool.attribute("stride", 1.0)
    row = ELEMENT * sqrt(product.m.at()) * product.attribute("filters")
    return max(1, int((cache / 2 / row - window) // stride) + 1)


def predicted_times(device: Device, block: FusedBlock, rates: Rates) -> tuple[float, float]:
    """Breadth-first and depth-first time of a block on one core of a CPU. [s] Estimates.

    An operator that passes over an array in order hides its arithmetic behind the transfer, or the other way round; a
    window hops between rows, which no prefetcher follows, so that a pool's work, known from data in L2, adds to what
    the transfer takes longer than from there.
    Depth first, what comes before the pool stays in registers and costs arithmetic alone. A convolution is computed by
    tiles of rows, so that its output never leaves the core; rows that two tiles' windows share are made twice. Without
    one, a tile is a single pooled row.
    """
    assert device.cpu is not None, device.id
    ops, batch, fam = _ops(block), block.batch, family(device.kind)
    model, peak = fam.model(device), fam.peak(device, "fp32") / device.cpu.cores.si
    *plain, pool = (op for op in ops if op.kind != "Conv")
    height = tile_rows(ops, tile_cache(device)) if block.conv else 1
    again = (block.window + (height - 1) * block.stride) / (height * block.stride)
    call = model["op_overhead"]
    pooling = pool.flops.at(batch) * pool_cycles(device) / (peak / 4.0)  # a vector a cycle, see the CPU family
    reads, writes = pool.reads.at(batch), pool.writes.at(batch)
    near = ELEMENT * reads / (model["private_bytes_per_cycle"] * device.cpu.clock.si)
    wide = len(ops) * call + pooling + max(rates.stream(reads, writes) - near, 0.0)
    deep = call + pooling
    for op in plain:
        work = op.flops.at(batch)
        wide += max(work / (peak / 4.0), rates.stream(op.reads.at(batch), op.writes.at(batch)))
        deep += again * work / (peak / 2.0)  # two vectors a cycle where nothing is loaded or stored, and none is fused
    if not block.conv:
        return wide, deep + max(rates.stream(plain[0].reads.at(batch), writes) - near, 0.0)
    product = replace(ops[0], inputs=())
    again_op = replace(product, flops=product.flops * again, writes=ZERO)
    return wide + _product(device, product, batch), deep + rates.stream(0.0, writes) + _product(device, again_op, batch)


def _product(device: Device, op: Op, batch: int) -> float:
    """A convolution on one core, by the CPU family. [s]"""
    phase = Phase("forward", (op,))
    return seconds(device, Graph(phases=(phase,), unit="image"), phase, batch, tile=(1,))


def _calls(block: FusedBlock, device: Device) -> tuple[tuple[Callable[[], Any], ...], int]:
    """Breadth first, depth first, a reading and a copy of what lies between; and the elements of that.

    Buffers are kept, as a framework's allocator would.
    """
    rng = np.random.default_rng(0)

    def like(*shape: int) -> np.ndarray:
        noise = fresh(shape)
        noise[:] = rng.standard_normal(shape, dtype=np.float32)
        return noise

    x = like(block.batch, block.side, block.side, block.channels)
    pooling: dict[str, Any] = {"window": block.window, "stride": block.stride, "threads": 1}
    if block.conv:
        filters, kernel, stride, pad = block.conv
        packed = pack_conv(like(filters, block.channels, kernel, kernel), stride=stride, padding=pad)
        wide_in = conv(x, packed, threads=1)
        hidden = (like(*wide_in.shape), like(*wide_in.shape))
        out = max_pool(wide_in, **pooling)
        rows = tile_rows(_ops(block), tile_cache(device))
        first = partial(conv, x, packed, out=hidden[0], threads=1)
        deep = partial(conv_relu_pool_depth_first, x, packed, tile_rows=rows, out=out, **pooling)
    elif block.normalised:
        wide_in, hidden = x, (like(*x.shape), like(*x.shape))
        out, affine = max_pool(x, **pooling), (like(block.channels), like(block.channels))
        first = partial(batch_norm, x, *affine, out=hidden[0], threads=1)
        deep = partial(max_pool, x, affine=affine, out=out, **pooling)
    else:
        wide_in, hidden, first = x, (like(*x.shape),), lambda: x
        out = max_pool(x, **pooling)
        deep = partial(max_pool, x, relu=True, out=out, **pooling)
    apart = out.copy()

    def wide() -> np.ndarray:
        return max_pool(activate(first(), "relu", out=hidden[-1], threads=1), out=apart, **pooling)

    if not np.array_equal(wide(), deep()):
        raise AssertionError(f"{block.title}: depth first and breadth first differ")
    return (wide, deep, partial(read_once, wide_in), partial(copy_once, wide_in, hidden[-1])), wide_in.size


def measure_block(
    name: str, device: Device, *, rounds: int = 15, limit_s: float = 1.0, progress: Progress | None = None
) -> FusedRun:
    """Time a block both ways in turns, one thread; `device` is this host, see `engine.lab.host.calibrate`.

    MeasureError for a name that isn't in `BLOCKS`; MeasurementCancelled where `progress` returns False.
    """
    if name not in BLOCKS:
        raise MeasureError(f"block is {name[:30]!r}; allowed: {', '.join(BLOCKS)}")
    block = BLOCKS[name]
    calls, size = _calls(block, device)
    result: list[list[float]] = [[] for _ in calls]
    begin = perf_counter()
    while len(result[0]) < rounds and (len(result[0]) < 5 or perf_counter() - begin < limit_s):
        for call, times in zip(calls, result, strict=True):
            start = thread_time()
            call()
            times.append(thread_time() - start)
        if progress is not None and progress(len(result[0]), rounds) is False:
            raise MeasurementCancelled
    read, copy = (float(np.median(times)) / size for times in result[2:])
    rates = Rates(read, max(copy - read, 0.0))
    wide, deep = predicted_times(device, block, rates)
    return FusedRun(name, block.title, Spread(tuple(result[0])), Spread(tuple(result[1])), rates, wide, deep)
