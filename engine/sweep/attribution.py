"""Where a gain between two scenarios comes from, in a way that does not depend on the order of the changes.

Exact shares (Shapley values) of the estimates they divide.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import factorial, fsum

from engine.cost.report import Report
from engine.evaluate import evaluate
from engine.resolve.choices import fit_to_pair, why_not
from engine.scenario import Scenario, ScenarioError
from engine.scenario.fields import GROUPS
from engine.sweep.goals import figure_named

_JOINT = "workload and hardware"  # one change where neither system runs the other's workload


@dataclass(frozen=True)
class Attribution:
    """Shares of a difference: `math.fsum` of them is the difference, to the bit."""

    figure: str
    base: float
    target: float
    shares: Mapping[str, float]  # of each group that differs, in the figure's unit
    evaluations: int


def _between(base: Scenario, target: Scenario, groups: frozenset[str]) -> Report:
    """The base with some groups of the other. What the resulting pair does not offer comes from the other scenario,
    then from the base, then from the pair's defaults, so that every mixture is a scenario that can run."""
    groups |= {"workload", "hardware"} if _JOINT in groups else set()
    source = {field: (target if group in groups else base) for group, fields in GROUPS.items() for field in fields}
    fields = {field: getattr(s, field) for field, s in source.items()}
    blend = base.with_(**fields)
    try:
        return evaluate(blend)
    except ValueError:
        pass
    donor = source["layers"]
    alike = (donor.system, donor.workload) == (blend.system, blend.workload)
    return evaluate(fit_to_pair(blend if alike else blend.with_(layers={}), target, base))


def _exact_shares(shares: Mapping[str, Fraction], difference: float) -> dict[str, float]:
    """Shares as floats whose exactly rounded sum is the difference: the largest takes what rounding left."""
    exact = {name: float(share) for name, share in shares.items()}
    for name in sorted(exact, key=lambda n: -abs(exact[n])):
        for _ in range(4):
            gap = fsum([difference, *(-v for v in exact.values())])
            if fsum(exact.values()) == difference:
                return exact
            exact[name] += gap
    return exact


def attribute(base: Scenario, target: Scenario, figure: str = "latency_s") -> Attribution:
    """The difference of a figure between two scenarios, dealt out to the kinds of change between them.

    A kind's share is its Shapley value: the mean, over all orders in which the changes could be made, of what the
    figure does when that kind is changed. Every mixture of both scenarios is evaluated. Where a mixture names what its
    system does not offer (a precision, a scheme), the nearest choice that exists stands in; where a system can't
    run the other's workload, both are one change. Exact for the model. ScenarioError for a figure that is unknown,
    or not known of one of the systems.
    """
    figure_named(figure, "figure")
    groups = [g for g, fields in GROUPS.items() if any(getattr(base, f) != getattr(target, f) for f in fields)]
    apart = ((base.system, target.workload), (target.system, base.workload))
    if any(why_not(system, workload) for system, workload in apart):
        groups = [_JOINT, *(g for g in groups if g not in ("workload", "hardware"))]
    values: dict[frozenset[str], Fraction] = {}
    for size in range(len(groups) + 1):
        for subset in combinations(groups, size):
            report = _between(base, target, frozenset(subset))
            value = report.figure(figure)
            if value is None:
                raise ScenarioError(f"{figure} is not known for {report.system_name}: it can't be attributed")
            values[frozenset(subset)] = Fraction(value)
    n = len(groups)
    shares: dict[str, Fraction] = {}
    for group in groups:
        peers = [g for g in groups if g != group]
        shares[group] = sum(
            (
                Fraction(factorial(size) * factorial(n - size - 1), factorial(n))
                * (values[frozenset((*subset, group))] - values[frozenset(subset)])
                for size in range(n)
                for subset in combinations(peers, size)
            ),
            Fraction(0),
        )
    first, last = float(values[frozenset()]), float(values[frozenset(groups)])
    return Attribution(figure, first, last, _exact_shares(shares, last - first), len(values))
