"""What an answer says of a control: its value, unless its reader's hand is at it."""

from streamlit.testing.v1 import AppTest


def _page() -> None:
    from functools import partial

    import streamlit as st

    from app.shared.widgets.controlled import controlled

    values = st.session_state.setdefault("values", {"first": 64, "second": 1})
    for name in values:
        put = partial(values.__setitem__, name)
        st.number_input(name, min_value=1, **controlled(f"w.{name}", values[name], put))


def test_a_control_has_its_value_in_every_answer_until_the_browser_draws_it():
    """Several answers may come at once: a browser that draws the last one alone must not show a default."""
    page = AppTest.from_function(_page).run()
    first, second = page.number_input
    assert (first.proto.set_value, first.proto.value) == (True, 64)
    page.run()  # the browser sends both, and has nothing to be told
    assert [one.proto.set_value for one in page.number_input] == [False, False]
    page.session_state["values"]["first"] = 9  # a new widget, which a message of before the answer does not hold
    page.run()
    message = page._tree.get_widget_states()
    late = [one for one in message.widgets if one.id == second.proto.id]
    del message.widgets[:]
    message.widgets.extend(late)
    for value in (2, 3):
        message.widgets[0].double_value = value
        page._run(message)
        first, second = page.number_input
        assert (first.proto.set_value, first.proto.value) == (True, 9)
        assert (second.proto.set_value, second.value) == (False, value), "what its reader turns is not drawn over"


def test_a_control_that_was_turned_is_drawn_once_something_else_changes_it():
    page = AppTest.from_function(_page).run()
    page.number_input[0].set_value(5).run()
    page.session_state["values"]["first"] = 9
    page.run()
    assert (page.number_input[0].proto.set_value, page.number_input[0].value) == (True, 9)
