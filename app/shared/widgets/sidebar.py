"""The scenario's controls: written from the scenario on every run, changing it through `link.commit`.

Each field stands in the order, with the label, the help and the values of `engine.scenario.fields.FIELDS`. Only what
the system and the workload offer can be picked; what is missing says why.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import streamlit as st

from app.shared import cached, glossary, link, specs
from app.shared import formats as fmt
from app.shared.widgets import pickers
from app.shared.widgets.choices import digits
from app.shared.widgets.controlled import SEGMENTS, controlled, pick
from engine.resolve.choices import Choices
from engine.resolve.draft import GUESSING, drafted, drafts, guessing, with_draft, without_draft
from engine.scenario import Scenario, encode
from engine.scenario.fields import FIELDS, Field, field
from engine.scenario.scenario import Costs
from model_zoo.catalog import default_zoo

_USUAL = ("fp32", "fp16", "bf16", "int8", "int4")
_SEGMENTS = 22  # characters of the options beside each other that it shows in one line
_NUMBER = 6  # digits beside the steps of a number input on half of it
_GUESSES = {"guesses": 4, "acceptance": 0.7}  # that a draft network starts with, as its help says
_AUTO = 0  # no tile has a side of 0
_COSTS = (
    ("energy_usd_per_kwh", "USD per kWh", 0.01),
    ("pue", "PUE", 0.05),
    ("years", "Years in use", 1.0),
    ("utilisation", "Share of time busy", 0.05),
)


def _commit(of: Field) -> Callable[[Any], None]:
    """What sets a field of the scenario, nothing where that is picked by its name; an emptied widget leaves it."""

    def commit(value: Any) -> None:
        if value is not None:
            link.commit(**{of.path: of.value_of(value)})

    return commit


def _label(of: Field, text: str = "") -> str:
    """A widget's label, or what is wrong with the field it sets."""
    text = text or of.label
    return f"{text} :red[not allowed]" if of.path in st.session_state.get("refused", ()) else text


def _pair(scenario: Scenario, choices: Choices) -> None:
    pick(
        _label(field("system")), pickers.all_systems(), "w.system", scenario.system,
        lambda id: link.open_pair(id, link.current().workload), help=field("system").help,
    )  # fmt: skip
    pickers.workload(
        "w.workload", scenario.workload, lambda id: link.open_pair(link.current().system, id),
        label=_label(field("workload")), missing=choices.workloads,
        help=f"{field('workload').help} `not here`: this system can't run it; picking it says why.",
    )  # fmt: skip


def _shape(scenario: Scenario, choices: Choices) -> None:
    """What is asked: lengths as the network calls them, then its sizes, two in a row where both are short."""
    cells: list[tuple[str, float, dict[str, Any]]] = []
    for of in (f for f in FIELDS if f.called):
        if label := getattr(choices, of.called):
            now = getattr(scenario, of.path)
            args = controlled(f"w.{of.path}", now, _commit(of))
            cells.append((_label(of, label), now, {"min_value": 1, "max_value": 1_048_576, "step": 1} | args))
    cells += [_param(p, scenario) for p in choices.params if p.name not in GUESSING]
    for at in range(0, len(cells), 2):
        pair = cells[at : at + 2]
        beside = len(pair) == 2 and all(len(label) <= 16 and now < 10**_NUMBER for label, now, _ in pair)
        for place, (label, _, args) in zip(st.columns(2) if beside else [st] * 2, pair):
            place.number_input(label, **args)
    guesses(scenario, choices)


def _param(p: Any, scenario: Scenario, key: str = "w") -> tuple[str, float, dict[str, Any]]:
    """A size of the network: its label, its value, and the arguments of its widget."""
    whole = float(p.default).is_integer() and float(p.low).is_integer()
    cast: Callable[[float], float] = int if whole else float
    value = cast(scenario.params.get(p.name, p.default))

    def commit(number: float | None) -> None:
        if number is not None:
            params = {k: v for k, v in link.current().params.items() if k != p.name}
            link.commit(params=params if number == cast(p.default) else params | {p.name: number})

    limits = {"min_value": cast(min(p.low, value)), "max_value": cast(max(p.high, value))}
    args = limits | {"step": cast(1) if whole else None} | controlled(f"{key}.params.{p.name}", value, commit)
    return _label(field("params"), p.label), value, args


