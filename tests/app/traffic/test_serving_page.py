"""Load of a language model: its engine's answer in seven numbers, from an address, alone equal to evaluate."""

import csv
import io
import re
from dataclasses import replace

import pytest

from app.shared import formats as fmt
from app.shared import glossary
from app.shared import load as loads
from app.shared.load import Load, ServingLoad
from app.views.traffic.serving import charts, tables, texts
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.resolve.draft import with_draft
from engine.resolve.presets import PRESETS
from engine.scenario import encode
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import LABELS, timeline
from engine.traffic.engines.scheduler import POLICIES
from tests.app.pages import alive, key_of, opened
from tests.app.traffic.test_traffic_page import said
from tests.app.valid import valid
from tests.each import each

LLAMA = default_scenario("h100-sxm", "llama3.1-8b").with_(inputs=1024, outputs=64)
LIMITS = (("ttft_s", 0.5), ("tpot_s", 0.02))
pytestmark = pytest.mark.timeout(300)


def shown(at) -> dict[str, str]:
    return {metric.label: metric.value for metric in at.metric}


def served(clients: int = 32, **more) -> ServingLoad:
    return ServingLoad(Load(encode(LLAMA)), replace(POLICIES["vllm"], **more), LIMITS, ClosedLoop(clients))


@each("preset", ["dfx-345m", "v100-1.5b", "llama"])
def test_at_one_client_the_page_says_what_evaluate_says(preset: str) -> None:
    scenario = LLAMA if preset == "llama" else PRESETS[preset].scenario.with_(batch=1)
    report, numbers = evaluate(scenario), shown(opened("traffic", s=encode(scenario), clients="1"))
    assert float(numbers["TTFT p50"].split()[0]) == pytest.approx(
        float(fmt.seconds(report.ttft_s).split()[0]), rel=6e-3
    )
    ours, theirs = (text.split() for text in (numbers["Inter-token p50"], fmt.seconds(report.tpot_s)))
    assert ours[1] == theirs[1]
    assert float(ours[0]) == pytest.approx(float(theirs[0]), rel=1e-2)
    assert numbers["TTFT p50"].split()[1] == fmt.seconds(report.ttft_s).split()[1]


def test_tokens_that_a_pass_makes_together_have_no_gap_and_a_time_each() -> None:
    """The median gap of a network with three guesses is 0 s, and the chart divided by it."""
    base = default_scenario("h200-sxm", "llama3.1-70b", devices=2, scheme="tensor").with_(outputs=64)
    scenario = with_draft(base, "llama3.2-1b")
    scenario = scenario.with_(params=scenario.params | {"guesses": 3, "acceptance": 0.75})
    at = opened("traffic", s=encode(scenario), clients="1")
    assert not at.error
    assert fmt.seconds(evaluate(scenario).tpot_s).split()[1] == shown(at)["TPOT p50"].split()[1] == "ms"
    assert float(shown(at)["TPOT p50"].split()[0]) == pytest.approx(1e3 * evaluate(scenario).tpot_s, rel=0.1)


def test_a_draft_network_is_picked_by_its_name_and_what_it_guesses_is_set_beside_it() -> None:
    base = default_scenario("h200-sxm", "llama3.1-70b", devices=2, scheme="tensor").with_(outputs=64)
    at = opened("explore", base)
    plain = evaluate(base).tpot_s
    alive(at.selectbox(key="w.draft").set_value("llama3.2-1b").run())
    assert "draft Llama 3.2 1B" in glossary.knobs(at.session_state.scenario, base)
    assert evaluate(at.session_state.scenario).tpot_s < 0.7 * plain
    at.switch_page("views/traffic/page.py").run()
    assert at.selectbox(key="t.draft").value == "llama3.2-1b"
    assert at.number_input(key="t.params.guesses").value == 4
    alive(at.number_input(key="t.params.acceptance").set_value(0.9).run())
    assert at.session_state.scenario.params["acceptance"] == 0.9
    alive(at.selectbox(key="t.draft").set_value("").run())
    assert at.session_state.scenario == base
    assert not [s for s in opened("explore", "dfx-1.5b").selectbox if s.key == "w.draft"], "its cores have no program"


