"""What every page shares: scenario bar, figure cards, cards of numbers, footer."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit, urlunsplit

import pandas as pd
import streamlit as st

from app.shared import cached, comparison, glossary, link, report_tables
from app.shared import formats as fmt
from app.shared.figures.style import Figure
from app.shared.legible import flips
from app.shared.report_tables import Files
from engine.cost.error_bands import ErrorBand, told
from engine.cost.report import Report
from engine.kernels.sources import engine_version
from engine.published.nearest import nearest
from engine.resolve.presets import PRESETS
from engine.scenario import TOKEN_LIMIT, Scenario, decode
from engine.scenario.configuration import configuration
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

_NUMBERS_FIRST_S = 0.5  # drawing the numbers took this host 0.2 to 0.5 s after they had come
_BUTTONS = ["select2d", "lasso2d", "pan2d"] + [
    f"{action}2d" for action in ("zoom", "zoomIn", "zoomOut", "autoScale", "resetScale")
]
_IMAGES, _KINDS = "figures.as", ("SVG", "PNG")
_CHARACTER = 7.5  # at least the width of one of a table, of digits and capitals [px]
_PADDING = 24  # of a table's cell [px]
_WORDS = 20  # characters of a value, above which it is a sentence
_ROW = 33  # of a table: 2.1875 times the root's 15 px, as the browser rounds it [px]

_RIGHT = st.column_config.TextColumn(alignment="right")

QUESTIONS = glossary.WORDS["questions"]


def dark() -> bool:
    """Whether the reader's theme is dark."""
    return st.context.theme.type == "dark"


def mobile() -> bool:
    """Whether the reader's browser says it is a phone."""
    return "Mobi" in (st.context.headers.get("User-Agent") or "")


@contextmanager
def open_card(question: str, stretch: bool = True) -> Iterator[Callable[[str], object]]:
    """A bordered block whose title is a question; what it yields writes the answer beside it, at any time."""
    with st.container(border=True, height="stretch" if stretch else "content"):
        title = st.empty()
        yield lambda answer: title.markdown(f"**{question}** :gray[· {fmt.plain(answer)}]")


@contextmanager
def card(
    question: str, answer: str, fig: Figure | None = None, key: str = "", *, stretch: bool = True, **options: Any
) -> Iterator[None]:
    """A bordered block whose title is a question and its computed answer, with the figure that both are of."""
    with open_card(question, stretch) as say:
        say(answer)
        if fig is not None:
            figure(fig, f"{question}: {answer}.", key, **options)
        yield


def chart(question: str, answer: str, fig: Figure, key: str, **options: Any) -> None:
    """A card with nothing but a figure."""
    with card(question, answer, fig, key, **options):
        pass


def beside(*draws: Callable[[], object], widths: Sequence[int] = (1, 1)) -> None:
    """Parts of a page beside each other, one below the other on a phone."""
    for column, draw in zip(st.columns(widths, gap="small"), draws, strict=True):
        with column:
            draw()


def elsewhere(reason: str, presets: Iterable[str], key: str) -> None:
    """Why a page has nothing to show of the scenario, and presets of which it has."""
    st.info(fmt.plain(reason), icon=":material/info:")
    with st.container(horizontal=True, gap="small"):
        for id in presets:
            preset = PRESETS[id]
            st.button(preset.pill, on_click=link.open_scenario, args=(preset.scenario,), key=f"{key}.{id}")


def _numbers_first() -> None:
    """Let a browser draw the numbers above before its first chart, whose library it reads for a second or more.

    Once a session, where there is a browser. Measured on Explore: numbers after 1.6 to 2.7 s, not 4.5; charts no later.
    """
    if "charted" not in st.session_state and st.context.headers.get("User-Agent"):
        time.sleep(_NUMBERS_FIRST_S)
    st.session_state["charted"] = True


