"""No setting is dropped in silence: it moves a figure, or is refused, or the report says that it moves none."""

import random

import pytest

from app.shared.specs import overridable
from engine import default_scenario, evaluate
from engine.analyses.edge import depth_first_of
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.resolve.choices import choices
from engine.scenario import Scenario, ScenarioError, decode, encode
from engine.scenario.overrides import apply, apply_all
from engine.sweep import price, space_of
from engine.sweep.goals import FIGURES
from hardware_specs import default_catalog
from tests.each import each
from tests.laws.scenario.test_pairs import EXERCISED

ONE_OF_EACH = [pair for pairs in EXERCISED.values() for pair in pairs] + [("edge-core", "mobilenet-v1")]


def own_figures(scenario: Scenario, path: str) -> list[float | None] | None:
    """Figures of a report but those of money that a what-if of hardware has not; None where it is refused."""
    try:
        report = evaluate(scenario)
    except (ScenarioError, Unsupported):
        return None
    money = path.endswith(".price") or path.startswith("model.")
    return [report.figure(name) for name in FIGURES if money or "usd" not in name]


@pytest.mark.parametrize(("system", "workload"), ONE_OF_EACH)
def test_a_what_if_moves_a_figure_or_is_said_to_move_none(system: str, workload: str) -> None:
    scenario = default_scenario(system, workload)
    rows = random.Random(28).sample(overridable(scenario), 20)
    said = 0
    for row in rows:
        try:
            turned = apply(scenario, row.path, 0.5 * row.si)
        except ScenarioError:
            continue
        figures = own_figures(turned, row.path)
        if figures is None:
            continue
        told = [text for text in evaluate(turned).without_effect if text.startswith(f"No effect here: {row.label} = ")]
        assert bool(told) == (figures == own_figures(scenario, row.path)), row.path
        said += len(told)
    assert said < len(rows)


def test_what_has_no_effect_stands_in_the_report_and_in_plain_data() -> None:
    report = evaluate(apply_all(default_scenario("xeon-8280l", "resnet50"), ["switches.fuse-gathers=false"]))
    assert [text.split(" = ")[0] for text in report.without_effect] == ["No effect here: Fused lookups"]
    assert {a.text for a in report.assumptions} >= set(report.without_effect)
    assert report.to_dict()["without_effect"] == list(report.without_effect)
    assert not evaluate(default_scenario("xeon-8280l", "resnet50")).without_effect


def test_a_setting_without_effect_is_called_by_its_label() -> None:
    usual = family("card").model(default_catalog().device("m2-card"))["array_depth"]
    base = default_scenario("fb-card", "resnet50")
    told = evaluate(base.with_(overrides={"model.array_depth": usual})).without_effect
    assert [text.partition(";")[0] for text in told] == [f"No effect here: model: array depth = {usual:g}"]


@each("system", default_catalog().ids("systems"))
def test_a_cut_is_refused_where_the_scheme_cuts_nothing(system: str) -> None:
    scenario = next(
        default_scenario(system, id) for id in ("resnet50", "gpt2-345m", "binary-fc-4096") if _runs(system, id)
    )
    for scheme in choices(scenario).schemes:
        if scheme == "split":
            continue
        cut = scenario.model_copy(update={"scheme": scheme, "split": 3})
        with pytest.raises(ScenarioError, match=f"split is 3: scheme '{scheme}' cuts no network, so 0 is allowed"):
            evaluate(cut)
        assert decode(encode(cut)).split == 0  # a link of before opens


def _runs(system: str, workload: str) -> bool:
    try:
        return bool(default_scenario(system, workload))
    except (ScenarioError, Unsupported):
        return False


def test_a_sweep_refuses_a_cut_that_its_partition_does_not_make() -> None:
    cut = default_scenario("edge-core", "mobilenet-v1", scheme="split")
    space = space_of({"scenario": cut.model_dump(mode="json"), "axes": {"scheme": ["single", "split"]}})
    _, refused, _ = price(space)
    assert not refused.any()  # another partition leaves the cut of this one
    space = space_of(
        {
            "scenario": default_scenario("edge-core", "mobilenet-v1", scheme="single").model_dump(mode="json"),
            "axes": {"split": [0, 3]},
        }
    )
    assert price(space)[1].tolist() == [False, True]


