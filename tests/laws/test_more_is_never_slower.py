"""Laws over random valid designs of all families: more of a resource is never slower, more work never faster.

`law_grids` draws and compares; its docstring has the command that runs more. What still breaks a law is in `LEFT` by
name, with the physics behind it or that it is not known yet, and the largest size measured, over more grids than run
here; anything else fails.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from engine import default_scenario, evaluate
from engine.scenario import Scenario
from engine.scenario.overrides import apply
from tests.each import each
from tests.effort import examples
from tests.laws.law_grids import Broken, broken, grids

SEED, GRIDS = 1, {"card": 24}  # the 25th of cards takes four minutes of a core
LEAST = {"card": 40_000, "cpu": 25_000, "dfx": 40_000, "gpu": 20_000, "npu": 20_000, "smartnic": 5_000}


@dataclass(frozen=True)
class Left:
    """A law that is left broken: where, by how much at most, and why that is so."""

    family: str
    path: str  # the end of it
    most: float  # [-]
    why: str
    when: Callable[[Broken], bool] = lambda one: True


def _forked(one: Broken) -> bool:
    return not one.less.switches.get("fit-threads", True)


def _exchanged(one: Broken) -> bool:
    """Whether links, and the host that starts what crosses them, alone make the better design worse."""
    less, more = (evaluate(scenario) for scenario in (one.less, one.more))
    apart = [report.latency_s - report.breakdown["links"] - report.breakdown["host"] for report in (less, more)]
    return one.less.scheme == "tensor" and apart[1] <= apart[0] * (1 + 1e-9)


def _dealt(one: Broken) -> bool:
    """Whether a request is handed over more often, and takes no more than 0.35% longer for each card more."""
    cards = one.more.devices - one.less.devices
    return one.less.scheme == "pipelined" and one.figure == "latency" and one.excess <= 0.0035 * cards


def _near_is_slower(one: Broken) -> bool:
    """Whether bytes that the larger cache takes from memory off the chip cost time near the cores."""
    less, more = (evaluate(scenario).breakdown for scenario in (one.less, one.more))
    return more["onchip"] > less["onchip"] and more["offchip"] < less["offchip"]


def _notified(one: Broken) -> bool:
    """Whether notifications and issue slots alone make the design of less work slower."""
    less, more = (evaluate(scenario) for scenario in (one.less, one.more))
    apart = [r.latency_s - r.breakdown["overhead"] - r.breakdown["compute"] for r in (less, more)]
    return one.figure == "latency" and apart[0] <= apart[1] * (1 + 1e-9)


def _commanded(one: Broken) -> bool:
    """Whether a rate falls by no more than cards are added: those that share every operator."""
    cards = one.more.devices / one.less.devices
    return one.less.scheme == "tensor" and one.figure == "throughput" and one.excess <= (cards - 1) * (1 + 1e-9)


LEFT: tuple[Left, ...] = (
    Left("card", "devices", 0.75, "Pooled embeddings cross between cards; one card alone has no such messages.",
         lambda one: one.less.scheme == "tables"),
    Left("card", "devices", 1.3, "Cards that share every operator exchange its result over the switch.",
         lambda one: one.less.scheme == "tensor"),
    Left("card", "devices", 2.01,
         "The host commands a transfer to each card that shares an operator, 4 us of its one thread: three times the "
         "cards take a third of the requests of a small network. Cards times rate keeps the law.", _commanded),
    Left("card", "streams", 1.75,
         "An operator over several cores pays a kernel start, on one core a dispatch, which is less, and splitting is "
         "not chosen by time. Seen so in a case of 21%; the largest ones are not taken apart yet."),
    Left("card", "inputs", 0.02,
         "Which cores an operator is split over is not chosen by time, as for streams: four steps of a small recurrent "
         "network pass a little oftener than two. Not taken apart yet.",
         lambda one: one.less.scheme == "tensor" and one.figure == "requests a second"),
    Left("card", "capacity", 0.02,
         "Other weights stay on chip; presumably Graham's anomaly: a list schedule in another order. Not shown yet."),
    Left("card", "batch", 0.006,
         "Graham's anomaly: the longer operators are listed in another order, which packs better; in program order the "
         "same step is 0.9% slower, as the law says.", lambda one: one.less.switches.get("placement", True)),
    Left("card", "card.cores", 0.01, "Presumably Graham's anomaly, as for capacity; not shown yet."),
    Left("card", "mac_per_cycle.int8", 0.012, "Presumably Graham's anomaly, as for capacity; not shown yet."),
    Left("cpu", "flop_per_cycle.fp32", 0.7,
         "Wider SIMD fills less well: `width_exponent`, and columns fewer than lanes leave lanes idle."),
    Left("cpu", "streams", 0.45, "Fewer threads fork and join sooner where a framework forks them all.", _forked),
    Left("cpu", "cpu.cores", 0.25, "More threads fork and join later where a framework forks them all.", _forked),
    Left("cpu", "capacity", 2e-6,
         "A cache goes by its cores' clock, DRAM does not: at a third of it bytes come more slowly from near than from "
         "far, and a larger cache holds more of them.", _near_is_slower),
    Left("gpu", "devices", 14.7,
         "Devices that share every operator exchange its result, over PCIe longer than the sharing saves: of 16 MiB an "
         "L40S adds up 0.84 ms with another and 5.0 ms with three, which meet at a host bridge; 32 MiB with seven take "
         "15 to 16 times as long as with one. All but the exchange keeps the law.", _exchanged),
    Left("dfx", "devices", 0.0245,
         "Layers dealt over one card more send their state once more, in FP16 whatever the weights are (0.2% of a "
         "token in FP16, 0.35% in INT8); the rate keeps the law.", _dealt),
    Left("dfx", "devices", 0.0625,
         "Key heads are never cut: of 16 the fullest of seven cards has as many as the fullest of six, and each "
         "synchronisation goes round a longer ring, which at 800 MHz outlasts the head less of the fullest. "
         "All but the ring keeps the law.", _exchanged),
    Left("smartnic", "streams", 2.72,
         "Start and end of a layer are told from executor to executor: a small network on 256 mostly waits for that. "
         "More inferences at once leave each fewer, over more engines. All but both keeps the law.", _notified),
    Left("npu", "", 1.3,
         "Pinned weights lie the way that starts requests most often; with other hardware, or more of it, that is "
         "another way, in which a request crosses the network more often. Rates keep the law.",
         lambda one: one.less.scheme == "pinned" and one.figure == "latency"),
)  # fmt: skip


def _allowed(one: Broken) -> bool:
    return any(
        left.family == one.family and one.path.endswith(left.path) and left.when(one) and one.excess <= left.most
        for left in LEFT
    )


@pytest.mark.parametrize("family", sorted(LEAST))
def test_more_is_never_slower_and_more_work_never_faster(family: str) -> None:
    compared, found = 0, []
    wanted = GRIDS.get(family, 30)
    drawn = examples(wanted)
    for space in grids(family, SEED, drawn):
        count, some = broken(family, space)
        compared += count
        found += some
    known = sum(one.count for one in found if _allowed(one))
    print(f"{family}: {compared} comparisons, {known} broken with a reason")
    assert compared >= LEAST[family] * drawn / wanted / 2  # grids differ in size
    strange = [str(one) for one in found if not _allowed(one)]
    assert not strange, "\n".join(strange)


def test_a_rate_that_commands_of_the_host_bind_falls_as_cards_are_added() -> None:
    shared = default_scenario("fb-node", "dlrm-mlperf-v1", scheme="tensor", precision="int8", batch=1, streams=12)
    two, six = (shared.with_(devices=cards) for cards in (2, 6))
    rate, less = (evaluate(scenario).throughput_per_s for scenario in (two, six))
    assert rate / less == pytest.approx(3.0)
    assert evaluate(apply(six, "model.transfer_command", 2e-6)).throughput_per_s == pytest.approx(2 * less, rel=0.01)
    assert _allowed(Broken("card", "devices", "throughput", rate / less - 1, 1, two, six))
    assert not _allowed(Broken("card", "devices", "throughput", 2.005, 1, two, six))


FAST = {"devices.0.dfx.clock": 8e8}
SLOWER = (
    ("smartnic", "streams", "latency", default_scenario("agilio-cx", "binary-mlp-traffic", streams=3), 12),
    (
        "gpu",
        "devices",
        "latency",
        default_scenario("h100-pcie", "densenet169", scheme="tensor", devices=1, batch=32),
        2,
    ),
)
"""Less of something, and how much of it makes a request faster or slower than a law has it."""


@each(("family", "path", "figure", "less", "value"), SLOWER)
def test_what_breaks_a_law_for_its_physics_is_left(
    family: str, path: str, figure: str, less: Scenario, value: int
) -> None:
    more = less.with_(**{path: value})
    before, after = (evaluate(scenario).latency_s for scenario in (less, more))
    excess = before / after - 1 if path == "streams" else after / before - 1
    assert excess > 0.02
    assert _allowed(Broken(family, path, figure, excess, 1, less, more))
    assert not _allowed(Broken(family, path, "throughput", excess, 1, less, more)) or path == "devices"


def test_what_is_left_names_its_physics() -> None:
    for left in LEFT:
        assert left.most > 0
        assert len(left.why) > 40
