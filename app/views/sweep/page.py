"""Which designs are best under my limits?"""

from collections.abc import Mapping

import numpy as np
import streamlit as st

from app.shared import boundary, cached, comparison, jobs, link, parts, report_tables
from app.shared import formats as fmt
from app.shared.boundary import callback
from app.shared.glossary import Metric
from app.shared.widgets.choices import say
from app.views.sweep import axes, below_front, front, spaces, tables, texts
from app.views.sweep import background as sweep_run
from app.views.sweep import controls as space_controls
from app.views.sweep.outcome import Outcome, SweptDesign
from app.views.sweep.spaces import PageSpace
from engine.cost.report import Report
from engine.scenario import encode
from entries.schema import InputError

_HEIGHT = 500  # px of the front, and of what stands in its place


def run(report: Report, space: PageSpace, metrics: Mapping[str, Metric], key: str) -> None:
    """Sweep with progress and a way to stop; what is done is kept however it ends."""
    try:
        by_search = not space.serving and space_controls.searching(space.size)
        running = sweep_run.RunningSweep(report, space, metrics, key, by_search)
        st.session_state.sweep_run = running
        if running.outcome is None:
            with jobs.line("sweep") as bar, st.skeleton(height=_HEIGHT):
                jobs.follow(running, bar)
    except InputError as error:
        say(spaces.PARAM, texts.NOTHING_RUN.format(why=fmt.sentence(error)))


def last_outcome() -> Outcome | None:
    """What the last sweep of this session found, stopped or not."""
    running: sweep_run.RunningSweep | None = st.session_state.get("sweep_run")
    outcome = running.finish() if running else None
    return outcome if outcome is not None and outcome.result.counts.done else None


def selection(outcome: Outcome) -> SweptDesign:
    """The selected design: what was clicked, else the knee of the front."""
    return outcome.design(st.session_state.get("sweep_design")) or outcome.knee


def _select(key: str) -> None:
    """A design was clicked, or a box drawn, in one of the charts (a callback)."""
    event, designs = st.session_state[key], st.session_state.sweep_run.outcome.designs
    columns = designs.upright() if key == "upright" else designs.columns
    if (number := front.design_number(event)) is not None:
        st.session_state.sweep_design = number
    elif ranges := front.box_ranges(event, columns, along=key == "upright"):
        st.session_state.sweep_ranges = st.session_state.get("sweep_ranges", {}) | ranges


def pareto(outcome: Outcome) -> np.ndarray:
    """The Pareto front over its cloud; numbers of the designs inside the box that is drawn, of all where none is."""
    designs, ranges, noun = outcome.designs, st.session_state.get("sweep_ranges", {}), spaces.noun(outcome.serving)
    x, y = (outcome.metrics[name] for name in outcome.objectives[:2])
    better = f"{'right' if x.rising else 'left'} and {'up' if y.rising else 'down'}"
    answer = texts.FRONT_ANSWER.format(
        count=len(outcome.front), feasible=fmt.count(outcome.result.counts.kept), better=better, noun=noun
    )
    inside, dark, phone = designs.within(ranges), parts.dark(), parts.mobile()
    labels = {column.name: column.label for column in designs.columns}
    number, limits = selection(outcome).number, outcome.report.scenario.limits.of_figures
    with parts.card("Pareto front", answer):
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            colour = st.selectbox(
                "Colour by",
                ["", *labels],
                format_func=lambda name: labels.get(name, "Front and cloud"),
                key="sweep.colour",
                persist_state="session",
            )
            mouse = texts.PICK
            if not phone:  # there a drag moves the page
                mouse = st.segmented_control(
                    texts.MOUSE, [texts.PICK, texts.BOX], default=texts.PICK, required=True, key="sweep.mouse"
                )
                clear = callback(lambda: st.session_state.update(sweep_ranges={}))  # keep every design again
                st.button("Clear", on_click=clear, disabled=not ranges, key="sweep.clear")
        modes, height = "box" if mouse == texts.BOX else "points", 330 if phone else _HEIGHT
        fig = front.chart(designs, ranges, colour, number, outcome, limits, dark, height)
        alt = texts.FRONT_ALT.format(x=x.label, y=y.label, answer=answer)
        parts.figure(fig, alt, "front", select=callback(lambda: _select("front")), modes=modes)
        count, on_front = int(inside.sum()), int(inside[len(inside) - designs.front :].sum())
        caption = texts.INSIDE.format(inside=count, count=len(inside), front=on_front, noun=noun)
        if not phone:
            st.caption(caption if ranges else texts.BRUSH_HELP.format(count=len(inside), noun=noun))
    return designs.numbers[inside]


def upright(outcome: Outcome) -> None:
    """The Pareto front along all axes at once; a phone has no room for them."""
    designs, noun = outcome.designs, spaces.noun(outcome.serving)
    if len(columns := designs.upright()) < 3 or designs.front < 2 or parts.mobile():
        return
    modes = "box" if st.session_state.get("sweep.mouse") == texts.BOX else "points"
    ranges, answer = st.session_state.get("sweep_ranges", {}), texts.UPRIGHT_ANSWER.format(noun=noun)
    fig = front.upright(designs, ranges, selection(outcome).number, parts.dark())
    with parts.card(texts.UPRIGHT, answer):
        alt = texts.UPRIGHT_ALT.format(axes=", ".join(column.label for column in columns), noun=noun)
        parts.figure(fig, alt, "upright", select=callback(lambda: _select("upright")), modes=modes)


