"""Can I trust these numbers?"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import streamlit as st

from app.shared import cached, claims, link, parts
from app.shared import formats as fmt
from app.shared.boundary import callback
from app.shared.figures import report as charts
from app.shared.widgets.choices import choose, remember, stray, text_input
from app.views.published import measured, texts
from engine.cost import error_bands
from engine.published import headline, validate
from engine.published.nearest import TITLES
from engine.scenario import decode

_COLUMNS = ("Claim", "Metric", "Published", "Predicted", "Unit", "Error (%)", "Allowed", "Status", "Role")
"""Of the table: as many as no edge cuts; a row picked says the rest beside the chart, and the files have it."""
_ON_A_PHONE = ("Metric", "Error (%)", "Predicted", "Published", "Unit", "Allowed", "Status", "Role", "Claim")
_NUMBER = Path(__file__).parent / "number.md"


def filters(rows: list[claims.Row]) -> list[claims.Row]:
    """The sidebar: which claims are listed."""
    with st.sidebar:
        documents = {id: TITLES[id] for id in sorted({row["document"] for row in rows})}
        document = choose("Document", {"all": "All"} | documents, "document")
        role = choose("Role", texts.ROLES, "role", widget=st.segmented_control, required=True, help=texts.ROLE_HELP)
        status = choose("Status", texts.STATUS, "status")
        needle = text_input("Search", "claim", placeholder="metric, system, id", max_chars=60)
    return [
        row
        for row in rows
        if document in ("all", row["document"])
        and role in ("all", claims.role(row))
        and status in ("all", claims.status(row))
        and (needle or "").lower() in f"{claims.metric(row['metric'])} {claims.of(row)} {row}".lower()
    ]


def counters(rows: list[claims.Row]) -> None:
    """Independent timing predictions apart from the rest, and what is not predicted."""
    head = headline.Headline(rows)
    kinds = headline.other_kinds(rows)
    count, inside = (sum(kind[at] for kind in kinds) for at in (1, 2))
    missed = texts.INDEPENDENT_MET_HELP.format(missed=", ".join(head.missed) or "none")
    listing = "; ".join(f"{number} {words}, {met} met" for words, number, met in kinds) + "."
    middle, late = (fmt.UNKNOWN if error is None else fmt.band(error) for error in (head.median, head.p90))
    independent, missing = head.count - len(head.missed), sum(row["predicted"] is None for row in rows)
    cells = [
        ("Independent :gray[met]", f"{independent} of {head.count}", f"{len(head.missed)} missed", missed),
        ("Other figures :gray[met]", f"{inside} of {count}", texts.NO_EVIDENCE, listing),
        ("Typical error :gray[median]", middle, f"{late} {texts.NINE_TEN}", texts.TYPICAL_ERROR_HELP),
        ("Not predicted", f"{missing} of {len(rows)}", texts.WITH_REASON),
    ]
    parts.metrics(cells, 4)


def detail(row: claims.Row) -> None:
    """One claim in full."""
    unit = claims.unit(row)
    st.markdown(f"**{fmt.plain(row['id'])}** :gray[· {fmt.plain(TITLES[row['document']])}, {fmt.plain(row['where'])}]")
    name = claims.metric(row["metric"])
    st.markdown(f"{fmt.plain(name[:1].upper() + name[1:])}: {fmt.plain(claims.of(row, ', '))}")
    values = [fmt.plain(claims.amount(row[key], unit)) for key in ("published", "predicted")]
    error = f", {fmt.deviation(row['error'])}" if row["error"] is not None else ""
    st.markdown(f"Published **{values[0]}**, predicted **{values[1]}**{error}")
    evidence = ", ".join(text for text in dict.fromkeys((row["kind"], claims.role(row))) if text)
    st.caption(f"Allowed {claims.tolerance(row['tolerance'])}; {evidence}; {claims.status(row)}.")
    if row["naive"]:
        st.caption(
            texts.NULL_MODEL.format(
                name=row["naive"]["name"], predicted=fmt.plain(claims.amount(row["naive"]["predicted"], unit))
            )
        )
    for text in (row["reason"], row["note"]):
        if text:
            st.markdown(fmt.plain(text))
    if row["token"] and st.button("Open as scenario", type="primary", key="open.claim"):
        link.show("explore", decode(row["token"]))


def evidence(rows: list[claims.Row], ids: list[str]) -> None:
    """The error of every prediction, and the claim of all `ids` that is picked in the chart or a table."""
    id, commit = remember("picked", "", lambda text: (text, None) if text in ids else ("", stray("Claim", ids, text)))

    def pick_point() -> None:
        for point in st.session_state["v.claims"]["selection"]["points"]:
            if "customdata" in point:
                data = point["customdata"]
                commit(data[0] if isinstance(data, list) else data)

    if not rows:
        st.caption(texts.NO_CLAIM_MATCHES)
        return
    points = claims.drawable(rows)
    far = [row["id"] for row in claims.worst(points)]
    left, right = st.columns([7, 3], gap="small")
    with left:
        inside = sum(bool(row["within"]) for row in points)
        words = sum(row["predicted"] is not None for row in rows) - len(points)
        answer = texts.ERRORS_ANSWER.format(inside=inside, count=len(points), words=words)
        fig = charts.prediction_errors(points, parts.dark(), far, 280 if parts.mobile() else 560)
        parts.chart(texts.ERRORS, answer, fig, "v.claims", select=callback(pick_point))
    now = next((row for row in rows if row["id"] == id), None)
    with right, st.container(border=True, height="stretch"):
        st.markdown(texts.ONE_CLAIM)
        detail(now or next(iter(claims.worst(rows)), rows[0]))
    times = [row for row in rows if row["kind"] == "timing"]
    quantities = [row for row in rows if row["kind"] != "timing"]
    with parts.card(texts.TIMES, f"{len(times)} listed", stretch=False):
        table(times, "v.table", commit)
    label = texts.ELSE_COMPARED.format(count=len(quantities))
    with st.expander(label, expanded=bool(quantities) and not times, key="open.rest"):
        table(quantities, "v.rest", commit)


def figures(rows: list[claims.Row]) -> None:
    """A figure, table or section of a document: the values it prints, and what is predicted for each."""
    groups = claims.by_figure(rows, TITLES)
    if not groups:
        return
    fullest = max(groups, key=lambda name: len(groups[name]))
    name = choose(texts.FIGURES.format(count=len(groups)), {name: name for name in groups}, "figure", fullest)
    group = groups[name]
    answer = texts.FIGURE_ANSWER.format(inside=sum(bool(row["within"]) for row in group), count=len(group))
    fig = charts.document_figure(claims.labels(group), group, claims.unit(group[0]), parts.dark())
    parts.chart(name, answer, fig, "v.figure")


def table(rows: list[claims.Row], key: str, commit: Callable[[str], None]) -> None:
    """Claims that pass the filters; a row picked is handed to `commit` (in a callback)."""
    frame = claims.frame(rows)
    if not rows:
        st.caption(texts.NO_CLAIM_MATCHES)
        return

    def select() -> None:
        if row := parts.selected_row(st.session_state[key], rows):
            commit(row["id"])

    parts.table(
        frame,
        {
            "Claim": st.column_config.TextColumn(pinned=not parts.mobile(), width="small"),
            "Published": parts.value_column("Published", frame["Published"]),
            "Predicted": parts.value_column("Predicted", frame["Predicted"]),
            "Error (%)": st.column_config.NumberColumn(format="%+.1f"),
        },
        key=key,
        column_order=_ON_A_PHONE if parts.mobile() else _COLUMNS,
        select=callback(select),
    )


def bands() -> None:
    """Every cell of evidence: its band, and what bands found without a row's source hold."""
    cells = error_bands.cells()
    inside, n = (sum(row[name] for row in cells) for name in ("held", "of"))
    having = sum(row["relative"] is not None for row in cells)
    answer = texts.BANDS_ANSWER.format(
        having=having, kinds=len(cells), inside=inside, all=n, share=fmt.percent(inside / n) if n else "none"
    )
    with st.expander(f"Error bands: {answer}", key="open.bands"):
        frame = [
            {
                "Kind of work": row["said"],
                "Error band": fmt.band(row["relative"]),
                "Measured rows": row["rows"],
                "Sources": row["sources"],
                "Publications": row["publications"],
                "Held": f"{row['held']} of {row['of']}" if row["of"] else "",
            }
            for row in sorted(cells, key=lambda row: row["relative"] is None)
        ]
        parts.table(frame)
        st.caption(texts.BANDS_CAPTION)


def show() -> None:
    """The page."""
    slot = st.container()
    with st.skeleton(height=380):
        rows = cached.answer(validate)
    selection = filters(rows)
    with slot:
        export = partial(claims.export, rows, parts.versions())
        files = {"Claims, CSV": ("published", export), "Claims, JSON": ("published", export)}
        parts.bar(parts.report_now(), "published", files)
    with st.expander(texts.NUMBER, key="open.number"):
        st.markdown(_NUMBER.read_text())
    st.markdown(headline.sentence(rows))
    counters(rows)
    evidence(selection, [row["id"] for row in rows])
    figures(selection)
    bands()
    measured.section()


show()
