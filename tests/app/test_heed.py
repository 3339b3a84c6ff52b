"""What a link holds and a bound widget can't take is said: the field, the value and what is allowed."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

MAIN = Path(__file__).parents[2] / "app" / "main.py"
pytestmark = pytest.mark.timeout(300)


def warnings(page: str, **query: str) -> list[str]:
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.run()
    for key, value in query.items():
        at.query_params[key] = value
    at.switch_page(f"views/{page}.py").run()
    assert not at.exception, [e.message for e in at.exception]
    return [w.value.replace("\\", "") for w in at.warning]


@pytest.mark.parametrize(
    ("page", "key", "value", "sentence"),
    [
        (
            "published",
            "status",
            "bad",
            "Status 'bad' of this link is not known; All, Met, Missed and Not predicted are.",
        ),
        ("published", "role", "x", "Role 'x' of this link is not known; All, Validation and Calibration are."),
        ("compare", "metric", "zz", "Metric 'zz' of this link is not known; Latency, Throughput, "),
        ("traffic", "sla-of", "p98", "Promise 'p98' of this link is not known; p99, p95, p50 and mean are."),
        ("traffic", "places", "-1", "Waiting places '-1' of this link is out of range; 0 to 1,000,000 is allowed."),
        ("traffic", "slots", "2.5", "Nodes a rack takes '2.5' of this link is no whole number; 1 to 1,000 is allowed."),
        ("traffic", "demand", "nan", "Demand at the peak (QPS) 'nan' of this link is out of range; 0 to 1,000,000,000"),
        ("traffic", "sla", "soon", "At most (ms) 'soon' of this link is no number; 1e-06 or more is allowed."),
        ("kernels", "threads", "0", "Threads '0' of this link is not known; "),
        (
            "numerics",
            "wanted",
            "61",
            "Wanted signal over noise (dB) '61' of this link is out of range; 5 to 60 is allowed.",
        ),
    ],
)
def test_a_value_that_a_widget_cant_take_is_said(page, key, value, sentence):
    assert any(w.startswith(sentence) for w in warnings(page, **{key: value}))


@pytest.mark.parametrize(
    ("page", "key", "value"),
    [
        ("published", "status", "Missed"),
        ("traffic", "places", "3"),
        ("traffic", "sla", "0.5"),
        ("numerics", "wanted", "25"),
    ],
)
def test_a_value_that_fits_is_taken_without_a_word(page, key, value):
    assert warnings(page, **{key: value}) == []
