"""The Machine tab and a machine's precisions in the catalog (AppTest: no browser), and their figures."""

import re

import pytest
from streamlit.testing.v1 import AppTest

from app.shared import machine
from app.shared.figures.report import Share, shares
from app.shared.formats import si
from app.shared.glossary import Metric
from app.views.machine import facts
from app.views.node.charts import waits
from engine.analyses.machine import Generation
from engine.devices.common.instruction_set import Density
from engine.evaluate import evaluate
from engine.resolve.bind import named
from engine.resolve.presets import PRESETS
from engine.scenario import encode
from tests.app.pages import MAIN, opened
from tests.app.valid import valid

pytestmark = pytest.mark.timeout(300)  # the first run compiles the engine's kernels


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        ("dfx-1.5b", ("**Units**", "**Fabric**", "**Latency by tile**", "64 × 16", "16 of 16 tokens")),
        ("brainwave-gru", ("**Units**", "**Fabric**", "**Arithmetic**", "an exponent for 400 values")),
    ],
)
def test_a_machine_of_instructions_shows_what_is_inside(preset, words):
    text = " ".join(m.value for m in opened("machine", preset).markdown)
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    "preset", ["v100-1.5b", "wide-deep-int8", "node-dlrm", "tonic-fc", "dfx-1.5b", "brainwave-gru"]
)
def test_every_family_shows_levels_with_their_bytes_units_clock_power_links_and_cost(preset):
    at, report = opened("machine", preset), evaluate(PRESETS[preset].scenario)
    levels = next(d.value for d in at.dataframe if "In use" in d.value)
    said = " ".join(levels["In use"])
    assert all(si(row.need_bytes, "B") in said for row in report.memory if row.need_bytes)
    text = " ".join(m.value for m in at.markdown)
    assert "**Units and rates**" in text
    assert "**Clock and power**" in text
    assert ("**Links**" in text) == bool(named(PRESETS[preset].scenario).wires)
    assert [m.label for m in at.metric][:3] == ["Price per device", "Capital cost", "Power"]
    assert ("**Arithmetic**" in text) == (preset in ("dfx-1.5b", "brainwave-gru"))


def test_a_level_of_memory_is_listed_once_with_what_lies_in_it():
    preset = PRESETS["wide-deep-int8"].scenario
    levels = facts.memory(named(preset), evaluate(preset))
    assert list(levels["Level"]) == ["DRAM", "L3", "L2, each core"]
    assert levels["Full (%)"].notna().all()


@pytest.mark.parametrize("preset", PRESETS)
def test_long_numbers_of_a_spec_are_grouped(preset):
    bound = named(PRESETS[preset].scenario)
    values = [value for frame in facts.groups(bound).values() for value in frame["Value"]]
    assert [value for value in values if re.search(r"(?<![\w.-])\d{4}", value)] == []


def test_tabs_are_offered_where_they_apply_and_every_address_opens():
    offered = {
        "v100-1.5b": ["Overview", "Machine"],
        "dfx-1.5b": ["Overview", "Machine", "Program"],
        "node-dlrm": ["Overview", "Machine", "Node"],
        "alexnet-split": ["Overview", "Machine", "Split"],
    }
    for preset, tabs in offered.items():
        at = AppTest.from_file(str(MAIN), default_timeout=240)
        at.query_params["s"] = encode(PRESETS[preset].scenario)
        at.run()
        assert [link.label for link in at.get("page_link")][: len(tabs)] == tabs
    assert not at.switch_page("views/node/page.py").run().exception  # an address to what is not offered says why
    assert "Node" in [link.label for link in at.get("page_link")]


def test_the_catalog_shows_peak_against_precision():
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.run()
    at.switch_page("views/catalog/page.py").run()
    at.selectbox(key="w.section").select("devices").run()
    at.text_input(key="find").set_value("arria-10-1150-brainwave").run()
    assert not at.exception, [e.message for e in at.exception]
    assert "**Peak against precision**" in " ".join(m.value for m in at.markdown)


@pytest.mark.parametrize("dark", [False, True])
def test_figures_are_valid_and_tell_parts_apart_without_colour(dark):
    held = [(Density("int8", 1, 1, 1e12), Density("ms-fp8", 1, 1, k * 1e13)) for k in (9, 4)]
    parts = [Generation(name, densities, ("ms-fp8", 9e12)) for name, densities in zip("AB", held, strict=True)]
    fig = valid(machine.peaks(parts, dark))
    lines = [t for t in fig.data if t.mode.startswith("lines")]
    assert len({t.marker.symbol for t in lines}) == len({t.line.dash for t in lines}) == 2
    assert [t.text[-1] for t in lines] == ["A", "B"]
    rows = [Share("DSP", 0.39, "3,523 of 9,024"), Share("LUT", 0.4, "printed", weak=True)]
    fig = valid(shares(rows, "#358BFF", "Share of the part", dark))
    assert list(fig.data[1].marker.pattern.shape) == ["", "/"]
    fig = valid(waits([(1, 1e-3), (2, 2e-3)], 2, dark))
    assert list(fig.data[1].x) == [2, 2]


def test_money_of_a_decoder_is_of_output_tokens_wherever_it_stands():
    """Choose said "per million output tokens" where Machine, Compare and Sweep said "per million tokens" of one sum."""
    reports = {id: evaluate(PRESETS[id].scenario) for id in ("dfx-1.5b", "tonic-fc")}
    for report, unit in zip(reports.values(), ("output tokens", "inferences"), strict=True):
        assert f"$ per million {unit}" in dict(facts.money(named(report.scenario), report))
        assert Metric.of("usd_per_million", report.unit).label == f"Cost per million {unit}"
    assert Metric.of("energy_per_unit_j", reports["dfx-1.5b"].unit).label == "Energy per output token"


def test_a_number_that_was_multiplied_out_has_four_digits():
    """28 cores x 64 FLOP x 2.4 GHz was a peak of 4.3008 TFLOP/s."""
    units = facts.groups(named(PRESETS["wide-deep-int8"].scenario))["Units and rates"].set_index("Quantity")["Value"]
    assert units["Peak FP32"] == "4.301 TFLOP/s"
    assert units["Peak INT8"] == "17.2 TOP/s"
