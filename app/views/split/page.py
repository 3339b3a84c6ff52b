"""Where should this network be cut, and what may run beside the packets?"""

from dataclasses import replace
from itertools import chain
from typing import Any

import streamlit as st

from app.shared import cached, glossary, link, parts
from app.shared import formats as fmt
from app.shared.report_tables import columns
from app.shared.widgets import sidebar
from app.shared.widgets.choices import choose, number, switch
from app.views.split import charts, texts
from engine.analyses.camera import Camera, CameraNetwork, Cascade, Tier, row_of, tiers_of
from engine.analyses.cuts import Goal, SplitPoint, best_split, executor_names, split_points
from engine.analyses.edge import depth_first_of, forwarding, host_and_nic, inference_on, nic_of
from engine.analyses.placement import best_of, idle_notes, placements
from engine.cost.report import Report
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.resolve.bind import named
from engine.scenario import Scenario, ScenarioError, encode
from engine.scenario.formats import BITS, WEIGHT_ONLY
from entries.schema import InputError
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo

_OPEN = ("alexnet-split", "edge-camera", "nic-coprocessor")
_LIMITS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_SPARE = Tier("third machine", "", "metro-core")


def elsewhere(reason: str) -> None:
    """This system has one executor; here are some with two."""
    parts.elsewhere(texts.NO_PARTITION_POINT.format(reason=reason.rstrip(".")), _OPEN, "split")


def cut(scenario: Scenario) -> None:
    """Every cut between the executors, and the best for a goal."""
    try:
        plain = cached.answer(split_points, scenario)
    except Unsupported as error:
        elsewhere(str(error))
        return
    except ScenarioError as error:
        schemes = cached.options(encode(scenario)).schemes
        if "split" not in schemes and link.offers("split"):
            return  # the page is about a camera or packets here
        ways = ", ".join(glossary.SCHEMES.get(name, name).lower() for name in schemes)
        name = parts.pair_names(scenario)[0]
        elsewhere(str(error) if "split" in schemes else texts.NO_SECOND_DEVICE.format(name=name, ways=ways))
        return
    goals: list[Goal] = [g for g in texts.GOALS if g != "energy" or all(p.energy_j is not None for p in plain)]
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        goal = choose("Best cut for", {g: texts.GOALS[g] for g in goals}, "goal", width=230)
        low = switch("First part in INT8", "low", help=texts.INT8_HELP)
    points = plain
    if low or (plain[0].second_at is not None and goal in ("throughput", "energy")):
        try:
            points = cached.answer(split_points, scenario, "int8" if low else None, goal)
        except InputError as error:
            st.caption(fmt.plain(str(error)))
    best = best_split(points, goal)
    whole = best_split(points, "latency").latency_s
    answer = f"{best.place}: {fmt.seconds(best.latency_s)}"
    answer += f", {fmt.si(best.crossing_bytes, 'B')} cross" if best.crossing_bytes else ", nothing crosses"
    if best.latency_s > whole * 1.001:
        answer += f"; {fmt.times(best.latency_s / whole)} the least latency"
    here = (scenario.split, scenario.second_split) if scenario.scheme == "split" else None
    now = next((point for point in points if (point.at, point.second_at) == here), None)
    fig = charts.cuts(points, best, now, parts.dark(), 300 if parts.mobile() else 380)
    with parts.card(texts.CUTS.format(count=len(points)), answer, fig, "cuts"):
        names = zip(texts.EXECUTORS, executor_names(scenario))
        st.caption(fmt.plain(" ".join(f"{label}: {name}." for label, name in names)))
        parts.evidence(best.error_band)
        change = {"scheme": "split", "split": best.at, "second_split": best.second_at}
        if scenario.with_(**change) != scenario:
            st.button(texts.USE_BEST, on_click=link.commit, kwargs=change, key="split.use")
    _table(points)


def _table(points: tuple[SplitPoint, ...]) -> None:
    with st.expander(f"All {len(points)} cuts", key="open.cuts"):
        scales = fmt.FIXED | {"s": fmt.scale([max(p.latency_s for p in points)], "s")}
        has_third = any(p.third_s for p in points)
        table = {name: of for name, of in texts.CUT_COLUMNS.items() if has_third or of != "third_s s"}
        parts.table(columns(points, table, scales))