def figure(fig: Figure, alt: str, key: str, *, select: Callable[[], None] | None = None, modes: Any = "points") -> Any:
    """A figure with its takeaway for readers of screens; `select` is what a selection by one of the `modes` calls."""
    if tall := fig.to_dict()["layout"].get("height"):  # held while a browser reads the charts' library
        st.html(f"<style>.st-key-{key.replace('.', '-')} {{ min-height: {tall}px; }}</style>")
    _numbers_first()
    kind = (st.session_state.get(_IMAGES) or _KINDS[0]).lower()  # of file that the camera above it writes
    config = {
        "displaylogo": False,
        "displayModeBar": False if mobile() else "hover",
        "modeBarButtonsToRemove": _BUTTONS,
        "toImageButtonOptions": {"format": kind, "filename": f"inferscape_{key}", "scale": 2},
    }
    selection: dict[str, Any] = {"on_select": select, "selection_mode": modes} if select else {}
    return st.plotly_chart(fig, key=key, alt=alt, config=config, **selection)


def pair_names(scenario: Scenario) -> tuple[str, str]:
    """Names of the system, with how many of which device it uses, and of the workload."""
    catalog = default_catalog()
    system = catalog.system(scenario.system)
    device = catalog.device(system.devices[0].device).name
    count = f"{scenario.devices} × " if scenario.devices > 1 else ""
    kind, _, maker = device.partition(" (")  # a card that is named for its node: the node is named beside it
    if maker and maker.rstrip(")") in system.name:
        device = kind
    name = f"{count}{system.name}" if device in system.name else f"{system.name}, {count}{device}"
    return name, default_zoo().workload(scenario.workload).name


def _badges(scenario: Scenario, report: Report | None, trust_badge: bool) -> str:
    parts = []
    usual = link.usual_of(scenario)
    if usual is not None and scenario != usual and not link.matching(scenario):
        parts.append(":orange-badge[modified]")
    if scenario.overrides:
        parts.append(":violet-badge[what-if]")
    if report is not None:
        if trust_badge and report.error_band.relative is None:
            parts.append(":orange-badge[unvalidated]")
        count = sum(a.basis == "assumed" for a in report.assumptions)
        if count:
            parts.append(f":orange-badge[assumed ({count})]")
    return " ".join(parts)


def evidence(band: ErrorBand, badge: str = "") -> None:
    """How wide an error band is and from what, or why there is none: one quiet line."""
    st.caption(badge + fmt.plain(f"Error band: {told(band)}."))


def trust(report: Report) -> None:
    """How far a report can be trusted: its error band, or that it is unvalidated, and the nearest evidence with the way
    to it.
    """
    near = nearest(report.scenario)
    with st.container(gap=None, key="trust"):
        evidence(report.error_band, "" if report.error_band.relative is not None else ":orange-badge[unvalidated] ")
        if near is None:
            return
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(fmt.plain(f"Nearest evidence: {near.sentence}."), width="content")
            if near.distance:
                args = (decode(near.token),)
                st.button("Open its scenario", on_click=link.open_scenario, args=args, type="tertiary", key="nearest")
            else:
                query = link.address() | {"claim": near.id}
                st.page_link("views/published/page.py", label=":small[See it in Published]", query_params=query)


def table(
    data: Any,
    columns: dict[str, Any] | None = None,
    *,
    max_rows: int = 8,
    tall: int | None = 318,
    wide: Collection[str] = (),
    right: Collection[str] = (),
    select: Literal["ignore", "rerun"] | Callable[[], None] = "ignore",
    **options: Any,
) -> Any:
    """A frame, or what pandas makes one of, as high as up to `max_rows`, else `tall` [px; None: always as its rows],
    its first column pinned, each column of numbers to the digits it needs, those of ``wide`` to three digits of each,
    texts of ``right`` at its right edge, unless `columns` says more; `select` is what a click on a row does. Readers of
    screens hear what its columns are.
    """
    frame, number = pd.DataFrame(data), st.column_config.NumberColumn
    formats = {name: fmt.cells(frame[name]) for name in frame if frame[name].dtype.kind == "f"}
    formats |= dict.fromkeys(wide)
    digits = {name: number(format=format) for name, format in formats.items()}
    digits |= {name: number(format="localized") for name in frame if frame[name].dtype.kind in "iu"}
    first = {frame.columns[0]: st.column_config.Column(pinned=True)} if frame.columns[0] not in digits else {}
    written = dict.fromkeys((name for name, format in formats.items() if format is None), fmt.digits3)
    return st.dataframe(
        frame.style.format(written) if written else frame,
        hide_index=True,
        height="content" if tall is None or len(frame) <= max_rows else tall,
        column_config=first | digits | dict.fromkeys(right, _RIGHT) | (columns or {}),
        placeholder=fmt.UNKNOWN,
        alt=table_alt(frame),
        on_select=select,
        selection_mode="single-row",
        **options,
    )


