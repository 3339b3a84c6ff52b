"""The same demand on other systems, beside the Traffic page's own plan."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import streamlit as st

from app import cached, comparison, link, parts, traffic_tables, widgets, words
from app import format as fmt
from app.load import Load
from app.traffic_inputs import Site
from engine.choices import why_not
from engine.devices.family import Unsupported
from engine.report import Report
from engine.scenario import Scenario, ScenarioError, encode
from engine.traffic import Sla
from hardware_specs.catalog import default_catalog

__all__ = ["card", "table"]

_ALSO = "traffic.also"  # systems picked to stand beside


def _three(largest: float) -> Any:
    """A column whose largest value has three digits, and as many decimals everywhere."""
    decimals = max(0, 2 - math.floor(math.log10(largest))) if largest > 0 else 0
    return st.column_config.NumberColumn(format=f"%.{decimals}f")


def table(frame: pd.DataFrame, pinned: str, alt: str) -> None:
    """A frame with one number of decimals a column and its names pinned."""
    whole = st.column_config.NumberColumn(format="localized")
    columns = {n: _three(frame[n].max()) for n in frame if frame[n].dtype.kind == "f"}
    columns |= {n: whole for n in frame if frame[n].dtype.kind == "i" or n in ("Nodes", "Racks")}
    columns |= {pinned: st.column_config.TextColumn(pinned=True, width="small" if pinned == "Down" else "medium")}
    st.dataframe(frame, hide_index=True, column_config=columns, alt=alt)


def _short_name(scenario: Scenario) -> str:
    """A preset's short name, or the system's with what differs from its default."""
    found = link.matching(scenario)
    if found:
        return found.pill
    system, _ = parts.pair_names(scenario)
    return f"{system} · {', '.join(words.knobs(scenario, None)[:3])}"


def _picked() -> tuple[list[Scenario], list[str]]:
    """The workload on the systems that were picked, and a sentence for each that can't be asked the same."""
    found, refused = [], []
    scenario = link.current()
    asked = st.session_state.get(_ALSO, [])
    able = [id for id in asked if id != scenario.system and why_not(id, scenario.workload) is None]
    if able != asked:  # picked beside another workload
        st.session_state[_ALSO] = able
    for system in able:
        try:
            found.append(link.on_system(system))
        except (ScenarioError, Unsupported) as error:
            refused.append(f"{widgets.system_label(system)}: {error}")
    return found, refused


def rivals(report: Report, picked: list[Scenario]) -> tuple[tuple[str, str], ...]:
    """Names and tokens of what a scenario stands beside: `picked`, the baseline, its published rival, this session's
    others."""
    found = {encode(scenario): scenario for scenario in picked}
    against = parts.baseline_report()
    if against:
        found[against[1].token] = against[1].scenario
    rival = link.rival()
    if rival:
        found.setdefault(encode(rival), rival)
    for entry in comparison.shown().entries:
        found.setdefault(encode(entry.scenario), entry.scenario)
    found.pop(report.token, None)
    return tuple((_short_name(scenario), token) for token, scenario in found.items())


def card(report: Report, load: Load, sla: Sla, where: Site) -> None:
    """The same demand on other systems; computed when it is opened."""
    picked, refused = _picked()
    others = rivals(report, picked)
    title = f"The same demand on other systems · {len(others) or 'none chosen'}"
    with st.expander(title, key="open.others", on_change="rerun") as folded:
        if not folded.open:
            return
        scenario = link.current()
        able = [id for id in default_catalog().ids("systems") if why_not(id, scenario.workload) is None]
        st.multiselect(
            "Also on",
            sorted((id for id in able if id != scenario.system), key=widgets.system_label),
            key=_ALSO,
            format_func=widgets.system_label,
            placeholder="Choose systems that run this workload",
            persist_state="session",
            help="Each as it usually runs this workload, at the same batch and lengths. The baseline and the scenarios "
            "on Compare are here by themselves.",
        )
        for said in refused:
            st.caption(fmt.plain(said))
        if not others:
            st.caption("Choose systems here, pin a baseline or put scenarios on Compare: all are asked for the same.")
            return
        offers = cached.offers(load, sla, where, others)
        names = [_short_name(report.scenario), *(name for name, _ in others)]
        frame = traffic_tables.offers_frame(offers, names)
        st.markdown(f":gray[{fmt.plain(traffic_tables.offers_said(offers, names))}]")
        table(frame, "System", "Systems at the same promise and demand")
        for name, offer in zip(names, offers, strict=True):
            for said in [offer.problem] if offer.problem else offer.notes:
                st.caption(fmt.plain(f"{name}: {said}"))
