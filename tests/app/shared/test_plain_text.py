"""No text of any page holds a power of ten, `None`, `nan` or an underscore, except as code (AppTest)."""

import json
import re
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from app.main import PAGES
from engine.resolve.presets import PRESETS
from engine.scenario import encode
from tests.effort import share

APP = Path(__file__).parents[3] / "app"
PRESET = ("dfx-1.5b", "node-dlrm", "wide-deep-int8", "tonic-mnist", "v100-1.5b", "brainwave-gru", "edge-camera")
NO_SCENARIO = ("kernels", "numerics", "published", "catalog")  # pages that show the same of each
RAW = re.compile(r"\de[+-]?\d|\bNone\b|\bnan\b|(?<![\\\w])\w*[a-z]_\w|\w_[a-z]")
CODE = re.compile(r"```.*?```|`[^`]*`|:material/\w+:|\]\([^)]*\)|https?://\S+|\b[0-9a-f]{8,12}\b", re.DOTALL)
pytestmark = pytest.mark.timeout(300)


def texts(at: AppTest) -> list[tuple[str, str]]:
    """Every text of a page with the kind of element it is of, code left out."""
    result = []
    for node in (*at.main, *at.sidebar):
        result += list(_of(node))
    return result


def _of(node):
    kind, proto = getattr(node, "type", ""), getattr(node, "proto", None)
    if kind == "code":
        return
    if getattr(node, "children", None):
        label = getattr(proto, "label", "")
        if isinstance(label, str):
            yield kind, label
        for child in node.children.values():
            yield from _of(child)
        return
    for name in ("label", "help", "body", "placeholder", "delta", "description"):
        text = getattr(proto, name, "")
        yield f"{kind}.{name}", text if isinstance(text, str) else ""
    for option in getattr(proto, "options", ()):
        yield f"{kind}.option", option if isinstance(option, str) else getattr(option, "content", "")
    if kind in ("arrow_data_frame", "arrow_table", "dataframe", "table"):
        yield from _cells(kind, node.value, bool(getattr(proto, "placeholder", "")))
    if kind == "number_input" and re.search("[eg]$", proto.format):
        yield kind, f"nan {proto.label} as {proto.format}"
    if kind == "plotly_chart":
        spec = json.loads(proto.spec)
        go.Figure(spec)  # every chart of every page passes plotly's validators: pages send them unchecked
        yield from _chart(spec)


def _cells(kind, frame, held):
    for name in frame.columns:
        yield f"{kind}.header", str(name)
        for cell in frame[name]:
            if isinstance(cell, str):
                yield f"{kind}[{name}]", cell
            elif not held and pd.isna(cell):
                yield f"{kind}[{name}]", "None"


def _chart(figure):
    layout = figure["layout"]
    for axis in (layout.get("xaxis", {}), layout.get("yaxis", {})):
        yield "plotly.axis", str(axis.get("title", {}).get("text", ""))
        yield from (("plotly.tick", str(tick)) for tick in axis.get("ticktext", ()))
    yield from (("plotly.note", str(note.get("text", ""))) for note in layout.get("annotations", ()))
    for trace in figure["data"]:
        hover = trace.get("hovertemplate", "")
        for text in [hover] if isinstance(hover, str) else hover:
            yield "plotly.hover", re.sub(r"%\{[^}]*\}", "", text)


def raw(page: str, at: AppTest) -> list[str]:
    """Texts of a page that are not for people, each with the page and the kind of element it is of."""
    assert not at.exception
    found, result = texts(at), {}
    assert len(found) > 10
    for kind, text in found:
        if page == "program" and kind in ("plotly.hover", "dataframe[Instruction]"):
            continue  # instructions are code
        if (at_ := RAW.search(CODE.sub("", text.replace("\\_", " _")))) is not None:
            result[f"{page}: {kind}: {text[max(0, at_.start() - 30) : at_.end() + 30]}"] = None
    return list(result)


@pytest.mark.parametrize("id", PRESET)
def test_every_text_of_every_page_is_for_people(id):
    at = AppTest.from_file(str(APP / "main.py"), default_timeout=240)
    at.query_params["s"] = encode(PRESETS[id].scenario)
    at.session_state["kernels_seen"] = True  # tests of its page look at one that shows what it measured
    at.run()
    found: list[str] = []
    pages = tuple(PAGES) if id == PRESET[0] else [page for page in PAGES if page not in NO_SCENARIO]
    for page in pages if id == PRESET[0] else ("explore", *share(pages, PRESET.index(id))):
        if page != "explore":
            at.switch_page(str(APP / "views" / page / "page.py")).run()
        found += raw(page, at)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["1.02e+04 tok/s", "no price: None", "nan ms", "op_overhead", "x mlp_hidden y"])
def test_the_pattern_finds_what_it_is_for(text):
    assert RAW.search(CODE.sub("", text))
    assert not RAW.search(CODE.sub("", f"`{text}`"))
