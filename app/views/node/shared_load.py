"""A second network on the same node: how busy both keep it, and how long requests of each take."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.shared import boundary, parts
from app.shared import formats as fmt
from app.shared.widgets.checked import checked, whole
from app.shared.widgets.choices import choose
from app.views.node import texts
from engine.analyses.node.load import limited
from engine.analyses.node.shared_load import CARDS, Load, SharedNode, alone_qps, share_node, usual
from engine.devices.common.contract import Unsupported
from engine.scenario import Scenario, ScenarioError, decode, encode
from model_zoo.catalog import default_zoo

_NONE = "none"
_MOST = 1e7  # requests a second that a box takes


@st.cache_resource(max_entries=64, show_spinner=False)
def _shared(loads: tuple[tuple[str, float], ...]) -> SharedNode:
    """A node under several (token, requests a second)."""
    return share_node([Load(decode(token), qps) for token, qps in loads])


def _rate(name: str, scenario: Scenario, key: str) -> float:
    """Requests a second of a network: a third of what the node carries of it alone, unless one says."""
    usual_rate = float(f"{alone_qps(scenario) / 3:.2g}")
    label, token = f"Requests/s of {name}", encode(scenario)
    return float(
        checked(st.number_input, label, 0.001, _MOST, usual_rate, format=whole(key, usual_rate), key=key, of=token)
    )


def _answer(node: SharedNode) -> str:
    if node.problem:
        return node.problem
    if node.busiest == CARDS:
        return texts.CARDS_BUSY.format(cards=fmt.percent(node.use[CARDS]))
    cards, used = (fmt.percent(node.use[unit]) for unit in (CARDS, node.busiest))
    return texts.UNITS_BUSY.format(cards=cards, unit=node.busiest, used=used)


@boundary.fragment
def two_networks(scenario: Scenario) -> None:
    """Which network, how many requests of either, and what that does to both."""
    zoo = default_zoo()
    names = {id: zoo.workload(id).name for id in limited() if id != scenario.workload}
    with st.container(border=True):
        title = st.empty()
        with st.container(horizontal=True, vertical_alignment="bottom"):
            other = choose("Second network", {_NONE: _NONE, **names}, "beside")
            title.markdown(texts.TWO)
            if other == _NONE:
                return
            try:
                pair = scenario, usual(scenario, other)
                rates = [
                    _rate(zoo.workload(s.workload).name, s, key)
                    for s, key in zip(pair, ("beside.own", "beside.qps"), strict=True)
                ]
                node = _shared(tuple((encode(s), rate) for s, rate in zip(pair, rates, strict=True)))
            except (ScenarioError, Unsupported) as why:
                st.info(fmt.plain(str(why)), icon=":material/info:")
                return
        title.markdown(f"{texts.TWO} :gray[· {fmt.plain(_answer(node))}]")
        frame = pd.DataFrame(
            {
                "Network": [net.name for net in node.networks],
                "Requests/s": [fmt.si(net.qps) for net in node.networks],
                "Alone, at most": [fmt.si(net.alone_qps) for net in node.networks],
                "Cards busy": [fmt.percent(net.use[CARDS]) for net in node.networks],
                "Idle": [fmt.seconds(net.idle_s) for net in node.networks],
                "p99": [fmt.UNKNOWN if net.p99_s is None else fmt.seconds(net.p99_s) for net in node.networks],
                "Limit": [fmt.UNKNOWN if net.limit_s is None else fmt.seconds(net.limit_s) for net in node.networks],
            }
        )
        text = st.column_config.TextColumn(alignment="right")
        parts.table(
            frame,
            texts.TWO_ALT,
            {
                "Network": st.column_config.TextColumn(pinned=True),
                **dict.fromkeys(list(frame)[1:], text),
            },
            tall=None,
        )
        st.caption(texts.TWO_CAPTION)
