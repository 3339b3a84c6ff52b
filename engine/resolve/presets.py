"""Scenarios worth opening first: at least two per document, its headline among them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from entries.files import load_yaml
from entries.schema import hint


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

    @cached_property
    def scenario(self) -> Scenario:
        """The full scenario."""
        return default_scenario(self.system, self.workload, **self.changes)


PRESETS: Mapping[str, Preset] = {
    id: Preset(id, **row) for id, row in load_yaml(Path(__file__).with_suffix(".yaml").read_bytes()).items()
}
"""Presets by id, as `presets.yaml` lists them."""


def preset(id: str) -> Preset:
    """Preset of that id; ScenarioError lists the known ones."""
    if id not in PRESETS:
        raise ScenarioError(f"preset {id[:60]!r} is not known{hint(id, PRESETS, 'python -m engine list presets')}")
    return PRESETS[id]
