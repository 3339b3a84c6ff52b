"""Which of these should I choose, and where does the gain come from?"""

from functools import partial

import streamlit as st

from app.shared import cached, comparison, glossary, link, parts
from app.shared import formats as fmt
from app.shared.comparison import CAPACITY, Comparison, Entry
from app.shared.figures.style import Figure
from app.shared.glossary import Metric
from app.shared.widgets import pickers
from app.shared.widgets.choices import choose, pills, say
from app.shared.widgets.controlled import controlled, pick
from app.views.compare import charts, tables, texts
from app.views.compare.tables import METRICS, ComparedScenario
from engine.resolve.presets import PRESETS
from engine.scenario import encode
from engine.sweep import attribute
from entries.schema import InputError
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo


def column_of(at: int, entry: Entry) -> ComparedScenario:
    """A scenario with its numbers, or with the reason why it has none."""
    scenario = entry.scenario
    system = default_catalog().system(scenario.system).name
    workload = default_zoo().workload(scenario.workload).name
    knobs = (system, workload, *glossary.knobs(scenario, link.usual_of(scenario)))
    report, reason = None, ""
    try:
        report = cached.report(encode(scenario))
        if not report.fits:
            report, reason = None, report.problems[0]
    except InputError as error:
        reason = str(error)
    return ComparedScenario(at, parts.short_name(scenario), scenario, entry.note, knobs, report, reason)


def _add_preset(id: str | None) -> None:
    if id:
        comparison.add(Entry(PRESETS[id].scenario))


def _on(system: str | None) -> None:
    """The current request on another system, on as few of its devices as hold it."""
    if not system:
        return
    try:
        comparison.add(Entry(link.on_system(system)))
    except InputError as error:
        say(comparison.PARAM, f"{pickers.system_label(system)} is not added. {fmt.sentence(error)}")


def controls(now: Comparison, columns: list[ComparedScenario]) -> None:
    """The sidebar: what is compared, with what, and notes."""
    with st.sidebar:
        presets = {id: preset.pill for id, preset in PRESETS.items()}
        pick("Add a preset", presets, "c.preset", None, _add_preset, index=None, placeholder="Choose a preset")
        systems, hint = pickers.all_systems(), texts.ADD_SYSTEM_HELP
        pick("Add a system", systems, "c.system", None, _on, index=None, placeholder=hint)
        st.text_input(
            texts.ADD_LINK,
            placeholder="Paste it here",
            help=texts.ADD_LINK_HELP,
            **controlled("c.paste", "", comparison.paste),
        )
        here = any(e.scenario == link.current() for e in now.entries)
        st.button(
            texts.ADD_CURRENT,
            on_click=comparison.add,
            args=(Entry(link.current()),),
            disabled=here or len(now.entries) >= CAPACITY,
            key="c.current",
            width="stretch",
            help=texts.ALREADY_COMPARED if here else None,
        )
        letters = {column.at: column.letter for column in columns}
        pick("Baseline", letters, "c.baseline", now.baseline, comparison.rebase, help=glossary.HELP["baseline"])
        st.markdown(f":small[Scenarios · {len(columns)} of {CAPACITY}]")
        for column in columns:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.markdown(f"**{column.letter}** {fmt.plain(column.name)}", width="stretch")
                if st.button(
                    "Open", key=f"c.open.{column.at}", type="tertiary", help=f"Open {column.letter} in Explore"
                ):
                    link.show("explore", column.scenario)
                st.button(
                    "Remove",
                    key=f"c.remove.{column.at}",
                    on_click=comparison.remove,
                    args=(column.at,),
                    type="tertiary",
                    disabled=len(columns) == 1,
                    help=texts.REMOVE_HELP.format(letter=column.letter),
                )
        count = sum(bool(c.note) for c in columns)
        with st.expander(f"Notes · {count or 'none'}", key="open.notes"):
            for column in columns:
                st.text_input(
                    f"{column.letter} · {column.name}",
                    max_chars=comparison.NOTE_LIMIT,
                    **controlled(
                        f"c.note.{column.at}", column.note, partial(comparison.annotate, column.at), column.scenario
                    ),
                )


