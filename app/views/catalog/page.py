"""Where does each number come from?"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app.shared import claims, glossary, link, machine, parts, specs
from app.shared import formats as fmt
from app.shared.boundary import callback
from app.shared.report_tables import columns
from app.shared.widgets import pickers
from app.shared.widgets.choices import choose, remember, stray, text_input
from app.views.catalog import texts
from app.views.catalog.upload import open_entry, own_network, systems
from engine.devices import family as family_of
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from model_zoo.ops import Op

_PROBLEMS = 10  # files of a user that are told one by one
_MOST_NODES = 40
_NAME = 215  # of the list, which leaves its kind room beside it [px]


def _get(section: str, id: str) -> Any:
    source = default_zoo() if section == "workloads" else default_catalog()
    return getattr(source, section.removesuffix("s"))(id)


def _of(section: str, entry: Any) -> str:
    """What kind of thing an entry is, in a word or two."""
    if section == "systems":
        return pickers.kind_of(entry.id)
    if section == "devices":
        return family_of(entry.kind).label
    if section == "workloads":
        return pickers.KINDS.get(entry.family, entry.family)
    return section.removesuffix("s")


def pick() -> tuple[str, str | None]:
    """The sidebar and the list: section and the id chosen."""
    with st.sidebar:
        section = choose("Section", texts.SECTIONS, "section")
        needle = text_input("Search", "find", placeholder=texts.SEARCH_PLACEHOLDER, max_chars=60)
    ids = default_zoo().ids() if section == "workloads" else default_catalog().ids(section)
    entries = dict(sorted(((id, _get(section, id)) for id in ids), key=lambda pair: pair[1].name.casefold()))
    query = (needle or "").lower()
    result = _matching(entries, query)
    answer = f"{len(result)} of {len(entries)} {texts.SECTIONS[section].lower() if section != 'nics' else 'NICs'}"
    with parts.card("Entries", answer, stretch=False):
        if not result:
            st.caption(texts.NOTHING_MATCHES)
            return section, None
        frame = {
            "Name": [entries[id].name for id in result],
            "Kind": [_of(section, entries[id]) for id in result],
        }

        def read(text: str) -> tuple[str, str | None]:
            return (text, None) if text in entries else (result[0], stray("Entry", ids, text))

        id, commit = remember("entry", result[0], read, of=section)
        key = f"v.catalog.{section}{query and f'.{query}'}"  # a row picked in another list is none of this

        def select() -> None:
            commit(parts.selected_row(st.session_state[key], result) or result[0])

        parts.table(
            frame, {"Name": st.column_config.TextColumn(width=_NAME)}, tall=560, select=callback(select), key=key
        )
    return section, id if id in result else result[0]


def _matching(entries: dict[str, Any], query: str) -> list[str]:
    """Entries that say what is searched: those first whose name or id does, and of them the one of that id."""
    if not query:
        return list(entries)
    by_name = sorted((id for id in entries if query in f"{id} {entries[id].name}".lower()), key=query.__ne__)
    matching = [id for id, entry in entries.items() if query in entry.model_dump_json().lower()]
    return list(dict.fromkeys([*by_name, *matching]))


def sources(entry: Any) -> None:
    """The documents an entry was read from, and what a reader must know beside its numbers."""
    if documents := getattr(entry, "sources", {}):
        st.markdown("**Sources**")
    for key, source in documents.items():
        note = "; ".join(text for text in (source.publisher, source.dated, source.note) if text)
        st.markdown(f"`{key}` {fmt.web_link(source.title, source.url)}" + (f"; {fmt.plain(note)}" if note else ""))
    for text in getattr(entry, "notes", ()):
        st.caption(fmt.plain(text))


def values(rows: Sequence[specs.SpecNumber]) -> None:
    """Every number with its unit, evidence and place."""
    if not rows:
        st.caption(texts.NO_NUMBERS)
        return
    frame = columns(rows, texts.NUMBER_COLUMNS)
    parts.table(
        frame,
        {
            "Quantity": st.column_config.TextColumn(pinned=True, width=parts.wide_enough(frame["Quantity"])),
            "Value": parts.value_column("Value", frame["Value"]),
        },
        max_rows=14,
        tall=520,
    )


def parameters(workload: Any) -> list[specs.SpecNumber]:
    """A workload's parameters with their evidence."""
    rows = []
    for name, number in workload.params.items():
        numbers = number.value if isinstance(number.value, tuple) else (number.value,)
        value = ", ".join(claims.value_text(v) for v in numbers)
        rows.append(specs.SpecNumber(name, name.replace("_", " "), value, number.basis, specs.where(number)))
    return rows


