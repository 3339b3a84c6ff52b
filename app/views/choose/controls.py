"""The question of the page, as one token in the address bar (``q``), and the sidebar that changes it: what is asked,
within which limits, of which candidates, at whose prices.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from app.shared import formats as fmt
from app.shared import link
from app.shared.boundary import callback
from app.shared.report_tables import columns
from app.shared.widgets import pickers, sidebar
from app.shared.widgets.choices import remember, say
from app.shared.widgets.controlled import SEGMENTS, controlled, pick
from app.views.choose import texts
from engine.choose import READABLE, Question, question_of, read_fields
from engine.choose.question import QUESTIONS
from engine.scenario import ScenarioError
from engine.traffic.engines.operating_points import limits_of
from engine.traffic.plan import DOMAINS, SiteFacts
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

_PARAM = "q"
_FIRST = "llama-70b"
_BITS = {16: "16-bit", 8: "8-bit", 4: "4-bit"}
_LIMITS = (
    ("latency_s", "p99 latency", texts.P99_HELP),
    ("ttft_s", "TTFT", texts.TTFT_HELP),
    ("tpot_s", "TPOT", texts.TPOT_HELP),
    ("power_w", "Power", texts.RATE_HELP),
)


class PageQuestion:
    """The question at hand, and how a control changes it (in callbacks)."""

    def __init__(self, question: Question, commit: Callable[[str], None]) -> None:
        self.question, self._commit = question, commit

    def preset(self, id: str | None) -> None:
        """Ask one of the questions that are worth asking first."""
        if id:
            self._commit(QUESTIONS[id].question.token)

    @callback
    def change(self, **fields: Any) -> None:
        """Change fields; a change that is not allowed leaves the question as it was, with the reason."""
        try:
            self._commit(self.question.with_(**fields).token)
        except ScenarioError as error:
            say(_PARAM, texts.NOTHING_CHANGED.format(why=fmt.sentence(error)))

    def percentiles(self, text: str) -> None:
        """Change the limits at percentiles, which are typed; what is none leaves them as they were, with the reason."""
        try:
            self.change(sla=limits_of(text) if text.strip() else {})
        except ScenarioError as error:
            say(_PARAM, texts.NOTHING_CHANGED.format(why=fmt.sentence(error)))

    def workload(self, id: str) -> None:
        """Ask about another workload: its own lengths, and limits that it can have."""
        decoder = default_zoo().graph(id).causal
        fields: dict[str, Any] = {"workload": id, "inputs": None, "outputs": None}
        self.change(**fields | ({} if decoder else {"ttft_s": None, "tpot_s": None, "sla": {}}))


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

    question_token = _readable_token()
    if question_token is not None:
        st.query_params[_PARAM] = question_token
    token, commit = remember(_PARAM, usual, read)
    return PageQuestion(question_of(token), commit)


def _readable_token() -> str | None:
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


def questions(ask: PageQuestion) -> None:
    """Questions worth asking first: a few as pills, all under More."""
    now = next((id for id, preset in QUESTIONS.items() if preset.question == ask.question), None)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        pill = now if now in texts.PILLS else None
        pick("Questions", texts.PILLS, "h.pill", pill, ask.preset, st.pills, label_visibility="collapsed")
        with st.popover("More"), st.container(width=420):
            titles = {id: preset.title for id, preset in QUESTIONS.items()}
            pick("Question", titles, "h.more", now, ask.preset, index=None, placeholder="Choose a question")


def controls(ask: PageQuestion) -> None:
    """Everything a question holds."""
    with st.sidebar:
        pickers.workload("h.workload", ask.question.workload, ask.workload, also=link.current().workload)
        _request(ask)
        _limits(ask)
        _demand(ask)
        _candidates(ask)
        _prices(ask)
        _what_if(ask)


def _request(ask: PageQuestion) -> None:
    q = ask.question

    def args(name: str, value: int) -> dict[str, Any]:
        return controlled(f"h.{name}", value, lambda number: ask.change(**{name: number}))

    pickers.lengths(q.workload, q.inputs, q.outputs, args)


def _limits(ask: PageQuestion) -> None:
    """Limits that the workload can have, a row each: two in a row cut a value off; an emptied one is none."""
    decoder = default_zoo().graph(ask.question.workload).causal
    st.markdown(":small[Limits]")
    for name, label, help in _LIMITS:
        if decoder or name not in ("ttft_s", "tpot_s"):
            sidebar.limit_input(label, name, getattr(ask.question, name), f"h.{name}", ask.change, help)
    if decoder:
        sla = ", ".join(f"{name}={seconds * 1e3:g}ms" for name, seconds in ask.question.sla.items())
        sidebar.percentile_limits(sla, "h.sla", ask.percentiles, texts.SLA_HELP)


def _demand(ask: PageQuestion) -> None:
    """Requests per second, users, or none."""
    q = ask.question
    now = "qps" if q.qps is not None else "users" if q.users is not None else ""

    def kind(name: str) -> None:
        value = q.qps or q.users or 100
        ask.change(qps=float(value) if name == "qps" else None, users=int(value) if name == "users" else None)

    pick("Demand", texts.DEMANDS, "h.demand", now, kind, help=texts.DEMAND_HELP, **SEGMENTS)

    def commit(value: int | None) -> None:
        if value:
            ask.change(**{now: value})

    if now:
        label = "Requests per second" if now == "qps" else "Users at once"
        st.number_input(label, min_value=1, step=1, **controlled(f"h.{now}", int(q.qps or q.users or 1), commit))
        names, (left, right) = {name: name for name in DOMAINS}, st.columns(2)
        with left:
            pick("Failure", names, "h.survives", q.survives, lambda v: ask.change(survives=v), help=texts.FAILURE_HELP)
        watts = controlled("h.rack_w", q.rack_w, lambda w: ask.change(rack_w=w or SiteFacts.rack_w))
        right.number_input("Rack (W)", min_value=1.0, format="%.0f", help=texts.RACK_HELP, **watts)


def _candidates(ask: PageQuestion) -> None:
    q = ask.question
    left, right = st.columns(2)
    with left:
        pick("Precision down to", _BITS, "h.bits", q.bits, lambda v: ask.change(bits=v), help=texts.PRECISION_DOWN_HELP)
    right.number_input(
        "Batch", min_value=1, max_value=65536, step=1, value=None, placeholder="best",
        help=texts.BATCH_HELP, **controlled("h.batch", q.batch, lambda v: ask.change(batch=v)),
    )  # fmt: skip
    pickers.systems("h.systems", list(q.systems), lambda ids: ask.change(systems=tuple(ids)))
    evidence_only = q.evidence == "measured"
    args = controlled("h.evidence", evidence_only, lambda on: ask.change(evidence="measured" if on else "any"))
    st.toggle("With evidence only", help=texts.EVIDENCE_HELP, **args)


def _prices(ask: PageQuestion) -> None:
    """The user's own prices, bought or by the hour, and what a year costs."""
    q, catalog = ask.question, default_catalog()

    def commit(rows: dict[str, Any]) -> None:
        prices: dict[str, Any] = {id: price.model_dump(exclude_none=True) for id, price in q.prices.items()}
        for at, change in rows.get("edited_rows", {}).items():
            id, cells = ids[int(at)], {_COLUMNS[k]: v for k, v in change.items() if k in _COLUMNS}
            entry = {k: v for k, v in (prices.get(id, {}) | cells).items() if v is not None}
            prices.pop(id, None)
            if entry:
                prices[id] = entry
        ask.change(prices=prices)

    def cost(**change: float | None) -> None:
        ask.change(costs=q.costs.model_dump() | change)

    with st.expander(f"Prices · {len(q.prices) or 'list prices'}{' of yours' if q.prices else ''}", key="open.prices"):
        ids = list(q.systems or catalog.ids("systems"))
        ids.sort(key=lambda id: (id not in q.prices, catalog.system(id).name))
        devices = [catalog.device(catalog.system(id).devices[0].device) for id in ids]
        data = {"System": [catalog.system(id).name for id in ids]} | columns(devices, {"List $": "price.si"})
        frame = pd.DataFrame(data | columns([q.prices.get(id) for id in ids], _COLUMNS))
        frame = frame.astype(dict.fromkeys(("List $", *_COLUMNS), float))
        key = f"h.prices.{hash((tuple(ids), q.token))}"
        number = partial(st.column_config.NumberColumn, format="localized", min_value=0.0)
        st.data_editor(
            frame, hide_index=True, key=key, height=240, placeholder=fmt.UNKNOWN, disabled=["System", "List $"],
            column_config={"List $": number(), "Yours $": number(help=texts.CAPEX_HELP),
                           "Yours $/h": number(help=texts.RENT_HELP)},
            on_change=lambda: commit(st.session_state[key]),
        )  # fmt: skip
        sidebar.cost_inputs(q.costs, "h.costs", cost, "5,000, assumed")


_COLUMNS = {"Yours $": "usd", "Yours $/h": "usd_per_hour"}


def _what_if(ask: PageQuestion) -> None:
    """The hardware that the scenario at hand changes, as a candidate of its own."""
    now = link.current()
    active = bool(ask.question.what_ifs)
    if not (now.overrides or active):
        return
    what_ifs = ({"system": now.system, "overrides": dict(now.overrides)},) if now.overrides else ()
    st.toggle(
        "What-if hardware too",
        help=texts.WHAT_IF_HELP,
        **controlled("h.whatif", active, lambda on: ask.change(what_ifs=what_ifs if on else ())),
    )