def side_by_side(columns: list[ComparedScenario], base: ComparedScenario) -> None:
    """The delta table: rows metrics, columns scenarios."""
    common = tables.common_knobs(columns)
    answer = f"all have {', '.join(common)}" if common and len(columns) > 1 else "nothing in common"
    with parts.card("Side by side", answer if len(columns) > 1 else f"{len(columns)} scenario"):
        frame = tables.frame(columns, base)
        st.table(frame, border="horizontal", alt=parts.table_alt(frame))
        if len(columns) > 1:
            st.caption(texts.METRICS_CAPTION.format(letter=base.letter))


def one_metric(columns: list[ComparedScenario], base: ComparedScenario) -> Metric:
    """One metric at a time as bars; the metric."""
    keys = [k for k, m in METRICS.items() if any(tables.value(c, m) is not None for c in columns)]
    with st.container(border=True, height="stretch"):
        title = st.empty()
        labels = {key: tables.in_common_unit(METRICS[key], columns).label for key in keys}
        metric = tables.in_common_unit(METRICS[pills("Metric", labels, "metric")], columns)
        of_money = metric.name in tables.MONEY_AND_POWER
        bands = [None if of_money or c.report is None else c.report.error_band.relative for c in columns]
        rows = [(c.letter, c.name, tables.value(c, metric), band) for c, band in zip(columns, bands, strict=True)]
        points = [(v, letter) for letter, _, v, _ in rows if v is not None]
        (low, lowest), (high, highest) = min(points), max(points)
        if not tables.comparable(columns, metric):
            answer = texts.DIFFERENT_COUNTS
        elif len(points) < 2 or low <= 0:
            answer = texts.NO_SECOND if len(columns) > 1 else metric.text(high)
        else:
            answer = f"{highest} has {fmt.times(high / low)} that of {lowest}"
            answer = texts.ALL_HAVE_SAME if high < 1.005 * low else answer
        title.markdown(f"**{metric.label}** :gray[· {fmt.plain(answer)}]")
        fig = charts.metric_bars(rows, base.at, metric.label, metric.unit, parts.dark())
        parts.figure(fig, f"{metric.label} of each scenario: {answer}.", "c.metric")
        st.caption(metric.help)
    return metric


def where_time(columns: list[ComparedScenario]) -> None:
    """Where each one's time goes."""
    rows = [(c.letter, c.name, c.report.breakdown) for c in columns if c.report is not None]
    answer = _limits(columns)
    fig, shares = charts.breakdowns(rows, parts.dark())
    with parts.card(texts.WHERE_TIME_GOES, answer, fig, "c.breakdown"):
        if shares:
            st.caption(texts.DRAWN_AS_SHARES)


def _limits(columns: list[ComparedScenario]) -> str:
    by: dict[str, list[str]] = {}
    for c in columns:
        if c.report is not None:
            by.setdefault(c.report.limited_by, []).append(c.letter)
    return "; ".join(f"{', '.join(letters)} limited by {name}" for name, letters in by.items())


def _pair(columns: list[ComparedScenario], base: ComparedScenario) -> ComparedScenario | None:
    """The scenario whose gain over the baseline is explained."""
    candidates = [c for c in columns if c.report is not None and c.at != base.at]
    if base.report is None or not candidates:
        return None
    if len(candidates) == 1:
        return candidates[0]
    letters = {c.letter: c.letter for c in candidates}
    letter = choose(f"Explain against {base.letter}", letters, "to", widget=st.segmented_control, required=True)
    return next(c for c in candidates if c.letter == letter)


