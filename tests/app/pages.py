"""Pages as a reader has them, without a browser (AppTest)."""

from pathlib import Path

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, encode

MAIN = Path(__file__).parents[2] / "app" / "main.py"


def opened(page: str, of: Scenario | str | None = None, **query: str) -> AppTest:
    """A page, of a scenario or a preset's id where one is given, with these parameters in its address."""
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.session_state["kernels_seen"] = True
    if of is not None:
        at.query_params["s"] = encode(PRESETS[of].scenario if isinstance(of, str) else of)
    at.run()
    if page != "explore":
        at.switch_page(f"views/{page}/page.py")
    for name, value in query.items():
        at.query_params[name] = value
    return alive(at.run() if query or page != "explore" else at)


def alive(at: AppTest) -> AppTest:
    """The page, which nothing ended."""
    assert not at.exception, [e.message for e in at.exception]
    return at


def said(at: AppTest) -> str:
    """All of its Markdown."""
    return " ".join(m.value for m in at.markdown)


def in_card(at: AppTest, title: str, key: str) -> bool:
    """Whether a button stands in the bordered block of that title."""
    blocks = [block for block in at.main if isinstance(block, Block) and hasattr(block.proto, "flex_container")]
    cards = [block for block in blocks if block.proto.flex_container.border]
    return any(title in " ".join(m.value for m in c.markdown) and key in [b.key for b in c.button] for c in cards)


def key_of(at: AppTest, name: str) -> str:
    """The key under which a widget is drawn now: a new one whenever something else changed what it shows."""
    return next(reversed(at.session_state["drawn"][name].holds))
