"""The smallest change of each knob that makes a scenario work, as the engine's inverse finds it, and what binds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.shared import cached, glossary, link, parts
from app.shared import formats as fmt
from app.shared.widgets import pickers
from engine.cost.report import Report
from engine.devices.common.contract import Unsupported
from engine.resolve.choices import why_not
from engine.scenario import Scenario, ScenarioError, encode
from engine.scenario.fields import BY_FAMILY
from engine.scenario.formats import BITS
from engine.sweep import Axis, Limit, Space, inverse
from engine.sweep.axis import field_axes
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo


@dataclass(frozen=True)
class Fix:
    """A changed scenario, the change in words, and what stops a smaller one (`one step less would ...`)."""

    label: str
    scenario: Scenario
    stops: str = ""


def _works(scenario: Scenario) -> bool:
    report = cached.try_report(scenario)
    return report is not None and not report.problems


def _knobs(s: Scenario) -> Iterator[tuple[Axis, Any]]:
    """Each knob with those of its values that may help, and the present one; what belongs together is one axis."""
    axes = field_axes(s, cached.options(encode(s)))
    if counts := axes.get("devices"):
        yield counts, counts.now
        if schemes := axes.get("scheme"):
            ways = [way for way in ("tensor", "tables", "pinned") if way in schemes.values and way != s.scheme]
            pairs = [{"devices": n, "scheme": way} for way in ways for n in counts.values if n != s.devices]
            now = {"devices": s.devices, "scheme": s.scheme}
            yield Axis("both", (now, *pairs)), now
    if formats := axes.get("precision"):
        narrower = (f for f in formats.values if BITS[f] < BITS[s.precision])
        yield Axis("precision", (s.precision, *sorted(narrower, key=lambda f: -BITS[f]))), s.precision
    for axis in (axes[of.path] for of in BY_FAMILY if of.path in axes):
        yield Axis(axis.path, (axis.now, *(v for v in axis.values if v != axis.now))), axis.now
    for axis in (axes[path] for path in ("batch", "streams", "inputs") if path in axes):
        halves = {axis.now >> i for i in range(axis.now.bit_length())}
        yield Axis(axis.path, tuple(sorted(v for v in {*axis.values, *halves} if v <= axis.now))), axis.now


def _smallest(s: Scenario, knob: Axis, now: Any) -> Fix | None:
    """The smallest change of one knob that keeps every limit: the question that the Sweep page asks of many."""
    if len(knob) < 2:
        return None
    figure = cached.report(encode(s)).figure
    limits = tuple(Limit(name, True, value) for name, value in s.limits.of_figures.items() if figure(name) is not None)
    try:
        answer = inverse(Space(s, (knob,), limits=limits), {knob.path: now})
    except ScenarioError:
        return None  # no value of this knob runs
    if not answer.met or not answer.changes:
        return None
    return _fix(s, answer.scenario, glossary.WORDS["binds"].get(answer.binding.split(" ")[0], ""))


def _fix(s: Scenario, result: Scenario, stops: str = "") -> Fix:
    words = "; ".join(glossary.differences(s, result, None))
    return Fix(f"{words[:1].upper()}{words[1:]}", result, stops)


def fixes(scenario: Scenario, limit: int = 2) -> list[Fix]:
    """Up to `limit` smallest changes of one knob after which no limit is violated; estimates, each one evaluated."""
    result = []
    for knob, now in _knobs(scenario):
        fix = _smallest(scenario, knob, now)
        if fix is not None and _works(fix.scenario):
            result.append(fix)
        if len(result) == limit:
            return result
    usual = (scenario.with_(overrides={}), scenario.with_(tile=()))  # what the catalog and the family choose
    result += [_fix(scenario, trial) for trial in usual if trial != scenario and _works(trial)]
    return result[:limit]


def violations(report: Report) -> None:
    """What is violated, by how much, and the smallest changes that would do."""
    for problem in report.problems:
        head, _, detail = problem.partition(": ")
        st.error(f"**{fmt.plain(head)}:** {fmt.plain(detail)}", icon=":material/block:")
    with st.skeleton(height=38):  # each candidate is evaluated
        ways = fixes(link.current())
    with st.container(horizontal=True, gap="small"):
        for at, fix in enumerate(ways):
            st.button(
                fix.label,
                on_click=link.open_scenario,
                args=(fix.scenario,),
                type="primary" if at == 0 else "secondary",
                key=f"fix.{at}",
                help=f"A smaller change of it would {fix.stops}." if fix.stops else None,
            )
        _undo()


def neighbours(scenario: Scenario) -> list[tuple[str, str]]:
    """(system, workload) pairs that can run, nearest to one that can't: its system, then its workload."""
    zoo = default_zoo()
    family = zoo.workload(scenario.workload).family
    loads = sorted(zoo.ids(), key=lambda id: (zoo.workload(id).family != family, id))
    here = next(((scenario.system, id) for id in loads if why_not(scenario.system, id) is None), None)
    systems = sorted(
        default_catalog().ids("systems"), key=lambda id: (default_catalog().system(id).document is None, id)
    )
    there = next(((id, scenario.workload) for id in systems if why_not(id, scenario.workload) is None), None)
    return [pair for pair in (here, there) if pair]


def alternatives(page: str, reason: Unsupported) -> None:
    """The rest of a page of a pair that can't run: why, the nearest that can, and the way back."""
    scenario = link.current()
    parts.bar(None, page)
    st.info(fmt.plain(str(reason)), icon=":material/info:")
    with st.container(horizontal=True, gap="small"):
        for system, load in neighbours(scenario):
            label = pickers.workload_label(load) if system == scenario.system else pickers.system_label(system)
            st.button(label, on_click=link.open_pair, args=(system, load), key=f"pair.{system}.{load}")
        _undo()


def _undo() -> None:
    """The way back, where there is one."""
    if st.session_state.before:
        st.button("Undo last change", icon=":material/undo:", on_click=link.undo, key="undo")
