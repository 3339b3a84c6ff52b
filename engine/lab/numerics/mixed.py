"""The mixed-precision search of seed 000: quantise what takes the time, then give precision back where it hurts.

1. Profile: order operators by their time at the reference precision.
2. Lower the fewest operators that cover a share of that time to the lowest rung of a ladder of formats.
3. While the metric's loss on the tuning split exceeds the bound, raise the operator of largest own error a rung.
4. Accept only when the bound also holds on a held-out split; otherwise keep raising.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Step:
    """One move of the search and what the whole network then costs and loses."""

    operator: str
    """Operator moved; ``*`` for the opening move that lowers all chosen ones."""
    precision: str
    own_error: float | None
    """Error of that operator alone in the precision it was moved out of, for which it was picked; None for the opening
    move."""
    tuning_loss: float
    held_out_loss: float | None
    """Loss on the held-out split, measured only when the tuning split met the bound."""
    time_s: float
    """Sum of the operators' times."""


@dataclass(frozen=True)
class MixedPlan:
    """The precision of every operator, the moves that led there, and whether the bound holds on held-out data."""

    precision: Mapping[str, str]
    steps: tuple[Step, ...]
    reference_time: float
    met: bool

    @property
    def time(self) -> float:
        """Sum of the operators' times under the plan. [s]"""
        return self.steps[-1].time_s


def search(
    times: Mapping[str, Mapping[str, float]],
    loss: Callable[[Mapping[str, str], str], float],
    own_error: Callable[[str, str], float],
    *,
    ladder: Mapping[str, Sequence[str]],
    bound: float,
    share: float = 0.95,
    always: Collection[str] = (),
) -> MixedPlan:
    """Find precisions whose loss stays within ``bound`` on tuning and held-out data.

    Parameters
    ----------
    times : seconds of each operator in each format of ``ladder``. [s]
    loss : ``loss(plan, split)`` of the whole network against the reference, split ``tuning`` or ``held_out``; lower is
        better and the reference has none.
    own_error : ``own_error(operator, format)`` with every other operator at the reference.
    ladder : two formats or more by operator, from the cheapest to the reference.
    share : part of the reference time the quantised operators must cover. [-]
    always : operators lowered whatever their time (tables are for their size).
    """
    reference, own_error = {name: rungs[-1] for name, rungs in ladder.items()}, cache(own_error)
    slowest = sorted(times, key=lambda name: -times[name][reference[name]])
    total = sum(times[name][reference[name]] for name in times)
    chosen: list[str] = []
    for name in slowest:
        if sum(times[n][reference[n]] for n in chosen) >= share * total:
            break
        chosen.append(name)
    chosen += [name for name in always if name not in chosen]
    plan = {name: ladder[name][0] if name in chosen else reference[name] for name in times}
    steps: list[Step] = []

    def record(operator: str, error: float | None) -> bool:
        tuning = loss(plan, "tuning")
        test = loss(plan, "held_out") if tuning <= bound else None
        spent = sum(times[name][plan[name]] for name in times)
        precision = "/".join(dict.fromkeys(ladder[n][0] for n in chosen)) if operator == "*" else plan[operator]
        steps.append(Step(operator, precision, error, tuning, test, spent))
        return test is not None and test <= bound

    met = record("*", None)
    while not met:
        lowered = [name for name in times if plan[name] != reference[name]]
        if not lowered:
            break
        worst = max(lowered, key=lambda name: own_error(name, plan[name]))
        error = own_error(worst, plan[worst])
        plan[worst] = ladder[worst][ladder[worst].index(plan[worst]) + 1]
        met = record(worst, error)
    return MixedPlan(dict(plan), tuple(steps), total, met)
