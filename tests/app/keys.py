"""Keys of widgets that `app.shared.widgets.controlled` draws: a new one whenever something else changed what they
show."""

from streamlit.testing.v1 import AppTest


def key_of(at: AppTest, name: str) -> str:
    """The key under which a widget is drawn now."""
    return next(reversed(at.session_state["drawn"][name].holds))