def members(system: Any) -> None:
    """A system's devices and wires, its numbers and those of each."""
    catalog = default_catalog()
    rows: list[tuple[Any, int, str]] = [(catalog.device(g.device), g.count, "device") for g in system.devices]
    if system.host:
        rows.append((catalog.device(system.host.device), system.host.count, "host"))
    for u in system.links:
        way = f", {u.hops} hops" if u.hops > 1 else ""
        rows.append((catalog.link(u.link), 1, f"link between {glossary.BETWEEN[u.role]}{way}"))
    if system.nic:
        rows.append((catalog.nic(system.nic), 1, "NIC"))
    wide = st.column_config.TextColumn(pinned=True, width=parts.wide_enough(part.name for part, *_ in rows))
    frame = [{"Part": part.name, "Count": count, "As": role} for part, count, role in rows]
    parts.table(frame, {"Part": wide}, tall=None)  # of the system before it, a list would keep the widths
    for part in {part.id: part for part in (system, *(part for part, *_ in rows))}.values():
        if numbers := specs.quantities(part):
            label = f"{fmt.plain(part.name)} · {fmt.counted(len(numbers), 'number')}"
            with st.expander(label, key=f"open.part.{part.id}", on_change="rerun") as expander:
                if expander.open:
                    values(numbers)
                    if part is not system:  # whose sources follow
                        sources(part)


def graph(workload: Any) -> None:
    """Operators of a workload at its own request: table, and a drawing where it is small enough to read."""
    net = default_zoo().graph(workload.id)
    request = workload.request
    phase = net.phases[0]
    at = (request.batch, *(size.at(request.inputs, request.outputs) for size in (phase.length, phase.context)))
    work = net.flops(request.batch, request.inputs, request.outputs)
    lengths = glossary.lengths(workload.id).values()
    words = [f"batch {request.batch}", *(f"{label.lower()} {length:,}" for label, length in lengths)]
    st.markdown(
        texts.NETWORK.format(
            parameters=fmt.parameters(net.parameters),
            work=fmt.si(work, "FLOP"),
            asked=", ".join(words),
            kinds=len(phase.ops),
            phase=phase.name,
        )
    )
    flops = fmt.scale([op.flops.at(*at) for op in phase.ops], "FLOP")
    frame = columns(phase.ops, {"Operator": "name", "Kind": "kind", "Copies": "layers"}) | {
        f"Work of one ({flops.unit})": [flops(op.flops.at(*at)) for op in phase.ops],
        "Parameters": [op.stored * op.layers for op in phase.ops],
        "Reads from": [", ".join(op.inputs) for op in phase.ops],
    }
    parts.table(frame, max_rows=10, tall=390)
    if len(phase.ops) > _MOST_NODES:
        st.caption(texts.TOO_MANY_OPERATORS.format(count=len(phase.ops)))
        return
    with st.expander("Graph", key="open.graph", on_change="rerun") as expander:
        if expander.open:
            st.mermaid_chart(drawing(phase.ops), alt=f"Graph of {workload.name}", width="content")


def drawing(ops: tuple[Op, ...]) -> str:
    """Mermaid text of a graph; names are the catalog's, ids are positions."""
    at = {op.name: i for i, op in enumerate(ops)}
    lines = ["flowchart TD"]
    for i, op in enumerate(ops):
        copies = f" ×{op.layers}" if op.layers > 1 else ""
        lines.append(f'  n{i}["{op.name}{copies}"]')
        lines += [f"  n{at[name]} --> n{i}" for name in op.inputs if name in at]
    return "\n".join(lines)


def detail(section: str, id: str) -> None:
    """One entry in full."""
    entry = _get(section, id)
    with st.container(border=True, height="stretch"):
        st.markdown(f"**{fmt.plain(entry.name)}** :gray[· {fmt.plain(_of(section, entry))}]")
        st.markdown(fmt.plain(entry.summary))
        if section in ("systems", "workloads") or (section == "devices" and id in default_catalog().ids("systems")):
            pair = ([id], [link.current().workload, *default_zoo().ids()])
            pair = (systems(), [id]) if section == "workloads" else pair
            if st.button("Open in Explore", type="primary", key="open.entry"):
                open_entry(*pair)
        if section == "workloads":
            if entry.params:
                values(parameters(entry))
            graph(entry)
        elif section == "systems":
            members(entry)
        else:
            values(specs.quantities(entry))
        if section == "devices":
            machine.precisions(entry)
        sources(entry)
        path = default_zoo().path(id) if section == "workloads" else default_catalog().path(section, id)
        if section == "workloads" and default_zoo().is_guest(id):
            st.caption(texts.YOUR_OWN.format(name=path.name))
        if path.suffix == ".onnx":
            return
        with st.expander("YAML", key="open.yaml", on_change="rerun") as expander:
            if expander.open:
                st.code(path.read_text(), language="yaml")


def show() -> None:
    """The page."""
    parts.bar(parts.report_now(), "catalog")
    catalog, zoo = default_catalog(), default_zoo()
    st.markdown(
        texts.CATALOG.format(
            devices=len(catalog.ids("devices")), systems=len(catalog.ids("systems")), workloads=len(zoo.ids())
        )
    )
    if problems := (*catalog.problems, *zoo.problems):
        lines = [fmt.plain(problem) for problem in problems[:_PROBLEMS]]
        if len(problems) > len(lines):
            lines.append(texts.MORE_FILES.format(count=len(problems) - len(lines)))
        st.warning("\n\n".join(lines), icon=":material/edit_off:")
    own_network()
    left, right = st.columns([2, 3], gap="small")
    with left:
        section, id = pick()
    with right:
        if id:
            detail(section, id)


show()
