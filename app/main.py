"""The app: pages, warm-up, and the scenario in the address bar. `app/serve.py` serves it."""

from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from streamlit.navigation.page import Page

from app.shared import boundary, cached, link
from app.shared import formats as fmt
from app.shared.legible import legible
from app.shared.widgets.choices import said
from engine.scenario import encode

HERE = Path(__file__).parent
ROOMS = {
    "Explore": ("explore", "node", "split"),
    "Choose": ("choose", "sweep", "compare"),
    "Load": ("traffic",),
    "Lab": ("program", "kernels", "numerics"),
    "Evidence": ("published", "catalog"),
}
"""Pages by the room they stand in, in the order of a decision: understand, choose, load, measure, check."""

PAGES = tuple(page for pages in ROOMS.values() for page in pages)


def show() -> None:
    """The page that the address names, or the sentence about why it can't be shown."""
    st.set_page_config(
        page_title="Inferscape", page_icon=str(HERE / "icon.png"), layout="wide", initial_sidebar_state=320
    )
    st.logo(str(HERE / "logo.svg"), size="medium")
    legible()
    with boundary.bounded():
        _show()


def _pages() -> dict[str, list[Page]]:
    """The pages by room; the first is at `/`, or under its own name in a session that came by it: Streamlit allows one.

    The latter needs another default, which sends on to it.
    """
    first, ss = PAGES[0], st.session_state
    if "by_name" not in ss:
        ss.by_name = urlsplit(st.context.url or "").path.rstrip("/").endswith(f"/{first}")
    found = {
        room: [
            st.Page(
                f"views/{name}/page.py",
                title=name.capitalize(),
                url_path=name,
                default=name == first and not ss.by_name,
                visibility="visible" if link.offers(name) else "hidden",
            )
            for name in pages
        ]
        for room, pages in ROOMS.items()
    }
    if ss.by_name:
        found["Explore"].append(st.Page(_on, title="Home", url_path="home", visibility="hidden", default=True))
    return found


def _on() -> None:
    st.switch_page(f"views/{PAGES[0]}/page.py", query_params=link.address())


def _show() -> None:
    cached.warm_up(encode(link.home()))
    message = link.sync()
    page = st.navigation(_pages(), position="top")
    link.arrive()
    st.set_page_config(page_title=f"{page.title} · Inferscape")
    if message:
        st.warning(fmt.plain(message), icon=":material/link_off:")
    if rows := link.moved():
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(f":material/swap_horiz: What could not stay as it was: {fmt.plain(rows)}.", width="content")
            st.button("Undo", on_click=link.undo, key="undo.moved", type="tertiary")
    slot = st.container()
    try:
        page.run()
    finally:
        for text in said():
            slot.warning(fmt.plain(f"{text}."), icon=":material/link_off:")
        cached.keep_modules()


if __name__ == "__main__":  # a process that a sweep starts reads this file under another name and needs no page
    show()
