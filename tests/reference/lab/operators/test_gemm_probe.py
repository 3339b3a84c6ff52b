"""The host probe: figures that hold together, and refusals in one sentence."""

import dataclasses
import math
from time import thread_time

import pytest

from engine.kernels import jit
from engine.kernels.jit import kernel
from engine.lab.host.calibrate import _cycle
from engine.lab.probe import Prober, _integer_peak, cache_sizes, compute_peak, stream_read
from engine.lab.ranges import KernelError, fresh
from engine.lab.timing import sample


def ratio(one, other, low, high=math.inf, most=400):
    """Ratio of the best of two rates measured in turn: load beside them slows a run down, and hastens none.

    It is measured thrice, and on while it is not between `low` and `high`.
    """
    first, second, found = 0.0, 0.0, math.nan
    for pairs in range(most):
        first, second = max(first, one()), max(second, other())
        found = first / second
        if pairs >= 2 and low < found < high:
            break
    return found


@pytest.fixture(scope="module")
def prober():
    """Its buffers are a gigabyte."""
    return Prober()


@pytest.mark.skipif(not jit.JIT_ENABLED, reason="a roofline of interpreted code means nothing")
def test_the_probe_is_consistent(prober):
    found = prober.roofline()
    for field in dataclasses.fields(found):
        value = getattr(found, field.name)
        assert not isinstance(value, float) or value > 0, field.name
    assert found.launch < found.dispatch
    assert found.threads == jit.pool_size()
    newest = jit.host_features() if jit.isa() == "avx512vnni" else ()
    assert (found.bf16 is None) == ("avx512bf16" not in newest)
    assert (found.binary is None) == ("avx512vpopcntdq" not in newest)


@pytest.mark.skipif(not jit.JIT_ENABLED, reason="a roofline of interpreted code means nothing")
def test_what_is_nearer_or_narrower_is_faster(prober):
    if jit.isa() != "portable":  # narrow loads are bound by the core's ports, which another thread of it halves
        assert ratio(lambda: prober.near("l1", 1), lambda: prober.near("l3", 1), 1) > 1
    assert ratio(lambda: prober.near("l1", 1), lambda: stream_read(prober.words, rounds=1), 1) > 1
    # four products a lane in one instruction; or two a lane in a product of pairs, and an addition, maybe on the same
    # port: a half, of which a tile whose data are loaded reaches four fifths at least; floats are never loaded
    low, high = (2, 4.5) if jit.isa() == "avx512vnni" else (0.4, 2.1)
    assert low < ratio(lambda: _integer_peak(1), lambda: compute_peak("f32", rounds=1), low, high) < high


@kernel
def _shifts(steps, x, addend):
    for _ in range(steps):
        x = (x >> 7) + addend
    return x


@pytest.mark.skipif(not jit.JIT_ENABLED, reason="interpreted code takes other cycles")
def test_a_cycle_is_that_of_another_chain_without_copies():
    def cycles() -> float:
        return 2.0 * 200_000 / sample(lambda: _shifts(200_000, 1, 12345), thread_time, 9, 0.012).best

    assert 0.93 < ratio(lambda: 1.0 / _cycle(), cycles, 0.93, 1.07) < 1.07


def test_cache_sizes_grow_outwards():
    sizes = cache_sizes()
    assert 0 < sizes.l1 < sizes.l2 < sizes.l3


def test_an_unknown_peak_is_refused():
    with pytest.raises(KernelError, match="kind is 'f64'; allowed: f32, u8s8, bf16, xnor"):
        compute_peak("f64")


@pytest.mark.parametrize("count", [0, 1, 17, 4096])
def test_packed_storage_starts_on_a_cache_line(count):
    array = fresh((count,), "float32", zero=True)
    assert array.shape == (count,)
    assert array.ctypes.data % 64 == 0 or count == 0
    assert not array.any()
