"""Scenario <-> session <-> address bar.

The session's scenario is the single source of truth, the address bar mirrors it in ``s`` (and the pinned baseline in
``vs``), and widgets are controlled: they are drawn from the scenario on every run (`app.shared.widgets.controlled`)
and change it through `commit`.
The address is written in callbacks, or to repair it, and nothing reruns after that.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import streamlit as st

from app.shared import cached, glossary
from app.shared import formats as fmt
from app.shared.boundary import callback
from app.shared.widgets.choices import forget, say
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.resolve.choices import default_scenario, scenario_from
from engine.resolve.presets import PRESETS, Preset, preset
from engine.scenario import Scenario, ScenarioError, decode, encode
from engine.scenario.fields import BY_FAMILY, FIELDS
from engine.scenario.overrides import apply_all
from entries.schema import InputError
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

PARAM, BASELINE = "s", "vs"
_HOME = "dfx-1.5b"
_UNDONE = 50  # changes that can be taken back
_CUTS = {"split": 0, "second_split": None}
_OF_THE_PAIR: dict[str, Any] = {"tile": (), "streams": 1, "switches": {}, "overrides": {}, "params": {}} | _CUTS
_REQUEST = ("batch", "inputs", "outputs", "params")  # fields that say what is asked, not what answers


def home() -> Scenario:
    """What a newcomer sees."""
    return PRESETS[_HOME].scenario


def read(token: str) -> Scenario:
    """Scenario of a token that this server can name: decoded, its parts found, its fields allowed."""
    scenario = decode(token)
    with suppress(Unsupported):  # a pair that can't run is a valid question; the page answers it
        cached.report(encode(scenario))
    return scenario


def sync() -> None:
    """Once a run, before anything is drawn: the address wins over the session, the session repairs the address.

    What the address held and is no scenario is said.
    """
    ss = st.session_state
    first = "token" not in ss
    if first:
        ss.scenario, ss.token, ss.baseline, ss.before = home(), encode(home()), "", []
        ss.newcomer = not st.query_params
    try:
        _spell_out()
        token = st.query_params.get(PARAM, "")
        if token and token != ss.token:
            ss.scenario = read(token)
            ss.token = encode(ss.scenario)
    except InputError as error:
        fallback = "the default" if first else "your previous"
        say(PARAM, f"{fmt.sentence(error)} Showing {fallback} scenario")
    baseline = st.query_params.get(BASELINE, "")
    if st.query_params.get(PARAM) and baseline != ss.baseline:  # an address without `s` lost both to a page switch
        try:
            ss.baseline = encode(read(baseline)) if baseline else ""
        except ScenarioError as error:
            say(BASELINE, f"The pinned baseline is left out. {error}")


def _spell_out() -> None:
    """Readable parameters of the address, `preset=dfx-1.5b` or `system=h100-sxm&workload=resnet50&batch=8`, become the
    token they mean.

    InputError in one sentence where they mean none; they leave the address either way. Without a preset or a system
    they are the Choose page's.
    """
    query = st.query_params
    values = {name: query[name] for name in ("preset", *(f.path for f in FIELDS)) if name in query}
    if PARAM in query or not values.keys() & {"preset", "system"}:
        return
    for name in values:
        del query[name]
    scenario = preset(values.pop("preset")).scenario if "preset" in values else _of_pair(values)
    query[PARAM] = encode(read(encode(apply_all(scenario, [f"{path}={text}" for path, text in values.items()]))))


def _of_pair(values: dict[str, str]) -> Scenario:
    """The usual scenario of a system and a workload, which are taken out of `values`, partitioned as they say."""
    pair = {name: values.pop(name, getattr(current(), name)) for name in ("system", "workload")}
    return scenario_from(pair | {k: values[k] for k in ("devices", "scheme") if k in values}, "scenario")


def mirror() -> None:
    """The session into the address bar, as one history entry, and only where they differ."""
    ss = st.session_state
    query = address()
    if any(st.query_params.get(k) != v for k, v in query.items()):
        st.query_params.update(query)
    if not ss.baseline and BASELINE in st.query_params:
        del st.query_params[BASELINE]


def address() -> dict[str, str]:
    """Query parameters that carry the session to another page."""
    query = {PARAM: st.session_state.token}
    return query | ({BASELINE: st.session_state.baseline} if st.session_state.baseline else {})


def current() -> Scenario:
    """The scenario of this session."""
    return st.session_state.scenario


@callback
def open_scenario(scenario: Scenario) -> None:
    """Make a scenario the session's (a callback)."""
    ss = st.session_state
    ss.before = [*ss.before, ss.token][-_UNDONE:]
    ss.scenario, ss.token = scenario, encode(scenario)
    mirror()


@callback
def commit(**changes: Any) -> None:
    """Change fields of the scenario (a callback); a change that is not allowed leaves it was, with the reason."""
    try:
        open_scenario(read(encode(current().with_(**changes))))
    except ScenarioError as error:
        st.session_state.refused = tuple(changes)
        say("refused", f"{fmt.sentence(error)} Nothing was changed")


@callback
def open_pair(system: str, workload: str) -> None:
    """Go to another system or workload (a callback): its defaults, and whatever of the present request still holds."""
    now = current()
    try:
        scenario = default_scenario(system, workload)
    except Unsupported:
        options = cached.options(encode(now.with_(system=system, workload=workload)))
        first = {"scheme": options.schemes[0], "devices": options.device_counts[0]}
        open_scenario(now.with_(system=system, workload=workload, **first, **_OF_THE_PAIR))
        return
    fits = cached.report(encode(scenario)).fits
    for change in _transfers(now, scenario):
        trial = cached.try_report(scenario, **change)  # None: not offered there, and its own default stays
        if trial is not None and (trial.fits or not fits):  # what fits in no way is asked as it was
            scenario = trial.scenario
    open_scenario(scenario)
    if rows := glossary.differences(now, scenario, usual_of(now)):
        st.session_state.moved = (scenario, "; ".join(rows))