def guesses(scenario: Scenario, choices: Choices, key: str = "w") -> None:
    """Speculative decoding: the network that guesses a language model's tokens ahead, how many, how well.

    Each page that shows it has a ``key`` of its own: a browser still sends what the page before it drew.
    """
    zoo, ids = default_zoo(), list(drafts(scenario))
    now = drafted(scenario) or ("other" if guessing(scenario) else "")
    names = {"": "none", **{id: zoo.workload(id).name for id in ids}}
    names |= {now: "of other sizes"} if now == "other" else {}

    def params(of: Scenario, id: str) -> dict[str, int | float]:
        return _GUESSES | with_draft(of, id).params if id else without_draft(of).params

    def commit(id: str) -> None:
        link.commit(params=params(link.current(), id))

    if now or (ids and cached.try_report(scenario, params=params(scenario, ids[0])) is not None):
        pick("Draft network", names, f"{key}.draft", now, commit, help=glossary.HELP["draft"])
    for label, _, args in (_param(p, scenario, key) for p in choices.params if p.name in GUESSING):
        st.number_input(label, **args)


def _choice(of: Field, options: tuple[str, ...], now: str, missing: list[str]) -> None:
    """A segmented control where all options fit a 320 px sidebar, else a select box; `missing` says what is not there.

    A field with one value to pick is not drawn, unless something says why there is no other.
    """
    values = list(options) if now in options else [now, *options]
    if len(values) == 1 and not missing:
        return
    names = {v: glossary.value_label(v) for v in values}
    look = SEGMENTS if len(values) <= 4 and sum(map(len, names.values())) <= _SEGMENTS else {}
    pick(_label(of), names, f"w.{of.path}", now, _commit(of), help=" ".join([of.help, *missing]), **look)


def _value_picker(of: Field, scenario: Scenario, choices: Choices) -> None:
    """A field whose values are listed: numbers along a slider, names to choose from; nothing where it has none."""
    values, now = choices.of(of), of.display(getattr(scenario, of.path))
    if not values:
        return
    if of.kind == "count":
        names = {value: f"{value:,}" for value in sorted({*values, now})}
        if len(names) > 1:
            pick(_label(of), names, f"w.{of.path}", now, _commit(of), st.select_slider, help=of.help)
        return
    reasons = getattr(choices, f"missing_{of.offered}", {})
    _choice(of, values, now, list(dict.fromkeys(reason for name, reason in reasons.items() if name in _USUAL)))


def _tile(scenario: Scenario, choices: Choices) -> None:
    if not choices.knobs:
        return
    of, auto = field("tile"), dict(cached.report(encode(scenario)).tile) if choices.formats else {}
    for column, (at, knob) in zip(st.columns(len(choices.knobs)), enumerate(choices.knobs), strict=True):
        now = scenario.tile[at] if scenario.tile else _AUTO
        label = f"{of.none} ({auto[knob.name]})" if not scenario.tile and knob.name in auto else str(of.none)
        names = {_AUTO: label} | {v: str(v) for v in sorted({*knob.values, now} - {_AUTO})}
        with column:
            commit = partial(_set_tile, at)
            pick(_label(of, knob.label), names, f"w.tile.{knob.name}", now, commit, help=of.help)


def _set_tile(at: int, value: int | str) -> None:
    """One tiling knob turned: auto frees all of them, a value keeps the others where they are or at their best."""
    if isinstance(value, str):  # the label of an automatic tile of before
        return
    link.commit(tile=() if value == _AUTO else cached.fastest_tile(link.current(), {at: value}))


def _switches(scenario: Scenario, choices: Choices) -> None:
    if not choices.switches:
        return
    on = {s.name: scenario.switches.get(s.name, s.default) for s in choices.switches}

    def commit(name: str, value: bool) -> None:
        link.commit(switches={**link.current().switches, name: value})

    with st.expander(f"{field('switches').label} · {sum(on.values())} of {len(on)} on", key="open.switches"):
        for switch in choices.switches:
            name = switch.name
            st.toggle(switch.label, help=switch.help, **controlled(f"w.switch.{name}", on[name], partial(commit, name)))


