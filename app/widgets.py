"""The scenario's controls: written from the scenario on every run, changing it through `link.commit`.

Only what the system and the workload offer can be picked; what is missing says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from app import cached, link, specs, words
from app import format as fmt
from engine.choices import Choices
from engine.scenario import Scenario, ScenarioError, encode
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

__all__ = ["kind_of", "scenario_controls", "set_costs", "system_label", "workload_label"]

_USUAL = ("fp32", "fp16", "bf16", "int8", "int4")
_LONGEST = 33  # characters a select box of a 320 px sidebar shows
_SEGMENTS = 22  # characters of the options beside each other that it shows in one line
_NUMBER = 6  # digits beside the steps of a number input on half of it
_AUTO = 0  # no tile has a side of 0


def _controlled(key: str, value: Any) -> str:
    """Session key of a widget, holding the scenario's value before the widget exists."""
    st.session_state[key] = value
    return key


def _commit(field: str, key: str, convert: Callable[[Any], Any] = lambda value: value) -> None:
    value = st.session_state[key]
    if value is not None:
        link.commit(**{field: convert(value)})


def _label(field: str, text: str) -> str:
    """A widget's label, or what is wrong with the field it sets."""
    problem = st.session_state.get("problem")
    return f"{text} :red[not allowed]" if problem and field in problem[0] else text


def kind_of(id: str) -> str:
    """What the first devices of a system are: `FPGA`, `GPU`."""
    catalog = default_catalog()
    kind = catalog.device(catalog.system(id).devices[0].device).kind
    return words.KINDS.get(kind, kind)


def system_label(id: str) -> str:
    """`FPGA · DFX appliance`; the name alone where both would be cut."""
    name = default_catalog().system(id).name
    both = f"{kind_of(id)} · {name}"
    return both if len(both) <= _LONGEST else name


def workload_label(id: str, reason: str | None = None) -> str:
    """`GPT-2 1.5B`, and whether it can't run here."""
    name = default_zoo().workload(id).name
    return f"{name} · not here" if reason else name


def _pair(scenario: Scenario, offered: Choices) -> None:
    systems = sorted(default_catalog().ids("systems"), key=lambda id: (kind_of(id), default_catalog().system(id).name))
    st.selectbox(
        _label("system", "System"),
        systems,
        key=_controlled("w.system", scenario.system),
        format_func=system_label,
        on_change=lambda: link.open_pair(st.session_state["w.system"], scenario.workload),
        help="Devices, their host and the wires between them.",
    )
    zoo = default_zoo()
    loads = sorted(
        offered.workloads,
        key=lambda id: (offered.workloads[id] is not None, zoo.workload(id).family, zoo.workload(id).name),
    )
    st.selectbox(
        _label("workload", "Workload"),
        loads,
        key=_controlled("w.workload", scenario.workload),
        format_func=lambda id: workload_label(id, offered.workloads[id]),
        on_change=lambda: link.open_pair(scenario.system, st.session_state["w.workload"]),
        help="The network. `not here`: this system can't run it; picking it says why.",
    )


def _shape(scenario: Scenario, offered: Choices) -> None:
    lengths = [("inputs", offered.input_label), ("outputs", offered.output_label)]
    cells: list[tuple[str, float, Callable[[], None]]] = []
    for field, label in lengths:
        if label:
            now = getattr(scenario, field)
            cells.append((label, now, lambda field=field, label=label, now=now: _number(field, label, now)))
    for p in offered.params:
        cells.append((p.label, scenario.params.get(p.name, p.default), lambda p=p: _param(p, scenario)))
    for at in range(0, len(cells), 2):
        pair = cells[at : at + 2]
        if len(pair) == 2 and all(len(label) <= 16 and now < 10**_NUMBER for label, now, _ in pair):
            for column, (_, _, draw) in zip(st.columns(2), pair, strict=True):
                with column:
                    draw()
        else:
            for _, _, draw in pair:
                draw()


def _number(field: str, label: str, value: int) -> None:
    key = _controlled(f"w.{field}", value)
    st.number_input(
        _label(field, label), min_value=1, max_value=1_048_576, step=1, key=key, on_change=_commit, args=(field, key)
    )


def _param(p: Any, scenario: Scenario) -> None:
    whole = float(p.default).is_integer() and float(p.low).is_integer()
    cast: Callable[[float], float] = int if whole else float
    value = cast(scenario.params.get(p.name, p.default))
    key = _controlled(f"w.params.{p.name}", value)

    def changed() -> None:
        given = st.session_state[key]
        if given is not None:
            rest = {k: v for k, v in scenario.params.items() if k != p.name}
            link.commit(params=rest if given == cast(p.default) else rest | {p.name: given})

    low, high = (min(p.low, value), max(p.high, value))
    st.number_input(
        _label("params", p.label), min_value=cast(low), max_value=cast(high), step=cast(1) if whole else None,
        key=key, on_change=changed,
    )  # fmt: skip


