"""What a token read and a token written cost apart. Estimates."""

from engine.cost.assemble import Schedule
from engine.cost.figures import YEAR_S
from engine.cost.layout import IDLE


def token_costs(times: Schedule) -> dict[str, float]:
    """Energy and cost of a token read and of one written, apart. [J], [USD]

    Empty where tokens are not read and written one by one, or no power is published. What devices draw anyway and what
    they cost goes by the time that prompts and written tokens take, the rest of the energy by what each does. An
    estimate; the two together are what a request takes.
    """
    s, graph, layout = times.bound.scenario, times.bound.graph, times.layout
    energy, cost, price = (times.figure(name) for name in ("energy_per_unit_j", "usd_per_million", "capex_usd"))
    if not (graph.causal and graph.input_indices.s and any(layout.decode)) or energy is None:
        return {}
    spent, joules = [0.0, 0.0], [0.0, 0.0]  # of prompts, of written tokens
    for i, decode in enumerate(map(bool, layout.decode)):
        seconds, drawn = times.spent(i)
        spent[decode] += seconds
        joules[decode] += drawn
    spent[False] = times.latency_s - spent[True]  # with all that belongs to no pass
    units, idle = times.units, times.global_of(IDLE)
    drawn = [j + idle * t for j, t in zip(joules, spent, strict=True)]
    request_j = energy * units
    result = {}
    for name, decode, tokens in (("input", False, s.inputs), ("output", True, s.outputs)):
        each = s.batch * tokens
        share = drawn[decode] / sum(drawn)
        result[f"energy_per_{name}_token_j"] = share * request_j / each
        if cost is not None and price is not None:
            machine = price / (s.costs.years * YEAR_S * times.requests_per_s * s.costs.utilisation)
            electricity = cost / 1e6 * units - machine
            whole = machine * spent[decode] / times.latency_s + electricity * share
            result[f"usd_per_million_{name}"] = whole / each * 1e6
    return result
