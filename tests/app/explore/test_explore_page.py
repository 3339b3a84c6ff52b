"""Explore says once how far to trust a report, beside the nearest evidence (AppTest: no browser)."""

import re

import pytest

from app.shared import report_tables
from app.views.explore.report_file import report_html
from engine.evaluate import evaluate
from engine.published.nearest import nearest
from engine.resolve.presets import PRESETS
from tests.app.pages import opened, said

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("id", ["dfx-1.5b", "node-dlrm", "wide-deep-int8", "tonic-fc"])
def test_the_word_of_trust_stands_once_beside_the_nearest_evidence(id):
    at = opened("explore", id)
    texts = [e.value for e in (*at.markdown, *at.caption)] + [e.label for e in at.metric]
    without = evaluate(PRESETS[id].scenario).error_band.relative is None
    assert sum("unvalidated" in text for text in texts) == without
    assert sum(text.startswith("Nearest evidence") for text in texts) == 1


@pytest.mark.parametrize("id", ["dfx-1.5b", "wide-deep-int8"])
def test_no_label_that_a_screen_reader_speaks_has_markup(id):
    labels = [e.label for e in opened("explore", id).metric if e.help]
    assert labels
    assert not [label for label in labels if ":" in label or "[" in label]


def test_the_nearest_evidence_opens_as_a_scenario():
    scenario = PRESETS["node-dlrm"].scenario
    found = nearest(scenario)
    at = opened("explore", "node-dlrm")
    assert at.button(key="nearest").label == "Open its scenario"  # which says what opens, read alone
    at.button(key="nearest").click().run()
    assert at.session_state["token"] == found.token


@pytest.mark.parametrize(("id", "unit"), [("wide-deep-int8", "OP"), ("tonic-fc", "OP"), ("dfx-1.5b", "FLOP")])
def test_work_on_integers_and_bits_is_no_floating_point(id, unit):
    report = evaluate(PRESETS[id].scenario)
    (column,) = [name for name in report_tables.operators(report) if name.startswith("Work")]
    assert re.fullmatch(rf"Work \([kMGTP]? ?{unit}\)", column)
    lines = " ".join(line for op in report.ops for line in report_tables.detail(op, report, True))
    assert ("FLOP" in lines) == (unit == "FLOP")


def test_the_report_file_names_the_nearest_evidence():
    report = evaluate(PRESETS["dfx-1.5b"].scenario)
    assert "Nearest evidence: DFX appliance (Table II) prints 72.68 tokens/s" in report_html(report, False)


def test_a_number_of_the_tile_is_a_knob_too():
    scenario = PRESETS["node-dlrm"].scenario
    best = dict(evaluate(scenario).tile)["sparse-cores"]
    slow, fast = (said(opened("explore", scenario.with_(tile=tile), knob="tile.0")) for tile in ((1,), ()))
    assert f"cores for lookups or the first net {best} gives" in slow
    assert "no other cores for lookups or the first net gives more throughput" in fast


@pytest.mark.parametrize(("knob", "word"), [("streams", "streams"), ("scheme", "partition")])
def test_what_a_sweep_has_of_the_mapping_is_a_knob_too(knob, word):
    at = opened("explore", "node-dlrm", knob=knob)
    assert not at.warning
    assert re.search(rf"Turn one knob.*{word}", said(at))


def test_the_knob_that_is_shown_first_gives_more():
    """A batch gives DFX nothing, and INT8 does."""
    assert "precision INT8 gives" in said(opened("explore", "dfx-1.5b"))


def test_assumptions_are_told_whole_and_without_a_dash_for_a_unit():
    """A line cut at the edge told half of one, of "6 -" reads in flight."""
    [table] = [t.value for t in opened("explore", "dfx-1.5b").table if "Assumption" in t.value]
    texts = [text.replace("\\", "") for text in table["Assumption"]]
    assert any(text.startswith("reads in flight = 6: ") for text in texts)
    assert any(text.startswith("issue = 50 cycles: ") for text in texts)
    assert not [text for text in texts if " -: " in text or ".; " in text]
