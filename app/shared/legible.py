"""What Streamlit's theme can't say: text of 4.5:1 on buttons and captions (WCAG AA), a focus that is seen, and room for
what is drawn a moment later. The server writes it into the page's head as well (`app.server.guard`), where it holds at
once.
"""

import re
from pathlib import Path

import streamlit as st

_FIRST = ("Metric", "PageLink", "NumberInput", "Selectbox", "Slider", "ButtonGroup", "Html", "Button", "Checkbox",
          "TextInput", "Multiselect")  # fmt: skip
"""Parts of Streamlit's front end that most pages show at once, and it loads when they come up."""

_IMPORT = re.compile(r"""(?:from|import)"\./([\w.-]+\.js)\"""")

STYLE = f"<style>{Path(__file__).with_name('page.css').read_text()}</style>"
_FLIPS = st.components.v2.component("theme.flips", html="<i></i>", js=Path(__file__).with_name("flips.js").read_text())


def room_style(path: str) -> str:
    """Marks the room whose first page has that path in the menu: Streamlit marks that page alone, not its tabs."""
    link = f':is([data-testid="stTopNavLink"][href$="/{path}"], .st-key-rooms a[href^="{path}?"])'
    return f"<style>{link} {{ background: rgba(128, 140, 155, 0.18); }} {link} p {{ font-weight: 600; }}</style>"


def flips() -> None:
    """Have the page drawn again when its reader turns the theme: Streamlit alone leaves the charts in the other's."""
    _FLIPS(key="flips", on_flipped_change=lambda: None, width="content", height="content")


def early() -> str:
    """What the server writes into a page's head: the style, and the parts to load before the page asks for them.

    Numbers would else wait behind the charts' library, which takes a busy machine seconds to read.
    """
    page = Path(st.__file__).parent / "static" / "index.html"
    scripts, html = page.parent / "static" / "js", page.read_text()
    queue = [file.name for name in _FIRST for file in sorted(scripts.glob(f"{name}.*.js"))]
    files: dict[str, None] = {}
    while queue:
        name = queue.pop()
        if name not in files and name not in html and (scripts / name).is_file():
            files[name] = None
            queue += _IMPORT.findall((scripts / name).read_text())
    return STYLE + "".join(f'<link rel="modulepreload" crossorigin href="./static/js/{name}">' for name in files)
