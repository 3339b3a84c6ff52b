"""What should I use?"""

from typing import Any

import streamlit as st

from app.shared import cached, comparison, glossary, link, parts
from app.shared import formats as fmt
from app.shared.comparison import Entry
from app.views.choose import charts, tables, texts
from app.views.choose.controls import PageQuestion, ask, controls, questions
from engine.choose import Answer, Row, choose
from engine.scenario import ScenarioError

_ROWS = 11  # shown before the table scrolls


def ranking(answer: Answer, able: list[Row]) -> None:
    """Systems that meet the limits; a row opens its detail."""
    count = sum(row.rank is not None for row in able)
    title = texts.CHEAPEST_FIRST.format(ranked=count) + (f"; {len(able) - count} without" if count < len(able) else "")
    with parts.card(texts.SYSTEMS_MEET, title, stretch=False):
        frame = tables.meeting(answer, able)
        if parts.mobile():  # which shows three columns: what each costs is one of them
            frame["Configuration"] = frame.pop("Configuration")
        text = st.column_config.TextColumn
        columns: dict[str, Any] = {"System": text(pinned=not parts.mobile()), "vs winner": text(help=texts.RATIO_HELP)}
        columns["Configuration"] = text(width=parts.wide_enough(frame["Configuration"]))
        columns["Range ($)"] = text(help=texts.BAND_HELP)

        def select() -> None:
            row = parts.selected_row(st.session_state["h.table"], able)
            st.session_state["h.row"] = row and row.label

        costs = [name for name in frame if name[0] == "$"]  # as the sentence above has them
        parts.table(frame, columns, max_rows=_ROWS, tall=38 * _ROWS, wide=costs, select=select, key="h.table")


def detail(answer: Answer, row: Row) -> None:
    """One system at its best, and where to go with it."""
    best, report = row.best, row.report
    assert best is not None
    assert report is not None
    unit = glossary.rate_unit(answer.unit)
    with parts.card(row.label, row.configuration):
        facts = []
        if best.usd_per_million is not None:
            facts.append(f"**{fmt.usd(best.usd_per_million)} per million {answer.cost_unit}s** "
                         f"({tables.money_range(best.usd_per_million, row.band.relative)})")  # fmt: skip
        if report.usd_per_million_all_tokens is not None:
            facts.append(
                texts.TOKEN_PRICES.format(
                    every=fmt.usd(report.usd_per_million_all_tokens),
                    input_usd=fmt.usd(report.usd_per_million_input),
                    output_usd=fmt.usd(report.usd_per_million_output),
                )
            )
        if best.total_usd_per_hour is not None:
            instances = f"{best.instances:,} instances" if best.instances > 1 else "one instance"
            facts.append(
                texts.PRICE_AN_HOUR.format(
                    total=fmt.usd(best.total_usd_per_hour),
                    many=instances,
                    configuration=row.configuration,
                    busy=fmt.percent(best.scenario.costs.utilisation),
                )
            )
        if best.host_usd is not None and best.host_usd < answer.host_usd:
            facts.append(texts.SHARED_HOST.format(usd=fmt.usd(best.host_usd), whole=fmt.usd(answer.host_usd)))
        facts += filter(None, (*tables.times(answer, row), tables.plan(row)))
        per_device = fmt.si(best.rate_per_device, f"{unit}/s")
        facts.append(texts.RATES.format(rate=fmt.si(best.rate, f"{unit}/s"), each=per_device))
        if report.power_w is not None:
            facts.append(f"{fmt.si(report.power_w * best.instances, 'W')} at full load")
        st.markdown("  \n".join(line.replace("$", "\\$") for line in facts))
        if row.reason:
            st.caption(fmt.plain(f"vs winner: {row.reason}."))
        parts.evidence(row.band)
        with st.container(horizontal=True, gap="small"):
            if st.button("Open in Explore", type="primary", key="h.open"):
                link.show("explore", best.scenario)
            if st.button("Load", key="h.load", help=texts.LOAD_HELP):
                link.show("traffic", best.scenario, tables.load_address(answer, row))
            st.button("Compare", key="h.compare", on_click=comparison.add, args=(Entry(best.scenario),),
                      help=texts.COMPARE_HELP)  # fmt: skip
            st.button("Pin", key="h.pin", on_click=link.pin_scenario, args=(best.scenario,),
                      help=glossary.HELP["baseline"])  # fmt: skip


