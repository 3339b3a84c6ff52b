"""How fast is this system on this model, and what limits it?"""

from operator import attrgetter
from typing import Any

import streamlit as st

from app.shared import boundary, cached, fixes, glossary, link, parts, report_tables, specs
from app.shared import formats as fmt
from app.shared.figures import report as charts
from app.shared.widgets import sidebar
from app.shared.widgets.choices import pills
from app.shared.widgets.saved import presets
from app.views.explore import texts
from app.views.explore.report_file import cards, figures, report_html
from engine.cost.report import Report
from engine.cost.rows import OpRow
from engine.scenario import Scenario, encode
from engine.scenario.fields import GROUPS
from engine.scenario.overrides import apply
from engine.sweep.axis import FieldAxis, field_axes

_IN_ONE_ROW = 4  # cards of numbers
_NAME_MOST, _BAR = 320, 90  # widths of the operators' names and shares [px]
_LABEL_ROOM = 20  # characters of a label beside its help icon on half of a phone


def headline(report: Report, against: tuple[str, Report] | None) -> None:
    """A few numbers, each with its error band, and how they stand against the baseline."""
    name, base = against or (None, None)
    phone = parts.mobile()
    metrics = cards(report, base, phone, specs.assumed_price(report.scenario))
    key = "cards-against" if base and not phone else "cards"
    with st.container(key=key), st.grid(3 if len(metrics) > _IN_ONE_ROW else _IN_ONE_ROW, min_column_width=150):
        for card in metrics:
            narrow = phone and len(card.label + card.note) > _LABEL_ROOM  # there the label needs the icon's place
            help = None if narrow else card.help
            look: dict[str, Any] = {"delta_color": card.colour, "delta_arrow": "off"} if card.delta else {}
            st.metric(card.title, card.value, card.delta, border=True, height="stretch", help=help, **look)
    if name:
        st.caption(fmt.plain(f"Against {name}."))
    parts.trust(report)


def what_fits(report: Report) -> None:
    """Memory demand against capacity."""
    fig = charts.fits(report.memory, parts.dark()) if report.memory else None
    with parts.card("What fits where", glossary.answer_fits(report), fig, "fits"):
        if fig is None:
            st.caption(texts.NO_MEMORY_LEVEL)


def _knobs(scenario: Scenario) -> dict[str, FieldAxis]:
    """What may be turned one by one beside what is asked: no switch, it has no curve, and no cut, it has a page."""
    axes = field_axes(scenario, cached.options(encode(scenario))).values()
    apart = (*GROUPS["workload"], "switches", "split", "second_split")
    return {axis.path: axis for axis in axes if len(axis) > 1 and axis.field.path not in apart}


def _along(scenario: Scenario, knob: FieldAxis) -> list[tuple[Any, Report]]:
    """Values of one knob that can run and fit, each with its report."""
    side = knob.path.partition(".")[2]

    def at(value: Any) -> Scenario:
        tile = cached.fastest_tile(scenario, {int(side): value}) if side else ()
        return scenario.with_(tile=tile) if side else apply(scenario, knob.path, value)

    reports = ((value, cached.try_report(at(value))) for value in knob.values)
    return [(v, r) for v, r in reports if r is not None and r.fits]  # what does not run or fit is no point of the curve


def _first_gain(here: Report, knobs: dict[str, FieldAxis]) -> str | None:
    """The first knob whose values are few and quickly priced that gives more throughput; None where none does."""
    quick = (path for path in ("batch", "precision", "devices") if path in knobs)
    rates = ((path, (r.throughput_per_s for _, r in _along(here.scenario, knobs[path]))) for path in quick)
    return next((path for path, along in rates if max(along, default=0.0) > 1.005 * here.throughput_per_s), None)


