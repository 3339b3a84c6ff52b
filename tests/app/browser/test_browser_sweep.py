"""Sweep and Compare in a real Chromium: a million designs a click, cancel, a clicked design, a link of eight."""

import contextlib
import os
import re
import time
from math import prod

import pytest
from playwright.sync_api import TimeoutError, expect

from app.shared import comparison
from app.shared.comparison import Comparison, Entry
from app.shared.formats import count
from app.views.sweep import axes, background, spaces
from app.views.sweep.axes import AxisRange
from app.views.sweep.spaces import PageSpace
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from engine.scenario import decode, encode
from tests.app.browser.keyboard import row_picked

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
GPU = PRESETS["v100-1.5b"].scenario
NAMES = ("latency_per_unit_s", "throughput_per_s", "capex_usd")
FEW = PageSpace(
    (
        ("batch", (1, 2, 4, 8, 16)),
        ("devices.0.memory.hbm.bandwidth", AxisRange("450 GB/s", "1.8 TB/s", 5)),
        ("devices.0.peak.fp16", AxisRange("60 TFLOP/s", "250 TFLOP/s", 4)),
    ),
    NAMES[:2],
)
MANY = PageSpace(
    (
        ("batch", (1, 2, 4, 8, 16, 32)),
        ("devices.0.memory.hbm.bandwidth", AxisRange("450 GB/s", "1.8 TB/s", 96)),
        ("devices.0.peak.fp16", AxisRange("60 TFLOP/s", "250 TFLOP/s", 96)),
        ("links.peer.bandwidth", AxisRange("75 GB/s", "300 GB/s", 64)),
        ("links.peer.latency", AxisRange("1 us", "4 us", 128)),
    ),
    NAMES[:2],
)  # 453 million: nobody waits for the end of it
CLICKED = """() => addEventListener('click', () => { window.clicked = performance.now(); }, true)"""
DRAWN = """() => {
    const plot = document.querySelector('.st-key-front .scatterlayer');
    if (!plot || !/of .* feasible designs/.test(document.body.innerText)) return false;
    window.drawn = performance.now();
    return true;
}"""
SPOT = """at => {
    const plot = document.querySelector('.st-key-front .js-plotly-plot'), drag = plot?.querySelector('.nsewdrag');
    if (!drag || !plot._fullLayout) return null;
    drag.scrollIntoView({block: 'center'});
    const box = drag.getBoundingClientRect(), {xaxis, yaxis} = plot._fullLayout;
    const front = plot._fullData.filter(t => t.customdata?.length && t.marker?.size === 8).at(-1);
    const i = Math.min(at, front.x.length - 1);
    const [x, y] = [front.x[i], front.y[i]];
    return {at: [x, y], number: front.customdata[i], x: box.left + xaxis.d2p(x), y: box.top + yaxis.d2p(y)};
}"""  # of a design of the front, once its chart is there: a busy host may draw it anew
RINGED = """spot => {
    const traces = document.querySelector('.st-key-front .js-plotly-plot')?._fullData ?? [];
    const ring = traces.find(t => t.marker?.symbol === 'circle-open' && t.marker.size === 15);
    return ring && Math.hypot(ring.x[0] - spot.at[0], ring.y[0] - spot.at[1]) < 1e-9;
}"""
AXIS = """() => {
    const plot = document.querySelector('.st-key-upright .js-plotly-plot'), drag = plot.querySelector('.nsewdrag');
    drag.scrollIntoView({block: 'center'});
    const box = drag.getBoundingClientRect(), {xaxis, yaxis} = plot._fullLayout;
    return {x: box.left + xaxis.d2p(0), top: box.top + yaxis.d2p(1.05), bottom: box.top + yaxis.d2p(0.5)};
}"""  # the first of those that stand side by side
KEPT = re.compile(r"([\d,]+) of ([\d,]+) designs in the box")


def sweep_page(space: PageSpace | None) -> str:
    return f"/sweep?s={encode(GPU)}" + (f"&x={spaces.write(space)}" if space else "")