def selected_row(event: Any, rows: Sequence[Any]) -> Any:
    """Of ``rows``, the one that is selected in their table; None where none is, or it is gone."""
    at = event["selection"]["rows"]
    return rows[at[0]] if at and at[0] < len(rows) else None


def table_alt(frame: Iterable[Any]) -> str:
    """What a reader of screens hears of a table, or of its columns by their names."""
    return f"Table of {', '.join(map(str, frame))}"


def metrics(rows: Sequence[tuple[str | None, ...]], across: int) -> None:
    """Numbers in cards, so many beside each other: label, value, then the quiet line below and help, if it has any."""
    look: dict[str, Any] = {"border": True, "height": "stretch", "delta_color": "off", "delta_arrow": "off"}
    with st.grid(across, min_column_width=150):
        for row in rows:
            label, value, below, help = (*row, None, None)[:4]
            st.metric(str(label), value, below, help=help, **look)


def refusal(problem: object) -> None:
    """What was asked and is not done, in its one sentence."""
    st.warning(fmt.plain(fmt.sentence(problem)), icon=":material/edit_off:")


def wide_enough(texts: Iterable[str]) -> int:
    """Width of a table's column that cuts none of its texts off: a right-aligned one loses its first digits. [px]"""
    return round(_CHARACTER * max(map(len, texts), default=0)) + _PADDING


def value_column(name: str, cells: Collection[str]) -> Any:
    """A column of numbers with their units, right-aligned; left-aligned and no wider where some are sentences."""
    short = [cell for cell in cells if len(cell) <= _WORDS]
    side = "right" if len(short) == len(cells) else "left"
    return st.column_config.TextColumn(alignment=side, width=wide_enough([name, *short]))


def _icon(name: str) -> str | None:
    """An icon beside a word; a phone has no room for it."""
    return None if mobile() else f":material/{name}:"


def run_keys() -> str | None:
    """Keys that run what a page has to run; a phone has none."""
    return None if mobile() else "Ctrl+Enter"


def tall(frame: pd.DataFrame, max_rows: int = 10) -> int:
    """Height of a table of at most so many rows: one that is told keeps its place while the table is loaded. [px]"""
    return _ROW * (min(len(frame), max_rows) + 1) + 3


def report_now() -> Report | None:
    """Report of the session's scenario, None where its pair can't run: the bar then says so."""
    return cached.try_report(link.current())


def baseline_report() -> tuple[str, Report] | None:
    """Name and report of the baseline; None where there is none, it can't be evaluated, or it is this scenario."""
    token = link.baseline()
    report = cached.try_report(decode(token)) if token and token != st.session_state.token else None
    return None if report is None else (short_name(report.scenario), report)


def short_name(scenario: Scenario) -> str:
    """A scenario's name wherever one stands for it: its system with count, precision, partition and batch."""
    return f"{default_catalog().system(scenario.system).name}, {configuration(scenario)}"


def bar(report: Report | None, page: str, files: Files | None = None) -> None:
    """The scenario in two lines with its badges; pin, share and export beside it: `files`, else the scenario's own."""
    left, right = st.columns([9, 11] if st.session_state.before else 2, vertical_alignment="center")
    with left, st.container(gap=None):
        if page in QUESTIONS:
            st.markdown(f"**{QUESTIONS[page]}**")
        else:
            _title(report, page)
    phone = mobile()
    side = "left" if phone else "right"
    with right, st.container(horizontal=True, horizontal_alignment=side, vertical_alignment="center", gap="small"):
        beside = "Put this scenario beside others."
        if page == "explore" and st.button("Compare", icon=_icon("view_column"), key="compare", help=beside):
            comparison.compare_now()
        if page not in QUESTIONS:
            if st.session_state.before:
                word, help = "Undo" if phone else "", "Undo this change."
                st.button(word, icon=_icon("undo"), on_click=link.undo, key="undo.bar", help=help)
            pinned = st.session_state.baseline == st.session_state.token
            st.button(
                "Pinned" if pinned else "Pin" if phone else "Pin as baseline",
                icon=_icon("keep"),
                on_click=partial(link.pin_scenario, None if pinned else link.current()),
                disabled=report is None,
                key="pin",
                help=glossary.HELP["baseline"],
            )
        share()
        if report is not None:
            exports(files or report_tables.files(report, page), report_tables.names(report))
    toolbars(page_files=bool(files) or page in ("explore", "sweep"))


