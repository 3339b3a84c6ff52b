"""The sentence on top of a report: what limits a request, whether it fits, which limits it misses. Of estimates."""

from collections.abc import Sequence

from engine.cost.assemble import Schedule
from engine.cost.best_plan import enough_devices
from engine.cost.continuous import Continuous
from engine.cost.rows import RESOURCE_NAMES, MemoryRow, totals
from engine.resolve.bound import Bound
from engine.scenario.overrides import without_figure
from engine.scenario.sentences import amount, bytes_, level_name, percent


def governed_by(times: Schedule) -> str | None:
    """The sentence that a power limit takes clock; None where it does not."""
    clock, device = times.draw("clock"), times.bound.device
    limit = device.power.max
    if clock >= 1.0 or limit is None:
        return None
    share = f"{percent(clock)} of its clock" if clock >= times.account.governor.lowest else "pauses at its lowest clock"
    return f"{device.name}: the limit of {amount(limit.si, 'W')} leaves {share} to work without pause"


def tile_of(times: Schedule) -> tuple[tuple[str, int], ...]:
    """Values of the first device's tiling knobs that a request runs with, by name."""
    bound = times.bound
    first = next((p for p in times.priced if p.stage.device is bound.device), times.priced[0])
    knobs = first.family.knobs(first.stage.device, bound.graph, bound.scenario)
    tile = first.stage.tile or bound.scenario.tile
    if not first.stage.tile and first.family.tile is not None and first.runs:
        tile = first.family.tile(first.runs[0].job)
    return tuple((knob.name, value) for knob, value in zip(knobs, tile))


def _tile_limits(times: Schedule) -> str:
    """A sentence for each tiling knob of which a stream has less than it was set to."""
    s = times.bound.scenario
    pairs = [(name, setting, actual) for (name, actual), setting in zip(tile_of(times), s.tile) if actual < setting]
    share = f"the share of each of {s.streams} streams" if s.streams > 1 else "the most that is left"
    return "".join(f" tile.{name} is {setting}; used: {actual}, {share}." for name, setting, actual in pairs)


def limit_of(times: Schedule) -> tuple[str, float | None]:
    """What limits a request, in words, and the share of its latency that improving that saves; None: no family tries.

    That is what shortens it the most where it is improved, else the resource with most of the time. [-]
    """
    savings = totals(
        (name, share * (run.cost.total_s * run.passes * stage.charge))
        for stage in times.priced
        if (helps := stage.family.helps) is not None
        for run in stage.runs
        for name, share in helps(run.job)
    )
    best = max(savings, key=lambda name: savings[name], default="")
    if best and savings[best] > 0:
        return best, savings[best] / times.latency_s
    return RESOURCE_NAMES[times.bound_by], None


def _times(ratio: float) -> str:
    return f"{100 * ratio:.0f}%" if ratio < 100 else f"{amount(ratio, '').strip()} times"


def problems_of(times: Schedule, memory: Sequence[MemoryRow], continuous: Continuous | None) -> tuple[str, ...]:
    """What does not fit, and limits that are missed, a sentence each; ``continuous``: under continuous batching."""
    problems, limits, price = [], times.bound.scenario.limits, times.account.price_usd
    how = ", one request at a time" if times.bound.family.in_turn else ", continuous batching"
    for row in memory:
        if not row.fits:
            ratio, unit = bytes_(row.need_bytes, row.capacity_bytes)
            short = amount(row.need_bytes - row.capacity_bytes, "B")
            where = f"{level_name(row.level)} on {row.device}"
            problems.append(
                f"Does not fit: {where} is {short} short; {row.holds} need {ratio} {unit} "
                f"({_times(row.need_bytes / row.capacity_bytes)})."
            )
    for text, unit, limit, value, basis in (
        ("TTFT limit missed", "s", limits.ttft_s, continuous.ttft_s if continuous else None, how),
        ("TPOT limit missed", "s", limits.tpot_s, continuous.tpot_s if continuous else None, how),
        ("Latency limit missed", "s", limits.latency_s, times.latency_s, ""),
        ("Power limit exceeded", "W", limits.power_w, times.figure("power_w"), ""),
    ):
        if limit is not None and value is not None and value > limit:
            problems.append(f"{text}: {amount(value, unit)} > {amount(limit, unit)}{basis}.")
    if limits.capex_usd is not None and price is not None and price > limits.capex_usd:
        problems.append(f"Budget exceeded: ${price:,.0f} > ${limits.capex_usd:,.0f}.")
    return tuple(problems)