def curves(answer: Answer, able: list[Row], row: Row) -> None:
    """The front of each system."""
    unit = glossary.rate_unit(answer.unit)
    decoder = any(r.best is not None and r.best.joined is not None for r in able)
    fast = max(able, key=lambda r: max((point.speed for point in r.front), default=0.0))
    limit_s = answer.question.tpot_s if decoder else answer.question.latency_s
    user = "tok" if decoder else "answers"
    fig = charts.front(able, row.system, unit, user, limit_s, parts.dark(), parts.mobile())
    title = texts.FRONT.format(rate="tokens/s" if decoder else "answers/s")
    parts.chart(title, texts.FRONT_ANSWER.format(label=fast.label), fig, "h.front")


def not_meeting(rows: list[Row]) -> None:
    """What does not meet the limits, nearest first, folded."""
    if not rows:
        return
    with st.expander(texts.DO_NOT_MEET.format(count=len(rows)), key="open.refused"):
        frame = {
            "System": [row.label for row in rows],
            "Nearest configuration": [row.configuration or fmt.UNKNOWN for row in rows],
            "Why not": [row.reason for row in rows],
        }
        st.table(frame, hide_index=True, height="content" if len(rows) <= 8 else 318, alt=parts.table_alt(frame))


def what_ifs(answer: Answer) -> None:
    """Hardware that nobody sells, apart."""
    for row in answer.what_ifs:
        unit = f"{glossary.rate_unit(answer.unit)}/s"
        text = f"{row.configuration}, {fmt.si(row.best.rate_per_device, unit)} per device" if row.best else row.reason
        with parts.card(f":violet-badge[what-if] {fmt.plain(row.name)}", text, stretch=False):
            st.caption(texts.WHAT_IF_CAPTION)


def _tools(question: PageQuestion, answer: Answer) -> None:
    with st.container(horizontal=True, horizontal_alignment="left" if parts.mobile() else "right", gap="small"):
        parts.share()
        files = {"Answer, CSV": ("choose", lambda: tables.rows(answer)), "Answer, JSON": ("choose", answer.to_dict)}
        parts.exports(files, [question.question.workload])
    parts.toolbars(page_files=True)


def show() -> None:
    """The page."""
    question = ask()
    controls(question)
    left, right = st.columns([3, 1], vertical_alignment="center")
    with left:
        questions(question)
    try:
        with st.skeleton(height=500):
            answer = cached.answer(choose, question.question.token)
    except ScenarioError as error:
        parts.refusal(error)
        return
    with right:
        _tools(question, answer)
    able = [row for row in answer.rows if row.best is not None]
    head, _, reason = answer.sentence.partition(": ")
    st.markdown(f"**{fmt.plain(head)}:** {fmt.plain(reason)}" if able else f"**{fmt.plain(answer.sentence)}**")
    if able:
        row = next((row for row in able if row.label == st.session_state.get("h.row")), able[0])
        ranking(answer, able)
        parts.beside(lambda: detail(answer, row), lambda: curves(answer, able, row), widths=(2, 3))
    what_ifs(answer)
    not_meeting([row for row in answer.rows if row.best is None])
    st.caption(
        texts.METHOD_CAPTION.format(
            workload=answer.workload,
            request=tables.request(answer),
            tried=fmt.counted(answer.designs, "design"),
            systems=fmt.counted(len(answer.rows), "system"),
            seconds=fmt.seconds(answer.seconds),
        )
    )
    if any(row.load is not None for row in able):
        st.caption(texts.SERVING_CAPTION)


show()
