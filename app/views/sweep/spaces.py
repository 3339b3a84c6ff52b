"""The space of the Sweep page: its axes and objectives, as a token in the address bar (``x``) and as this session's.

The scenario in ``s`` is the point around which the axes turn; limits are the scenario's own. So a link needs both
parameters, and a space opened beside another scenario keeps the axes that exist there.
"""

import math
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from app.shared import formats as fmt
from app.shared import glossary
from app.shared.glossary import Metric, in_text
from app.shared.widgets.choices import remember
from app.views.sweep import axes, texts
from app.views.sweep.axes import AxisRange, Values
from engine.cost.power_and_price import without_power
from engine.cost.report import Report
from engine.resolve.bind import bind
from engine.scenario import Scenario, ScenarioError
from engine.scenario.overrides import without_figure
from engine.scenario.token import boundary, token_of, unpack
from engine.sweep.space import POWERED
from engine.traffic.engines.operating_points import label_of
from engine.traffic.engines.operating_space import GOODPUT, HEAD, TAILS, tail_limits
from hardware_specs.quantity import SpecError

PARAM = "x"
VERSION = 1
LIMIT = 4096  # characters
_JSON_LIMIT = 64 * 1024  # bytes after inflating

_MEANS = {"ttft_s": "Mean TTFT", "tpot_s": "Mean TPOT"}
_SERVING = ("output_tokens_per_s_per_user", "output_tokens_per_s_per_device", *_MEANS, "requests_per_s")
OPERATING = {name: Metric.of(name, label=_MEANS.get(name, "")) for name in _SERVING}
"""Figures of a serving engine's operating point, the two that its front is of first."""


@dataclass(frozen=True)
class PageSpace:
    """Axes in order and up to three objectives, the first two of which are drawn against each other.

    Axes of a tie are set together, first value with first: they make as many designs as one of them. ``tails``: limits
    of operating points at percentiles, as `tail_limits` reads them.
    """

    axes: tuple[tuple[str, Values], ...]
    objectives: tuple[str, ...]
    ties: tuple[tuple[str, ...], ...] = ()
    tails: str = ""

    @property
    def serving(self) -> bool:
        """Whether its designs are operating points of a serving engine."""
        return any(path.startswith(HEAD) for path, _ in self.axes)

    def with_axis(self, path: str, values: Values) -> Self:
        """A copy with one axis set, at its place or at the end."""
        return replace(self, axes=tuple((dict(self.axes) | {path: values}).items()))

    def without(self, path: str) -> Self:
        """A copy that leaves one axis at the scenario's own value."""
        return replace(self.tie(path, None), axes=tuple((p, v) for p, v in self.axes if p != path))

    def tie(self, path: str, partner: str | None) -> Self:
        """A copy with one axis set together with another and what that is tied to, or by itself."""
        ties = [tuple(p for p in tie if p != path) for tie in self.ties]
        old = next((tie for tie in ties if partner in tie), (partner,))
        ties = [tie for tie in ties if tie != old and len(tie) > 1]
        return replace(self, ties=(*ties, (*old, path)) if partner else tuple(ties))

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Paths that are set together, in the axes' order; most stand alone."""
        return tuple(dict.fromkeys(next((tie for tie in self.ties if p in tie), (p,)) for p, _ in self.axes))

    @property
    def size(self) -> int:
        """Designs of the space. [-]"""
        values = dict(self.axes)
        return math.prod(max(len(values[path]) for path in group) for group in self.groups)


def operating(space: PageSpace, scenario: Scenario) -> dict[str, Metric]:
    """The figures of an operating point under the limits of a space and of a scenario."""
    result = dict(OPERATING)
    for limit in tail_limits(space.tails):
        time, metric = TAILS[limit.figure]
        request = time.removeprefix("steady_")
        label = label_of(f"{request}:{metric}")
        result[limit.figure] = Metric(limit.figure, label if request == time else f"Steady {in_text(label)}", "s")
    if space.tails or scenario.limits.ttft_s is not None or scenario.limits.tpot_s is not None:
        result[GOODPUT] = Metric(GOODPUT, "Goodput", "QPS", True)
    return result


def metrics(report: Report) -> dict[str, Metric]:
    """The figures that are known for designs like this one, those to minimise first."""
    names = [name for name in glossary.WORDS["figures"] if getattr(report, name, None) is not None]
    if report.latency_per_unit_s != report.latency_s:
        return {name: Metric.of(name, report.unit) for name in names}
    labels = {"latency_per_unit_s": Metric.of("latency_s").label}
    return {name: Metric.of(name, report.unit, labels.get(name, "")) for name in names if name != "latency_s"}


def figure_names(names: Iterable[str], scenario: Scenario, axes: Iterable[str]) -> list[str]:
    """The figures that designs along those axes have: without money where no list has their hardware, and without power
    where no rule says what their hardware draws."""
    paths = [*scenario.overrides, *axes]
    figures = [name for name in names if "usd" not in name] if without_figure(paths, "price") else list(names)
    return [name for name in figures if name not in POWERED] if without_power(bind(scenario), paths) else figures


def scale(metric: Metric, values: Iterable[float]) -> fmt.Scale:
    """The prefix that suits the middle, on a log scale, of a metric's values."""
    positive = [v for v in values if v > 0]
    return fmt.scale([math.sqrt(min(positive) * max(positive))] if positive else [], metric.unit)


def noun(serving: bool) -> str:
    """What designs are called, or operating points of a serving engine."""
    return "operating points" if serving else "designs"


