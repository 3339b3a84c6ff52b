"""No page has a serious finding of axe-core, light or dark, at a desk or on a phone (Chromium)."""

import os
from pathlib import Path

import pytest

from engine.resolve.presets import PRESETS
from engine.scenario import encode

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
PAGES = ("", "choose", "sweep", "compare", "traffic", "node", "split", "kernels", "numerics", "published", "catalog")
NODE = encode(PRESETS["node-dlrm"].scenario)  # every page has something to show of it
STREAMLITS = "[data-testid=stSidebarNavItems]"  # a phone's drawer of pages: its sections are a div between ul and li
PHONE = {"viewport": {"width": 390, "height": 844}, "user_agent": "Mozilla/5.0 (iPhone) Mobi", "has_touch": True}
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core's script; without it the scan is skipped, except in CI, where it fails."""
    if not AXE.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no axe-core: npm ci --prefix tests/app")
    return AXE.read_text()


@pytest.mark.parametrize(
    "look", [{"color_scheme": "light"}, {"color_scheme": "dark"}, PHONE], ids=["light", "dark", "phone"]
)
def test_no_page_has_a_serious_finding(visit, axe, look):
    me = visit("/choose", bypass_csp=True, **look)
    found = {page: serious(me.open(f"/{page}?s={NODE}"), axe) for page in PAGES}
    assert {page: rows for page, rows in found.items() if rows} == {}


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
