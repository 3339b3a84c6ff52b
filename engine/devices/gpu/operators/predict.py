"""Rows of operators in, predictions out: sorted by part and format, priced by the compiled models, with bands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from engine.devices.gpu.operators.kinds import Kind, expert_kernel, format_key, runtime_of
from engine.devices.gpu.operators.record import NoModel, Part, part_of
from engine.devices.gpu.operators.slots import ANSWER, BOUND, BOUND_BY, BOUNDS, REGIME, REGIMES, SECONDS
from entries.files import load_yaml
from hardware_specs.catalog import default_catalog
from hardware_specs.quantity import SpecError

_OUTSIDE = 1.5  # how much further off, in logarithms, a part that its generation's constants were not fitted on may be


@dataclass(frozen=True)
class Answers:
    """Answers to rows, in their order: times [s], the roof that is highest, a 90% band [s], and why there is none."""

    seconds: np.ndarray
    bound: np.ndarray
    bound_by: np.ndarray  # names
    low: np.ndarray
    high: np.ndarray
    why: np.ndarray  # index into `reasons`
    reasons: tuple[str, ...]  # the first one is empty: predicted


@cache
def bands() -> dict[str, Any]:
    """Measured over predicted at 5% and 95% of the rows left out, by kind, variant and regime."""
    return load_yaml((Path(__file__).parent / "bands.yaml").read_bytes())


@cache
def named_part(name: str) -> Part:
    """The part others may call so, or call its system; NoModel where there is none or none such can be predicted."""
    low, catalog = name.strip().lower(), default_catalog()
    system = catalog.resolve(low)
    try:
        id = low.replace("_", "-").replace(" ", "-") if system == low else catalog.system(system).devices[0].device
        return part_of(catalog.device(id), catalog)
    except SpecError as error:
        raise NoModel(str(error)) from None


def variant_of(kind: Kind, texts: Mapping[str, str]) -> str:
    """Which rows of a kind have a band in common: those of one format and runtime."""
    return f"{format_key(kind, texts)} {runtime_of(texts)}"


def _band(kind: Kind, part: Part, texts: Mapping[str, str], regime: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors on a prediction between which 90% of measurements lie, by what the row's time went on; none where nothing
    like it was measured."""
    if part.kin or (kind.name == "gemm" and format_key(kind, texts) not in part.constants["gemm"]):
        return np.full(regime.shape, np.nan), np.full(regime.shape, np.nan)
    table = bands().get(kind.name, {})
    kernel = {"framework": expert_kernel(part, texts), "kernel": ""} if kind.name == "moe" else {}
    cell = table.get(f"{part.generation} {variant_of(kind, {**texts, **kernel})}", {})
    wide = 1.0 if part.is_measured else _OUTSIDE
    ends = (cell.get(name) or cell.get("all") or table.get("all") or (np.nan, np.nan) for name in REGIMES)
    limits = np.array([(low**wide, high**wide) for low, high in ends])[regime]
    return limits[:, 0], limits[:, 1]


def groups(columns: Sequence[Sequence[str]]) -> tuple[np.ndarray, list[tuple[str, ...]]]:
    """Which rows say the same in all columns: a group's number for each row, and what each group says."""
    rows = list(zip(*columns, strict=True))
    number = {row: i for i, row in enumerate(dict.fromkeys(rows))}
    return np.array([number[row] for row in rows]), list(number)


def predict(
    kind: Kind, texts: Mapping[str, Sequence[str]], numbers: Mapping[str, np.ndarray], cold: bool = False
) -> Answers:
    """Answers to every row: ``texts`` and ``numbers`` are columns of one length, ``device`` among the texts."""
    names = list(texts)
    rows = len(texts["device"])
    group, keys = groups(list(texts.values()))
    places = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    answers = np.full((rows, ANSWER), np.nan)
    low, high = np.full(rows, np.nan), np.full(rows, np.nan)
    why = np.zeros(rows, dtype=np.int64)
    reasons: dict[str, int] = {"": 0}
    for key, at in zip(keys, places, strict=True):
        row = dict(zip(names, key, strict=True))
        try:
            part = named_part(row["device"])
            figures = kind.model(part, row, {name: np.ascontiguousarray(v[at]) for name, v in numbers.items()}, cold)
        except NoModel as error:
            why[at] = reasons.setdefault(str(error), len(reasons))
            continue
        answers[at] = figures
        small, large = _band(kind, part, row, figures[:, REGIME].astype(np.int64))
        low[at], high[at] = figures[:, SECONDS] * small, figures[:, SECONDS] * large
        unseen = at[numbers["gpus"][at] > part.beyond[0]] if "gpus" in numbers else at[:0]
        low[unseen] = high[unseen] = np.nan  # no evidence between nodes
    by = np.where(np.isnan(answers[:, BOUND_BY]), 0.0, answers[:, BOUND_BY]).astype(np.int64)
    words = np.array(BOUNDS, dtype=object)[by]
    words[why > 0] = ""
    return Answers(answers[:, SECONDS], answers[:, BOUND], words, low, high, why, tuple(reasons))
