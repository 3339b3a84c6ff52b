"""What the app writes can be read back: the number, its prefix and its order of magnitude."""

import csv
import io
import math
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.shared import formats as fmt
from hardware_specs.quantity import parse

positive = st.floats(min_value=1e-9, max_value=1e17, allow_nan=False)
text = st.text(max_size=40)


def read(shown: str) -> float:
    """The number a reader would understand, through the catalog's own parser."""
    value, unit = shown.replace(",", "").split(" ")
    if unit[0] == "P":
        return float(value) * 1e15
    return parse(f"{value} {unit}")[0]


@given(positive)
def test_a_bandwidth_reads_back_within_three_digits(value):
    shown = fmt.si(value, "B/s")
    if value >= 0.01:
        assert read(shown) == pytest.approx(value, rel=0.00501)
    assert "e" not in shown.lower().replace("b/s", "")


@given(st.floats(min_value=1e-12, max_value=999))
def test_a_time_has_a_mantissa_between_1_and_999(value):
    shown = fmt.seconds(value)
    number, unit = shown.split(" ")
    assert unit in ("ps", "ns", "µs", "ms", "s")
    assert 1 <= float(number) < 1000
    assert len(number.replace(".", "")) == 3
    assert read(shown) == pytest.approx(value, rel=0.00501)


@given(st.lists(positive, min_size=2, max_size=6))
def test_one_prefix_for_a_comparison_keeps_the_order(values):
    scale = fmt.scale(values, "B")
    shown = [float(scale.text(v).replace(",", "")) for v in sorted(values)]
    assert shown == sorted(shown)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0138, "s", "13.8 ms"),
        (72.68, "tok/s", "72.7 tok/s"),
        (1_210_949, "samples/s", "1.21 M samples/s"),
        (3.11e9, "B", "3.11 GB"),
        (2e9, "B", "2.00 GB"),
        (0.9996, "s", "1.00 s"),
        (999.6e-6, "s", "1.00 ms"),
        (999_600, "B", "1.00 MB"),
        (0.25, "B", "0.250 B"),
        (136e-6, "QPS", "0.000136 QPS"),
        (1234.0, "s", "1,230 s"),
        (0.0, "B", "0 B"),
        (-0.0138, "s", "−13.8 ms"),
        (None, "s", "—"),
        (math.inf, "s", "—"),
    ],
)
def test_numbers_are_written_as_the_brief_says(value, unit, shown):
    assert fmt.si(value, unit) == shown


@pytest.mark.parametrize(
    ("ratio", "shown"), [(0.54, "54%"), (0.004, "<1%"), (0.0, "0%"), (1.56, "156%"), (-0.11, "−11%"), (None, "—")]
)
def test_shares(ratio, shown):
    assert fmt.percent(ratio) == shown


def test_ratios_counts_and_money():
    assert fmt.times(3.4849) == "3.48×"
    assert fmt.times(1 / 120) == "1/120"
    assert fmt.count(9024) == "9,024"
    assert fmt.count(1_048_576) == "1.05 M"
    assert fmt.usd(31_100) == "$31.1 k"
    assert fmt.usd(0.12) == "$0.120"
    assert fmt.usd(None) == "—"
    assert fmt.band(0.05) == "±5%"
    assert fmt.band(None) == "unvalidated"
    assert fmt.of(3.11e9, 8e9) == "3.11 of 8.00 GB"
    assert fmt.of(3.11e9, 2e9) == "3.11 > 2.00 GB"
    assert fmt.of(10.0, 8e9) == "10.0 B of 8.00 GB"
    assert fmt.of(56.4e3, 35.4e6) == "56.4 kB of 35.4 MB"


@pytest.mark.parametrize(
    ("value", "baseline", "shown"),
    [(348, 100, "3.48× more"), (99, 100, "1% less"), (100, 100, "same"), (50, 100, "2.00× less"), (None, 1, None)],
)
def test_deltas_are_words(value, baseline, shown):
    assert fmt.ratio_text(value, baseline, "more", "less") == shown


@given(st.lists(st.dictionaries(st.text(min_size=1, max_size=8), text, min_size=1, max_size=4), min_size=1, max_size=4))
def test_no_csv_cell_is_a_formula(rows):
    cells = [c for line in csv.reader(io.StringIO(fmt.csv_text(rows))) for c in line]
    assert not [c for c in cells if c.startswith(("=", "+", "-", "@"))]


def test_csv_keeps_numbers_and_leaves_unknown_cells_empty():
    assert fmt.csv_text([{"a": -1.5, "b": None}, {"a": 2, "c": "=1+1"}]) == "a,b,c\n-1.5,,\n2,,'=1+1\n"


@given(text, text)
def test_file_names_are_safe_everywhere(page, part):
    name = fmt.file_name(page, [part, part], "csv", date(2026, 11, 20))
    assert len(name) <= 80
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert name.endswith("_20261120.csv")


@given(text)
def test_nothing_of_a_users_text_is_markdown(value):
    shown = fmt.plain(value)
    special = "`*_[]()#!|<>$:~"
    assert all(shown[i - 1] == "\\" for i, c in enumerate(shown) if c in special)


def test_knobs_fold_beyond_the_limit():
    assert fmt.words(["batch 1", "FP16"], 80) == ("batch 1 · FP16", ())
    assert fmt.words(["a" * 50, "b" * 50, "c"], 80) == ("a" * 50, ("b" * 50, "c"))
