"""The Numerics page and the study behind it: errors fall with bits, plans keep their bound (AppTest)."""

from pathlib import Path

import numpy as np
import pytest

from app.views.numerics import charts, trained
from app.views.numerics.charts import label
from engine.lab.numerics.study import TENSORS, in_format, points, tensor
from engine.lab.numerics.trained import Quality
from engine.lab.numerics.wide_deep_serving import SCHEMES
from engine.numerics.formats import NumericsError
from tests.app.pages import in_card, key_of, opened
from tests.app.valid import valid

VIEW = str(Path(__file__).parents[3] / "app" / "views" / "numerics" / "page.py")
pytestmark = pytest.mark.timeout(1800)  # a training, behind whatever else the machine does


def test_the_page_answers_at_once_and_follows_its_controls():
    at = opened("numerics")
    said = [m.value for m in at.markdown]
    assert any(m.startswith("**INT6 (per-row scale)** reaches 30 dB SQNR at **6.06 bits** per weight") for m in said)
    at.slider(key=key_of(at, "w.wanted")).set_value(50).run()
    assert not at.exception
    best = next(p for p in points("normal") if p.sqnr_db >= 50)
    assert any(label(best.format) in m.value and "50 dB" in m.value for m in at.markdown)


def test_a_network_is_trained_only_when_asked_and_then_judged_in_each_precision(monkeypatch):
    monkeypatch.setattr(trained, "_ROWS", 4096)
    at = opened("numerics")
    assert sum("not run yet" in m.value for m in at.markdown) >= 2
    assert in_card(at, "Wide & Deep trained here", "n.wide_deep")  # it stood below its card, as another card's
    assert not any("W4A16" in c.value for c in at.caption)  # the help of a field that this page has not
    at.button(key="n.wide_deep").click().run(timeout=800)
    assert not at.exception, [e.message for e in at.exception]
    assert not at.warning
    frame = next(d.value for d in at.dataframe if "AUC" in d.value)
    assert list(frame["Served in"]) == ["FP32", *SCHEMES]
    assert (frame["AUC"] > 0.6).all()
    assert frame["Answers changed (%)"][0] == 0


@pytest.mark.parametrize("dark", [False, True])
def test_errors_of_layers_are_drawn_as_given(dark):
    fig = valid(
        charts.layer_errors(
            [Quality("a", 0.8, 0.7, 0.4, 0.0, (30.0, 40.0)), Quality("b", 0.8, 0.7, 0.4, 0.0, (31.0, 42.0))], dark
        )
    )
    assert {t.name: list(t.x) for t in fig.data} == {"a": [30, 40], "b": [31, 42]}
    assert fig.layout.xaxis.range[1] > 42


@pytest.mark.parametrize("name", TENSORS)
def test_every_tensor_can_be_looked_at(name):
    at = opened("numerics")
    at.selectbox(key="w.layer").set_value(name).run()
    assert not at.exception, [e.message for e in at.exception]


@pytest.mark.parametrize("name", TENSORS)
def test_a_bit_more_leaves_less_error(name):
    for family in ("Integer, one scale", "Integer, one scale per row", "Shared exponent"):
        found = sorted((p for p in points(name) if p.family == family), key=lambda p: p.bits)
        errors = [p.sqnr_db for p in found]
        assert errors == sorted(errors), family
        assert len(found) >= 8


def test_uniform_values_gain_six_decibels_a_bit():
    """A uniform quantiser on uniform values: noise of step^2 / 12, so 20 log10(2) = 6.02 dB a bit."""
    found = {p.format: p.sqnr_db for p in points("uniform")}
    for bits in range(4, 10):
        assert found[f"int{bits + 1}"] - found[f"int{bits}"] == pytest.approx(6.02, abs=0.6)


def test_a_scale_a_row_pays_where_rows_differ():
    found = {p.format: p.sqnr_db for p in points("outliers")}
    normal = {p.format: p.sqnr_db for p in points("normal")}
    assert found["int8 by row"] - found["int8"] > 1.0
    assert normal["int8 by row"] - normal["int8"] < found["int8 by row"] - found["int8"] + 5


def test_a_tensor_is_stored_as_its_format_says():
    shown = in_format("normal", "int4")
    assert len(np.unique(shown.after)) <= 15
    assert np.array_equal(shown.before, tensor("normal"))
    with pytest.raises(NumericsError, match="format is 'int99'; allowed"):
        in_format("normal", "int99")
    with pytest.raises(NumericsError, match="tensor is 'odd'; allowed"):
        tensor("odd")


def test_the_figures_hold_the_numbers():
    found = points("relu")
    fig = valid(charts.error_curve(found, found[5], 30.0, dark=False))
    drawn = {(round(x, 6), round(y, 6)) for t in fig.data if t.name for x, y in zip(t.x, t.y, strict=True)}
    assert drawn == {(round(p.bits, 6), round(p.sqnr_db, 6)) for p in found if np.isfinite(p.sqnr_db)}
    shown = in_format("relu", "int4")
    shares = valid(charts.distribution(shown.before, shown.after, dark=True))
    for trace in shares.data:
        assert sum(trace.y) == pytest.approx(100, abs=0.5)
