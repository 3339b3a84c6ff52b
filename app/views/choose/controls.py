"""The sidebar of the page: what is asked, within which limits, of which candidates, at whose prices."""

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from app.shared import formats as fmt
from app.shared import glossary, link
from app.shared.widgets import pickers, sidebar
from app.shared.widgets.controlled import controlled, pick
from app.views.choose import texts
from app.views.choose.page_question import PageQuestion
from engine.choose.presets import QUESTIONS
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

_BITS = {16: "16-bit", 8: "8-bit", 4: "4-bit"}
_LIMITS = (
    ("latency_s", "p99 latency", texts.P99_HELP),
    ("ttft_s", "TTFT", glossary.HELP["ttft"]),
    ("tpot_s", "TPOT", texts.TPOT_HELP),
    ("power_w", "Power", texts.RATE_HELP),
)


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
        _tried(ask)
        _prices(ask)
        _what_if(ask)


def _request(ask: PageQuestion) -> None:
    """Lengths, two in a row."""
    q = ask.question

    def args(name: str, value: int) -> dict[str, Any]:
        return controlled(f"h.{name}", value, lambda typed: ask.change(**{name: typed}))

    pickers.lengths(q.workload, q.inputs, q.outputs, args)


def _limits(ask: PageQuestion) -> None:
    """Limits that the workload can have, a row each: two in a row cut a value off; an emptied one is none."""
    decoder = default_zoo().graph(ask.question.workload).causal
    st.markdown(":small[Limits]")
    for name, label, help in _LIMITS:
        if decoder or name not in ("ttft_s", "tpot_s"):
            sidebar.limit_input(label, name, getattr(ask.question, name), f"h.{name}", ask.change, help)


def _demand(ask: PageQuestion) -> None:
    """Requests per second, users, or none."""
    q = ask.question
    now = "qps" if q.qps is not None else "users" if q.users is not None else ""

    def kind(name: str) -> None:
        value = q.qps or q.users or 100
        ask.change(qps=float(value) if name == "qps" else None, users=int(value) if name == "users" else None)

    more: dict[str, Any] = {"required": True, "width": "stretch", "help": texts.DEMAND_HELP}
    pick("Demand", texts.DEMANDS, "h.demand", now, kind, st.segmented_control, **more)

    def many(value: int | None) -> None:
        if value:
            ask.change(**{now: value})

    if now:
        label = "Requests per second" if now == "qps" else "Users at once"
        st.number_input(label, min_value=1, step=1, **controlled(f"h.{now}", int(q.qps or q.users or 1), many))


def _tried(ask: PageQuestion) -> None:
    """Precision, batch and candidates."""
    q = ask.question
    left, right = st.columns(2)
    with left:
        pick("Precision down to", _BITS, "h.bits", q.bits, lambda v: ask.change(bits=v), help=texts.PRECISION_DOWN_HELP)
    right.number_input(
        "Batch", min_value=1, max_value=65536, step=1, value=None, placeholder="best",
        help=texts.BATCH_HELP, **controlled("h.batch", q.batch, lambda v: ask.change(batch=v)),
    )  # fmt: skip
    pickers.systems("h.systems", list(q.systems), lambda ids: ask.change(systems=tuple(ids)))


def _prices(ask: PageQuestion) -> None:
    """The user's own prices, bought or by the hour, and what a year costs."""
    q, catalog = ask.question, default_catalog()

    def edited(rows: dict[str, Any]) -> None:
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
        listed = [catalog.device(catalog.system(id).devices[0].device).price for id in ids]
        own = [q.prices.get(id) for id in ids]
        frame = pd.DataFrame(
            {
                "System": [catalog.system(id).name for id in ids],
                "List $": [None if price is None else price.si for price in listed],
                "Yours $": [None if price is None else price.usd for price in own],
                "Yours $/h": [None if price is None else price.usd_per_hour for price in own],
            }
        ).astype({"List $": float, "Yours $": float, "Yours $/h": float})
        key = f"h.prices.{hash((tuple(ids), q.token))}"
        number = partial(st.column_config.NumberColumn, format="localized", min_value=0.0)
        st.data_editor(
            frame, hide_index=True, key=key, height=240, placeholder=fmt.UNKNOWN, disabled=["System", "List $"],
            column_config={"List $": number(), "Yours $": number(help=texts.CAPEX_HELP),
                           "Yours $/h": number(help=texts.RENT_HELP)},
            on_change=lambda: edited(st.session_state[key]),
        )  # fmt: skip
        sidebar.cost_inputs(q.costs, "h.costs", cost, "5,000, assumed")


_COLUMNS = {"Yours $": "usd", "Yours $/h": "usd_per_hour"}


def _what_if(ask: PageQuestion) -> None:
    """The hardware that the scenario at hand changes, as a candidate of its own."""
    now = link.current()
    active = bool(ask.question.what_ifs)
    if not (now.overrides or active):
        return
    own = ({"system": now.system, "overrides": dict(now.overrides)},) if now.overrides else ()
    st.toggle(
        "What-if hardware too",
        help=texts.WHAT_IF_HELP,
        **controlled("h.whatif", active, lambda on: ask.change(what_ifs=own if on else ())),
    )
