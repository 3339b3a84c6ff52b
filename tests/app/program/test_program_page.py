"""The Program page: the shipped program is listed, a user's own is timed, what is wrong is said (AppTest)."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.pages import opened

APP = Path(__file__).parents[3] / "app"
pytestmark = pytest.mark.timeout(300)


def listed(at: AppTest):
    return next(d.value for d in at.dataframe if "Hazard" in d.value)


@pytest.mark.parametrize(("id", "first"), [("dfx-1.5b", "accum x"), ("brainwave-gru", "x -> mv_mul Wr")])
def test_the_shipped_program_is_listed_and_stepped_through(id, first):
    at = opened("program", id)
    assert listed(at)["Instruction"][0].startswith(first)
    assert listed(at)["Waits for"].dtype == "Int64"  # the number of an instruction, not 3.0
    at.slider(key="program.step").set_value(2).run()
    assert not at.exception
    assert any("after instruction 2" in m.value for m in at.markdown)


def test_a_program_of_ones_own_is_timed_run_and_refused_with_its_place():
    at = opened("program", "dfx-1.5b")
    at.text_area[0].set_value("mul x, x, squares n=256\naccum squares, -, sum n=256").run()
    assert len(listed(at)) == 2
    at.toggle(key="program.run").set_value(True).run()
    assert not at.exception, [e.message for e in at.exception]
    assert any("Before" in d.value for d in at.dataframe)
    at.text_area[0].set_value("mul x, x, squares n=256\n  cosh squares, -, sum n=256").run()
    said = [e.value.replace("\\", "") for e in at.error]
    assert said[0].startswith("Line 2, column 3: mnemonic 'cosh' is not known"), said


def test_a_machine_without_an_instruction_set_points_to_two_that_have_one():
    at = opened("program", "v100-1.5b")
    assert any("runs no program" in i.value for i in at.info)
    at.button(key="program.brainwave-gru").click().run()
    assert not at.exception
    assert len(listed(at)) == 6


def test_a_program_of_ones_own_is_there_after_a_look_at_another_page():
    at, text = opened("program", "dfx-1.5b"), "mul x, x, squares n=256\naccum squares, -, sum n=256"
    at.text_area[0].set_value(text).run()
    at.switch_page("views/machine/page.py").run()
    at.switch_page("views/program/page.py").run()
    assert at.text_area[0].value == text
    assert len(listed(at)) == 2
    at.button(key="program.reset").click().run()
    assert len(listed(at)) > 2
