"""A few walks in a real Chromium: what AppTest cannot see (address bar, history, downloads, requests, both themes)."""

import contextlib
import csv
import json
import re
import time

import pytest
from playwright.sync_api import TimeoutError, expect
from streamlit.proto import ForwardMsg_pb2

from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, decode, encode
from tests.app.browser.keyboard import row_picked, slid
from tests.app.forged import forged

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


def test_a_preset_link_opens_in_a_fresh_browser_and_back_and_forward_walk_the_changes(visit):
    me = visit()
    home, first = me.token(), me.metrics()
    picked = encode(PRESETS["wide-deep-int8"].scenario)
    me.page.get_by_role("radio", name=PRESETS["wide-deep-int8"].pill).click()
    me.page.wait_for_url(f"**s={picked}*")
    assert me.leaves(first)
    numbers = me.metrics()
    assert len(numbers) == 4
    you = visit(me.page.url.removeprefix(me.server))
    assert you.metrics() == numbers
    assert you.token() == picked
    me.page.go_back()
    me.page.wait_for_url(f"**s={home}*")
    assert me.shows(first)
    me.page.go_forward()
    me.page.wait_for_url(f"**s={picked}*")
    assert me.shows(numbers)


def test_a_bad_link_gives_one_sentence_that_fetches_and_links_nothing_and_the_address_is_repaired(visit):
    me = visit("/?s=" + forged({"system": "x", "workload": "y", "precision": "![x](http://evil.example/x.png)"}))
    alert = me.page.locator("[data-testid=stAlert]")
    assert alert.count() == 1
    assert alert.locator("a, img").count() == 0
    assert me.token() == encode(PRESETS["dfx-1.5b"].scenario)
    assert len(me.metrics()) == 6


def test_pages_keep_the_scenario_and_history(visit):
    given = encode(PRESETS["tonic-fc"].scenario)
    me = visit(f"/?s={given}")
    numbers = me.metrics()
    for page, path in (("Published", "/published"), ("Catalog", "/catalog"), ("Explore", "/")):
        me.turn_to(page)
        me.page.wait_for_url(f"{me.server}{path}?s={given}*")
        me.settled()
    assert me.shows(numbers)
    for _ in range(3):  # on a busy machine a page's address comes in two steps
        me.page.go_back()
        if "/catalog" in me.settled(anew=True).page.url:
            break
    me.page.wait_for_url(f"{me.server}/catalog?s={given}*")
    assert me.settled().token() == given


FIGURE = "document.querySelector('.js-plotly-plot')._context"


def test_exports_download_with_units_token_and_versions_and_charts_take_the_other_theme(visit, tmp_path):
    me, rows = visit(), {}
    for label in ("Operators, CSV", "Scenario, CSV", "Whole report, JSON"):
        me.page.get_by_role("button", name="Export", exact=True).click()
        with me.page.expect_download() as found:
            me.page.get_by_role("button", name=label).click()
        file = tmp_path / found.value.suggested_filename
        found.value.save_as(file)
        rows[label] = file
        me.page.keyboard.press("Escape")
    assert rows["Scenario, CSV"].name.startswith("inferscape_explore_dfx-u280_gpt2-1-5b_")
    operators = list(csv.DictReader(rows["Operators, CSV"].open()))
    report = json.loads(rows["Whole report, JSON"].read_text())
    assert list(operators[0])[:2] == ["id", "token"]
    assert {row["token"] for row in operators} == {report["token"]} == {me.token()}
    assert all(row["engine_version"] and row["catalog_version"] for row in operators)
    assert sum(float(row["time_s"]) for row in operators) == pytest.approx(report["latency_s"], rel=1e-9)
    summary = next(csv.DictReader(rows["Scenario, CSV"].open()))
    assert float(summary["latency_s"]) == pytest.approx(report["latency_s"], rel=1e-12)

    def saved() -> str:
        plot = me.page.locator(".js-plotly-plot").first
        plot.hover()
        with me.page.expect_download() as found:
            plot.locator(".modebar-btn").first.click()
        return found.value.suggested_filename

    assert saved().endswith(".svg")
    me.page.get_by_role("button", name="Export", exact=True).click()
    me.page.get_by_text("PNG", exact=True).click()
    me.page.wait_for_function(f"{FIGURE}.toImageButtonOptions.format === 'png'")
    me.page.keyboard.press("Escape")
    assert saved().endswith(".png")

    bar = ".js-plotly-plot .barlayer path[style*='fill: rgb({})']"
    me.page.locator(bar.format("169, 68, 17")).first.wait_for(state="attached")
    me.page.emulate_media(color_scheme="dark")
    me.page.locator(bar.format("253, 150, 35")).first.wait_for(state="attached")
    expect(me.page.locator(bar.format("169, 68, 17"))).to_have_count(0)  # bars are repainted one by one