def _slider(field: str, label: str, values: tuple[int, ...], now: int, help: str) -> None:
    options = sorted({*values, now})
    if len(options) == 1:
        return
    key = _controlled(f"w.{field}", now)
    st.select_slider(
        _label(field, label), options, key=key, on_change=_commit, args=(field, key), help=help,
        format_func=lambda v: f"{v:,}",
    )  # fmt: skip


def _choice(field: str, label: str, options: tuple[str, ...], now: str, shown: Callable[[str], str], help: str) -> None:
    """A segmented control where all options fit a 320 px sidebar, else a select box."""
    values = list(options) if now in options else [now, *options]
    key = _controlled(f"w.{field}", now)
    common: dict[str, Any] = {
        "key": key,
        "format_func": shown,
        "on_change": _commit,
        "args": (field, key),
        "help": help,
    }
    if len(values) <= 4 and sum(len(shown(v)) for v in values) <= _SEGMENTS:
        st.segmented_control(_label(field, label), values, required=True, width="stretch", **common)
    else:
        st.selectbox(_label(field, label), values, **common)


def _formats_help(offered: Choices) -> str:
    """What the formats are, and why the usual others are not offered."""
    reasons = dict.fromkeys(reason for name, reason in offered.missing_formats.items() if name in _USUAL)
    return " ".join([words.HELP["precision"], *reasons])


def _tile(scenario: Scenario, offered: Choices) -> None:
    if not offered.knobs:
        return
    auto = dict(cached.report(encode(scenario)).tile) if offered.formats else {}
    for column, (at, knob) in zip(st.columns(len(offered.knobs)), enumerate(offered.knobs), strict=True):
        now = scenario.tile[at] if scenario.tile else _AUTO
        key = _controlled(f"w.tile.{knob.name}", now)
        chosen = f"auto ({auto[knob.name]})" if not scenario.tile and knob.name in auto else "auto"
        column.selectbox(
            _label("tile", knob.label),
            [_AUTO, *knob.values],
            key=key,
            format_func=lambda v, chosen=chosen: chosen if v == _AUTO else str(v),
            on_change=_tiled,
            args=(at, key),
            help=words.HELP["tile"],
        )


def _tiled(at: int, key: str) -> None:
    """One tiling knob turned: auto frees all of them, a value keeps the others where they are or at their best."""
    scenario, value = link.current(), st.session_state[key]
    if value == _AUTO:
        link.commit(tile=())
        return
    if scenario.tile:
        link.commit(tile=tuple(value if i == at else v for i, v in enumerate(scenario.tile)))
        return
    link.commit(tile=_best_tile(scenario, at, value))


def _best_tile(scenario: Scenario, at: int, value: int) -> tuple[int, ...]:
    """The fastest tile that has one value fixed."""
    tiles: list[tuple[int, ...]] = [()]
    for i, knob in enumerate(cached.options(encode(scenario)).knobs):
        tiles = [(*tile, v) for tile in tiles for v in ((value,) if i == at else knob.values)]

    def latency(tile: tuple[int, ...]) -> float:
        try:
            report = cached.report(encode(scenario.with_(tile=tile)))
        except ScenarioError:
            return float("inf")
        return report.latency_s if report.fits else float("inf")

    return min(tiles, key=latency)


def _switches(scenario: Scenario, offered: Choices) -> None:
    if not offered.switches:
        return
    on = {s.name: scenario.switches.get(s.name, s.default) for s in offered.switches}

    def turned(name: str, key: str) -> None:
        link.commit(switches={**link.current().switches, name: bool(st.session_state[key])})

    with st.expander(f"Optimisations · {sum(on.values())} of {len(on)} on", key="open.switches"):
        for switch in offered.switches:
            key = _controlled(f"w.switch.{switch.name}", on[switch.name])
            st.toggle(switch.label, key=key, help=switch.help, on_change=turned, args=(switch.name, key))


