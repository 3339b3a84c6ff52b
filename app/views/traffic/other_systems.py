"""The same demand on other systems, beside the Traffic page's own plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from app.shared import cached, comparison, link, parts
from app.shared import formats as fmt
from app.shared.load import Group, Load
from app.shared.site import Site
from app.shared.widgets import pickers
from app.shared.widgets.choices import remember
from app.shared.widgets.controlled import controlled
from app.views.traffic import tables, texts
from engine.cost.report import Report
from engine.devices.common.contract import Unsupported
from engine.resolve.choices import why_not
from engine.scenario import ScenarioError, encode
from engine.traffic import Sla
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

_ALSO = "also"  # systems picked to stand beside, in the address
_WORDS = ("Precision", "Limited by")  # columns without numbers


def _three(largest: float) -> Any:
    """A column whose largest value has three digits, and as many decimals everywhere."""
    return st.column_config.NumberColumn(format=f"%.{tables.decimals(largest)}f")


def table(frame: pd.DataFrame, pinned: str, alt: str) -> None:
    """A frame with one number of decimals a column and its names pinned."""
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    columns = {n: _three(frame[n].max()) for n in frame if frame[n].dtype.kind == "f"}
    columns |= {n: number(format="localized") for n in frame if frame[n].dtype.kind == "i"}
    columns |= {n: text(alignment="right") for n in frame if frame[n].dtype.kind == "O" and n not in _WORDS}
    columns |= {pinned: text(pinned=True, width=parts.wide_enough([pinned, *frame[pinned]]))}
    parts.table(frame, alt, columns)


def _able() -> list[str]:
    """Other systems that run the workload."""
    now = link.current()
    systems = (id for id in default_catalog().ids("systems") if id != now.system and why_not(id, now.workload) is None)
    return sorted(systems, key=pickers.system_label)


def _picked() -> tuple[list[str], Callable[[list[str]], None]]:
    """The systems that were picked, as far as they run the workload, and what picks others."""
    able = _able()

    def read(text: str) -> tuple[list[str], str | None]:
        ids = list(dict.fromkeys(filter(None, text.split(","))))
        stray = [id for id in ids if id not in able]
        name = default_zoo().workload(link.current().workload).name
        wrong = texts.LEFT_OUT.format(name=name, stray=", ".join(stray)[:80])
        return [id for id in ids if id in able], wrong if stray else None

    return remember(_ALSO, [], read, ",".join)


def _on(systems: list[str]) -> tuple[list[Group], list[str]]:
    """The scenario's request on systems, and a sentence for each that can't be asked it."""
    groups, refused = [], []
    for system in systems:
        try:
            groups.append(tuple(encode(scenario) for scenario in link.on_system(system)))
        except (ScenarioError, Unsupported) as error:
            refused.append(f"{pickers.system_label(system)}: {error}")
    return groups, refused


def rivals(report: Report, picked: list[Group]) -> tuple[Group, ...]:
    """What a scenario stands beside: `picked`, the baseline, its published rival, this session's others."""
    against, rival = parts.baseline_report(), link.rival()
    alone = [against[1].scenario] if against else []
    alone += [rival] if rival else []
    alone += [entry.scenario for entry in comparison.shown().entries]
    groups = dict.fromkeys([*picked, *((encode(scenario),) for scenario in alone)])
    groups.pop((report.token,), None)
    return tuple(groups)


def card(report: Report, load: Load, sla: Sla, where: Site) -> None:
    """The same demand on other systems; computed when it is opened."""
    picked, pick = _picked()
    opened = st.session_state.setdefault("others.opened", bool(picked))  # by a link that has some
    with st.expander(texts.OTHER_SYSTEMS, expanded=opened, key="open.others", on_change="rerun") as folded:
        if not folded.open:
            return
        able = _able()
        st.multiselect(
            "Also on",
            able,
            format_func=pickers.system_label,
            placeholder=texts.OTHER_SYSTEMS_PLACEHOLDER,
            **controlled("t.also", picked, pick, tuple(able)),
            help=texts.OTHER_SYSTEMS_HELP,
        )
        groups, refused = _on(picked)
        systems = rivals(report, groups)
        for note in refused:
            st.caption(fmt.plain(note))
        if not systems:
            st.caption(texts.OTHER_SYSTEMS_CAPTION)
            return
        with st.skeleton(height=180):
            offers = cached.offers(load, sla, where, systems)
        names = [parts.short_name(offer.scenario) for offer in offers]
        frame = tables.offers_frame(offers, names, load.request)
        st.markdown(f":gray[{fmt.plain(tables.offers_said(offers, names))}]")
        table(tables.offers_shown(frame), "System", texts.OTHER_SYSTEMS_ALT)
        for name, offer in zip(names, offers, strict=True):
            for note in [offer.problem] if offer.problem else offer.notes:
                st.caption(fmt.plain(f"{name}: {note}"))
