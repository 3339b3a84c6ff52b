"""Each page opens, reacts, and survives what an address may hold (AppTest: no browser)."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from app.shared import parts
from app.shared.figures.style import Figure
from app.shared.formats import plain, ratio_text
from engine.evaluate import evaluate
from engine.published import validate
from engine.published.headline import sentence
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import TOKEN_LIMIT, decode, encode
from tests.app.forged import bomb, forged
from tests.app.pages import MAIN, alive, key_of
from tests.effort import share

HOME = encode(PRESETS["dfx-1.5b"].scenario)
pytestmark = pytest.mark.timeout(300)  # the first run compiles the engine's kernels


def opened(**query: str) -> AppTest:
    """The app after one run with these query parameters; with the default scenario where there are none."""
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    for key, value in (query or {"s": HOME}).items():
        at.query_params[key] = value
    return at.run()


def figures(at: AppTest) -> bool:
    """Whether a card stands for each headline number: a decoder has three times, everything else one."""
    return len(at.metric) == (4 if evaluate(at.session_state["scenario"]).tpot_s is None else 6)


def token(at: AppTest) -> str:
    """The token of the address bar, which is always the session's."""
    shown = at.query_params["s"]
    shown = shown[0] if isinstance(shown, list) else shown
    assert shown == at.session_state["token"] == encode(at.session_state["scenario"])
    return shown


@pytest.mark.parametrize(("agent", "waits"), [("Mozilla/5.0", 1), (None, 0)])
def test_a_browser_draws_the_numbers_before_it_reads_the_charts_library(monkeypatch, agent, waits):
    """Both in one go were painted 4.5 s after a cold start; the numbers alone are after 2 s, and charts no later."""
    slept, session = [], {}
    context = SimpleNamespace(headers={"User-Agent": agent} if agent else {})
    drawn = SimpleNamespace(session_state=session, context=context, plotly_chart=lambda *_, **__: len(slept))
    monkeypatch.setattr(parts, "st", drawn)
    monkeypatch.setattr(parts.time, "sleep", slept.append)
    assert [parts.figure(Figure([], {}), "", key) for key in ("first", "second")] == [waits, waits]


def test_the_default_scenario_is_answered():
    at = alive(opened())
    assert token(at) == HOME
    assert figures(at)
    assert not at.warning
    assert not at.error
    report = evaluate(PRESETS["dfx-1.5b"].scenario)
    assert any(m.value == report.verdict for m in at.markdown)


@pytest.mark.parametrize("id", PRESETS)
def test_a_presets_link_opens_it(id):
    given = encode(PRESETS[id].scenario)
    at = alive(opened(s=given))
    assert token(at) == given
    assert not at.warning
    report = evaluate(PRESETS[id].scenario)
    assert figures(at) if report.fits else not at.metric
    assert bool(at.error) == bool(report.problems)
    pill = at.session_state[key_of(at, "w.preset")]
    assert pill == (id if PRESETS[id].headline else None)


