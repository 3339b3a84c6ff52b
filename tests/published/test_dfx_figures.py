"""Figures 8 and 15 of the appliance's document: what its panels show, and what of a request no mechanism explains."""

from itertools import product

import pytest

from engine.devices.dfx.fabric import fabric
from engine.evaluate import evaluate
from engine.published.dfx import bar, report, tiles
from engine.scenario.overrides import apply_all
from hardware_specs.catalog import default_catalog


def test_one_share_is_fitted_of_every_model_on_every_number_of_cards_and_it_is_small():
    """64% of 1.5B on four cards rested on two fitted constants; now what is fitted is one, and none on one card."""
    for model, cards in product(("345m", "1.5b"), (1, 2, 4)):
        own = report("dfx", model, cards)
        share = sum(row.time_s for row in own.other if row.name.endswith("unexplained")) / own.latency_s
        assert (share == 0) == (cards == 1)
        assert cards == 1 or 0.05 < share < 0.2
        without = evaluate(apply_all(bar("dfx", model, cards), ["model.unexplained=0"])).latency_s
        assert 1 - without / own.latency_s == pytest.approx(share, rel=0.02, abs=1e-12)


def test_three_tiles_tie_in_attention_and_the_outer_two_are_slower():
    times = [seconds for seconds, _, _ in tiles().values()]
    assert max(times[1:4]) < 1.02 * min(times[1:4]) < 1.15 * min(times[1:4]) < min(times[0], times[4])


def test_of_the_tiles_that_tie_the_widest_takes_the_least_fabric():
    device = default_catalog().device("alveo-u280-dfx")
    for name in ("lut", "ff", "bram36", "dsp"):
        narrow, middle, wide = (sum(fabric(device, tile)[name].values()) for tile in list(tiles())[1:4])
        assert narrow > middle > wide