def _overrides(scenario: Scenario) -> None:
    """What-ifs: pick a value of the hardware, then type another; taking it off the list brings the catalog's back."""
    known = {row.path: row for row in specs.overridable(scenario)}
    count = len(scenario.overrides)
    opened = [p for p in st.session_state.get("opened", []) if p in known]
    shown = list(dict.fromkeys([*scenario.overrides, *opened]))

    def picked() -> None:
        st.session_state.opened = list(st.session_state["w.overrides"])
        kept = {p: v for p, v in link.current().overrides.items() if p in st.session_state.opened}
        if kept != link.current().overrides:
            link.commit(overrides=kept)

    def typed(path: str, key: str) -> None:
        given = st.session_state[key].strip()
        rest = {p: v for p, v in link.current().overrides.items() if p != path}
        link.commit(overrides=rest | {path: given} if given else rest)

    with st.expander(f"Hardware overrides · {count or 'none'}", key="open.overrides"):
        st.multiselect(
            "Values to change",
            list(dict.fromkeys([*known, *shown])),
            key=_controlled("w.overrides", shown),
            format_func=lambda p: known[p].label if p in known else p,
            on_change=picked,
            help=words.HELP["overrides"],
        )
        for path in shown:
            row, value = known.get(path), scenario.overrides.get(path, "")
            key = _controlled(f"w.override.{path}", specs.written(row.printed, value) if row else str(value))
            st.text_input(
                row.label if row else path,
                key=key,
                placeholder=f"{row.printed} in the catalog" if row else None,
                on_change=typed,
                args=(path, key),
                help=f"{row.basis}. {row.where}" if row else None,
            )


def set_costs(scenario: Scenario) -> None:
    """Prices and limits, in the units people use."""
    costs, limits = scenario.costs, scenario.limits
    count = sum(v is not None for v in limits.model_dump().values())

    def cost(name: str, key: str) -> None:
        if st.session_state[key] is not None:
            link.commit(costs=link.current().costs.model_dump() | {name: st.session_state[key]})

    def limit(name: str, key: str, factor: float) -> None:
        value = st.session_state[key]
        link.commit(limits=link.current().limits.model_dump() | {name: value / factor if value else None})

    with st.expander(f"Costs and limits · {count or 'no'} limit{'' if count == 1 else 's'}", key="open.costs"):
        fields = (
            ("energy_usd_per_kwh", "USD per kWh", 0.01),
            ("pue", "PUE", 0.05),
            ("years", "Years in use", 1.0),
            ("utilisation", "Share of time busy", 0.05),
        )
        for (left, right), columns in zip((fields[:2], fields[2:]), (st.columns(2), st.columns(2)), strict=True):
            for column, (name, label, step) in zip(columns, (left, right), strict=True):
                key = _controlled(f"w.costs.{name}", float(getattr(costs, name)))
                column.number_input(
                    _label("costs", label), min_value=0.0, step=step, key=key, on_change=cost, args=(name, key)
                )
        for name, label, unit in (
            ("latency_s", "Latency limit", fmt.MILLISECOND),
            ("power_w", "Power limit", fmt.WATT),
            ("capex_usd", "Budget", fmt.DOLLAR),
        ):
            value = getattr(limits, name)
            key = _controlled(f"w.limits.{name}", None if value is None else unit(value))
            st.number_input(
                f"{label} ({unit.unit})", min_value=0.0, value=None, key=key, placeholder="none", on_change=limit,
                args=(name, key, unit.factor),
            )  # fmt: skip


def scenario_controls(scenario: Scenario) -> None:
    """Everything a user may turn, in the order a design is thought of: what, shape, batch, format, tile, partition."""
    offered = cached.options(encode(scenario))
    with st.sidebar:
        _pair(scenario, offered)
        if not offered.formats:
            return
        _shape(scenario, offered)
        _slider("batch", "Batch", offered.batches, scenario.batch, words.HELP["batch"])
        if offered.max_streams > 1:
            streams = tuple(2**i for i in range(offered.max_streams.bit_length()) if 2**i < offered.max_streams)
            _slider("streams", "Streams", (*streams, offered.max_streams), scenario.streams, words.HELP["streams"])
        _choice(
            "precision", "Precision", offered.formats, scenario.precision, words.format_label, _formats_help(offered)
        )
        _tile(scenario, offered)
        if len(offered.schemes) > 1:
            _choice(
                "scheme", "Partition", offered.schemes, scenario.scheme, lambda s: words.SCHEMES.get(s, s),
                words.HELP["scheme"],
            )  # fmt: skip
        _slider("devices", "Devices", offered.device_counts, scenario.devices, "Devices of the system in use.")
        if scenario.scheme == "split":
            cuts = tuple(range(len(offered.splits) + 1))
            _slider("split", "Cut before operator", cuts, scenario.split, words.HELP["split"])
        _switches(scenario, offered)
        _overrides(scenario)
        set_costs(scenario)