@pytest.mark.parametrize("workload", ["resnet50", "xlm-r-large"])
def test_a_tile_is_refused_where_the_network_has_none(workload: str) -> None:
    scenario = default_scenario("fb-node", workload)
    assert not choices(scenario).knobs
    with pytest.raises(ScenarioError, match=r"tile is 4: .* has no tiling knob for this network"):
        evaluate(scenario.with_(tile=(4,)))
    assert choices(default_scenario("fb-node", "dlrm-less-complex")).knobs


@pytest.mark.parametrize(
    "setting",
    ["model.op_overhead=1 ms", "model.conv_efficiency=0.1", "tile=4", "streams=4", "batch=8", "precision=int8"],
)
def test_depth_first_execution_follows_every_setting(setting: str) -> None:
    scenario = default_scenario("xeon-8280l", "alexnet")
    plain, turned = depth_first_of(scenario), depth_first_of(apply_all(scenario, [setting]))
    assert plain.breadth_s != turned.breadth_s
    assert plain.depth_s != turned.depth_s


def test_depth_first_execution_takes_as_many_tokens_as_the_request_has() -> None:
    """It was asked of one token, and of one step of a recurrence, whatever the request."""
    encoder = default_scenario("xeon-8280l", "xlm-r-large")
    short, long = (depth_first_of(encoder.with_(inputs=tokens)) for tokens in (32, 256))
    assert long.breadth_s > 1.5 * short.breadth_s
    (chain,), scores = long.chains, 24 * 16 * 256 * 256  # layers, heads, and tokens by those that they attend to
    assert chain.ops == ("scale", "mask")
    assert long.breadth_bytes == 4.0 * 4 * scores  # each reads and writes all
    assert long.breadth_bytes == 64 * short.breadth_bytes
    with pytest.raises(ScenarioError, match="has no chain of operators without a dense product between them"):
        depth_first_of(default_scenario("xeon-8280l", "deepbench-lstm-512"))


def test_depth_first_execution_refuses_what_it_sets_itself() -> None:
    scenario = default_scenario("xeon-8280l", "alexnet")
    with pytest.raises(ScenarioError, match=r"switches.fuse is false: breadth first has it off"):
        depth_first_of(apply_all(scenario, ["switches.fuse=false"]))
    with pytest.raises(ScenarioError, match="scheme is 'tensor' on 4 devices"):
        depth_first_of(default_scenario("h100-sxm", "alexnet", devices=4, scheme="tensor"))


@pytest.mark.parametrize(
    ("pair", "changes", "said"),
    [
        (("xeon-8280l", "resnet50"), {"outputs": 50}, "No effect here: Outputs = 50;"),
        (("xeon-8280l", "resnet50"), {"inputs": 7}, "No effect here: Inputs = 7;"),
        (("h100-sxm", "llama3.2-1b"), {"devices": 8, "scheme": "single"}, "No effect here: Devices = 8;"),
        (
            ("xeon-8280l", "resnet50"),
            {"limits": {"ttft_s": 1.0}},
            "Not checked: the limit on TTFT, as this request makes",
        ),
        (("h100-sxm", "llama3.2-1b"), {"limits": {"tpot_s": 1.0}, "outputs": 1}, "Not checked: the limit on TPOT, as"),
        (("brainwave-s10", "resnet50"), {"limits": {"capex_usd": 1.0}}, "Not checked: the limit on price, as no price"),
    ],
)
def test_a_length_devices_or_a_limit_that_act_on_nothing_are_said(pair, changes, said) -> None:
    usual = default_scenario(*pair)
    report = evaluate(usual.with_(**changes))
    assert [text for text in report.without_effect if text.startswith(said)] == list(report.without_effect) != []
    assert not evaluate(usual.with_(limits={"latency_s": 1.0, "power_w": 1e4})).without_effect
