"""Compare: one link holds all of it, bad parts cost only themselves, and what is shown is what was evaluated."""

import csv
import io
import re

import pytest
from streamlit.testing.v1 import AppTest

from app.shared import cached, comparison
from app.shared import formats as fmt
from app.shared.comparison import CAPACITY, LIMIT, Comparison, Entry
from app.shared.formats import digits3
from app.views.compare import charts, tables
from app.views.compare.tables import METRICS, ComparedScenario
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError, encode
from engine.sweep import attribute
from tests.app.forged import bomb, forged
from tests.app.pages import alive, key_of, opened
from tests.app.valid import valid

EIGHT = tuple(Entry(PRESETS[id].scenario) for id in list(PRESETS)[:CAPACITY])
DFX, V100 = PRESETS["dfx-1.5b"].scenario, PRESETS["v100-1.5b"].scenario
TIGHT = DFX.with_(devices=1, scheme="single", overrides={"devices.0.memory.hbm.capacity": "2 GB"})
pytestmark = pytest.mark.timeout(300)


def compared(at: AppTest) -> Comparison:
    """What the address bar holds."""
    shown = at.query_params["c"]
    result, message = comparison.read(shown[0] if isinstance(shown, list) else shown)
    assert message is None
    return result


def columns(*entries: Entry) -> list[ComparedScenario]:
    result = []
    for at, entry in enumerate(entries):
        report = evaluate(entry.scenario)
        reason = "" if report.fits else report.problems[0]
        knobs = (entry.scenario.system, f"on {entry.scenario.devices}")
        kept = report if report.fits else None
        result.append(ComparedScenario(at, entry.scenario.system, entry.scenario, entry.note, knobs, kept, reason))
    return result


# --- the link


def test_a_link_holds_eight_scenarios_their_notes_and_the_baseline():
    given = Comparison(tuple(Entry(e.scenario, f"note {i} – ½ price") for i, e in enumerate(EIGHT)), 5)
    token = comparison.write(given)
    assert comparison.read(token) == (given, None)
    assert len(token) <= LIMIT


def test_a_damaged_part_is_left_out_with_one_sentence_and_the_rest_stays():
    parts = comparison.write(Comparison(EIGHT, 4)).split("~")
    parts[3] = parts[3][:-4] + "AAAA"
    found, message = comparison.read("~".join(parts))
    assert found.entries == EIGHT[:2] + EIGHT[3:]
    assert found.entries[found.baseline] == EIGHT[4]
    assert message.startswith("1 of 8 scenarios of this comparison left out (This link is damaged: its checksum")


def test_a_lost_baseline_and_a_ninth_scenario_are_said_in_the_same_sentence():
    parts = comparison.write(Comparison(EIGHT, 0)).split("~")
    found, message = comparison.read("~".join([parts[0], "1zjunk", *parts[2:], parts[1]]))
    assert found == Comparison(EIGHT[1:], 0)
    assert message.startswith("2 of 9 scenarios of this comparison left out (")
    assert message.endswith("; the first is the baseline.")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "10",
        "10~",
        "hello~there",
        "１0~1zA",
        "20~" + encode(DFX),
        "00~" + encode(DFX),
        "10~" + "A" * LIMIT,
        "10~" + bomb(),
        "10~" + forged({"a": 1}),
        "10~~~~~~",
        "10~" + encode(DFX.model_copy(update={"system": "u280x"})),
    ],
)
def test_what_is_no_comparison_is_refused_in_one_sentence(token):
    with pytest.raises(ScenarioError) as refused:
        comparison.read(token)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_note_that_is_no_text_is_no_note():
    token = comparison.write(Comparison((Entry(DFX, "kept"),)))
    for note in ("!!", "_w", "A" * 5):
        assert comparison.read(token.rpartition(".")[0] + "." + note)[0].entries[0].note == ""
    assert comparison.read(token)[0].entries[0].note == "kept"


# --- tables, files and figures


