"""The app: pages, warm-up, and the scenario in the address bar. `app/serve.py` serves it."""

from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.navigation.page import Page

from app.shared import boundary, cached, compiling, fixes, link, parts
from app.shared import formats as fmt
from app.shared.legible import STYLE, room_style
from app.shared.widgets.choices import say_unread, sentences, turned_to
from engine.devices.common.contract import Unsupported
from engine.scenario import encode

HERE = Path(__file__).parent
ROOMS = {
    "Explore": {
        "explore": "Overview",
        "machine": "Machine",
        "node": "Node",
        "program": "Program",
        "split": "Split",
    },
    "Choose": {"choose": "Ranking", "sweep": "Sweep", "compare": "Compare"},
    "Load": {"traffic": "Load"},
    "Lab": {"kernels": "Kernels", "numerics": "Numerics"},
    "Evidence": {"published": "Published", "catalog": "Catalog"},
}
"""Tabs by the room they stand in, in the order of a decision: understand, choose, load, measure, check."""

_DOOR = "Home"
PAGES = tuple(page for tabs in ROOMS.values() for page in tabs)


def show() -> None:
    """The page that the address names, or the sentence about why it can't be shown."""
    st.set_page_config(
        page_title="Inferscape", page_icon=str(HERE / "icon.png"), layout="wide", initial_sidebar_state=320
    )
    st.logo(str(HERE / "logo.svg"), size="medium")
    st.html(STYLE)  # it takes no place on the page
    with boundary.guard(), compiling.notice(st.container(key="compiling").empty()):
        _show()


def _pages() -> list[Page]:
    """One page per tab; the menu names the first of each room.

    Explore is at `/` in a session that came with a scenario in that address: Streamlit allows a page one address. In
    any other it has its own name, and the first page, which asks what to run, is at `/`.
    """
    first, ss = PAGES[0], st.session_state
    if "by_name" not in ss:
        ss.by_name = ss.newcomer or urlsplit(st.context.url or "").path.rstrip("/").endswith(f"/{first}")
    pages = [
        st.Page(
            f"views/{name}/page.py",
            title=label if at else room,
            url_path=name,
            default=name == first and not ss.by_name,
            visibility="hidden" if at else "visible",
        )
        for room, tabs in ROOMS.items()
        for at, (name, label) in enumerate(tabs.items())
    ]
    if ss.by_name:
        pages.append(st.Page("views/home/page.py", title=_DOOR, url_path="home", visibility="hidden", default=True))
    return pages


def _tabs(page: Page) -> None:
    """The tabs of the page's room that the scenario has something for; this one whatever it has."""
    here = _name(page)
    tabs = next((tabs for tabs in ROOMS.values() if here in tabs), {})
    names = [name for name in tabs if link.offers(name) or name == here]
    if len(tabs) > 1:
        first = next(iter(tabs))
        st.html(room_style(first if first != PAGES[0] or st.session_state.by_name else ""))
        with st.container(horizontal=True, gap="small", key="tabs"):
            for name in names:
                query = link.address() | (st.query_params.to_dict() if name == here else {})
                st.page_link(f"views/{name}/page.py", label=tabs[name], query_params=query)


def _name(page: Page) -> str:
    return page.url_path or PAGES[0]  # the default page has no path


def _tell(slot: DeltaGenerator) -> None:
    for text in sentences():
        slot.warning(fmt.plain(text), icon=":material/edit_off:")


def _show() -> None:
    link.sync()
    is_whole = link.PARAM in st.query_params
    page = st.navigation(_pages(), position="top")
    if page.title != _DOOR:
        link.mirror()
    st.set_page_config(page_title=f"{page.title} · Inferscape")
    if parts.mobile():
        with st.container(horizontal=True, gap="small", key="rooms"):  # the menu, which Streamlit folds away there
            for room, tabs in ROOMS.items():
                st.page_link(f"views/{next(iter(tabs))}/page.py", label=room, query_params=link.address())
    if rows := link.reset_fields():
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(f":material/swap_horiz: Reset with this change: {fmt.plain(rows)}.", width="content")
            st.button("Undo", on_click=link.undo, key="undo.moved", type="tertiary")
    if page.title != _DOOR:
        _tabs(page)
    slot = st.container()
    _tell(slot)  # of the address at once: what is told after the page moves all of it
    try:
        with turned_to(_name(page), is_whole):
            page.run()
        say_unread(link.PARAM, link.BASELINE)
        parts.footer()
    except Unsupported as reason:
        fixes.alternatives(_name(page), reason)
        parts.footer()
    finally:
        _tell(slot)
        st.session_state.refused = ()
        cached.keep_modules()
    cached.warm_up(encode(link.home()))  # after what somebody waits for


if __name__ == "__main__":  # a process that a sweep starts reads this file under another name and needs no page
    show()
