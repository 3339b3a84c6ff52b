"""Quantities: what is printed is what is read; a slip in a unit is refused, never guessed."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_specs import Quantity, SpecError, parse
from tests.each import each
from tests.effort import examples


@pytest.mark.parametrize(
    ("text", "value", "dimension"),
    [
        ("3.35 TB/s", 3.35e12, "B/s"),
        ("40 Gbit/s", 5e9, "B/s"),
        ("40 Gb/s", 5e9, "B/s"),
        ("40 Gbps", 5e9, "B/s"),
        ("16 GB", 16e9, "B"),
        ("16 GiB", 16 * 2**30, "B"),
        ("4096 bit", 512.0, "B"),
        ("820 GiB/s", 820 * 2**30, "B/s"),
        ("45 TOPS", 45e12, "FLOP/s"),
        ("989.5 TFLOP/s", 989.5e12, "FLOP/s"),
        ("4096 MAC/cycle", 8192.0, "FLOP/cycle"),
        ("17,906 USD", 17906.0, "USD"),
        ("39.93%", 0.3993, "1"),
        ("1.29 us", 1.29e-6, "s"),
        ("10 min", 600.0, "s"),
        ("-3", -3.0, "1"),
        ("0.36 USD/kWh", 1e-7, "USD/J"),
        (7.5, 7.5, "1"),
    ],
)
def test_printed_forms(text, value, dimension):
    got, unit = parse(text)
    assert unit == dimension
    assert got == pytest.approx(value, rel=1e-15)


@each(
    "text",
    [
        "",
        "GB",
        "1,5 GB",
        "1,50 GB",
        "12,34,567",
        "3.35TB per s",
        "5 KB",
        "5 gb",
        "100 mB",
        "100 mb/s",
        "2 mFLOP/s",
        "1 GMAC/cycle",
        "nan",
        "inf W",
        "1e400 W",
        "5 Gi",
        "3 KiW",
        "1 2 W",
        "0x10",
        True,
        None,
        [1],
        float("inf"),
        "9 W W",
        "9" * 100,
    ],
)
def test_refused(text):
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@given(
    number=st.floats(1e-6, 1e9),
    prefix=st.sampled_from([("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15)]),
)
@settings(max_examples=examples(60), deadline=None)
def test_a_byte_is_eight_bits_and_prefixes_scale(number, prefix):
    name, scale = prefix
    in_bytes = parse(f"{number!r} {name}B/s")[0]
    assert in_bytes == pytest.approx(number * scale, rel=1e-12)
    for bit in ("bit/s", "b/s", "bps"):
        assert parse(f"{number!r} {name}{bit}")[0] == pytest.approx(in_bytes / 8, rel=1e-12)


@given(number=st.integers(1, 10**6), power=st.integers(1, 4))
@settings(max_examples=examples(40), deadline=None)
def test_binary_prefix_is_larger_than_the_decimal_one(number, power):
    binary, decimal = ("Ki", "Mi", "Gi", "Ti")[power - 1], ("k", "M", "G", "T")[power - 1]
    ratio = parse(f"{number} {binary}B")[0] / parse(f"{number} {decimal}B")[0]
    assert ratio == pytest.approx((1024 / 1000) ** power, rel=1e-12)


@given(st.text(max_size=30))
@settings(max_examples=examples(150), deadline=None)
def test_any_text_is_read_or_refused_in_one_sentence(text):
    try:
        value, dimension = parse(text)
    except SpecError as refusal:
        sentence = str(refusal)
    else:
        sentence = f"{value} {dimension}"
        assert math.isfinite(value)
    assert 0 < len(sentence) < 700


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"value": "3 GB"}, "source"),
        ({"value": "3 GB", "source": "ds"}, "where"),
        ({"value": "3 GB", "basis": "assumed"}, "note"),
        ({"value": "3 GB", "basis": "calibrated"}, "claims"),
        ({"value": "3 GB", "basis": "measured", "where": "here"}, "source"),
    ],
)
def test_evidence_is_demanded(fields, word):
    with pytest.raises(ValueError, match=word):
        Quantity(**fields)


def test_a_quantity_is_parsed_once_and_a_copy_parses_its_own(monkeypatch):
    link = Quantity(value="40 Gbit/s", source="ds", where="p. 1")
    assert link.si == 5e9
    assert link.model_copy(update={"value": "80 Gbit/s"}).si == 1e10
    assert link == Quantity(value="40 Gbit/s", source="ds", where="p. 1")  # what was kept is no part of it
    monkeypatch.setattr("hardware_specs.quantity.parse", lambda _: pytest.fail("parsed again"))
    assert link.si == 5e9