def _attribution(base: ComparedScenario, rival: ComparedScenario, metric: Metric) -> tuple[str, str, Figure | None]:
    """How much of a difference each kind of change makes: the answer, a caption, and the figure where there is one."""
    if not tables.comparable((base, rival), metric):
        return texts.DIFFERENT_WORK, texts.DIFFERENT_WORK_CAPTION, None
    try:
        attribution = cached.answer(attribute, base.scenario, rival.scenario, metric.name)
    except InputError as error:
        return "not attributed", fmt.plain(str(error)), None
    shares = sorted(attribution.shares.items(), key=lambda item: -abs(item[1]))
    changes = [(name.capitalize(), share) for name, share in shares if share]
    label, word = metric.label, glossary.in_text(metric.label)
    if not changes:
        return f"no difference in {word}", texts.NOTHING_MOVES, None
    part = abs(changes[0][1]) / sum(abs(share) for _, share in changes)
    answer = f"{fmt.percent(part)} of what moves {word}: {changes[0][0].lower()}"
    ends, values = (base.letter, rival.letter), (attribution.base, attribution.target)
    fig = charts.attribution(ends, values, changes, metric.unit, label, metric.rising, parts.dark())
    base_has, rival_has = tables.differences_of((base, rival))
    caption = texts.DIFFERENCE_CAPTION.format(
        base=f"{base.letter}: {base_has}", rival=f"{rival.letter}: {rival_has}", evaluations=attribution.evaluations
    )
    return answer, caption, fig


def where_gain(base: ComparedScenario, rival: ComparedScenario, metric: Metric) -> None:
    """The difference of one figure, dealt out to the kinds of change between two scenarios."""
    with st.skeleton(height=220):
        answer, caption, fig = _attribution(base, rival, metric)
    with parts.card(f"Why {rival.letter} differs from {base.letter}", answer, fig, "c.attribution"):
        st.caption(caption)


def by_operator(base: ComparedScenario, rival: ComparedScenario) -> None:
    """Operators of two scenarios beside each other."""
    assert base.report is not None
    assert rival.report is not None
    rows = tables.differences(base.report, rival.report)
    gains, answer, fig = rows[rows["gained"] != 0], "no operator differs", None
    if len(gains):
        largest = float(gains["gained"].iloc[0])
        verb = "saves" if largest > 0 else "costs"
        answer = f"{gains.index[0]} {verb} most, {fmt.seconds(abs(largest))} per request"
        fig = charts.operator_bars(gains, base.letter, rival.letter, parts.dark())
    with parts.card(f"Operators of {rival.letter} against {base.letter}", answer, fig, "c.operators"):
        if rows.dropna().empty:
            st.caption(texts.NO_COMMON_OPERATOR)
        with st.expander("All operators", key="open.c.operators", on_change="rerun") as expander:
            if expander.open:
                parts.table(tables.operators(rows, base.letter, rival.letter))


def show() -> None:
    """The page."""
    comparison.sync()
    now = comparison.current()
    columns = [column_of(at, entry) for at, entry in enumerate(now.entries)]
    base = columns[now.baseline]
    controls(now, columns)
    rows = partial(tables.rows, columns, base, parts.versions())
    files = {f"Comparison, {kind}": ("compare", rows) for kind in ("CSV", "JSON")}
    parts.bar(parts.report_now(), "compare", files)
    st.markdown(tables.verdict(columns, base))
    for column in columns:
        if column.report is None:
            why = f"**{column.letter} · {fmt.plain(column.name)} has no numbers:** {fmt.plain(column.reason)}"
            st.info(why, icon=":material/block:")
    running = [c for c in columns if c.report is not None]
    if not parts.mobile():
        side_by_side(columns, base)
    if running:
        left, right = st.columns(2, gap="small")
        with left:
            metric = one_metric(columns, base)
        with right:
            where_time(columns)
    if parts.mobile():
        side_by_side(columns, base)
    if running and (rival := _pair(columns, base)) is not None:
        where_gain(base, rival, metric)
        by_operator(base, rival)


show()