def test_it_answers_in_six_numbers_and_names_what_binds() -> None:
    at = opened("traffic", s=encode(LLAMA), clients="64", ttft="500", tpot="20", ramp="0")
    assert len(at.metric) == 6
    point, _ = loads.serving_points(served(64))
    assert shown(at)["Requests"] == fmt.si(point.report.requests_per_s, "QPS")
    assert said(at, f"**What limits serving** :gray[· {texts.SHARES[point.binds]}, ")
    assert said(at, "**At most ")
    assert said(at, "At 64 clients, ")
    assert said(at, texts.PASSES_CAPTION)  # the figure beside it has a caption too: no blank stands under this one
    assert not at.error
    assert not at.warning


ASKED = {
    "policy": ("sglang", "SGLang"),
    "budget": ("2048", 2048),
    "chunk": ("off", "Off"),
    "max-seqs": ("16", 16),
    "kv-blocks": ("4000", 4000),
    "block": ("64", 64),
    "memory-share": ("95", 95.0),
    "prefix-hit": ("30", 30.0),
    "preempt": ("swap", "Swap"),
    "priority": ("0.2:0,0.8:1", "0.2:0,0.8:1"),
    "think": ("1.5", 1.5),
    "ramp": ("2", 2.0),
    "clients": ("48", 48),
    "ttft": ("900", 900.0),
    "tpot": ("30", 30.0),
    "e2e": ("7000", 7000.0),
}


def test_every_setting_opens_from_an_address_and_moves_an_answer() -> None:
    usual = opened("traffic", s=encode(LLAMA), clients="64")
    for key, (text, value) in ASKED.items():
        at = opened("traffic", s=encode(LLAMA), **({"clients": "64"} | {key: text}))
        assert not at.warning, (key, at.warning[0].value)
        boxes = [n.value for n in at.number_input if n.key == f"w.{key}"]
        assert not boxes or boxes[0] == value, key
        assert at.query_params[key] == text, key
        if key not in (
            "block",
            "chunk",
            "priority",
            "preempt",
        ):  # at this load prompts fit the budget, and blocks are not short
            texts = [
                [(m.label, m.value, m.delta) for m in page.metric] + [page.markdown[2].value] for page in (usual, at)
            ]
            assert texts[0] != texts[1] or [m.value for m in at.markdown] != [m.value for m in usual.markdown], key


def test_clients_that_think_begin_over_their_think_time() -> None:
    at = opened("traffic", s=encode(LLAMA), clients="64", think="20")
    alone_s = float(f"{evaluate(LLAMA).latency_s:.3g}")
    assert [n.value for n in at.number_input if n.key == "w.ramp"] == [pytest.approx(20.0 + alone_s)]
    together = opened("traffic", s=encode(LLAMA), clients="64", think="20", ramp="0")
    assert shown(at)["TTFT p50"] != shown(together)["TTFT p50"]


def test_clients_begin_over_the_time_of_a_request() -> None:
    """First requests that all come at once were the slowest 8% of a run: 23 clients of an H100 kept a TTFT p99 of 500
    ms, where Choose and sweeps say nearly a hundred."""
    limits = {"ttft": "500", "tpot": "20"}
    found = []
    for ramp in ({}, {"ramp": "0"}):
        at = opened("traffic", s=encode(LLAMA.with_(inputs=1024, outputs=256)), clients="64", **limits, **ramp)
        verdict = next(m.value for m in at.markdown if m.value.startswith("**At most "))
        found.append(int(re.search(r"At most (\d+) clients", verdict)[1]))
    assert found[0] > 3 * found[1]


def test_attention_ranks_may_balance_their_prompts() -> None:
    ranks = LLAMA.with_(devices=2, scheme="tensor", attention_dp=2)
    uneven = {"clients": "64", "spread": "lognormal", "differ": "outputs"}
    pages = [opened("traffic", s=encode(ranks), **uneven, **{"balance-timeout": n}) for n in ("0", "40")]
    assert [[n.value for n in at.number_input if n.key == "w.balance-timeout"] for at in pages] == [[0], [40]]
    assert shown(pages[0])["TTFT p50"] != shown(pages[1])["TTFT p50"]
    assert not [n for n in opened("traffic", s=encode(LLAMA)).number_input if n.key == "w.balance-timeout"]