def test_the_table_holds_the_evaluated_numbers_and_marks_the_best():
    both = columns(Entry(V100), Entry(DFX, "=cheap"))
    frame = tables.frame(both, both[0])
    for name, label in (("latency_s", "Latency (s)"), ("ttft_s", "TTFT (ms)"), ("tpot_s", "TPOT (ms)")):
        base, other = (getattr(evaluate(s), name) for s in (V100, DFX))
        cells, unit = frame.loc[label], 1.0 if label.endswith("(s)") else 1e3
        texts = [f"**{digits3(v * unit)}**" if v == min(base, other) else digits3(v * unit) for v in (base, other)]
        better = other < base
        words = f"{digits3(max(base, other) / min(base, other))}× {'faster' if better else 'slower'}"
        assert cells.iloc[0] == texts[0]
        assert cells.iloc[1] == f"{texts[1]}  \n:{'green' if better else 'red'}[{words}]"
    assert frame.loc["Note"].iloc[1] == "\\=cheap" or frame.loc["Note"].iloc[1] == "=cheap"


def test_reading_a_link_prices_nothing(monkeypatch):
    """Eight scenarios that nobody has asked for yet took over a second before the page could say anything."""
    monkeypatch.setattr(cached, "report", lambda token: pytest.fail("a link was priced to be read"))
    text = comparison.write(Comparison(EIGHT))
    found, message = comparison.read(f"{text}~{encode(DFX)}")
    assert found.entries == EIGHT
    assert message == "1 of 9 scenarios of this comparison left out (at most 8 are read)."
    broken = DFX.with_(overrides={"devices.0.memory.hbm.bandwidth": "2 parsecs"})
    left, message = comparison.read(comparison.write(Comparison((Entry(DFX), Entry(broken)))))
    assert left.entries == (Entry(DFX),)
    assert "2 parsecs" in message


def test_a_head_is_text_and_no_markup():
    """A table's head is no Markdown everywhere: there `:gray[baseline]` is read as it is written."""
    both = columns(Entry(V100), Entry(DFX))
    assert [":" in name for name in tables.frame(both, both[0])] == [False, False]
    assert "baseline" in next(iter(tables.frame(both, both[0])))


def test_hardware_of_a_what_if_has_no_price_and_costs_least_nowhere():
    wide = DFX.with_(overrides={"devices.0.memory.hbm.bandwidth": "1.84 TB/s"})
    both = columns(Entry(V100), Entry(wide))
    for frame in (tables.frame(both, both[0]), tables.frame(both[1:], both[1])):
        (label,) = (row for row in frame.index if row.startswith("Capital cost"))
        assert frame.loc[label].iloc[-1] == "no price: a what-if"
    row = both[1].report.csv_row()
    assert [row[name] for name in ("capex_usd", "usd_per_million", "throughput_per_usd")] == [None, None, None]
    assert "cost" not in tables.verdict(both, both[0])


def test_rates_of_different_work_are_never_divided():
    mixed = columns(Entry(DFX), Entry(PRESETS["wide-deep-int8"].scenario))
    assert tables.delta(mixed[1], mixed[0], METRICS["throughput"]) is None
    assert tables.delta(mixed[1], mixed[0], METRICS["latency"]) is None
    assert tables.delta(mixed[1], mixed[0], METRICS["capex"]) is not None
    assert "They count tokens and samples" in tables.verdict(mixed, mixed[0])


def test_the_csv_has_one_row_a_scenario_and_runs_no_formula():
    some = columns(Entry(V100, "=1+1"), Entry(DFX), Entry(TIGHT))
    rows = list(
        csv.DictReader(io.StringIO(fmt.csv_text(tables.rows(some, some[0], {"engine": "e1", "catalog": "c1"}))))
    )
    assert [r["token"] for r in rows] == [encode(s) for s in (V100, DFX, TIGHT)]
    assert list(rows[0])[:2] == ["id", "token"]
    assert rows[0]["note"] == "'=1+1"
    assert {r["engine_version"] for r in rows} == {"e1"}
    assert {r["catalog_version"] for r in rows} == {"c1"}
    assert float(rows[1]["latency_s"]) == evaluate(DFX).latency_s
    ratio = evaluate(DFX).latency_s / evaluate(V100).latency_s
    assert float(rows[1]["latency_over_baseline"]) == pytest.approx(ratio)
    assert rows[2]["runs"] == "False"
    assert "Does not fit" in rows[2]["reason"]
    assert rows[2]["latency_s"] == ""