def _tiers(scenario: Scenario) -> tuple[Tier, ...]:
    """The machines behind the cameras, each with its link and format: the scenario's own to begin with."""
    catalog, tiers, defaults = default_catalog(), list[Tier](), tiers_of(scenario)
    devices = {id: catalog.device(id).name for id in catalog.ids("devices")}
    with st.expander(texts.TIERS, key="open.tiers"):
        spare = replace(_SPARE, precision=defaults[0].precision, batch=defaults[0].batch)
        for at, (tier, column) in enumerate(zip((*defaults, spare)[:3], st.columns(3), strict=True)):
            with column:
                kinds = devices if at < 2 else {"": "none"} | devices
                device = choose(tier.name[:1].upper() + tier.name[1:], kinds, f"tier{at}", tier.device)
                if not device:
                    continue
                formats = family(catalog.device(device).kind).formats(catalog.device(device))
                usual = tier.precision if tier.precision in formats else formats[0]
                names = {format: glossary.format_label(format) for format in formats}
                precision = choose("Precision", names, f"format{at}", usual)
                batch = number(texts.BATCH, 1, 256, min(tier.batch, 256), f"together{at}", help=texts.BATCH_HELP)
                extra: dict[str, Any] = {"placeholder": texts.MACHINE_EACH, "help": texts.MACHINES_HELP}
                count = number("Machines", 1, 10_000, tier.machines, f"many{at}", empty=True, **extra)
                here: dict[str, Any] = {"device": device, "precision": precision, "batch": batch, "machines": count}
                tiers.append(replace(tier, **here | (_way(tier, at) if at else {})))
    return tuple(tiers)


def _way(tier: Tier, at: int) -> dict[str, Any]:
    """The link to a machine, and how a cut network's results cross it."""
    links = {id: default_catalog().link(id).name for id in default_catalog().ids("links")}
    formats = {"": texts.AS_COMPUTED} | {
        format: glossary.format_label(format) for format in BITS if format not in WEIGHT_ONLY
    }
    return {
        "link": choose("Link to it", links, f"link{at}", tier.link),
        "format": choose(texts.CROSSES, formats, f"crosses{at}", tier.format or "") or None,
        "compression": number("Compression", 1.0, 1000.0, tier.compression, f"squeeze{at}", help=texts.SQUEEZE_HELP),
        "metres": fmt.KILOMETRE.si(number(texts.FIBRE, 0.0, 20_000.0, 0.0, f"fibre{at}", help=texts.FIBRE_HELP)),
    }


def camera(scenario: Scenario) -> None:
    """Cameras and the scenario's machines behind them: whole networks at each, and cuts over two and three."""
    row = row_of(scenario)
    usual = default_catalog().system(row.system).frame
    first, second, third, fourth = st.columns(4)
    cameras = number("Cameras", 1, 10_000, 1, "cameras", help=texts.CAMERAS_HELP, widget=first.number_input)
    rate = "Frames per second"
    frames = number(rate, 0.1, 120.0, 5.0, "frames", help="Of one camera.", widget=second.number_input)
    of_one = None if usual is None else fmt.KILOBYTE(usual.si)
    size = number("Frame (kB)", 1.0, 20_000.0, of_one, "frame", help=texts.FRAME_HELP, widget=third.number_input)
    limits = {"any": "any"} | {f"{s:g}": fmt.seconds(s) for s in _LIMITS}
    value = choose("Latency limit", limits, "answer", widget=fourth.select_slider)
    limit = None if value == "any" else float(value)
    zoo, left, middle, right = default_zoo(), *st.columns(3)
    images = {"": "none"} | {id: zoo.workload(id).name for id in zoo.ids() if zoo.graph(id).seen}
    small = choose(texts.FILTER, images, "filter", "", help=texts.FILTER_HELP, widget=left.selectbox)
    pass_share = number(texts.PASSED, 0.01, 1.0, 0.1, "passed", disabled=not small, widget=middle.number_input)
    aim = choose("Cuts for", texts.PLACE_GOALS, "aim", widget=right.selectbox)
    try:
        network = CameraNetwork(
            row,
            _tiers(scenario),
            Camera(frames, None if size is None else fmt.KILOBYTE.si(size), cameras),
            Cascade(small, pass_share) if small else None,
        )
        by_goal = [placements(network, limit, goal) for goal in texts.PLACE_GOALS]
    except InputError as error:
        with parts.card("Edge placement", texts.NONE_RUNS):
            st.caption(fmt.plain(str(error)))
        return
    places = by_goal[list(texts.PLACE_GOALS).index(aim)]
    answer = texts.NO_PLACE.format(cameras=fmt.count(cameras))
    if (best := best_of(chain(*by_goal), cameras)) is not None:
        quick, top = best
        cut = texts.CUT.format(after=top.after, which="" if top in places else texts.NOT_BELOW) if top.after else ""
        place = f"{top.name}{cut}"
        answer = texts.PLACES_ANSWER.format(first=quick.name, latency=fmt.seconds(quick.latency_s), most=place)
        answer += fmt.count(top.cameras) if top.cameras else texts.ANY_NUMBER
    with parts.card("Edge placement", answer, charts.placements(places, limit, parts.dark()), "places"):
        frame = {
            "Where": [p.name for p in places],
            "Cameras": ["any number" if p.cameras is None else fmt.count(p.cameras) for p in places],
            **({"p99": [fmt.seconds(p.p99_s) for p in places]} if cameras > 1 else {}),
            "Power (W)": [p.watts for p in places],
            texts.MONTH_COLUMN: [p.usd_per_month for p in places],
            "Uplink per camera (Mbit/s)": [fmt.MEGABIT(p.uplink_bytes_per_s) for p in places],
            "Error band": [fmt.band(p.error_band.relative) for p in places],
            "In time": [p.meets_limit for p in places],
        }
        parts.table(frame)
        for name, reason in network.refusals.items():
            st.caption(fmt.plain(texts.NOT_WHOLE.format(name=name, reason=reason)))
        first = network.tiers[0]
        machines = texts.SHARED if first.machines else texts.EACH.format(tier=first.name)
        st.caption(fmt.plain(" ".join([texts.PLACES_CAPTION.format(machines=machines), *idle_notes(network)])))
        if row.system != scenario.system:
            name, usual = parts.pair_names(scenario)[0], default_catalog().system(row.system).name
            st.caption(fmt.plain(texts.NO_ROW.format(name=name, row=usual)))
        elif not network.matches_system and (scenario.overrides or scenario.layers):
            st.caption(texts.WHAT_IFS_CAPTION)