def _overrides(scenario: Scenario, _: Choices) -> None:
    """What-ifs: pick a value of the hardware, then type another; taking it off the list brings the catalog's back."""
    rows = {row.path: row for row in specs.overridable(scenario)}
    of, count = field("overrides"), len(scenario.overrides)
    open_paths = [p for p in st.session_state.get("opened", []) if p in rows]
    paths = list(dict.fromkeys([*scenario.overrides, *open_paths]))

    def commit_paths(paths: list[str]) -> None:
        st.session_state.opened = list(paths)
        overrides = {p: v for p, v in link.current().overrides.items() if p in st.session_state.opened}
        if overrides != link.current().overrides:
            link.commit(overrides=overrides)

    def commit_value(path: str, text: str) -> None:
        overrides = {p: v for p, v in link.current().overrides.items() if p != path}
        link.commit(overrides=overrides | {path: text.strip()} if text.strip() else overrides)

    with st.expander(f"{of.label} · {count or of.none}", key="open.overrides"):
        names = {path: row.label for path, row in rows.items()} | {path: path for path in paths if path not in rows}
        pick("Values to change", names, "w.overrides", paths, commit_paths, st.multiselect, help=of.help)
        for path in paths:
            row, value = rows.get(path), scenario.overrides.get(path, "")
            text = specs.value_text(row, value) if row else str(value)
            st.text_input(
                row.label if row else path,
                placeholder=f"{row.text} in the catalog" if row else None,
                help=f"{row.basis}. {row.where}" if row else None,
                **controlled(f"w.override.{path}", text, partial(commit_value, path)),
            )


def set_costs(scenario: Scenario, _: Choices | None = None) -> None:
    """Prices and limits, in the units people use."""
    costs, limits = scenario.costs, scenario.limits
    count = sum(v is not None for v in limits.model_dump().values())

    def cost(**change: float | None) -> None:
        link.commit(costs=link.current().costs.model_dump() | change)

    with st.expander(f"Costs and limits · {count or 'no'} limit{'' if count == 1 else 's'}", key="open.costs"):
        cost_inputs(costs, "w.costs", cost, "not counted")
        limits_inputs(scenario, "w", {"latency_s": "Latency limit", "power_w": "Power limit", "capex_usd": "Budget"})


def cost_inputs(costs: Costs, key: str, commit: Callable[..., None], no_host: str) -> None:
    """What turns power and hardware into money; `no_host` says what holds where no host is priced."""
    of = field("costs")

    def set_cost(name: str, value: float | None) -> None:
        if value is not None or name == "host_usd":
            commit(**{name: value})

    for pair in (_COSTS[:2], _COSTS[2:]):
        for column, (name, label, step) in zip(st.columns(2), pair, strict=True):
            args = controlled(f"{key}.{name}", float(getattr(costs, name)), partial(set_cost, name))
            column.number_input(_label(of, label), min_value=0.0, step=step, **args)
    st.number_input(
        _label(of, "Host price ($)"),
        min_value=0.0,
        placeholder=no_host,
        help="Buys the host of up to eight devices where the catalog prices none.",
        **controlled(f"{key}.host_usd", costs.host_usd, partial(set_cost, "host_usd")),
    )


def limits_inputs(scenario: Scenario, key: str, labels: Mapping[str, str]) -> None:
    """The scenario's limits, named as the page names them."""

    def limit(**change: float | None) -> None:
        link.commit(limits=link.current().limits.model_dump() | change)

    for name, label in labels.items():
        limit_input(label, name, getattr(scenario.limits, name), f"{key}.limits.{name}", limit)


def limit_input(
    label: str, name: str, value: float | None, key: str, commit: Callable[..., None], help: str | None = None
) -> None:
    """A limit in the unit people use; an emptied one is none."""
    unit = {"power_w": fmt.WATT, "capex_usd": fmt.DOLLAR}.get(name, fmt.MILLISECOND)

    def set_limit(number: float | None) -> None:
        commit(**{name: unit.si(number) if number else None})

    number = None if value is None else unit(value)
    args: dict[str, Any] = {"format": digits(number), "help": help} | controlled(key, number, set_limit)
    st.number_input(f"{label} ({unit.unit})", min_value=0.0, value=None, placeholder="none", **args)


def percentile_limits(value: str, key: str, commit: Callable[[str], None], help: str) -> None:
    """Limits as text, in the syntax of the command line."""
    args = controlled(key, value, commit)
    st.text_input(
        "Limits at percentiles", max_chars=200, placeholder="ttft:p99=300ms, tpot:p90=25ms", help=help, **args
    )


_WIDGETS: dict[str, Callable[[Scenario, Choices], None]] = {
    "inputs": _shape,
    "tile": _tile,
    "switches": _switches,
    "overrides": _overrides,
    "costs": set_costs,
}
"""Fields that are more than one widget, the first one of those that are drawn together."""


def scenario_controls(scenario: Scenario) -> None:
    """Everything a user may turn, in the order a design is thought of, which is that of the table of fields."""
    choices = cached.options(encode(scenario))
    with st.sidebar:
        _pair(scenario, choices)
        if not choices.formats:
            return
        for of in FIELDS:
            if of.path in _WIDGETS:
                _WIDGETS[of.path](scenario, choices)
            elif of.kind in ("count", "choice"):
                _value_picker(of, scenario, choices)