def test_the_operators_times_add_up_to_the_difference_of_the_requests():
    base, other = evaluate(V100), evaluate(DFX)
    rows = tables.differences(base, other)
    assert rows["gained"].sum() == pytest.approx(base.latency_s - other.latency_s, rel=1e-9)
    assert rows["gained"].abs().is_monotonic_decreasing


def test_bars_carry_the_values_and_parts_start_where_others_end():
    fig = valid(charts.metric_bars([("A", "one", 2e-3, 0.1), ("B", "two", None, None)], 0, "Latency", "s", False))
    assert fig.data[0].x[0] == pytest.approx(2.0)
    assert fig.data[0].error_x.array[0] == pytest.approx(0.2)
    assert fig.layout.xaxis.range[1] >= 2.2
    parts = evaluate(DFX).breakdown
    fig, shares = charts.breakdowns([("A", "one", parts), ("B", "two", {k: 30 * v for k, v in parts.items()})], True)
    fig = valid(fig)
    assert shares
    for before, after in zip(fig.data, fig.data[1:], strict=False):
        assert after.base[0] >= before.base[0] + before.x[0] - 1e-9
    assert sum(trace.x[0] for trace in fig.data) == pytest.approx(100, abs=2)


def test_an_attribution_is_drawn_from_one_scenario_to_the_other():
    attribution = attribute(V100, DFX, METRICS["latency"].name)
    fig = valid(
        charts.attribution(
            ("A", "B"),
            (attribution.base, attribution.target),
            list(attribution.shares.items()),
            "s",
            "Latency",
            False,
            True,
        )
    )
    (bars,) = fig.data
    assert bars.base[-2] + bars.x[-2] == pytest.approx(bars.x[-1])
    assert bars.base[1] == bars.x[0]
    assert bars.x[0] == pytest.approx(evaluate(V100).latency_s)


# --- the page


def test_it_opens_with_the_scenario_and_its_rival():
    at = opened("compare")
    assert [e.scenario for e in compared(at).entries] == [V100, DFX]
    assert any("is best on latency" in m.value for m in at.markdown)
    assert not at.warning
    assert len(at.table) == 1
    assert any("of what moves latency: " in m.value.replace("\\", "") for m in at.markdown)


def test_a_link_of_eight_reopens_as_it_was():
    given = Comparison(EIGHT, 3)
    at = opened("compare", c=comparison.write(given))
    assert compared(at) == given
    assert len(at.table[0].value.columns) == CAPACITY
    again = opened(
        "compare", c=at.query_params["c"][0] if isinstance(at.query_params["c"], list) else at.query_params["c"]
    )
    assert again.table[0].value.equals(at.table[0].value)


def test_scenarios_are_added_opened_noted_and_taken_out():
    at = opened("compare")
    at.selectbox(key=key_of(at, "c.preset")).set_value("dfx-345m").run()
    assert len(compared(alive(at)).entries) == 3
    at.text_input(key=key_of(at, "c.paste")).set_value("http://x/?s=" + encode(DFX.with_(devices=2))).run()
    assert compared(alive(at)).entries[3].scenario.devices == 2
    assert at.text_input(key=key_of(at, "c.paste")).value == ""
    at.text_input(key=key_of(at, "c.note.1")).set_value("ours").run()
    assert compared(alive(at)).entries[1].note == "ours"
    baseline = at.selectbox(key=key_of(at, "c.baseline"))
    assert baseline.options == ["A", "B", "C", "D"]  # names are listed below it; a sidebar is too narrow for one
    baseline.set_value(1).run()
    assert compared(alive(at)).baseline == 1
    at.button(key="c.remove.0").click().run()
    assert [e.note for e in compared(alive(at)).entries] == ["ours", "", ""]
    assert compared(at).baseline == 0