def packets(scenario: Scenario, report: Report) -> None:
    """What the network processor forwards while it infers."""
    try:
        device = nic_of(scenario)
    except InputError:
        return
    path = family(device.kind).packets if device is not None else None
    if device is None or path is None:
        return
    memories = path.memories(device, 64.0)
    at_work, model = inference_on(report, device), named(scenario).model
    rates = [forwarding(device, at_work, model=model, busy=busy) for busy in (0.0, 0.25, 0.5, 0.75, 1.0)]
    count = rates[-1].executors
    if (smallest := rates[-1].drop_bytes) is None:
        answer = texts.FORWARDING_NONE.format(executors=count)
    else:
        answer = texts.FORWARDING_ANSWER.format(executors=count, size=smallest)
    with parts.card("Forwarding while inferring", answer, charts.forwarding(rates, parts.dark()), "forwarding"):
        by_level: dict[str, list[str]] = {}
        for fit in report.memory:
            by_level.setdefault(fit.level, []).append(f"{fit.holds}, {fmt.si(fit.need_bytes, 'B')}")
        frame = {
            "Memory": [m.name.upper().replace("-", " ") for m, _ in memories],
            "Of each": [m.per for m, _ in memories],
            "Size": [fmt.si(m.capacity.si, "B") for m, _ in memories],
            "Cycles": [f"{m.nearest.si:g} to {m.farthest.si:g}" for m, _ in memories],
            "Bytes per access": [f"{m.width.si:g}" if m.width is not None else fmt.UNKNOWN for m, _ in memories],
            texts.WAIT_COLUMN: [wait for _, wait in memories],
            "Holds": [
                ", ".join(by_level.get(m.name, ())) or ("packets" if m.per == "island" else fmt.UNKNOWN)
                for m, _ in memories
            ],
        }
        parts.table(frame)


def together(scenario: Scenario) -> None:
    """A host and its network processor at once."""
    try:
        shares = host_and_nic(scenario)
    except InputError as error:
        if nic_of(scenario) is not None and scenario.scheme == "on-path":
            st.caption(fmt.plain(str(error)) + ".")
        return
    first, _, pair = shares
    gain = pair.throughput_per_s / first.throughput_per_s - 1
    per_joule = pair.per_watt / first.per_watt - 1 if pair.per_watt and first.per_watt else None
    answer = texts.TOGETHER_ANSWER.format(gain=fmt.percent(gain), per_joule=fmt.percent(per_joule))
    with parts.card(texts.TOGETHER, answer):
        parts.table(columns(shares, texts.TOGETHER_COLUMNS))
        st.caption(texts.TOGETHER_CAPTION)


def depth_first(scenario: Scenario, report: Report) -> None:
    """Breadth first against depth first."""
    try:
        comparison = depth_first_of(scenario)
    except InputError:
        return
    answer = texts.DEPTH_FIRST_ANSWER.format(
        speedup=fmt.times(comparison.speedup), depth=fmt.si(comparison.depth_bytes, "B")
    )
    answer += f"{fmt.si(comparison.breadth_bytes, 'B')} by {fmt.counted(len(comparison.chains), 'chain')}"
    fig = charts.chains(comparison, scenario.batch, parts.dark())
    with parts.card("Depth-first (fused-tile) execution", answer, fig, "chains"):
        parts.evidence(report.error_band)
        st.caption(texts.DEPTH_FIRST_CAPTION)


def show() -> None:
    """The page."""
    scenario = link.current()
    sidebar.scenario_controls(scenario)
    report = parts.report_now()  # none where the pair can't run: cuts may still be possible
    parts.bar(report, "split")
    if report is not None and not report.problems:
        st.markdown(report.verdict)
    cut(scenario)
    if default_zoo().graph(scenario.workload).seen:
        camera(scenario)
    if report is not None:
        packets(scenario, report)
        together(scenario)
        depth_first(scenario, report)


show()
