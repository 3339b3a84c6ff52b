"""What no list has a price for has none: hardware that a what-if changes, in every family and in every sweep."""

import pytest

from engine.cost.power_and_price import purchase
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from engine.scenario.overrides import apply, without_figure
from engine.sweep import figures_of, inverse, price, space_of, sweep
from engine.sweep.pricing.structure import Structure, numeric_axes
from engine.sweep.pricing.tables import tabulate
from engine.sweep.sensitivity import knobs_of
from tests.effort import share

PAIRS = (
    ("v100-appliance", "gpt2-345m"),
    ("fb-node", "dlrm-less-complex"),
    ("xeon-e5-2650", "wide-deep-criteo"),
    ("brainwave-s10-isca18", "deepbench-gru-512"),
    ("dfx-u280", "gpt2-345m"),
    ("agilio-cx", "binary-mlp-mnist"),
)
MONEY = ("capex_usd", "throughput_per_usd", "usd_per_million")
WIDER = "devices.0.memory.hbm.bandwidth"


def is_hardware(path: str) -> bool:
    return not path.startswith(("model.", "costs.", "devices.0.model.")) and not path.endswith(".price")


@pytest.mark.parametrize(("system", "workload"), PAIRS)
def test_changed_hardware_has_no_price_and_says_so(system: str, workload: str) -> None:
    own = default_scenario(system, workload)
    known = knobs_of(own)
    listed = evaluate(own)
    assert not listed.unlisted
    model = [path for path in known if not is_hardware(path) and not path.startswith("costs.")]
    for path in [*filter(is_hardware, known), *share(model)]:
        try:
            report = evaluate(own.with_(overrides={path: known[path]}))
        except (ScenarioError, Unsupported):
            continue
        figures = [report.figure(name) for name in MONEY]
        said = " ".join([report.verdict, *(a.text for a in report.assumptions)])
        if is_hardware(path):
            assert figures == [None, None, None], path
            assert report.unpriced == "no price: a what-if"
            assert report.problems or "No price: a what-if" in report.verdict
            assert f"a what-if, {path}" in said or listed.capex_usd is None
            if ".power." not in path:
                assert "power is that of the catalog's parts" in said or "power of a what-if goes with" in said
        else:
            assert figures == [listed.figure(name) for name in MONEY], path
            assert "a what-if" not in said


@pytest.mark.parametrize("system", ["h100-nvl", "loongson-3a5000", "dfx-u280", "fb-card"])
def test_a_limit_of_no_power_is_one_sentence(system: str) -> None:
    """It was a division by zero: a page without an answer, a traceback on the command line."""
    workload = "gpt2-1.5b" if system != "fb-card" else "resnet50"
    with pytest.raises(ScenarioError, match=r"power\.max.*'?0 W'?") as refusal:
        evaluate(apply(default_scenario(system, workload), "devices.0.power.max", "0 W"))
    assert "\n" not in str(refusal.value)


def test_a_price_that_is_set_is_the_price() -> None:
    own = default_scenario("v100-appliance", "gpt2-345m", devices=4)
    report = evaluate(own.with_(overrides={WIDER: "2 TB/s", "devices.0.price": "9,000 USD"}))
    assert report.capex_usd == 36_000.0
    assert report.unpriced is None
    assert report.usd_per_million is not None


@pytest.mark.parametrize(
    ("paths", "left"),
    [
        ((), ()),
        (("model.cpu_x", "devices.0.model.eff"), ()),
        (("devices.0.price",), ()),
        (("system.devices.0.peak.fp16",), ("devices.0.peak.fp16",)),
        (("devices.0.peak.fp16", "devices.1.price"), ("devices.0.peak.fp16",)),
        (("links.peer.bandwidth", "devices.0.price"), ()),
        (("links.peer.bandwidth", "host.power.max", "batch", "devices"), ("links.peer.bandwidth", "host.power.max")),
    ],
)
def test_paths_alone_decide(paths, left) -> None:
    assert without_figure(paths, "price") == left


AXES = {
    "batch": [1, 4],
    WIDER: [9e11, 1.8e12, 3.6e12],
    "devices.0.peak.fp16": [6e13, 1.25e14, 2.5e14, 5e14],
    "costs.years": [1, 3],
}
BASE = {"scenario": {"system": "v100-appliance", "workload": "gpt2-345m"}}


@pytest.mark.parametrize(
    "axes",
    [
        AXES,
        AXES | {"devices.0.price": [2000, 9000]},
        {"batch": [1, 4], "some": [{WIDER: 2e12}, {"devices.0.price": 4000}, {WIDER: 2e12, "devices.0.price": 3000}]},
        {"model": [{"costs.years": 1}, {"links.peer.bandwidth": 1e10}], "batch": [1, 2]},
    ],
)
def test_a_sweep_prices_what_evaluate_prices(axes) -> None:
    space = space_of(BASE | {"axes": axes, "objectives": ["latency_s"]})
    values = price(space, ["latency_s", *MONEY])[0]
    for number in range(space.size):
        figures = figures_of(space, number)
        assert values[:, number].tolist() == pytest.approx(
            [figures[name] for name in ("latency_s", *MONEY)], rel=0, abs=0, nan_ok=True
        )


def test_a_price_reads_no_axis_that_only_changes_hardware() -> None:
    """Otherwise its table would hold the product of all of them."""
    space = space_of(BASE | {"axes": AXES | {"devices.0.price": [2000, 9000]}, "objectives": ["latency_s"]})
    fam = Structure(space, {}, numeric_axes(space), {}, lambda at, of: None)
    (found,) = tabulate(fam, lambda design: ((purchase(design.bound, design.plan)[0],), None)).values
    axes = [space.axes[fam.numeric[at]].path for at, size in enumerate(found.shape) if size > 1]
    assert axes == ["devices.0.price"]


def test_a_goal_that_no_design_has_is_refused_and_a_usual_one_left_out() -> None:
    sentence = "no design has a price, as devices.0.memory.hbm.bandwidth is a what-if"
    for goal in ({"objectives": ["latency_s", "capex_usd"]}, {"constraints": ["usd_per_million <= 3"]}):
        with pytest.raises(ScenarioError, match=sentence):
            sweep(BASE | {"axes": AXES} | goal)
    with pytest.raises(ScenarioError, match=sentence):
        inverse(space_of(BASE | {"axes": {WIDER: [9e11, 2e12]}, "constraints": ["capex_usd <= 3"]}), {WIDER: 9e11})
    result = sweep(BASE | {"axes": AXES})
    assert len(result.front) > 0
    priced = sweep(BASE | {"axes": AXES | {"devices.0.price": [2000]}, "objectives": ["latency_s", "capex_usd"]})
    assert len(priced.front) > 0
