"""The smallest changes that make a scenario work: one knob at a time, nearest value first, each one evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app import cached, words
from engine.devices.family import Unsupported
from engine.formats import BITS
from engine.scenario import Scenario, ScenarioError, encode

__all__ = ["Fix", "fixes", "neighbours"]


@dataclass(frozen=True)
class Fix:
    """A changed scenario and the change in words."""

    label: str
    scenario: Scenario


def _works(scenario: Scenario) -> bool:
    try:
        return not cached.report(encode(scenario)).problems
    except (ScenarioError, Unsupported):
        return False


def _candidates(s: Scenario) -> Iterator[tuple[str, list[dict]]]:
    """Knob by knob: label of a change and the changes to try, nearest first."""
    offered = cached.options(encode(s))
    counts = [n for n in offered.device_counts if n > s.devices] + sorted(
        (n for n in offered.device_counts if n < s.devices), reverse=True
    )
    shared = [c for c in ("tensor", "tables", "pinned") if c in offered.schemes]
    yield "devices", [{"devices": n} for n in counts]
    yield "both", [{"devices": n, "scheme": c} for n in counts for c in shared if c != s.scheme]
    bits = BITS[s.precision]
    fewer = sorted((f for f in offered.formats if BITS[f] < bits), key=lambda f: -BITS[f])
    yield "precision", [{"precision": f} for f in fewer]
    yield "batch", [{"batch": b} for b in sorted(offered.batches, reverse=True) if b < s.batch]
    yield "streams", [{"streams": s.streams >> i} for i in range(1, s.streams.bit_length())]
    if offered.input_label:
        yield "inputs", [{"inputs": s.inputs >> i} for i in range(1, s.inputs.bit_length())]
    if s.overrides:
        yield "overrides", [{"overrides": {}}]
    if s.tile:
        yield "tile", [{"tile": ()}]


def _said(s: Scenario, change: dict) -> str:
    if change.keys() == {"overrides"}:
        return "Catalog values instead of yours"
    if change.keys() == {"tile"}:
        return "Best tile instead of yours"
    parts = []
    if "devices" in change:
        parts.append(f"{change['devices']} device{'s' if change['devices'] > 1 else ''} instead of {s.devices}")
    if "scheme" in change:
        parts[-1:] = [f"{change['devices']} devices, {words.SCHEMES[change['scheme']].lower()}"]
    if "precision" in change:
        parts.append(f"{words.format_label(change['precision'])} instead of {words.format_label(s.precision)}")
    for name in ("batch", "streams"):
        if name in change:
            parts.append(f"{name.capitalize()} {change[name]} instead of {getattr(s, name)}")
    if "inputs" in change:
        parts.append(f"Input length {change['inputs']} instead of {s.inputs}")
    return ", ".join(parts)


def fixes(scenario: Scenario, most: int = 2) -> list[Fix]:
    """Up to `most` changes of one knob after which no limit is violated; each was evaluated, so it is an estimate."""
    found = []
    for _, changes in _candidates(scenario):
        for change in changes:
            try:
                changed = scenario.with_(**change)
            except ScenarioError:
                continue  # not a valid value of this knob
            if _works(changed):
                found.append(Fix(_said(scenario, change), changed))
                break
        if len(found) == most:
            break
    return found


def neighbours(scenario: Scenario, most: int = 2) -> list[tuple[str, str]]:
    """(system, workload) pairs that can run, nearest to one that can't: its system, then its workload."""
    from engine.choices import why_not
    from hardware_specs.catalog import default_catalog
    from model_zoo.catalog import default_zoo

    zoo = default_zoo()
    family = zoo.workload(scenario.workload).family
    loads = sorted(zoo.ids(), key=lambda id: (zoo.workload(id).family != family, id))
    here = next(((scenario.system, id) for id in loads if why_not(scenario.system, id) is None), None)
    systems = sorted(
        default_catalog().ids("systems"), key=lambda id: (default_catalog().system(id).document is None, id)
    )
    there = next(((id, scenario.workload) for id in systems if why_not(id, scenario.workload) is None), None)
    return [pair for pair in (here, there) if pair][:most]