def _title(report: Report | None, page: str) -> None:
    """The scenario in two lines, and what it is pinned against; Explore has its trust below the numbers."""
    scenario = link.current()
    system, workload = pair_names(scenario)
    head, hidden = fmt.words(glossary.knobs(scenario, link.usual_of(scenario)))
    suffix = f" +{len(hidden)} more" if hidden else ""
    st.markdown(f"**{fmt.plain(system)}** · {fmt.plain(workload)}", help=" · ".join(hidden) or None)
    st.markdown(f":gray[{fmt.plain(head + suffix)}] {_badges(scenario, report, page != 'explore')}")
    against = baseline_report()
    if against and st.session_state.baseline:
        st.button(f"vs {against[0]} · Unpin", on_click=link.pin_scenario, type="tertiary", key="unpin")


def toolbars(page_files: bool) -> None:
    """Hides what of the tables' toolbars misleads or is in the way.

    Their download has no tokens, units or versions and lets formulas run: not beside files of the page's own. On a
    phone the whole toolbar stands on the title above its table, always.
    """
    button = '[data-testid="stElementToolbarButton"]:has(button[aria-label^="Download as CSV"])'
    hidden = [button] if page_files else []
    if mobile():
        hidden.append('[data-testid="stElementToolbar"]')
    if hidden:
        st.html(f"<style>{', '.join(hidden)} {{ display: none; }}</style>")


def share() -> None:
    """The address of what is shown, to copy."""
    token = st.session_state.token
    with st.popover("Share", icon=_icon("link")):
        query = urlencode(st.query_params.to_dict() | link.address(), safe="~.,")  # a page's own view travels too
        parts = urlsplit(st.context.url or "")
        url = urlunsplit((parts.scheme, parts.netloc, parts.path or "/", query, ""))
        st.code(url, language=None, wrap_lines=True)
        long = " Some mail and chat programs cut links this long." if len(url) > TOKEN_LIMIT else ""
        st.caption(f"{len(url):,} characters · scenario version {token[0]} · every field is in the link.{long}")


_MIME = {"csv": "text/csv", "json": "application/json", "html": "text/html"}


def export(label: str, stem: str, names: Sequence[str], make: Callable[[], Any], **options: Any) -> None:
    """A file to download; `names` end its stem, and its label ends with its kind."""
    kind = label.rpartition(" ")[2].lower()
    st.download_button(
        label,
        data=lambda: fmt.file_text(kind, make()),
        file_name=fmt.file_name(stem, names, kind, datetime.now(UTC).date()),
        on_click="ignore",
        mime=_MIME[kind],
        key=f"export.{label}",
        **options,
    )


def exports(files: Files, names: Sequence[str]) -> None:
    """Files to download, in a menu."""
    with st.popover("Export", icon=_icon("download")):
        for label, (stem, make) in files.items():
            export(label, stem, names, make, width="stretch")
        if not mobile():  # no bar stands above a figure there
            st.segmented_control(
                "Figures, by the camera above each",
                _KINDS,
                default=None if _IMAGES in st.session_state else _KINDS[0],
                required=True,
                width="stretch",
                key=_IMAGES,
                persist_state="session",
            )


def versions() -> dict[str, str]:
    """Of the engine and of the catalogs, as every report has them."""
    return {"engine": engine_version(), "catalog": default_catalog().digest, "zoo": default_zoo().digest}


def footer() -> None:
    """Versions, and the way to the evidence."""
    text = " · ".join(f"{name} {value}" for name, value in versions().items())
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(text, width="content")
        st.page_link("views/published/page.py", label=":small[How these numbers are made]", query_params=link.address())
        flips()
