"""No page has a serious finding of axe-core light, dark, on a phone, or at a desk moves as it loads (Chromium)."""

import os
from pathlib import Path

import pytest

from engine.resolve.presets import PRESETS
from engine.scenario import encode

AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"
PAGES = (
    "",
    "choose",
    "sweep",
    "compare",
    "traffic",
    "machine",
    "node",
    "program",
    "split",
    "kernels",
    "numerics",
    "published",
    "catalog",
)
NODE = encode(PRESETS["node-dlrm"].scenario)  # every page has something to show of it
STREAMLITS = "[data-testid=stSidebarNavItems]"  # a phone's drawer of pages: its sections are a div between ul and li
PHONE = {"viewport": {"width": 390, "height": 844}, "user_agent": "Mozilla/5.0 (iPhone) Mobi", "has_touch": True}
SHIFT = """new Promise(done => new PerformanceObserver((list, me) => {
    me.disconnect();
    done(list.getEntries().filter(one => !one.hadRecentInput).reduce((sum, one) => sum + one.value, 0));
}).observe({type: 'layout-shift', buffered: true}) || setTimeout(done, 500, 0))"""  # of all since the page was opened
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core's script; without it the scan is skipped, except in CI, where it fails."""
    if not AXE.exists():
        if os.environ.get("CI"):
            pytest.fail("no axe-core: npm ci --prefix tests/app")
        pytest.skip("no axe-core: npm ci --prefix tests/app")
    return AXE.read_text()


@pytest.mark.parametrize(
    "look", [{"color_scheme": "light"}, {"color_scheme": "dark"}, PHONE], ids=["light", "dark", "phone"]
)
def test_no_page_has_a_serious_finding_or_moves_while_it_loads(visit, axe, look):
    me = visit("/choose", bypass_csp=True, **look)
    found, moved = {}, {}
    for page in PAGES:
        me.open(f"/{page}?s={NODE}")
        moved[page] = me.page.evaluate(SHIFT)
        found[page] = serious(me, axe)
    assert {page: rows for page, rows in found.items() if rows} == {}
    del moved["sweep"]  # its results take the place of its progress, seconds after it is there
    if look is not PHONE:
        assert {page: shift for page, shift in moved.items() if shift >= 0.1} == {}


def serious(me, axe: str) -> list[str]:
    """Serious and critical findings, each with where and what."""
    me.page.evaluate(axe)
    found = me.page.evaluate(f"axe.run({{exclude: ['{STREAMLITS}']}}, {{resultTypes: ['violations']}})")["violations"]
    return [
        f"{one['id']}: {node['target'][0][:80]} {node['html'][:120]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