def test_a_claim_opens_in_explore_and_back_returns(visit):
    given = encode(PRESETS["brainwave-gru"].scenario)
    me = visit(f"/published?s={given}")
    assert me.token() == given
    me.page.get_by_role("button", name="Open as scenario").click()
    me.page.wait_for_url(f"{me.server}/?s=*")
    expect(me.numbers()).to_have_count(4)
    assert me.settled().token() not in (given, encode(PRESETS["dfx-1.5b"].scenario))
    me.page.go_back()
    me.page.wait_for_url(f"{me.server}/published?s=*")
    me.page.get_by_text("Error of each prediction").first.wait_for()


def test_a_click_on_a_point_shows_its_claim(visit):
    me = visit("/published")
    me.page.locator(".scatterlayer .point").first.wait_for()
    shown = me.settled().page.get_by_test_id("stVerticalBlock").filter(has_text="Selected claim").last
    row_picked(me, 2)  # by keys, in the table
    shown.get_by_text("FB-075").first.wait_for()
    me.page.locator(".js-plotly-plot").first.scroll_into_view_if_needed()
    before = me.settled(anew=True) and shown.inner_text()
    told = me.page.locator(".hoverlayer .hovertext").first
    for point in me.page.locator(".scatterlayer .point").all():
        at = point.bounding_box()
        me.page.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
        told.wait_for()  # the chart takes a click where it has noticed the pointer
        claim = re.match(r"\w+-\d{3}", told.text_content()).group()  # its first line
        if claim not in before:
            break
    me.page.mouse.down()
    me.page.mouse.up()
    shown.get_by_text(claim).first.wait_for()
    assert claim not in before
    me.settled()
    me.page.locator("[data-testid=stDataFrame] canvas").first.click(position={"x": 16, "y": 50}, force=True)
    shown.get_by_text("FB-072").first.wait_for()  # the last one picked counts


def comes(me, right) -> Scenario:
    """The address's scenario once it is right: an answer on its way to a busy browser shows an earlier one."""
    deadline = time.monotonic() + 120
    while not right(now := decode(me.settled().token())):
        assert time.monotonic() < deadline, f"the address says {now}"
    return now


def agreed(me, slider) -> Scenario:
    """The address's scenario once it is an edited one and the slider shows its batch."""
    return comes(me, lambda now: now.batch > 1 and slider.get_attribute("aria-valuetext") == str(now.batch))


def test_a_preset_on_its_way_out_does_not_undo_edits(visit):
    me = visit()
    home = PRESETS["dfx-1.5b"].scenario
    for _ in range(2):  # whether an edit finds the page between two drawings is a matter of milliseconds
        slider = me.page.get_by_role("slider", name="Batch")
        slider.focus()
        for _ in range(5):
            me.page.keyboard.press("ArrowRight")
        now = agreed(me, slider)
        assert now.batch > 1
        assert now == home.with_(batch=now.batch)
        me.settled()  # a click between two drawings of the pills may be nobody's
        me.page.get_by_role("radio", name=PRESETS["dfx-1.5b"].pill).click()
        me.page.wait_for_url(f"**s={encode(home)}*")
        me.settled()


def ended(said: bytes) -> bool:
    """Whether a message of the server says that a script came to its end, and not that another took its place."""
    message = ForwardMsg_pb2.ForwardMsg.FromString(said)
    return message.WhichOneof("type") == "script_finished" and message.script_finished == message.FINISHED_SUCCESSFULLY


