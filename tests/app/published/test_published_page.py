"""A reader's table on the Published page: predicted against measured, and the command's own sentences for a bad one."""

import json
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.shared import claims as words
from engine.published import claims, validate
from engine.published.nearest import TITLES
from tests.app.pages import opened, said

APP = Path(__file__).parents[3] / "app"

GOOD = """system,workload,precision,batch,latency_ms,ttft_ms
apple-m4-max,llama3.1-8b,fp16,1,17000,900
apple-m4-max,llama3.1-8b,fp16,1,90000,
arm-edge,alexnet,fp32,1,80,
no-such-part,alexnet,fp32,1,80,
"""
BAD = {
    "system,workload,colour,latency_ms\na,b,c,3\n": "column colour is unknown",
    "system,workload,latency\na,b,3\n": "column latency gives no unit",
    "system,workload,latency_ms\nh100-sxm,resnet50,-3\n": "a number above 0 is needed",
    "system,workload\nh100-sxm,resnet50\n": "no column holds a measured figure",
    "": "holds no rows",
}


def _section() -> None:
    from app.views.published import measured

    measured.section()


def given(text: str) -> AppTest:
    at = AppTest.from_function(_section, default_timeout=120).run()
    at.file_uploader(key="measured").set_value(("runs.csv", text.encode(), "text/csv")).run()
    assert not at.exception, at.exception
    return at


def test_a_table_is_drawn_listed_and_its_skipped_rows_counted() -> None:
    at = given(GOOD)
    said = next(m.value for m in at.markdown if "rows predicted" in m.value)
    assert said.startswith("**3 of 4 rows predicted**")
    assert "figures lie in their error band" in said
    assert "without an error band" in said
    assert "1 of 4 rows skipped" in at.warning[0].value
    assert "no-such-part" in at.warning[0].value.replace("\\", "")
    table = at.dataframe[0].value
    assert list(table["Row"]) == [1, 1, 2, 3]
    assert set(table["Format"]) == {"FP16", "FP32"}  # as every other page writes them
    assert set(table["Error band"] == "no evidence") == {True, False}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_table_gets_the_sentence_of_the_command(text: str) -> None:
    at = given(text)
    assert len(at.warning) == 1
    assert BAD[text] in at.warning[0].value.lower().replace("'", "").replace("\\", "")
    assert not at.dataframe


def test_a_table_outlives_its_widget_which_a_switch_of_pages_ends() -> None:
    at = given(GOOD)
    later = AppTest.from_function(_section, default_timeout=120)
    later.session_state["measured.table"] = at.session_state["measured.table"]
    later.run()
    assert "rows predicted" in said(later)
    assert any("uploaded earlier" in c.value for c in later.caption)
    assert "rows predicted" not in said(later.button(key="measured.remove").click().run())


def test_metrics_are_said_in_the_fields_words() -> None:
    said = {words.metric(claim["metric"]) for claim in claims()}
    assert not [text for text in said if "_" in text and "share of time" not in text]
    assert not [text for text in said if set(text.split()) & {"pct", "sls", "ipc", "ops", "fc", "util"}]


def test_a_figure_of_a_document_stands_beside_its_predictions_value_by_value() -> None:
    """Throughputs of Wide & Deep, two formats on two kinds of stream, were a table's rows and points of one scatter."""
    groups = words.by_figure(validate(), TITLES)
    name = f"{TITLES['002']}, Fig 6, samples/s"
    ids = [row["id"] for row in groups[name]]
    assert len(ids) > 1
    at = AppTest.from_file(str(APP / "main.py"), default_timeout=240)
    at.query_params["figure"] = name
    at.run()
    at.switch_page(str(APP / "views" / "published" / "page.py")).run()
    assert not at.exception
    charts = [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]
    drawn = {
        trace["name"]: list(trace["x"])
        for chart in charts
        for trace in chart["data"]
        if len(trace.get("x", ())) == len(ids)
    }
    assert "Value (" in charts[-1]["layout"]["xaxis"]["title"]["text"]  # "%, log" was no quantity
    for which in ("published", "predicted"):
        assert drawn[which.capitalize()] == pytest.approx([row[which] for row in groups[name]])


def test_every_value_of_a_claim_has_its_unit() -> None:
    """A null model "gives 0.0329", of what nobody said; a share was "0.2 %"."""
    assert [words.amount(0.2, "%"), words.amount(3.48, "×"), words.amount(31.5, "ms")] == ["0.2%", "3.48×", "31.5 ms"]
    at = AppTest.from_file(str(APP / "main.py"), default_timeout=240)
    at.query_params["claim"] = "FB-101"
    at.run()
    at.switch_page(str(APP / "views" / "published" / "page.py")).run()
    (sentence,) = [c.value for c in at.caption if "null model" in c.value]
    assert sentence.endswith("%.")


def test_the_chart_says_how_many_predictions_it_has_no_place_for():
    """The cards count 179 predictions and the chart 160, and nothing said where the others were."""
    rows = validate()
    at = opened("published")
    counts = re.search(r"(\d+) of (\d+) numbers within tolerance, (\d+) predicted ranges and words", said(at))
    assert counts
    assert int(counts[2]) + int(counts[3]) == sum(row["predicted"] is not None for row in rows)
