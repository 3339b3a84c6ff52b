"""Serving as axes of the Sweep page: a front of operating points, which open on Explore and, to the figure, on Load."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.shared import formats as fmt
from app.shared.glossary import LEVERS
from app.views.sweep import below_front, spaces, tables
from app.views.sweep.spaces import PageSpace
from engine import default_scenario
from engine.scenario import ScenarioError, decode
from engine.traffic.engines.serving_sweep import HOW
from tests.app.pages import key_of
from tests.app.sweep.small import alive, asked, opened, outcome, said

LLAMA = default_scenario("h100-sxm", "llama3.1-8b").with_(inputs=512, outputs=64)
GOALS = tuple(spaces.OPERATING)[:2]
SPACE = PageSpace(
    (
        ("serving.clients", (1, 4, 16, 64)),
        ("serving.budget", (512, 2048)),
        ("scheme", ("tensor",)),
        ("devices", (1, 2, 4)),
        ("attention_dp", ("1", 4)),
        ("context_parallel", ("1",)),
    ),
    GOALS,
)
pytestmark = pytest.mark.timeout(300)


def test_the_front_is_of_the_calendar_and_the_cloud_says_how_each_point_was_found() -> None:
    found = outcome(LLAMA, SPACE)
    points = found.designs
    names = [column.name for column in points.columns]
    assert names[:2] == list(GOALS)
    how = points.columns[names.index("simulated")]
    assert {how.text(value) for value in how.values} == set(HOW)
    assert set(how.values[len(points.numbers) - points.front :]) == {1.0}
    assert found.result.counts.done == found.space.size == 48
    x, y = (np.array([design.figures[name] for design in found.front]) for name in GOALS)
    for a, b in zip(*(column.values for column in points.columns[:2])):
        assert ((x >= a) & (y >= b)).any()
    assert "found by" in " ".join(tables.frame(found, found.front)).lower()
    rows = list(csv.DictReader(io.StringIO(fmt.csv_text(tables.rows(found)))))
    assert {row["how"] for row in rows} == {"calendar"}
    assert [decode(row["token"]).devices for row in rows] == [int(row["devices"]) for row in rows]


def test_limits_at_percentiles_travel_in_a_link_and_stand_in_the_table() -> None:
    space = replace(SPACE.with_axis("serving.clients", (4, 64)), tails="ttft:p99=100ms")
    assert spaces.read(spaces.write(space)) == space
    assert spaces.fitting(space, LLAMA, [])[0] == space
    found = outcome(LLAMA, space)
    frame = tables.frame(found, found.front)
    assert {"Steady TTFT p99 (ms)", "Goodput (QPS)"} <= {name.replace("kQPS", "QPS") for name in frame}
    assert max(frame["Steady TTFT p99 (ms)"]) <= 100.0
    late = outcome(LLAMA, replace(space, tails="ttft:p99=1us"))
    assert not late.front
    assert "The binding limit is Steady TTFT p99, missed by" in tables.unmet(late)
    with pytest.raises(ScenarioError, match="sla is"):
        spaces.read(spaces.write(replace(space, tails="soon")))


def test_levers_keep_their_limits_their_ties_and_their_place_in_a_link() -> None:
    assert spaces.read(spaces.write(SPACE)) == SPACE
    fits, lost = spaces.fitting(SPACE.with_axis("batch", (1, 2)), LLAMA, [])
    assert (fits, lost) == (SPACE, ["batch"])
    tied = SPACE.with_axis("serving.max_seqs", (8, 64)).tie("serving.max_seqs", "serving.budget")
    limited = outcome(LLAMA.with_(limits={"tpot_s": 0.008}), tied)
    assert limited.space.size == 48
    assert {tuple(limited.space.choice(n).values())[1:] for n in range(48)} == {(512, 8), (2048, 64)}
    assert all(design.figures["tpot_s"] <= 0.008 for design in limited.front)
    assert tables._failures(limited).startswith("combination not supported by the system 33%, mean TPOT ")
    with pytest.raises(ScenarioError, match="can't be set together with the rest"):
        outcome(LLAMA, SPACE.tie("serving.budget", "attention_dp"))


def test_a_point_opens_on_load_with_the_figures_it_has_here() -> None:
    space = PageSpace(
        (("serving.clients", (8, 32)), ("serving.policy", ("sglang", "vllm")), ("serving.max_seqs", (16, 256))), GOALS
    )
    at = opened(LLAMA, space)
    assert "**8 operating points in " in said(at)
    assert not at.selectbox(key=key_of(at, "x.add")).value
    found = at.session_state["sweep_run"].outcome
    design = found.front[-1]
    at.session_state["sweep_design"] = design.number
    alive(at.run()).button(key="sweep.load").click().run()
    levers = below_front.levers(found, design)
    assert levers.pop("ramp") == "0"
    assert levers.keys() == {"clients", "policy", "max-seqs"} < {key for _, key in LEVERS.values()}
    shown = {widget.label: str(widget.value) for widget in (*at.sidebar.number_input, *at.sidebar.selectbox)}
    assert {LEVERS[name][0] for name in ("clients", "policy", "max_seqs")} < shown.keys()
    assert {shown[label] for label, key in LEVERS.values() if key in levers} == set(levers.values())
    assert alive(at).session_state["scenario"].batch == int(levers["clients"])
    output = next(metric for metric in at.metric if metric.label == "Output")
    assert f"{fmt.si(design.figures[GOALS[1]])} per device" in output.delta, (output.delta, output.value)


def test_the_switch_above_the_axes_leads_to_an_engine_and_back() -> None:
    at: AppTest = opened(LLAMA, None)
    assert at.session_state["sweep_seen"]
    kind = next(group for group in at.sidebar.button_group if group.key.startswith("x.kind"))
    alive(kind.set_value(True).run())
    assert at.button(key="x.run").label.endswith(" operating points")
    assert "serving.clients" in dict(asked(at).axes)
    at.selectbox(key=key_of(at, "x.add")).set_value("serving.prefix_hit").run()
    assert dict(asked(alive(at)).axes)["serving.prefix_hit"] == (0.0, 0.25, 0.5, 0.75, 0.9)
    at.number_input(key=key_of(at, "x.limits.ttft_s")).set_value(500.0).run()
    assert alive(at).session_state["scenario"].limits.ttft_s == 0.5
    kind = next(group for group in at.sidebar.button_group if group.key.startswith("x.kind"))
    alive(kind.set_value(False).run())
    assert at.button(key="x.run").label.endswith(" designs")