class Slow:
    """The wire from the server to a page: what it says can be held back, as a slow one does, and let go."""

    def __init__(self) -> None:
        self.held, self.known, self.holding = [], 0, False

    def meets(self, page) -> None:
        self.page = page
        page.route_web_socket("**/_stcore/stream", self._meet)

    def _meet(self, socket) -> None:
        self.socket = socket
        server = socket.connect_to_server()
        server.on_message(lambda said: self.held.append(said) if self.holding else socket.send(said))

    def quiet(self) -> None:
        """Wait until the server has said of one more script that it came to its end."""
        while not any(map(ended, self.held[self.known :])):
            self.page.wait_for_timeout(50)
        self.known = len(self.held)

    def let_go(self, first: int | None = None) -> None:
        """So many messages, and go on holding; all, and hold no more."""
        for _ in range(len(self.held) if first is None else first):
            self.socket.send(self.held.pop(0))
            self.known = max(0, self.known - 1)
        self.holding = first is not None


def test_an_edit_just_after_a_pick_keeps_both(visit):
    """The browser still draws what was left and sends all of it: but one value is no edit and undoes nothing."""
    home, wire = PRESETS["dfx-1.5b"].scenario, Slow()
    me = visit(f"/?s={encode(home.with_(devices=2, inputs=128))}", wire=wire)
    edited(me, wire, "preset", lambda now: now == home.with_(batch=2))
    me.turned_to(f"/?s={encode(home.with_(inputs=128))}")
    expect(me.page.get_by_role("slider", name="Batch")).to_have_attribute("aria-valuetext", "1")
    edited(me, wire, "system", lambda now: (now.system, now.batch, now.devices, now.inputs) == ("h100-sxm", 2, 1, 128))


def edited(me, wire: Slow, pick: str, right) -> None:
    """A pick, and an edit before its answer is there: the scenario comes to hold both."""
    start = me.token()
    if pick == "system":
        box = me.page.get_by_role("combobox", name="System").first
        box.click()
        box.fill("H100 SXM")
        me.page.get_by_role("option", name="H100 SXM").wait_for()
    wire.holding = True
    if pick == "system":
        me.page.keyboard.press("Enter")
    else:
        me.page.get_by_role("radio", name=PRESETS["dfx-1.5b"].pill).evaluate("e => e.click()")
    wire.quiet()
    slider = me.page.get_by_role("slider", name="Batch")
    slider.focus()
    me.page.keyboard.press("ArrowRight")
    wire.quiet()
    wire.let_go()
    me.page.wait_for_function(f"new URLSearchParams(location.search).get('s') !== {start!r}")
    now = comes(me, right)
    expect(slider).to_have_attribute("aria-valuetext", "2")
    expect(me.page.get_by_role("spinbutton", name="Input tokens")).to_have_value(str(now.inputs))
    assert decode(me.settled(anew=True).token()) == now
    assert me.page.locator("[data-testid=stAlert]").count() == 0


def test_a_slow_wire_may_bring_several_answers_at_once_and_takes_no_slider_out_of_the_hand(visit):
    """The server leaves out what the browser said it holds, and it must still hold it when the answer comes."""
    wire = Slow()
    me = visit(wire=wire)
    before = me.metrics()
    slider = me.page.get_by_role("slider", name="Batch")
    slider.focus()
    wire.holding = True
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft"):
        me.page.keyboard.press(key)
        wire.quiet()
    wire.let_go()
    expect(slider).to_have_attribute("aria-valuetext", "1")
    assert me.shows(before)

    slider.focus()
    wire.holding = True
    me.page.keyboard.press("ArrowRight")
    wire.quiet()
    first = len(wire.held)
    me.page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "4")
    wire.let_go(first)
    assert me.leaves(before)
    assert slider.get_attribute("aria-valuetext") == "4"  # at no time the answer's 2
    wire.let_go()
    assert agreed(me, slider).batch == 4


def choose(page, label, option):
    """Pick an option of a select box by its words; it is opened again where an answer on its way closes it."""
    wanted = page.get_by_role("option", name=option, exact=True)
    for _ in range(20):
        page.get_by_role("combobox", name=label).first.click()
        with contextlib.suppress(TimeoutError):
            wanted.click(timeout=3_000)
            return
    raise AssertionError(f"{label} never offered {option}")


