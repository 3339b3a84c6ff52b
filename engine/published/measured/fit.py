"""Constants of a part moved to a user's measurements: few, held near the shipped ones, and judged on rows left out.

The fitted part is a device of the user's catalog, in the system it was measured in.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np

from engine.devices import family
from engine.devices.common.setting import Parameter
from engine.published.measured.compare import Row, figures_of
from engine.scenario import ScenarioError
from engine.scenario.files import beside, writable
from entries.schema import InputError
from hardware_specs.catalog import Catalog, spec_text
from hardware_specs.quantity import SpecError, parse
from hardware_specs.schema import Device, System

MIN_ROWS = 4  # rows of a part: three for a constant, and one to leave out
ROWS_EACH = 3  # rows for each constant that may move
MAX_CONSTANTS = 6  # constants that move at all
PRIOR = {"published": 1.25, "calibrated": 1.5, "derived": 1.5, "assumed": 2.0}
"""Factor within which a constant is believed to be known, by its evidence: one standard deviation of its logarithm."""
_NOISE = 0.1  # how far measurements lie from a model that is right: one standard deviation of their logarithm
_OUTLIER = 0.3  # beyond this residual a row pulls no harder
_FOLDS = 5
_STEP = 0.02  # of a logarithm, for slopes
_GAIN = 0.99  # of the error on rows left out that is left when one more constant is worth its place ...
_ALIKE = 0.99  # cosine of the slopes of two constants, from which on rows can't tell them apart
_LEAST_GAIN = 1e-3  # ... and what it must lessen it by at least


@dataclass(frozen=True)
class FittedConstant:
    """A constant before and after, in its own unit."""

    name: str
    unit: str
    before: float
    after: float
    basis: str  # of the value before
    alike: tuple[str, ...] = ()  # constants that would move all rows in the same proportions

    @property
    def factor(self) -> float:
        """After over before. [-]"""
        return self.after / self.before


@dataclass(frozen=True)
class FittedPart:
    """What moved for a part and what it is worth: median absolute errors of the rows used, and of rows left out."""

    device: Device
    system: str
    rows: int
    constants: tuple[FittedConstant, ...]
    before: float
    after: float
    left_out: float
    gain: float  # mean of what a row left out gains, of the size of its logarithm
    doubt: float  # standard error of that mean

    @property
    def helps(self) -> bool:
        """Whether rows left out are met better than before, by more than chance among so few would have it."""
        return bool(self.constants) and self.gain > self.doubt


Predict = Callable[[Mapping[str, float], Sequence[int]], np.ndarray]
"""Values of constants and rows -> each row's logarithm of predicted over measured, the mean over its figures."""


def _parts(rows: Sequence[Row], catalog: Catalog) -> dict[tuple[str, str], list[Row]]:
    """Rows that have a prediction, by their system and its first device."""
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.predicted and row.scenario is not None:
            system = row.scenario.system
            parts.setdefault((system, catalog.system(system).devices[0].device), []).append(row)
    return parts


def _predict(rows: Sequence[Row], catalog: Catalog) -> Predict:
    @cache
    def log_error(at: int, values: tuple[tuple[str, float], ...]) -> float:
        row = rows[at]
        assert row.scenario is not None
        overrides = row.scenario.overrides | {f"model.{name}": value for name, value in values}
        figures, _, _ = figures_of(replace(row, scenario=row.scenario.with_(overrides=overrides)), catalog)
        return sum(math.log(figures[name] / row.measured[name]) for name in figures) / len(figures)

    def predict(values: Mapping[str, float], index: Sequence[int]) -> np.ndarray:
        return np.array([log_error(at, tuple(sorted(values.items()))) for at in index])

    return predict


@dataclass(frozen=True)
class _Constant:
    """A constant that may move: its value, its believed spread and its range, as logarithms of the ratio to it."""

    parameter: Parameter
    basis: str
    value: float
    spread: float
    low: float
    high: float


def _constants(device: Device, rows: Sequence[Row], catalog: Catalog) -> list[_Constant]:
    """Constants of a part's family that are above 0 and that no row sets for itself.

    A plain number without an upper limit is a count (of a tile's rows, of operators), known from a design: it stays, as
    does what is on or off, or what a field of a scenario sets.
    """
    fam = family(device.kind)
    values = fam.model(device)
    fixed = {path.removeprefix("model.") for row in rows if row.scenario for path in row.scenario.overrides}
    settings = (s for path, knob in fam.fields.items() if path != "runtime" for s in knob.settings.values())
    fixed |= {name for setting in settings for name in setting.parameters}
    constants = []
    for p in fam.parameters:
        value = values[p.name]
        plain = p.unit == "1" and (math.isinf(p.high) or (p.low == 0.0 and value == p.high))
        if value <= 0.0 or p.name in fixed or plain:
            continue
        evidence = device.model[p.name].basis if p.name in device.model else p.basis
        spread = math.log(PRIOR.get(evidence, PRIOR["published"]))
        low = math.log(p.low / value) if p.low > 0.0 else -math.inf
        high = math.log(p.high / value) if p.high < math.inf else math.inf
        constants.append(_Constant(p, evidence, value, spread, low, high))
    return constants


