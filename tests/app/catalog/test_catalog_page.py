"""The Catalog page: what is searched comes first, no digit is cut off, and a source's address is a link."""

import json
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.shared import specs
from app.shared.formats import web_link
from hardware_specs.catalog import default_catalog
from tests.app.pages import opened

APP = Path(__file__).parents[3] / "app"
CATALOG = default_catalog()
SECTIONS = ("systems", "devices", "links", "nics", "workloads")
_DIGIT = 6.6  # px of a digit in a table, 13 px Source Sans; capitals are a little wider
pytestmark = pytest.mark.timeout(300)


def shown(at: AppTest) -> str:
    """The name of the entry whose details are shown."""
    said = (m.value for m in at.markdown)
    return next(m[1] for m in (re.match(r"\*\*(.*?)\*\* :gray\[· [A-Z]", text) for text in said) if m).replace("\\", "")


def test_a_search_opens_what_is_named_so():
    assert "H100" in shown(opened("catalog", section="devices", find="H100"))


@pytest.mark.parametrize("find", ["H100", "MI300X", "Xeon"])
def test_no_value_is_cut_off(find):
    at = opened("catalog", section="devices", find=find)
    frame = next(f for f in at.dataframe if "Value" in f.value.columns)
    columns = json.loads(frame.proto.columns)
    for name in ("Quantity", "Value"):
        assert columns[name]["width"] >= _DIGIT * max(map(len, frame.value[name])) + 16


def test_a_sources_address_is_a_link_and_nothing_else_is():
    at = opened("catalog", section="devices", find="H100")
    rows = [m.value for m in at.markdown if m.value.startswith("`")]
    assert any("](https://" in row for row in rows)
    assert not any("\u2060" in row for row in rows)
    assert "](" not in web_link("me", "javascript:alert(1)")
    assert "](" not in web_link("me", None)
    assert web_link("a]b", "https://x.y/(z) <w>") == "[a\\]b](https://x.y/%28z%29%20%3Cw%3E)"


def test_numbers_of_every_entry_are_grouped_and_never_scientific():
    for section in ("devices", "links", "nics", "systems"):
        for id in CATALOG.ids(section):
            entry = {"devices": CATALOG.device, "links": CATALOG.link, "nics": CATALOG.nic, "systems": CATALOG.system}
            for row in specs.quantities(entry[section](id)):
                assert not re.search(r"\de[+-]?\d", row.text), (id, row.path, row.text)
    at = opened("catalog", section="workloads", find="dlrm")
    for frame in at.dataframe:
        for text in frame.value.get("Value", ()):
            assert not re.search(r"(?<![\d.])\d{5,}", text), text


def test_a_system_shows_the_numbers_of_its_parts_and_where_they_were_read():
    """It had a list of parts and the sentence that it has no numbers; a device's were in another section."""
    at = opened("catalog", section="systems", find="dfx-u280")
    card = CATALOG.device("alveo-u280-dfx")
    count = len(specs.quantities(card))
    assert f"{card.name} · {count} numbers" in [box.label for box in at.expander]
    assert not [box.label for box in at.expander if box.label.endswith(" · 1 numbers")]
    parts = next(frame for frame in at.dataframe if "Part" in frame.value)
    assert json.loads(parts.proto.columns)["Part"]["width"] >= _DIGIT * max(map(len, parts.value["Part"]))
    at.session_state["open.part.alveo-u280-dfx"] = True
    at.run()
    assert count in [len(frame.value) for frame in at.dataframe if "Evidence" in frame.value.columns]
    assert any(m.value.startswith("`") for m in at.markdown)


def test_the_way_to_ones_own_files_opens_their_place():
    boxes = opened("catalog", own="open").expander
    assert [box.proto.expanded for box in boxes if "your own" in box.label] == [True]


def test_a_networks_list_of_layers_leaves_its_other_values_in_sight():
    """The column was as wide as a list of a thousand characters, its values at the far end of it."""
    frame = next(f for f in opened("catalog", section="workloads", find="alexnet").dataframe if "Value" in f.value)
    column = json.loads(frame.proto.columns)["Value"]
    assert max(map(len, frame.value["Value"])) > 100
    assert column["width"] < 200
    assert column["alignment"] == "left"


@pytest.mark.parametrize("section", SECTIONS)
def test_entries_are_listed_by_the_name_that_is_shown(section):
    names = list(opened("catalog", section=section).dataframe[0].value["Name"])
    assert names == sorted(names, key=str.casefold)


def test_a_network_is_of_the_kind_that_its_picker_says():
    kinds = opened("catalog", section="workloads").dataframe[0].value.set_index("Name")["Kind"]
    assert kinds["AlexNet (Caffe)"] == "CNN"
    assert kinds["BERT base"] == "Encoder"


def test_an_entry_that_is_shown_travels_in_the_link_and_outlives_a_look_at_another_page():
    at = opened("catalog", section="devices", entry="h100-sxm")
    assert shown(at) == CATALOG.device("h100-sxm").name
    assert not at.warning
    at.switch_page("views/published/page.py").run()
    at.switch_page("views/catalog/page.py").run()
    assert shown(at) == CATALOG.device("h100-sxm").name
    bad = opened("catalog", section="devices", entry="h100-sxn")
    [warning] = [w.value.replace("\\", "") for w in bad.warning]
    assert warning.startswith("Entry 'h100-sxn' of this link is not known; nearest: h100-sxm")
    [warning] = [w.value for w in opened("catalog", section="devices", entry="nonsense").warning]
    assert f"is not known; the page lists all {len(CATALOG.ids('devices'))}" in warning
