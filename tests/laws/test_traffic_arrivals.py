"""Arrivals and sizes are what they say: rates, variations, curves and shares."""

import numpy as np
import pytest
from scipy import stats

from engine.kernels.jit import JIT_ENABLED
from engine.traffic import Bursty, Diurnal, Fixed, Gamma, Listed, LogNormal, Mixed, Poisson, Uniform

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="statistics need the compiled engine's speed")

MS = 1e-3


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.5])
def test_gamma_gaps_have_the_stated_variation(cv: float) -> None:
    gaps = np.diff(Gamma(1000.0, cv).times(400_000, 5, 0))
    assert gaps.mean() == pytest.approx(MS, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.02)


def test_poisson_gaps_have_variation_one_and_are_exponential() -> None:
    gaps = np.diff(Poisson(1000.0).times(400_000, 5, 0))
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.01)
    assert stats.kstest(gaps, stats.expon(scale=MS).cdf).pvalue > 0.001
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 0.01


def test_bursts_have_the_stated_variation_and_rate() -> None:
    process = Bursty(1000.0, peak=4.0, share=0.2, burst_s=0.02)
    gaps = np.diff(process.times(2_000_000, 5, 0))
    assert process.cv > 1.5
    assert gaps.std() / gaps.mean() == pytest.approx(process.cv, rel=0.03)
    assert 1.0 / gaps.mean() == pytest.approx(1000.0, rel=0.03)


def test_diurnal_curve_is_followed() -> None:
    day = Diurnal(1000.0, (1.0, 3.0, 2.0), period_s=30.0)
    times = day.times(300_000, 2, 0)
    counts, edges = np.histogram(times[times < 270.0] % 30.0, bins=60, range=(0.0, 30.0))
    middle = (edges[1:] + edges[:-1]) / 2
    expected = np.interp(middle, [0, 10, 20, 30], [1.0, 3.0, 2.0, 1.0]) / 2.0
    assert counts / counts.mean() == pytest.approx(expected, abs=0.06)
    assert day.peak_qps == pytest.approx(1500.0)
    assert (np.diff(day.times(10_000, 2, 0)) >= 0).all()


@pytest.mark.parametrize(
    "sizes", [Fixed(7), Mixed((1, 5, 9), (0.2, 0.0, 0.8)), Uniform(3, 12), LogNormal(40, 0.8, 256), Listed([4, 4, 9])]
)
def test_drawn_sizes_have_the_share_they_say(sizes) -> None:
    drawn = sizes.draw(60_000, 1, 2, 0)
    for bound in (1, 4, 7, 9, 40, 300):
        assert (drawn <= bound).mean() == pytest.approx(sizes.share(bound), abs=0.01)
