"""Scenarios worth opening first: at least two per document, its headline among them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from entries.files import load_yaml


@dataclass(frozen=True)
class Preset:
    """A named scenario: its pair and what differs from that pair's defaults."""

    id: str
    title: str
    pill: str
    document: str
    system: str
    workload: str
    headline: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    rival: str | None = None  # preset it was compared with

    @property
    def scenario(self) -> Scenario:
        """The full scenario."""
        return _scenario(self.id)


@cache
def _scenario(id: str) -> Scenario:
    p = PRESETS[id]
    changes = dict(p.changes)
    if "switches" in changes:
        base = default_scenario(p.system, p.workload)
        changes["switches"] = dict(base.switches) | changes["switches"]
    return default_scenario(p.system, p.workload, **changes)


def _listed() -> Mapping[str, Preset]:
    rows = load_yaml(Path(__file__).with_suffix(".yaml").read_bytes())
    return MappingProxyType({id: Preset(id, **row) for id, row in rows.items()})


PRESETS = _listed()
"""Presets by id, as `presets.yaml` lists them."""


def preset(id: str) -> Preset:
    """Preset of that id; ScenarioError lists the known ones."""
    if id not in PRESETS:
        raise ScenarioError(f"preset {id[:60]!r} is not known; known: {', '.join(PRESETS)}")
    return PRESETS[id]