def run(page) -> None:
    page.evaluate(CLICKED)
    page.locator(".st-key-x-run button").click()


def told(record_property, name: str, seconds: float) -> None:
    """A figure for the record: with the load it was taken at, and never a condition."""
    record_property(name, f"{seconds:.2f} s at a load of {os.getloadavg()[0]:.1f}")
    print(f"{name}: {seconds:.2f} s at a load of {os.getloadavg()[0]:.1f}")


def test_cancel_stops_it_with_what_was_done_and_others_are_served_meanwhile(visit, record_property):
    busy, other = visit(sweep_page(MANY)), visit(f"/?s={encode(GPU)}")
    run(busy.page)
    cancel = busy.page.get_by_role("button", name="Cancel")
    cancel.wait_for()
    busy.page.get_by_text(re.compile(r"/s · .* left")).first.wait_for()  # some are done
    home, before = other.token(), other.metrics()  # before the press: the address may change before another line runs
    began = time.monotonic()
    slider = other.page.get_by_role("slider", name="Devices")
    slider.focus()
    slider.press("ArrowLeft")
    other.page.wait_for_function(f"new URLSearchParams(location.search).get('s') !== {home!r}")
    assert other.leaves(before)
    told(record_property, "another visitor's change meanwhile", time.monotonic() - began)
    assert cancel.is_visible()  # the sweep was under way all the time
    began = time.monotonic()
    cancel.click()
    busy.page.get_by_text("The sweep stopped at").wait_for()
    told(record_property, "cancelled", time.monotonic() - began)
    expect(cancel).to_be_hidden()
    busy.page.wait_for_function(DRAWN)
    expect(busy.page.locator("body")).to_contain_text("The results below cover those")


def test_a_clicked_design_opens_as_its_scenario(visit):
    me = visit(sweep_page(FEW), scheme="dark")
    me.page.evaluate(CLICKED)
    me.page.keyboard.press("ControlOrMeta+Enter")
    me.page.wait_for_function(DRAWN, polling="raf", timeout=120_000)
    designs = background.designs_of(GPU, FEW, spaces.metrics(evaluate(GPU)))
    first = me.settled().page.get_by_text(re.compile(r"^Selected design · 1 of \d+$"))
    assert first.count() == 0
    row_picked(me, 0)  # by keys, in the table
    first.wait_for()
    assert missing_at_200_percent(me) <= 1
    seen = set()
    for at in (0, 2):
        spot = clicked(me, at)
        expected = designs.scenario(int(spot["number"]))
        report = evaluate(expected)
        shown = spaces.metrics(report)["latency_per_unit_s"].text(report.latency_per_unit_s)
        card = me.page.locator("[data-testid=stVerticalBlock]", has_text="Selected design").last
        me.settled()
        expect(card).to_contain_text(shown, use_inner_text=True)
        seen.add(int(spot["number"]))
    assert len(seen) == 2
    own = me.page.locator("[data-testid=stElementToolbarButton] button[aria-label^='Download as CSV']")
    assert own.count() > 0
    assert not any(button.is_visible() for button in own.all())  # the page's own export has tokens and units
    me.page.get_by_role("button", name="Open in Explore").click()
    me.page.wait_for_url(f"{me.server}/?s=*")
    opened = decode(me.settled(anew=True).token())
    assert opened.with_(overrides=expected.overrides) == expected
    for name in FEW.objectives:  # designs at one place of the chart are one to a click
        assert getattr(evaluate(opened), name) == pytest.approx(getattr(report, name), rel=1e-9)