def _transfers(now: Scenario, usual: Scenario) -> Iterator[dict[str, Any]]:
    """What of a scenario may hold beside another system or workload, one change at a time.

    What is asked belongs to the workload; a what-if and a tile, to the part they were made for. A partition and
    switches that the pair had by itself were nobody's choice.
    """
    same_workload = now.workload == usual.workload
    yield {"costs": now.costs}
    if same_workload:
        yield {"batch": now.batch}
    yield {"precision": now.precision}
    yield from ({of.path: value} for of in BY_FAMILY if (value := getattr(now, of.path)) is not None)
    if same_workload:
        yield from ({name: getattr(now, name)} for name in ("inputs", "outputs", "params", "limits", "layers"))
    default = usual_of(now)
    if default is None:
        return
    if (now.scheme, now.devices) != (default.scheme, default.devices):
        yield {"devices": now.devices}
        yield {name: getattr(now, name) for name in ("scheme", "devices", *_CUTS)}
    yield {"streams": now.streams}
    switch_edits = {name: on for name, on in now.switches.items() if on != default.switches.get(name, on)}
    yield {"switches": usual.switches | {name: switch_edits[name] for name in usual.switches.keys() & switch_edits}}
    parts_now, parts_there = ([g.device for g in default_catalog().system(s.system).devices] for s in (now, usual))
    if parts_now == parts_there:
        yield from ({name: getattr(now, name)} for name in ("overrides", "tile"))


def usual_of(scenario: Scenario) -> Scenario | None:
    """A pair's own scenario; None where it can't run."""
    try:
        return default_scenario(scenario.system, scenario.workload)
    except InputError:
        return None


def reset_fields() -> str | None:
    """What the last change of system or workload changed too, while its scenario stands; said once."""
    scenario, rows = st.session_state.pop("moved", (None, ""))
    return rows if scenario == current() else None


def offers(page: str) -> bool:
    """Whether a tab has something to show of the session's scenario; links to the others still open and say why."""
    if page not in ("node", "program", "split"):
        return True
    try:
        system = default_catalog().system(current().system)
        kind = default_catalog().device(system.devices[0].device).kind
        if page == "node":
            return (system.topology == "switch" and system.host is not None) or system.topology == "network"
        if page == "program":
            return family(kind).instructions is not None
        cut = "split" in cached.options(encode(current())).schemes
        return cut or family(kind).packets is not None or default_zoo().graph(current().workload).seen
    except InputError:
        return False


def show(page: str, scenario: Scenario | None = None, query: Mapping[str, str] | None = None) -> None:
    """Show another page, of another scenario where there is one (from a page's body: a callback knows no pages)."""
    if scenario is not None:
        open_scenario(scenario)
    query = dict(query or {})
    forget(query)
    st.switch_page(f"views/{page}/page.py", query_params=address() | query)


@callback
def undo() -> None:
    """Back to the scenario before the last change, and from there to the one before (a callback)."""
    if st.session_state.before:
        *before, last = st.session_state.before
        open_scenario(decode(last))
        st.session_state.before = before


@callback
def pin_scenario(scenario: Scenario | None = None) -> None:
    """Make any scenario the baseline, or go back to the one that the preset brings (a callback)."""
    st.session_state.baseline = encode(scenario) if scenario else ""
    mirror()


def matching(scenario: Scenario) -> Preset | None:
    """The preset that is exactly this scenario."""
    return next((p for p in PRESETS.values() if p.scenario == scenario), None)


def origin(scenario: Scenario) -> Preset | None:
    """The preset this scenario is, or else was edited from: the same system and workload."""
    presets = (p for p in PRESETS.values() if (p.system, p.workload) == (scenario.system, scenario.workload))
    return matching(scenario) or next(presets, None)


def rival() -> Scenario | None:
    """The published rival of the preset at hand, asked what the scenario is asked; None where it can't be."""
    near = origin(current())
    if near is None or near.rival is None:
        return None
    try:
        return _asked_the_same(PRESETS[near.rival].scenario)
    except InputError:
        return None


def on_system(system: str) -> Scenario:
    """The scenario's request on another system, in its format where that has it, on the fewest devices that hold it.

    ScenarioError or Unsupported where none do, in one sentence.
    """
    now = current()
    options = cached.options(encode(default_scenario(system, now.workload)))
    failure = InputError()
    for devices in options.device_counts:
        usual = default_scenario(system, now.workload, devices=devices)
        precision = now.precision if now.precision in options.formats else usual.precision
        streams = min(now.streams, options.max_streams)
        try:
            return _asked_the_same(usual.with_(precision=precision, streams=streams))
        except InputError as error:
            failure = error
    raise failure


def _asked_the_same(scenario: Scenario) -> Scenario:
    """Another scenario with what the session's asks; an error where that is not offered or does not fit."""
    alike = scenario.with_(**{name: getattr(current(), name) for name in _REQUEST})
    report = cached.report(encode(alike))
    if not report.fits:
        raise ScenarioError(report.problems[0])
    return alike


def baseline() -> str | None:
    """Token that deltas refer to: the pinned one, else the published rival's; None where there is neither."""
    if st.session_state.baseline:
        return st.session_state.baseline
    return encode(near) if (near := rival()) else None
