"""Tables, files, sentences and fixes: what is written is what was computed."""

import csv
import io
import json
import math

import pytest

from app.shared import cached, claims, fixes, glossary, report_tables, specs
from app.shared import formats as fmt
from app.views.explore.report_file import cards
from app.views.sweep import axes, spaces
from engine.analyses.machine import units
from engine.devices.common.contract import RESOURCES
from engine.evaluate import evaluate
from engine.published import validate
from engine.published.nearest import data_of, row_of
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError, decode, encode

pytestmark = pytest.mark.timeout(300)
SOME = ("dfx-1.5b", "brainwave-gru", "wide-deep-int8", "tonic-fc", "node-dlrm")


@pytest.fixture(scope="module", params=SOME)
def report(request):
    return evaluate(PRESETS[request.param].scenario)


def test_operator_rows_of_a_file_sum_to_the_latency(report):
    rows = list(csv.DictReader(io.StringIO(fmt.file_text("csv", report_tables.operator_rows(report)))))
    assert len(rows) == len(report.ops) + len(report.other)
    assert sum(float(row["time_s"]) for row in rows) == pytest.approx(report.latency_s, rel=1e-9)
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1.0, rel=1e-9)
    assert list(rows[0])[:2] == ["id", "token"]
    assert {row["token"] for row in rows} == {report.token}
    assert all(row["engine_version"] and row["catalog_version"] for row in rows)
    units = ("_s", "_b", "_flop", "_flop_per_b", "_flop_per_s")
    words_only = {"id", "token", "operator", "kind", "group", "phase", "device", "bound"}
    plain = {"count", "share", "peak_used", *(name for op in report.ops for name in op.counters)}
    assert all(name.endswith(("_share", "_per_cycle", "_lines")) for op in report.ops for name in op.counters)
    assert all(c.endswith(units) or c in words_only | plain or c.endswith("_version") for c in rows[0])


def test_a_summary_row_reads_back(report):
    row = next(csv.DictReader(io.StringIO(fmt.file_text("csv", [row_of(report)]))))
    assert decode(row["token"]) == report.scenario
    assert float(row["throughput_per_s"]) == report.throughput_per_s
    assert sum(float(row[f"{name}_s"]) for name in RESOURCES) == pytest.approx(report.latency_s, rel=1e-9)


def test_the_whole_report_is_json_without_nan(report):
    text = fmt.file_text("json", data_of(report))
    assert json.loads(text, parse_constant=lambda c: pytest.fail(f"{c} is not JSON"))["token"] == report.token


def test_the_table_is_in_time_order_with_units_in_its_headers(report):
    frame = report_tables.operators(report)
    time = next(c for c in frame if c.startswith("Time ("))
    assert frame[time].is_monotonic_decreasing
    assert frame["Share of time"].sum() <= 100.0 + 1e-6
    assert frame["Peak used (%)"].max() <= 100.0 + 1e-6


def test_every_operator_explains_itself(report):
    for op in report.ops:
        lines = report_tables.detail(op, report, False)
        assert len(lines) >= 3
        assert not [line for line in lines if "—" in line or "nan" in line]
        assert lines[-1].startswith("Faster")


def test_cards_each_with_a_band_and_a_unit(report):
    for phone in (False, True):
        found = cards(report, None, phone, False)
        assert [c.label for c in found][-3:] == ["Throughput", "Perf/W" if phone else "Perf per watt", "Capital cost"]
        assert all(("±" in c.note) == (report.error_band.relative is not None) for c in found[:-2])
        assert found[-1].note
        assert all(len(c.value) <= (13 if phone else 17) for c in found)
        assert all(c.delta is None for c in found)