BAD = {
    "junk": "hello",
    "empty-ish": "1z",
    "damaged": HOME[:40] + ("A" if HOME[40] != "A" else "B") + HOME[41:],
    "oversized": "1z" + "A" * TOKEN_LIMIT,
    "future": "9" + HOME[1:],
    "bomb": bomb(),
    "not-ascii": "1zé€",
    "unknown-system": encode(PRESETS["dfx-1.5b"].scenario.model_copy(update={"system": "u280x"})),
    "out-of-range": forged(
        {"version": 1, "system": "dfx-u280", "workload": "gpt2-1.5b", "precision": "fp16", "batch": 0}
    ),
    "not-a-scenario": forged({"a": [1]}),
    "markdown": forged({"system": "dfx-u280", "workload": "x", "precision": "![x](http://evil.example/x.png)"}),
    "nan": forged(
        {"system": "dfx-u280", "workload": "gpt2-1.5b", "precision": "fp16", "overrides": {"model.x": float("nan")}}
    ),
    "strange-override": forged(
        {"system": "dfx-u280", "workload": "gpt2-1.5b", "precision": "fp16", "overrides": {"devices.0.__class__": 1}}
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_link_gives_one_sentence_and_the_app_lives(name):
    at = alive(opened(s=BAD[name]))
    assert len(at.warning) == 1
    shown = at.warning[0].value
    assert shown.endswith("Showing the default scenario\\.")
    assert "://" not in shown
    assert "](" not in shown
    assert len(shown) < 700
    assert token(at) == HOME
    assert figures(at)


def test_a_bad_link_keeps_the_previous_scenario_of_a_session():
    at = opened(s=encode(PRESETS["brainwave-gru"].scenario))
    at.query_params["s"] = "1zJUNK"
    alive(at.run())
    assert at.warning[0].value.endswith("Showing your previous scenario\\.")
    assert at.session_state["scenario"] == PRESETS["brainwave-gru"].scenario
    assert not alive(at.run()).warning


def test_a_bad_baseline_is_left_out_with_a_sentence():
    at = alive(opened(s=HOME, vs="1zJUNK"))
    assert "baseline" in at.warning[0].value
    assert "vs" not in at.query_params


def test_a_knob_changes_numbers_and_address():
    at = opened()
    before = [m.value for m in at.metric]
    at.select_slider(key="w.devices").set_value(2).run()
    alive(at)
    assert at.session_state["scenario"].devices == 2
    assert decode(token(at)).devices == 2
    assert [m.value for m in at.metric] != before
    at.number_input(key="w.outputs").set_value(128).run()
    assert decode(token(alive(at))).outputs == 128
    assert any("modified" in m.value for m in at.markdown)


def test_every_change_can_be_taken_back_one_after_another():
    at = opened()
    assert not [b for b in at.button if b.key == "undo.bar"]
    tokens = [token(at)]
    for batch in (2, 4, 8):
        at.select_slider(key=key_of(at, "w.batch")).set_value(batch).run()
        tokens.append(token(alive(at)))
    for before in tokens[-2::-1]:
        at.button(key="undo.bar").click().run()
        assert token(alive(at)) == before
    assert not [b for b in at.button if b.key == "undo.bar"]


def test_the_rival_is_asked_what_the_scenario_is_asked():
    """Eleven times slower at batch 64, because the four GPUs take 64 requests at once too."""
    at = opened()
    ratios = []
    for batch in (1, 64):
        at.select_slider(key="w.batch").set_value(batch).run()
        mine, other = (evaluate(PRESETS[id].scenario.with_(batch=batch)) for id in ("dfx-1.5b", "v100-1.5b"))
        ratios.append(mine.latency_s / other.latency_s)
        shown = [m.delta for m in alive(at).metric]
        said = [ratio_text(ratios[-1], 1.0, "slower", "faster"), ratio_text(1 / ratios[-1], 1.0, "more", "less")]
        assert shown[2:4] == said
    assert ratios[0] < 0.25
    assert ratios[1] > 10


def test_another_system_brings_its_defaults_and_another_workload_too():
    at = opened()
    at.selectbox(key="w.system").set_value("v100-appliance").run()
    assert alive(at).session_state["scenario"].workload == "gpt2-1.5b"
    at.selectbox(key=key_of(at, "w.workload")).set_value("gpt2-345m").run()
    scenario = alive(at).session_state["scenario"]
    assert (scenario.system, scenario.workload) == ("v100-appliance", "gpt2-345m")
    assert figures(at)


def test_a_pair_that_cannot_run_says_why_and_offers_two_that_can():
    at = opened()
    at.selectbox(key="w.system").set_value("agilio-cx").run()
    alive(at)
    assert len(at.info) == 1
    assert not at.metric
    ways = [b for b in at.button if b.key and b.key.startswith("pair.")]
    assert len(ways) == 2
    ways[0].click().run()
    assert figures(alive(at))
    assert not at.info


def test_what_does_not_fit_shows_no_metrics_and_a_change_that_does():
    big = PRESETS["dfx-1.5b"].scenario.with_(
        devices=1, scheme="single", overrides={"devices.0.memory.hbm.capacity": "2 GB"}
    )
    at = alive(opened(s=encode(big)))
    assert "Does not fit" in at.error[0].value
    assert not at.metric
    at.button(key="fix.0").click().run()
    alive(at)
    assert not at.error
    assert figures(at)


def test_a_limit_that_is_missed_is_said_beside_the_numbers():
    at = alive(opened(s=encode(PRESETS["dfx-1.5b"].scenario.with_(limits={"power_w": 1.0}))))
    assert "Power limit exceeded" in at.error[0].value
    assert figures(at)


def test_input_that_is_not_allowed_changes_nothing_and_says_so():
    at = opened(s=encode(PRESETS["dfx-1.5b"].scenario.with_(overrides={"devices.0.memory.hbm.bandwidth": "920 GB/s"})))
    at.text_input(key="w.override.devices.0.memory.hbm.bandwidth").set_value("920 parsecs").run()
    alive(at)
    assert at.session_state["scenario"].overrides == {"devices.0.memory.hbm.bandwidth": "920 GB/s"}
    assert "Nothing was changed" in at.warning[0].value
    assert figures(at)
    assert not alive(at.run()).warning


def test_a_what_if_moves_the_numbers_and_is_badged():
    at = opened()
    before = at.metric[0].value
    at.multiselect(key="w.overrides").set_value(["devices.0.memory.hbm.bandwidth"]).run()
    at.text_input(key="w.override.devices.0.memory.hbm.bandwidth").set_value("100 GB/s").run()
    alive(at)
    assert at.metric[0].value != before
    assert any("what-if" in m.value for m in at.markdown)
    at.multiselect(key="w.overrides").set_value([]).run()
    assert alive(at).session_state["scenario"].overrides == {}
    assert at.metric[0].value == before


def test_a_baseline_is_pinned_travels_in_the_link_and_is_unpinned():
    at = opened()
    at.button(key="pin").click().run()
    at.select_slider(key="w.devices").set_value(2).run()
    alive(at)
    assert at.session_state["baseline"] == HOME
    assert "slower" in at.metric[0].delta
    again = alive(opened(s=token(at), vs=at.session_state["baseline"]))
    assert [m.delta for m in again.metric] == [m.delta for m in at.metric]
    at.button(key="unpin").click().run()
    assert alive(at).session_state["baseline"] == ""
    assert "vs" not in at.query_params


def test_a_tile_can_be_fixed_and_freed():
    at = opened()
    first = at.selectbox(key="w.tile.d")
    first.set_value(int(first.options[1])).run()
    assert len(alive(at).session_state["scenario"].tile) == 2
    at.selectbox(key="w.tile.d").set_value(0).run()
    assert alive(at).session_state["scenario"].tile == ()


@pytest.mark.parametrize("page", ["published", "catalog"])
def test_a_page_switch_keeps_the_scenario(page):
    given = encode(PRESETS["brainwave-gru"].scenario)
    at = opened(s=given)
    at.switch_page(f"views/{page}/page.py").run()
    assert token(alive(at)) == given
    at.switch_page("views/explore/page.py").run()
    assert token(alive(at)) == given
    assert at.number_input(key="w.inputs").value == PRESETS["brainwave-gru"].scenario.inputs


@pytest.mark.parametrize("section", ["systems", "devices", "links", "nics", "workloads"])
def test_the_catalog_lists_every_section(section):
    at = opened()
    at.switch_page("views/catalog/page.py").run()
    at.selectbox(key="w.section").set_value(section).run()
    alive(at)
    assert len(at.dataframe) >= 2
    at.text_input(key="find").set_value("nothing is called this").run()
    assert any("Nothing matches" in c.value for c in alive(at).caption)


@pytest.mark.parametrize("given", ["workloads", "Workloads"])
def test_a_link_opens_a_section_of_the_catalog_by_id_or_by_name(given):
    at = opened()
    at.query_params["section"] = given
    at.switch_page("views/catalog/page.py").run()
    assert alive(at).selectbox(key="w.section").value == "workloads"
    assert not at.warning


def test_a_link_to_a_section_that_does_not_exist_says_which_do():
    at = opened()
    at.query_params["section"] = "networks"
    at.switch_page("views/catalog/page.py").run()
    assert [w.value for w in alive(at).warning] == [
        plain("Section 'networks' of this link is not known; systems, devices, links, nics and workloads are.")
    ]
    assert at.selectbox(key="w.section").value == "systems"
    assert "section" not in at.query_params
    assert not alive(at.run()).warning


@pytest.mark.parametrize(
    ("id", "asked"),
    [
        ("resnet50", "per request of batch 1; "),
        ("gpt2-345m", "per request of batch 1, input tokens 64, output tokens 64; "),
        ("deepbench-gru-512", "per request of batch 1, steps "),
    ],
)
def test_the_catalog_names_only_the_lengths_a_network_has(id, asked):
    at = opened()
    at.query_params["section"] = "workloads"
    at.switch_page("views/catalog/page.py").run()
    at.text_input(key="find").set_value(id).run()
    said = next(m.value for m in alive(at).markdown if "per request of" in m.value)
    assert asked in said
    assert " in and " not in said


def test_every_entry_of_the_catalog_opens():
    from hardware_specs.catalog import default_catalog
    from model_zoo.catalog import default_zoo

    at = opened()
    at.switch_page("views/catalog/page.py").run()
    catalog = default_catalog()
    specs = {"systems": catalog.system, "devices": catalog.device, "links": catalog.link, "nics": catalog.nic}
    ids = {s: catalog.ids(s) for s in specs} | {"workloads": default_zoo().ids()}
    for section, entries in ids.items():
        at.selectbox(key="w.section").set_value(section).run()
        assert len(at.dataframe[0].value["Name"]) == len(entries)
        for id in share(entries):
            at.query_params["entry"] = id
            alive(at.run())
            name = default_zoo().workload(id).name if section == "workloads" else specs[section](id).name
            assert any(m.value.startswith(f"**{plain(name)}**") for m in at.markdown), f"no {id}"


def test_published_says_what_the_readme_says_and_opens_a_claim():
    at = opened()
    at.switch_page("views/published/page.py").run()
    alive(at)
    assert [m.label.split(" ")[0] for m in at.metric][:2] == ["Independent", "Other"]
    said = sentence(validate())
    assert said in [m.value for m in at.markdown]
    assert said in (Path(__file__).parents[3] / "README.md").read_text()
    at.selectbox(key="w.status").set_value("not predicted").run()
    alive(at)
    at.text_input(key="claim").set_value("nothing is called this").run()
    assert [c.value for c in alive(at).caption if "No claim matches" in c.value] == [
        "No claim matches these filters. Set them to All in the sidebar."
    ]
    assert not any("Error of each prediction" in m.value for m in at.markdown)  # no empty frame above it


def test_a_claim_opens_as_the_scenario_it_is_predicted_with():
    claim = next(row for row in validate() if row["token"] not in (None, HOME))
    at = opened()
    at.switch_page("views/published/page.py").run()
    at.query_params["picked"] = claim["id"]
    alive(at.run()).button(key="open.claim").click().run()
    assert token(alive(at)) == claim["token"]
    assert [m.label.split(" ")[0] for m in at.metric][1] == "Throughput"


@pytest.mark.parametrize(
    ("section", "system", "workload"), [("systems", "xeon-8280l", None), ("workloads", None, "gpt2-345m")]
)
def test_an_entry_of_the_catalog_opens_in_explore(section, system, workload):
    at = opened()
    at.switch_page("views/catalog/page.py").run()
    at.selectbox(key="w.section").set_value(section).run()
    at.text_input(key="find").set_value(system or workload).run()
    alive(at).button(key="open.entry").click().run()
    scenario = alive(at).session_state["scenario"]
    assert scenario.system == (system or "dfx-u280")
    assert workload is None or scenario.workload == workload
    assert figures(at)


def test_default_scenarios_of_unusual_pairs_open():
    for pair in (("arm-edge", "gpt2-345m"), ("fb-card", "resnext101-32x4d")):
        assert figures(alive(opened(s=encode(default_scenario(*pair)))))
