"""Everything is reached, seen and used by keys alone (Chromium)."""

import pytest
from playwright.sync_api import expect

from engine.choose import question_of
from engine.resolve.presets import PRESETS
from engine.scenario import decode, encode
from tests.app.browser.keyboard import row_picked, slid

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
CONTROLS = """() => [...document.querySelectorAll('a[href], button, input, textarea, summary, [role=slider], canvas')]
    .filter(e => e.tabIndex >= 0 && !e.disabled && e.checkVisibility({visibilityProperty: true})
        && e.getBoundingClientRect().width > 1
        && !e.closest('[data-testid=stElementToolbar], .modebar, [data-testid=stHeader] [data-testid=stMainMenu]'))
    .map(e => e.closest('[role=radiogroup]') || e)
    .map(e => (e.dataset.reach = e.dataset.reach || String(Math.random())))"""  # of a group of radios, the group
STILL = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync('* { transition: none !important; }');
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}"""  # else a focus fades in
FOCUS = """() => {
    const e = document.activeElement, near = [e, e.parentElement, e.parentElement?.parentElement].filter(Boolean);
    const seen = near.some(one => {
        const at = getComputedStyle(one);
        return (at.outlineStyle !== 'none' && parseFloat(at.outlineWidth) > 0) || at.boxShadow !== 'none'
            || at.borderTopColor === 'rgb(31, 95, 191)';
    });
    const reach = (e.closest('[role=radiogroup]') || e).dataset.reach || '';
    return [reach, seen, (e.ariaLabel || e.innerText || e.id || e.tagName).slice(0, 40)];
}"""


def walked(me, most: int = 160) -> tuple[set[str], list[str]]:
    """Controls that Tab comes by, and the words of those whose focus nothing shows."""
    wanted, met, unseen = set(me.page.evaluate(CONTROLS)), set(), []
    me.page.evaluate("document.activeElement.blur()")
    for _ in range(most):
        me.page.keyboard.press("Tab")
        reach, seen, words = me.page.evaluate(FOCUS)
        met.add(reach)
        if reach and not seen and words != "CANVAS":  # a table draws its own ring
            unseen.append(words)
        if wanted <= met:
            break
    return wanted - met, unseen


def words(me, missed: set[str]) -> list[str]:
    """What the controls are that nothing reached."""
    found = "e => (e.ariaLabel || e.innerText || e.id || e.outerHTML).slice(0, 60)"
    return [me.page.locator(f"[data-reach='{one}']").evaluate(found) for one in missed]


def reached(visit, path: str):
    """A visitor whose Tab reaches every control of a page, each with a focus that is seen."""
    me = visit(path)
    me.page.evaluate(STILL)
    return all_reached(me)


def all_reached(me):
    """The visitor, whose Tab reaches every control of the page that is open, each with a focus that is seen."""
    missed, unseen = walked(me)
    assert (words(me, missed), unseen) == ([], [])
    return me


def opened(me, page: str, *links: str) -> None:
    """Another page by keys: a room of the top bar, or a tab, after the other."""
    for name in links:
        me.page.locator("[data-testid=stTopNav], .st-key-tabs").get_by_role("link", name=name, exact=True).focus()
        me.page.keyboard.press("Enter")
        me.settled(anew=True)
    me.page.wait_for_url(f"**/{page}?s=*")
    me.settled(anew=True)


def typed(me, label: str, value: str) -> None:
    """Another value in a field, by keys."""
    me.page.get_by_role("spinbutton", name=label).focus()
    me.page.keyboard.press("ControlOrMeta+A")
    me.page.keyboard.type(value)
    me.page.keyboard.press("Enter")


def test_explore_is_read_changed_and_left_by_keys(visit):
    me = reached(visit, f"/?s={encode(PRESETS['dfx-1.5b'].scenario)}")
    home = me.token()
    typed(me, "Input tokens", "128")
    me.page.wait_for_function(f"new URLSearchParams(location.search).get('s') !== {home!r}")
    assert decode(me.settled().token()).inputs == 128
    me.page.locator(".st-key-tabs").get_by_role("link", name="Program").focus()
    me.page.keyboard.press("Enter")
    me.page.wait_for_url("**/program?s=*")
    slid(me, "Instruction")
    me.page.get_by_text("before and after instruction 1").wait_for()


def test_a_question_is_asked_by_keys(visit):
    me = reached(visit, "/choose")
    typed(me, "TPOT (ms)", "50")
    me.page.wait_for_url("**q=*")
    asked = question_of(me.page.evaluate("new URLSearchParams(location.search).get('q')"))
    assert asked.tpot_s == pytest.approx(0.05)


def picked(me, label: str, option: str) -> None:
    """An option of a list, by keys."""
    me.page.get_by_role("combobox", name=label, exact=True).focus()
    me.page.keyboard.type(option)
    me.page.keyboard.press("Enter")


def test_a_kernel_is_run_a_format_looked_at_and_a_spec_found_by_keys(visit):
    me = reached(visit, "/kernels")
    typed(me, "M, rows", "64")
    me.settled(anew=True).page.get_by_role("button", name="Run", exact=False).first.focus()
    me.page.keyboard.press("Enter")
    me.page.get_by_text("for a matrix product of 64 × 1,024 × 1,024").wait_for()

    opened(me, "numerics", "Numerics")
    all_reached(me)
    picked(me, "Format", "INT4 (per-row scale)")
    me.page.get_by_text("Before and after INT4 (per-row scale)").wait_for()

    opened(me, "catalog", "Evidence", "Catalog")
    all_reached(me)
    me.page.get_by_role("textbox", name="Search").focus()
    me.page.keyboard.type("h100")
    me.page.keyboard.press("Enter")
    me.page.get_by_text("Entries · ").first.wait_for()
    me.settled(anew=True)
    shown = me.page.locator("[data-testid=stMain] [data-testid=stColumn]").last
    before = shown.inner_text()
    row_picked(me, 1)
    expect(shown).not_to_have_text(before, use_inner_text=True)