@pytest.mark.parametrize("id", SOME)
def test_hardware_of_a_what_if_shows_no_price_but_the_one_that_is_set(id):
    scenario = PRESETS[id].scenario
    row = next(r for r in specs.overridable(scenario) if r.path.startswith("devices.0.memory") and r.si > 0)
    report = evaluate(scenario.with_(overrides={row.path: row.si}))
    card = cards(report, None, False, False)[-1]
    assert (card.note, card.value) == ("no price: a what-if", fmt.UNKNOWN)
    assert "a what-if changes" in card.help
    if evaluate(scenario).capex_usd is None:
        return
    priced = evaluate(scenario.with_(overrides={row.path: row.si, "devices.0.price": 4000.0}))
    assert priced.capex_usd is not None
    assert cards(priced, None, False, True)[-1].value == fmt.usd(priced.capex_usd)


def test_a_decoder_shows_the_first_token_each_further_one_and_the_whole(report):
    """Never the whole over its tokens: 14.0 ms where a further token takes 7.07."""
    found = {c.label: c.value for c in cards(report, None, False, False)}
    if report.tpot_s is None:
        assert found["Latency"] == fmt.seconds(report.latency_s)
        return
    assert found["TTFT"] == fmt.seconds(report.ttft_s)
    assert found["TPOT"] == fmt.seconds(report.tpot_s)
    assert found["End to end"] == fmt.seconds(report.latency_s)
    steps = report.scenario.outputs - 1
    assert report.latency_s == pytest.approx(report.ttft_s + steps * report.tpot_s, rel=1e-9)
    assert f"TTFT {fmt.seconds(report.ttft_s)}, TPOT {fmt.seconds(report.tpot_s)}," in report.verdict
    assert "per output" not in report.verdict + glossary.per(report)
    assert {"ttft_s", "tpot_s", "latency_s"} <= set(spaces.metrics(report))


def test_deltas_are_words_in_the_right_colour():
    four, two = (evaluate(PRESETS["dfx-1.5b"].scenario.with_(devices=n)) for n in (4, 2))
    _, latency, _, rate, _, price = cards(two, four, False, False)
    assert latency.delta.endswith("slower")
    assert rate.delta.endswith("less")
    assert price.delta.endswith("less")
    assert (latency.colour, rate.colour, price.colour) == ("red", "red", "green")
    assert cards(four, four, False, False)[0].delta == "same"
    other = evaluate(PRESETS["wide-deep-int8"].scenario)
    assert all(c.delta is None for c in cards(four, other, False, False))


def test_answers_carry_the_numbers_of_the_report(report):
    share = report.breakdown[report.bound] / report.latency_s
    assert glossary.answer_breakdown(report).startswith(f"{share * 100:.0f}%")
    assert glossary.answer_fits(report).startswith("everything fits")
    for _, answer, _ in glossary.timelines(report):
        assert answer.endswith("% of the time")
        assert "busy" not in answer  # which a link is at full load, as its traffic has it
    assert glossary.per(report)


def test_a_dependence_is_no_busy_unit():
    report = evaluate(PRESETS["brainwave-gru"].scenario)
    assert "dependence" in {bar.unit for bar in report.timeline}
    answer = glossary.answer_timeline(report.timeline)
    assert "dependence" not in answer
    assert all(unit.name in answer for unit in units(report))


def test_fixes_are_evaluated_and_change_one_thing():
    big = PRESETS["dfx-1.5b"].scenario.with_(
        devices=1, scheme="single", overrides={"devices.0.memory.hbm.capacity": "2 GB"}
    )
    assert not evaluate(big).fits
    found = fixes.fixes(big)
    assert len(found) == 2
    for fix in found:
        assert evaluate(fix.scenario).fits
        assert fix.label
    assert any(fix.scenario == big.with_(overrides={}) for fix in fixes.fixes(big, 9))
    assert found[0].stops == "no longer fit in memory"