def missing_at_200_percent(me) -> int:
    """What its column cuts of the selected design's table, which was 283 px wide in one of 255. [px]"""
    desk = me.page.viewport_size
    me.page.set_viewport_size({"width": desk["width"] // 2, "height": desk["height"] // 2})
    me.page.wait_for_timeout(700)
    cut = "e => { const c = e.closest('[data-testid=stColumn]'); return c.scrollWidth - c.clientWidth; }"
    missing = me.settled().page.locator(".st-key-pair").evaluate(cut)
    me.page.set_viewport_size(desk)
    me.settled(anew=True)
    return missing


def hovered(me, design: int) -> dict:
    """Where a design of the front is, with its hover text: again while the chart is drawn anew under a still mouse."""
    hover = me.page.locator(".st-key-front .hovertext").first
    for _ in range(30):
        spot = me.settled().page.wait_for_function(SPOT, arg=design).json_value()
        me.page.mouse.move(spot["x"] - 90, spot["y"] - 40)
        me.page.mouse.move(spot["x"], spot["y"])
        with contextlib.suppress(AssertionError):
            expect(hover).to_contain_text("Throughput", timeout=2_000)
            return spot
    raise AssertionError(f"no hover text at {spot}")


def clicked(me, design: int) -> dict:
    """Where a design of the front is, once it is ringed: again where a click fell between two drawings of the chart."""
    for _ in range(5):
        spot = hovered(me, design)
        me.page.mouse.click(spot["x"], spot["y"])
        with contextlib.suppress(TimeoutError):
            me.page.wait_for_function(RINGED, arg=spot, timeout=20_000)
            return spot
    raise AssertionError(f"no ring at {spot}")


def dragged(page, begin: tuple[float, float], end: tuple[float, float]) -> None:
    """A box from one corner to the other."""
    page.mouse.move(*begin)
    page.mouse.down()
    page.mouse.move((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
    page.mouse.move(*end)
    page.mouse.up()


def test_a_box_in_either_chart_of_the_first_space_keeps_designs_in_both_and_in_the_table(visit, record_property):
    me = visit(sweep_page(None))
    run(me.page)
    me.page.wait_for_function(DRAWN, polling="raf", timeout=240_000)
    told(record_property, "the first space, click to front", me.page.evaluate("window.drawn - window.clicked") / 1000)
    text = me.settled().page.locator("body").inner_text()
    assert f"{count(prod(map(len, axes.usual(GPU).values())))} designs in " in text
    me.page.wait_for_timeout(700)  # the page that the front replaces is in the document for a moment, and not at first
    pick = me.page.get_by_role("radio", name="Draw a box")
    expect(pick).to_have_count(1)
    pick.click()
    spot = me.settled(anew=True).page.evaluate(SPOT, 1)
    began = time.monotonic()
    dragged(me.page, (spot["x"] - 12, spot["y"] - 12), (spot["x"] + 160, spot["y"] + 60))
    caption = me.page.locator("[data-testid=stCaptionContainer]", has_text="designs in the box")
    caption.wait_for()
    told(record_property, "a box, drawn to counted", time.monotonic() - began)
    kept, whole = (int(n.replace(",", "")) for n in KEPT.search(caption.inner_text()).groups())
    assert whole >= 100_000
    assert 0 < kept < whole
    expect(me.page.locator("body")).to_contain_text("inside the box")
    me.settled()
    axis = me.page.evaluate(AXIS)
    dragged(me.page, (axis["x"] - 10, axis["top"]), (axis["x"] + 10, axis["bottom"]))
    expect(caption).not_to_contain_text(f"{kept:,} of")
    me.settled().page.get_by_role("button", name="Clear", exact=True).press("Enter")
    expect(me.page.locator("body")).to_contain_text(f"The charts have {whole:,} designs")


def test_a_link_of_eight_scenarios_reopens_as_it_was_in_a_fresh_browser(visit):
    entries = tuple(Entry(p.scenario, f"note {i}") for i, p in enumerate(list(PRESETS.values())[: comparison.CAPACITY]))
    given = comparison.write(Comparison(entries, 2))
    me = visit(f"/compare?c={given}")
    texts = "[data-testid=stTable], [data-testid=stMarkdown]"
    shown = me.page.locator(texts).all_inner_texts()
    assert all(any(f"note {i}" in text for text in shown) for i in range(comparison.CAPACITY))
    you = visit(me.page.url.removeprefix(me.server))
    assert you.page.locator(texts).all_inner_texts() == shown
    assert you.page.evaluate("new URLSearchParams(location.search).get('c')") == given
    assert comparison.read(given)[0].baseline == 2