def write(space: PageSpace) -> str:
    """Token of a space, e.g. ``1z...``."""
    plain = [
        [path, {"from": v.low, "to": v.high, "steps": v.steps, "log": v.log} if isinstance(v, AxisRange) else list(v)]
        for path, v in space.axes
    ]
    data: dict[str, Any] = {"axes": plain, "objectives": list(space.objectives)}
    data |= {name: value for name in ("ties", "tails") if (value := getattr(space, name))}
    return token_of(f"{VERSION}z", data, "space", LIMIT)


def read(token: str) -> PageSpace:
    """Space of a token; ScenarioError in one sentence for anything that is not one."""
    if len(token) > LIMIT:
        raise ScenarioError(texts.SPACE_TOO_LONG.format(count=len(token), most=LIMIT))
    if not token.isascii() or not token[:1].isdigit() or token[1:2] != "z":
        raise ScenarioError(texts.SPACE_DAMAGED)
    if int(token[0]) != VERSION:
        raise ScenarioError(texts.SPACE_VERSION.format(token=token[0], version=VERSION))
    plain = unpack(token[2:], "space", _JSON_LIMIT)
    with boundary(texts.SPACE_NO_AXES):
        return _space(plain)


def _space(plain: Any) -> PageSpace:
    """Space of plain fields; ValueError, TypeError or KeyError where they are not one."""
    rows = {str(path): _values(v) for path, v in plain["axes"]}
    ties = tuple(tuple(str(path) for path in tie) for tie in plain.get("ties", ()))
    paths = [path for tie in ties for path in tie]
    if len(set(paths)) < len(paths) or not set(paths) <= set(rows) or any(len(tie) < 2 for tie in ties):
        raise ScenarioError(texts.SPACE_TIES)
    tail_limits(tails := str(plain.get("tails", "")))
    return PageSpace(tuple(rows.items()), tuple(map(str, plain["objectives"])), ties, tails)


def _values(plain: Any) -> Values:
    if isinstance(plain, dict):
        span = AxisRange(str(plain["from"]), str(plain["to"]), int(plain["steps"]), bool(plain["log"]))
        if not 1 <= span.steps <= axes.MOST_STEPS:
            raise ScenarioError(texts.SPACE_STEPS.format(steps=span.steps, most=axes.MOST_STEPS))
        try:
            axes.values_of(span)
        except SpecError as error:
            raise ScenarioError(str(error)) from None
        return span
    return tuple(plain)


def fitting(space: PageSpace, scenario: Scenario, names: list[str]) -> tuple[PageSpace, list[str]]:
    """The space as it is beside a scenario: axes and objectives that exist there, and the paths that were left out."""
    candidates = axes.candidates(scenario)
    fits: list[tuple[str, Values]] = []
    missing, unset = [], "batch" if space.serving else ""  # an engine sets it from pass to pass
    for path, values in space.axes:
        candidate, valid = candidates.get(path), values
        if candidate is None or bool(candidate.options) == isinstance(values, AxisRange) or path == unset:
            valid = ()
        elif not isinstance(values, AxisRange):
            valid = tuple(v for v in candidate.options if v in values)
        if valid:
            fits.append((path, valid))
        else:
            missing.append(path)
    figures = list(OPERATING) if space.serving else figure_names(names, scenario, dict(fits))
    goals = tuple(dict.fromkeys(o for o in space.objectives if o in figures))[:3]
    ties = tuple(tie for tie in space.ties if not set(tie) & set(missing))
    goals = goals if len(goals) >= 2 else _usual_objectives(figures, dict(fits))
    return replace(space, axes=tuple(fits), objectives=goals, ties=ties), missing


def _usual_objectives(names: list[str], paths: Container[str]) -> tuple[str, ...]:
    """Latency against throughput where batches or streams are in `paths`, else throughput against perf per watt, as
    without them one follows from the other; and what it costs to buy where that is known.
    """
    with_batch = "batch" in paths or "streams" in paths or "throughput_per_w" not in names
    pair = ("latency_per_unit_s", "throughput_per_s") if with_batch else ("throughput_per_s", "throughput_per_w")
    first = [name for name in (*pair, "capex_usd") if name in names]
    return tuple(first) if len(first) >= 2 else tuple(names[:2])


def usual(scenario: Scenario, names: list[str]) -> PageSpace:
    """The first space beside a scenario."""
    space = axes.usual(scenario)
    return PageSpace(tuple(space.items()), _usual_objectives(figure_names(names, scenario, space), space))


class SpaceChoice:
    """The space that the page asks for now, and how a control changes it (in callbacks)."""

    def __init__(self, scenario: Scenario, names: list[str]) -> None:
        """What the address holds beside a scenario whose known figures are `names`; what is wrong with it is said."""
        self.scenario, self.usual, self.wrong = scenario, usual(scenario, names), ""

        def read_here(token: str) -> tuple[PageSpace, str | None]:
            try:
                fits, missing = fitting(read(token), scenario, names)
            except ScenarioError as error:
                self.wrong = texts.SHOWING.format(why=fmt.sentence(error))
                return self.usual, self.wrong
            self.wrong = texts.LEFT_OUT.format(lost=", ".join(missing[:4])) if missing else ""
            return fits if fits.axes else self.usual, self.wrong or None

        self.space, self._set = remember(PARAM, self.usual, read_here, write, f"{scenario.system}/{scenario.workload}")

    def choose(self, space: PageSpace) -> None:
        """Make a space the session's."""
        self.space = space
        self._set(space)