def test_a_system_is_added_with_the_request_of_the_current_scenario_or_the_reason_is_said():
    at = opened("compare", s=encode(DFX))
    before = compared(at).entries
    at.selectbox(key=key_of(at, "c.system")).set_value("h100-sxm").run()
    *rest, new = compared(alive(at)).entries
    assert tuple(rest) == before
    assert new.scenario.system == "h100-sxm"
    assert (new.scenario.workload, new.scenario.inputs) == (DFX.workload, DFX.inputs)
    assert evaluate(new.scenario).fits
    at.selectbox(key=key_of(at, "c.system")).set_value("agilio-cx").run()
    assert len(compared(alive(at)).entries) == len(before) + 1
    assert "is not added" in at.warning[0].value


def test_a_pasted_comparison_adds_all_of_it_up_to_eight():
    at = opened("compare")
    link = "https://x.example/compare?c=" + comparison.write(Comparison(EIGHT))
    at.text_input(key=key_of(at, "c.paste")).set_value(link).run()
    assert len(compared(alive(at)).entries) == CAPACITY
    assert "remove one" in at.warning[0].value


def test_a_bad_paste_adds_nothing_and_says_so():
    at = opened("compare")
    before = compared(at)
    for text in ("hello", "http://[", "https://x/?c=10~1zjunk", "http://x/?q=1", "![x](http://evil/x.png)"):
        at.text_input(key=key_of(at, "c.paste")).set_value(text).run()
        assert compared(alive(at)) == before
        assert len(at.warning) == 1
        assert at.warning[0].value.endswith("Nothing was added\\.")


def test_a_bad_link_keeps_the_usual_comparison_and_repairs_the_address():
    at = opened("compare", c="10~" + forged({"precision": "![x](http://evil.example/x.png)"}))
    assert len(at.warning) == 1
    assert "](" not in at.warning[0].value
    assert [e.scenario for e in compared(at).entries] == [V100, DFX]


def test_what_cannot_run_keeps_its_column_and_says_why():
    odd = DFX.with_(system="agilio-cx", scheme="on-path", devices=1, tile=(), switches={})
    at = opened("compare", c=comparison.write(Comparison((Entry(TIGHT), Entry(odd), Entry(DFX)))))
    assert len(at.info) == 2, [w.value for w in [*at.warning, *at.info]]
    assert len(at.table[0].value.columns) == 3
    assert any("is alone" in m.value for m in at.markdown)


def test_explore_hands_its_scenario_over():
    at = opened("explore", DFX)
    at.select_slider(key="w.devices").set_value(2).run()
    at.button(key="compare").click().run()
    assert compared(alive(at)).entries[-1].scenario.devices == 2
    assert len(at.table) == 1


def test_the_verdict_says_who_has_the_first_token_first_and_what_is_switched_off():
    """One that is best on all else may be slowest to its first token, and another runs without its captured graph."""
    both = columns(Entry(V100), Entry(DFX))
    first = fmt.plain(fmt.seconds(both[0].report.ttft_s))
    assert f"**A, v100\\-appliance** is best on TTFT ({first})" in tables.verdict(both, both[0])
    at = opened("compare", c=comparison.write(Comparison((Entry(V100), Entry(DFX)), 0)))
    differs = "A: Four V100 with Megatron-LM · fused operators off · captured graph off; B: DFX appliance."
    assert any(caption.value.replace("\\", "").startswith(differs) for caption in at.caption)


def test_one_scenario_alone_says_its_figure():
    """Beside a single scenario stood that only one has this figure."""
    at = opened("compare", c=comparison.write(Comparison((Entry(DFX),))))
    latency = fmt.plain(fmt.seconds(evaluate(DFX).latency_s))
    assert any(m.value == f"**Latency** :gray[· {latency}]" for m in at.markdown)


def test_scenarios_that_share_the_best_figure_are_named_together():
    """Of two that cost the same beside a dearer one, the first alone was bold and "best on capital cost"."""
    compared = columns(Entry(DFX), Entry(DFX.with_(precision="int8")), Entry(V100))
    said = tables.verdict(compared, compared[0]).replace("\\", "")
    cost = fmt.usd(compared[0].report.capex_usd)
    assert re.search(
        rf"\*\*A, [^*]+\*\* and \*\*B, [^*]+\*\* are best on [^;]*capital cost \({re.escape(cost)}\)", said
    )
    row = tables.frame(compared, compared[0]).loc["Capital cost (\\$ k)"]
    assert ["**" in cell for cell in row] == [True, True, False]
