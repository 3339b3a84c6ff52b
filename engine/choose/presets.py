"""Questions worth asking first: one for each document, and today's."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.choose.question import Question, question_of
from engine.scenario import ScenarioError
from entries.files import load_yaml


@dataclass(frozen=True)
class PresetQuestion:
    """A named question; `document` is the one whose workload it asks about, empty for today's."""

    id: str
    title: str
    document: str
    fields: Mapping[str, Any]

    @property
    def question(self) -> Question:
        """The full question."""
        return question_of(self.fields)


def _listed() -> Mapping[str, PresetQuestion]:
    rows = load_yaml(Path(__file__).with_suffix(".yaml").read_bytes())
    return MappingProxyType({id: PresetQuestion(id, **row) for id, row in rows.items()})


QUESTIONS = _listed()
"""Questions by id, as `presets.yaml` lists them."""


def question(id: str) -> Question:
    """Question of that id; ScenarioError lists the known ones."""
    if id not in QUESTIONS:
        raise ScenarioError(f"question {id[:60]!r} is not known; known: {', '.join(QUESTIONS)}")
    return QUESTIONS[id].question
