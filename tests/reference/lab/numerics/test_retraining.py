"""A network converted to narrow floats and trained on in them: what is lost, and what three epochs bring back."""

from __future__ import annotations

import numpy as np
import pytest

from engine.lab.numerics.retraining import _Network, retrained
from engine.numerics.formats import SharedExponent


def test_slopes_are_those_of_finite_differences():
    network, rng = _Network(8, 10, 3), np.random.default_rng(0)
    x, labels = rng.normal(0, 1, (5, 4, 8)).astype(np.float32), rng.integers(0, 10, 5)

    def loss():
        logits = network.forward(x, None)[0].astype(np.float64)
        return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(5), labels]))

    logits, steps, held = network.forward(x, None)
    slopes = network.slopes(logits, labels, steps, held)
    for at, slope in enumerate(slopes):
        own, along = network.values[at], np.sign(slope) * 1e-2  # far enough for float32
        found = []
        for sign in (1, -1):
            network.values[at] = (own + sign * along).astype(np.float32)
            found.append(loss())
        network.values[at] = own
        assert (found[0] - found[1]) / 2e-2 == pytest.approx(np.abs(slope).sum(), rel=0.03)


def test_a_weight_is_stored_by_the_format_it_is_multiplied_in():
    network = _Network(8, 10, 0)
    for value, seen in zip(network.values, network.rounded(SharedExponent(400, 2, 5)), strict=True):
        levels = {len(np.unique(np.abs(row[row != 0]))) for row in seen} if value.ndim == 2 else {3}
        assert max(levels) <= 3  # sign and two bits of magnitude over a whole row


def test_narrow_floats_lose_what_three_epochs_bring_back():
    """Figure 6: converted, production networks lose 1 to 3%, which retraining recovers. Here within 1% of float32."""
    eight, nine = (retrained(name, 400) for name in ("ms-fp8", "ms-fp9"))
    assert eight.trained == nine.trained > 0.95
    assert eight.converted < nine.converted < nine.trained + 0.005
    assert nine.trained - nine.converted < 0.03
    assert eight.trained - eight.converted > 0.01
    assert max(nine.epochs) > nine.trained - 0.01
    assert max(eight.epochs) > eight.trained - 0.015
    assert eight.bits < nine.bits < 4.5
    assert eight.weight_bytes < 0.11 * 4 * 14464
    assert retrained.__wrapped__("ms-fp9", 400, 0).converted == nine.converted
