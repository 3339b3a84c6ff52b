"""The order in which a DFX core loads the tiles of a matrix: what it reads, what it keeps, how it is listed."""

import itertools
import re

import pytest

from engine.analyses.machine import listing, program_text
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from engine.scenario.overrides import apply_all


@pytest.mark.parametrize("tile", [(), (32, 32), (16, 64), (128, 8)])
@pytest.mark.parametrize(("model", "cards"), [("345m", 1), ("1.5b", 4)])
def test_the_longer_inputs_stay_the_less_registers_are_read_and_the_more_sums_are_kept(model, cards, tile):
    """Figure 9: reads and time fall from vertical over zigzag to horizontal, buffers grow; the work is the same."""
    base = default_scenario("dfx-u280", f"gpt2-{model}", devices=cards, tile=tile)
    found = []
    for direction in ("vertical", None, "horizontal"):
        report = evaluate(base.with_(load_direction=direction))
        (said, *_) = (a.text for a in report.assumptions if "words of vector registers" in a.text)
        reads, kept = (float(n.replace(",", "")) for n in re.findall(r"[\d,]+", said))
        found.append((report.latency_s, reads, -kept))
        assert sum(op.flops for op in report.ops) == sum(op.flops for op in evaluate(base).ops)
    assert found == sorted(found, reverse=True)
    assert all(later <= earlier for a, b in itertools.pairwise(found) for earlier, later in zip(a, b, strict=True))
    if not tile:  # of the published one the zigzag takes no time, and a quarter of the vertical one's reads
        (slow, most, _), (now, reads, kept), (least, _, many) = found
        assert (most, kept) == (pytest.approx(4 * reads, rel=1e-3), -4)  # rounded where they are told
        assert 1.3 * now < slow
        assert least < now < 1.005 * least
        assert many < 20 * kept
        verdicts = [evaluate(base.with_(load_direction=d)).limited_by for d in ("vertical", "horizontal")]
        assert verdicts == ["reads of registers", "latency of off-chip memory"]


def test_the_usual_load_direction_by_its_name_is_as_none_set():
    base = default_scenario("dfx-u280", "gpt2-345m")
    assert evaluate(base.with_(load_direction="zigzag")).latency_s == evaluate(base).latency_s


def test_a_load_direction_is_listed_as_it_is_priced_and_its_sums_lie_in_blocks_the_core_leaves():
    base = default_scenario("dfx-u280", "gpt2-345m", devices=1, scheme="single", inputs=1, outputs=1)
    groups = ("self-attention", "feed-forward", "layer-norm+residual")
    for direction in ("vertical", "horizontal"):
        one = base.with_(load_direction=direction)
        report = evaluate(one)
        layers = sum(op.time_s for op in report.ops if op.group in groups and op.name != "final-norm")
        assert 24 * listing(one, program_text(one)).seconds == pytest.approx(layers, rel=1e-9)
        (sums,) = (row for row in report.memory if row.level == "bram")
        assert sums.need_bytes == 36 * 128 * 16 * {"vertical": 1, "horizontal": 2}[direction]  # 3,142 columns a lane
    full = apply_all(base.with_(load_direction="horizontal"), ["devices.0.fpga.used.bram36=0.99"])
    assert not evaluate(full).fits
    with pytest.raises(ScenarioError, match="is 'spiral'; allowed: zigzag, horizontal, vertical"):
        evaluate(base.with_(load_direction="spiral"))
    with pytest.raises(ScenarioError, match="allowed here: zigzag"):
        evaluate(default_scenario("h100-sxm", "llama3.1-8b").with_(load_direction="vertical"))