def card(outcome: Outcome) -> None:
    """The selected design beside the current one, and where to take it."""
    design = selection(outcome)
    places = {d.number: f"{at} of {len(outcome.front)}" for at, d in enumerate(outcome.front, 1)}
    where = places.get(design.number, texts.NOT_FRONT)
    noun = spaces.noun(outcome.serving)
    with parts.card(texts.SELECTED.format(noun=noun.removesuffix("s")), where):
        figures = (outcome.metrics[name].text(design.figures[name]) for name in outcome.objectives)
        st.markdown(" · ".join(f"**{fmt.plain(figure)}**" for figure in figures))
        scenario = outcome.space.scenario(design.number)
        rows = tables.pair(outcome, design, None if outcome.serving else cached.report(encode(scenario)))
        lines = ["| | Current | Selected |", "|:--|--:|--:|"]
        st.container(key="pair").markdown(
            "\n".join([*lines, *(f"| {' | '.join(map(fmt.plain, row))} |" for row in rows)])
        )
        with st.container(horizontal=True, gap="small"):
            explore = st.button("Open in Explore", type="primary", key="sweep.open")
            load = outcome.serving and st.button("Open in Load", key="sweep.load")
            beside = st.button("Compare", key="sweep.compare")
        if outcome.serving:
            scenario = below_front.scenario_of(outcome, design)
        if beside:
            comparison.compare_now(scenario)
        if explore:
            link.show("explore", scenario)
        if load:
            link.show("traffic", scenario, below_front.levers(outcome, design))
        if design.alike > 1:
            st.caption(texts.ALIKE.format(alike=design.alike, noun=noun))


def front_table(outcome: Outcome, inside: np.ndarray) -> None:
    """Designs of the front that are kept, as a table; a row selects its design."""
    designs = list(outcome.front)
    if st.session_state.get("sweep_ranges"):
        designs = [d for d in designs if d.number in set(inside.tolist())]
    hint = texts.SELECT_ONE.format(count=len(designs)) if len(designs) > 1 else "1 row"
    if len(designs) < len(outcome.front):
        hint = texts.BRUSHED.format(shown=len(designs), count=len(outcome.front))
    with parts.card(texts.FRONT.format(noun=spaces.noun(outcome.serving).capitalize()), hint):
        if not designs:
            st.caption(texts.NONE_KEPT)
            return
        frame = tables.frame(outcome, designs)

        def select() -> None:
            if design := parts.selected_row(st.session_state["sweep.table"], designs):
                st.session_state.sweep_design = design.number

        parts.table(frame, select=select, key="sweep.table")
        if alike := tables.alike(outcome, designs):
            st.caption(texts.ALIKE_IN.format(alike=fmt.plain(alike)))
        names, icon = report_tables.names(outcome.report), ":material/download:"
        parts.export(texts.EXPORT, "sweep", names, lambda: tables.rows(outcome), icon=icon, help=texts.EXPORT_HELP)


@boundary.fragment
def results(outcome: Outcome) -> None:
    """Front and selected design: brushing and opening a design rerun these and nothing else."""
    left, right = st.columns([62, 38], gap="small")
    with left:
        inside = pareto(outcome)
    with right:
        card(outcome)
        if not outcome.serving:
            below_front.moves(outcome, selection(outcome))
    upright(outcome)
    front_table(outcome, inside)


def show() -> None:
    """The page."""
    scenario = link.current()
    report = cached.report(encode(scenario))
    metrics = spaces.metrics(report)
    names = list(metrics)
    first = not st.session_state.get("sweep_seen")
    st.session_state.sweep_seen = True
    ask = spaces.SpaceChoice(scenario, names)
    space = ask.space
    figures = spaces.figure_names(names, scenario, dict(space.axes))
    metrics = spaces.operating(space, scenario) if space.serving else {name: metrics[name] for name in figures}
    running: sweep_run.RunningSweep | None = st.session_state.get("sweep_run")
    covered = running is not None and running.covers(scenario, space)
    usual = first and not ask.wrong and space.size <= axes.room(scenario)
    key = f"{spaces.write(space)} {st.session_state.token}"
    start = space_controls.controls(ask, metrics, names) or st.session_state.pop("sweep_wanted", usual or covered)
    outcome = last_outcome()
    parts.bar(report, "sweep")
    if start:
        st.session_state.sweep_design, st.session_state.sweep_ranges = None, {}
        run(report, space, metrics, key)
        outcome = last_outcome()
    if outcome is None:
        if "sweep_run" in st.session_state:
            st.info(texts.STOPPED_BEFORE_ANY)
        empty(space)
    else:
        answer(outcome, key)
    if not space.serving:
        below_front.change(report, space, metrics)


def answer(outcome: Outcome, key: str) -> None:
    """What a sweep found, and whether it is what the page asks for now."""
    if outcome.key != key:
        st.caption(texts.OUT_OF_DATE)
    st.markdown(tables.summary(outcome))
    if outcome.partial:
        st.info(
            texts.STOPPED.format(
                done=fmt.of(outcome.result.counts.done, outcome.space.size, ""),
                why=outcome.why and f": {outcome.why}",
                noun=spaces.noun(outcome.serving),
            ),
            icon=":material/stop_circle:",
        )
    if outcome.front:
        results(outcome)
    else:
        st.error(fmt.plain(tables.unmet(outcome)), icon=":material/block:")


def empty(space: PageSpace) -> None:
    """What would be swept, and the button that does it."""
    candidates = axes.candidates(link.current())
    labels = ", ".join(candidates[path].label for path, _ in space.axes)
    ready = texts.READY.format(size=fmt.count(space.size), noun=spaces.noun(space.serving))
    st.markdown(texts.READY_ALONG.format(ready=ready, axes=fmt.plain(labels)))
    if st.button(space_controls.action(space), key="sweep.run", icon=":material/play_arrow:"):
        st.session_state.sweep_wanted = True
        st.rerun()


show()
