"""What Streamlit's theme can't say: text of 4.5:1 on buttons and captions (WCAG AA), a focus that is seen, and room for
what is drawn a moment later. The server writes it into the page's head as well (`app.server.guard`), where it holds at
once.
"""

from __future__ import annotations

import re
from pathlib import Path

import streamlit as st

_FIRST = ("Metric", "PageLink", "NumberInput", "Selectbox", "Slider", "ButtonGroup", "Html", "Button", "Checkbox",
          "TextInput", "Multiselect")  # fmt: skip
"""Parts of Streamlit's front end that most pages show at once, and it loads when they come up."""

_IMPORTED = re.compile(r"""(?:from|import)"\./([\w.-]+\.js)\"""")

STYLE = """<style>
.stApp [data-testid="stMainBlockContainer"] { max-width: none; padding: 67.5px 15px 45px; }
@media (min-width: 769px) {
  [data-testid="stAppViewContainer"]:not(:has([data-testid="stSidebar"])) { padding-left: 320px; }
  .stApp [data-testid="stMainBlockContainer"] { padding: 67.5px 75px 45px; }
}
[data-testid="stBaseButton-primary"] { background: #1F5FBF; border-color: #1F5FBF; color: #FFFFFF; }
[data-testid="stBaseButton-primary"]:hover { background: #1A51A3; border-color: #1A51A3; }
[data-testid="stBaseButton-primary"] kbd { color: #FFFFFF; opacity: 1; }
[data-testid="stMain"] [data-testid="stButton"] button p { white-space: normal; }
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] p { opacity: 1; }
[data-testid="stSidebar"] [data-testid="stElementContainer"]:has([data-testid="stSkeleton"]) { min-height: 64px; }
.st-key-tabs { gap: 0 !important; border-bottom: 1px solid rgba(128, 140, 155, 0.35); min-height: 36px; }
.st-key-tabs a { border-radius: 0; padding: 4px 14px; }
@media (max-width: 900px) {
  [data-testid="stHorizontalBlock"]:has(.st-key-pair) > [data-testid="stColumn"] { min-width: 100%; }
}
@media (max-width: 700px) {
  .st-key-wiring { overflow-x: auto; }
  .st-key-wiring > * { min-width: 560px; }
}
.st-key-rooms { gap: 0 !important; flex-wrap: nowrap; justify-content: space-between; }
.st-key-rooms a { padding: 8px 6px; min-height: 44px; }
@media (max-width: 768px) { [data-testid="stExpandSidebarButton"]::after { content: "Settings"; font-size: 13px; } }
.stApp [data-testid="stTable"] [data-testid="stMarkdownContainer"] { max-width: none; }
.stApp [data-testid="stTable"] tbody th + td { padding-left: 15px; }
.st-key-front { min-height: 600px; }
.st-key-cards [data-testid="stElementContainer"] { min-height: 86px; }
.st-key-cards-against [data-testid="stElementContainer"] { min-height: 111px; }
button:focus-visible, .stApp a[href]:focus-visible, summary:focus-visible {
  outline: 2px solid #C2185B; outline-offset: 2px;
}
.stApp [data-testid="stTopNav"] a[href]:focus-visible, .stApp [data-testid="stPageLink"] a[href]:focus-visible {
  outline: 2px solid #C2185B; outline-offset: -2px;
}
</style>"""


_WATCH = """
const shade = () => getComputedStyle(document.querySelector('[data-testid="stApp"]')).backgroundColor;
export default function ({ setTriggerValue }) {
  let was = shade();
  const watch = new MutationObserver(() => {
    const now = shade();
    if (now !== was) setTriggerValue("flipped", (was = now));
  });
  watch.observe(document.querySelector('[data-testid="stApp"]'), { attributeFilter: ["class"] });
  return () => watch.disconnect();
}
"""
_FLIPS = st.components.v2.component("theme.flips", html="<i></i>", js=_WATCH)


def flips() -> None:
    """Have the page drawn again when its reader turns the theme: Streamlit alone leaves the charts in the other's."""
    _FLIPS(key="flips", on_flipped_change=lambda: None, width="content", height="content")


def early() -> str:
    """What the server writes into a page's head: the style, and the parts to load before the page asks for them.

    Numbers would else wait behind the charts' library, which takes a busy machine seconds to read.
    """
    page = Path(st.__file__).parent / "static" / "index.html"
    scripts, known = page.parent / "static" / "js", page.read_text()
    left = [file.name for name in _FIRST for file in sorted(scripts.glob(f"{name}.*.js"))]
    files: dict[str, None] = {}
    while left:
        name = left.pop()
        if name not in files and name not in known and (scripts / name).is_file():
            files[name] = None
            left += _IMPORTED.findall((scripts / name).read_text())
    return STYLE + "".join(f'<link rel="modulepreload" crossorigin href="./static/js/{name}">' for name in files)


def legible() -> None:
    """Draw the style; it takes no place on the page."""
    st.html(STYLE)