def unchecked(times: Schedule, continuous: Continuous | None) -> tuple[str, ...]:
    """A sentence for each limit on a figure that the scenario has not; ``continuous``: under continuous batching."""
    limits, tokens = times.bound.scenario.limits, "this request makes no tokens one by one"
    rows = (
        ("TTFT", limits.ttft_s, continuous, tokens),
        ("TPOT", limits.tpot_s, continuous, tokens),
        ("power", limits.power_w, times.figure("power_w"), "no power is known of this system"),
        ("price", limits.capex_usd, times.account.price_usd, "no price is known of this system"),
    )
    missing = ((name, why) for name, limit, figure, why in rows if limit is not None and figure is None)
    return tuple(f"Not checked: the limit on {name}, as {why}." for name, why in missing)


def _headline(times: Schedule) -> str:
    ttft, tpot, s, graph = times.figure("ttft_s"), times.figure("tpot_s"), times.bound.scenario, times.bound.graph
    if ttft is not None and tpot is not None:
        return f"TTFT {amount(ttft, 's')}, TPOT {amount(tpot, 's')}, {amount(times.latency_s, 's')} end to end"
    whole = f"batch of {s.batch}" if s.batch > 1 else "request" if graph.causal else graph.unit
    if times.batches > 1:
        whole = f"request of {s.inputs:,} items in {times.batches:.0f} batches"
    return f"{amount(times.latency_s, 's')} per {whole}"


def _fit(bound: Bound, memory: Sequence[MemoryRow], latency_s: float) -> str:
    """What overflows a memory, else what fills one most."""
    over = next((m for m in memory if m.rest and m.need_bytes > m.capacity_bytes), None)
    if over is not None:
        ratio, unit = bytes_(over.need_bytes, over.capacity_bytes)
        return (
            f" Overflows {level_name(over.level)}: {ratio} {unit} per device; the rest streams from "
            f"{level_name(over.rest)}. {enough_devices(bound, latency_s) or ''}".rstrip()
        )
    fitting = [m for m in memory if m.need_bytes > 0 and m.fits and m.need_bytes <= m.capacity_bytes]
    tight = max(fitting, key=lambda m: (m.required, m.need_bytes / m.capacity_bytes), default=None)
    if tight is None:
        return ""
    ratio, unit = bytes_(tight.need_bytes, tight.capacity_bytes)
    return f" {tight.holds[:1].upper()}{tight.holds[1:]} fit, {ratio} {unit} of {level_name(tight.level)} per device."


def verdict(times: Schedule, memory: Sequence[MemoryRow], continuous: Continuous | None) -> tuple[str, str]:
    """The sentence on top of a report without problems, and what it names as the limit."""
    limit, saves = limit_of(times)
    if saves is None:
        share = max(times.breakdown.values()) / times.latency_s if times.latency_s else 0.0
        text = f"**{_headline(times)}**, limited by **{limit}** for {percent(share)} of the time."
    else:
        cut = percent(saves / 10)
        text = f"**{_headline(times)}**, bound by **{limit}**: 10% less time there cuts latency by {cut}."
    text += _fit(times.bound, memory, times.latency_s) + _tile_limits(times)
    if continuous is not None:
        tokens = f"TTFT {amount(continuous.ttft_s, 's')}, TPOT {amount(continuous.tpot_s, 's')}"
        how = "One request at a time" if times.bound.family.in_turn else "Under continuous batching"
        text += f" {how} {tokens}, {amount(continuous.latency_s, 's')} end to end."
    if (power := times.figure("power_w")) is not None:
        limit_text = governed_by(times)
        text += f" {amount(power, 'W')}{f' ({limit_text})' if limit_text is not None else ''}."
    return text + (" No price: a what-if." if without_figure(times.bound.scenario.overrides, "price") else ""), limit