def test_an_older_link_opens_with_its_rate_its_batch_and_its_promise() -> None:
    at = opened("traffic", s=encode(LLAMA), qps="3", together="8", sla="700", **{"sla-time": "ttft", "sla-of": "p99"})
    assert at.selectbox(key="w.load").value == "open"
    values = {n.key.removeprefix("w."): n.value for n in at.number_input if n.key}
    assert values["qps"] == 3.0
    assert values["max-seqs"] == 8
    assert values["ttft"] == 700.0
    assert said(at, "At 3.00 requests/s")


def test_each_limit_has_a_row_which_shows_four_digits() -> None:
    at = opened("traffic", s=encode(LLAMA), ttft="1000")
    beside = {field.label for column in at.sidebar.columns for field in column.number_input}
    assert {f"{label} (ms)" for label in LABELS.values()}.isdisjoint(beside)
    assert at.number_input(key=key_of(at, "w.ttft")).proto.format == "%.0f"


def test_limits_start_from_the_times_of_who_joins_a_running_batch() -> None:
    """A batch whose prompts all start together offered 20 s to a first token as the limit."""
    joined = evaluate(LLAMA.with_(batch=256)).continuous
    at = opened("traffic", s=encode(LLAMA.with_(batch=256)))
    ttft, tpot = (at.number_input(key=key_of(at, name)).value for name in ("w.ttft", "w.tpot"))
    assert 5e3 * joined.ttft_s <= ttft <= 2e4 * joined.ttft_s
    assert 1.5e3 * joined.tpot_s <= tpot <= 6e3 * joined.tpot_s


def test_a_limit_that_is_emptied_is_none_here_and_in_the_link() -> None:
    at = opened("traffic", s=encode(LLAMA))
    at.number_input(key=key_of(at, "w.ttft")).set_value(None).run()
    assert alive(at).query_params["ttft"] == "none"
    again = opened("traffic", s=encode(LLAMA), ttft="none")
    for page in at, again:
        assert page.number_input(key=key_of(page, "w.ttft")).value is None
        assert not said(page, "TTFT p99 ≤")
        assert not page.warning


def test_arrivals_and_sizes_of_requests_are_those_of_every_load() -> None:
    at = opened("traffic", s=encode(LLAMA), qps="3", come="gamma", spread="lognormal", differ="outputs")
    assert at.selectbox(key="w.come").value == "gamma"
    assert len(at.metric) == 6
    assert not at.warning


@each(
    "query, sentence",
    [
        ({"kv-blocks": "5"}, "a request of 1,088 tokens needs 68"),
        ({"chunk": "off", "budget": "100"}, "without chunks it must take the longest prompt, 1,024 tokens"),
        ({"priority": "0.2:x"}, "priority is '0.2:x'; it must be shares and different whole numbers"),
        ({"kv-blocks": "900000000"}, "the devices have room for"),
    ],
)
def test_what_the_engine_can_not_serve_is_a_sentence(query, sentence) -> None:
    at = opened("traffic", s=encode(LLAMA), **query)
    assert len(at.warning) == 1
    assert sentence in at.warning[0].value.replace("\\", "")


def test_every_priority_has_its_times_in_the_table_and_the_file() -> None:
    load = served(48, priorities=((0.2, 0), (0.8, 3)), max_seqs=8)
    point, _ = loads.serving_points(load)
    frame, _ = tables.latencies(point)
    assert {"TTFT, priority 0", "Inter-token, priority 3", "End to end, priority 3"} < set(frame["Time (ms)"])
    (row,) = tables.curve_rows(evaluate(LLAMA), load, [point])
    assert 2 * row["ttft_p50_s_priority_0"] < row["ttft_p50_s_priority_3"]


