"""The question of the page, as one token in the address bar (``q``): what is read, and what its controls change."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app.shared import formats as fmt
from app.shared.boundary import callback
from app.shared.widgets.choices import remember, say
from app.views.choose import texts
from engine.choose import READABLE, Question, question_of, read_fields
from engine.choose.presets import QUESTIONS
from engine.scenario import ScenarioError
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

_PARAM = "q"
_FIRST = "llama-70b"


class PageQuestion:
    """The question at hand, and how a control changes it (in callbacks)."""

    def __init__(self, question: Question, put: Callable[[str], None]) -> None:
        self.question, self._put = question, put

    def preset(self, id: str | None) -> None:
        """PageQuestion one of the questions that are worth asking first."""
        if id:
            self._put(QUESTIONS[id].question.token)

    @callback
    def change(self, **fields: Any) -> None:
        """Change fields; a change that is not allowed leaves the question as it was, with the reason."""
        try:
            self._put(self.question.with_(**fields).token)
        except ScenarioError as error:
            say(_PARAM, texts.NOTHING_CHANGED.format(why=fmt.sentence(error)))

    def workload(self, id: str) -> None:
        """PageQuestion about another workload: its own lengths, and limits that it can have."""
        decoder = default_zoo().graph(id).causal
        fields: dict[str, Any] = {"workload": id, "inputs": None, "outputs": None}
        self.change(**fields | ({} if decoder else {"ttft_s": None, "tpot_s": None}))


def ask() -> PageQuestion:
    """The question that the address holds, the first one where it holds none; what is wrong with it is said."""
    usual = QUESTIONS[_FIRST].question.token

    def read(text: str) -> tuple[str, str | None]:
        try:
            question = question_of(text)
            default_zoo().workload(question.workload)
            for id in (*question.systems, *question.prices, *(what_if.system for what_if in question.what_ifs)):
                default_catalog().system(id)
        except Exception as error:  # whatever an address holds is one sentence
            return usual, texts.SHOWING_FIRST_QUESTION.format(error=str(error).rstrip("."))
        return text, None

    written = _written()
    if written is not None:
        st.query_params[_PARAM] = written
    token, put = remember(_PARAM, usual, read)
    return PageQuestion(question_of(token), put)


def _written() -> str | None:
    """Token of a question that the address holds in readable parameters, `workload=resnet50&latency=7ms`; they leave
    the address. None where it has none, or they can't be read, which is said.
    """
    query = {name: st.query_params[name] for name in ("workload", *READABLE) if name in st.query_params}
    if "workload" not in query or _PARAM in st.query_params:
        return None
    for name in query:
        del st.query_params[name]
    try:
        workload = query.pop("workload")
        return question_of({"workload": workload} | read_fields(query)).token
    except ScenarioError as error:
        say(_PARAM, texts.SHOWING_FIRST_QUESTION.format(error=str(error).rstrip(".")))
        return None