def _weights(residuals: np.ndarray) -> np.ndarray:
    """How hard each row pulls: less the further off it is beyond `_OUTLIER`. [1/variance]"""
    return np.minimum(1.0, _OUTLIER / np.maximum(np.abs(residuals), 1e-12)) / _NOISE**2


def _step(slopes: np.ndarray, residuals: np.ndarray, at: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Where a linear model of the rows is met best with the prior: the new logarithms of the ratios."""
    weight = _weights(residuals)
    normal = slopes.T * weight @ slopes + np.diag(1.0 / spread**2)
    return at - np.linalg.solve(normal, slopes.T @ (weight * residuals) + at / spread**2)


def _cost(residuals: np.ndarray, at: np.ndarray, spread: np.ndarray) -> float:
    """What a fit pays: Huber's loss of the rows and the distance from what was believed."""
    size = np.abs(residuals)
    loss = np.where(size <= _OUTLIER, 0.5 * size**2, _OUTLIER * (size - 0.5 * _OUTLIER))
    return float(loss.sum() / _NOISE**2 + 0.5 * ((at / spread) ** 2).sum())


def _left_out(slopes: np.ndarray, residuals: np.ndarray, spread: np.ndarray) -> float:
    """Mean absolute residual of each row when a linear model is met without it."""
    begin, rows = np.zeros(len(spread)), range(len(residuals))
    shifts = (_step(np.delete(slopes, out, 0), np.delete(residuals, out), begin, spread) for out in rows)
    return float(np.mean([abs(residuals[out] + slopes[out] @ shift) for out, shift in enumerate(shifts)]))


def _choose(slopes: np.ndarray, residuals: np.ndarray, spread: np.ndarray) -> list[int]:
    """Constants that are worth moving, best first: each must lessen the error of rows left out."""
    choice: list[int] = []
    best = float(np.mean(np.abs(residuals)))
    open_ = [j for j in range(slopes.shape[1]) if np.abs(slopes[:, j]).max() > 1e-3]
    while open_ and len(choice) < min(MAX_CONSTANTS, len(residuals) // ROWS_EACH):
        errors = {j: _left_out(slopes[:, [*choice, j]], residuals, spread[[*choice, j]]) for j in open_}
        winner = min(errors, key=lambda j: errors[j])
        if errors[winner] > min(_GAIN * best, best - _LEAST_GAIN):
            break
        best = errors[winner]
        choice.append(winner)
        open_.remove(winner)
    return choice


def _fit_rows(
    predict: Predict, index: Sequence[int], constants: Sequence[_Constant], slopes: np.ndarray, start: np.ndarray
) -> dict[str, float]:
    """Values of the constants worth moving, fitted to some rows with the model itself: Gauss-Newton from the prior."""
    rows = list(index)
    spread = np.array([c.spread for c in constants])
    choice = _choose(slopes[rows], start[rows], spread)
    if not choice:
        return {}
    movable = [constants[j] for j in choice]
    prior, low, high = spread[choice], np.array([c.low for c in movable]), np.array([c.high for c in movable])

    def values(at: np.ndarray) -> dict[str, float]:
        return {c.parameter.name: c.value * math.exp(x) for c, x in zip(movable, at, strict=True)}

    at, residuals, local = np.zeros(len(movable)), start[rows], slopes[rows][:, choice]
    for _ in range(4):
        goal = np.clip(_step(local, residuals, at, prior), low, high)
        cost = _cost(residuals, at, prior)
        for _ in range(4):
            answers = predict(values(goal), rows)
            if _cost(answers, goal, prior) < cost:
                break
            goal = (goal + at) / 2.0
        else:
            break
        converged = np.abs(goal - at).max() < 1e-3
        at, residuals = goal, answers
        if converged:
            break
        for j, step in enumerate(np.where(at + _STEP <= high, _STEP, -_STEP)):  # to the side that the range leaves open
            probe = at + step * (np.arange(len(at)) == j)
            local[:, j] = (predict(values(probe), rows) - residuals) / step
    return values(at)


def fit(system: str, device: Device, rows: Sequence[Row], catalog: Catalog) -> FittedPart:
    """Constants of a part moved to measurements of it, `enough` of them.

    The sum of the rows' squared logarithms of predicted over measured (Huber's loss beyond 30%, noise of 10%) and of
    the constants' distances from their shipped values (`PRIOR`) is made least: the most probable constants. At most one
    constant for three rows moves, the one first that meets rows left out best, and only while those gain. The check
    leaves a fifth of the rows out at a time, chooses and fits anew on the rest, and predicts those left out.
    """
    constants = _constants(device, rows, catalog)
    predict = _predict(rows, catalog)
    index = range(len(rows))
    start = predict({}, index)
    slopes = np.zeros((len(rows), len(constants)))
    for j, c in enumerate(constants):
        step = _STEP if c.high >= _STEP else -_STEP
        with suppress(InputError):  # a value this part may not take: it stays
            slopes[:, j] = (predict({c.parameter.name: c.value * math.exp(step)}, index) - start) / step
    result = _fit_rows(predict, index, constants, slopes, start)
    outside = np.empty(len(rows))
    folds = min(_FOLDS, len(rows))
    for at in range(folds):
        out = [i for i in index if i % folds == at]
        train = [i for i in index if i % folds != at]
        outside[out] = predict(_fit_rows(predict, train, constants, slopes, start), out)
    names, sizes = [c.parameter.name for c in constants], np.linalg.norm(slopes, axis=0)
    parallel = np.abs(slopes.T @ slopes) > _ALIKE * np.outer(sizes, sizes)
    fits = tuple(
        FittedConstant(
            c.parameter.name,
            c.parameter.unit,
            c.value,
            result[c.parameter.name],
            c.basis,
            tuple(name for i, name in enumerate(names) if parallel[at, i] and i != at and sizes[i] > 0.0),
        )
        for at, c in enumerate(constants)
        if c.parameter.name in result
    )
    gains = np.abs(start) - np.abs(outside)
    return FittedPart(
        device,
        system,
        len(rows),
        fits,
        _size(start),
        _size(predict(result, index)),
        _size(outside),
        float(gains.mean()),
        float(gains.std(ddof=1) / math.sqrt(len(rows))),
    )


def _size(residuals: np.ndarray) -> float:
    """Median absolute relative error of logarithms. [-]"""
    return median(abs(math.expm1(r)) for r in residuals.tolist())


def enough(rows: Sequence[Row], catalog: Catalog) -> list[tuple[str, Device, list[Row]]]:
    """Parts with enough rows to fit; ScenarioError where there is none."""
    parts = _parts(rows, catalog)
    rows_of = {part: part_rows for part, part_rows in parts.items() if len(part_rows) >= MIN_ROWS}
    result = [(system, catalog.device(id), part_rows) for (system, id), part_rows in rows_of.items()]
    if not result:
        highest = max(map(len, parts.values()), default=0)
        raise ScenarioError(
            f"--fit needs at least {MIN_ROWS} predicted rows of one part, three for a constant and one to leave out; "
            f"there are {highest}"
        )
    return result


SUFFIX = "-calibrated"
_LONGEST = 63  # characters of an id


def _fit_id(id: str) -> str:
    """Id of what a fit makes of an entry."""
    return f"{id[: _LONGEST - len(SUFFIX)]}{SUFFIX}"


def _number(value: float, unit: str) -> str:
    """A constant as a spec prints it: with its unit where the catalog reads that, in SI in any case."""
    text = f"{value:.6g}"
    try:
        return f"{text} {unit}" if unit != "1" and parse(f"1 {unit}") == (1.0, unit) else text
    except SpecError:
        return text


def specs_of(fit: FittedPart, comparison: str, catalog: Catalog) -> tuple[Device, System | None]:
    """The part with its constants moved, and its system around it; None where a part by itself is the system.

    ``comparison``: where the measurements come from, the evidence of every constant that moved.
    """
    device = fit.device
    values = {
        m.name: {
            "value": _number(m.after, m.unit),
            "basis": "calibrated",
            "claims": [comparison],
            "note": f"fitted to {fit.rows} measured rows; before, {m.basis}, it was {m.before:.6g}",
        }
        for m in fit.constants
    }
    data = device.model_dump(mode="json", exclude_defaults=True)
    data |= {"id": _fit_id(device.id), "name": f"{device.name[:100]}, calibrated", "power": data.get("power", {})}
    data["model"] = data.get("model", {}) | values
    part = Device.model_validate(data)
    system = catalog.system(fit.system)
    if catalog.alone(system.id):
        return part, None
    group = system.devices[0].model_copy(update={"device": part.id})
    around = system.model_copy(
        update={
            "id": _fit_id(system.id),
            "name": f"{system.name[:100]}, calibrated",
            "devices": (group, *system.devices[1:]),
            "aliases": (),
        }
    )
    return part, around


def files_of(system: str, device: str, root: Path) -> tuple[Path, Path]:
    """Where a fit is written: the device's file and the system's."""
    return root / "devices" / f"{_fit_id(device)}.yaml", root / "systems" / f"{_fit_id(system)}.yaml"


def write_fit(fit: FittedPart, comparison: str, catalog: Catalog, root: Path, force: bool) -> tuple[str, list[Path]]:
    """Writes the device and its system into a catalog folder; the id of the new system, and the files.

    ScenarioError where a file is there already and ``force`` is not given, or can't be written.
    """
    device, system = specs_of(fit, comparison, catalog)
    at, around = files_of(fit.system, fit.device.id, root)
    texts = {at: spec_text(device)}
    if system is not None:
        texts[around] = spec_text(system)
    for path in texts:
        writable(path, force, folder=True)
    for path, text in texts.items():
        with beside(path) as fresh:
            fresh.write_text(text)
    return (device.id if system is None else system.id), list(texts)