def test_a_plan_for_users_counts_devices() -> None:
    many = default_scenario("h100-sxm", "llama3.1-70b", devices=8).with_(precision="fp8")
    at = opened("traffic", s=encode(many), users="1000")
    assert said(at, "Nodes for 1,000 users at the peak")
    assert said(at, " devices in ")
    assert said(at, "Per million tokens")
    small, large = (
        opened("traffic", s=encode(many), users=users).dataframe[0].value["Nodes"].max() for users in ("100", "5000")
    )
    assert small < large


def test_files_hold_every_load_of_the_curve_with_its_token() -> None:
    report, load = evaluate(LLAMA), served()
    _, points = loads.serving_points(load)
    rows = list(csv.DictReader(io.StringIO(fmt.csv_text(tables.curve_rows(report, load, points)))))
    assert 6 <= len(rows) <= 8
    assert {row["token"] for row in rows} == {encode(LLAMA)}
    assert [float(row["clients"]) for row in rows] == [p.level for p in points]
    assert [float(row["ttft_p99_s"]) for row in rows] == [p.report.ttft.p99.value for p in points]
    assert all(row["engine_version"] and row["budget"] == "8192" for row in rows)


@each("dark", [False, True])
def test_figures_are_what_plotly_takes_and_hold_the_numbers(dark: bool) -> None:
    load = served(48, kv_blocks=1200)
    point, points = loads.serving_points(load)
    curve = valid(charts.along(points, point, load, dark))
    (drawn,) = (trace for trace in curve.data if trace.name == "TTFT p99")
    assert list(drawn.x) == [p.level for p in points]
    shown = timeline(point.report)
    passes = valid(charts.passes(shown, point, dark))
    assert max(-height for height in passes.data[2].y) == pytest.approx(0.66 * shown["blocks"].max() / 1200)
    crosses = [trace for trace in passes.data if trace.type == "scatter"]
    assert bool(crosses) == (point.report.preemptions > 0)
    assert sum(valid(charts.binds(point, dark)).data[-1].x) == pytest.approx(100.0)


def test_each_thing_that_holds_requests_up_is_a_clause_with_its_share() -> None:
    """Time does not go to max sequences, nor to no requests."""
    assert texts.HELD_UP.keys() == texts.SHARES.keys()
    text = tables.verdict(served(8), loads.serving_capacity(served(8)))
    assert re.search(r"; there, [a-zA-Z ]+ (take|takes|wait for [a-zA-Z ]+|has no request) \d+% of the time\.$", text)


def test_first_wave_and_steady_state_stand_apart() -> None:
    point, _ = loads.serving_points(served(64))
    frame, answer = tables.latencies(point)
    assert list(frame["Time (ms)"])[:3] == ["TTFT, first wave", "TTFT, steady state", "TTFT"]
    ttft_ms = 1e3 * point.report.ttft.p99.value  # a unit for all rows
    assert list(frame["p99"])[2] == ttft_ms
    assert answer.endswith(f"in the first wave, then {fmt.seconds(point.report.steady_ttft.p99.value)}")
    at = opened("traffic", s=encode(LLAMA), clients="64")
    assert said(at, "in the first wave, then ")


def test_a_long_simulation_draws_its_own_points() -> None:
    at = opened("traffic", s=encode(LLAMA), clients="8")
    at.selectbox(key="w.requests").set_value("5000").run()
    alive(at.button(key="t.run").click().run(timeout=240))
    assert said(at, "Simulated, 5,000 requests at this load")
    assert at.session_state["t.job"].share == 1.0


def test_a_parameter_of_an_address_that_nothing_reads_is_said_once() -> None:
    """A made-up one, and one of another load than the link's, were taken without a word."""
    at = opened("traffic", s=encode(LLAMA), clients="2", **{"w.clients": "abc", "gap-cv": "3"})
    found = [w.value.replace("\\", "") for w in at.warning]
    assert found == [f"'{name}' of this link sets nothing on this page." for name in ("w.clients", "gap-cv")]
    assert not alive(at.run()).warning
    older = opened("traffic", s=encode(LLAMA), sla="500", together="32", **{"sla-time": "ttft"})
    assert not older.warning
