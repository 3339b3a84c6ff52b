"""Random numbers, order statistics and the measuring pass against published vectors and numpy."""

import numpy as np
import pytest

from engine.kernels.events.measure import measure
from engine.kernels.events.rng import fill_exponential, fill_gamma, mix, stream_key, uniform
from engine.kernels.events.streams import poisson_times
from engine.kernels.jit import JIT_ENABLED

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # 64-bit wrap, uncompiled

N = 20_000 if JIT_ENABLED else 1_500


def test_generator_is_splitmix64() -> None:
    """First outputs for seed 0 as its authors' C code gives them."""
    golden = 0x9E3779B97F4A7C15
    states = [np.uint64((i * golden) % 2**64) for i in (1, 2, 3)]
    assert [int(mix(state)) for state in states] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_uniform_is_open_and_even() -> None:
    draws = np.array([uniform(stream_key(1, 2, 3), i) for i in range(N)])
    assert 0.0 < draws.min() < draws.max() < 1.0
    assert np.histogram(draws, 10, (0, 1))[0] == pytest.approx(N / 10, rel=0.15)
    assert len({int(stream_key(a, b, c)) for a in range(9) for b in range(9) for c in range(9)}) == 729


def test_exponential_is_minus_log_within_two_ulp_and_starts_anywhere() -> None:
    key = stream_key(5, 1)
    whole, part = np.empty(N), np.empty(100)
    fill_exponential(key, 0, whole)
    expected = -np.log([uniform(key, i) for i in range(N)])
    np.testing.assert_array_max_ulp(whole, expected, maxulp=2)
    fill_exponential(key, 777, part)
    np.testing.assert_array_equal(part, whole[777:877])


def test_poisson_times_do_not_depend_on_how_many_are_drawn() -> None:
    long, short = np.empty(1300), np.empty(700)
    poisson_times(stream_key(1, 1), 10.0, long)
    poisson_times(stream_key(1, 1), 10.0, short)
    np.testing.assert_array_equal(long[:700], short)


@pytest.mark.parametrize("shape", [0.3, 1.0, 6.0])
def test_gamma_moments(shape: float) -> None:
    out = np.empty(N)
    fill_gamma(stream_key(2, 2), shape, out)
    assert out.mean() == pytest.approx(1.0, abs=6 / np.sqrt(shape * N))
    assert out.std() == pytest.approx(shape**-0.5, rel=0.2)


_RANDOM = np.random.default_rng(0)


def test_measure_equals_its_definition() -> None:
    arrive = np.sort(_RANDOM.uniform(0, 10, 300))
    done = arrive + _RANDOM.exponential(size=300)
    done[::7] = np.nan
    skip = 30
    latency = np.empty(270)
    answered, dropped, total, area, last = measure(arrive, done, skip, latency)
    inside = ~np.isnan(done[skip:])
    assert (answered, dropped) == (inside.sum(), (~inside).sum())
    np.testing.assert_array_equal(latency[:answered], (done - arrive)[skip:][inside])
    assert total == pytest.approx(latency[:answered].sum())
    assert last == pytest.approx(max(np.nanmax(done[skip:]), arrive[-1]))
    t = np.linspace(arrive[skip], arrive[-1], 200_001)
    kept = ~np.isnan(done)
    present = np.searchsorted(arrive[kept], t, side="right") - np.searchsorted(np.sort(done[kept]), t, side="right")
    assert area == pytest.approx(np.trapezoid(present, t), rel=1e-3)