@boundary.fragment
def turn_one_knob() -> None:
    """Throughput along one knob, everything else as it is."""
    scenario = link.current()
    knobs, here = _knobs(scenario), cached.report(encode(scenario))
    with parts.open_card("Turn one knob") as say:
        labels = {path: axis.label for path, axis in knobs.items()}
        knob = knobs[pills("Knob", labels, "knob", _first_gain(here, knobs))]
        points = _along(scenario, knob)
        auto = knob.now is None  # the present side of the tile is the one that was chosen
        now = next((i for i, (v, r) in enumerate(points) if (r.tile == here.tile if auto else v == knob.now)), None)
        word, answer = glossary.in_text(knob.label), texts.NO_OTHER_VALUE
        if now is not None and len(points) > 1:
            value, best = max(points, key=lambda point: point[1].throughput_per_s)
            gain, cost = best.throughput_per_s / here.throughput_per_s, fmt.times(best.latency_s / here.latency_s)
            name = f"{word} {glossary.value_label(value)}"
            answer = texts.KNOB_ANSWER.format(name=name, gain=fmt.times(gain), cost=cost)
            answer = answer if gain >= 1.005 else texts.NO_MORE_THROUGHPUT.format(knob=word)
        say(answer)
        if len(points) > 1:
            unit = f"{glossary.rate_unit(points[0][1].unit)}/s"
            names = [glossary.value_label(value) for value, _ in points]
            rates = [report.throughput_per_s for _, report in points]
            fig = charts.knob(names, rates, now, knob.label, unit, parts.dark())
            parts.figure(fig, f"Throughput along {word}: {answer}.", "knob")


@boundary.fragment
def operators(report: Report) -> None:
    """Every operator in time order; a row opens its detail."""
    frame, scenario = report_tables.operators(report), report.scenario
    with parts.card("Operators", texts.OPERATORS_ANSWER.format(count=len(frame))):
        number = st.column_config.NumberColumn
        columns: dict[str, Any] = {"Count": number(format="localized", help="Executions per request")}
        wide = "medium" if parts.mobile() else min(_NAME_MOST, parts.wide_enough(frame["Operator"]))
        columns["Operator"] = st.column_config.TextColumn(pinned=True, width=wide)
        columns["Share of time"] = st.column_config.ProgressColumn(format="%.1f%%", max_value=100, width=_BAR)
        columns["Limited by"] = st.column_config.TextColumn(help=glossary.HELP["bound"])
        columns["Peak used (%)"] = number(format=fmt.cells(frame["Peak used (%)"]), help=glossary.HELP["peak_used"])
        event = parts.table(frame, columns, select="rerun", key="v.operators")
        if op := parts.selected_row(event, report_tables.by_time(report)):
            kind = f"{op.kind}, {op.group}, {op.phase}" if isinstance(op, OpRow) else "no operator"
            st.markdown(f"**{fmt.plain(op.name)}** :gray[· {fmt.plain(kind)}]")
            rates = {r.scenario.batch: r.throughput_per_s for _, r in _along(scenario, _knobs(scenario)["batch"])}
            larger = any(rates[n] > 1.005 * report.throughput_per_s for n in rates if n > scenario.batch)
            st.markdown("  \n".join(fmt.plain(line) for line in report_tables.detail(op, report, larger)))


def assumptions(report: Report) -> None:
    """What the numbers rest on."""
    with st.expander(f"Assumptions ({len(report.assumptions)})", key="open.assumptions"):
        rows = sorted(report.assumptions, key=attrgetter("basis"))
        frame = {"Evidence": [row.basis for row in rows], "Assumption": [fmt.plain(row.text) for row in rows]}
        st.table(frame, hide_index=True, alt=parts.table_alt(frame))  # its cells break into lines


def show() -> None:
    """The page."""
    scenario = link.current()
    sidebar.scenario_controls(scenario)
    presets()
    report = cached.report(encode(scenario))
    files = report_tables.files(report, "explore")
    if report.fits:  # a machine that cannot hold the model has no report to read
        files["Report, HTML"] = ("report", lambda: report_html(report, specs.assumed_price(scenario)))
    parts.bar(report, "explore", files)
    if report.problems:
        fixes.violations(report)
    if not report.fits:
        what_fits(report)
        st.caption(texts.DOES_NOT_FIT)
        return
    if not report.problems:
        st.markdown(report.verdict)
    for text in report.better:
        st.caption(fmt.plain(text))
    against = parts.baseline_report()
    headline(report, against)
    baseline = against[1] if against and st.session_state.baseline else None
    panels = figures(report, parts.dark(), baseline, 270 if parts.mobile() else 400)

    def chart(key: str) -> None:
        question, answer, fig = panels[key]
        parts.chart(question, answer, fig, key)

    with st.container(horizontal=False, gap="small"):
        parts.beside(lambda: chart("breakdown"), lambda: chart("roofline"))
        parts.beside(lambda: what_fits(report), (lambda: chart("links")) if report.links else turn_one_knob)
    for key in panels:
        if key.startswith("timeline"):
            chart(key)
    if report.links:
        turn_one_knob()
    operators(report)
    assumptions(report)


show()
