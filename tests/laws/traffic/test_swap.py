"""Preemption by swap: blocks cross the host's link and return, none are lost, and passes wait for them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from engine import default_scenario
from engine.cli.main import main
from engine.kernels.events.passes import PASS
from engine.resolve.bind import bind
from engine.traffic import Fixed, TrafficError
from engine.traffic.engines.calendar import ClosedLoop, serve
from engine.traffic.engines.pass_times import SWAP_SPACE, engine_of
from engine.traffic.engines.scheduler import POLICIES, Scheduler
from engine.traffic.scenario_load import token_bytes
from tests.each import each
from tests.laws.traffic.test_calendar import GPU, LOADS, PASSES, TIGHT, run

SWAP = replace(TIGHT, preempt="swap", swap_s=2e-4, kv_blocks=150)
LLAMA = default_scenario("h100-sxm", "llama3.1-8b").with_(inputs=512, outputs=64)


@each("load, policy, ranks", [(load, policy, ranks) for load in LOADS for policy in POLICIES for ranks in (1, 2)])
def test_no_request_is_lost_and_blocks_are_conserved_on_device_and_host(load: str, policy: str, ranks: int) -> None:
    own = {name: getattr(SWAP, name) for name in ("preempt", "swap_s", "budget", "max_seqs", "block")}
    report = run(LOADS[load], replace(POLICIES[policy], **own, kv_blocks=120, ranks=ranks), requests=200)
    log = dict(zip(PASS, report.log.T))
    assert np.isfinite(report.finish).all()
    assert (report.first <= report.finish).all()
    assert (log["blocks"] <= report.kv_blocks).all()
    assert (log["host_blocks"] >= 0).all()
    assert log["host_blocks"][-1] == 0
    assert report.swapped_blocks % 2 == 0, "what leaves returns"
    assert log["host_blocks"].max() <= report.peak_host_blocks <= report.swapped_blocks / 2
    assert (report.preemptions > 0) == (report.swapped_blocks > 0)


def test_nothing_preempted_changes_no_bit_and_a_dearer_link_costs_time() -> None:
    wide = [run(ClosedLoop(16), replace(SWAP, kv_blocks=5000, preempt=how), 200) for how in ("recompute", "swap")]
    np.testing.assert_array_equal(wide[0].finish, wide[1].finish)
    assert {"swapped_blocks", "peak_host_blocks"} == wide[1].as_dict().keys() - wide[0].as_dict().keys()
    cheap, dear = (run(ClosedLoop(48), replace(SWAP, swap_s=seconds), 300) for seconds in (1e-7, 1e-3))
    again = run(ClosedLoop(48), replace(SWAP, preempt="recompute"), 300)
    assert cheap.preemptions > 50
    assert cheap.duration_s < again.duration_s < dear.duration_s
    assert cheap.log[:, PASS.index("prefill_tokens")].sum() < again.log[:, PASS.index("prefill_tokens")].sum()


def test_every_pass_waits_for_the_blocks_that_cross() -> None:
    """Of passes alike, those that swap take the link's time more: all of it together is that of all blocks."""
    slow, fast = (serve(GPU, replace(SWAP, swap_s=s), ClosedLoop(12), Fixed(300), Fixed(90), 12) for s in (5e-2, 1e-9))
    assert slow.swapped_blocks == fast.swapped_blocks > 0
    assert slow.passes == fast.passes
    assert slow.duration_s - fast.duration_s == pytest.approx(5e-2 * slow.swapped_blocks, rel=1e-6)


def test_the_link_and_the_memory_are_the_catalogs() -> None:
    _, rules = engine_of(LLAMA, Scheduler(preempt="swap", block=32), 576)
    each_block = 32 * token_bytes(LLAMA.with_(batch=1, outputs=1), 576)
    assert rules.swap_s == pytest.approx(each_block / bind(LLAMA).wire("host").link.usable)
    assert rules.swap_blocks == int(SWAP_SPACE / each_block)
    _, split = engine_of(
        LLAMA.with_(devices=2, scheme="tensor"), Scheduler(preempt="swap", block=32), 576
    )  # each device has its half, and a link of its own
    assert split.swap_s == pytest.approx(rules.swap_s / 2)


REFUSED = {
    "preempt is 'evict'; it must be recompute or swap": lambda: Scheduler(preempt="evict"),
    "swap_s is -1": lambda: Scheduler(swap_s=-1.0),
    "preempt is 'swap' without a link to the host": lambda: run(ClosedLoop(4), replace(SWAP, swap_s=0.0)),
    "swap_blocks is 3; a request of": lambda: run(ClosedLoop(4), replace(SWAP, swap_blocks=3)),
    "swap_blocks is 20; preempted sequences have": lambda: serve(
        GPU, replace(SWAP, swap_blocks=20), ClosedLoop(24), Fixed(200), Fixed(120), 48
    ),
    "has no link to a host's memory, so recompute": lambda: engine_of(
        default_scenario("xeon-8280l", "gpt2-345m"), Scheduler(preempt="swap"), 64
    ),
}


@each("sentence", REFUSED)
def test_what_can_not_be_swapped_is_refused_in_a_sentence(sentence: str) -> None:
    with pytest.raises(TrafficError, match=sentence):
        REFUSED[sentence]()


def test_the_command_swaps(capsys, tmp_path) -> None:
    (tmp_path / "passes.yaml").write_text(PASSES)
    asked = ["simulate", "--passes", str(tmp_path / "passes.yaml"), "--inputs", "200", "--outputs", "60"]
    asked += ["--clients", "24", "--kv-blocks", "100", "--preempt", "swap"]
    assert main([*asked, "--swap-s", "0.0001", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["swapped_blocks"] >= 2 * data["peak_host_blocks"] > 0
    assert main([*asked, "--swap-s", "0.0001"]) == 0
    assert f"{data['swapped_blocks']:,} blocks swapped" in capsys.readouterr().out
    assert main(asked) == 2
    assert "swap_s must be a block's seconds there" in capsys.readouterr().err