def test_a_choice_stays_in_the_address_and_a_long_simulation_shows_its_progress_and_stops_on_cancel(visit):
    me = visit(f"/traffic?s={encode(PRESETS['node-dlrm'].scenario)}&together=8")  # 20 s: nobody is late
    choose(me.page, "Queues", "A queue for each stage")
    me.page.wait_for_url("**queues=stages*")
    me.settled().page.get_by_text("Quick simulation").wait_for()
    me.page.reload()
    me.settled().page.get_by_text("Quick simulation").wait_for()
    assert "queues=stages" in me.page.url
    assert "together=8" in me.page.url
    assert me.page.get_by_role("button", name="Cancel").count() == 0
    choose(me.page, "Requests per point", "1 M")
    me.page.wait_for_url("**requests=1000000*")
    me.settled()
    me.page.get_by_role("button", name="Simulate").click()
    cancel = me.page.get_by_role("button", name="Cancel")
    cancel.wait_for()
    bar = me.page.locator("[data-testid=stProgress]")
    expect(bar).to_contain_text("%")
    said = bar.inner_text()
    me.page.wait_for_function(
        "old => document.querySelector('[data-testid=stProgress]')?.innerText !== old", arg=said, polling=100
    )
    expect(bar).to_contain_text("left")
    cancel.click()
    me.page.get_by_text("Cancelled; the finished part is drawn.").wait_for()
    expect(cancel).to_have_count(0)
    expect(me.page.get_by_role("button", name="Simulate")).to_be_enabled()
    assert me.settled().page.locator("[data-testid=stException]").count() == 0


def test_a_simulation_ends_by_itself_and_its_curve_says_so(visit):
    me = visit(f"/traffic?s={encode(PRESETS['brainwave-gru'].scenario)}")
    me.page.get_by_text("Closed form M/D/1").wait_for()
    before = me.page.get_by_text(re.compile("^At .* of capacity")).inner_text()
    slid(me, "Load (QPS)")  # by keys alone, as the run
    me.page.wait_for_function("old => !document.body.innerText.includes(old)", arg=before)
    me.settled()
    me.page.keyboard.press("ControlOrMeta+Enter")
    me.page.get_by_text("Simulated, 200 k requests per point").wait_for()
    expect(me.page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_every_page_is_served_under_its_name_and_has_it_in_its_title(visit):
    """Explore too, which Streamlit alone serves at `/` and calls `Page not found` under its name."""
    me = visit("/explore")
    assert me.page.get_by_text("Page not found").count() == 0
    expect(me.numbers()).to_have_count(6)
    expect(me.page).to_have_title("Explore · Inferscape")
    me.turn_to("Catalog")
    me.page.wait_for_url("**/catalog?s=*")
    expect(me.page).to_have_title("Catalog · Inferscape")
    me.settled(anew=True).turn_to("Explore")
    me.page.wait_for_url("**/explore?s=*")
    expect(me.numbers()).to_have_count(6)
    assert me.settled().page.locator("[data-testid=stException]").count() == 0


def test_a_scenario_kept_in_the_browser_opens_after_a_reload_and_can_be_removed(visit):
    given = encode(PRESETS["tonic-fc"].scenario)
    me = visit(f"/?s={given}")
    numbers = me.metrics()

    def kept():
        me.page.get_by_role("button", name="More", exact=True).click()
        return me.page.locator(".saved")

    kept().get_by_role("button", name="Save in this browser").click()
    kept_button = me.page.locator(".saved").get_by_role("button", name="Saved in this browser")
    kept_button.wait_for()
    me.open(f"/?s={encode(PRESETS['dfx-1.5b'].scenario)}")
    assert me.token() != given
    kept().locator("li button").first.click()
    me.page.wait_for_url(f"**s={given}*")
    assert me.shows(numbers)
    me.page.keyboard.press("Escape")
    expect(me.page.locator(".saved")).to_be_hidden()
    kept().get_by_role("button", name="Remove").click()
    me.page.locator(".saved").get_by_role("button", name="Save in this browser").wait_for()
    me.page.wait_for_function("localStorage.getItem('inferscape.saved') === '[]'")