def test_fixes_are_the_inverse_of_each_knob_and_say_what_binds():
    served = PRESETS["wide-deep-int8"].scenario
    slow = served.with_(switches=served.switches | {"framework": False})  # whose calls take turns, whatever the batch
    limit = evaluate(slow.with_(batch=slow.batch // 4)).latency_s
    held = slow.with_(limits={"latency_s": limit})
    found = {next(k for k in ("batch", "streams") if k in f.label.lower()): f for f in fixes.fixes(held, 9)}
    assert found["batch"].stops == "miss the latency limit"
    assert evaluate(found["batch"].scenario).latency_s <= limit
    larger = [b for b in cached.options(encode(held)).batches if found["batch"].scenario.batch < b < held.batch]
    assert larger
    assert all(evaluate(held.with_(batch=b)).latency_s > limit for b in larger)


def test_a_fix_is_the_smallest_of_the_values_that_a_sweep_has():
    """Half of 40 tokens is not the smallest change where 32 are in time."""
    scenario = PRESETS["node-text"].scenario
    limit = 0.9 * evaluate(scenario).latency_s
    late = scenario.with_(limits={"latency_s": limit})
    [fewer] = [fix.scenario.inputs for fix in fixes.fixes(late, 9) if fix.label.startswith("Inputs")]
    lengths = axes.candidates(late)["inputs"].options
    assert fewer == max(n for n in lengths if evaluate(scenario.with_(inputs=n)).latency_s <= limit)


def test_a_narrower_cache_is_among_the_fixes_of_one_that_is_too_large():
    wide = default_scenario("h100-sxm", "llama3.1-8b").with_(inputs=4096, outputs=512, batch=64)
    need, narrow = (
        sum(level.need_bytes for level in evaluate(s).memory if level.required)
        for s in (wide, wide.with_(kv_format="fp8"))
    )
    room = wide.with_(overrides={"devices.0.memory.hbm.capacity": f"{(need + narrow) / 2e9:.3f} GB"})
    assert "KV-cache format FP8, not as activations" in [fix.label for fix in fixes.fixes(room, 9)]


def test_neighbours_of_a_pair_that_cannot_run_can():
    never = PRESETS["tonic-fc"].scenario.with_(workload="resnext101-32x4d")
    pairs = fixes.neighbours(never)
    assert [pair[0] == never.system for pair in pairs] == [True, False]
    assert pairs[1][1] == never.workload


def test_a_what_if_is_named_with_its_unit():
    swept = PRESETS["dfx-1.5b"].scenario.with_(overrides={"devices.0.memory.hbm.bandwidth": 730204483905.3717})
    assert glossary.knobs(swept, None)[-1] == "HBM bandwidth 730 GB/s"
    typed = swept.with_(overrides={"devices.0.memory.hbm.bandwidth": "0.92 TB/s"})
    assert glossary.knobs(typed, None)[-1] == "HBM bandwidth 0.92 TB/s"


@pytest.mark.parametrize("id", SOME)
def test_every_value_offered_for_change_can_be_changed(id):
    scenario = PRESETS[id].scenario
    rows = specs.overridable(scenario)
    assert len({row.path for row in rows}) == len(rows)
    assert any(row.path.startswith("model.") for row in rows)
    for row in rows[::7]:
        value = row.si if row.path.startswith("model.") else row.text
        try:
            evaluate(scenario.with_(overrides={row.path: value}))
        except ScenarioError as error:
            pytest.fail(f"{row.path} = {value}: {error}")


def test_claims_are_told_apart_and_none_is_dropped():
    rows = validate()
    assert len(claims.frame(rows)) == len(rows)
    exported = claims.export(rows, {"engine": "x"})
    assert [row["id"] for row in exported] == [row["id"] for row in rows]
    assert all(row["engine_version"] == "x" for row in exported)
    for row in rows:
        assert (row["predicted"] is not None) or row["reason"]
        assert "e+" not in claims.value_text(row["published"]) + claims.value_text(row["predicted"])
    for row in claims.drawable(rows):
        assert math.isfinite(math.log10(row["published"] * row["predicted"]))
    off = claims.worst(rows)
    assert [bool(row["within"]) for row in off] == sorted(bool(row["within"]) for row in off)
