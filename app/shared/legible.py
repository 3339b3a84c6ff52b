"""What Streamlit's theme can't say: text of 4.5:1 on buttons and captions (WCAG AA), a focus that is seen, and room for
what is drawn a moment later.
"""

from __future__ import annotations

import streamlit as st

__all__ = ["legible"]

_STYLE = """<style>
[data-testid="stBaseButton-primary"] { background: #1F5FBF; border-color: #1F5FBF; color: #FFFFFF; }
[data-testid="stBaseButton-primary"]:hover { background: #1A51A3; border-color: #1A51A3; }
[data-testid="stBaseButton-primary"] kbd { color: #FFFFFF; opacity: 1; }
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] p { opacity: 1; }
[data-testid="stSidebar"] [data-testid="stElementContainer"]:has([data-testid="stSkeleton"]) { min-height: 64px; }
.st-key-cards [data-testid="stElementContainer"] { min-height: 86px; }
.st-key-cards-against [data-testid="stElementContainer"] { min-height: 111px; }
button:focus-visible, a:focus-visible, summary:focus-visible { outline: 2px solid #C2185B; outline-offset: 2px; }
</style>"""


def legible() -> None:
    """Draw the style; it takes no place on the page."""
    st.html(_STYLE)
