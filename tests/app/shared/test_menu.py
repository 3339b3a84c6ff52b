"""The menu says in which room its reader is (AppTest: no browser)."""

import pytest

from app.shared.legible import STYLE
from tests.app.pages import alive, opened

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(("page", "room"), [("machine", "explore"), ("compare", "choose"), ("catalog", "published")])
def test_the_room_of_a_tab_that_the_menu_does_not_list_is_marked(page, room):
    """On Machine, Compare or Catalog no word of the menu was marked, as if the reader were nowhere."""
    at = opened(page)
    at.session_state["by_name"] = True
    at.switch_page(f"views/{page}/page.py")
    styles = "".join(html.proto.body for html in alive(at.run()).get("html"))
    assert f'[href$="/{room}"]' in styles.replace(STYLE, "")
