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
from engine.scenario.fields import field

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


def _values(scenario: Scenario) -> dict[str, tuple[str, list[Any]]]:
    """What each knob is called and may be set to, everything else as it is; of the tile, a knob each."""
    options = cached.options(encode(scenario))
    values: dict[str, list[Any]] = {
        "batch": sorted({*options.batches, scenario.batch}),
        "precision": list(options.formats),
        "devices": list(options.device_counts),
    } | {path: [None, *choices] for path, choices in options.by_family.items()}
    knobs = {path: (field(path).label, choices) for path, choices in values.items()}
    return knobs | {f"tile.{at}": (knob.label, list(knob.values)) for at, knob in enumerate(options.knobs)}


def _along(scenario: Scenario, knob: str) -> list[tuple[str, Report]]:
    """Reports along one knob, those values that can run and fit."""
    result, (path, _, at) = [], knob.partition(".")
    for value in _values(scenario)[knob][1]:
        report = cached.try_report(scenario, **{path: cached.fastest_tile(scenario, {int(at): value}) if at else value})
        if report is not None and report.fits:  # what is not offered with the rest has no point on the curve
            result.append((glossary.value_label(field(path).display(value)), report))
    return result


def _first_gain(scenario: Scenario, here: Report, labels: dict[str, str]) -> str | None:
    """The first knob whose values are few and quickly priced that gives more throughput; None where none does."""
    quick = (path for path in ("batch", "precision", "devices") if path in labels)
    rates = ((path, (r.throughput_per_s for _, r in _along(scenario, path))) for path in quick)
    return next((path for path, along in rates if max(along, default=0.0) > 1.005 * here.throughput_per_s), None)


@boundary.fragment
def turn_one_knob() -> None:
    """Throughput along one knob, everything else as it is."""
    scenario = link.current()
    labels = {path: label for path, (label, values) in _values(scenario).items() if len(values) > 1}
    here = cached.report(encode(scenario))
    with parts.open_card("Turn one knob") as say:
        knob = pills("Knob", labels, "knob", _first_gain(scenario, here, labels))
        points = _along(scenario, knob)
        present = (scenario.with_(tile=()), here.tile)
        now = next((i for i, (_, r) in enumerate(points) if (r.scenario.with_(tile=()), r.tile) == present), None)
        word, answer = glossary.in_text(labels[knob]), texts.NO_OTHER_VALUE
        if now is not None and len(points) > 1:
            name, best = max(points, key=lambda point: point[1].throughput_per_s)
            gain, cost = best.throughput_per_s / here.throughput_per_s, fmt.times(best.latency_s / here.latency_s)
            answer = texts.KNOB_ANSWER.format(name=f"{word} {name}", gain=fmt.times(gain), cost=cost)
            answer = answer if gain >= 1.005 else texts.NO_MORE_THROUGHPUT.format(knob=word)
        say(answer)
        if len(points) > 1:
            unit = f"{glossary.rate_unit(points[0][1].unit)}/s"
            names, rates = [name for name, _ in points], [report.throughput_per_s for _, report in points]
            fig = charts.knob(names, rates, now, labels[knob], unit, parts.dark())
            parts.figure(fig, f"Throughput along {word}: {answer}.", "knob")


@boundary.fragment
def operators(report: Report) -> None:
    """Every operator in time order; a row opens its detail."""
    frame = report_tables.operators(report)
    with parts.card("Operators", texts.OPERATORS_ANSWER.format(count=len(frame))):
        number = st.column_config.NumberColumn
        columns: dict[str, Any] = {"Count": number(format="localized", help="Executions per request")}
        wide = "medium" if parts.mobile() else min(_NAME_MOST, parts.wide_enough(frame["Operator"]))
        columns["Operator"] = st.column_config.TextColumn(pinned=True, width=wide)
        columns["Share of time"] = st.column_config.ProgressColumn(
            format="%.1f%%", min_value=0, max_value=100, width=_BAR
        )
        columns["Limited by"] = st.column_config.TextColumn(help=glossary.HELP["bound"])
        columns["Peak used (%)"] = number(format=fmt.cells(frame["Peak used (%)"]), help=glossary.HELP["peak_used"])
        event = parts.table(frame, columns, select="rerun", key="v.operators")
        if op := parts.selected_row(event, report_tables.by_time(report)):
            kind = f"{op.kind}, {op.group}, {op.phase}" if isinstance(op, OpRow) else "no operator"
            st.markdown(f"**{fmt.plain(op.name)}** :gray[· {fmt.plain(kind)}]")
            wider = (r for _, r in _along(report.scenario, "batch") if r.scenario.batch > report.scenario.batch)
            larger = any(r.throughput_per_s > 1.005 * report.throughput_per_s for r in wider)
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
