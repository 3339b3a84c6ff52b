"""The answer as a table: systems that meet the limits, best first, and those that do not."""

from collections.abc import Sequence
from statistics import median
from typing import Any

import pandas as pd

from app.shared import formats as fmt
from app.shared import glossary
from app.shared.report_tables import columns
from app.views.choose import texts
from engine.choose import Answer, Row
from engine.choose.simulation import load_of, requests_of, scheduler_of
from engine.traffic.engines.calendar import ClosedLoop, usual_requests
from engine.traffic.engines.operating_points import label_of
from engine.traffic.engines.scheduler import POLICIES
from model_zoo.catalog import default_zoo


def money_range(value: float | None, band: float | None) -> str:
    """A cost with its band: as much faster or slower as predictions of the family were off; empty without a price."""
    if value is None:
        return ""
    if band is None:
        return "unvalidated"
    low, high = (fmt.usd(end).removeprefix("$") for end in (value / (1.0 + band), value * (1.0 + band)))
    return f"{low} to {high}"


def meeting(answer: Answer, rows: Sequence[Row]) -> pd.DataFrame:
    """Systems that meet the limits."""
    unit, loads = glossary.rate_unit(answer.unit), [row.load for row in rows if row.load is not None]
    table = {"System": "label", "Configuration": "configuration"}
    if answer.by == "usd_per_hour":
        table |= {"$ per hour": "best.total_usd_per_hour", "Instances": "best.instances"}
        bands = {"Error band": [fmt.band(row.band.relative) for row in rows]}
    else:
        price_unit = unit if answer.cost_unit == answer.unit else "output tokens"
        table |= {f"$/M {price_unit}": "best.usd_per_million"}
        bands = {"Range ($)": [money_range(row.best.usd_per_million, row.band.relative) for row in rows if row.best]}
    wait = {"TPOT p50 ({})": "load.tpot_s s", "TTFT p99 ({})": "load.ttft_s ttft"}
    if not loads:
        wait = {f"{'p99' if _at_random(answer) else 'Latency'} ({{}})": "best.loaded_latency_s s"}
    rates = {"{} per device": f"best.rate_per_device {unit}/s"}
    scales = {"ttft": fmt.scale([median(load.ttft_s for load in loads)], "s")} if loads else {}
    pairs = [(row.report.power_w, row.best.instances) for row in rows if row.report and row.best]
    watts = [power_w and power_w * instances for power_w, instances in pairs]
    power = fmt.scale(watts, "W")
    data = columns(rows, table) | bands | columns(rows, wait | rates, scales)
    data |= {f"Power ({power.unit})": [None if w is None else power(w) for w in watts]}
    data |= columns(rows, {"Price contains": "report.price_of"})
    frame = pd.DataFrame(data | {"vs winner": [f"{texts.TIE if row.tied else ''}{row.reason}" for row in rows]})
    return frame.astype(dict.fromkeys((name for name in frame if name[0] == "$" or "Power" in name), float))


def _at_random(answer: Answer) -> bool:
    """Whether requests come independently of each other, so that a latency is that of 99% of them."""
    q = answer.question
    return q.users is None and (q.latency_s is not None or q.qps is not None)


def request(answer: Answer) -> str:
    """What a request holds: `1 image`, `1,024 + 1,024 tokens`, `64 items`."""
    results = (row.best or row.refusal for row in answer.rows)
    s = next(result for result in results if result).scenario
    graph = default_zoo().graph(s.workload)
    if graph.causal:
        return texts.LENGTHS.format(inputs=f"{s.inputs:,}", outputs=f"{s.outputs:,}")
    count = s.inputs if graph.items else 1
    return fmt.counted(count, answer.unit)


def times(answer: Answer, row: Row) -> list[str]:
    """Times under load, and those of the scenario that opens elsewhere where they are others."""
    best, report = row.best, row.report
    assert best is not None
    assert report is not None
    batch = f"a batch of {best.scenario.batch:,}" if best.scenario.batch > 1 else "a request alone"
    if (load := row.load) is not None:
        first, per_token, whole = map(fmt.seconds, (load.ttft_s, load.tpot_s, load.e2e_s))
        rate = answer.question.qps and fmt.si(answer.question.qps / best.working, "QPS")
        level = rate or fmt.counted(best.clients, "client")
        lines = [texts.SIMULATED.format(load=level, ttft=first, tpot=per_token, latency=whole)]
        if load.goodput_per_s is not None:
            tails = (f"{label_of(name)} {fmt.seconds(value)}" for name, value in load.tails)
            lines.append(", ".join((*tails, texts.GOODPUT.format(rate=fmt.si(load.goodput_per_s, "QPS")))))
        if best.scenario.batch > 1:
            first, per_token, whole = (fmt.seconds(value) for value in (report.ttft_s, report.tpot_s, report.latency_s))
            count = f"{best.scenario.batch:,}"
            lines.append(texts.BATCH_TIMES.format(batch=count, ttft=first, tpot=per_token, latency=whole))
        return lines
    words = [f"{fmt.seconds(report.latency_s)} for {batch} (as Explore)"]
    if _at_random(answer):
        rate = fmt.si(best.rate, f"{glossary.rate_unit(answer.unit)}/s")
        words.insert(0, f"p99 latency {fmt.seconds(best.loaded_latency_s)} at {rate}")
    return words


def plan(row: Row) -> str:
    """Machines and power of a demand and what a failure leaves, or why there is no plan; empty without a demand."""
    if row.plan is None:
        return row.plan_problem and texts.NO_PLAN.format(why=row.plan_problem)
    racks, nodes = fmt.counted(row.plan.racks, "rack"), fmt.counted(row.plan.nodes, "instance")
    text = texts.PLAN.format(nodes=nodes, racks=racks, power=fmt.si(row.plan.mean_w, "W"))
    if row.plan.survives != "none":
        rate = fmt.si(row.plan.degraded_qps, "QPS")
        text += texts.SURVIVES.format(domain=row.plan.survives, spares=row.plan.spare_nodes, rate=rate)
    return text


def load_address(answer: Answer, row: Row) -> dict[str, str]:
    """What the Load page's address says so that it opens with the demand of this row, all of it and an instance's."""
    best, question = row.best, answer.question
    assert best is not None
    query = {"asks": "item"} if row.load is None and best.scenario.batch > 1 else {}
    if question.qps is not None:
        query |= {"load": "open", "qps": repr(question.qps / best.working), "demand": repr(question.qps)}
    elif row.load is not None:
        load = load_of(question, best)
        assert isinstance(load, ClosedLoop)
        query |= {"load": "closed", "clients": str(load.clients), "ramp": repr(load.ramp_s)}
        query |= {"users": str(question.users)} if question.users is not None else {}
        count = requests_of(best)
        query |= {"run-requests": str(count)} if count < usual_requests(load.clients) else {}
    if row.load is not None and (rules := scheduler_of(best)) not in POLICIES.values():
        query["max-seqs"] = str(rules.max_seqs)
    return query


def rows(answer: Answer) -> list[dict[str, Any]]:
    """Every row of a file, SI units in the keys."""
    plain = answer.to_dict()
    formatters = dict.fromkeys(("price_contains", "price_lacks"), ", ".join)
    rows = [{k: formatters.get(k, lambda v: v)(v) for k, v in row.items() if k not in ("front", "plan")}
            | {f"plan_{k}": v for k, v in (row.get("plan") or {}).items()}
            for row in (*plain["rows"], *plain["what_ifs"])]  # fmt: skip
    return [row | {"question": plain["token"]} for row in rows]
